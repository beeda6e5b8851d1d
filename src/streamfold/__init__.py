"""An async Python client for LLM APIs: streamed text, complete tool calls, one interface for every provider.

provider = Provider.from_config("kimi:kimi-k2.6")
async for chunk in provider.chat_stream("Hello!"):
    print(chunk.delta, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .engine import StreamDecoder
from .errors import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ConfigError,
    ContentFilterError,
    ContextLengthError,
    EmptyResponseError,
    IncompleteStreamError,
    ModelNotFoundError,
    NotConfiguredError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
    StreamfoldError,
    TurnLimitError,
    UnsupportedOptionError,
    UpstreamError,
)
from .public_names import Deprecated, deprecated_name, import_later, set_public_module
from .requests import ChatOptions
from .types import (
    AllowedTools,
    Citation,
    CodeExecution,
    Compaction,
    Conversation,
    Cost,
    CustomTool,
    FileSearch,
    FinishReason,
    GeneratedFile,
    HostedMcpServer,
    HostedPart,
    HostedTool,
    InvalidReplyError,
    InvalidToolArgumentsError,
    Limits,
    Message,
    NamedTool,
    PartialToolCall,
    Reply,
    ReplyWarning,
    StreamChunk,
    Timeouts,
    Timing,
    Tool,
    ToolCall,
    ToolChoice,
    UrlContext,
    Usage,
    WarningCode,
    WebSearch,
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
    from .answers import ChatModel, ChatStream, extract, trim_history
    from .client import Fallback, Hooks, Preview, Provider
    from .config import ProviderConfig
    from .tools import McpTools, ToolResult, ToolRun, run_tools

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AllowedTools",
    "AuthenticationError",
    "BadRequestError",
    "ChatModel",
    "ChatOptions",
    "ChatStream",
    "Citation",
    "CodeExecution",
    "Compaction",
    "ConfigError",
    "ContentFilterError",
    "ContextLengthError",
    "Conversation",
    "Cost",
    "CustomTool",
    "EmptyResponseError",
    "Fallback",
    "FileSearch",
    "FinishReason",
    "GeneratedFile",
    "Hooks",
    "HostedMcpServer",
    "HostedPart",
    "HostedTool",
    "IncompleteStreamError",
    "InvalidReplyError",
    "InvalidToolArgumentsError",
    "Limits",
    "McpTools",
    "Message",
    "ModelNotFoundError",
    "NamedTool",
    "NotConfiguredError",
    "NotFoundError",
    "PartialToolCall",
    "PermissionDeniedError",
    "Preview",
    "ProtocolError",
    "Provider",
    "ProviderConfig",
    "QuotaExceededError",
    "RateLimitError",
    "Reply",
    "ReplyWarning",
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
    "ToolResult",
    "ToolRun",
    "TurnLimitError",
    "UnsupportedOptionError",
    "UpstreamError",
    "UrlContext",
    "Usage",
    "WarningCode",
    "WebSearch",
    "__version__",
    "assistant",
    "audio",
    "extract",
    "file",
    "image",
    "run_tools",
    "system",
    "tool",
    "tool_result",
    "trim_history",
    "user",
]


set_public_module(__name__, [globals().get(name) for name in __all__])

_LATER = {  # imported when they are used: the pure core needs no network
    ".answers": ("ChatModel", "ChatStream", "extract", "trim_history"),
    ".client": ("Fallback", "Hooks", "Preview", "Provider"),
    ".config": ("ProviderConfig",),
    ".tools": ("McpTools", "ToolResult", "ToolRun", "run_tools"),
}

_DEPRECATED: dict[str, Deprecated] = {}  # docs/stability.md says how long they stay


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        return deprecated_name(__name__, name, _DEPRECATED)
    return import_later(__name__, name, _LATER)


def __dir__() -> list[str]:
    return __all__
