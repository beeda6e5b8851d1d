"""The base class of stores whose calls block. Runs the calls in threads with a timeout, and refuses calls for a second
after a failed call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, time
from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..net import Interrupted, run_within
from .store import Retention, StoreError

T = TypeVar("T")

PATIENCE = 1.5  # seconds that a call may take
RETRY_SECONDS = 1.0  # until a store that failed is tried again

_limiters: RunVar[WeakKeyDictionary[ThreadedCalls, anyio.CapacityLimiter]] = RunVar("streamfold-stores")


class Availability:
    """Decides whether a store may be called. After a failure, the store isn't called for a second.

    Attributes:
        failure: the error message of the last call, or None if the call succeeded.
        failures: the number of calls that failed.
    """

    def __init__(self) -> None:
        self.failure: str | None = None
        self.failures = 0
        self._retry_at = 0.0

    @property
    def is_paused(self) -> bool:
        """True if the store failed less than a second ago."""
        return self.failure is not None and monotonic() < self._retry_at

    def check(self) -> None:
        """Raises StoreError during the pause after a failure. After the pause, one caller may try the store, while the
        pause continues for all others.
        """
        if self.failure is not None:
            if self.is_paused:
                raise StoreError(self.failure)
            self._retry_at = monotonic() + RETRY_SECONDS

    def failed(self, why: str) -> StoreError:
        """Starts a pause. Returns the StoreError that the caller must raise."""
        self.failure, self._retry_at = why, monotonic() + RETRY_SECONDS
        self.failures += 1
        return StoreError(why)

    def recovered(self) -> None:
        """Records that a call succeeded, and ends the pause."""
        self.failure = None


class ThreadedCalls:
    """Runs the blocking calls of a store in threads, for at most 1.5 seconds each.

    streamfold stops waiting for a call that takes longer, but the call's thread continues. While all threads are busy
    with such calls, further calls raise StoreError.

    Args:
        store: the store. Error messages contain its `repr`.
        failures: a function that returns the exception classes that calls raise if the store can't be used.
        threads: the number of calls that may run in parallel.
    """

    def __init__(self, store: object, failures: Callable[[], tuple[type[Exception], ...]], threads: int = 1) -> None:
        self._store = store
        self._raised = failures
        self._threads = threads
        self.availability = Availability()
        self._given_up: list[_Call[Any]] = []  # calls that may still run

    async def ask(self, ask: Callable[[], T]) -> T:
        """Runs a call in a thread and returns its result. Raises StoreError if the store can't be used."""
        self._given_up = [call for call in self._given_up if not call.ended]
        if len(self._given_up) >= self._threads:
            raise StoreError(f"{self._store!r} does not answer")
        self.availability.check()
        call = _Call(self.availability, ask)
        try:
            limiter = self._limiter()
            with suppress(Interrupted):
                await run_within(
                    partial(anyio.to_thread.run_sync, call.run, abandon_on_cancel=True, limiter=limiter), PATIENCE
                )
        except self._raised() as error:
            raise self.availability.failed(f"{self._store!r} can't be used: {error}") from error
        if call.found:  # in time, or while the event loop was too busy to see it
            self.availability.recovered()
            return call.found[0]
        if not call.began:
            raise StoreError(f"{self._store!r} is overloaded")
        self._given_up.append(call)
        raise self.availability.failed(f"{self._store!r} did not answer within {PATIENCE:g} seconds")

    def _limiter(self) -> anyio.CapacityLimiter:
        limiters = _limiters.get(None)
        if limiters is None:
            limiters = WeakKeyDictionary()
            _limiters.set(limiters)
        return limiters.setdefault(self, anyio.CapacityLimiter(self._threads))


class _Call(Generic[T]):
    """A call in a thread. The caller may stop waiting for its result.

    Attributes:
        began, ended: True if the thread has started or finished the call.
        found: a list with the call's result. Empty before the call has finished, and after a failure.
    """

    def __init__(self, availability: Availability, call: Callable[[], T]) -> None:
        self._availability, self._call = availability, call
        self._failures = availability.failures
        self.began = self.ended = False
        self.found: list[T] = []

    def run(self) -> None:
        known = self._availability
        if known.failures != self._failures and known.failure:  # while it waited for its thread
            raise StoreError(known.failure)
        self.began = True
        try:
            self.found.append(self._call())
        finally:
            self.ended = True


class ThreadedStore(ABC):
    """A `Store` that implements its methods with blocking calls. See `ThreadedCalls`.

    Reads and writes use separate threads, so reads don't wait for writes. A store on a full disk can still be read.

    Args:
        retention: the limits of the store.
        clock: a function that returns the time in seconds since 1970. The store computes the age of records from it.
    """

    threads: ClassVar[int] = 1

    def __init__(self, retention: Retention | None, clock: Callable[[], float] = time) -> None:
        self._retention = retention or Retention()
        self._clock = clock
        self._reading = ThreadedCalls(self, self.failures, self.threads)
        self._writing = ThreadedCalls(self, self.failures, self.threads)
        self.name = uuid4().hex

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        return await self._reading.ask(partial(self.get_now, owner, list(keys)))

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        return await self._writing.ask(partial(self.put_now, owner, dict(values), new, ahead))

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        return await self._reading.ask(partial(self.parts_now, owner, key, after))

    async def delete(self, owner: str, key: str) -> bool:
        return await self._writing.ask(partial(self.delete_now, owner, key))

    async def runs(self, name: str) -> bool:
        return name == self.name or await self._reading.ask(partial(self.runs_now, name))

    async def aclose(self) -> None:
        await close_in_thread(self.close_now)

    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]:
        """Returns the exception classes that the blocking methods raise if the store can't be used."""

    @abstractmethod
    def get_now(self, owner: str, keys: list[str]) -> Mapping[str, bytes]: ...
    @abstractmethod
    def put_now(self, owner: str, values: dict[str, bytes], new: bool, ahead: float) -> bool: ...
    @abstractmethod
    def parts_now(self, owner: str, key: str, after: str) -> Mapping[str, bytes]: ...
    @abstractmethod
    def delete_now(self, owner: str, key: str) -> bool: ...
    @abstractmethod
    def runs_now(self, name: str) -> bool: ...  # called with the name of another open store
    @abstractmethod
    def close_now(self) -> None: ...


async def close_in_thread(close: Callable[[], None]) -> None:
    """Calls a blocking function in a thread, and waits for it even if the current task is cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(close)
