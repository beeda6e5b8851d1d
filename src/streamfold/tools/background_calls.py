"""Runs tool calls in the background while the model continues. Each result is delivered once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field

import anyio

from ..net import event_loop
from ..types import Message, ToolCall, tool_result
from .approvals import NOT_FINISHED
from .tool_results import ToolResult


@dataclass(eq=False, slots=True)
class _Running:
    call: ToolCall
    result: ToolResult | None = None
    error: Exception | None = None
    ended: bool = False
    cancel: Callable[[], object] = field(default=lambda: None)


class BackgroundCalls:
    """The tool calls of a run that run in the background, in the order in which they started.

    Each tool call has an asyncio or trio task. The task belongs to no task group, because only the task that opened a
    task group may close it, and different tasks may read the run. The task ends when the tool call ends or the run is
    closed.
    """

    def __init__(self) -> None:
        self._running: list[_Running] = []
        self._changed: anyio.Event | None = None  # while a task waits

    def __bool__(self) -> bool:
        return bool(self._running)

    def start(self, call: ToolCall, run: Callable[[], Awaitable[ToolResult]]) -> None:
        """Starts a tool call in the background. If the tool call raises an exception, `take` raises this exception."""
        started = _Running(call)
        self._running.append(started)

        async def work() -> None:
            try:
                started.result = await run()
            except Exception as exc:
                started.error = exc
            finally:
                started.ended = True
                if self._changed is not None:
                    self._changed.set()

        if (loop := event_loop()) is not None:
            task = loop.create_task(work())
            started.cancel = task.cancel
        else:
            started.cancel = _spawn_on_trio(work)

    async def wait(self) -> None:
        while self._running and not any(each.ended for each in self._running):
            self._changed = anyio.Event()
            await self._changed.wait()

    def take(self) -> list[ToolResult]:
        """Returns the results of the tool calls that have ended since the last call of `take`. Raises a tool call's
        exception.
        """
        ended = [each for each in self._running if each.ended]
        self._running = [each for each in self._running if not each.ended]
        for each in ended:
            if each.error is not None:
                raise each.error
        return [each.result for each in ended if each.result is not None]

    def with_unfinished(self, messages: Iterable[Message]) -> list[Message]:
        """Returns the messages, and inserts the result "not finished" for each tool call that is still running."""
        waiting = {each.call.id: each.call for each in self._running}
        found: list[Message] = []
        for message in messages:
            found.append(message)
            own = [waiting.pop(call.id) for call in message.tool_calls if waiting.get(call.id) == call]
            found += [tool_result(call, NOT_FINISHED, error=True) for call in own]
        return found

    def stop(self) -> None:
        for each in self._running:
            each.cancel()
        self._running = []


def _spawn_on_trio(work: Callable[[], Awaitable[None]]) -> Callable[[], object]:
    import trio

    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            await work()

    trio.lowlevel.spawn_system_task(run, context=copy_context())
    return scope.cancel
