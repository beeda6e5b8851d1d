"""The async door to language models: streamed text, whole tool calls, one interface for every provider.

provider = Provider.from_config("kimi:kimi-k2.6")
async for chunk in provider.chat_stream("Hello!"):
    print(chunk.delta, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .engine import StreamDecoder
from .requests import Capabilities, ChatOptions, Options, TimeoutOptions
from .values import (
    AllowedTools,
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    Attempt,
    AudioPart,
    AuthenticationError,
    BadRequestError,
    ConfigError,
    Cost,
    EmptyResponseError,
    FilePart,
    FinishReason,
    ImagePart,
    IncompleteStreamError,
    InvalidReplyError,
    InvalidToolArgumentsError,
    Limits,
    Message,
    Messages,
    NamedTool,
    NotConfiguredError,
    NotFoundError,
    PermissionDeniedError,
    Prices,
    ProtocolError,
    ProtocolWarning,
    QuotaExceededError,
    RateLimitError,
    Reply,
    ServerError,
    StreamChunk,
    StreamError,
    StreamfoldError,
    TextPart,
    Timeouts,
    Timing,
    Tool,
    ToolCall,
    ToolChoice,
    ToolLike,
    TurnLimitError,
    UpstreamError,
    Usage,
    WarningCode,
    __version__,
    assistant,
    audio,
    file,
    image,
    system,
    tool,
    tool_result,
    user,
)

if TYPE_CHECKING:
    from .client import (
        ChatModel,
        ChatStream,
        Fallback,
        Hooks,
        Partial,
        Preview,
        Provider,
        RequestInfo,
        ToolRun,
        in_thread,
        run_tools,
    )
    from .config import ProviderConfig

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AllowedTools",
    "Attempt",
    "AudioPart",
    "AuthenticationError",
    "BadRequestError",
    "Capabilities",
    "ChatModel",
    "ChatOptions",
    "ChatStream",
    "ConfigError",
    "Cost",
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
    "Messages",
    "NamedTool",
    "NotConfiguredError",
    "NotFoundError",
    "Options",
    "Partial",
    "PermissionDeniedError",
    "Preview",
    "Prices",
    "ProtocolError",
    "ProtocolWarning",
    "Provider",
    "ProviderConfig",
    "QuotaExceededError",
    "RateLimitError",
    "Reply",
    "RequestInfo",
    "ServerError",
    "StreamChunk",
    "StreamDecoder",
    "StreamError",
    "StreamfoldError",
    "TextPart",
    "TimeoutOptions",
    "Timeouts",
    "Timing",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolLike",
    "ToolRun",
    "TurnLimitError",
    "UpstreamError",
    "Usage",
    "WarningCode",
    "__version__",
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


_LAZY = (
    "ChatModel",
    "ChatStream",
    "Fallback",
    "Hooks",
    "Partial",
    "Preview",
    "Provider",
    "ProviderConfig",
    "RequestInfo",
    "ToolRun",
    "in_thread",
    "run_tools",
)


def __getattr__(name: str) -> Any:
    # The pure core is imported at once; what needs the network is imported with the first use of it.
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import client, config

    return getattr(config if name == "ProviderConfig" else client, name)


def __dir__() -> list[str]:
    return __all__
