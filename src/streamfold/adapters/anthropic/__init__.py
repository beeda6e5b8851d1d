"""Anthropic's Messages API: requests and answers, both ways."""

from .adapter import AnthropicAdapter, AnthropicQuirks
from .decode import STOP_REASONS, AnthropicEventReader
from .encode import CALL_EXTRAS
