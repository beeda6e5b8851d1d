"""Gemini's own API: requests and answers, and the same for a server that speaks it to clients."""

from .adapter import GeminiAdapter, GeminiQuirks
from .decode import FINISH_REASONS, OTHER_REASONS
from .emit import Framing, GeminiEmitter
from .errors import google_error, read_google_error
from .overlay import GeminiOverlay
from .parse import parse_conversation, parse_gemini_request
from .signatures import SIGNATURE
from .spelling import camel_case
