"""Where the chunks of an answer come from: the network, another answer, a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from ..values import PartialToolCall, Reply, ReplyWarning, StreamChunk


class ChunkSource(Protocol):
    """Where the chunks of a `ChatStream` come from.

    Attributes:
        reply: the whole answer, once its last chunks have been yielded.
        warnings: the warnings so far.
        partial_tool_calls: the tool calls that the model is writing.
        yields_call_deltas: whether chunks of fragments are wanted; may be set until `batches` is called.
    """

    yields_call_deltas: bool

    @property
    def reply(self) -> Reply | None: ...

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]: ...

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]: ...

    def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks, grouped by network read. Called once."""
        ...

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        ...
