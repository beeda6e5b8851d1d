"""`ToolCall`, `PartialToolCall`, `PartialUpdate` and `InvalidToolArgumentsError`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from ..errors import StreamfoldError
from ..jsontext import parse_object, partial_value, read_arguments
from .pydantic_support import PydanticField, describe_problems, read_as

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

CallKind: TypeAlias = Literal["function", "custom", "apply_patch", "shell", "computer", "tool_search", "approval"]
KINDS: tuple[CallKind, ...] = get_args(CallKind)


@dataclass(slots=True)
class ToolCall(PydanticField):
    """A complete tool call.

    Attributes:
        id: the provider's id. If the server sent no id or a duplicate id, streamfold generates one.
        arguments: the parsed arguments, or `{}` if there are none. If the model's text isn't a JSON object, `arguments`
            is `{"_raw": text, "_error": "invalid_json"}` and `error` is set.
        raw_arguments: the arguments' JSON text exactly as the model wrote it. Later requests contain it unchanged.
        kind: the kind of tool, which is "function", "custom" (with the text in `arguments["input"]`), "apply_patch",
            "shell", "computer", "tool_search", or "approval" (a tool call that the provider sends to an MCP server
            after your approval).
        extra: other fields of the tool call, such as Gemini's `extra_content`. The provider requires them in later
            requests.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    raw_arguments: str
    extra: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    kind: CallKind = "function"

    @classmethod
    def from_text(cls, call_id: str, name: str, text: str, extra: dict[str, Any] | None = None) -> ToolCall:
        """Creates a function call from the JSON text of its arguments."""
        return cls(call_id, name, read_arguments([text], repair=False).value, text, extra or None)

    @classmethod
    def custom(cls, call_id: str, name: str, text: str, extra: dict[str, Any] | None = None) -> ToolCall:
        """Creates a call of a custom tool. The input of a custom tool is free text instead of JSON arguments."""
        return cls(call_id, name, {"input": text}, text, extra or None, "custom")

    @property
    def error(self) -> Literal["invalid_json"] | None:
        """The value `"invalid_json"` if the arguments aren't a JSON object, otherwise None."""
        # A model may write these two keys itself, but its text can't contain itself as `_raw`.
        unparsed = self.arguments == {"_raw": self.raw_arguments, "_error": "invalid_json"}
        return "invalid_json" if unparsed else None

    @property
    def background(self) -> bool:
        """True if the model continues without waiting for the tool's result. A later request sends the result. See
        `Tool.background`.
        """
        return bool((self.extra or {}).get("async"))

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text, for APIs and frameworks that expect text.

        If the model wrote a JSON object, this is exactly the model's text. For a tool call without arguments, it is
        `"{}"`. In all other cases, it is the JSON text of `arguments`.
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
        """The safety checks of a tool call of the kind "computer". A person must see these checks before your program
        runs the tool call.

        If the person agrees, pass `acknowledge=True` to `tool_result`, because the provider refuses a result without
        it: https://platform.openai.com/docs/guides/tools-computer-use
        """
        return tuple((self.extra or {}).get("pending_safety_checks", ()))

    def parse_as(self, model: type[M]) -> M:
        """Parses the arguments as a pydantic model.

        Raises:
            InvalidToolArgumentsError: the arguments aren't a JSON object, or don't match the model. You can send the
                error message to the language model.
        """
        from pydantic import ValidationError

        try:
            if self.error:
                model.model_validate_json(self.raw_arguments)  # says where the JSON ends, but accepts NaN and 1e999
                raise InvalidToolArgumentsError(f"invalid arguments for {self.name}: not a JSON object", self)
            return read_as(model, self.arguments)
        except ValidationError as exc:
            problems = describe_problems(exc, "arguments")
            raise InvalidToolArgumentsError(f"invalid arguments for {self.name}: {problems}", self) from exc


class InvalidToolArgumentsError(StreamfoldError, ValueError):
    """The arguments of a tool call don't match the tool. You can send the error message to the model as the tool's
    result.
    """

    def __init__(self, message: str, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


@dataclass(frozen=True, slots=True)
class PartialToolCall:
    """A tool call that the model is still writing, for display only. Never run a partial tool call, because streamfold
    may still change or drop it.
    """

    name: str
    text: str
    kind: CallKind = "function"

    @property
    def value(self) -> Any:
        """The part of the arguments that has arrived so far, or None if nothing has arrived. For a custom tool, this is
        `{"input": text}`.

        Each access parses all text that has arrived. For long values, use `ChatStream.watch`.
        """
        return {"input": self.text} if self.kind == "custom" else partial_value(self.text)


class PartialUpdate(NamedTuple):
    """A new piece of a JSON value that the model is writing. `ChatStream.watch` passes each piece to your function.

    Attributes:
        path: the path of the value, such as `("files", 0, "content")`.
        delta: the next piece of a string. `""` for a value of any other type, which is reported once, when it is
            complete.
        value: the complete value if `done` is True.
        tool, call: the tool's name and the index of the tool call. Both are None for a structured answer.
    """

    path: tuple[str | int, ...]
    delta: str
    done: bool
    value: Any
    tool: str | None
    call: int | None
