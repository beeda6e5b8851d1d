"""The content of an event, one fact per object: the interface between adapters and engine.

The order of an event's deltas is reasoning, text, calls, usage, finish. Values are immutable by convention; a frozen
dataclass would take three times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .errors import ErrorInfo, PicklableSlots
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
class TextDelta(PicklableSlots):
    """Visible text: the next piece, or (`whole`) all of its part, or of the answer if it names no part."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class ReasoningDelta(PicklableSlots):
    """Reasoning text. `""` means that the model reasoned and the text isn't shown."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class RefusalDelta(PicklableSlots):
    """A refusal, on APIs that separate it from text."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class CallSummary(PicklableSlots):
    """The final list of calls. Each is whole."""

    calls: list[ToolCallDelta]


@dataclass(slots=True)
class ItemSummary(PicklableSlots):
    """The final list of items, as the facts of each."""

    items: list[list[Delta]]


BlockKind: TypeAlias = Literal["text", "reasoning", "call", "other"]


@dataclass(slots=True)
class BlockSummary(PicklableSlots):
    """The final list of blocks, as the deltas of each under its index. Blocks that have arrived are skipped."""

    blocks: list[tuple[int, list[Delta]]]


@dataclass(slots=True)
class Block(PicklableSlots):
    """A content block begins.

    Attributes:
        index: the server's key for the block, if usable.
        value: the block as sent; the history gets a version of it.
        member: the member with the visible text.
        call: the call of the block; its arguments count only if no piece brings others.
        write: puts a delivered call into a copy of the block, for the history.
        held: whether the call is the client's is known only at the end: see `RanOnServer`.
        whole: the block is complete, and no `BlockEnd` follows.
        join: makes the block of its members, for the history; the lists that grew are among them as they grew.
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
class BlockPiece(PicklableSlots):
    """A block grows.

    Attributes:
        index: the key of the block; None: the block that was opened last.
        kind: the kind of block that takes the piece. It is ignored for another block.
        how: "append" to its text, "json" to the JSON text of its value, "path" for a `PathValue`, "add" to a
            list (a text among other content is shown), "call" for a `ToolCallDelta` that says more of the call, or
            "set".
        opens: the block to open if no open one takes the piece.
    """

    index: int | None
    kind: BlockKind
    member: str
    value: Any
    how: Literal["append", "json", "path", "add", "call", "set"] = "append"
    opens: Block | None = None


@dataclass(slots=True)
class BlockEnd(PicklableSlots):
    """A block is complete; without an index, the last one, or the open call (`call`)."""

    index: int | None
    call: bool = False


@dataclass(slots=True)
class RanOnServer(PicklableSlots):
    """The server ran a call itself: the newest one with this id, or without an id, this name."""

    id: str | None
    name: str | None


@dataclass(slots=True)
class MessageStart(PicklableSlots):
    """A message begins. First of its event's deltas; allowed once."""

    id: str | None


@dataclass(slots=True)
class UsageUpdate(PicklableSlots):
    """Members of the usage object, each of which replaces its earlier value. Null replaces nothing.

    Attributes:
        read: makes a `Usage` of all members, when it is needed.
        whole: replaces all earlier members.
    """

    members: Mapping[str, Any]
    read: Callable[[dict[str, Any]], Usage]
    whole: bool = False


@dataclass(slots=True)
class ServedBy(PicklableSlots):
    """The server continues the answer with another model."""

    model: str


@dataclass(slots=True)
class ToolRequests(PicklableSlots):
    """The server's count of requests of its tool. A later number replaces it."""

    kind: str
    number: int


@dataclass(slots=True)
class Sequence(PicklableSlots):
    """The event's sequence number, first of the event's deltas; or its id, the last of them.

    Attributes:
        number: only the Responses API sends one.
        id: by which the server finds the rest of an answer; "" if this event has none. None on other APIs.
    """

    number: int | None
    id: str | None = None


@dataclass(slots=True)
class Meta(PicklableSlots):
    """The id, model and time of the answer, as sent. The first usable value of each counts."""

    id: str | None = None
    model: str | None = None
    created: int | float | str | None = None


@dataclass(slots=True)
class Warn(PicklableSlots):
    """A warning about the event."""

    code: WarningCode
    detail: str


@dataclass(slots=True)
class Failure(PicklableSlots):
    """The server reports an error. `reason`: as a finish reason, which replaces an earlier one."""

    info: ErrorInfo
    body: Any = None
    reason: bool = False


def unknown_finish(raw: str) -> Warn:
    """Returns the warning for an unknown finish reason."""
    return Warn("unknown_finish_reason", f"the finish reason {raw!r} is unknown")


@dataclass(slots=True)
class Finish(PicklableSlots):
    """Why the model stopped. Usage, another reason, or late calls may follow; `more`: text and calls usually do.

    Attributes:
        continues: the answer continues in the response to another request; `reason` is "unknown".
        drops_calls: the answer was ended from outside, so that none of its calls is delivered.
    """

    reason: FinishReason
    raw: str
    more: bool = False
    continues: bool = False
    drops_calls: bool = False

    @property
    def cut(self) -> bool:
        """True if the answer was truncated, which no later reason changes."""
        return is_truncated(self.reason)


@dataclass(slots=True)
class StreamEnd(PicklableSlots):
    """The server declares the end of the stream. `needs_finish`: without a finish reason the answer is incomplete."""

    needs_finish: bool = False


@dataclass(slots=True)
class StopSequenceHit(PicklableSlots):
    """The answer ends at a stop sequence that could not be sent to the model."""

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
