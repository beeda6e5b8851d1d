"""The base class and the field types for all tables of settings. Error messages list the allowed values.

An error message contains the key, but never a value that may be secret. An unknown key raises an error. Strings aren't
converted to numbers or booleans, so that a value is valid or invalid in the same way in TOML, in a mapping and as a
keyword argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    Strict,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from ..errors import ConfigError, allowed_values_hint
from .toml_positions import KeyPath

_TEXTS = {
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "model_type": "must be a table",
    "dataclass_type": "must be a table",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must not be less than {ge:g}",
    "less_than_equal": "must not be more than {le:g}",
    "too_short": "must not be empty",
    "value_error": "{error}",
}


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(as_list)]
"""A list of strings. A single string counts as a list with one item."""
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0)]
PositiveCount = Annotated[int, Strict(), Field(gt=0)]
Seconds = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
PositiveNumber = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """The base class for tables of settings. An unknown key is an error."""

    unlisted: ClassVar[tuple[str, ...]] = ()
    """Keys that error messages don't suggest for an unknown key."""
    required: ClassVar[Mapping[str, str]] = {}
    """The error message for each required key, for the case that it is missing."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        defer_build=True,  # a program needs few tables, and none at import
    )

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, validate: Callable[[Any], Self]) -> Self:
        try:
            return validate(values)
        except ValidationError as exc:
            raise validation_error(cls._mistakes(exc)) from None

    @classmethod
    def _mistakes(cls, exc: ValidationError) -> Iterator[tuple[KeyPath, str]]:
        # A missing key is reported only without other mistakes, because it is often misspelled.
        errors = exc.errors(include_url=False)
        for error in errors:
            if error["type"] == "extra_forbidden":
                yield _path(error), cls.unknown_key(str(error["loc"][-1]), error["input"])
            elif error["type"] != "missing":
                yield _path(error), _text(error)
            elif all(other["type"] == "missing" for other in errors):
                yield _path(error), cls.required.get(str(error["loc"][-1]), "required")

    @classmethod
    def unknown_key(cls, key: str, value: Any) -> str:
        """Returns the error message for an unknown key."""
        return f"unknown key{allowed_values_hint(key, [name for name in cls.model_fields if name not in cls.unlisted])}"


def validation_error(mistakes: Iterable[tuple[KeyPath, str]]) -> ValidationError:
    """Creates a ValidationError. Each item of `mistakes` is the path of a key in the validated value, and a message."""
    return ValidationError.from_exception_data(
        "settings",
        [
            InitErrorDetails(type=PydanticCustomError("mistake", "{text}", {"text": text}), loc=path, input=None)
            for path, text in mistakes
        ],
        hide_input=True,
    )


def validation_errors(error: ValidationError) -> list[tuple[KeyPath, str]]:
    """Returns each mistake in a `Table`'s ValidationError as the path of its key and a message."""
    return [(_path(found), found["msg"]) for found in error.errors(include_url=False)]


def validated_by(check: Callable[[Any], object]) -> AfterValidator:
    """Creates a pydantic validator from a function that raises ValueError or ConfigError for an invalid value."""

    def validate(value: Any) -> Any:
        try:
            check(value)
        except ConfigError as exc:
            raise ValueError(str(exc)) from None
        return value

    return AfterValidator(validate)


def table_field(kind: type, *rules: Any) -> Any:
    """Creates a pydantic validator that converts a table to an instance of a dataclass.

    Args:
        rules: pydantic constraints for every field of the dataclass.
    """
    return PlainValidator(lambda value: read_table(kind, value, *rules))


def read_table(kind: type, value: Any, *rules: Any, **given: Any) -> Any:
    """Creates an instance of the dataclass `kind` from a table. Raises ValidationError if the table is invalid.

    Args:
        given: values for those fields of the dataclass that users can't set in the table.
    """
    if isinstance(value, kind):
        value = {field.name: getattr(value, field.name) for field in fields(kind)}
    if not isinstance(value, Mapping):
        raise validation_error([((), "must be a table")])
    return kind(**given, **dict(_table_of(kind, rules, tuple(given)).model_validate(dict(value))))


def check_members(value: Any) -> None:
    """Raises ConfigError if a field of a dataclass instance has a value that isn't allowed in the corresponding
    table.
    """
    kind: Any = type(value)
    try:
        _table_of(kind, (), ()).model_validate({field.name: getattr(value, field.name) for field in fields(kind)})
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        raise ConfigError(f"{kind.__name__}: {path[0]}: {text}") from None


@cache
def _table_of(kind: Any, rules: tuple[Any, ...], without: tuple[str, ...]) -> type[Table]:
    hints = get_type_hints(kind, include_extras=True)
    members: dict[str, Any] = {}
    # Error messages list the common facts last.
    for field in sorted(fields(kind), key=lambda each: each.kw_only is True):
        if field.name in without:
            continue
        hint = _with_lists(hints[field.name])
        if rules:
            hint = Annotated[hint, *rules]
        default = ... if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = Field(default_factory=field.default_factory)
        members[field.name] = (hint, default)
    return create_model(kind.__name__, __base__=StrictTable, **members)


def _with_lists(hint: Any) -> Any:
    # TOML has lists but neither tuples nor sets.
    if get_origin(hint) in (tuple, list, frozenset):
        return Annotated[hint, Strict(False)]
    if get_origin(hint) is UnionType:
        return reduce(or_, map(_with_lists, get_args(hint)))
    return hint


class StrictTable(Table):
    """A table that doesn't convert strings to numbers or booleans."""

    model_config = ConfigDict(strict=True)


def _path(error: Any) -> KeyPath:
    return tuple(part for part in error["loc"] if part != "[key]")  # pydantic's mark for the key of a mapping


def _text(error: Any) -> str:
    match error["type"]:
        case "mistake":
            return str(error["msg"])
        case "literal_error":
            choices = re.findall(r"'([^']*)'", error["ctx"]["expected"])
            value = error["input"]
            return f"can't be {value!r:.40}{allowed_values_hint(str(value), choices)}"
        case kind if kind in _TEXTS:
            return _TEXTS[kind].format(**error.get("ctx", {}))
        case _:
            return str(error["msg"])
