"""A client is watched while its answer is made: whether it is still there, and that its connection is kept alive."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from types import TracebackType

import anyio

from .request_body import Receive
from .response_stream import Sink


async def until_left(receive: Receive, sink: Sink | None = None) -> None:
    """Returns when the client has left, or reads nothing for too long.

    Meanwhile it is told now and then that its answer is still being made.
    """
    while True:
        rest = inf if sink is None else sink.rest()
        if sink is not None and rest <= 0:
            if sink.overdue:
                return
            await sink.send_keepalive()
            rest = sink.rest()
        with anyio.CancelScope(deadline=anyio.current_time() + rest):
            while (await receive())["type"] != "http.disconnect":
                pass
            return


class DisconnectWatcher:
    """A block in which a client is watched. Exceptions other than a cancellation must not leave it.

    Args:
        receive: waits for the client to leave.
        sink: what keeps the connection alive; None: nothing.
        left: called when the client has left.
    """

    __slots__ = ("_left", "_receive", "_sink", "_tasks")

    def __init__(self, receive: Receive, sink: Sink | None, left: Callable[[], None]) -> None:
        self._receive = receive
        self._sink = sink
        self._left = left
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> DisconnectWatcher:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, traceback)

    def end(self, seconds: float = 0.0) -> None:
        """Cancels the block, at once or soon."""
        if seconds:
            self._tasks.cancel_scope.deadline = anyio.current_time() + seconds
        else:
            self._tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        await until_left(self._receive, self._sink)
        self._left()
