"""Tool calls and reasoning that a model writes inside its text: filters from deltas to deltas.

Other packages add theirs by an entry point in the group `streamfold.dialects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..deltas import Delta

__all__ = ["Dialect", "find_dialect"]


@runtime_checkable
class Dialect(Protocol):
    """A filter for the deltas of one answer."""

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """What can be said after this delta; text that may still become markup is held back."""
        ...

    def finish(self) -> Iterable[Delta]:
        """What was held back, when the answer has ended."""
        ...


def find_dialect(name: str) -> Dialect:
    """A fresh dialect by its name. Raises ConfigError with the names there are."""
    found = {entry.name: entry for entry in entry_points(group="streamfold.dialects")}
    if name in found:
        made: Dialect = found[name].load()()
        return made
    close = get_close_matches(name, found, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ConfigError(f"unknown dialect {name!r}{hint}: there are {', '.join(sorted(found)) or 'none'}")
