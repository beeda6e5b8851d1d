"""The order of an answer's parts: a call is written at the end, and text that came after it is written after it."""

from __future__ import annotations

from collections.abc import Iterator

from ..adapters.emitting import chunk_deltas, end_deltas
from ..values import Call, Delta, Extra, Finish, Reply, StreamChunk, Usage, Warn

__all__ = ["Order"]


class Order:
    """Makes the deltas of one answer. Text passes through until the first call begins; text after that waits for it."""

    def __init__(self) -> None:
        self._late: list[tuple[int, Delta]] = []  # with the number of calls before it

    def feed(self, chunk: StreamChunk) -> list[Delta]:
        """Returns the deltas of a chunk that can be written now."""
        deltas = list(chunk_deltas(chunk))
        signed: list[Delta] = [] if chunk.signature is None else [Extra("signature", chunk.signature)]
        if self._late or not chunk.calls_before:
            signed, deltas = [], [*signed, *deltas]
        if not chunk.calls_before:
            return deltas
        self._late += [(chunk.calls_before, delta) for delta in deltas]
        return signed  # of reasoning that has been written: it does not wait for the calls

    def end(self, reply: Reply) -> Iterator[Delta]:
        """Returns the rest of the answer: its calls, with the text that came between and after them."""
        calls = 0
        for delta in end_deltas(reply):
            if isinstance(delta, Call):
                yield from self._take(calls)
                calls += 1
            elif isinstance(delta, Usage | Warn | Finish):
                yield from self.rest()
            yield delta
        yield from self.rest()

    def rest(self) -> list[Delta]:
        """Returns the text that still waits for a call: for one that was dropped, or in an answer that broke off."""
        return self._take(len(self._late) and self._late[-1][0])

    def _take(self, calls: int) -> list[Delta]:
        count = sum(before <= calls for before, _ in self._late)
        taken, self._late = self._late[:count], self._late[count:]
        return [delta for _, delta in taken]
