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
    """A complete tool call.

    Attributes:
        id: the provider's own id. Generated only if the server sent none, or sent one twice.
        arguments: the parsed arguments; `{}` if there were none. If the text isn't a JSON object:
            `{"_raw": text, "_error": "invalid_json"}`, and `error` is set.
        raw_arguments: the model's own text, byte for byte, which goes back into the history.
        kind: "function", or another tool that your program runs: "custom" (`arguments` is `{"input": text}`),
            "apply_patch", "shell", "computer", "tool_search", or "approval" (of a call of a hosted MCP server).
        extra: members that the provider wants back (Gemini's `extra_content`).
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
        # A model may write these two keys itself, but not a text that contains all of itself.
        unparsed = self.arguments == {"_raw": self.raw_arguments, "_error": "invalid_json"}
        return "invalid_json" if unparsed else None

    @property
    def background(self) -> bool:
        """True if the model continues without the result, which it gets in a later request: see `Tool.background`."""
        return bool((self.extra or {}).get("async"))

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text, for APIs and frameworks that take text.

        This is the model's own text if it is the JSON of `arguments`, or if the call has an `error`; `"{}"` for a call
        without arguments; otherwise `arguments` as JSON.
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
        """Safety checks of a computer call: show them to a person before you run it.

        Pass `acknowledge=True` to `tool_result`; otherwise the provider refuses the result:
        https://platform.openai.com/docs/guides/tools-computer-use
        """
        return tuple((self.extra or {}).get("pending_safety_checks", ()))

    def parse_as(self, model: type[M]) -> M:
        """Parses the arguments as a pydantic model.

        Raises:
            InvalidToolArgumentsError: they aren't JSON or do not fit; the message can be sent back to the model.
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
    """The arguments of a call do not fit the tool. The message can be sent back to the model as the tool's result."""

    def __init__(self, message: str, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


@dataclass(frozen=True, slots=True)
class PartialToolCall:
    """A tool call that the model is still writing, for showing only. It may still be dropped or changed."""

    name: str
    text: str
    kind: CallKind = "function"

    @property
    def value(self) -> Any:
        """The arguments so far; None before they begin. Strings grow. A custom tool has `{"input": text}`.

        All of the text is parsed each time; for long values, use `ChatStream.watch`.
        """
        return {"input": self.text} if self.kind == "custom" else partial_value(self.text)


class PartialUpdate(NamedTuple):
    """The growth of a value that the model is writing: see `ChatStream.watch`.

    Attributes:
        path: such as `("files", 0, "content")`.
        delta: the next piece of a string; `""` for other values, which come when they are complete.
        value: the whole value once it is complete.
        tool, call: the tool and the number of its call; None in a structured answer.
    """

    path: tuple[str | int, ...]
    delta: str
    done: bool
    value: Any
    tool: str | None
    call: int | None
