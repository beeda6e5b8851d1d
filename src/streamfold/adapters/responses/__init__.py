"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import ResponsesAdapter, ResponsesQuirks
from .decode import TEXT_EVENTS, TextEvent
from .output import as_object
