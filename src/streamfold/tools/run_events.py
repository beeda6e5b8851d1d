"""A tool run as its events: the chunks of its turns and the results of its calls."""

from __future__ import annotations

from typing import Protocol, Self

from ..answers import AsyncIteration
from ..values import StreamChunk
from .tool_results import ToolResult


class _Run(Protocol):
    def check_unread(self) -> None: ...

    async def advance(self) -> StreamChunk | ToolResult | None: ...


class RunEvents(AsyncIteration):
    """The chunks and the results of a tool run, in their order; see `ToolRun.events`."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def __aiter__(self) -> Self:
        self._run.check_unread()
        return self

    async def __anext__(self) -> StreamChunk | ToolResult:
        event = await self._run.advance()
        if event is None:
            raise StopAsyncIteration
        return event
