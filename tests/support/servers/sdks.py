"""Other people's clients, each imported when a test first uses it: that takes seconds, and most tests use none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter

__all__ = ["TypeOf", "anthropic", "genai", "openai"]


class _Later:
    """A module that is imported with its first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # what pytest looks for in everything that it finds
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


anthropic: Any = _Later("anthropic")
genai: Any = _Later("google.genai")
openai: Any = _Later("openai")


class TypeOf:
    """A type of one of them, by which values are checked."""

    def __init__(self, found: Callable[[], Any]) -> None:
        self._found = found

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._found())

    def validate_python(self, value: Any) -> Any:
        """Returns the value as the type has it. Raises pydantic's ValidationError."""
        return self._adapter.validate_python(value)

    def validate_json(self, text: str | bytes) -> Any:
        """Returns the value of a JSON text, as `validate_python`."""
        return self._adapter.validate_json(text)
