"""One fact per object: adapters turn events into deltas, and the engine works on deltas only.

An event becomes as many deltas as it holds facts, in the order reasoning, text, calls, usage, finish; none is dropped,
and none is put together before `tool_call_assembly.py` and `accumulator.py` do it. Values are immutable by convention;
they are made once per token, and a frozen dataclass would take three times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .errors import ErrorInfo, PicklableSlots
from .types import ExtraPart, FinishReason, HostedPart, PartRef, ToolCall, ToolCallDelta, Usage, WarningCode


@dataclass(slots=True)
class TextDelta(PicklableSlots):
    """Visible text: the next piece, or (`whole`) all of its part, or of the answer if it names no part."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class ReasoningDelta(PicklableSlots):
    """Reasoning text. `""` is a fact of its own: the model reasoned, and the server does not show what."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class RefusalDelta(PicklableSlots):
    """Text by which the model declines, on the APIs that keep it apart."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class CallSummary(PicklableSlots):
    """All calls of the answer, as the server repeats them at its end. Each is whole."""

    calls: list[ToolCallDelta]


@dataclass(slots=True)
class ItemSummary(PicklableSlots):
    """All items of the answer, as the server repeats them at its end: the facts of each one."""

    items: list[list[Delta]]


BlockKind: TypeAlias = Literal["text", "reasoning", "call", "other"]


@dataclass(slots=True)
class Block(PicklableSlots):
    """A block of the message begins, on APIs whose messages are lists of blocks. `engine/blocks.py` keeps them.

    Attributes:
        index: the server's key for the block, if it sent a usable one.
        kind: what the block is to the reader: visible text, reasoning, a call, or nothing that is shown.
        value: the block as it came; what goes back into the history is made of it.
        member: the member whose text the reader is shown.
        call: the call that the block is; its arguments count only if no piece brings others.
        write: puts a call that was handed out into a copy of the block, for the history.
        held: the call is known to be the client's only when the message has ended: see `RanOnServer`.
        whole: nothing more of it comes, so that no `BlockEnd` follows.
    """

    index: int | None
    kind: BlockKind
    value: dict[str, Any]
    member: str = ""
    call: ToolCallDelta | None = None
    write: Callable[[dict[str, Any], ToolCall], dict[str, Any]] | None = None
    held: bool = False
    whole: bool = False


@dataclass(slots=True)
class BlockPiece(PicklableSlots):
    """A block grows.

    Attributes:
        index: the key of the block; None: the block that was opened last.
        kind: the kind of block that takes such a piece. A piece that does not fit its block is ignored.
        member: the member of the block that grows.
        how: "append" text to it, "json" to append to the JSON text of its value, "path" to put in a `PathValue`, "add"
            an entry to its list, or "set" it.
        opens: the block to open where none is open that takes the piece.
    """

    index: int | None
    kind: BlockKind
    member: str
    value: Any
    how: Literal["append", "json", "path", "add", "set"] = "append"
    opens: Block | None = None


@dataclass(slots=True)
class BlockEnd(PicklableSlots):
    """A block is complete.

    Attributes:
        index: the key of the block; None: the block that was opened last.
        call: it is that of a call; without an index, of the call that is under way.
    """

    index: int | None
    call: bool = False


@dataclass(slots=True)
class RanOnServer(PicklableSlots):
    """The server ran a call itself and shows the result: the newest such call without one is not the client's.

    Attributes:
        id, name: of the call; the id counts where there is one.
    """

    id: str | None
    name: str | None


@dataclass(slots=True)
class MessageStart(PicklableSlots):
    """The message begins, on APIs that say so. First of its event's deltas: a message may begin only once."""

    id: str | None


@dataclass(slots=True)
class UsageUpdate(PicklableSlots):
    """Members of the usage object, where the server sends it in installments: each replaces what was sent before.

    Attributes:
        members: as sent. Null replaces nothing.
        read: makes a `Usage` of all members that have come. It is called only when somebody wants to know.
        whole: these are all members, and replace all that was sent before.
    """

    members: Mapping[str, Any]
    read: Callable[[dict[str, Any]], Usage]
    whole: bool = False


@dataclass(slots=True)
class ServedBy(PicklableSlots):
    """The model that goes on with the answer: the server has replaced the one that began it."""

    model: str


@dataclass(slots=True)
class ToolRequests(PicklableSlots):
    """How many requests a tool of the provider has made, as the server counts them. A later number replaces it."""

    kind: str
    number: int


@dataclass(slots=True)
class Sequence(PicklableSlots):
    """The number of the event, on the wire that numbers them, or None if it has none. First of the event's deltas."""

    number: int | None


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
    """The server reports an error. `reason`: by a finish reason, so that it takes the place of an earlier one."""

    info: ErrorInfo
    body: Any = None
    reason: bool = False


def unknown_finish(raw: str) -> Warn:
    """Returns the warning for a finish reason that is in no table."""
    return Warn("unknown_finish_reason", f"nobody knows what the finish reason {raw!r} says of the answer")


@dataclass(slots=True)
class Finish(PicklableSlots):
    """Why the model stopped. More may follow: usage, a further reason, on some servers even calls.

    `more`: on this API text and calls may follow as a matter of course.
    """

    reason: FinishReason
    raw: str
    more: bool = False

    @property
    def cut(self) -> bool:
        """Whether the answer was cut off: no other reason that comes later makes it whole again."""
        return self.reason in ("length", "content_filter")


@dataclass(slots=True)
class StreamEnd(PicklableSlots):
    """The server declares the end of the stream."""


@dataclass(slots=True)
class StopSequenceHit(PicklableSlots):
    """The reader ends the answer here, because the model was to stop at a text and could not be told so."""

    text: str


Delta: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallDelta
    | CallSummary
    | ItemSummary
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
