"""Deltas, the interface between adapters and engine: each delta is one fact of an SSE event.

The deltas of an event are in the order reasoning, text, tool calls, usage, finish. A delta is never changed. A test
checks this, because a frozen dataclass would take three times as long to create.
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
    """Visible text: the next piece, or (`whole`) the complete text of its part or of the response."""

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
    """A refusal, on APIs that separate it from text."""

    text: str
    part: PartRef | None = None
    whole: bool = False


@dataclass(slots=True)
class CallSummary:
    """The final list of complete tool calls."""

    calls: list[ToolCallDelta]


@dataclass(slots=True)
class ItemSummary:
    """The final list of items, each as its deltas."""

    items: list[list[Delta]]


BlockKind: TypeAlias = Literal["text", "reasoning", "call", "other"]


@dataclass(slots=True)
class BlockSummary:
    """The final list of blocks, each as its deltas. Blocks that have already arrived are skipped."""

    blocks: list[tuple[int, list[Delta]]]


@dataclass(slots=True)
class Block:
    """The start of a content block.

    Attributes:
        index: the server's key for the block, if usable.
        value: the block as the server sent it.
        member: the member with the visible text.
        call: the tool call of the block; its arguments count only if no `BlockPiece` has arguments.
        write: writes a delivered tool call into a copy of the block, for the history.
        held: true if only the end of the response shows who runs the tool call: see `RanOnServer`.
        whole: true if the block is complete and no `BlockEnd` follows.
        join: creates the block for the history from its members, including lists that grew.
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
        index: the key of the block; None: the newest block.
        kind: the kind of the block. The piece is ignored if the block has another kind.
        how: "append" to its text, "json" to the JSON text of its value, "path" for a `PathValue`, "add" to a
            list (text is shown), "call" for a `ToolCallDelta` with more of the tool call, or "set".
        opens: the block to start if no open block fits.
    """

    index: int | None
    kind: BlockKind
    member: str
    value: Any
    how: Literal["append", "json", "path", "add", "call", "set"] = "append"
    opens: Block | None = None


@dataclass(slots=True)
class BlockEnd:
    """The end of a block; without an index, of the newest block, or of the open tool call (`call`)."""

    index: int | None
    call: bool = False


@dataclass(slots=True)
class RanOnServer:
    """The server ran a tool call itself: the newest one with this id, or with this name if the id is empty."""

    id: str | None
    name: str | None


@dataclass(slots=True)
class MessageStart:
    """The start of a message: the first delta of its event, and allowed only once."""

    id: str | None


@dataclass(slots=True)
class UsageUpdate:
    """Members of the usage object, which replace earlier values. Null doesn't replace a value.

    Attributes:
        read: creates a `Usage` from all members when it is needed.
        whole: true if this object replaces all earlier members.
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
    """The number of requests that the server made with its own tool. A later number replaces it."""

    kind: str
    number: int


@dataclass(slots=True)
class Sequence:
    """The event's sequence number (the first delta of the event), or the event's id (the last delta).

    Attributes:
        number: the sequence number; only the Responses API has one.
        id: the id that the server accepts to resume a response; "" if this event has no id, None on other APIs.
    """

    number: int | None
    id: str | None = None


@dataclass(slots=True)
class Meta:
    """The id, model and time of the response. The first valid value of each counts.

    Attributes:
        previous: the id of the stored response that this one continues; "" if the server says that it continues none.
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
    """An error of the server. `reason` is its finish reason, which replaces an earlier one."""

    info: ErrorInfo
    body: Any = None
    reason: bool = False


def unknown_finish(raw: str) -> Warn:
    """Returns the warning for an unknown finish reason."""
    return Warn("unknown_finish_reason", f"the finish reason {raw!r} is unknown")


@dataclass(slots=True)
class Finish:
    """The finish reason. Usage, another finish reason or late tool calls may follow; after `more`, text and tool calls
    usually do.

    Attributes:
        continues: the response continues in another HTTP request; `reason` is that of this part alone.
        drops_calls: the response was stopped from outside, so no tool calls are delivered.
    """

    reason: FinishReason
    raw: str
    more: bool = False
    continues: bool = False
    drops_calls: bool = False

    @property
    def cut(self) -> bool:
        """True if the response was truncated; a later finish reason doesn't change that."""
        return is_truncated(self.reason)


@dataclass(slots=True)
class StreamEnd:
    """The explicit end of the stream. With `needs_finish`, a response without a finish reason is incomplete."""

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
