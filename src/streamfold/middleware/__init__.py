"""What stands before a model: a model around another one that changes what is asked, shown and answered."""

from ..answers import WrappedAnswer, open_answer
from .base import Middleware

__all__ = ["Middleware", "WrappedAnswer", "open_answer"]
