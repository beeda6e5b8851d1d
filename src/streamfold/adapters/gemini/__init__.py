"""The adapter for Gemini's own API."""

from ..google_usage import GEMINI_USAGE
from ..thought_signatures import SIGNATURE, signature_of
from .adapter import GeminiAdapter, GeminiQuirks
from .decode import ABOUT_CANDIDATE, FINISH_REASONS, OTHER_REASONS
from .errors import ERROR_CODES, gemini_error_body, read_google_error
