"""Models around other models: what is asked, what is shown, and what comes out can be changed on the way."""

from .base import *
from .hedge import *
from .mask import *
