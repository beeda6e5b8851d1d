"""The steps of an answer, as callers receive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import PicklableSlots
from .hosted_parts import HostedPart
from .pydantic_support import PydanticField, wrapping_schema
from .replies import FinishReason
from .tool_calls import CallKind, ToolCall
from .usage import Usage

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo


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

    @property
    def is_empty(self) -> bool:
        """Whether the fragment has no content. Some servers send empty ones as keep-alives."""
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


class ChunkDetails:
    """What a chunk carries beside text. Immutable by convention; its position does not count for equality.

    Attributes:
        preceding_calls: how many tool calls had begun before this step.
        item: a complete part of the answer that is neither text nor a call.
        call: the number of the call that grew, in the order in which calls began.
        tool: the name of its tool; None for a call that carries the answer itself.
        text: the next piece of its arguments.
        part: the part of the text, where several overlap.
        placed: whether `call` is the final position of the call.
        refusal: the next piece of a refusal, with the option `call_deltas`.
    """

    __slots__ = (
        "_fragments",
        "call",
        "hosted",
        "item",
        "kind",
        "marks",
        "part",
        "placed",
        "preceding_calls",
        "refusal",
        "text",
        "tool",
    )

    def __init__(
        self,
        preceding_calls: int = 0,
        marks: tuple[ExtraPart, ...] = (),
        fragments: tuple[ToolCallDelta, ...] | Callable[[], tuple[ToolCallDelta, ...]] = (),
        call: int | None = None,
        tool: str | None = None,
        text: str = "",
        item: Any = None,
        placed: bool = True,
        hosted: tuple[HostedPart, ...] = (),
        kind: CallKind = "function",
        part: PartRef | None = None,
        refusal: str = "",
    ) -> None:
        self.preceding_calls = preceding_calls
        self.marks = marks
        self._fragments = fragments
        self.call = call
        self.tool = tool
        self.text = text
        self.item = item
        self.placed = placed
        self.hosted = hosted
        self.kind = kind
        self.part = part
        self.refusal = refusal

    @property
    def call_deltas(self) -> tuple[ToolCallDelta, ...]:
        """See `StreamChunk.call_deltas`. Made on demand, because most readers only show the text."""
        if callable(self._fragments):
            self._fragments = self._fragments()
        return self._fragments

    @property
    def silent(self) -> bool:
        """Whether the chunk has no text."""
        return self.call is not None or self.item is not None or bool(self.hosted) or bool(self.refusal)

    @property
    def is_for_all(self) -> bool:
        """Whether readers without the option `call_deltas` get the chunk."""
        return bool(self.hosted) or not self.silent

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, inner: Callable[[Any], _Written]) -> ChunkDetails:
            return value if isinstance(value, cls) else inner(value).details()

        def write(value: ChunkDetails, inner: Callable[[_Written], Any], info: SerializationInfo) -> Any:
            return inner(_Written(*value.__reduce__()[1]))

        return wrapping_schema(read, write, handler.generate_schema(_Written))

    def __reduce__(self) -> tuple[Any, ...]:
        # The fragments depend on what was shown before, so a copy has the same ones and makes none.
        place, written = (
            (self.preceding_calls, self.marks, self.call_deltas),
            (self.call, self.tool, self.text, self.item),
        )
        return ChunkDetails, (*place, *written, self.placed, self.hosted, self.kind, self.part, self.refusal)

    def __eq__(self, other: object) -> bool:
        if other is None:  # of a chunk without details
            return not self.silent
        if not isinstance(other, ChunkDetails):
            return NotImplemented
        return self._shown == other._shown

    @property
    def _shown(self) -> tuple[Any, ...]:
        return self.call, self.tool, self.text, self.item, self.hosted, self.refusal

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = [name for name in _Written.__slots__ if name != "partial_tool_calls"]
        return f"ChunkDetails({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


@dataclass(slots=True)
class _Written(PydanticField):
    preceding_calls: int = 0
    marks: tuple[ExtraPart, ...] = ()
    call_deltas: tuple[ToolCallDelta, ...] = ()
    call: int | None = None
    tool: str | None = None
    text: str = ""
    item: Any = None
    placed: bool = True
    hosted: tuple[HostedPart, ...] = ()
    kind: CallKind = "function"
    part: PartRef | None = None
    refusal: str = ""

    def details(self) -> ChunkDetails:
        return ChunkDetails(*(getattr(self, name) for name in self.__slots__))


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
    def call_deltas(self) -> tuple[ToolCallDelta, ...]:
        """Fragments of calls that can be written at once, with the option `call_deltas`."""
        return () if self.details is None else self.details.call_deltas

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
        """A complete part of the answer that is neither text nor a call, with the option `call_deltas`."""
        return None if self.details is None else self.details.item

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """Progress of the provider's tools, for showing it: once when a tool begins, and again when it is done."""
        return () if self.details is None else self.details.hosted

    @property
    def silent(self) -> bool:
        """Whether this step has no text."""
        return self.details is not None and self.details.silent

    def __repr__(self) -> str:
        if self.hosted:
            return f"StreamChunk(hosted={self.hosted!r})"
        if self.details is not None and self.silent:
            written = f"call={self.details.call}, tool={self.details.tool!r}, text={self.details.text!r}"
            return f"StreamChunk({written if self.item is None else f'item={self.item!r}'})"
        names = ("delta", "tool_calls", "finished", "reasoning", "finish_reason", "usage")
        return f"StreamChunk({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
