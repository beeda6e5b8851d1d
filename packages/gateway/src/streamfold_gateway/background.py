"""Tasks of the app that go on when the client that began them has left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from .http_errors import HTTPError
from .request_body import ClientGone


class AppTaskGroup:
    """A place for tasks, for as long as it is entered. They are cancelled when it is left."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None

    @property
    def entered(self) -> bool:
        """Whether somebody has entered it."""
        return self._tasks is not None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)  # with the error of the block it would raise a group of it

    def start(self, task: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Starts a task that goes on until the place is left, if somebody has entered it."""
        if self._tasks is not None:
            self._tasks.start_soon(task)

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[TaskGroup]:
        """Gives a task group for what goes on when its client has left.

        An app that nobody has entered, such as a mounted one, has no such place: the tasks are then waited for.
        """
        if self._tasks is not None:
            yield self._tasks
            return
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            except (ClientGone, HTTPError) as exc:
                failed = exc
        if failed is not None:
            raise failed
