"""What stands before a model: a model around another one that changes what is asked, shown and answered.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..answers import WrappedAnswer, open_answer
from .base import Middleware

__all__ = ["Middleware", "WrappedAnswer", "open_answer"]
