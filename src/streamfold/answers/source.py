"""Where the chunks of an answer come from: the network, another answer, a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from ..values import ProtocolWarning, Reply, StreamChunk, Writing


class ChunkSource(Protocol):
    """Where the chunks of a `ChatStream` come from.

    Attributes:
        reply: the whole answer, once its last chunks have been yielded.
        warnings: the warnings so far.
        writing: the tool calls that the model is writing.
        fragments: whether chunks of fragments are wanted; may be set until `batches` is called.
    """

    fragments: bool

    @property
    def reply(self) -> Reply | None: ...

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]: ...

    @property
    def writing(self) -> tuple[Writing, ...]: ...

    def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks, grouped by network read. Called once."""
        ...

    async def aclose(self) -> None:
        """Closes the connection and wakes the task that waits for it."""
        ...
