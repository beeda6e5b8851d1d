"""The value so far of an answer that is JSON and not yet whole, read leniently into a pydantic model.

There is no parser that goes on where it stopped, so the whole text is parsed again, but not for each piece of it. Once
it is long, it is parsed when it has grown by a fraction since the last time, which makes the cost of all the parsing
together proportional to the length of the text, however often one asks (`benchmarks/bench_partial.py`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeVar, Union, get_args, get_origin

from pydantic_core import from_json

from ..values import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")

__all__ = ["Partial", "PartialReader"]

_ALWAYS = 4096  # characters up to which every piece is parsed
_GROWTH = 32  # after that, the text must have grown by one part in so many
_LISTS = (list, set, frozenset, Sequence, MutableSequence, Collection, Iterable, AbstractSet)
_OPEN_NUMBER = re.compile(r"(?<=[\s,:\[])-?[0-9][0-9.eE+-]*$")  # 1 may be the beginning of 18


class Partial(Generic[M]):
    """What has come of an `M`: every field of it, each None until something of it has come.

    Text fields grow; a number, a date or a choice comes when it is whole; a list has the items that have begun; a
    field that is a model is a partial one in its turn. Validators and limits of `M` are not asked, and its methods are
    not there: what has them is `reply.parse_as(M)`, in the end. `model_dump()` gives a dict.
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
        return repr(self) == repr(other)  # each reader makes classes of its own, which say nothing

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value)


class PartialReader(Generic[M]):
    """Reads a growing text as a partial `M`. Raises ConfigError for a model that is no JSON object."""

    def __init__(self, model: type[M]) -> None:
        self._model = _Lenient().model(model)
        self._size = 0
        self._whole = False
        self._value: Partial[M] | None = None

    def read(self, size: int, text: Callable[[], str], *, whole: bool = False) -> Partial[M] | None:
        """The value so far; None if nothing of it has come.

        Args:
            size: the length of the text; it only grows.
            text: gives the text. Called if it is worth parsing.
            whole: nothing more will come.
        """
        grown = size - self._size
        if (whole and not self._whole) or (grown and (size <= _ALWAYS or grown * _GROWTH >= size)):
            self._size, self._whole = size, whole
            self._value = self._parse(text(), whole) or self._value
        return self._value

    def _parse(self, text: str, whole: bool) -> Partial[M] | None:
        text = text.strip()
        if text.startswith("```"):  # a code fence, which models put where nothing holds them to a form
            text = text.partition("\n")[2].rstrip("`").rstrip()
        if not whole:
            text = _OPEN_NUMBER.sub("", text)
        try:
            value = from_json(text, allow_partial="trailing-strings")
        except (ValueError, TypeError):
            return None
        return Partial(self._model.model_validate(value)) if isinstance(value, dict) else None


class _Lenient:
    """Makes models in which everything may be missing, unfinished or cut off."""

    def __init__(self) -> None:
        self._made: dict[type[BaseModel], type[BaseModel] | None] = {}

    def model(self, model: type[BaseModel]) -> type[BaseModel]:
        from pydantic import AliasChoices, ConfigDict, Field, RootModel, create_model

        if issubclass(model, RootModel):
            raise ConfigError(f"{model.__name__} is a RootModel: there is a partial value of an object only")
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
            warnings.simplefilter("ignore")  # names that shadow those of BaseModel: `model` has them too, and said so
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
            if self._made.get(annotation, annotation) is None:  # it is being made: it has a field of its own kind
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
    """A list without its last item, if that one is not far enough to be one."""
    from pydantic import ValidationError

    try:
        return handler(value)
    except ValidationError:
        if not isinstance(value, list) or not value:
            raise
        return handler(value[:-1])
