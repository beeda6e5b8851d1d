"""The async door to language models: streamed text, whole tool calls, one interface for every provider.

    provider = Provider.from_config("kimi:kimi-k2.6")
    async for chunk in provider.chat_stream("Hello!"):
        print(chunk.delta, end="")
"""

from __future__ import annotations

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
from .tools import NamedTool, Tool, ToolChoice
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
