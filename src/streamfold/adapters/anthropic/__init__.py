"""Anthropic's Messages API: requests and answers, both ways."""

from .adapter import AnthropicAdapter, AnthropicQuirks
from .decode import STOP_REASONS, AnthropicEventReader
from .parse import parse_anthropic_request, parse_conversation
from .serializer import AnthropicSerializer, anthropic_error_body
