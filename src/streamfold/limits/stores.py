"""The interface of the stores that count requests, tokens and costs, and the store in memory."""

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
    """Counts the requests, tokens and costs of limits. Each limit has a name. The methods block, and any thread may
    call them.

    Attributes:
        prefetch_seconds: a period in seconds. One operation reserves only requests that may be sent in this period, but
            at least one.
        lease_seconds: the time after which the store releases the slots of a crashed process, in seconds.
        threads: the number of calls to the store that may run in parallel.
    """

    prefetch_seconds: float = 0.0
    lease_seconds: float = inf
    threads: ClassVar[int] = 1

    @abstractmethod
    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        """Applies a batch's operations to the limit with this name. If a batch is sent twice, the second call returns
        the first response and changes nothing.

        Raises:
            LimitStoreError: the store didn't respond, but may have applied the batch.
            ConfigError: the store refuses the password.
        """

    def close_idle(self) -> None:  # noqa: B027 - most stores have nothing to close
        """Closes idle connections. Limiters call this method after some seconds without requests."""

    @abstractmethod
    def close(self) -> None:
        """Closes files and connections, which the next call opens again."""

    async def aclose(self) -> None:
        """Runs `close` in a thread, because it may block."""
        await close_in_thread(self.close)


class MemoryLimitStore(LimitStore):
    """Counts requests, tokens and costs in this process.

    Args:
        clock: a function that returns the time in seconds since 1970. The default is a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        began = time.time() - time.monotonic()
        self._clock = clock or (lambda: began + time.monotonic())
        self._states: dict[str, State] = {}
        self._batches: dict[tuple[str, str], tuple[int, BatchAnswer]] = {}
        self._lock = Lock()  # event loops of several threads may share a store

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        with self._lock:
            number, answer = self._batches.get((name, batch.holder), (0, None))
            if answer is None or not batch.number or number < batch.number:
                answer = apply(self._states.setdefault(name, {}), self._clock(), batch)
                if batch.number:
                    self._batches[name, batch.holder] = batch.number, answer
            return answer

    def close(self) -> None:
        pass  # others may use the same store

    async def aclose(self) -> None:
        pass

    def __repr__(self) -> str:
        return "<MemoryLimitStore>"


_shared: list[ref[MemoryLimitStore]] = []


def process_store() -> MemoryLimitStore:
    """Returns the store "memory" of this process, which exists as long as a limiter uses it."""
    store = _shared[0]() if _shared else None
    if store is None:
        store = MemoryLimitStore()
        _shared[:] = [ref(store)]
    return store


def check_number(name: str, value: object) -> None:
    """Raises ConfigError if a limit isn't a number greater than 0, or is too large or too small."""
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
