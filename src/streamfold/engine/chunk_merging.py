"""Chunks by read: text that arrived together is handed out together.

A reader who keeps up gets a chunk for each event, because each arrives in a read of its own. One who is behind finds
many events in one read, and gets their text as one chunk: the same text, no later, and cheaper for everybody behind.
"""

from __future__ import annotations

from ..values import ChunkDetails, StreamChunk


def merge_chunks(chunks: list[StreamChunk]) -> list[StreamChunk]:
    """Returns the chunks of one read with consecutive text joined, and consecutive reasoning; all else as it came.

    >>> [chunk.delta or chunk.reasoning for chunk in coalesced([StreamChunk("a"), StreamChunk("b"), StreamChunk("c")])]
    ['abc']
    """
    out: list[StreamChunk] = []
    at, end = 0, len(chunks)
    while at < end:
        first, behind = chunks[at], at + 1
        while behind < end and _goes_on(first, chunks[behind]):
            behind += 1
        out.append(_joined(chunks[at:behind]) if behind > at + 1 else first)
        at = behind
    return out


def _goes_on(first: StreamChunk, chunk: StreamChunk) -> bool:
    """Whether a chunk is nothing but more of the same text. The end of the answer is always a chunk of its own."""
    if chunk.finished or (not first.delta) != (not chunk.delta) or (not first.reasoning) != (not chunk.reasoning):
        return False
    if first.details is None and chunk.details is None:  # as nearly always
        return True
    if first.silent or chunk.silent or chunk.marks or chunk.part != first.part:
        return False
    return chunk.preceding_calls == first.preceding_calls


def _joined(chunks: list[StreamChunk]) -> StreamChunk:
    first = chunks[0]
    text, reasoning = "".join([chunk.delta for chunk in chunks]), "".join([chunk.reasoning for chunk in chunks])
    place = None if first.details is None else ChunkDetails(first.preceding_calls, first.marks, part=first.part)
    return StreamChunk(text, reasoning=reasoning, details=place)
