"""The steps of an answer, as callers receive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .deltas import Call, Extra
from .replies import FinishReason, Usage
from .toolcalls import ToolCall

__all__ = ["ItemChunk", "LateChunk", "SilentChunk", "StreamChunk", "WritingChunk"]


@dataclass(slots=True)
class StreamChunk:
    """One step of an answer. Immutable by convention.

    Attributes:
        delta: the visible text of this step, never reasoning and never markup. May be empty.
        tool_calls: whole calls, on the finished chunk only; None where there are none.
        finished: True exactly once, on the last chunk.
        reasoning: the reasoning text of this step.
        finish_reason: why the model stopped, on the finished chunk only.
        usage: token counts, on the finished chunk only; None if the server sent none.
    """

    delta: str = ""
    tool_calls: list[ToolCall] | None = None
    finished: bool = False
    reasoning: str = ""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None

    @property
    def calls_before(self) -> int:
        """How many tool calls had begun before the text of this step; they are handed out at the end."""
        return 0

    @property
    def signature(self) -> str | None:
        """The provider's signature of the reasoning that ended before this step, where it signs; None otherwise."""
        return next((mark.value for mark in self.marks if mark.name == "signature"), None)

    @property
    def marks(self) -> tuple[Extra, ...]:
        """What came before this step and is neither text nor a call, for writers of the same answer.

        "signature": of the reasoning before it; "block": a block that is not shown, whole; "text_end": a block of text
        ended, with its other members.
        """
        return ()

    @property
    def fragments(self) -> tuple[Call, ...]:
        """Fragments of calls that may be written on, with the option `fragments` alone. See `engine/fragments.py`."""
        return ()

    @property
    def item(self) -> Any:
        """A part of the answer that is neither text nor a call, complete, with the option `fragments` alone."""
        return None


class LateChunk(StreamChunk):
    """A chunk that came after the beginning of a call, or after a mark. Equal to one that says the same.

    Args:
        released: returns the fragments. It is called when somebody asks: most readers only show the text.
    """

    __slots__ = ("_calls_before", "_fragments", "_marks", "_released")

    def __init__(
        self,
        calls_before: int = 0,
        marks: tuple[Extra, ...] = (),
        released: Callable[[], tuple[Call, ...]] | None = None,
        *said: Any,
        **named: Any,
    ) -> None:
        super().__init__(*said, **named)
        self._calls_before = calls_before
        self._marks = marks
        self._released = released
        self._fragments: tuple[Call, ...] | None = None

    @property
    def calls_before(self) -> int:
        return self._calls_before

    @property
    def marks(self) -> tuple[Extra, ...]:
        return self._marks

    @property
    def fragments(self) -> tuple[Call, ...]:
        if self._fragments is None:
            self._fragments = self._released() if self._released else ()
        return self._fragments

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamChunk):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in StreamChunk.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, "StreamChunk", 1)


class SilentChunk(LateChunk):
    """A step without text, for readers that asked for fragments."""

    __slots__ = ()


class ItemChunk(SilentChunk):
    """A step in which a part of another kind was complete, as its server wrote it."""

    __slots__ = ("_item",)

    def __init__(self, item: Any, calls_before: int, marks: tuple[Extra, ...]) -> None:
        super().__init__(calls_before, marks)
        self._item = item

    @property
    def item(self) -> Any:
        return self._item


class WritingChunk(SilentChunk):
    """A step in which a tool call grew.

    Attributes:
        call: 0, 1, 2 in the order in which calls began.
        tool: the name of the tool as far as it is known; None for a call that stands for the answer itself.
        text: the next piece of the arguments.
    """

    __slots__ = ("call", "text", "tool")

    # What every such chunk has in common is not set for each: they are as many as there are pieces of calls.
    delta = reasoning = ""
    tool_calls = finish_reason = usage = None
    finished = False

    def __init__(
        self,
        call: int,
        tool: str | None,
        text: str,
        released: Callable[[], tuple[Call, ...]],
        calls_before: int = 0,
        marks: tuple[Extra, ...] = (),
    ) -> None:
        self.call = call
        self.tool = tool
        self.text = text
        self._released = released
        self._fragments = None
        self._calls_before = calls_before
        self._marks = marks

    def __repr__(self) -> str:
        return f"WritingChunk(call={self.call}, tool={self.tool!r}, text={self.text!r})"
