"""Adapters, which encode requests for a provider's API and decode the events of its responses.

An adapter has no state. Other packages can add adapters with an entry point in the group `streamfold.adapters`.

Provisional: a minor version of streamfold may change or remove a name of this package without a deprecation.
"""

from ..deltas import (
    Block,
    BlockEnd,
    BlockPiece,
    BlockSummary,
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
)
from ..errors import error_info
from ..jsontext import as_count, int_or_none, join_surrogates, parse_event, str_or_none
from ..public_names import set_public_module
from ..requests import HistoryRules, Request, Rules
from ..types import ExtraPart, ToolCallDelta
from .base import Adapter, EndpointInfo, Framing, adapter_by_path, find_adapter
from .encoding_report import EncodingReport
from .prepared_request import PreparedRequest

__all__ = [  # the names that adapters of other packages need
    "Adapter",
    "Block",
    "BlockEnd",
    "BlockPiece",
    "BlockSummary",
    "CallSummary",
    "Delta",
    "EncodingReport",
    "EndpointInfo",
    "ExtraPart",
    "Failure",
    "Finish",
    "Framing",
    "HistoryRules",
    "ItemSummary",
    "MessageStart",
    "Meta",
    "PreparedRequest",
    "RanOnServer",
    "ReasoningDelta",
    "RefusalDelta",
    "Request",
    "Rules",
    "Sequence",
    "ServedBy",
    "StopSequenceHit",
    "StreamEnd",
    "TextDelta",
    "ToolCallDelta",
    "ToolRequests",
    "UsageUpdate",
    "Warn",
    "adapter_by_path",
    "as_count",
    "error_info",
    "find_adapter",
    "int_or_none",
    "join_surrogates",
    "parse_event",
    "str_or_none",
]

set_public_module(__name__, [globals()[name] for name in __all__])
