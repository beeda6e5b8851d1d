"""Types that appear in public signatures, such as message parts, model facts and hook values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ErrorInfo, TimeoutPhase
from ..public_names import import_later, set_public_module
from .chunks import ChunkDetails, ExtraPart, PartRef, StreamChunk, ToolCallDelta, ToolCallUpdate
from .content import (
    AudioPart,
    CacheMark,
    ContentPart,
    FilePart,
    ImagePart,
    MediaPart,
    TextPart,
    audio,
    file,
    image,
    read_cache_control,
    write_part,
)
from .conversation import Compaction, Conversation, read_conversation
from .cost import (
    Cost,
    CostSource,
    Prices,
    has_other_models,
    has_unpriced_tools,
    hour_writes,
    priced_steps,
    unlisted_steps,
)
from .finish_reason import guess_finish_reason, is_truncated
from .hosted_interactions import STEP_MEDIA, STEP_TOOLS, server_call_ids, step_text
from .hosted_openai import PLAIN_ITEMS, arguments_text, item_part
from .hosted_parts import Citation, CitationKind, GeneratedFile, HostedPart, PartKind, TextOffsets, UTF8Offsets
from .hosted_reading import (
    PAUSED,
    RESPONSE_STATES,
    TURN_EXTRAS,
    call_order,
    continuation_token,
    count_requests,
    hosted_kind,
    hosted_parts,
    is_paused,
    join_extras,
    live_part,
)
from .hosted_tools import (
    CodeExecution,
    CustomTool,
    FileSearch,
    HostedMcpServer,
    HostedTool,
    ServerTool,
    UrlContext,
    WebSearch,
)
from .limits_and_timeouts import Limits, Timeouts
from .mcp_content import mcp_content, mcp_member, mcp_resource, read_mcp_result
from .media_types import audio_format, from_base64, media_type_of, read_data_url, to_base64
from .messages import (
    INSTRUCTION_ROLES,
    Content,
    Message,
    MessageLike,
    Messages,
    Role,
    assistant,
    system,
    tool_result,
    tool_result_content,
    user,
)
from .pydantic_support import OutputType
from .rate_limit import RateLimit, RateLimitResource, RateLimitWindow
from .replies import (
    Attempt,
    FinishReason,
    FixedPricing,
    InvalidReplyError,
    Pricing,
    Reply,
    Timing,
    total_cost,
    total_usage,
)
from .schema_validation import matches_schema, resolve_ref, schema_problems, unwrapped_arguments
from .tool_calls import KINDS, CallKind, InvalidToolArgumentsError, PartialToolCall, PartialUpdate, ToolCall
from .tools import (
    AllowedTools,
    NamedTool,
    NeedsApproval,
    ReadToolChoice,
    Tool,
    ToolChoice,
    ToolLike,
    as_tool,
    as_tools,
    hosted_tool,
    read_tool,
    read_tool_choice,
    read_tools,
    tool,
)
from .usage import Usage
from .warnings import ReplyWarning, WarningCode

if TYPE_CHECKING:
    from ..answers import BackendInfo, ChatParams, ChunkSource, DirectModel, ModelInfo, Partial, Watcher
    from ..client import BatchClient, BatchRequest, RequestInfo
    from ..config import Profile
    from ..engine.dialects import Dialect, DialectContext
    from ..requests import Capabilities, Options, ReasoningEffort, Request, ResponseFormat, Support, TimeoutOptions
    from .incremental_json import IncrementalJSON, PathPattern, path_pattern

__all__ = [
    "Attempt",
    "AudioPart",
    "BackendInfo",
    "BatchClient",
    "BatchRequest",
    "CacheMark",
    "CallKind",
    "Capabilities",
    "ChatParams",
    "ChunkDetails",
    "ChunkSource",
    "ContentPart",
    "CostSource",
    "Dialect",
    "DialectContext",
    "DirectModel",
    "ErrorInfo",
    "FilePart",
    "FixedPricing",
    "ImagePart",
    "MediaPart",
    "Messages",
    "ModelInfo",
    "NeedsApproval",
    "Options",
    "PartRef",
    "Partial",
    "PartialUpdate",
    "Prices",
    "Profile",
    "RateLimit",
    "RateLimitWindow",
    "ReasoningEffort",
    "Request",
    "RequestInfo",
    "ResponseFormat",
    "Role",
    "ServerTool",
    "Support",
    "TextPart",
    "TimeoutOptions",
    "TimeoutPhase",
    "ToolCallUpdate",
    "ToolLike",
    "Watcher",
]

_LATER = {  # imported when they are used: they are defined in upper layers, or most programs don't need them
    "..answers": ("BackendInfo", "ChatParams", "ChunkSource", "DirectModel", "ModelInfo", "Partial", "Watcher"),
    "..client": ("BatchClient", "BatchRequest", "RequestInfo"),
    "..config": ("Profile",),
    "..engine.dialects": ("Dialect", "DialectContext"),
    "..requests": (
        "Capabilities",
        "Options",
        "ReasoningEffort",
        "Request",
        "ResponseFormat",
        "Support",
        "TimeoutOptions",
    ),
    ".incremental_json": ("IncrementalJSON", "PathPattern", "path_pattern"),
}

set_public_module(__name__, [globals()[name] for name in __all__ if name in globals()])


def __getattr__(name: str) -> Any:
    return import_later(__name__, name, _LATER)


def __dir__() -> list[str]:
    return __all__
