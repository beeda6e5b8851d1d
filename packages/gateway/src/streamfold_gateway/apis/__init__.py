"""The APIs that clients speak: one module for each, over what all of them share (`base`)."""

from .anthropic import AnthropicAPI, AnthropicCountAPI
from .base import ClientAPI, ClientRequest, ResponseRecorder, Warnings, permitted_members, with_operator_members
from .gemini import GeminiAPI, GeminiCountAPI, GeminiWholeAPI
from .interactions import InteractionsAPI
from .openai import ChatAPI, ResponsesAPI

CLIENT_APIS: tuple[type[ClientAPI], ...] = (
    ChatAPI,
    ResponsesAPI,
    AnthropicAPI,
    AnthropicCountAPI,
    InteractionsAPI,
    GeminiAPI,
    GeminiWholeAPI,
    GeminiCountAPI,
)
