"""Types in public signatures that few programs have to name: parts of messages, facts about models, values of hooks."""

from __future__ import annotations

from ..answers import BackendInfo, ChatParams, ChunkSource, DirectModel, ModelInfo, Partial, Watcher
from ..client import BatchClient, RequestInfo
from ..config import BatchesConfig, CapabilitiesConfig, LimitsConfig, ModelConfig, Profile, RateLimitsConfig
from ..engine.dialects import Dialect, DialectContext
from ..requests import (
    Capabilities,
    Options,
    ReasoningEffort,
    Request,
    ResponseFormat,
    Support,
    TimeoutOptions,
)
from ..values import (
    Attempt,
    AudioPart,
    CacheMark,
    CallKind,
    ChunkDetails,
    CostSource,
    ErrorInfo,
    FilePart,
    ImagePart,
    Messages,
    NeedsApproval,
    PartialUpdate,
    PartRef,
    Prices,
    RateLimit,
    RateLimitWindow,
    Role,
    TextPart,
    TimeoutPhase,
    ToolLike,
    set_public_module,
)

__all__ = [
    "Attempt",
    "AudioPart",
    "BackendInfo",
    "BatchClient",
    "BatchesConfig",
    "CacheMark",
    "CallKind",
    "Capabilities",
    "CapabilitiesConfig",
    "ChatParams",
    "ChunkDetails",
    "ChunkSource",
    "CostSource",
    "Dialect",
    "DialectContext",
    "DirectModel",
    "ErrorInfo",
    "FilePart",
    "ImagePart",
    "LimitsConfig",
    "Messages",
    "ModelConfig",
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
    "RateLimitsConfig",
    "ReasoningEffort",
    "Request",
    "RequestInfo",
    "ResponseFormat",
    "Role",
    "Support",
    "TextPart",
    "TimeoutOptions",
    "TimeoutPhase",
    "ToolLike",
    "Watcher",
]

set_public_module(__name__, [globals()[name] for name in __all__])
