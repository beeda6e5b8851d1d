"""The interface of stores of limits, and the store in memory."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import ClassVar
from weakref import ref

from ..errors import ConfigError
from ..stores import close_in_thread
from .limit_state import Batch, BatchAnswer, State, apply

_SMALLEST, _LARGEST = 1e-9, 1e12
LARGEST_BUDGET = 10**9
SMALLEST_BUDGET = 1e-6


class LimitStore(ABC):
    """Counts limits by name. The methods block, and may be called from any thread.

    Attributes:
        prefetch_seconds: seconds for which one batch may reserve several moments, to save round trips.
        lease_seconds: seconds after which the slots of a dead process are released.
        threads: how many calls may run in parallel.
    """

    prefetch_seconds: float = 0.0
    lease_seconds: float = inf
    threads: ClassVar[int] = 1

    @abstractmethod
    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        """Applies the operations of a batch. A batch that is sent again gets its previous answer and isn't applied
        again.

        Raises:
            LimitStoreError: the store can't be used. The batch may have been applied.
            ConfigError: the store refuses its password.
        """

    def close_idle(self) -> None:  # noqa: B027 - most stores have nothing to close
        """Closes idle connections. Called when the store hasn't been used for some seconds."""

    @abstractmethod
    def close(self) -> None:
        """Closes files and connections. The next call opens them again."""

    async def aclose(self) -> None:
        """Closes in a thread."""
        await close_in_thread(self.close)


class MemoryLimitStore(LimitStore):
    """Counts in this process.

    Args:
        clock: seconds since 1970. Default: a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        began = time.time() - time.monotonic()
        self._clock = clock or (lambda: began + time.monotonic())
        self._states: dict[str, State] = {}
        self._batches: dict[tuple[str, str], tuple[int, BatchAnswer]] = {}
        self._lock = Lock()  # event loops of several threads may share a store

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        with self._lock:
            if not batch.number:
                return apply(self._states.setdefault(name, {}), self._clock(), batch)
            key = (name, batch.holder)
            number, answer = self._batches.get(key, (0, None))
            if answer is None or number < batch.number:
                answer = apply(self._states.setdefault(name, {}), self._clock(), batch)
                self._batches[key] = batch.number, answer
            return answer

    def close(self) -> None:
        pass  # others may use the same store

    async def aclose(self) -> None:
        pass

    def __repr__(self) -> str:
        return "<MemoryLimitStore>"


_shared: list[ref[MemoryLimitStore]] = []


def process_store() -> MemoryLimitStore:
    """Returns the store of this process ("memory"), which exists as long as a limiter uses it."""
    store = _shared[0]() if _shared else None
    if store is None:
        store = MemoryLimitStore()
        _shared[:] = [ref(store)]
    return store


def check_number(name: str, value: object) -> None:
    """Raises ConfigError for a limit that isn't a number above 0, or is too large or too small to count with."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} must be a number above 0, not {value!r}")
    if not 0 < value < inf:  # also NaN
        raise ConfigError(f"{name} must be greater than 0, not {value}")
    if not _SMALLEST <= value <= _LARGEST:
        raise ConfigError(f"{name} must be between {_SMALLEST:g} and {_LARGEST:g}")
    if name == "max_cost_per_day" and not SMALLEST_BUDGET <= value <= LARGEST_BUDGET:
        raise ConfigError(f"{name} must be between 0.000001 and {LARGEST_BUDGET:,}: money is counted in millionths")
