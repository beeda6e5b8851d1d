"""Deltas: the values that adapters decode from SSE events, and from which the engine makes chunks.

An adapter returns the deltas of an event in the order reasoning, text, tool calls, usage, finish reason. A delta is
never changed. A test checks this, because a frozen dataclass would take three times as long to create.
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
    """Visible text: the next piece, or if `whole` is true, the complete text of its part or of the response."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class ReasoningDelta:
    """Reasoning text. `""` means hidden reasoning."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class RefusalDelta:
    """Text with which the model refuses, on APIs that separate it from other text."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class CallSummary:
    """The final list of complete tool calls."""

    calls: list[ToolCallDelta]


@dataclass(slots=True)
class ItemSummary:
    """The final list of output items. Each item is a list of deltas."""

    items: list[list[Delta]]


BlockKind: TypeAlias = Literal["text", "reasoning", "call", "other"]


@dataclass(slots=True)
class BlockSummary:
    """The final list of content blocks. Each block is its index and a list of deltas. The engine skips blocks that have
    already arrived."""

    blocks: list[tuple[int, list[Delta]]]


@dataclass(slots=True)
class Block:
    """The start of a content block.

    Attributes:
        index: the server's number of the block; None if it sends no usable number.
        value: the block as the server sent it.
        member: the name of the field with the visible text.
        call: the tool call of the block. Its arguments are used only if no `BlockPiece` has arguments.
        write: returns the block with the delivered tool call, which the next request sends back.
        held: true if the server may still run the tool call itself (see `RanOnServer`), so that it counts only at the
            end.
        whole: true if the block is complete and no `BlockEnd` follows.
        join: creates the block that the next request sends back, from its fields and the lists that arrived in pieces.
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
    """More content for a block.

    Attributes:
        index: the server's number of the block. None stands for the newest block.
        kind: the kind of the block. The piece is ignored if the block has another kind.
        how: "append" adds to a text, "json" to the JSON text of a value, and "add" to a list. "path" adds a `PathValue`
            to the arguments. "call" has a `ToolCallDelta`. "set" replaces the field.
        opens: the block to start if the start of its block is missing.
    """

    index: int | None
    kind: BlockKind
    member: str
    value: Any
    how: Literal["append", "json", "path", "add", "call", "set"] = "append"
    opens: Block | None = None


@dataclass(slots=True)
class BlockEnd:
    """The end of a block. Without an index, it ends the newest block, or the open tool call if `call` is true."""

    index: int | None
    call: bool = False


@dataclass(slots=True)
class RanOnServer:
    """The server ran a tool call itself: the newest call with this id. If the id is empty, the name decides."""

    id: str | None
    name: str | None


@dataclass(slots=True)
class MessageStart:
    """The start of a message. It is the first delta of its event. A second message in one response is an error."""

    id: str | None


@dataclass(slots=True)
class UsageUpdate:
    """Fields of the usage object. They replace earlier values, but null doesn't replace a value.

    Attributes:
        read: creates a `Usage` from all fields that have arrived.
        whole: true if the fields replace all earlier fields.
    """

    members: Mapping[str, Any]
    read: Callable[[dict[str, Any]], Usage]
    whole: bool = False


@dataclass(slots=True)
class ServedBy:
    """The server continues the response with another model."""

    model: str


@dataclass(slots=True)
class ToolRequests:
    """The number of requests that the server has made with one of its own tools. A later number replaces an earlier
    one."""

    kind: str
    number: int


@dataclass(slots=True)
class Sequence:
    """An event's sequence number, as the first delta of the event, or the event's id, as the last delta.

    Attributes:
        number: the sequence number. Only the Responses API sends one.
        id: the event's id, by which a response can be resumed. "" if this event has no id; None on APIs without event
            ids.
    """

    number: int | None
    id: str | None = None


@dataclass(slots=True)
class Meta:
    """The id, model and creation time of the response. The first valid value of each field is used.

    Attributes:
        previous: the id of the stored response that this response continues; "" if the server says that it continues
            none.
    """

    id: str | None = None
    model: str | None = None
    created: int | float | str | None = None
    previous: str | None = None


@dataclass(slots=True)
class Warn:
    """A warning about the event."""

    code: WarningCode
    detail: str


@dataclass(slots=True)
class Failure:
    """An error that the server sent. `reason` is true if the server sent it as a finish reason, which replaces an
    earlier one."""

    info: ErrorInfo
    body: Any = None
    reason: bool = False


def unknown_finish(raw: str) -> Warn:
    """Returns the warning for an unknown finish reason."""
    return Warn("unknown_finish_reason", f"the finish reason {raw!r} is unknown")


@dataclass(slots=True)
class Finish:
    """The finish reason. Usage, another finish reason or late tool calls may follow. If `more` is true, text and tool
    calls usually follow too.

    Attributes:
        continues: true if the response continues in another HTTP request. `reason` is then the reason of this part.
        drops_calls: true if the response was stopped from outside, for example because it was cancelled. Then no tool
            calls are delivered.
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
    """The server's marker for the end of the stream, such as `[DONE]`. If `needs_finish` is true, a response without a
    finish reason is incomplete."""

    needs_finish: bool = False


@dataclass(slots=True)
class StopSequenceHit:
    """The response ends at a stop sequence that could not be sent to the model."""

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
