"""The steps of an answer, as callers receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import PicklableSlots
from .hosted_parts import HostedPart
from .pydantic_support import PydanticField
from .replies import FinishReason
from .tool_calls import CallKind, ToolCall
from .usage import Usage


class PartRef(NamedTuple):
    """Which part of an answer a text belongs to, on APIs that name its parts.

    Attributes:
        output: the position of the item in the answer.
        number: the position of the part in the item.
        form: of reasoning that a server may send twice: as a summary and in full.
    """

    output: int | None = None
    item: str | None = None
    number: int = 0
    form: str = ""


@dataclass(slots=True)
class ToolCallDelta(PydanticField, PicklableSlots):
    """A fragment of a tool call.

    Attributes:
        index: the server's number for the call, if usable.
        id, name: None where this fragment has none.
        arguments: the next piece of the text, or (`whole`) all of it.
        extra: other members that the provider wants back.
        item: the id of the call's item (Responses), or `""` if the server sent none; None on other APIs.
        markup: the model wrote the call into its text.
        ended: the server says that the call is complete (True) or incomplete (False).
        begins: the server says that the call begins here.
        custom: the arguments are free text.
        held: it came before the last finish reason, and was held back until the end of the stream.
    """

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    whole: bool = False
    extra: dict[str, Any] | None = None
    item: str | None = None
    markup: bool = False
    ended: bool | None = None
    begins: bool = False
    custom: bool = False
    held: bool = False

    @property
    def is_empty(self) -> bool:
        """True if the fragment has no content. Some servers send empty ones as keep-alives."""
        return not (self.arguments or self.id or self.name or self.extra)


@dataclass(slots=True)
class ExtraPart(PydanticField, PicklableSlots):
    """A part of the message that is neither text nor a call: an annotation, a piece of audio.

    Attributes:
        whole: `value` is the complete list and replaces earlier values.
        place: its position in the answer, if known.
    """

    name: str
    value: Any
    whole: bool = False
    place: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class ToolCallUpdate(PydanticField, PicklableSlots):
    """A tool call that the model is writing began or grew.

    Attributes:
        number: the position of the call in the order in which calls began.
        tool: the tool's own name, or `""` before it is known; None for a call that carries the answer itself.
        text: the next piece of the arguments.
        id, extra, item: see `ToolCallDelta`.
        in_order: `number` is the final position of the call.
        is_certain: False if the tool isn't declared, or a dialect is still reading the call.
    """

    number: int
    tool: str | None = ""
    text: str = ""
    id: str = ""
    kind: CallKind = "function"
    extra: dict[str, Any] | None = None
    item: str | None = None
    in_order: bool = True
    is_certain: bool = True


@dataclass(slots=True, eq=False)
class ChunkDetails(PydanticField, PicklableSlots):
    """Content of a chunk beside text. Immutable by convention. Its position doesn't count for equality.

    Attributes:
        preceding_calls: how many tool calls had begun before this step.
        marks: see `StreamChunk`.
        call: a tool call that began or grew.
        call_numbers: on the finished chunk, with the option `partial_tool_calls`: `ToolCallUpdate.number` of each of
            its `tool_calls`.
        item: a complete part of the answer that is neither text nor a call.
        hosted: see `StreamChunk`.
        part: the part of the text, where several overlap.
        refusal: the next piece of a refusal, with the option `partial_tool_calls`.
    """

    preceding_calls: int = 0
    marks: tuple[ExtraPart, ...] = ()
    call: ToolCallUpdate | None = None
    call_numbers: tuple[int, ...] = ()
    item: Any = None
    hosted: tuple[HostedPart, ...] = ()
    part: PartRef | None = None
    refusal: str = ""

    @property
    def silent(self) -> bool:
        """True if the chunk has no text."""
        return self.call is not None or self.item is not None or bool(self.hosted) or bool(self.refusal)

    @property
    def is_for_all(self) -> bool:
        """True if readers without the option `partial_tool_calls` get the chunk."""
        return bool(self.hosted) or not self.silent

    def __eq__(self, other: object) -> bool:
        if other is None:  # of a chunk without details
            return not self.silent
        if not isinstance(other, ChunkDetails):
            return NotImplemented
        return (self.call, self.item, self.hosted, self.refusal) == (
            other.call,
            other.item,
            other.hosted,
            other.refusal,
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class StreamChunk(PicklableSlots):
    """One step of an answer. Immutable by convention; it can be copied and pickled.

    `preceding_calls` and `marks` do not count for equality.

    Attributes:
        delta: the visible text of this step. May be empty.
        tool_calls: complete calls, on the finished chunk only; None if there are none.
        finished: True exactly once, on the last chunk.
        reasoning: the reasoning text of this step.
        finish_reason, usage: on the finished chunk only; `usage` is None if the server sent none.
        details: None for plain text.
    """

    delta: str = ""
    tool_calls: list[ToolCall] | None = None
    finished: bool = False
    reasoning: str = ""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    details: ChunkDetails | None = None

    @property
    def preceding_calls(self) -> int:
        """How many tool calls had begun before the text of this step; they are delivered at the end."""
        return 0 if self.details is None else self.details.preceding_calls

    @property
    def signature(self) -> str | None:
        """The provider's signature of the reasoning that ended before this step, if any."""
        return next((mark.value for mark in self.marks if mark.name == "signature"), None)

    @property
    def marks(self) -> tuple[ExtraPart, ...]:
        """Parts before this step that are neither text nor a call.

        "signature" of reasoning, "block" (a whole one that is not shown), "text_end" (other members of a text block).
        """
        return () if self.details is None else self.details.marks

    @property
    def part(self) -> PartRef | None:
        """See `ChunkDetails`."""
        return None if self.details is None else self.details.part

    @property
    def refusal(self) -> str:
        """See `ChunkDetails`."""
        return "" if self.details is None else self.details.refusal

    @property
    def item(self) -> Any:
        """A complete part of the answer that is neither text nor a call, with the option `partial_tool_calls`."""
        return None if self.details is None else self.details.item

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """Progress of the provider's tools, for showing it: once when a tool begins, and again when it is done."""
        return () if self.details is None else self.details.hosted

    @property
    def silent(self) -> bool:
        """True if this step has no text."""
        return self.details is not None and self.details.silent

    def __repr__(self) -> str:
        if self.hosted:
            return f"StreamChunk(hosted={self.hosted!r})"
        if self.details is not None and self.silent:
            return (
                f"StreamChunk(call={self.details.call!r})" if self.item is None else f"StreamChunk(item={self.item!r})"
            )
        names = ("delta", "tool_calls", "finished", "reasoning", "finish_reason", "usage")
        return f"StreamChunk({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
