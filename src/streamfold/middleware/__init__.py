"""What stands before a model: a model around another one that changes what is sent, shown and answered.

`BaseChatModel` is the base of models that are no provider: it needs `stream` alone.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..answers import BaseChatModel, WrappedAnswer, forward, forward_source, get_model_info
from ..values import set_public_module
from .base import Middleware

__all__ = ["BaseChatModel", "Middleware", "WrappedAnswer", "forward", "forward_source", "get_model_info"]

set_public_module(__name__, [globals()[name] for name in __all__])
