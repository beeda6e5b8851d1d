"""Parses the requests and serializes the responses of a server that offers Anthropic's Messages API."""

from .request import parse_anthropic_request
from .serializer import AnthropicSerializer, anthropic_error_body
