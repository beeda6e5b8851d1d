"""Where limits are counted: the interface of a store, and the one of this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Protocol
from weakref import ref

from ..values import ConfigError
from .algorithm import Ask, Grant, Settlement, alive, believe, settle, take
from .belief import Belief, State

_SMALLEST, _LARGEST = 1e-9, 1e12


class LimitStore(Protocol):
    """Counts limits by their names, for all that use the same store.

    Attributes:
        lease: seconds for which one question may reserve several moments, so that not every request costs a round trip.
        lifetime: seconds after which the slots of a process that is gone are free again.
    """

    lease: float
    lifetime: float

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests. A wait that is cancelled reserves nothing."""
        ...

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used."""
        ...

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for `rest` seconds, and changes what is believed about the rate."""
        ...

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive. Called in a thread."""
        ...

    async def aclose(self) -> None:
        """Closes files and connections."""
        ...


class MemoryLimitStore:
    """Counts in this process, and forgets everything at its end.

    Args:
        clock: seconds since 1970 that never go back.
    """

    lease = 0.0
    lifetime = float("inf")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        began = time.time() - time.monotonic()
        self._clock = clock or (lambda: began + time.monotonic())
        self._states: dict[str, State] = {}
        self._lock = Lock()  # event loops of several threads may share a store

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests."""
        with self._lock:
            return take(self._states.setdefault(name, {}), self._clock(), ask)

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used."""
        with self._lock:
            settle(self._states.setdefault(name, {}), self._clock(), settlement)

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes what is believed about the rate."""
        with self._lock:
            believe(self._states.setdefault(name, {}), self._clock(), rest, belief)

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive."""
        with self._lock:
            alive(self._states.setdefault(name, {}), self._clock(), holder, held, self.lifetime)

    async def aclose(self) -> None:
        """Does nothing: others may use the same store."""

    def __repr__(self) -> str:
        return "<MemoryLimitStore>"


_shared: list[ref[MemoryLimitStore]] = []


def process_store() -> MemoryLimitStore:
    """Returns the store that all in this process share who use "memory". It is gone when nobody uses it any more."""
    store = _shared[0]() if _shared else None
    if store is None:
        store = MemoryLimitStore()
        _shared[:] = [ref(store)]
    return store


def check_number(name: str, value: object) -> None:
    """Raises ConfigError for a limit that is no number above 0, or too large or too small to count with."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} must be a number above 0, not {value!r}")
    if not 0 < value < inf:  # also NaN
        raise ConfigError(f"{name} must be greater than 0, not {value}")
    if not _SMALLEST <= value <= _LARGEST:
        raise ConfigError(f"{name} must be between {_SMALLEST:g} and {_LARGEST:g}")
