"""Gemini's own API: requests and answers, and the same for a server that speaks it to clients."""

from .adapter import GeminiAdapter, GeminiQuirks
from .camel_case import camel_case
from .decode import FINISH_REASONS, OTHER_REASONS
from .errors import gemini_error_body, read_google_error
from .parse import parse_conversation, parse_gemini_request
from .serializer import Framing, GeminiSerializer
from .signatures import SIGNATURE
