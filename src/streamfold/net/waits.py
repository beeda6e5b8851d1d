"""Waits that a deadline or another task can end.

A cancel scope for every read of a stream costs as much as all the rest of the read. So on asyncio each stream has one
timer, which is checked when it fires instead of being set for every wait. A wait is ended as `asyncio.timeout` ends its
block: the task is cancelled, and the cancellation is taken back when it arrives. On trio each wait has a cancel scope.
Neither holds anything while control is with the caller.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any, Protocol

import anyio

_AGAIN = 0.01  # seconds after which a wait that somebody else has cancelled is ended if it goes on


class Interrupted(Exception):
    """A wait was ended by its deadline or by `end`."""


class Deadline(Protocol):
    """Says when a wait must end: `Clocks`, for the waits of an answer.

    Attributes:
        least: seconds from any moment before which a deadline does not fall that is nearer than the one of this moment;
            infinite: it never comes nearer.
    """

    least: float

    def due(self) -> float:
        """The moment, by the event loop's time; infinite: never."""
        ...


class Waits(Protocol):
    """The waits of one stream, one at a time."""

    def now(self) -> float:
        """The event loop's time."""
        ...

    def __enter__(self) -> None:
        """Begins a wait: what is awaited in the block."""
        ...

    def __exit__(self, *error: Any) -> None:
        """Ends it. Raises Interrupted if `end` or the deadline did; any other cancellation is passed on."""
        ...

    def end(self) -> None:
        """Ends the current wait, if there is one. From any task."""
        ...

    def close(self) -> None:
        """Must be called when there will be no more waits."""
        ...


def waits(deadline: Deadline, loop: asyncio.AbstractEventLoop | None) -> Waits:
    """Returns the waits of a stream, given the running event loop of asyncio; None on trio."""
    return _ScopedWaits(deadline) if loop is None else _TimedWaits(deadline, loop)


def event_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop of asyncio in which this task runs; None on trio."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


class _TimedWaits:
    def __init__(self, deadline: Deadline, loop: asyncio.AbstractEventLoop) -> None:
        self._deadline = deadline
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None  # the one that waits
        self._others = 0  # cancellations of that task by others: they are not ours to take back
        self._interrupted = False
        self._again: asyncio.TimerHandle | None = None
        self.now = self._loop.time

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a stream is read by tasks")
        self._others = task.cancelling()
        if self._timer is None:
            self._set_timer()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._interrupted and task is not None:
            self._interrupted = False
            if task.uncancel() == self._others and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise Interrupted from None

    def end(self) -> None:
        if self._task is None or self._interrupted:
            return
        if self._task.cancelling() > self._others:
            # Cancelled by somebody else, and perhaps just closing the connection: a second cancellation would hit
            # httpcore in the middle of that, and the connection would stay open for ever.
            self._again = self._loop.call_later(_AGAIN, self.end)
            return
        self._interrupted = True
        self._task.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        due = min(self._deadline.due(), self.now() + self._deadline.least)  # it may come nearer meanwhile
        if due != inf:
            self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._task is None:
            return  # the stream waits for its reader: the next wait sets the timer
        if self.now() >= self._deadline.due():
            self.end()
        else:
            self._set_timer()


class _ScopedWaits:
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._scope: anyio.CancelScope | None = None
        self.now = anyio.current_time

    def __enter__(self) -> None:
        self._scope = anyio.CancelScope(deadline=self._deadline.due())
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        scope, self._scope = self._scope, None
        if scope is not None and scope.__exit__(*error) and error[0] is not None:
            raise Interrupted from None

    def end(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        pass
