"""Anthropic's Messages API: requests and answers, both ways."""

from .adapter import AnthropicAdapter, AnthropicQuirks
from .decode import STOP_REASONS, EventReader
from .parse import parse_conversation, parse_messages_request
from .serializer import MessagesEmitter, messages_error
from .stream_patcher import MessagesOverlay
