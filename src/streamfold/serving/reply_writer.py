"""Serializes an answer for a client while the answer arrives from the provider. `DeltaOrder` converts the answer's
chunks to ordered deltas, and `ReplyWriter` serializes the deltas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import Any

from ..deltas import Delta, Failure, Finish, ReasoningDelta, RefusalDelta, TextDelta, Warn
from ..errors import ErrorInfo, IncompleteStreamError, ProtocolError, StreamError
from ..jsontext import BracketTracker, join_surrogates, parse_object, replace_non_finite
from ..types import (
    ChunkDetails,
    ExtraPart,
    Reply,
    StreamChunk,
    ToolCall,
    ToolCallDelta,
    ToolCallUpdate,
    Usage,
    is_truncated,
)
from .reply_deltas import arguments_text, end_deltas, has_items, keep_call_kinds, without_non_finite
from .stream_serializer import StreamSerializer, is_complete_object


class ReplyWriter:
    """Converts the chunks of one answer to the bytes of a response in the client's API, without I/O.

    With the option `partial_tool_calls`, the chunks contain fragments of tool calls. The writer writes these fragments
    as they arrive, one tool call after the other. It delays the last character of a tool call's arguments until other
    content follows, so that a truncated tool call doesn't look complete.

    A subclass can override `write`, `end` and `release` to change what is passed to the serializer.

    Args:
        serializer: converts deltas to events of the client's API.
        streams: False for a client that didn't request a stream. `feed` then returns no events, and `body` returns the
            complete answer.

    Attributes:
        serializer: the argument `serializer`.
    """

    def __init__(self, serializer: StreamSerializer, *, streams: bool = True) -> None:
        self.serializer = serializer
        self._streams = streams
        self._order = DeltaOrder(keeps_ends=serializer.keeps_order, whole_calls=not streams)
        self._deltas: list[Delta] = []  # all deltas of an answer that isn't streamed
        self._failed = False

    def feed(self, chunk: StreamChunk) -> bytes:
        """Returns the events for a chunk. Call this method for every chunk, including the last one."""
        deltas = self._order.feed(chunk)
        if self._streams:
            return self.write(deltas)
        self._deltas += deltas
        return b""

    def note(self, preceding_calls: int, extra: ExtraPart) -> bytes:
        """Returns the events for `extra`, a field of a provider's event that no chunk contains. Call this method before
        `feed` gets the event's chunks.

        Args:
            preceding_calls: the number of tool calls that had begun before the provider's event.
        """
        return self.write(self._order.note(preceding_calls, extra))

    def finish(self, reply: Reply) -> bytes:
        """Returns the events that end the answer.

        Raises:
            StreamError: the reply lacks a tool call that was already written to the client, or its arguments are
                different. After this error, call `fail` to end the answer.
        """
        try:
            rest = self._order.end(self.writable(reply), self.serializer)
        except StreamError as error:
            error.partial = replace(reply, tool_calls=[])
            raise
        self.serializer.said = (reply.text, reply.reasoning, reply.refusal or "")
        return self.write(rest) + self.end()

    def body(self, reply: Reply) -> dict[str, Any]:
        """Returns the JSON body of an answer that isn't streamed.

        Raises:
            ProtocolError: the arguments of a tool call aren't a JSON object, and the client would run the tool call
                nevertheless.
        """
        reply = self.writable(reply)
        rest = self._order.end(reply, self.serializer)
        deltas = end_deltas(reply, has_items=True) if has_items(reply) else [*self._deltas, *rest]
        return self.serializer.serialize_whole(deltas)

    def writable(self, reply: Reply) -> Reply:
        """Returns the reply without NaN and Infinity, and without the tool calls whose kind the client's API doesn't
        support. Adds warnings that name the removed values."""
        return keep_call_kinds(without_non_finite(reply), self.serializer.call_kinds)

    def rest(self, partial: Reply | None) -> bytes:
        """Returns the events for the delayed text of a failed answer. Delayed tool calls are dropped.

        Args:
            partial: the part of the answer that arrived. It may contain a refusal that no chunk contained.
        """
        refusal: list[Delta] = []
        if partial is not None and not self._failed:
            self.serializer.said = (partial.text, partial.reasoning, partial.refusal or "")
            refusal = [RefusalDelta((partial.refusal or "").removeprefix(self._order.refused))]
        self._failed = True
        return self.write([*self._order.rest(), *refusal]) + self.release()

    def fail(self, info: ErrorInfo, partial: Reply | None = None) -> bytes:
        """Returns the events that end the answer with an error, so that no client treats the answer or its tool calls
        as complete.

        Args:
            partial: see `rest`.
        """
        return self.rest(partial) + self.write([Failure(info)])

    def write(self, deltas: Iterable[Delta]) -> bytes:
        """Returns the events for deltas that are in their final order."""
        return self.serializer.feed_all(deltas)

    def end(self) -> bytes:
        """Returns the last events of a complete answer."""
        return self.serializer.finish()

    def release(self) -> bytes:
        """Returns the events that the serializer has delayed, after the answer has failed."""
        return self.serializer.release()


_PLAIN = ChunkDetails()  # the details of a chunk that has none


def chunk_deltas(chunk: StreamChunk) -> list[Delta]:
    """Converts the text, reasoning and refusal of a chunk to deltas. `end_deltas` returns the deltas for the rest of
    the answer."""
    details = chunk.details or _PLAIN
    deltas: list[Delta] = []
    if chunk.reasoning:
        deltas.append(ReasoningDelta(chunk.reasoning, details.part))
    if details.refusal:
        deltas.append(RefusalDelta(details.refusal, details.part))
    if chunk.delta:
        deltas.append(TextDelta(chunk.delta, details.part))
    return deltas


class DeltaOrder:
    """Converts the chunks of one answer to deltas, in an order that every client can read. Text after a tool call stays
    after the tool call.

    Text, reasoning and fragments of tool calls are returned as they arrive. `_CallFragments` decides whether a tool
    call can be returned before the answer has ended. If it can't, the complete tool call is returned at the end of the
    answer, and the content after the tool call is delayed until then. Many clients assume that a tool call is complete
    when the next one begins, so interleaved tool calls are returned one after the other. The closing brace of a tool
    call is returned together with the next content, or at the end of the answer.

    Args:
        keeps_ends: True if the closing braces of all tool calls are delayed until the end of the answer.
        whole_calls: True if every tool call is returned in one piece, because the answer isn't streamed.

    Attributes:
        refused: the text of the refusal in the chunks so far.
    """

    def __init__(self, *, keeps_ends: bool = False, whole_calls: bool = False) -> None:
        self._keeps_ends = keeps_ends
        self._whole_calls = whole_calls
        self._calls = defaultdict[int, _CallFragments](_CallFragments)  # by number
        self._ids: dict[str, int] = {}  # the numbers of the calls, by id
        self._late: list[tuple[int, Delta]] = []  # delayed deltas, each with the number of tool calls before it
        self._passed = 0  # the number of tool calls in the chunks so far, if tool calls are written at the end
        self._begun: list[str] = []  # the names of the tool calls that have begun
        self._complete = True  # whether the last of them is complete
        self._freed = False  # whether it became complete, so that the next delta releases the delayed deltas
        self._held: ToolCallDelta | None = None  # the closing brace that hasn't been written yet
        self._sizes = Counter[int | None]()  # the number of characters written for each call
        self._closed: dict[int | None, str] = {}  # the closing braces that were written
        self.refused = ""
        self._ends: dict[str | None, ToolCallDelta] = {}  # the complete tool calls, by id

    def feed(self, chunk: StreamChunk) -> list[Delta]:
        """Returns the deltas that can be written to the client now."""
        out: list[Delta] = []
        details = chunk.details or _PLAIN
        place, call = details.preceding_calls, details.call
        for mark in details.marks:
            if (value := replace_non_finite(mark.value)) is not mark.value:
                mark = replace(mark, value=value)
            marked = place if call is None else call.number
            if self._late or 0 < marked <= self._passed:
                self._late.append((marked, mark))
            else:  # the content before the mark was already written
                out.append(mark)
        if details.item is not None:
            self._add(place, ExtraPart("output", replace_non_finite(details.item)), out)
        self.refused += details.refusal
        for delta in chunk_deltas(chunk):
            self._add(place, delta, out)
        if self._whole_calls:
            if call is not None:
                self._passed = max(self._passed, call.number + 1)
        elif chunk.finished:
            # `call_numbers` is empty if no fragment of a call was in a chunk.
            for ended, number in zip(chunk.tool_calls or (), details.call_numbers, strict=False):
                if ended.kind == "function":
                    self._ends[ended.id] = self._calls[number].finish(ended, number)
        elif call is not None:
            for fragment in self._calls[call.number].feed(call, self._ids):
                if fragment.extra:
                    fragment = replace(fragment, extra=replace_non_finite(fragment.extra))
                self._add(fragment.index or 0, fragment, out)
        return out

    def note(self, preceding_calls: int, extra: ExtraPart) -> list[Delta]:
        """Adds `extra`, a field of a provider's event that no chunk contains, before `feed` gets the event's chunks.
        Returns the deltas that can be written to the client now."""
        out: list[Delta] = []
        self._add(preceding_calls, extra, out)
        return out

    def end(self, reply: Reply, serializer: StreamSerializer | None = None) -> list[Delta]:
        """Returns the remaining deltas: complete tool calls, the ends of tool calls that have begun, and delayed
        content.

        Args:
            serializer: the serializer that gets the deltas, or None if the deltas aren't serialized.

        Raises:
            StreamError: the reply lacks a tool call whose beginning was returned earlier, or its arguments are
                different. Also raised if the arguments of a tool call aren't a JSON object, and a client would run the
                tool call nevertheless.
        """
        for call in reply.tool_calls:
            if call.error and not (
                serializer.shows_broken(call) if serializer else not is_complete_object(call.raw_arguments)
            ):
                raise ProtocolError(f"the arguments of {call.name} aren't a complete JSON object", retryable=True)
        ends = [self._ends.get(call.id) for call in reply.tool_calls]
        fitting = {end.index for end in ends if end is not None and end.ended is None}
        if broken := [name for number, name in enumerate(self._begun) if number not in fitting]:
            tools = ", ".join(broken)
            if not is_truncated(reply.finish_reason):
                raise ProtocolError(f"the tool calls of {tools} changed or disappeared at the end of the answer")
            if serializer is None or not serializer.calls_may_be_cut:
                how = "reached its token limit" if reply.finish_reason == "length" else "was filtered"
                raise IncompleteStreamError(f"the answer {how} inside a tool call: {tools}")
        # Delayed tool call fragments are dropped, because `reply` has the complete calls.
        self._late = [late for late in self._late if not isinstance(late[1], ToolCallDelta)]
        ends = [end and self._fitting(end) for end in ends]
        return list(self._rest_of(reply, ends))

    def rest(self) -> list[Delta]:
        """Returns the delayed text of an answer that broke off."""
        return [delta for delta in self._take(None) if not isinstance(delta, ToolCallDelta)]

    def _fitting(self, end: ToolCallDelta) -> ToolCallDelta:
        """Returns a complete tool call without white space that arrived after the next tool call had begun.

        Raises:
            ProtocolError: more arguments arrived after the closing brace had been written.
        """
        text, size, closed = end.arguments, self._sizes[end.index], self._closed.get(end.index)
        if closed is None or (
            text[:size].endswith(closed) and (end.index == len(self._begun) - 1 or size == len(text))
        ):
            return end
        if text[size:].strip() or not text[:size].endswith(closed):
            raise ProtocolError(f"more arguments of {end.name} arrived after the closing brace")
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
        return isinstance(delta, ToolCallDelta) and (delta.index or 0) < len(self._begun)

    def _may_go(self, preceding_calls: int, delta: Delta) -> bool:
        return preceding_calls <= len(self._begun) and (self._complete or not isinstance(delta, ToolCallDelta))

    def _write(self, delta: Delta, out: list[Delta]) -> None:
        if isinstance(delta, ToolCallDelta) and delta.ended:
            self._complete = self._freed = True
            self._held = None if self._keeps_ends else delta
            return
        if (held := self._held) is not None and not isinstance(delta, ExtraPart):  # an extra may belong to that call
            self._held = None
            self._closed[held.index] = held.arguments
            self._sizes[held.index] += len(held.arguments)
            out.append(held)
        out.append(delta)
        if isinstance(delta, ToolCallDelta):
            self._sizes[delta.index] += len(delta.arguments)
            if delta.index == len(self._begun):
                self._complete = False
                self._begun.append(delta.name or "")

    def _release(self, out: list[Delta]) -> None:
        """Writes the delayed content that no longer has to wait for the tool calls before it."""
        released = True
        while released:
            self._freed = released = False
            late, self._late = self._late, []
            waiting: float = inf  # the lowest place of a delta that stays delayed; later deltas don't overtake it
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
        refusals: list[Delta] = []  # to return after the delayed texts
        for part in end_deltas(reply):
            if isinstance(part, ExtraPart) and part.value in waiting:
                continue  # the delayed content already contains this item
            if isinstance(part, ToolCallDelta):
                end = ends[part.index or 0]
                # The number and the arguments must be those with which the call began.
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
        """Removes and returns the delayed content that has at most `preceding_calls` tool calls before it, or all
        delayed content if `preceding_calls` is None.
        """
        taken = [late for late in self._late if preceding_calls is None or late[0] <= preceding_calls]
        self._late = [late for late in self._late if preceding_calls is not None and late[0] > preceding_calls]
        return [delta for _, delta in taken]


@dataclass(slots=True, eq=False)
class _CallFragments:
    """Decides which fragments of one tool call can be written to a client before the answer has ended.

    - A truncated tool call must not look complete. Therefore the last non-space character of its arguments is delayed,
      and nothing is written before the text after the first brace has arrived. The closing brace is a fragment with
      `ended=True`.
    - Written fragments can't be taken back. A tool call is delayed until the end of the answer if its id or name is
      missing, if another tool call has the same id, if the request doesn't declare its tool, or if its arguments look
      damaged (see `jsontext/tool_arguments.py`).
    - Tool calls are written in their final order. If an earlier tool call may still arrive, later tool calls are
      delayed until the end of the answer.

    Attributes:
        id, name: the id and the name that were written to the client, or "" if nothing was written.
        pieces: the pieces of the arguments that have arrived.
        held: the last of these pieces, which haven't been written to the client yet.
        shown: the pieces that have been written to the client.
        first: the first piece of the arguments.
        is_only: True until the second piece arrives.
        unread: the pieces after the last closing brace, which `brackets` hasn't parsed yet.
        stopped: True if the rest of the arguments is delayed until the end of the answer.
        closed: True if `held` contains the brace that closes the arguments.
    """

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    first: str = ""
    is_only: bool = True
    unread: list[str] = field(default_factory=list)
    stopped: bool = False
    closed: bool = False
    brackets: BracketTracker = field(default_factory=BracketTracker)

    def feed(self, call: ToolCallUpdate, ids: dict[str, int]) -> list[ToolCallDelta]:
        """Adds a piece of the arguments. Returns the fragments that can be written to the client now. The first
        fragment contains the tool call's id and name.

        Args:
            ids: maps the id of each tool call to the tool call's number. The method adds the id of a new tool call.
        """
        self.pieces.append(call.text)
        if call.text and not (call.is_certain and call.in_order):
            self.stopped = True
        if self.stopped:
            return []
        if call.text:
            self._read(call.text)
        if not (self.id or self._may_begin(call, ids)) or not (text := self._release()):
            return []
        self.shown.append(text)
        shown = ToolCallDelta(call.number, arguments=text)
        if not self.id:
            self.id, self.name = call.id, call.tool or ""
            shown = ToolCallDelta(call.number, self.id, self.name, text, extra=call.extra, item=call.item)
        if not self.closed:
            return [shown]
        return [shown, ToolCallDelta(call.number, arguments="".join(self.held), ended=True)]

    def finish(self, call: ToolCall, number: int) -> ToolCallDelta:
        """Returns the complete tool call as one fragment. The fragment has `ended=False` if other arguments were
        already written to the client. The answer must then end with an error."""
        text = arguments_text(call)
        ended = None
        if self.id:
            shown = "".join(self.shown)
            if not text.startswith(shown):
                text = self._same_value(call) or text
            same = (self.id, self.name) == (call.id, call.name) and text.startswith(shown)
            ended = None if same else False
        return ToolCallDelta(number, call.id, call.name, text, whole=True, extra=call.extra, ended=ended)

    def _read(self, piece: str) -> None:
        """Parses the next piece of the arguments. Sets `stopped` at the end of the JSON object, or if the piece looks
        damaged."""
        if not self.first:
            self.first = piece
        elif self.is_only and piece.startswith(self.first):  # the server sends the whole text again
            self.stopped = True
            return
        else:
            self.is_only = False
        if "}" not in piece:
            self.unread.append(piece)
        else:
            before = "".join(self.unread)
            self.unread = []
            if (end := self.brackets.feed(before + piece)) >= 0:
                self.stopped = self.closed = True
                piece = piece[: max(0, end - len(before))]
        self.held.append(piece)

    def _may_begin(self, call: ToolCallUpdate, ids: dict[str, int]) -> bool:
        if not call.id or not call.tool:
            return False
        if call.kind == "custom":  # a client could run any part of its text
            self.stopped = True
            return False
        if ids.setdefault(call.id, call.number) != call.number:
            return False
        if not self.held or self.held[-1].isspace():
            return False
        begun = "".join(self.held)
        self.held = [begun]
        begun = begun.lstrip()
        inside = begun[1:].lstrip()
        # An empty object may precede the real one, and other text may be an object that was encoded twice.
        doubtful = begun[0] != "{" or inside.startswith("}")
        self.stopped = self.stopped or doubtful
        return bool(inside) and not doubtful

    def _release(self) -> str:
        held = self.held
        if not held or (len(held) > 1 and held[-1].isspace()):
            return ""
        text = "".join(held)
        end = len(text.rstrip()) - 1
        if end > 0 and "\ud800" <= text[end - 1] <= "\udbff":  # half of a surrogate pair
            end -= 1
        if end <= 0:
            return ""
        self.held = [text[end:]]
        return join_surrogates(text[:end])

    def _same_value(self, call: ToolCall) -> str | None:
        """Joins all pieces. Returns their text if it is JSON with the same value as the final arguments, and None
        otherwise."""
        text = join_surrogates("".join(self.pieces))
        try:
            same = repr(parse_object(text)) == repr(call.arguments)  # by `==`, true equals 1
        except ValueError:
            return None
        return text if same else None
