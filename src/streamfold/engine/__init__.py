"""Converts bytes to chunks, without I/O: SSE events, deltas, tool calls, chunks and the reply.

decoder             `StreamDecoder`, which runs all other modules
sse                 bytes to server-sent events
response_body       bodies that aren't an event stream: JSON, a web page, text, an error
pipeline            passes each delta to deduplication, blocks, dialect and accumulator
deduplication       drops texts and events that were sent twice
blocks              messages of content blocks (Anthropic, Gemini)
output_items        output items of the Responses API
dialects            tool calls and reasoning in the model's text
stop_sequences      ends the answer at a stop sequence that the model doesn't support
tool_call_assembly  decides which tool call a delta belongs to
tool_call_delivery  decides which tool calls are delivered at the end
accumulator         deltas to chunks and to the reply

Provisional: a minor version may change or remove a name without a deprecation.
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
