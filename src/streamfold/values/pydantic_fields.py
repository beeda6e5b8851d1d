"""Our values as fields of a user's pydantic model: what is dumped loads to an equal value, or it is refused.

pydantic reads a dataclass by its annotations, which is enough for most values. It can't know that a ConfigError of a
`__post_init__` is an error of validation, and that a member of any type must be JSON data to be written as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Any

from .config_errors import ConfigError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo, SerializerFunctionWrapHandler, ValidatorFunctionWrapHandler


class PydanticField:
    """Base of dataclasses that pydantic reads by their annotations."""

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
        """Returns the value that is written as JSON in place of this one."""
        return self


def wrapping_schema(
    read: Callable[[Any, ValidatorFunctionWrapHandler], Any],
    write: Callable[[Any, SerializerFunctionWrapHandler, SerializationInfo], Any],
    schema: CoreSchema,
) -> CoreSchema:
    """Returns a schema with functions around it. `read` may raise ConfigError."""
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
    """Returns the schema of a value that reads and writes itself as JSON data. `read` may raise ConfigError."""
    from pydantic_core import core_schema

    def load(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        try:
            return read(value)
        except ConfigError as exc:
            raise ValueError(str(exc)) from None

    def dump(value: Any, info: SerializationInfo) -> Any:
        data = write(value)
        if info.mode == "json":
            require_json(data, kind.__name__)
        return data

    return core_schema.no_info_plain_validator_function(
        load,
        serialization=core_schema.plain_serializer_function_ser_schema(dump, info_arg=True),
        metadata={"pydantic_js_functions": [lambda schema, handler: dict(json_schema)]},
    )


def require_json(value: Any, where: str) -> None:
    """Raises ValueError for what would not come back from JSON as it is."""
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
                    raise ValueError(f"{where} has the key {name!r}: the keys of a JSON object are strings")
                require_json(inner, f"{where}.{name}")
        case _:
            shown = repr(value) if isinstance(value, float) else type(value).__name__
            raise ValueError(f"{where} is not JSON data, but {shown}")
