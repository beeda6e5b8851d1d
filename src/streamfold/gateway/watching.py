"""A client is watched while its answer is made: whether it is still there, and that its connection is kept alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from ..net import event_loop
from .bodies import Receive
from .sink import Sink

DEPARTURE = "streamfold.departure"
"""The extension of a server that says by a `Departure` when a client leaves."""


class Departure:
    """Says when a client leaves, so that nobody has to wait for it: a task and its scopes are 5 KB a stream."""

    __slots__ = ("_gone", "_listeners")

    def __init__(self) -> None:
        self._gone = False
        self._listeners: list[Callable[[], None]] = []

    def tell(self, listener: Callable[[], None]) -> None:
        """Calls a function when the client leaves, or at once if it has left."""
        self._listeners.append(listener)
        if self._gone:
            listener()

    def forget(self, listener: Callable[[], None]) -> None:
        """Does not call it any more."""
        self._listeners.remove(listener)

    def happened(self) -> None:
        """Must be called when the client has left."""
        self._gone = True
        for listener in list(self._listeners):
            listener()


async def until_left(receive: Receive, sink: Sink | None = None) -> None:
    """Returns when the client has left. Meanwhile it is told now and then that its answer is still being made."""
    while True:
        if sink is not None and sink.rest() <= 0:
            await sink.say_so()
        rest = inf if sink is None else sink.rest()
        with anyio.CancelScope(deadline=anyio.current_time() + rest):
            while (await receive())["type"] != "http.disconnect":
                pass
            return


class Watched:
    """A block in which a client is watched. Exceptions other than a cancellation must not leave it.

    Args:
        receive: waits for the client to leave, where `departure` does not say it.
        sink: what keeps the connection alive; None: nothing.
        left: called when the client has left.
    """

    __slots__ = ("_departure", "_left", "_loop", "_receive", "_saying", "_scope", "_sink", "_tasks", "_timer")

    def __init__(
        self, receive: Receive, departure: Departure | None, sink: Sink | None, left: Callable[[], None]
    ) -> None:
        self._receive = receive
        self._departure = departure
        self._sink = sink
        self._left = left
        self._loop = None if departure is None else event_loop()
        self._tasks: TaskGroup | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._saying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watched:
        if self._departure is None or self._loop is None:
            self._tasks = await anyio.create_task_group().__aenter__()
            self._scope = self._tasks.cancel_scope
            self._tasks.start_soon(self._watch)
        else:
            self._scope = anyio.CancelScope().__enter__()
            self._departure.tell(self._left)
            self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        left, self._left = self._left, _nothing  # else the two would hold each other
        if self._tasks is not None:
            self._scope.cancel()
            return await self._tasks.__aexit__(kind, error, traceback)
        if self._departure is not None:
            self._departure.forget(left)
        if self._timer is not None:
            self._timer.cancel()
        if self._saying is not None:
            self._saying.cancel()
            await asyncio.wait([self._saying])
        return self._scope.__exit__(kind, error, traceback)

    def end(self, seconds: float = 0.0) -> None:
        """Cancels the block, at once or soon."""
        if seconds:
            self._scope.deadline = (anyio.current_time if self._loop is None else self._loop.time)() + seconds
        else:
            self._scope.cancel()

    async def _watch(self) -> None:
        await until_left(self._receive, self._sink)
        self._left()

    def _look(self) -> None:
        """Keeps the connection alive, if it is time, and looks again when it may be."""
        if self._sink is None or self._loop is None or (rest := self._sink.rest()) == inf:
            return
        if rest > 0:
            self._timer = self._loop.call_later(rest, self._look)
        else:
            self._saying = self._loop.create_task(self._say_so(self._sink))

    async def _say_so(self, sink: Sink) -> None:
        await sink.say_so()
        self._look()


def _nothing() -> None:
    """Stands for what was to be called."""
