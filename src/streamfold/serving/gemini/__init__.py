"""Parses the requests and serializes the responses of a server that offers Gemini's API."""

from .request import parse_gemini_request
from .serializer import GeminiSerializer
