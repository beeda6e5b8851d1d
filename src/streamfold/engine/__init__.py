"""Converts the bytes of a response body to chunks and to the reply, without I/O.

decoder             `StreamDecoder`, which runs all other modules
sse                 converts bytes to server-sent events
response_body       response bodies that aren't an event stream: JSON, a web page, text, an error
pipeline            passes each delta to deduplication, blocks, dialect and accumulator
deduplication       drops texts and SSE events that the server sent twice
blocks              assembles messages that consist of content blocks (Anthropic, Gemini)
output_items        assembles the output items of the Responses API
dialects            finds tool calls and reasoning in the model's text
stop_sequences      ends the response at a stop sequence that the model doesn't support
tool_call_assembly  decides which tool call a delta belongs to
tool_call_delivery  decides which tool calls are delivered at the end
accumulator         converts deltas to chunks and to the reply

Provisional: a minor version of streamfold may change or remove a name of this package without a deprecation.
"""

from ..public_names import set_public_module
from .decoder import StreamDecoder
from .dialects import DIALECTS
from .response_body import NonStreamBody, error_body
from .sse import EventRange, EventScanner, SSEDecoder, body_kind, event_ranges
from .tool_call_assembly import CallMatch, IncomingCall, MatchRule
from .tool_call_delivery import ToolNameMap

__all__ = [
    "DIALECTS",
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
