"""Models around other models: what is asked, what is shown, and what comes out can be changed on the way."""

from .base import Middleware
from .hedge import Hedge
from .mask import Mask

__all__ = ["Hedge", "Mask", "Middleware"]
