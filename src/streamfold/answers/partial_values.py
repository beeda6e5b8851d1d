"""Partial values: `Partial`, which has the fields of an unfinished structured answer, and `Watchers`, which calls the
functions of `ChatStream.watch`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from inspect import iscoroutinefunction
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeAlias, TypeVar, Union, get_args, get_origin

from ..errors import ConfigError
from ..jsontext import partial_value
from ..public_names import set_public_module
from ..types import IncrementalJSON, PartialUpdate, PathPattern, StreamChunk, ToolCallUpdate, path_pattern

if TYPE_CHECKING:
    from pydantic import BaseModel


M = TypeVar("M", bound="BaseModel")

# Each time the whole text is parsed. As a long text is parsed only when it has grown by a fraction, the cost of all
# parsing together is proportional to its length (`benchmarks/bench_partial.py`).
_ALWAYS = 4096  # characters up to which every piece is parsed
_GROWTH = 32  # above that, the text must have grown by 1/32
_LONGEST_FENCE = 100  # characters of the line that opens a code fence
_LISTS = (list, set, frozenset, Sequence, MutableSequence, Collection, Iterable, AbstractSet)


class Partial(Generic[M]):
    """The part of a pydantic model `M` that has arrived. A `Partial[M]` has every field of `M`. A field that hasn't
    arrived is None.

    Strings may be incomplete. Numbers, dates and enums appear when they are complete. A list contains an item as soon
    as the item's beginning has arrived. If the type of a field is a model, its value is partial too. A `Partial[M]` has
    none of `M`'s validators, constraints and methods. When the answer is complete, use `reply.parse_as(M)`.
    `model_dump()` returns a dict.
    """

    __slots__ = ("_value",)

    def __init__(self, value: BaseModel) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._value, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return repr(self) == repr(other)  # each reader creates its own classes, so the types differ

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value)


class PartialReader(Generic[M]):
    """Parses an incomplete JSON text as a partial `M`. Raises ConfigError if `M` doesn't describe a JSON object."""

    def __init__(self, model: type[M]) -> None:
        self._model = _PartialModelBuilder().model(model)
        self._size = 0
        self._whole = False
        self._value: Partial[M] | None = None

    def read(self, size: int, text: Callable[[], str], *, whole: bool = False) -> Partial[M] | None:
        """Returns the partial value, or None before any part has arrived.

        Args:
            size: the number of characters in the text.
            text: a function that returns the text. The reader calls the function only if it has to parse the text.
            whole: True if the text is complete.
        """
        grown = size - self._size
        if (whole and not self._whole) or (grown and (size <= _ALWAYS or grown * _GROWTH >= size)):
            self._size, self._whole = size, whole
            answer = text().strip()
            if answer.startswith("```"):  # a code fence, which models add where the server enforces no format
                answer = answer.partition("\n")[2].rstrip("`").rstrip()
            value = partial_value(answer, ended=whole)
            if isinstance(value, dict):
                self._value = Partial(self._model.model_validate(value))
        return self._value


class _PartialModelBuilder:
    def __init__(self) -> None:
        self._made: dict[type[BaseModel], type[BaseModel] | None] = {}

    def model(self, model: type[BaseModel]) -> type[BaseModel]:
        from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, create_model

        kind: Any = model
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or issubclass(kind, RootModel):
            raise ConfigError(f"{kind!r:.80} can't be partial: pass a pydantic model whose JSON is an object")
        if made := self._made.get(model):
            return made
        self._made[model] = None
        fields: dict[str, Any] = {}
        for name, info in model.model_fields.items():
            alias = info.validation_alias or info.alias
            choices = alias.choices if isinstance(alias, AliasChoices) else [alias] if alias else []
            known = AliasChoices(name, *choices) if choices else None
            fields[name] = (self._optional(info.annotation), Field(None, validation_alias=known))
        extra = model.model_config.get("extra")
        config = ConfigDict(extra=extra, arbitrary_types_allowed=True, protected_namespaces=())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shadowed members of BaseModel: making `model` warned already
            made = create_model(f"Partial{model.__name__}", __config__=config, **fields)
        self._made[model] = made
        return made

    def _optional(self, annotation: Any) -> Any:
        from pydantic import WrapValidator

        return Annotated[Optional[self._type(annotation)], WrapValidator(_or_none)]  # noqa: UP045 - of a value

    def _type(self, annotation: Any) -> Any:
        from pydantic import BaseModel, PlainValidator, RootModel, WrapValidator

        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._type(args[0])
        if isinstance(annotation, type) and origin is None and issubclass(annotation, BaseModel):
            if issubclass(annotation, RootModel):
                return annotation
            if self._made.get(annotation, annotation) is None:  # a recursive model, whose class isn't complete yet
                return Annotated[Any, PlainValidator(lambda value: self.model(annotation).model_validate(value))]
            return self.model(annotation)
        if origin in (Union, UnionType):
            return Union[tuple(arg if arg is NoneType else self._type(arg) for arg in args)]  # noqa: UP007
        if origin in _LISTS or (origin is tuple and args[1:] == (...,)):
            return Annotated[list[self._type(args[0])], WrapValidator(_without_last)]  # type: ignore[misc]
        if origin is dict:
            return dict[args[0], self._optional(args[1])]  # type: ignore[misc,valid-type]
        return Any if isinstance(annotation, TypeVar) else annotation


