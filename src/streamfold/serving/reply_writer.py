"""`DeltaOrder` decides the order of written deltas. `ReplyWriter` writes an answer as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import inf

from ..deltas import Delta, Failure, Finish, RefusalDelta, Warn
from ..errors import ErrorInfo, IncompleteStreamError, ProtocolError, StreamError
from ..jsontext import replace_non_finite
from ..types import ExtraPart, Reply, StreamChunk, ToolCallDelta, Usage, is_truncated
from .call_deltas import CallDeltas
from .reply_deltas import chunk_deltas, end_deltas, keep_call_kinds, without_non_finite
from .stream_serializer import AnswerWriter, StreamSerializer, is_complete_object


class DeltaOrder:
    """Sorts the deltas of one answer for writing, so that text after a tool call stays after it.

    Text, reasoning and fragments of tool calls are written as they arrive. A tool call that can't be written yet (see
    `call_deltas.py`) is written in one piece at the end, and later content waits for it. Many clients assume that a
    tool call is complete when the next one begins, so interleaved tool calls are written one after the other. The last
    bracket of a tool call is written together with the next content, or at the end.

    Args:
        keeps_ends: whether the ends of tool calls wait for the end of the answer.
        whole_calls: whether tool calls are written in one piece, because the answer isn't streamed.
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
        """Returns the deltas that can be written now."""
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
        """Adds a field of an event that has no delta, before `feed`. Returns the deltas that can be written now."""
        out: list[Delta] = []
        self._add(preceding_calls, extra, out)
        return out

    def end(self, reply: Reply, serializer: StreamSerializer | None = None) -> list[Delta]:
        """Returns the rest of the answer: unwritten tool calls, the ends of other tool calls, and waiting content.

        Args:
            serializer: writes the deltas, if they are for clients of an API.

        Raises:
            StreamError: a written tool call is missing in the reply or differs there, or clients would run a tool call
                with broken arguments.
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
        """Returns the waiting text of an answer that broke off."""
        return [delta for delta in self._take(None) if not isinstance(delta, ToolCallDelta)]

    @staticmethod
    def _check(reply: Reply, names: list[str], *, may_be_cut: bool) -> None:
        tools = ", ".join(names)
        if not is_truncated(reply.finish_reason):
            raise ProtocolError(f"the tool calls of {tools} changed or disappeared at the end of the answer")
        if not may_be_cut:
            how = "reached its limit of tokens" if reply.finish_reason == "length" else "was filtered"
            raise IncompleteStreamError(f"the answer {how} inside a call of {tools}")

    def _fitting(self, number: int, end: ToolCallDelta) -> ToolCallDelta:
        """Returns a complete tool call without white space that arrived after the next tool call had begun.

        Raises:
            ProtocolError: the tool call continues after its written end.
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
        """Returns whether a delta is a further fragment of an open tool call."""
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
        """Writes content that waited for tool calls which have now begun or are complete."""
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
        """Removes and returns waiting content before a tool call; all waiting content for None."""
        taken = [late for late in self._late if preceding_calls is None or late[0] <= preceding_calls]
        self._late = [late for late in self._late if preceding_calls is not None and late[0] > preceding_calls]
        return [delta for _, delta in taken]


def _finite(mark: ExtraPart) -> ExtraPart:
    value = replace_non_finite(mark.value)
    return mark if value is mark.value else replace(mark, value=value)


class ReplyWriter:
    """Writes one answer as it arrives, without I/O.

    With the option `partial_tool_calls`, tool calls are written as they grow, one after the other. The last character
    of a tool call waits for the next content, so that a truncated tool call doesn't look complete.

    Args:
        serializer: writes the events.
        through: receives the deltas instead of the serializer, and passes some of them on to it.
    """

    def __init__(self, serializer: StreamSerializer, through: AnswerWriter | None = None) -> None:
        self._serializer = serializer
        self._through = through
        self._writer: AnswerWriter | StreamSerializer = through or serializer
        self._order = DeltaOrder(keeps_ends=serializer.keeps_order)
        self._failed = False

    def feed(self, chunk: StreamChunk) -> bytes:
        """Returns the events for a chunk. Pass all chunks, including the finished one."""
        if self._through is not None:
            self._through.observe_chunk(chunk)
        return self._writer.feed_all(self._order.feed(chunk))

    def note(self, preceding_calls: int, extra: ExtraPart) -> bytes:
        """Returns the events for a server event's fields without a delta. Call this method before `feed`.

        Args:
            preceding_calls: how many tool calls had begun before that event.
        """
        return self._writer.feed_all(self._order.note(preceding_calls, extra))

    def finish(self, reply: Reply) -> bytes:
        """Returns the events that end the answer.

        Raises:
            StreamError: a written tool call is missing in the reply, or differs there. End the answer with `fail`.
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
        """Returns the events for the unwritten text of a failed answer, without tool calls.

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
        """Returns the events that end the answer with an error, so that no client treats the answer or its tool calls
        as complete.

        Args:
            partial: see `rest`.
        """
        return self.rest(partial) + self._writer.feed(Failure(info))
