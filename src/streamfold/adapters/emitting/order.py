"""The order of an answer's parts, for everybody who writes it again: text that came after a call stays after it.

Text, reasoning and the fragments of calls pass through as they come. A call of which nothing may be written yet (see
`engine/fragments.py`) comes whole, at the end, and everything that came after its beginning waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from ...values import (
    Call,
    Delta,
    Extra,
    Finish,
    IncompleteStreamError,
    ProtocolError,
    Reply,
    StreamChunk,
    Usage,
    Warn,
    parse_object,
)
from .answers import chunk_deltas, end_deltas

__all__ = ["Order"]


class Order:
    """Makes the deltas of one answer, in the order in which they are to be written."""

    def __init__(self) -> None:
        self._late: list[tuple[int, Delta]] = []  # what waits, each with the number of calls that come before it
        self._begun: set[int] = set()  # calls of which a fragment was returned
        self._next = 0  # the first call that has not begun
        self._ends: dict[int, Call] = {}  # calls as they are handed out, in the order of the reply

    def feed(self, chunk: StreamChunk) -> list[Delta]:
        """Returns what can be written now."""
        out: list[Delta] = []
        for mark in chunk.marks:
            if self._late:
                self._late.append((chunk.calls_before, mark))
            else:  # of what has been written: it does not wait for the calls
                out.append(mark)
        if chunk.item is not None:
            self._add(chunk.calls_before, Extra("output", chunk.item), out)
        for delta in chunk_deltas(chunk):
            self._add(chunk.calls_before, delta, out)
        if chunk.finished:
            self._ends = {end.index or 0: end for end in chunk.fragments}
            return out
        for fragment in chunk.fragments:
            self._add(fragment.index or 0, fragment, out)
        return out

    def end(self, reply: Reply, *, may_be_cut: bool = False) -> list[Delta]:
        """Returns the rest of the answer: the calls that are still to be written, or their ends, and all that waits.

        Args:
            may_be_cut: in an answer that is cut off itself (`length`, `content_filter`), calls may be left as they are.

        Raises:
            StreamError: a call was begun that can't be ended as it was handed out, or was not handed out at all.
        """
        for call in reply.tool_calls:
            if call.error and _is_object(call.raw_arguments):  # a client would not know, and run what is left
                raise ProtocolError(f"a piece of the arguments of {call.name} is missing", retryable=True)
        broken = {number for number, end in self._ends.items() if end.ended is False}
        if misfits := broken & self._begun:
            self._check(reply, [self._ends[number].name or "" for number in sorted(misfits)], may_be_cut=may_be_cut)
        self._late = [late for late in self._late if not isinstance(late[1], Call)]  # the whole calls say it all
        return list(self._rest_of(reply, [end for end in self._ends.values() if end.ended is None]))

    def rest(self) -> list[Delta]:
        """Returns the text that still waits, in an answer that broke off."""
        return [delta for delta in self._take(None) if not isinstance(delta, Call)]

    @staticmethod
    def _check(reply: Reply, names: list[str], *, may_be_cut: bool) -> None:
        tools = ", ".join(names)
        if reply.finish_reason not in ("length", "content_filter"):
            raise ProtocolError(f"the answer ended otherwise than it had begun, with another call of {tools}, or none")
        if not may_be_cut:
            how = "reached its limit of tokens" if reply.finish_reason == "length" else "was filtered"
            raise IncompleteStreamError(f"the answer {how} inside a call of {tools}")

    def _add(self, calls_before: int, delta: Delta, out: list[Delta]) -> None:
        goes_on = isinstance(delta, Call) and delta.index in self._begun
        if calls_before > self._next and not goes_on:
            self._late.append((calls_before, delta))
            return
        out.append(delta)
        if isinstance(delta, Call) and not goes_on:
            self._begin(delta)
            out += self._released()

    def _begin(self, call: Call) -> None:
        self._begun.add(call.index or 0)
        while self._next in self._begun:
            self._next += 1

    def _released(self) -> list[Delta]:
        """Returns what has waited for the calls that have begun by now."""
        out: list[Delta] = []
        released = True
        while released:
            released, late, self._late = False, self._late, []
            waiting: float = inf  # the lowest place that still waits: what came later for it does not overtake it
            for place, delta in late:
                goes_on = isinstance(delta, Call) and delta.index in self._begun
                if (place > self._next or place >= waiting) and not goes_on:
                    self._late.append((place, delta))
                    waiting = min(waiting, place)
                    continue
                out.append(delta)
                released = True
                if isinstance(delta, Call) and not goes_on:
                    self._begin(delta)
        return out

    def _rest_of(self, reply: Reply, ends: list[Call]) -> Iterator[Delta]:
        parts = list(end_deltas(reply))
        calls = [part for part in parts if isinstance(part, Call)]
        if ends:  # in the order in which they began, with the text that was begun
            pairs = zip(calls, ends, strict=True)
            calls = [replace(call, index=end.index, arguments=end.arguments) for call, end in pairs]
            calls.sort(key=lambda call: call.index or 0)
        for part in parts:
            if isinstance(part, Call):
                call = calls.pop(0)
                yield from self._take(call.index)
                yield call
                continue
            if isinstance(part, Usage | Warn | Finish):
                yield from self._take(None)
            yield part
        yield from self._take(None)

    def _take(self, calls_before: int | None) -> list[Delta]:
        """Takes what waits and comes before a call; all of it for None."""
        taken = [late for late in self._late if calls_before is None or late[0] <= calls_before]
        self._late = self._late[len(taken) :]
        return [delta for _, delta in taken]


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_object(text), dict)
    except ValueError:
        return False
