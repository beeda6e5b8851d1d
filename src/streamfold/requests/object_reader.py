"""Reads the members of a JSON object from outside, one by one; errors name the path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import ConfigError

T = TypeVar("T")
_A: dict[type, str] = {
    str: "a string", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object",
}  # fmt: skip


class ObjectReader:
    """Reads members of an object and keeps the unread ones.

    Null is the same as absent. The methods raise ConfigError, with the path, for a value of another type than asked.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where or 'the body'} must be an object, not {kind_of(value)}")
        self._values = dict(value)
        self._where = where

    def at(self, name: str) -> str:
        """Returns the path of a member."""
        return f"{self._where}.{name}" if self._where else name

    def text(self, name: str) -> str | None:
        """Takes a string."""
        return self.take(name, str)

    def string(self, name: str) -> str:
        """Takes a string that must be there."""
        value = self._values.get(name)
        if not isinstance(value, str):
            problem = "is missing" if value is None else f"is {kind_of(value)}"
            raise ConfigError(f"{self.at(name)} {problem}: it must be a string")
        del self._values[name]
        return value

    def must(self, name: str, kind: type[T]) -> T:
        """Takes a value of this type that must be there."""
        value = self.take(name, kind)
        if value is None:
            raise ConfigError(f"{self.at(name)} is missing: it must be {_A[kind]}")
        return value

    def need(self, name: str) -> str:
        """Takes a string that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise ConfigError(f"{self.at(name)} is {'missing' if value is None else 'empty'}: it must be a string")
        return value

    def number(self, name: str) -> float | None:
        """Takes a number."""
        return self.take(name, float)

    def count(self, name: str) -> int | None:
        """Takes a whole number."""
        return self.take(name, int)

    def limit(self, name: str) -> int | None:
        """Takes a whole number greater than 0."""
        value = self.count(name)
        if value is not None and value < 1:
            raise ConfigError(f"{self.at(name)} must be a whole number greater than 0, not {value}")
        return value

    def flag(self, name: str) -> bool | None:
        """Takes true or false."""
        return self.take(name, bool)

    def items(self, name: str) -> list[Any] | None:
        """Takes a list."""
        return self.take(name, list)

    def object(self, name: str) -> ObjectReader | None:
        """Takes an object."""
        value = self.take(name, dict)
        return None if value is None else ObjectReader(value, self.at(name))

    def inner(self, name: str) -> ObjectReader:
        """Takes an object that must be there."""
        value = self._values.pop(name, None)
        if not isinstance(value, Mapping):
            problem = "is missing" if value is None else f"is {kind_of(value)}"
            raise ConfigError(f"{self.at(name)} {problem}: it must be an object")
        return ObjectReader(value, self.at(name))

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Takes an object as it is, with its nulls."""
        return self.take(name, dict)

    def any(self, name: str) -> Any:
        """Takes a value of any type."""
        return self._values.pop(name, None)

    def put(self, name: str, value: Any) -> None:
        """Puts a member back."""
        self._values[name] = value

    def absorb_rest(self, inner: ObjectReader) -> None:
        """Adds what is left of an inner object to what is left here."""
        self._values.update(inner.rest())

    def rest(self) -> dict[str, Any]:
        """Returns what has not been taken, without nulls."""
        return {name: value for name, value in self._values.items() if value is not None}

    def refuse_rest(self, known: str) -> None:
        """Raises ConfigError if there is a member that was not taken; `known` says which ones are allowed."""
        for name in self.rest():
            raise ConfigError(f"{self.at(name)} is unknown here: {known}")

    def take(self, name: str, kind: type[T]) -> T | None:
        """Takes a value of this type."""
        value: Any = self._values.pop(name, None)
        if value is None:
            return None
        fits = isinstance(value, (int, float) if kind is float else kind)
        if fits and (kind is bool or not isinstance(value, bool)):
            return value  # type: ignore[no-any-return]
        raise ConfigError(f"{self.at(name)} must be {_A[kind]}, not {kind_of(value)}")


def kind_of(value: Any) -> str:
    """Returns what a JSON value is, in words; of any other value the name of its type."""
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
