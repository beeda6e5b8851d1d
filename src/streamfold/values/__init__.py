"""The nouns of the library: messages, tools, requests, replies, errors, and the deltas that the engine works on."""

from ..text import partial_value
from .caching import CacheMark, read_cache_control
from .catalogue_path import catalogue_folder
from .chunks import ChunkDetails, StreamChunk
from .config_errors import ConfigError, NotConfiguredError, StreamfoldError
from .content import AudioPart, ContentPart, FilePart, ImagePart, MediaPart, TextPart, audio, file, image, write_part
from .cost import Cost, CostSource, Prices, has_other_models, hour_writes, priced_steps, unlisted_steps
from .deltas import (
    Answered,
    Block,
    BlockEnd,
    BlockKind,
    BlockPiece,
    Call,
    Delta,
    Done,
    Extra,
    Failure,
    Finish,
    MessageStart,
    Meta,
    Part,
    Reasoning,
    Refusal,
    Sequence,
    Served,
    Stopped,
    Summary,
    Text,
    ToolRequests,
    UsageUpdate,
    Warn,
    unknown_finish,
)
from .deprecation import Deprecated, deprecated_name, warn_deprecated
from .error_classification import ErrorMeaning
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
    is_no_answer,
)
from .finish_reason import FinishReason
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
    hosted_kind,
    hosted_parts,
    item_part,
    requests_in,
    shown_part,
)
from .incremental_json import GrowingJSON, PathPattern, path_pattern
from .json_access import (
    ERROR_KEYS,
    amount,
    as_count,
    count,
    count_or_zero,
    index,
    is_done,
    keep,
    unlisted_reason,
    whole_number,
    word,
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
    result_content,
    system,
    tool_result,
    user,
)
from .partial_calls import PartialToolCall, PartialUpdate
from .picklable_errors import PortableError
from .public_module import set_public_module
from .rate_limit import RateLimit, RateLimitResource, RateLimitWindow
from .replies import Attempt, InvalidReplyError, Pricing, Reply, ReplyWarning, Timing, WarningCode, total_cost
from .suggestions import listed, nearest
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
