"""The async door to language models: streamed text, whole tool calls, one interface for every provider.

provider = Provider.from_config("kimi:kimi-k2.6")
async for chunk in provider.chat_stream("Hello!"):
    print(chunk.delta, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .capabilities import Capabilities
from .content import AudioPart, FilePart, ImagePart, TextPart, audio, file, image
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
    InvalidReplyError,
    InvalidToolArgumentsError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
    StreamfoldError,
    TurnLimitError,
    UpstreamError,
)
from .functions import tool
from .hooks import Asked, Hooks
from .messages import Message, assistant, system, tool_result, user
from .tools import AllowedTools, NamedTool, Tool, ToolChoice
from .types import (
    Attempt,
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
    from .fallback import Fallback
    from .loop import ToolRun, in_thread, run_tools
    from .partial import Partial
    from .provider import Provider
    from .stream import ChatStream

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AllowedTools",
    "Asked",
    "Attempt",
    "AudioPart",
    "AuthenticationError",
    "BadRequestError",
    "Capabilities",
    "ChatStream",
    "ConfigError",
    "EmptyResponseError",
    "Fallback",
    "FilePart",
    "FinishReason",
    "Hooks",
    "ImagePart",
    "IncompleteStreamError",
    "InvalidReplyError",
    "InvalidToolArgumentsError",
    "Limits",
    "Message",
    "NamedTool",
    "NotFoundError",
    "Partial",
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
    "TextPart",
    "Timeouts",
    "Timing",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolRun",
    "TurnLimitError",
    "UpstreamError",
    "Usage",
    "assistant",
    "audio",
    "file",
    "image",
    "in_thread",
    "run_tools",
    "system",
    "tool",
    "tool_result",
    "user",
]


def __getattr__(name: str) -> Any:
    # The pure core is imported at once; what needs the network is imported with the first use of it.
    if name == "Provider":
        from .provider import Provider

        return Provider
    if name == "ChatStream":
        from .stream import ChatStream

        return ChatStream
    if name == "Fallback":
        from .fallback import Fallback

        return Fallback
    if name == "Partial":
        from .partial import Partial

        return Partial
    if name in ("ToolRun", "in_thread", "run_tools"):
        from . import loop

        return getattr(loop, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
