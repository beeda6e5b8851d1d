"""Computes the deadlines of a stream, and cancels waiting operations: on asyncio with a timer or a task, on trio with a
cancel scope.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Self, TypeVar

import anyio

from ..errors import APITimeoutError, TimeoutPhase
from ..types import Timeouts

T = TypeVar("T")

_CANCELLING = 5.0  # seconds that a cancelled step may take to end
_ABSORBED = 0.01  # seconds after which a task that absorbed its cancellation is cancelled again
_WHOLE_ANSWER = 600.0  # seconds, as the clients of OpenAI and Anthropic have it
_WHAT: dict[TimeoutPhase, str] = {
    "connect": "no connection",
    "first_event": "no part of the answer arrived",
    "read": "no bytes arrived",
    "stall": "the server sent bytes, but no part of the answer",
    "total": "the answer was not finished",
}


def whole_answer_timeouts(timeouts: Timeouts) -> Timeouts:
    """Returns the timeouts for an answer that isn't streamed. `first_event` is longer, because the server sends nothing
    before the answer is complete.
    """
    first = timeouts.first_event
    return timeouts if first is None else replace(timeouts, first_event=max(first, _WHOLE_ANSWER))


class StreamTimeouts:
    """Computes the deadlines of one answer, for all of its attempts. Deadlines are times of the event loop's clock.

    `first_event` and `stall` measure the wait for the next part of the answer; comments, pings and metadata don't
    restart these timeouts. `read` measures the wait for any bytes. Time that the application spends between two reads
    counts only for `total`.

    Args:
        now: the current time. The timeout `total` starts now, and includes the pauses between attempts.

    Attributes:
        ends: the time at which `total` expires.
    """

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self.timeouts = timeouts
        self.ends = inf if timeouts.total is None else now + timeouts.total
        self._answer_due = inf  # when the next part of the answer must have arrived
        self._read_at = now
        self._has_begun = False  # whether a part of the answer has arrived

    def start(self, now: float) -> None:
        """Starts the timeouts of one attempt. Must be called when the request is sent."""
        self._read_at, self._has_begun = now, False
        self._answer_due = _after(now, self.timeouts.first_event)

    def pause(self) -> None:
        """Stops all timeouts except `total` until the next `start`."""
        self._has_begun, self._answer_due = False, inf

    def start_read(self, now: float, *, made_progress: bool) -> float:
        """Records that the reader starts to wait for bytes. Returns the deadline of this wait.

        Args:
            made_progress: True if the bytes since the last call contained a part of the answer.
        """
        self._read_at = now
        if made_progress:
            self._has_begun, self._answer_due = True, _after(now, self.timeouts.stall)
        return self.due()

    def due(self) -> float:
        """Returns the time at which the next timeout expires."""
        due = min(self.ends, self._answer_due)
        return min(due, _after(self._read_at, self.timeouts.read)) if self._has_begun else due

    def timeout(self, request_id: str | None) -> APITimeoutError:
        """Returns the error for the timeout that expires first."""
        candidates: list[tuple[float, TimeoutPhase]] = [(self.ends, "total")]
        candidates.append((self._answer_due, "stall" if self._has_begun else "first_event"))
        if self._has_begun:
            candidates.append((_after(self._read_at, self.timeouts.read), "read"))
        return self.error(min(candidates)[1], request_id=request_id)

    def error(self, phase: TimeoutPhase, what: str | None = None, *, request_id: str | None = None) -> APITimeoutError:
        """Returns the error for an expired timeout.

        Args:
            what: the beginning of the error message. With None, the message begins with the timeout's standard text.
        """
        seconds = getattr(self.timeouts, phase)
        return APITimeoutError(
            f"{what or _WHAT[phase]} within {seconds:g} seconds (timeouts.{phase})",
            phase=phase,
            retryable=phase != "total",
            request_id=request_id,
        )


def _after(now: float, seconds: float | None) -> float:
    return inf if seconds is None else now + seconds


# Deadlines never cancel a task of the caller. On asyncio, if a deadline of streamfold and one of the caller cancel the
# same task at once, neither can undo its cancellation, and a CancelledError is left over. So on asyncio
# - steps without a connection (connecting, TLS, sending, status and headers), and bodies that share a connection
#   (HTTP/2) or have none (in-memory transports), are awaited in streamfold's own task, which is cancelled;
# - a body with its own connection is read in the caller's task, and a timer shuts down the connection. The pending read
#   returns the data that has arrived, then fails.
# On trio, a cancel scope around one await is exact, and is used for both.


class Interrupted(Exception):
    """Raised if a step passes its deadline, or if another task calls `end`."""


def event_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the running asyncio event loop, or None on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def make_steps(loop: asyncio.AbstractEventLoop | None) -> _TaskSteps | _ScopedSteps:
    """Returns an object that runs the steps of one exchange, such as sending and reading, one at a time.

    The object's method `run` returns the result of a step, even if the step finishes exactly at the deadline. `run`
    raises Interrupted if the deadline passes or if another task calls `end`.

    Args:
        loop: the running asyncio event loop; None on trio.
    """
    return _ScopedSteps() if loop is None else _TaskSteps(loop)


async def next_or_none(pieces: AsyncIterator[T]) -> T | None:
    """Returns the next item of an iterator over a body, or None at its end."""
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        return None


async def run_within(step: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
    """Calls an async function and returns its result. Raises Interrupted if it takes longer than `seconds`."""
    return await make_steps(event_loop()).run(step, anyio.current_time() + seconds)


class _TaskSteps:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def run(self, step: Callable[[], Coroutine[Any, Any, T]], due: float) -> T:
        self._interrupted = False
        task: asyncio.Task[T] = self._loop.create_task(step(), name="streamfold")
        self._task = task
        try:
            await asyncio.wait([task], timeout=None if due == inf else max(0.0, due - self._loop.time()))
            if not task.done():
                self._interrupted = True
                await _cancel(task)
        except asyncio.CancelledError:  # the caller was cancelled
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
    """Cancels a task that streamfold has created, and waits until it has finished. If the caller was cancelled
    meanwhile, raises that cancellation.

    A second cancellation would interrupt httpcore while it closes the connection, and the connection would stay open.
    So the task is cancelled again only if it has swallowed the first cancellation, as anyio's `connect_tcp` may do.
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
        task.exception()  # otherwise asyncio logs an exception that was never retrieved
    if cancelled is not None:
        raise cancelled


