"""Wire formats: how a request is written and how an event of the answer is read.

An adapter is a stateless value. Other packages add theirs by an entry point in the group `streamfold.adapters`.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..requests import HistoryRules, Request, Rules
from ..values import (
    Delta,
    ExtraPart,
    Failure,
    Finish,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
    error_info,
    set_public_module,
)
from .base import Adapter, EndpointInfo, Framing, adapter_by_path, find_adapter
from .client_members import (
    CHAT_MEMBERS,
    GEMINI_MEMBERS,
    MESSAGES_MEMBERS,
    RESPONSES_MEMBERS,
    Known,
    MemberFilter,
    chooses_destination,
)
from .openai_request import wants_stream
from .prepared_request import PreparedRequest

__all__ = [  # what an adapter of another package is written with
    "Adapter",
    "Delta",
    "EndpointInfo",
    "ExtraPart",
    "Failure",
    "Finish",
    "Framing",
    "HistoryRules",
    "PreparedRequest",
    "ReasoningDelta",
    "Request",
    "Rules",
    "StreamEnd",
    "TextDelta",
    "ToolCallDelta",
    "UsageUpdate",
    "error_info",
]

set_public_module(__name__, [globals()[name] for name in __all__])
