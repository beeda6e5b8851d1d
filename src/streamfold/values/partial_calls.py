"""What a model is still writing: to be shown, and never to be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text import partial_value
from .tool_calls import CallKind


@dataclass(frozen=True, slots=True)
class PartialToolCall:
    """A tool call that the model is still writing. It is for showing; the call to run is a `ToolCall`, at the end.

    It has no id and can't be parsed as a model, because nobody knows yet whether it will be whole, or be handed out at
    all. Where the server repeats the arguments in other words at the end, those of the `ToolCall` count.

    Attributes:
        name: the name of the tool.
        text: the text of the arguments so far.
        kind: the kind of the call, as in `ToolCall`.
    """

    name: str
    text: str
    kind: CallKind = "function"

    @property
    def value(self) -> Any:
        """The arguments so far, read as far as they go; None before their beginning. Strings grow.

        Those of a custom tool are `{"input": text}`, as in `ToolCall.arguments`.

        All of the text is parsed each time. For a long value, `ChatStream.watch` costs less.
        """
        return {"input": self.text} if self.kind == "custom" else partial_value(self.text)


class PartialUpdate(NamedTuple):
    """How a value grew that the model is writing: see `ChatStream.watch`.

    Attributes:
        path: where the value is: `("files", 0, "content")`.
        delta: the next piece of the value, if it is a string; `""` for any other.
        done: whether the value is complete. Values that are no strings come when they are.
        value: the whole value, once it is complete; None before.
        tool: the tool whose arguments these are; None in a structured answer.
        call: which call of the answer it is, 0 for the first one; None in a structured answer.
    """

    path: tuple[str | int, ...]
    delta: str
    done: bool
    value: Any
    tool: str | None
    call: int | None
