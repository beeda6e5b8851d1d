"""The async door to language models: streamed text, whole tool calls, one interface for every provider.

provider = Provider.from_config("kimi:kimi-k2.6")
async for chunk in provider.chat_stream("Hello!"):
    print(chunk.delta, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import StreamDecoder
from .errors import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConfigError,
    EmptyResponseError,
    IncompleteStreamError,
    InvalidToolArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
    StreamfoldError,
    UpstreamError,
)
from .messages import Message, assistant, system, tool_result, user
from .tools import AllowedTools, NamedTool, Tool, ToolChoice, tool
from .types import (
    FinishReason,
    Limits,
    ProtocolWarning,
    Reply,
    StreamChunk,
    Timeouts,
    Timing,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from .provider import ChatStream, Provider

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AllowedTools",
    "AuthenticationError",
    "BadRequestError",
    "ChatStream",
    "ConfigError",
    "EmptyResponseError",
    "FinishReason",
    "IncompleteStreamError",
    "InvalidToolArgumentsError",
    "Limits",
    "Message",
    "NamedTool",
    "NotFoundError",
    "PermissionDeniedError",
    "ProtocolError",
    "ProtocolWarning",
    "Provider",
    "QuotaExceededError",
    "RateLimitError",
    "Reply",
    "ServerError",
    "StreamChunk",
    "StreamDecoder",
    "StreamError",
    "StreamfoldError",
    "Timeouts",
    "Timing",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "UpstreamError",
    "Usage",
    "assistant",
    "system",
    "tool",
    "tool_result",
    "user",
]


def __getattr__(name: str) -> Any:
    # The pure core is imported at once; what needs the network is imported with the first use of it.
    if name in ("ChatStream", "Provider"):
        from . import provider

        return getattr(provider, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
