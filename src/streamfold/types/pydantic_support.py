"""Makes it possible to use streamfold's types as fields of pydantic models, and validates answers with pydantic."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from math import isfinite
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ..errors import ConfigError
from .schema_validation import without_null

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo, SerializerFunctionWrapHandler, ValidatorFunctionWrapHandler


# Our types as fields of a user's pydantic model: a dumped value loads as an equal value, or dumping fails. pydantic's
# own support for dataclasses can't treat ConfigError as a validation error, or check that `Any` fields are JSON data.


class PydanticField:
    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def write(value: Any, inner: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
            if info.mode == "json" and isinstance(value, cls):
                value = value._for_json()
                for name in open_members:
                    require_json(getattr(value, name), f"{cls.__name__}.{name}")
            return inner(value)

        open_members = [member.name for member in fields(source) if "Any" in str(member.type)]

        return wrapping_schema(lambda value, inner: inner(value), write, handler(source))

    def _for_json(self) -> Any:
        return self


def wrapping_schema(
    read: Callable[[Any, ValidatorFunctionWrapHandler], Any],
    write: Callable[[Any, SerializerFunctionWrapHandler, SerializationInfo], Any],
    schema: CoreSchema,
) -> CoreSchema:
    """Returns a pydantic core schema that calls `read` to validate a value and `write` to serialize it. `read` may
    raise ConfigError."""
    from pydantic_core import core_schema

    def load(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value, inner)
        except ConfigError as exc:
            raise ValueError(str(exc)) from None

    written = core_schema.wrap_serializer_function_ser_schema(write, info_arg=True, schema=schema)
    return core_schema.no_info_wrap_validator_function(load, schema, serialization=written)


def json_schema_type(
    kind: type[Any], read: Callable[[Any], Any], write: Callable[[Any], dict[str, Any]], json_schema: Mapping[str, Any]
) -> CoreSchema:
    """Returns the pydantic core schema of a type that defines its own JSON format. `read` may raise ConfigError."""
    from pydantic_core import core_schema

    def dump(value: Any, inner: object, info: SerializationInfo) -> Any:
        data = write(value)
        if info.mode == "json":
            require_json(data, kind.__name__)
        return data

    schema = core_schema.any_schema(metadata={"pydantic_js_functions": [lambda schema, handler: dict(json_schema)]})
    return wrapping_schema(lambda value, inner: value if isinstance(value, kind) else read(value), dump, schema)


def require_json(value: Any, where: str) -> None:
    """Raises ValueError if JSON can't represent a value without loss."""
    match value:
        case str() | int() | None:
            pass
        case float() if isfinite(value):
            pass
        case list():
            for at, inner in enumerate(value):
                require_json(inner, f"{where}[{at}]")
        case Mapping():
            for name, inner in value.items():
                if not isinstance(name, str):
                    raise ValueError(f"{where} has the key {name!r}: the keys of a JSON object must be strings")
                require_json(inner, f"{where}.{name}")
        case _:
            shown = repr(value) if isinstance(value, float) else type(value).__name__
            raise ValueError(f"{where} is not JSON data, but {shown}")


# pydantic is imported when needed, so that the core works without it.

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

    M = TypeVar("M", bound=BaseModel)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OutputType:
    """The type of a structured answer: a pydantic model, or another type that pydantic validates, such as a dataclass,
    `list[Item]` or a union.

    Attributes:
        name: the type's name in error messages and requests.
        schema: the JSON schema of the answer. APIs accept only the schema of an object.
        wrapped: True if the type isn't an object. `schema` then describes an object that contains the value in its
            field `value`.
    """

    name: str
    schema: Mapping[str, Any]
    wrapped: bool
    validate_json: Callable[[str], Any]

    @classmethod
    def of(cls, form: Any) -> OutputType:
        """Creates an `OutputType` from a Python type. Raises ConfigError if pydantic can't validate the type."""
        from pydantic import BaseModel, PydanticUserError, RootModel

        if isinstance(form, type) and issubclass(form, BaseModel) and not issubclass(form, RootModel):
            return cls(form.__name__, form.model_json_schema(), False, form.model_validate_json)
        try:
            adapter = _type_adapter(form)
            schema = adapter.json_schema()
        except (PydanticUserError, TypeError, NameError) as exc:
            hint = f": pass the class {type(form).__name__}" if isinstance(form, BaseModel) else ""
            why = f" ({str(exc).splitlines()[0]})" if isinstance(exc, PydanticUserError | NameError) else ""
            raise ConfigError(f"{form!r:.80} is not a type that pydantic can validate{hint or why}") from exc
        name = form.__name__ if isinstance(form, type) and not get_args(form) else "answer"
        if schema.get("type") == "object":
            return cls(name, schema, False, adapter.validate_json)
        definitions = schema.pop("$defs", None)
        whole = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        return cls(name, whole | ({"$defs": definitions} if definitions else {}), True, adapter.validate_json)

    def unwrap(self, value: Any) -> Any:
        """Returns the field `value` if the schema wraps the type in an object. Otherwise, returns the value as it
        is."""
        return value["value"] if self.wrapped and isinstance(value, Mapping) and [*value] == ["value"] else value


@lru_cache(maxsize=128)
def _type_adapter(form: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(form if sys.version_info >= (3, 12) else _with_readable_dicts(form))


def _with_readable_dicts(form: Any) -> Any:
    # Before Python 3.12, pydantic requires `typing_extensions.TypedDict` instead of `typing.TypedDict`.
    if is_typeddict(form) and type(form).__module__ == "typing":
        from typing_extensions import TypedDict  # a dependency of pydantic

        members: dict[str, Any] = {}
        for name, hint in get_type_hints(form, include_extras=True).items():
            marked = get_origin(hint) in (Required, NotRequired)
            inner = get_args(hint)[0] if marked else hint
            default = Required if name in form.__required_keys__ else NotRequired
            presence: Any = get_origin(hint) if marked else default
            members[name] = presence[_with_readable_dicts(inner)]
        made: Any = TypedDict(form.__name__, members)  # type: ignore[misc]
        made.__doc__ = form.__doc__
        return made
    origin, inner = get_origin(form), get_args(form)
    parts = tuple(map(_with_readable_dicts, inner))
    if parts == inner:
        return form
    return reduce(or_, parts) if origin in (Union, UnionType) else origin[parts]


def read_as(form: type[T], value: Any) -> T:
    """Validates a JSON value as a pydantic model or another type. pydantic's rules for JSON apply. For example, a date
    is a string.

    A null counts as a missing field if the field has a default and doesn't allow null. Language models write such nulls
    when they follow a strict schema.

    Raises:
        pydantic.ValidationError: the value is invalid.
        ConfigError: pydantic can't validate values of this type.
    """
    from pydantic import ValidationError

    output = OutputType.of(form)
    value = output.unwrap(value)
    try:
        return cast("T", output.validate_json(json.dumps(value)))
    except ValidationError as exc:
        without = value
        for problem in exc.errors(include_url=False):
            if problem["input"] is None:  # the path may also contain names of union members
                without = without_null(without, problem["loc"])
        if without is value:
            raise
        try:
            return cast("T", output.validate_json(json.dumps(without)))
        except ValidationError:
            raise exc from None


def describe_problems(exc: ValidationError, whole: str) -> str:
    """Returns pydantic's validation errors as one text for the language model. Each error begins with the path of the
    invalid value, or with `whole` if the entire value is invalid."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or whole}: {problem['msg']}"
        for problem in exc.errors(include_url=False, include_context=False, include_input=False)
    )
