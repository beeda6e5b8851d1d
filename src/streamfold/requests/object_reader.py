"""Reads and checks the fields of a JSON object from an untrusted source. Error messages contain the path of the
field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import ConfigError

T = TypeVar("T")
_A: dict[type, str] = {
    str: "a string", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object",
}  # fmt: skip


class ObjectReader:
    """Reads the fields of an object, and remembers which fields haven't been read.

    Null means the same as a missing field. If a value has the wrong type, the methods raise ConfigError with the path
    of the field.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where or 'the body'} must be an object, not {kind_of(value)}")
        self._values = dict(value)
        self._where = where

    def at(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def text(self, name: str) -> str | None:
        return self.take(name, str)

    def string(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str):
            problem = "is missing" if value is None else f"is {kind_of(value)}"
            raise ConfigError(f"{self.at(name)} {problem}: it must be a string")
        del self._values[name]
        return value

    def must(self, name: str, kind: type[T]) -> T:
        value = self.take(name, kind)
        if value is None:
            raise ConfigError(f"{self.at(name)} is missing: it must be {_A[kind]}")
        return value

    def need(self, name: str) -> str:
        """Reads a required string. The string may not be empty."""
        value = self.text(name)
        if not value:
            raise ConfigError(f"{self.at(name)} is {'missing' if value is None else 'empty'}: it must be a string")
        return value

    def number(self, name: str) -> float | None:
        return self.take(name, float)

    def count(self, name: str) -> int | None:
        return self.take(name, int)

    def limit(self, name: str) -> int | None:
        """Reads an optional integer that must be greater than 0."""
        value = self.count(name)
        if value is not None and value < 1:
            raise ConfigError(f"{self.at(name)} must be a whole number greater than 0, not {value}")
        return value

    def flag(self, name: str) -> bool | None:
        return self.take(name, bool)

    def items(self, name: str) -> list[Any] | None:
        return self.take(name, list)

    def object(self, name: str) -> ObjectReader | None:
        value = self.take(name, dict)
        return None if value is None else ObjectReader(value, self.at(name))

    def inner(self, name: str) -> ObjectReader:
        value = self._values.pop(name, None)
        if not isinstance(value, Mapping):
            problem = "is missing" if value is None else f"is {kind_of(value)}"
            raise ConfigError(f"{self.at(name)} {problem}: it must be an object")
        return ObjectReader(value, self.at(name))

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Reads an optional object and returns it as a dict. The dict keeps fields that are null."""
        return self.take(name, dict)

    def any(self, name: str) -> Any:
        return self._values.pop(name, None)

    def put(self, name: str, value: Any) -> None:
        """Sets a field's value. The field then counts as a field that hasn't been read."""
        self._values[name] = value

    def absorb_rest(self, inner: ObjectReader) -> None:
        """Adds an inner object's unread fields to this object's unread fields."""
        self._values.update(inner.rest())

    def rest(self) -> dict[str, Any]:
        """Returns the fields that no method has read yet, except fields that are null."""
        return {name: value for name, value in self._values.items() if value is not None}

    def refuse_rest(self, known: str) -> None:
        """Raises ConfigError if a field hasn't been read. The error message lists the allowed fields in `known`."""
        for name in self.rest():
            raise ConfigError(f"{self.at(name)} is unknown here: {known}")

    def take(self, name: str, kind: type[T]) -> T | None:
        value: Any = self._values.pop(name, None)
        if value is None:
            return None
        fits = isinstance(value, (int, float) if kind is float else kind)
        if fits and (kind is bool or not isinstance(value, bool)):
            return value  # type: ignore[no-any-return]
        raise ConfigError(f"{self.at(name)} must be {_A[kind]}, not {kind_of(value)}")


def kind_of(value: Any) -> str:
    """Returns the name of a value's JSON type, for error messages. For a value that isn't JSON data, returns the name
    of its Python type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return type(value).__name__
