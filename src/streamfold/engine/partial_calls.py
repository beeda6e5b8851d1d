"""Calls that a model is writing into its text, as far as its dialect knows them before the end: for showing."""

from __future__ import annotations

from collections.abc import Mapping

from ..text import whole_characters
from ..values import ChunkDetails, PartialToolCall, StreamChunk


class PartialCalls:
    """Keeps the pieces that a dialect shows of such calls (`DialectContext.draft`).

    Args:
        own: the tools' own names by those on the wire.
        chunks: whether each piece makes a chunk.

    Attributes:
        makes_chunks: the same.
    """

    def __init__(self, own: Mapping[str, str], *, chunks: bool) -> None:
        self._own = own
        self.makes_chunks = chunks
        self._calls: dict[int, tuple[str, list[str]]] = {}  # name and text
        self._chunks: list[StreamChunk] = []

    def feed(self, number: int, name: str, text: str) -> None:
        """Takes the next piece of the arguments of a call."""
        name = self._own.get(name, name)
        self._calls.setdefault(number, (name, []))[1].append(text)
        if self.makes_chunks:
            self._chunks.append(StreamChunk(details=ChunkDetails(call=number, tool=name, text=text)))

    def take_chunks(self) -> list[StreamChunk]:
        """Returns the chunks for what has come since the last time."""
        chunks, self._chunks = self._chunks, []
        return chunks

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The calls so far."""
        return tuple(PartialToolCall(name, whole_characters("".join(text))) for name, text in self._calls.values())
