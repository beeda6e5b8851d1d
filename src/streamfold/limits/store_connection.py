"""Sends a limiter's operations to its store so that each takes effect once. Counts in this process while the store is
down.

If the connection to a store breaks, the store may have applied a batch whose response is lost. So a limiter numbers its
batches, sends one batch at a time, and repeats a batch until the store responds. The store applies each number only
once.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from threading import Event, Lock, Thread
from time import time
from uuid import uuid4

import anyio
import anyio.to_thread

from ..errors import ConfigError, LimitStoreError
from ..net import Interrupted, run_within
from ..stores import PATIENCE, StoreError, ThreadedCalls
from .limit_state import DAY, Batch, BatchAnswer, Charge, Grant, Operation, PauseSending, Reserve
from .stores import LimitStore, MemoryLimitStore

_MOST_QUEUED = 10_000  # charges that are queued one by one for a store that is down; more are added up
_MOST_SENT = 100  # operations of one batch

_logger = logging.getLogger("streamfold.limits")


class LocalSession:
    """Connects a limiter to a store in this process. Calls to this store don't block, and its responses can't be lost.

    Args:
        leased: True if requests occupy slots or reserve money until they are finished.
        budgeted: True if the limiter has a budget.
    """

    def __init__(self, store: MemoryLimitStore, name: str, *, leased: bool, budgeted: bool) -> None:
        self.prefetch_seconds = store.prefetch_seconds
        self._store, self._name = store, name
        self._holder = uuid4().hex[:12]
        self._lease, self._budgeted = inf if leased else 0.0, budgeted

    async def reserve(self, ask: Reserve) -> tuple[Grant, LimitStore | None]:
        return self._apply(ask).grants[0] or Grant(), None

    async def send(self, operation: Charge | PauseSending, local: LimitStore | None = None) -> None:
        self._apply(operation)

    async def aclose(self) -> None:
        pass

    def _apply(self, operation: Operation) -> BatchAnswer:
        return self._store.apply(self._name, Batch((operation,), self._holder, 0, self._lease, self._budgeted))


class SharedLimitStore:
    """A store outside of this process, such as a Valkey server, that may be down for some time. All limiters of a
    program can share it.

    Args:
        local: True to count in this process while the store is down, with the limits divided by `replicas`. False to
            raise LimitStoreError instead.
    """

    def __init__(self, store: LimitStore, *, local: bool, replicas: int) -> None:
        self.store, self.replicas = store, replicas
        self._counts_locally = local
        self._local: MemoryLimitStore | None = None
        self._calls = ThreadedCalls(self, lambda: (LimitStoreError,), store.threads)
        self.availability = self._calls.availability
        self._failure: LimitStoreError | None = None
        self._guard = Lock()
        self._active: set[SharedSession] = set()
        self._thread: Thread | None = None
        self._stop = Event()

    @property
    def failure(self) -> LimitStoreError | None:
        """The last error if the store failed less than a second ago, otherwise None. During this second, the store
        isn't called.
        """
        return self._failure if self.availability.is_paused else None

    async def run(self, call: Callable[[], None]) -> None:
        """Runs a blocking call to the store in a thread, for a limited time. Raises LimitStoreError or ConfigError."""
        try:
            await self._calls.ask(call)
        except StoreError as error:
            message = error.__cause__.message if isinstance(error.__cause__, LimitStoreError) else error.message
            failure = LimitStoreError(message, retryable=True)
            self.note_failure(failure)
            raise failure from error
        self.note_success()

    def note_failure(self, failure: LimitStoreError) -> None:
        """Records that a call to the store failed, and logs the first failure."""
        if self._failure is None:
            instead = "limits are counted in this process" if self._counts_locally else "nothing is sent"
            _logger.warning("%s; %s until the store works again", failure.message, instead)
        self._failure = failure

    def note_success(self) -> None:
        """Records that a call to the store succeeded. If earlier calls failed, logs that the store works again."""
        if self._failure is not None:
            _logger.warning("%r can be used again", self.store)
            self._failure = self._local = None
            self.availability.recovered()

    def local_store(self) -> MemoryLimitStore | None:
        """Returns the store in this process that counts while the shared store is down, or None if requests raise
        LimitStoreError instead.
        """
        if self._counts_locally and self._local is None:
            self._local = MemoryLimitStore()
        return self._local

    def watch(self, session: SharedSession) -> None:
        """Starts a thread that renews a limiter's lease and sends its queued operations. The thread ends when no
        limiter needs it.
        """
        if session in self._active and self._thread is not None and self._thread.is_alive():
            return
        with self._guard:
            self._active.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._stop = Event()
                self._thread = Thread(target=self._watch, args=(self._stop,), name="streamfold-limits", daemon=True)
                self._thread.start()

    async def aclose(self) -> None:
        """Sends the operations in the queues of all limiters, and closes the store."""
        for session in list(self._active):
            await session.aclose()
        with self._guard:
            self._stop.set()
            self._thread = None
            self._active.clear()
        await self.store.aclose()

    def __repr__(self) -> str:
        return repr(self.store)

    def _watch(self, stop: Event) -> None:
        while not stop.wait(min(self.store.lease_seconds / 5, 3.0)):
            for session in list(self._active):
                try:
                    if not session.beat():
                        self._active.discard(session)
                except LimitStoreError as error:
                    self.note_failure(error)
                except Exception as error:  # without this thread, slots would expire
                    _logger.warning("the limits of %r can't be renewed: %s", session.name, error)
            with self._guard:
                if not self._active and not stop.is_set():
                    self._thread = None
                    break
        with suppress(Exception):  # the connections may be broken
            self.store.close_idle()


@dataclass(slots=True, eq=False)
class _Call:
    """An operation that is in the queue or was sent to the store.

    Attributes:
        grant: the store's response to a `Reserve` operation.
        done: True if the store has responded.
        abandoned: True if the caller was cancelled. The grant for a cancelled caller must be released.
    """

    operation: Operation
    grant: Grant | None = None
    done: bool = False
    abandoned: bool = False


class SharedSession:
    """Connects a limiter to a store outside of this process.

    Args:
        leased: True if requests occupy slots or reserve money until they are finished.
        budgeted: True if the limiter has a budget.
    """

    def __init__(self, shared: SharedLimitStore, name: str, *, leased: bool, budgeted: bool) -> None:
        self.name = name
        self.prefetch_seconds = shared.store.prefetch_seconds
        self._shared = shared
        self._lease = shared.store.lease_seconds if leased else 0.0
        self._budgeted = budgeted
        self._turn = anyio.Lock(fast_acquire=True)
        self._away: tuple[MemoryLimitStore, int] | None = None  # what was spent when the store went down
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._holder = uuid4().hex[:12]
        self._sending, self._answering = Lock(), Lock()
        self._queue: deque[_Call] = deque()
        self._sent: tuple[Batch, list[_Call]] | None = None  # the batch that isn't answered yet
        self._number = 0
        self._doubtful = False  # whether a batch was ever sent again
        self._held = Batch()  # slots and money as the store has them; `born`, `day` and `spent` of its last answer

    async def reserve(self, ask: Reserve) -> tuple[Grant, LimitStore | None]:
        """Reserves the times at which requests may be sent.

        Returns the store's grant and None. While the shared store is down, returns the grant of a store in this
        process, and that store.

        Raises:
            LimitStoreError: the store can't be used, and `on_store_error` is "refuse".
            ConfigError: the store refuses the password.
        """
        failure = self._shared.failure
        if failure is None:
            call = _Call(ask)
            try:
                await self._exchange(call)
            except BaseException as error:
                self._abandon(call)
                if not isinstance(error, LimitStoreError):
                    raise
                failure = error
            else:
                return call.grant or Grant(), None
        local = self._shared.local_store()
        if local is None:
            raise LimitStoreError(failure.message, retryable=True)
        return self._reserve_locally(local, ask), local

    async def send(self, operation: Charge | PauseSending, local: LimitStore | None = None) -> None:
        if local is not None:
            local.apply(self.name, self._local_batch(operation))
            if isinstance(operation, Charge):  # the shared store has reserved nothing, and must know what was spent
                operation = replace(operation, request_seconds=0, token_seconds=0, reserved=0, slots=0, requests=0)
                if operation == Charge(requests=0, day=operation.day):
                    return
        if self._shared.failure is None:
            try:
                await self._exchange(_Call(operation))
            except LimitStoreError:
                pass  # logged already; the operation stays in the queue
            except ConfigError as error:  # for example a changed password: the answer has arrived anyway
                _logger.warning("limits could not be charged yet: %s", error)
        elif isinstance(operation, Charge):
            self._enqueue(operation)
            self._shared.watch(self)

    async def aclose(self) -> None:
        """Sends the charges in the queue to the store. Logs charges that can't be sent.

        Also releases the lease if no request occupies a slot or reserves money.
        """
        self._check_process()
        leave = partial(anyio.to_thread.run_sync, self._leave, abandon_on_cancel=True)
        with anyio.CancelScope(shield=True), suppress(LimitStoreError, ConfigError, Interrupted):
            await run_within(leave, 2 * PATIENCE)
        lost = [call.operation for call in self._pending() if isinstance(call.operation, Charge)]
        if lost:
            money = sum(charge.money for charge in lost) / 1_000_000
            _logger.error("%d charges (%s of money) of %r could not be counted", len(lost), money, self.name)

    def beat(self) -> bool:
        """Renews the lease and sends the queued operations. Returns False if the limiter holds neither slots nor money,
        and has no operations to send.
        """
        held = self._held
        if not (held.slots or held.reserved or self._queue or self._sent):
            return False
        self.flush()
        self._shared.note_success()
        return True

    def flush(self, call: _Call | None = None, *, leaves: bool = False) -> None:
        """Sends the queued operations to the store, or only those up to `call`. Blocks until the store responds.

        Raises:
            LimitStoreError, ConfigError: the store can't be used. The next `flush` sends the same operations again.
        """
        self._check_process()
        if not self._sending.acquire(timeout=PATIENCE):
            raise LimitStoreError(f"{self._shared!r} does not answer", retryable=True)
        try:
            while call is None or not call.done:
                self._doubtful |= self._sent is not None
                batch, calls = self._sent = self._sent or self._next_batch(leaves=leaves)
                answer = self._shared.store.apply(self.name, batch)
                self._sent = None
                self._take(batch, calls, answer)
                if not self._queue:
                    break
        finally:
            self._sending.release()

    def _leave(self) -> None:
        if self._queue or self._sent:
            self.flush()
        if (
            self._shared.failure is None
            and self._number
            and not self._doubtful
            and not (self._held.slots or self._held.reserved)
        ):
            self.flush(leaves=True)

    async def _exchange(self, call: _Call) -> None:
        self._check_process()
        self._queue.append(call)
        self._shared.watch(self)
        async with self._turn:  # one task sends for all waiting tasks
            if not call.done:
                await self._shared.run(partial(self.flush, call))

    def _enqueue(self, charge: Charge) -> None:
        if len(self._queue) >= _MOST_QUEUED:
            for at, other in enumerate(self._queue):
                if isinstance(other.operation, Charge) and other.operation.day == charge.day:
                    self._queue[at] = _Call(other.operation.plus(charge))
                    return
        self._queue.append(_Call(charge))

    def _abandon(self, call: _Call) -> None:
        with self._answering:
            if call.done:
                self._give_back(call)
                return
            call.abandoned = True
            if isinstance(call.operation, Reserve):
                call.operation.requests = 0  # if it is sent again
        with suppress(ValueError):
            self._queue.remove(call)

    def _give_back(self, call: _Call) -> None:
        if call.grant is not None and call.grant.requests:
            self._queue.append(_Call(call.grant.given_back(call.grant.requests)))
            self._shared.watch(self)

    def _next_batch(self, *, leaves: bool) -> tuple[Batch, list[_Call]]:
        calls: list[_Call] = []
        with suppress(IndexError):
            while len(calls) < _MOST_SENT:
                calls.append(self._queue.popleft())
        calls.sort(key=lambda call: isinstance(call.operation, Reserve))  # charges first: they free slots
        self._number += 1
        batch = replace(
            self._held,
            operations=[call.operation for call in calls],
            holder=self._holder,
            number=self._number,
            lease=self._lease,
            budgeted=self._budgeted,
            leaves=leaves,
        )
        return batch, calls

    def _take(self, batch: Batch, calls: list[_Call], answer: BatchAnswer) -> None:
        slots, money, reserved = batch.slots, batch.money, batch.reserved
        if answer.day != batch.day:  # the money of another day isn't reserved any more
            money = reserved = 0
        for operation, grant in zip(batch.operations, answer.grants, strict=True):
            if grant is not None and grant.requests:
                slots += grant.requests if grant.slots else 0
                money += grant.requests * grant.cost
                reserved += grant.requests if self._budgeted else 0
            elif isinstance(operation, Charge):
                slots -= operation.slots
                if operation.reserved and operation.day == answer.day:
                    money, reserved = money - operation.reserved, reserved - operation.requests
        self._held = Batch(
            slots=max(0, slots),
            money=max(0, money),
            reserved=max(0, reserved),
            born=answer.born,
            day=answer.day,
            spent=answer.spent,
        )
        with self._answering:
            for call, grant in zip(calls, answer.grants, strict=True):
                call.grant, call.done = grant, True
                if call.abandoned:
                    self._give_back(call)

    def _pending(self) -> list[_Call]:
        return [*(self._sent[1] if self._sent else ()), *self._queue]

    def _check_process(self) -> None:
        if self._pid != os.getpid():  # a fork: what the parent holds is the parent's
            self._begin()

    def _local_batch(self, operation: Operation, spent: int = 0) -> Batch:
        # `born` is older than any state, so that the local state starts with the money that was already spent.
        return Batch(
            (operation,), self._holder, lease=inf, budgeted=self._budgeted, born=-1.0, day=self._held.day, spent=spent
        )

    def _reserve_locally(self, local: MemoryLimitStore, ask: Reserve) -> Grant:
        if self._away is None or self._away[0] is not local:
            charges = [call.operation for call in self._pending() if isinstance(call.operation, Charge)]
            queued = sum(charge.money for charge in charges if charge.day >= self._held.day)
            self._away = local, self._held.spent + queued
        spent, replicas = self._away[1], self._shared.replicas
        if self._held.day < time() // DAY:  # the money was spent on another day
            spent = 0
        part = replace(
            ask,
            requests=1,
            rate=ask.rate / replicas,
            token_rate=ask.token_rate / replicas,
            start=ask.start / replicas,
            slots=-(-ask.slots // replicas),
            budget=spent + max(1, (ask.budget - spent) // replicas) if ask.budget else 0,
        )
        grant = local.apply(self.name, self._local_batch(part, spent)).grants[0] or Grant()
        if ask.budget and grant.requests:
            self._enqueue(Charge(money=grant.requests * grant.cost, day=grant.day, requests=0))
            self._shared.watch(self)
        return grant
