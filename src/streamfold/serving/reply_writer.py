"""The order in which deltas are written, and `ReplyWriter`, which writes one answer as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import inf

from ..deltas import Delta, Failure, Finish, RefusalDelta, Warn
from ..errors import ErrorInfo, IncompleteStreamError, ProtocolError, StreamError
from ..jsontext import replace_non_finite
from ..types import ExtraPart, Reply, StreamChunk, ToolCallDelta, Usage
from .call_deltas import CallDeltas
from .reply_deltas import chunk_deltas, end_deltas, keep_call_kinds, without_non_finite
from .stream_serializer import AnswerWriter, StreamSerializer, is_complete_object


class DeltaOrder:
    """Returns the deltas of one answer in the order in which they are written: text behind a call stays behind it.

    Text, reasoning and fragments of calls are written as they arrive. A call of which nothing may be written yet (see
    `call_deltas.py`) is written whole, at the end, and everything behind its beginning waits for it. Many clients
    assume that a call is complete where the next one begins, so calls with interleaved fragments are written one after
    the other. The last bracket of a call is written with whatever follows it, or at the end.

    Args:
        keeps_ends: the ends of calls wait for the end of the answer, for serializers that write nothing else before.
        whole_calls: no fragments are written, because the answer isn't streamed.
    """

    def __init__(self, *, keeps_ends: bool = False, whole_calls: bool = False) -> None:
        self._keeps_ends = keeps_ends
        self._whole_calls = whole_calls
        self._fragments = CallDeltas()
        self._late: list[tuple[int, Delta]] = []  # what waits, each with the number of calls that come before it
        self._passed = 0  # how many calls have been seen, and are written at the end
        self._next = 0  # the first call that has not begun
        self._begun: list[str] = []  # the names of the calls before it
        self._complete = True  # the last of these needs no more fragments
        self._freed = False  # it did not before: what waits for it may go when something else comes
        self._held: ToolCallDelta | None = None  # its end
        self._sizes: dict[int, int] = {}  # characters that were written of each call
        self._closed: dict[int, str] = {}  # the ends that were written
        self.refused = ""  # what chunks have shown of a refusal
        self._ends: dict[str | None, ToolCallDelta] = {}  # the calls that are handed out, by their ids

    def feed(self, chunk: StreamChunk) -> list[Delta]:
        """Returns what can be written now."""
        out: list[Delta] = []
        grown = None if chunk.details is None else chunk.details.call
        place = chunk.preceding_calls if grown is None else grown.number
        for mark in map(_finite, chunk.marks):
            if self._late or 0 < place <= self._passed:
                self._late.append((place, mark))
            else:  # of what has been written: it does not wait for the calls
                out.append(mark)
        if self._whole_calls and grown is not None:
            self._passed = max(self._passed, grown.number + 1)
        if chunk.item is not None:
            self._add(chunk.preceding_calls, ExtraPart("output", replace_non_finite(chunk.item)), out)
        self.refused += chunk.refusal
        for delta in chunk_deltas(chunk):
            self._add(chunk.preceding_calls, delta, out)
        if self._whole_calls:
            return out
        if chunk.finished:
            numbers = () if chunk.details is None else chunk.details.call_numbers
            self._ends = {end.id: end for end in self._fragments.finish(chunk.tool_calls or (), numbers)}
            return out
        for fragment in self._fragments.feed(grown) if grown else ():
            if fragment.extra:
                fragment = replace(fragment, extra=replace_non_finite(fragment.extra))
            self._add(fragment.index or 0, fragment, out)
        return out

    def note(self, preceding_calls: int, extra: ExtraPart) -> list[Delta]:
        """Adds a member of an event that has no delta, before `feed`. Returns what can be written now."""
        out: list[Delta] = []
        self._add(preceding_calls, extra, out)
        return out

    def end(self, reply: Reply, serializer: StreamSerializer | None = None) -> list[Delta]:
        """Returns the rest of the answer: calls that weren't written, the ends of others, and everything that waits.

        Args:
            serializer: writes the deltas, if they are for clients of an API.

        Raises:
            StreamError: a call was begun that the reply doesn't have, or has otherwise; or clients wouldn't see that
                its arguments are broken, and would run it.
        """
        for call in reply.tool_calls:
            if call.error and not (
                serializer.shows_broken(call) if serializer else not is_complete_object(call.raw_arguments)
            ):
                raise ProtocolError(f"the arguments of {call.name} are broken or not complete", retryable=True)
        ends = [self._ends.get(call.id) for call in reply.tool_calls]
        fitting = {end.index for end in ends if end is not None and end.ended is None}
        if broken := [name for number, name in enumerate(self._begun) if number not in fitting]:
            self._check(reply, broken, may_be_cut=serializer is not None and serializer.calls_may_be_cut)
        self._late = [
            late for late in self._late if not isinstance(late[1], ToolCallDelta)
        ]  # the whole calls say it all
        ends = [end and self._fitting(end.index or 0, end) for end in ends]
        return list(self._rest_of(reply, ends))

    def rest(self) -> list[Delta]:
        """Returns the text that waits, in an answer that broke off."""
        return [delta for delta in self._take(None) if not isinstance(delta, ToolCallDelta)]

    @staticmethod
    def _check(reply: Reply, names: list[str], *, may_be_cut: bool) -> None:
        tools = ", ".join(names)
        if reply.finish_reason not in ("length", "content_filter"):
            raise ProtocolError(f"the answer ended otherwise than it had begun, with another call of {tools}, or none")
        if not may_be_cut:
            how = "reached its limit of tokens" if reply.finish_reason == "length" else "was filtered"
            raise IncompleteStreamError(f"the answer {how} inside a call of {tools}")

    def _fitting(self, number: int, end: ToolCallDelta) -> ToolCallDelta:
        """Returns a whole call without white space that came behind the beginning of the next one.

        Raises:
            ProtocolError: the call continues behind the end that was written.
        """
        text, size, closed = end.arguments, self._sizes.get(number, 0), self._closed.get(number)
        if closed is None or (text[:size].endswith(closed) and (number == self._next - 1 or size == len(text))):
            return end
        if text[size:].strip() or not text[:size].endswith(closed):
            raise ProtocolError(f"the arguments of {end.name} continued after their end")
        return replace(end, arguments=text[:size])

    def _add(self, preceding_calls: int, delta: Delta, out: list[Delta]) -> None:
        if self._goes_on(delta):
            self._write(delta, out)
        elif self._freed and self._late:
            self._late.append((preceding_calls, delta))
            self._release(out)
        elif self._may_go(preceding_calls, delta):
            self._write(delta, out)
            if isinstance(delta, ToolCallDelta):
                self._release(out)
        else:
            self._late.append((preceding_calls, delta))

    def _goes_on(self, delta: Delta) -> bool:
        """Returns whether a delta is a further fragment of a call that has begun."""
        return isinstance(delta, ToolCallDelta) and (delta.index or 0) < self._next

    def _may_go(self, preceding_calls: int, delta: Delta) -> bool:
        return preceding_calls <= self._next and (self._complete or not isinstance(delta, ToolCallDelta))

    def _write(self, delta: Delta, out: list[Delta]) -> None:
        if isinstance(delta, ToolCallDelta) and delta.ended:
            self._complete = self._freed = True
            self._held = None if self._keeps_ends else delta
            return
        if (held := self._held) is not None and not isinstance(delta, ExtraPart):  # which may be about that very call
            self._held = None
            self._closed[held.index or 0] = held.arguments
            self._count(held)
            out.append(held)
        out.append(delta)
        if isinstance(delta, ToolCallDelta):
            self._count(delta)
            if delta.index == self._next:
                self._next, self._complete = self._next + 1, False
                self._begun.append(delta.name or "")

    def _count(self, call: ToolCallDelta) -> None:
        number = call.index or 0
        self._sizes[number] = self._sizes.get(number, 0) + len(call.arguments)

    def _release(self, out: list[Delta]) -> None:
        """Writes what waited for the calls that have begun, or are complete."""
        released = True
        while released:
            self._freed = released = False
            late, self._late = self._late, []
            waiting: float = inf  # the lowest place that still waits: what came later for it does not overtake it
            for place, delta in late:
                if self._goes_on(delta) or (place < waiting and self._may_go(place, delta)):
                    self._write(delta, out)
                    released = True
                else:
                    self._late.append((place, delta))
                    waiting = min(waiting, place)

    def _rest_of(self, reply: Reply, ends: list[ToolCallDelta | None]) -> Iterator[Delta]:
        later = count(max([end.index or 0 for end in self._ends.values()], default=-1) + 1)
        waiting = [late.value for _, late in self._late if isinstance(late, ExtraPart) and late.name == "output"]
        refusals: list[Delta] = []  # behind the texts that wait
        for part in end_deltas(reply):
            if isinstance(part, ExtraPart) and part.value in waiting:
                continue  # it has its place there
            if isinstance(part, ToolCallDelta):
                end = ends[part.index or 0]
                # Under the number under which it began, with the text that was begun.
                said = (next(later), part.arguments) if end is None else (end.index, end.arguments)
                call = replace(part, index=said[0], arguments=said[1])
                yield from self._take(call.index)
                yield call
                continue
            if isinstance(part, RefusalDelta):
                part = RefusalDelta(part.text.removeprefix(self.refused))
                if part.text and self._late:
                    refusals.append(part)
                    continue
            if isinstance(part, Usage | Warn | Finish):
                yield from [*self._take(None), *refusals]
                refusals = []
            yield part
        yield from [*self._take(None), *refusals]

    def _take(self, preceding_calls: int | None) -> list[Delta]:
        """Takes what waits and precedes a call; everything for None."""
        taken = [late for late in self._late if preceding_calls is None or late[0] <= preceding_calls]
        self._late = [late for late in self._late if preceding_calls is not None and late[0] > preceding_calls]
        return [delta for _, delta in taken]


def _finite(mark: ExtraPart) -> ExtraPart:
    value = replace_non_finite(mark.value)
    return mark if value is mark.value else replace(mark, value=value)


class ReplyWriter:
    """Writes one answer as it arrives. It does no I/O.

    With chunks of the option `partial_tool_calls`, calls are written as they grow, one after the other. The last
    character of each waits until something follows it, so that a truncated call doesn't look complete.

    Args:
        serializer: writes the events.
        through: gets the data to write in place of the serializer, and decides what reaches it.
    """

    def __init__(self, serializer: StreamSerializer, through: AnswerWriter | None = None) -> None:
        self._serializer = serializer
        self._writer: AnswerWriter = through or serializer
        self._order = DeltaOrder(keeps_ends=serializer.keeps_order)
        self._failed = False

    def feed(self, chunk: StreamChunk) -> bytes:
        """Returns the events for a chunk. Give it all chunks, the finished one too."""
        self._writer.observe_chunk(chunk)
        return self._writer.feed_all(self._order.feed(chunk))

    def note(self, preceding_calls: int, extra: ExtraPart) -> bytes:
        """Returns the events for members of an event that have no delta. To be called before `feed`.

        Args:
            preceding_calls: how many calls had begun before that event.
        """
        return self._writer.feed_all(self._order.note(preceding_calls, extra))

    def finish(self, reply: Reply) -> bytes:
        """Returns the events that end the answer.

        Raises:
            StreamError: a call was begun that the reply doesn't have, or has otherwise. End the answer with `fail`.
        """
        try:
            rest = self._order.end(
                keep_call_kinds(without_non_finite(reply), self._serializer.call_kinds), self._serializer
            )
        except StreamError as error:
            error.partial = replace(reply, tool_calls=[])
            raise
        self._serializer.said = (reply.text, reply.reasoning, reply.refusal or "")
        return self._writer.feed_all(rest) + self._writer.finish()

    def rest(self, partial: Reply | None) -> bytes:
        """Returns the events for the unwritten rest of an answer that fails, without calls.

        Args:
            partial: the answer so far; it may have a refusal that no chunk has shown.
        """
        refusal = []
        if partial is not None and not self._failed:
            self._serializer.said = (partial.text, partial.reasoning, partial.refusal or "")
            refusal = [RefusalDelta((partial.refusal or "").removeprefix(self._order.refused))]
        self._failed = True
        return self._writer.feed_all([*self._order.rest(), *refusal]) + self._writer.release()

    def fail(self, info: ErrorInfo, partial: Reply | None = None) -> bytes:
        """Returns the events that end the answer with an error. No client takes it, or a call in it, as complete.

        Args:
            partial: see `rest`.
        """
        return self.rest(partial) + self._writer.feed(Failure(info))
