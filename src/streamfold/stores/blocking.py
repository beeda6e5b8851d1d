"""What stores outside of this process have in common: their calls block, so they run in threads, for a bounded time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import monotonic, time
from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from .store import Retention, StoreError

__all__ = ["PATIENCE", "BlockingStore", "close_in_thread"]

T = TypeVar("T")

PATIENCE = 1.5  # seconds for which anything waits for a store
_AGAIN = 1.0  # seconds until a store that failed is tried again

_limiters: RunVar[WeakKeyDictionary[_Gate, anyio.CapacityLimiter]] = RunVar("streamfold-stores")


class _Gate:
    """Says whether a store is to be asked. After a failure nobody asks it for a moment, and then one does.

    Attributes:
        failures: how many there were.
        given_up: calls that nobody waits for any more, and that may still run.
    """

    def __init__(self) -> None:
        self._why: str | None = None
        self._again = 0.0
        self.failures = 0
        self.given_up: list[_Call[Any]] = []

    def check(self) -> None:
        """Raises StoreError while the store is not to be asked."""
        if self._why is not None:
            if monotonic() < self._again:
                raise StoreError(self._why)
            self._again = monotonic() + _AGAIN  # the others wait for how this one fares

    def failed(self, why: str) -> StoreError:
        """Notes a failure, and returns the error to raise."""
        self._why, self._again = why, monotonic() + _AGAIN
        self.failures += 1
        return StoreError(why)

    def worked(self) -> None:
        """Notes that the store can be used."""
        self._why = None


class _Call(Generic[T]):
    """A call that may be given up while it runs in its thread.

    Attributes:
        began, ended: whether its thread has begun with it, and is done.
        found: what it has returned, in a list; empty before, and if it has failed.
    """

    def __init__(self, gate: _Gate, call: Callable[[], T]) -> None:
        self._gate, self._call = gate, call
        self._failures = gate.failures
        self.began = self.ended = False
        self.found: list[T] = []

    def run(self) -> None:
        if self._gate.failures != self._failures:  # while it waited for its thread
            self._gate.check()
        self.began = True
        try:
            self.found.append(self._call())
        finally:
            self.ended = True


class BlockingStore(ABC):
    """A store whose calls block. They run in threads of its own, so that nobody else waits for one.

    Nobody waits longer than a second and a half. A call that takes longer is given up, but goes on in its thread; the
    store is not asked again before that has ended. After a failure, calls fail at once for a second. Reading and
    writing have threads of their own: a disk that is full can be read, and nobody who reads waits for who writes.

    Args:
        retention: how much is kept.
        clock: what the age goes by, in seconds since 1970.
    """

    threads: ClassVar[int] = 1

    def __init__(self, retention: Retention | None, clock: Callable[[], float] = time) -> None:
        self._retention = retention or Retention()
        self._clock = clock
        self._reading, self._writing = _Gate(), _Gate()
        self.name = uuid4().hex

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known. Their records have been used then."""
        return await self._ask(self._reading, partial(self.get_now, owner, list(keys)))

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        """Keeps values, all or none. Returns whether they are kept."""
        return await self._ask(self._writing, partial(self.put_now, owner, dict(values), new, ahead))

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        """Returns the parts of a record whose names sort behind `after`, in the order of their names."""
        return await self._ask(self._reading, partial(self.parts_now, owner, key, after))

    async def delete(self, owner: str, key: str) -> bool:
        """Forgets a record. Returns whether there was one."""
        return await self._ask(self._writing, partial(self.delete_now, owner, key))

    async def runs(self, name: str) -> bool:
        """Returns whether the opening of that name is still in use: its process runs, and has not closed it."""
        return name == self.name or await self._ask(self._reading, partial(self.runs_now, name))

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

    async def _ask(self, gate: _Gate, ask: Callable[[], T]) -> T:
        gate.given_up = [call for call in gate.given_up if not call.ended]
        if len(gate.given_up) >= self.threads:
            raise StoreError(f"{self!r} does not answer")
        gate.check()
        call = _Call(gate, ask)
        try:
            with anyio.move_on_after(PATIENCE):
                await anyio.to_thread.run_sync(call.run, abandon_on_cancel=True, limiter=self._limiter(gate))
        except self.failures() as error:
            raise gate.failed(f"{self!r} can't be used: {error}") from error
        if call.found:  # in time, or while the event loop was too busy to see it
            gate.worked()
            return call.found[0]
        if not call.began:
            raise StoreError(f"{self!r} has too much to do")
        gate.given_up.append(call)
        raise gate.failed(f"{self!r} did not answer within {PATIENCE:g} seconds")

    def _limiter(self, gate: _Gate) -> anyio.CapacityLimiter:
        try:
            limiters = _limiters.get()
        except LookupError:
            limiters = WeakKeyDictionary()
            _limiters.set(limiters)
        if gate not in limiters:
            limiters[gate] = anyio.CapacityLimiter(self.threads)
        return limiters[gate]


async def close_in_thread(close: Callable[[], None]) -> None:
    """Closes something that may block, also when the task has been cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(close)
