"""Bytes to chunks, without I/O: events, deltas, calls, and the fold."""

from .body import PlainBody, error_body
from .decoder import StreamDecoder
from .finish import WireNames
from .framing import EventRange, EventScanner, event_ranges
from .opencall import OpenCall
from .placement import Placement, Rule
from .rewriter import Rewriter
from .sse import SSEDecoder, body_kind