def _or_none(value: Any, handler: Callable[[Any], Any]) -> Any:
    from pydantic import ValidationError

    try:
        return handler(value)
    except ValidationError:
        return None


def _without_last(value: Any, handler: Callable[[Any], Any]) -> Any:
    from pydantic import ValidationError

    try:
        return handler(value)
    except ValidationError:
        if not isinstance(value, list) or not value:
            raise
        return handler(value[:-1])


Watcher: TypeAlias = Callable[[PartialUpdate], object]


def checked_watcher(function: Any) -> Watcher:
    """Returns the function. Raises ConfigError if the argument isn't a synchronous function."""
    if not callable(function) or iscoroutinefunction(function):
        kind = "an async function" if callable(function) else type(function).__name__
        raise ConfigError(f"watch() needs a synchronous function with one argument, not {kind}")
    watcher: Watcher = function
    return watcher


@dataclass(frozen=True, slots=True)
class _Watch:
    pattern: PathPattern
    function: Watcher
    tool: str | None


@dataclass(slots=True, eq=False)
class _Watched:
    watches: list[_Watch]
    reader: IncrementalJSON

    def feed(self, text: str) -> None:
        for number, update in self.reader.feed(text):
            self.watches[number].function(update)


class Watchers:
    def __init__(self) -> None:
        self._watches: list[_Watch] = []
        self._calls: dict[int, _Watched] = {}
        self._unnamed_pieces: dict[int, list[str]] = {}  # pieces that arrived before the tool's name
        self._answer: _Watched | None = None
        self._lead = ""  # the answer's beginning, as long as it may be a code fence
        self._is_call = False  # the answer arrives as a tool call

    def add(self, path: str, function: Any, tool: str | None) -> None:
        """Adds a watch function. Raises ConfigError if the function isn't synchronous, or the path is malformed."""
        watcher = checked_watcher(function)
        try:
            self._watches.append(_Watch(path_pattern(path), watcher, tool))
        except ValueError as exc:
            raise ConfigError(f"watch(): {exc}") from None

    def feed(self, chunk: StreamChunk) -> None:
        if chunk.delta and not self._is_call:
            self._feed_answer(chunk.delta)
        if not chunk.finished:
            return
        numbers = () if chunk.details is None else chunk.details.call_numbers
        for position, call in enumerate(chunk.tool_calls or ()):
            number = numbers[position] if numbers else position
            if number not in self._calls:  # the tool call arrived complete
                self._begin(call.name, number).feed(call.raw_arguments)

    def feed_call(self, call: ToolCallUpdate) -> None:
        """Passes the next piece of a tool call to the watch functions. If the final index of the tool call isn't known
        yet, the functions get the tool call at the end of the answer.
        """
        if not call.in_order:
            return
        watched = self._calls.get(call.number)
        if watched is None:
            if call.tool == "" or not call.text:
                self._unnamed_pieces.setdefault(call.number, []).append(call.text)
                return
            text = "".join([*self._unnamed_pieces.pop(call.number, ()), call.text])
            self._is_call = self._is_call or call.tool is None
            watched = self._calls[call.number] = self._begin(call.tool, call.number)
            watched.feed(text)
        elif call.text:
            watched.feed(call.text)

    def _begin(self, tool: str | None, call: int | None) -> _Watched:
        watches = [watch for watch in self._watches if watch.tool in (None, tool)]
        reader = IncrementalJSON([watch.pattern for watch in watches], tool, None if tool is None else call)
        reader.ended = not watches
        return _Watched(watches, reader)

    def _feed_answer(self, text: str) -> None:
        if self._answer is None:
            text = self._lead = (self._lead + text).lstrip()
            line, end, rest = text.partition("\n")
            fenced = line.startswith("`") and len(line) < _LONGEST_FENCE
            if not text or (fenced and not end):
                return
            text = rest if fenced else text
            self._answer = self._begin(None, None)
        self._answer.feed(text)


set_public_module("streamfold.types", [Partial])
