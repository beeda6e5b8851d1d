"""ToolCall, PartialToolCall, PartialUpdate, InvalidToolArgumentsError."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from ..errors import PicklableSlots, StreamfoldError
from ..jsontext import parse_object, partial_value
from .pydantic_support import PydanticField, describe_problems, read_as

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

CallKind: TypeAlias = Literal["function", "custom", "apply_patch", "shell", "computer", "tool_search", "approval"]
KINDS: tuple[CallKind, ...] = get_args(CallKind)


@dataclass(slots=True)
class ToolCall(PydanticField, PicklableSlots):
    """A whole tool call: the stream ended in order before you got to see it.

    Attributes:
        id: the provider's own id, byte for byte. Made up only where the server sent none, or sent one twice.
        name: the tool that the model wants.
        arguments: the arguments, parsed; `{}` if there were none. If the model's text is not a JSON object:
            `{"_raw": text, "_error": "invalid_json"}`, and `error` says so.
        raw_arguments: the model's own text, byte for byte. This is what goes back into the history.
        kind: "function", or the kind of tool that is no function and that your program runs all the same: "custom"
            (`arguments` is `{"input": text}`), "apply_patch", "shell", "computer", "tool_search", or "approval": the
            provider asks whether it may call a tool of an MCP server.
        extra: members of the call that its provider wants back and nobody else knows (Gemini's `extra_content`).
    """

    id: str
    name: str
    arguments: dict[str, Any]
    raw_arguments: str
    extra: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    kind: CallKind = "function"

    @property
    def error(self) -> Literal["invalid_json"] | None:
        """`"invalid_json"` if the arguments could not be parsed, else None."""
        # A model may well write these two keys itself; a text that contains all of itself it can't write.
        unparsed = self.arguments == {"_raw": self.raw_arguments, "_error": "invalid_json"}
        return "invalid_json" if unparsed else None

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text, for an API or a framework that takes a call's arguments as text.

        This is the model's own text where it is the JSON of `arguments`, `"{}"` for a call without arguments, and
        otherwise `arguments` written as JSON (custom tools). A call with `error` has the model's text unchanged, so
        that a program that parses it finds the same problem.
        """
        if self.error:
            return self.raw_arguments
        try:
            same = parse_object(self.raw_arguments) == self.arguments
        except ValueError:
            same = False
        return self.raw_arguments if same else json.dumps(self.arguments, ensure_ascii=False)

    @property
    def pending_safety_checks(self) -> tuple[dict[str, Any], ...]:
        """The provider's safety checks of a call of the computer: show them to a person before you run it.

        `tool_result(call, ..., acknowledge=True)` says that they were acknowledged. Without that the provider refuses
        the result: https://platform.openai.com/docs/guides/tools-computer-use
        """
        return tuple((self.extra or {}).get("pending_safety_checks", ()))

    def parse_as(self, model: type[M]) -> M:
        """The arguments as an instance of a pydantic model.

        Raises:
            InvalidToolArgumentsError: they are not JSON or do not fit; the message is fit to be sent back to the model.
        """
        from pydantic import ValidationError

        try:
            if self.error:
                model.model_validate_json(self.raw_arguments)  # says where it isn't JSON; but reads NaN and 1e999
                raise InvalidToolArgumentsError(f"invalid arguments for {self.name}: not a JSON object", self)
            return read_as(model, self.arguments)
        except ValidationError as exc:
            problems = describe_problems(exc, "arguments")
            raise InvalidToolArgumentsError(f"invalid arguments for {self.name}: {problems}", self) from exc


class InvalidToolArgumentsError(StreamfoldError, ValueError):
    """The arguments of a call do not fit the tool. The message can be sent back to the model as the tool's result.

    Attributes:
        call: the call.
    """

    def __init__(self, message: str, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


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
