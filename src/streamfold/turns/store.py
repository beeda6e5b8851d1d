"""Where turns are kept: the interface of a store, and the one in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from time import time
from typing import Protocol

from ..values import ConfigError

__all__ = ["InMemoryTurnStore", "Retention", "TurnStore"]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much a store keeps. What was not used for longest is given up first.

    Attributes:
        entries: how many turns. Each has two entries: the turn itself, and a short one that leads to it.
        size: bytes of all turns together.
        age: seconds for which a turn is kept since it was last used.

    Raises:
        ConfigError: a number is not greater than 0.
    """

    entries: int = 20_000
    size: int = 64 * 2**20
    age: float = 24 * 3600.0

    def __post_init__(self) -> None:
        for name in ("entries", "size", "age"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name!r} of a store must be greater than 0, not {getattr(self, name)!r}")


class TurnStore(Protocol):
    """Keeps bytes by keys, within bounds of its own. Any object with these methods will do.

    A store may forget whatever it likes. An exception of its methods is reported as the warning `memory_failed`, and
    the answer goes on without it.
    """

    async def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known."""
        ...

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Keeps entries. A key that is known gets the new value."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


@dataclass(slots=True)
class _Entry:
    value: bytes
    used: float


class InMemoryTurnStore:
    """Keeps turns in this process, until it ends.

    Args:
        retention: how much is kept.
        clock: what the age goes by, in seconds.
    """

    def __init__(self, retention: Retention | None = None, *, clock: Callable[[], float] = time) -> None:
        self._retention = retention or Retention()
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # those that were used last are at the end
        self._size = 0

    async def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known."""
        self._forget()
        now, found = self._clock(), dict[str, bytes]()
        for key in keys:
            if (entry := self._entries.get(key)) is not None:
                entry.used = now
                self._entries.move_to_end(key)
                found[key] = entry.value
        return found

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Keeps entries. A key that is known gets the new value."""
        for key, value in entries.items():
            self._drop(key)
            self._entries[key] = _Entry(value, self._clock())
            self._size += len(key) + len(value)
        self._forget()

    async def aclose(self) -> None:
        """Forgets everything."""
        self._entries.clear()
        self._size = 0

    def _forget(self) -> None:
        """Gives up what is too much or too old."""
        oldest = self._clock() - self._retention.age
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            full = len(self._entries) > 2 * self._retention.entries or self._size > self._retention.size
            if not full and entry.used >= oldest:
                return
            self._drop(key)

    def _drop(self, key: str) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._size -= len(key) + len(entry.value)
