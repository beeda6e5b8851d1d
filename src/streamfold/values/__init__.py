"""The nouns of the library: messages, tools, requests, replies, errors, and the deltas that the engine works on."""

from ..text import partial_value
from .caching import CacheMark, read_cache_control
from .catalogue_path import catalogue_folder
from .chunks import ChunkDetails, ExtraPart, PartRef, StreamChunk, ToolCallDelta
from .config_errors import ConfigError, NotConfiguredError, StreamfoldError
from .content import AudioPart, ContentPart, FilePart, ImagePart, MediaPart, TextPart, audio, file, image, write_part
from .cost import Cost, CostSource, Prices, has_other_models, hour_writes, priced_steps, unlisted_steps
from .deltas import (
    Block,
    BlockEnd,
    BlockKind,
    BlockPiece,
    CallSummary,
    Delta,
    Failure,
    Finish,
    ItemSummary,
    MessageStart,
    Meta,
    RanOnServer,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    ServedBy,
    StopSequenceHit,
    StreamEnd,
    TextDelta,
    ToolRequests,
    UsageUpdate,
    Warn,
    unknown_finish,
)
from .deprecation import Deprecated, deprecated_name, warn_deprecated
from .error_classification import ErrorClassification
from .error_info import ErrorInfo, error_info
from .error_variants import status_error, upstream_error
from .errors import (
    APIConnectionError,
    APIError,
    APIErrorDetails,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextLengthError,
    EmptyResponseError,
    IncompleteStreamError,
    ModelNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    ProtocolError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
    TimeoutPhase,
    TurnLimitError,
    UnsupportedOptionError,
    UpstreamError,
    failed_before_answer,
)
from .finish_reason import FinishReason, guess_finish_reason
from .functions import as_tool, as_tools, tool
from .hosted import (
    PAUSED,
    PLAIN_ITEMS,
    Citation,
    CodeExecution,
    CustomTool,
    FileSearch,
    GeneratedFile,
    HostedMcpServer,
    HostedPart,
    HostedTool,
    ServerTool,
    UrlContext,
    WebSearch,
    arguments_text,
    call_order,
    count_requests,
    hosted_kind,
    hosted_parts,
    item_part,
    live_part,
)
from .incremental_json import IncrementalJSON, PathPattern, path_pattern
from .json_access import (
    ERROR_KEYS,
    amount,
    as_count,
    count_or_none,
    count_or_zero,
    int_or_none,
    is_done,
    non_empty,
    str_or_none,
    whole_number,
)
from .limits import Limits, Timeouts
from .media import audio_format, from_base64, media_type_of, read_data_url, to_base64
from .messages import (
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
from .partial_calls import PartialToolCall, PartialUpdate
from .picklable_errors import PicklableError
from .public_module import set_public_module
from .rate_limit import RateLimit, RateLimitResource, RateLimitWindow
from .replies import Attempt, InvalidReplyError, Pricing, Reply, ReplyWarning, Timing, WarningCode, total_cost
from .suggestions import did_you_mean, join_limited
from .tool_calls import KINDS, CallKind, InvalidToolArgumentsError, ToolCall
from .tools import (
    AllowedTools,
    NamedTool,
    NeedsApproval,
    ReadToolChoice,
    Tool,
    ToolChoice,
    ToolLike,
    hosted_tool,
    read_tool,
    read_tool_choice,
)
from .usage import Usage
from .version import __version__
