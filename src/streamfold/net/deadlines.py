"""Ends what takes too long, without ever cancelling a task of the caller's.

A cancellation on asyncio doesn't say who sent it. If a deadline of ours and one of the caller's cancel the same task in
the same turn of the event loop, neither can take its own cancellation back, and a CancelledError that nobody requested
is left over. So on asyncio

- whatever has no connection yet (connecting, TLS, sending, the head of the response), and bodies without a connection
  of their own (HTTP/2, in-memory transports), are awaited in a task of ours, which is the one that is cancelled;
- a body with a connection of its own is read in the caller's task, and a timer ends the connection. The pending read
  returns what has arrived, then fails.

On trio a cancel scope around one await is exact, and is used for both.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any, Protocol, TypeVar

import anyio

T = TypeVar("T")

_CANCELLING = 5.0  # seconds that a cancelled step may take to end
_ABSORBED = 0.01  # seconds after which it is looked at whether a cancellation has been absorbed


class Interrupted(Exception):
    """A step was ended by its deadline, or by `end`."""


def event_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop of asyncio in which this task runs; None on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Steps(Protocol):
    """Runs steps of one exchange, one at a time."""

    async def run(self, step: Callable[[], Awaitable[T]], due: float) -> T:
        """Returns what a step returns, also where that comes together with the deadline.

        Args:
            due: the deadline, in the event loop's time.

        Raises:
            Interrupted: the deadline passed, or `end` was called.
        """
        ...

    async def end(self) -> None:
        """Ends the current step, if there is one. From any task."""
        ...


def make_steps(loop: asyncio.AbstractEventLoop | None) -> Steps:
    """Returns the steps of an exchange, given the running event loop of asyncio; None on trio."""
    return _ScopedSteps() if loop is None else _TaskSteps(loop)


async def run_within(step: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Returns what a step returns, if that takes no longer than so many seconds.

    Raises:
        Interrupted: it took longer, and was cancelled.
    """
    return await make_steps(event_loop()).run(step, anyio.current_time() + seconds)


class _TaskSteps:
    """Runs each step in a task of its own, in a copy of the caller's context."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def run(self, step: Callable[[], Awaitable[T]], due: float) -> T:
        async def awaited() -> T:
            return await step()

        self._interrupted = False
        task: asyncio.Task[T] = self._loop.create_task(awaited(), name="streamfold")
        self._task = task
        try:
            await asyncio.wait([task], timeout=None if due == inf else max(0.0, due - self._loop.time()))
            if not task.done():
                self._interrupted = True
                await _cancel(task)
        except asyncio.CancelledError:  # of the caller
            await _cancel(task)
            raise
        finally:
            self._task = None
        if self._interrupted and (not task.done() or task.cancelled() or task.exception() is not None):
            raise Interrupted
        return task.result()

    async def end(self) -> None:
        task = self._task
        if task is not None and not task.done():
            self._interrupted = True
            await _cancel(task)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancels a task of ours and waits for its end. A cancellation of the caller meanwhile is raised after that.

    The task is cancelled once: a second cancellation would reach httpcore while it closes the connection, which then
    stays open. But anyio's `connect_tcp` may absorb one that comes together with the connection; then it is sent again.
    """
    loop, cancelled = task.get_loop(), None
    ends = loop.time() + _CANCELLING
    with anyio.CancelScope(shield=True):
        while not task.done() and loop.time() < ends:
            if not task.cancelling():
                task.cancel()
            try:
                await asyncio.wait([task], timeout=_ABSORBED)
            except asyncio.CancelledError as exc:
                cancelled = exc
    if task.done() and not task.cancelled():
        task.exception()  # else asyncio logs one that is never retrieved
    if cancelled is not None:
        raise cancelled


class _ScopedSteps:
    """Runs each step in a cancel scope of its own."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    async def run(self, step: Callable[[], Awaitable[T]], due: float) -> T:
        with anyio.CancelScope(deadline=due) as scope:
            self._scope = scope
            try:
                return await step()
            finally:
                self._scope = None
        raise Interrupted

    async def end(self) -> None:
        if self._scope is not None:
            self._scope.cancel()


class ReadTimer:
    """The timer of a body that is read from a connection of its own, on asyncio. One timer serves all reads.

    Used as a context manager around each read.

    Args:
        due: returns when the current read must end, in the event loop's time.
        expire: called when that has passed and the read still waits; ends the connection.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], float], expire: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._reading = self._closed = False

    def __enter__(self) -> None:
        self._reading = True
        due = self._due()
        if self._timer is None or due < self._timer.when():  # else it fires early, and is set again then
            self._set(due)

    def __exit__(self, *_: object) -> None:
        self._reading = False

    def close(self) -> None:
        """Stops the timer for good."""
        self._closed = True
        self._set(inf)

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due == inf or self._closed else self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._reading:
            return  # the next read sets it
        due = self._due()
        if self._loop.time() >= due:
            self._expire()
        else:
            self._set(due)


def shut_down(connection: Any) -> None:
    """Ends the connection of a socket that a library reads from: what has arrived is still read, and then its end.

    Args:
        connection: a socket, or what asyncio or uvloop show of one, which can't be shut down itself on uvloop.
    """
    with suppress(OSError, ValueError):  # it is closed
        copy = socket.fromfd(connection.fileno(), connection.family, connection.type)
        try:
            copy.shutdown(socket.SHUT_RDWR)
        finally:
            copy.close()
