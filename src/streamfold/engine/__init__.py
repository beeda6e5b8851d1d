"""Converts bytes to chunks, without I/O: SSE events, deltas, tool calls, chunks and the reply.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..public_names import set_public_module
from .decoder import StreamDecoder
from .response_body import NonStreamBody, error_body
from .sse import EventRange, EventScanner, SSEDecoder, body_kind, event_ranges
from .tool_call_assembly import CallMatch, IncomingCall, MatchRule
from .tool_call_delivery import ToolNameMap

__all__ = [
    "CallMatch",
    "EventRange",
    "EventScanner",
    "IncomingCall",
    "MatchRule",
    "ToolNameMap",
    "body_kind",
    "event_ranges",
]

set_public_module(__name__, [globals()[name] for name in __all__])
