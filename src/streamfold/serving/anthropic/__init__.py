"""Anthropic's Messages API for clients: parses requests, serializes answers."""

from .request import parse_anthropic_request
from .serializer import AnthropicSerializer, anthropic_error_body
