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
    Growth,
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
    Writing,
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
    from .answers import ChatModel, ChatStream, Partial
    from .client import Fallback, Hooks, Preview, Provider, RequestInfo, extract
    from .config import ProviderConfig
    from .jobs import Answer, BatchJob, JobPausedError, JobSummary, batch
    from .limits import BudgetExceededError, LimitReachedError, LimitStoreError, RateLimiter, Reservation
    from .middleware import Hedge, Mask, Middleware
    from .tools import (
        CallInDoubtError,
        CallJournal,
        FileJournal,
        PendingCall,
        RunEvents,
        ToolResult,
        ToolRun,
        in_thread,
        resume_tools,
        run_tools,
    )
    from .turns import InMemoryTurnStore, Retention, SQLiteTurnStore, TurnCache, TurnStore, ValkeyTurnStore

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AllowedTools",
    "Answer",
    "Attempt",
    "AudioPart",
    "AuthenticationError",
    "BadRequestError",
    "BatchJob",
    "BudgetExceededError",
    "CallInDoubtError",
    "CallJournal",
    "Capabilities",
    "ChatModel",
    "ChatOptions",
    "ChatStream",
    "ConfigError",
    "Cost",
    "EmptyResponseError",
    "Fallback",
    "FileJournal",
    "FilePart",
    "FinishReason",
    "Growth",
    "Hedge",
    "Hooks",
    "ImagePart",
    "InMemoryTurnStore",
    "IncompleteStreamError",
    "InvalidReplyError",
    "InvalidToolArgumentsError",
    "JobPausedError",
    "JobSummary",
    "LimitReachedError",
    "LimitStoreError",
    "Limits",
    "Mask",
    "Message",
    "Messages",
    "Middleware",
    "NamedTool",
    "NotConfiguredError",
    "NotFoundError",
    "Options",
    "Partial",
    "PendingCall",
    "PermissionDeniedError",
    "Preview",
    "Prices",
    "ProtocolError",
    "ProtocolWarning",
    "Provider",
    "ProviderConfig",
    "QuotaExceededError",
    "RateLimitError",
    "RateLimiter",
    "Reply",
    "RequestInfo",
    "Reservation",
    "Retention",
    "RunEvents",
    "SQLiteTurnStore",
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
    "ToolResult",
    "ToolRun",
    "TurnCache",
    "TurnLimitError",
    "TurnStore",
    "UpstreamError",
    "Usage",
    "ValkeyTurnStore",
    "WarningCode",
    "Writing",
    "__version__",
    "assistant",
    "audio",
    "batch",
    "extract",
    "file",
    "image",
    "in_thread",
    "resume_tools",
    "run_tools",
    "system",
    "tool",
    "tool_result",
    "user",
]


_HOMES = {  # what is imported with its first use: the pure core needs no network
    **dict.fromkeys(("ChatModel", "ChatStream", "Partial"), "answers"),
    **dict.fromkeys(("Fallback", "Hooks", "Preview", "Provider", "RequestInfo", "extract"), "client"),
    "ProviderConfig": "config",
    **dict.fromkeys(("Answer", "BatchJob", "JobPausedError", "JobSummary", "batch"), "jobs"),
    **dict.fromkeys(
        ("BudgetExceededError", "LimitReachedError", "LimitStoreError", "RateLimiter", "Reservation"), "limits"
    ),
    **dict.fromkeys(("Hedge", "Mask", "Middleware"), "middleware"),
    **dict.fromkeys(
        (
            "CallInDoubtError",
            "CallJournal",
            "FileJournal",
            "PendingCall",
            "RunEvents",
            "ToolResult",
            "ToolRun",
            "in_thread",
            "resume_tools",
            "run_tools",
        ),
        "tools",
    ),
    **dict.fromkeys(
        ("InMemoryTurnStore", "TurnCache", "TurnStore", "SQLiteTurnStore", "Retention", "ValkeyTurnStore"), "turns"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
