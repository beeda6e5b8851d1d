"""What stores outside of this process have in common: their calls block, so they run in threads, for a bounded time."""

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

PATIENCE = 1.5  # seconds for which anything waits for a store
_AGAIN = 1.0  # seconds until a store that failed is tried again

_limiters: RunVar[WeakKeyDictionary[ThreadedCalls, anyio.CapacityLimiter]] = RunVar("streamfold-stores")


class ThreadedCalls:
    """Calls of a store, in threads of their own, so that nobody else waits for one.

    Nobody waits longer than a second and a half. A call that takes longer is given up, but goes on in its thread; the
    store is not asked again before that has ended. After a failure, calls fail at once for a second.

    Args:
        store: what errors call it.
        failures: returns what calls raise when the store can't be used.
        threads: how many calls run at once.

    Attributes:
        why: why the last call failed; None if it did not.
        failures: how many calls failed.
    """

    def __init__(self, store: object, failures: Callable[[], tuple[type[Exception], ...]], threads: int = 1) -> None:
        self._store = store
        self._raised = failures
        self._threads = threads
        self.why: str | None = None
        self._again = 0.0
        self.failures = 0
        self._given_up: list[_Call[Any]] = []  # those that may still run

    async def ask(self, ask: Callable[[], T]) -> T:
        """Returns what a call returns. Raises StoreError."""
        self._given_up = [call for call in self._given_up if not call.ended]
        if len(self._given_up) >= self._threads:
            raise StoreError(f"{self._store!r} does not answer")
        self.check()
        call = _Call(self, ask)
        try:
            limiter = self._limiter()
            with suppress(Interrupted):
                await run_within(
                    partial(anyio.to_thread.run_sync, call.run, abandon_on_cancel=True, limiter=limiter), PATIENCE
                )
        except self._raised() as error:
            raise self._failed(f"{self._store!r} can't be used: {error}") from error
        if call.found:  # in time, or while the event loop was too busy to see it
            self.why = None
            return call.found[0]
        if not call.began:
            raise StoreError(f"{self._store!r} has too much to do")
        self._given_up.append(call)
        raise self._failed(f"{self._store!r} did not answer within {PATIENCE:g} seconds")

    def check(self) -> None:
        """Raises StoreError while the store is not to be asked."""
        if self.why is not None:
            if monotonic() < self._again:
                raise StoreError(self.why)
            self._again = monotonic() + _AGAIN  # the others wait for how this one fares

    @property
    def is_resting(self) -> bool:
        """Whether the store failed less than a second ago, so that it is not to be asked."""
        return self.why is not None and monotonic() < self._again

    def recovered(self) -> None:
        """Notes that the store can be used."""
        self.why = None

    def _failed(self, why: str) -> StoreError:
        self.why, self._again = why, monotonic() + _AGAIN
        self.failures += 1
        return StoreError(why)

    def _limiter(self) -> anyio.CapacityLimiter:
        try:
            limiters = _limiters.get()
        except LookupError:
            limiters = WeakKeyDictionary()
            _limiters.set(limiters)
        if self not in limiters:
            limiters[self] = anyio.CapacityLimiter(self._threads)
        return limiters[self]


class _Call(Generic[T]):
    """A call that may be given up while it runs in its thread.

    Attributes:
        began, ended: whether its thread has begun with it, and is done.
        found: what it has returned, in a list; empty before, and if it has failed.
    """

    def __init__(self, calls: ThreadedCalls, call: Callable[[], T]) -> None:
        self._calls, self._call = calls, call
        self._failures = calls.failures
        self.began = self.ended = False
        self.found: list[T] = []

    def run(self) -> None:
        if self._calls.failures != self._failures and self._calls.why:  # while it waited for its thread
            raise StoreError(self._calls.why)
        self.began = True
        try:
            self.found.append(self._call())
        finally:
            self.ended = True


class ThreadedStore(ABC):
    """A store whose calls block: see `ThreadedCalls`.

    Reading and writing have threads of their own: a disk that is full can be read, and nobody who reads waits for who
    writes.

    Args:
        retention: how much is kept.
        clock: what the age goes by, in seconds since 1970.
    """

    threads: ClassVar[int] = 1

    def __init__(self, retention: Retention | None, clock: Callable[[], float] = time) -> None:
        self._retention = retention or Retention()
        self._clock = clock
        self._reading = ThreadedCalls(self, self.failures, self.threads)
        self._writing = ThreadedCalls(self, self.failures, self.threads)
        self.name = uuid4().hex

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known. Their records have been used then."""
        return await self._reading.ask(partial(self.get_now, owner, list(keys)))

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        """Keeps values, all or none. Returns whether they are kept."""
        return await self._writing.ask(partial(self.put_now, owner, dict(values), new, ahead))

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        """Returns the parts of a record whose names sort behind `after`, in the order of their names."""
        return await self._reading.ask(partial(self.parts_now, owner, key, after))

    async def delete(self, owner: str, key: str) -> bool:
        """Forgets a record. Returns whether there was one."""
        return await self._writing.ask(partial(self.delete_now, owner, key))

    async def runs(self, name: str) -> bool:
        """Returns whether the opening of that name is still in use: its process runs, and has not closed it."""
        return name == self.name or await self._reading.ask(partial(self.runs_now, name))

    async def aclose(self) -> None:
        """Closes files and connections. They are opened again when they are needed again."""
        await close_in_thread(self.close_now)

    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]:
        """Returns what its calls raise when it can't be used."""

    @abstractmethod
    def get_now(self, owner: str, keys: list[str]) -> Mapping[str, bytes]:
        """As `get`, blocking."""

    @abstractmethod
    def put_now(self, owner: str, values: dict[str, bytes], new: bool, ahead: float) -> bool:
        """As `put`, blocking."""

    @abstractmethod
    def parts_now(self, owner: str, key: str, after: str) -> Mapping[str, bytes]:
        """As `parts`, blocking."""

    @abstractmethod
    def delete_now(self, owner: str, key: str) -> bool:
        """As `delete`, blocking."""

    @abstractmethod
    def runs_now(self, name: str) -> bool:
        """As `runs`, blocking, for the name of another opening."""

    @abstractmethod
    def close_now(self) -> None:
        """As `aclose`, blocking."""


async def close_in_thread(close: Callable[[], None]) -> None:
    """Closes something that may block, also when the task has been cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(close)
