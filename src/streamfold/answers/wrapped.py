"""The common part of the answers that change another answer on its way to the caller."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..values import PartialToolCall, Reply, ReplyWarning, StreamChunk
from .source import ChunkSource


class WrappedAnswer(ABC):
    """A `ChunkSource` that reads another one, and may exchange it until it has brought its first chunk."""

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self._closed = False
        self.reply: Reply | None = None
        self.yields_call_deltas = False

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """The warnings so far."""
        return self._source.warnings

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that the model is writing."""
        return self._source.partial_tool_calls

    @property
    def window(self) -> int | None:
        """How many tokens the model takes, conversation and answer together; None if unknown."""
        return context_window(self._source)

    @abstractmethod
    def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks, grouped by network read. Called once."""

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        self._closed = True
        await self._source.aclose()

    def _opened(self) -> aclosing[AsyncGenerator[list[StreamChunk], None]]:
        """Returns the chunks of the source, for an `async with`."""
        self._source.yields_call_deltas = self._source.yields_call_deltas or self.yields_call_deltas
        return aclosing(self._source.batches())


def context_window(source: ChunkSource) -> int | None:
    """Returns how many tokens the model behind an answer takes; None if unknown, as it is of other people's models."""
    window: int | None = getattr(source, "window", None)
    return window
