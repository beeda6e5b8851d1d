"""Gemini's own API: requests and answers."""

from .decode import *
