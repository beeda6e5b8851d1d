"""Deltas: the values to which adapters convert SSE events. The engine converts the deltas to chunks.

An adapter returns the deltas of an SSE event in the order reasoning, text, tool calls, usage, finish reason. No code
may change a delta after its creation. Deltas aren't frozen dataclasses, because those take three times as long to
create. Instead, a test checks this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .errors import ErrorInfo
from .types import (
    ExtraPart,
    FinishReason,
    HostedPart,
    PartRef,
    ToolCall,
    ToolCallDelta,
    Usage,
    WarningCode,
    is_truncated,
)


@dataclass(slots=True)
class TextDelta:
    """Visible text. If `whole` is false, `text` is the next piece. If `whole` is true, `text` is the complete text
    of the content part `part`, or of the response if there is no `part`."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class ReasoningDelta:
    """A piece of reasoning text. `""` means that the model reasons but the server hides the text."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class RefusalDelta:
    """Text with which the model refuses a request, on APIs that send a refusal separately from other text."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class CallSummary:
    """The server's final list of complete tool calls."""

    calls: list[ToolCallDelta]


@dataclass(slots=True)
class ItemSummary:
    """The server's final list of output items. Each item is a list of deltas."""

    items: list[list[Delta]]


BlockKind: TypeAlias = Literal["text", "reasoning", "call", "other"]


@dataclass(slots=True)
class BlockSummary:
    """The server's final list of content blocks. Each entry is the block's index and a list of deltas. The engine
    skips blocks that have already arrived."""

    blocks: list[tuple[int, list[Delta]]]


@dataclass(slots=True)
class Block:
    """The start of a content block.

    Attributes:
        index: the server's number for the block; None if the server sends no usable number.
        value: the block as the server sent it.
        member: the name of the field with the visible text.
        call: the block's tool call. The engine uses this delta's arguments only if no `BlockPiece` contains arguments.
        write: a function that returns the block with the delivered tool call. The next request contains this block.
        held: true if the server may still run the tool call itself (see `RanOnServer`). The engine then processes
            the tool call only at the end of the response.
        whole: true if the block is complete and no `BlockEnd` follows.
        join: a function that gets the block's fields, including the joined pieces, and returns the block for the next
            request.
    """

    index: int | None
    kind: BlockKind
    value: dict[str, Any]
    member: str = ""
    call: ToolCallDelta | None = None
    write: Callable[[dict[str, Any], ToolCall], dict[str, Any]] | None = None
    held: bool = False
    whole: bool = False
    join: Callable[[dict[str, Any]], dict[str, Any]] | None = None


@dataclass(slots=True)
class BlockPiece:
    """More content for a content block.

    Attributes:
        index: the server's number for the block, or None for the newest block.
        kind: the kind of block that the piece belongs to. The engine ignores the piece if the block has another
            kind.
        how: "append" appends to a text, "json" appends to a field's JSON text, and "add" appends to a list.
            "path" adds a `PathValue` to the arguments. "call" means that the value is a `ToolCallDelta`. "set"
            replaces the field.
        opens: the block to start if the event that starts the block is missing.
    """

    index: int | None
    kind: BlockKind
    member: str
    value: Any
    how: Literal["append", "json", "path", "add", "call", "set"] = "append"
    opens: Block | None = None


@dataclass(slots=True)
class BlockEnd:
    """The end of a content block. Without an index, the newest block ends. If `call` is also true, the newest named
    tool call ends instead if it is still open."""

    index: int | None
    call: bool = False


@dataclass(slots=True)
class RanOnServer:
    """Says that the server itself ran a tool call: the newest tool call with this id. If the id is missing here or in
    the tool call, it is the newest tool call with this name."""

    id: str | None
    name: str | None


@dataclass(slots=True)
class MessageStart:
    """The start of a message. An adapter returns it before all other deltas of its SSE event. A second message in one
    response is an error."""

    id: str | None


@dataclass(slots=True)
class UsageUpdate:
    """Fields of the usage object. A field's value replaces the earlier value, except that null never replaces a value.

    Attributes:
        read: a function that creates a `Usage` from all usage fields that have arrived.
        whole: true if the fields replace all earlier fields, also those that are missing here.
    """

    members: Mapping[str, Any]
    read: Callable[[dict[str, Any]], Usage]
    whole: bool = False


@dataclass(slots=True)
class ServedBy:
    """Says that another model continues the response."""

    model: str


@dataclass(slots=True)
class ToolRequests:
    """The number of requests that the server has made with one of its hosted tools. A later number replaces an
    earlier number."""

    kind: str
    number: int


@dataclass(slots=True)
class Sequence:
    """The sequence number or the id of an SSE event. The adapter returns a sequence number before the event's other
    deltas, and an id after them.

    Attributes:
        number: the sequence number. Only the Responses API sends one.
        id: the event's id, with which a client can resume the response. "" if this event has no id; None on APIs
            without event ids.
    """

    number: int | None
    id: str | None = None


@dataclass(slots=True)
class Meta:
    """The id, model and creation time of the response. The engine uses the first valid value of each field.

    Attributes:
        previous: the id of the stored response that this response continues; "" if the server says that this
            response continues no other.
    """

    id: str | None = None
    model: str | None = None
    created: int | float | str | None = None
    previous: str | None = None


@dataclass(slots=True)
class Warn:
    """A warning about the SSE event."""

    code: WarningCode
    detail: str


@dataclass(slots=True)
class Failure:
    """An error that the server sent. `reason` is true if the server sent the error as a finish reason. The error then
    replaces an earlier finish reason."""

    info: ErrorInfo
    body: Any = None
    reason: bool = False


def unknown_finish(raw: str) -> Warn:
    """Returns the warning for an unknown finish reason."""
    return Warn("unknown_finish_reason", f"the finish reason {raw!r} is unknown")


@dataclass(slots=True)
class Finish:
    """The finish reason. Usage, another finish reason or late tool calls may follow. If `more` is true, text and
    tool calls usually follow too.

    Attributes:
        continues: true if the response continues in another HTTP request. `reason` is then the finish reason of
            this part only.
        drops_calls: true if all tool calls must be dropped, because something other than the model stopped the
            response, for example a cancellation.
    """

    reason: FinishReason
    raw: str
    more: bool = False
    continues: bool = False
    drops_calls: bool = False

    @property
    def cut(self) -> bool:
        """True if the response was truncated. A later finish reason doesn't change this."""
        return is_truncated(self.reason)


@dataclass(slots=True)
class StreamEnd:
    """The server's marker for the end of the stream, such as `[DONE]`. If `needs_finish` is true, a response without
    a finish reason is incomplete."""

    needs_finish: bool = False


@dataclass(slots=True)
class StopSequenceHit:
    """The response's text contains a stop sequence that the API doesn't support. streamfold ends the response there."""

    text: str


Delta: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallDelta
    | CallSummary
    | ItemSummary
    | BlockSummary
    | Block
    | BlockPiece
    | BlockEnd
    | RanOnServer
    | MessageStart
    | ExtraPart
    | HostedPart
    | ServedBy
    | ToolRequests
    | Sequence
    | Meta
    | Warn
    | Failure
    | Usage
    | UsageUpdate
    | Finish
    | StreamEnd
    | StopSequenceHit
)
