"""Gemini's API for clients: parses requests, serializes answers."""

from .request import parse_gemini_request
from .serializer import GeminiSerializer
