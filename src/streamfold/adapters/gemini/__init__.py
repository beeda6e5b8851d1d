"""Gemini's own API: requests and answers."""

from .adapter import *
from .decode import *