class _ScopedSteps:
    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    async def run(self, step: Callable[[], Coroutine[Any, Any, T]], due: float) -> T:
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
    """On asyncio, interrupts reads of a response body at their deadlines. All reads of a body share one timer.

    Args:
        expire: a function that is called if a read hasn't returned at its deadline. The function must shut down the
            connection.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf
        self._reading = self._closed = False

    def until(self, due: float) -> Self:
        """Sets the deadline of the next read. Returns a context manager for this read."""
        self._due = due
        return self

    def __enter__(self) -> None:
        self._reading = True
        if self._timer is None or self._due < self._timer.when():  # otherwise it fires early, and `_check` restarts it
            self._set(self._due)

    def __exit__(self, *_: object) -> None:
        self._reading = False

    def close(self) -> None:
        """Stops the timer permanently."""
        self._closed = True
        self._set(inf)

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due == inf or self._closed else self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._reading:
            return  # the next read sets the timer
        if self._loop.time() >= self._due:
            self._expire()
        else:
            self._set(self._due)


def shut_down(connection: Any) -> None:
    """Shuts down a socket's connection. The HTTP library can still read the data that has arrived.

    Args:
        connection: a socket, or the socket object of an asyncio or uvloop transport.
    """
    with suppress(OSError, ValueError):  # closed already
        copy = socket.fromfd(connection.fileno(), connection.family, connection.type)
        try:
            copy.shutdown(socket.SHUT_RDWR)
        finally:
            copy.close()
