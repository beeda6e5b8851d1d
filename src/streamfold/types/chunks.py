"""`StreamChunk`, and the values that a chunk can contain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .hosted_parts import HostedPart
from .pydantic_support import PydanticField
from .replies import FinishReason
from .tool_calls import CallKind, ToolCall
from .usage import Usage


class PartRef(NamedTuple):
    """Identifies the part of an answer to which a piece of text belongs, if the API numbers the parts.

    Attributes:
        output: the index of the output item in the response.
        number: the index of the part in its output item.
        form: a word that distinguishes a reasoning summary from the full reasoning text, if a server sends both.
    """

    output: int | None = None
    item: str | None = None
    number: int = 0
    form: str = ""


@dataclass(slots=True)
class ToolCallDelta(PydanticField):
    """A fragment of a tool call.

    Attributes:
        index: the server's index of the tool call, or None if the server sent no valid index.
        id, name: the id and the name of the tool call, or None if the fragment lacks them.
        arguments: the next piece of the arguments' JSON text, or the complete arguments if `whole` is True.
        extra: other fields of the tool call. The provider requires them in later requests.
        item: for the Responses API, the id of the output item that contains the tool call, or `""` if the item has no
            id. None for other APIs.
        markup: True if the model wrote the tool call as markup inside its text.
        ended: True if the server marked the tool call as complete, False if it marked the tool call as incomplete.
            Otherwise None.
        begins: True if the server marked this fragment as the start of a tool call.
        custom: True if the arguments are free text instead of JSON.
        held: True if the fragment arrived before the finish reason, but streamfold delayed it until the end of the
            stream.
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
        """True if the fragment has no content. Some servers send empty fragments as keep-alives."""
        return not (self.arguments or self.id or self.name or self.extra)


@dataclass(slots=True)
class ExtraPart(PydanticField):
    """A part of the model's message that is neither text nor a tool call, such as an annotation or a piece of audio.

    Attributes:
        whole: True if `value` is a complete list that replaces the values received earlier under this name.
        place: the index of the part in the answer, if the API sends an index.
    """

    name: str
    value: Any
    whole: bool = False
    place: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class ToolCallUpdate(PydanticField):
    """A new piece of a tool call that the model is writing.

    Attributes:
        number: the index of the tool call, counted in the order in which the model began the tool calls.
        tool: the tool's name, or `""` if the name hasn't arrived yet. None if the arguments contain a structured
            answer.
        text: the next piece of the arguments.
        id, extra, item: see `ToolCallDelta`.
        in_order: True if `number` is the tool call's final position in the answer.
        is_certain: False if the request has no tool of this name, or if streamfold is still parsing the model's markup
            for the tool call.
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
class ChunkDetails(PydanticField):
    """Contents of a chunk besides its text. Don't modify an instance. `==` ignores `preceding_calls` and `marks`.

    Attributes:
        preceding_calls: the number of tool calls that the model began before this chunk.
        marks: see `StreamChunk`.
        call: a new piece of a tool call, with the option `partial_tool_calls`.
        call_numbers: on the last chunk, the `ToolCallUpdate.number` of each tool call, with the option
            `partial_tool_calls`.
        item: a complete output item that is neither text nor a tool call, with the option `partial_tool_calls`.
        hosted: see `StreamChunk`.
        part: the part of the answer to which the text belongs, if the server sends several parts at the same time.
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
        """True if streams without the option `partial_tool_calls` also yield the chunk."""
        return bool(self.hosted) or not self.silent

    def __eq__(self, other: object) -> bool:
        if other is None:  # the details of a chunk without details
            return not self.silent
        if not isinstance(other, ChunkDetails):
            return NotImplemented
        mine, theirs = ((each.call, each.item, each.hosted, each.refusal) for each in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class StreamChunk:
    """One step of a streamed answer. Don't modify a chunk; chunks can be copied and pickled.

    `==` ignores `preceding_calls` and `marks`.

    Attributes:
        delta: the visible text that is new since the previous chunk, or "".
        tool_calls: the complete tool calls, on the last chunk only. None if the model called no tool.
        finished: True on the last chunk, and on no other chunk.
        reasoning: the reasoning text that is new since the previous chunk.
        finish_reason, usage: set on the last chunk only. `usage` is None if the server sent no token counts.
        details: contents besides the text, or None if the chunk has only text.
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
        """The number of tool calls that the model began before this chunk. The last chunk contains these tool calls."""
        return 0 if self.details is None else self.details.preceding_calls

    @property
    def signature(self) -> str | None:
        """The provider's signature of the reasoning that ended before this chunk, or None."""
        return next((mark.value for mark in self.marks if mark.name == "signature"), None)

    @property
    def marks(self) -> tuple[ExtraPart, ...]:
        """The parts between the previous chunk and this one that are neither text nor tool calls.

        A part with the name "signature" is a signature of the reasoning. A part with the name "block" is a complete
        block without visible text, such as redacted thinking. A part with the name "text_end" contains the other fields
        of a text block.
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
        """A complete output item that is neither text nor a tool call, with the option `partial_tool_calls`."""
        return None if self.details is None else self.details.item

    @property
    def hosted(self) -> tuple[HostedPart, ...]:
        """Progress of hosted tools, for display. There is one part when a hosted tool starts, and one when it has
        finished.
        """
        return () if self.details is None else self.details.hosted

    @property
    def silent(self) -> bool:
        """True if this chunk has no text."""
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
