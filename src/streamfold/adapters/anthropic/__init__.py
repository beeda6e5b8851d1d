"""The adapter for Anthropic's Messages API."""

from .adapter import AnthropicAdapter, AnthropicQuirks
from .decode import STOP_REASONS, AnthropicEventReader
from .encode import CALL_EXTRAS
