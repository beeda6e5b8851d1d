"""The members of a JSON object that somebody else wrote, taken one by one; a mistake is told with the path to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..values import ConfigError

__all__ = ["Fields", "kind_of"]

T = TypeVar("T")
_A: dict[type, str] = {
    str: "a string", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object",
}  # fmt: skip


class Fields:
    """Takes members out of an object; what is left in the end nobody has asked for.

    Null counts as not said. Raises ConfigError, with the path, for a value of another type than the one asked for.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where or 'the body'} must be an object, not {kind_of(value)}")
        self._values = dict(value)
        self._where = where

    def at(self, name: str) -> str:
        """The path to a member."""
        return f"{self._where}.{name}" if self._where else name

    def text(self, name: str) -> str | None:
        """A string."""
        return self._take(name, str)

    def need(self, name: str) -> str:
        """A string that has to be there, and not be empty."""
        value = self.text(name)
        if not value:
            raise ConfigError(f"{self.at(name)} is {'missing' if value is None else 'empty'}: it must be a string")
        return value

    def number(self, name: str) -> float | None:
        """A number."""
        return self._take(name, float)

    def count(self, name: str) -> int | None:
        """A whole number."""
        return self._take(name, int)

    def flag(self, name: str) -> bool | None:
        """True or false."""
        return self._take(name, bool)

    def items(self, name: str) -> list[Any] | None:
        """A list."""
        return self._take(name, list)

    def object(self, name: str) -> Fields | None:
        """An object."""
        value = self._take(name, dict)
        return None if value is None else Fields(value, self.at(name))

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object as it is, nulls and all."""
        return self._take(name, dict)

    def any(self, name: str) -> Any:
        """Whatever it is."""
        return self._values.pop(name, None)

    def rest(self) -> dict[str, Any]:
        """What has not been taken, nulls left out."""
        return {name: value for name, value in self._values.items() if value is not None}

    def refuse_rest(self, known: str) -> None:
        """Raises ConfigError if there is a member that was not taken; `known` says what there is."""
        for name in self.rest():
            raise ConfigError(f"{self.at(name)} is unknown here: {known}")

    def _take(self, name: str, kind: type[T]) -> T | None:
        value: Any = self._values.pop(name, None)
        if value is None:
            return None
        fits = isinstance(value, (int, float) if kind is float else kind)
        if fits and (kind is bool or not isinstance(value, bool)):
            return value  # type: ignore[no-any-return]
        raise ConfigError(f"{self.at(name)} must be {_A[kind]}, not {kind_of(value)}")


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    found = (
        bool
        if isinstance(value, bool)
        else next((kind for kind in (str, list, dict) if isinstance(value, kind)), float)
    )
    return _A[found]
