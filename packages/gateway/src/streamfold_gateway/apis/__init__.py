"""The HTTP APIs that the gateway's clients can use: one module for each API, and their base class in `base`."""

from .anthropic import AnthropicAPI
from .base import (
    APIEndpoint,
    ClientAPI,
    ClientRequest,
    counted_tokens,
    permitted_members,
    with_operator_members,
)
from .gemini import GeminiAPI
from .interactions import InteractionsAPI
from .openai import ChatAPI, ResponsesAPI

CHAT_API = ChatAPI()
RESPONSES_API = ResponsesAPI()
CLIENT_APIS: tuple[ClientAPI, ...] = (CHAT_API, RESPONSES_API, AnthropicAPI(), InteractionsAPI(), GeminiAPI())
