"""Bytes to chunks, without I/O: events, deltas, calls, and the fold."""

from .call_match import Placement, Rule
from .decoder import StreamDecoder
from .framing import EventRange, EventScanner, event_ranges
from .incoming_call import OpenCall
from .response_body import PlainBody, error_body
from .rewriter import Rewriter
from .sse import SSEDecoder, body_kind
from .tool_call_delivery import WireNames
