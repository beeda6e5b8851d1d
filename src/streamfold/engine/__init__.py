"""Bytes to chunks, without I/O: events, deltas, calls, and the fold."""

from .call_match import CallMatch, MatchRule
from .decoder import StreamDecoder
from .framing import EventRange, EventScanner, event_ranges
from .incoming_call import IncomingCall
from .response_body import NonStreamBody, error_body
from .rewriter import StreamRewriter
from .sse import SSEDecoder, body_kind
from .tool_call_delivery import ToolNameMap
