"""Forwards a valid stream byte for byte, up to the first event that needs repair.

`DeltaOrder` decides when clients may get content, and then releases the content. `Passthrough` delays each SSE event of
the server until all of its content is released, and then forwards the event's bytes. It also feeds the event to the
patcher and discards the output, so that the patcher has the same state as a client that has parsed the event. From the
first event that needs repair on, the patcher writes the response.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from streamfold import FinishReason, Reply, StreamChunk
from streamfold.adapters import (
    Block,
    BlockEnd,
    BlockPiece,
    CallSummary,
    Delta,
    ExtraPart,
    Failure,
    Finish,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
)
from streamfold.serving import ReplyWriter, is_complete_object
from streamfold.types import PartRef

from .patchers.base import StreamPatcher

_MOST_HELD = 2**14
_CALL_HEADER = "\0"  # represents a call's id and name before its arguments


@dataclass(slots=True)
class _FieldProgress:
    """How much of one text, or of one tool call's arguments, was received, released and forwarded.

    Attributes:
        id, name: the tool call's id and name, as the server sent them.
        ahead: the text that was received but not released.
        said, shown, passed: the numbers of characters that were received, released, and forwarded.
        pieces: the pieces in which the arguments were received.
        late: how many characters at the end of the text may be forwarded before they are released. It isn't 0 if the
            server has marked the tool call as complete.
        custom: True for a call of a custom tool. Such calls are never repaired.
    """

    id: str | None = None
    name: str | None = None
    ahead: str = ""
    said: int = 0
    shown: int = 0
    passed: int = 0
    pieces: list[str] = field(default_factory=list)
    late: int = 0
    custom: bool = False

    def may_show(self, position: int) -> bool:
        """Returns True if the text before this position may be forwarded."""
        return position <= self.shown + (self.late if self.shown else 0)


@dataclass(slots=True)
class _PendingEvent:
    """An SSE event from the server that hasn't been forwarded yet.

    Attributes:
        deltas: the deltas of the event, in the form that the patcher accepts.
        payloads: the JSON payloads of the event. There are several payloads if the server omitted the blank line
            between two events.
        needs: for each text, the position up to which the text must be released before the event may be forwarded.
        last: True if the event ends the response.
        has_text: True if the event contains anything other than tool calls.
        raw: the bytes of the event.
    """

    deltas: list[Delta] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    needs: list[tuple[_FieldProgress, int]] = field(default_factory=list)
    last: bool = False
    has_text: bool = False
    raw: bytes = b""

    @property
    def ends_call(self) -> bool:
        """True if the event completes a tool call whose end isn't released yet."""
        return any(
            text_field.pieces and position > text_field.shown and is_complete_object("".join(text_field.pieces))
            for text_field, position in self.needs
        )


class _Released(NamedTuple):
    """A released delta, the text that the delta adds, and the end position of this text."""

    delta: Delta
    text_field: _FieldProgress | None = None
    text: str = ""
    end: int = 0


class Passthrough(ReplyWriter):
    """Forwards a response byte for byte, in place of the patcher's output, until an event needs repair.

    An SSE event is delayed until `DeltaOrder` has released all of its content. For example, the end of a tool call is
    delayed until the next event arrives. All later events are delayed, too.

    Args:
        patcher: writes the rest of the response, from the first event that needs repair on.
        texts: True to compare the released texts with the server's texts. They differ if a dialect finds tool calls in
            the server's text.

    Attributes:
        passes: True until an event needs repair.
        differs: True if the released deltas differ from the server's events.
        ends: True if the newest event has no content and only ends the response.
        left: the text that was still delayed when the response broke off.
    """

    def __init__(self, patcher: StreamPatcher, *, texts: bool = False) -> None:
        super().__init__(patcher)
        self._patcher = patcher
        self._texts = texts
        self.passes = True
        self.differs = self.ends = False
        self.left = b""
        self._said_finish: FinishReason | None = None
        self._goes_on = False  # the client will continue the answer with another request
        self._fields: dict[object, _FieldProgress] = {
            TextDelta: _FieldProgress(),
            ReasoningDelta: _FieldProgress(),
            RefusalDelta: _FieldProgress(),
        }
        self._calls: list[_FieldProgress] = []
        self._refusals: dict[object, str] = {}  # the text so far, by the part of the answer
        self._numbers: dict[object, int] = {}  # the numbers of the calls, by the server's indexes and ids
        self._event = _PendingEvent()  # the event that `observe` gets
        self._waiting: deque[_PendingEvent] = deque()
        self._size = 0  # the number of bytes in `_waiting`
        self._instead: bytes | None = None  # the output in place of the first waiting event, if that can't be forwarded
        self._due: list[_Released] = []  # deltas of events that may not have been forwarded
        self._gone: dict[int, Delta] = {}  # extra parts of forwarded events, by identity; they are released later
        self._finished = False
        self._passed = False  # an event has been forwarded, and the patcher has its deltas

    def fits(self, reply: Reply) -> bool:
        """Returns True if the server's events contained the same tool calls, texts and finish reason as the complete
        reply."""
        if self._goes_on:  # the next response may complete this one
            return True
        if any(call.error and not self._patcher.shows_broken(call) for call in reply.tool_calls):
            return False
        if any(self._fields[kind].ahead for kind in (TextDelta, ReasoningDelta)):
            return False
        if not self._has_said(reply):
            return False
        if self._said_finish is None:
            return not self._patcher.fill_finish_reason
        ends = {self._said_finish, reply.finish_reason}
        return len(ends) == 1 or (not self._patcher.reason_names_calls and ends == {"stop", "tool_calls"})

    def _has_said(self, reply: Reply) -> bool:
        """Returns True if the server's events contained the same tool calls as the reply. Ignores a truncated tool call
        that the reply doesn't contain, if clients recognize that it is truncated.
        """
        read = [(call.name, call.raw_arguments.strip() or "{}") for call in reply.tool_calls if call.kind == "function"]
        others = []
        for text_field in self._calls:
            if text_field.custom:
                continue
            said = (text_field.name, "".join(text_field.pieces).strip() or "{}")
            # A call that the server has marked as complete, and changes at the end, is left to the client.
            if read and (said == read[0] or (text_field.late and read[0][0] == text_field.name)):
                del read[0]
            elif text_field.passed < text_field.said:  # a call that was forwarded completely can't be taken back
                others.append(said[1])
        cut = self._patcher.calls_may_be_cut and reply.finish_reason in ("length", "content_filter")
        return not read and (not others or (cut and not any(map(is_complete_object, others))))

    def observe(self, deltas: Iterable[Delta], payload: Any = None, extras: Iterable[ExtraPart] = ()) -> None:
        """Records the deltas of an SSE event. `write` gets them when they are released."""
        if not self.passes:
            return
        event = self._event
        event.payloads.append(payload)
        event.deltas += extras
        deltas = list(deltas)
        is_last = any(isinstance(delta, StreamEnd) for delta in deltas)
        self.ends = is_last and len(deltas) == 1
        for delta in deltas:
            match delta:
                case ToolCallDelta(custom=True):
                    self._observe_custom(delta)
                case ToolCallDelta() if not (
                    is_last and delta.whole and self._known(delta)
                ):  # the last event repeats all calls
                    self._observe_call(delta, delta.index, delta.arguments)
                case CallSummary(calls):
                    for call in calls:
                        if not self._known(call):  # a call that only the end of the answer contains
                            self._observe_call(call, call.index, call.arguments)
                case Block(index=index, call=ToolCallDelta() as call):
                    self._observe_call(replace(call, begins=True), index, call.arguments)
                case BlockPiece(index=index, kind="call", how="json", value=str(text)) if index in self._numbers:
                    self._observe_call(ToolCallDelta(index), index, text)
                case BlockEnd(index=index) if index in self._numbers:
                    self._end_call(self._numbers[index])
                case TextDelta(text, whole=False) | ReasoningDelta(text, whole=False) if self._texts:
                    self._expect(self._fields[type(delta)], delta, text)
                case BlockPiece(kind="text", how="append", value=str(text)) if self._texts:
                    self._expect(self._fields[TextDelta], TextDelta(text), text)
                case BlockPiece(kind="reasoning", how="append", value=str(text)) if self._texts:
                    self._expect(self._fields[ReasoningDelta], ReasoningDelta(text), text)
                case RefusalDelta(text, part, whole=False):
                    self._refusals[_place(part)] = self._refusals.get(_place(part), "") + text
                    self._expect(self._fields[RefusalDelta], delta, text)
                case RefusalDelta(text, part) if self._refusals.get(_place(part)) != text:
                    event.last = event.has_text = True  # only the end shows how much of it is new
                case Finish(reason, raw, continues=goes_on):
                    self._said_finish, self._goes_on, event.last = reason, goes_on, True
                    words = self._patcher.end_words
                    self.differs = self.differs or bool(words and raw not in words and reason != "unknown")
                case Failure() | StreamEnd():
                    event.last = True

    def feed(self, chunk: StreamChunk) -> bytes:
        if self.passes and not self._texts:
            if chunk.reasoning:
                self._expect(self._fields[ReasoningDelta], ReasoningDelta(chunk.reasoning), chunk.reasoning)
            if chunk.delta:
                self._expect(self._fields[TextDelta], TextDelta(chunk.delta), chunk.delta)
        return super().feed(chunk)

    def _known(self, call: ToolCallDelta) -> bool:
        return any(key in self._numbers for key in _keys(call, call.index))

    def _observe_call(self, call: ToolCallDelta, index: int | None, text: str) -> None:
        begins = call.begins and index is None
        keys = _keys(call, index)
        number = None if begins else next((self._numbers[key] for key in keys if key in self._numbers), None)
        if number is None and not begins and not call.id and not call.name and self._calls:
            number = len(self._calls) - 1
        if is_new := number is None:
            number = len(self._calls)
            self._calls.append(_FieldProgress(call.id, call.name))
            self._fields[number] = self._calls[-1]
            needs_id = self._patcher.calls_have_ids and not call.markup
            self.differs = self.differs or not call.name or (needs_id and not call.id)
        text_field, text_said = self._calls[number], text
        is_same = call.id in (None, text_field.id) and call.name in (None, "", text_field.name)
        if not is_new and (call.id or call.name) and not (call.whole and is_same):
            self.differs = True  # another call with the same number, or an id and a name that clients would append
        self._numbers.update(dict.fromkeys(keys, number))
        if call.whole:
            before = "".join(text_field.pieces)
            self.differs = self.differs or bool(text and not text.startswith(before))
            text = text[len(before) :]
        # Calls with mixed pieces are written one after the other, because many clients expect that.
        self.differs = self.differs or bool(text and number != len(self._calls) - 1)
        text_field.pieces.append(text)
        told = replace(call, index=number, arguments=text, whole=False, ended=None, begins=False)
        self._expect(text_field, told, _CALL_HEADER * is_new + text)
        if call.whole and text_said and not call.begins and self._patcher.keeps_order:
            self._end_call(number)

    def _observe_custom(self, call: ToolCallDelta) -> None:
        """Registers a call of a custom tool. The patcher writes the pieces of such a call as the server sent them
        (`StreamPatcher.extras_of`)."""
        keys = _keys(call, call.index)
        if (call.name or not self._calls) and not any(key in self._numbers for key in keys):
            self._calls.append(_FieldProgress(call.id, call.name, custom=True))
        self._numbers.update(dict.fromkeys(keys, len(self._calls) - 1))

    def _end_call(self, number: int) -> None:
        """Records that the server has marked a tool call as complete. The last character of the tool call is then
        forwarded without waiting for another event."""
        text_field = self._calls[number]
        text = "".join(text_field.pieces)
        if text.strip() and is_complete_object(text):
            text_field.late = 1 + len(text) - len(text.rstrip())
            self._event.deltas.append(ToolCallDelta(number, arguments=text, whole=True))

    def _expect(self, text_field: _FieldProgress, delta: Delta, text: str) -> None:
        text_field.ahead += text
        text_field.said += len(text)
        self._event.deltas.append(delta)
        self._event.has_text = self._event.has_text or not isinstance(delta, ToolCallDelta)
        if text_field is not self._fields[RefusalDelta]:  # a refusal is only released at the end, unchanged
            self._event.needs.append((text_field, text_field.said))

    def write(self, deltas: Iterable[Delta]) -> bytes:
        """Releases deltas, in order. Returns the patcher's events, or no bytes before the first repair."""
        return b"".join(map(self._release, deltas))

    def _release(self, delta: Delta) -> bytes:
        if isinstance(delta, Meta):
            return b"" if self._passed else self._patcher.feed(delta)
        if self._gone and self._gone.pop(id(delta), None) is not None:
            return b""
        shown = self._shown(delta)
        if not self.passes:
            return self._write_rest(shown)
        if (text_field := shown.text_field) is not None:
            if text_field.ahead.startswith(shown.text):
                text_field.ahead = text_field.ahead[len(shown.text) :]
            elif not isinstance(delta, RefusalDelta):  # the end of the answer contains the refusal unchanged
                self.differs = True
        self._due.append(shown)
        return b""

    def _shown(self, delta: Delta) -> _Released:
        match delta:
            case ToolCallDelta(index=int(number), whole=False):  # complete ones come at the end of the answer
                text_field = self._fields.setdefault(number, _FieldProgress())
                if text_field.shown == 0 and not (text_field.name == delta.name and text_field.id in (None, delta.id)):
                    self.differs = True
                text = _CALL_HEADER * (text_field.shown == 0) + delta.arguments
            case TextDelta(text) | ReasoningDelta(text) | RefusalDelta(text):
                text_field = self._fields[type(delta)]
            case _:
                return _Released(delta)
        text_field.shown += len(text)
        return _Released(delta, text_field, text, text_field.shown)

    def end(self) -> bytes:
        """Ends the response. Returns the patcher's last events, or no bytes if no event needed repair."""
        self._finished = True
        return b"" if self.passes else self._patcher.finish()

    def release(self) -> bytes:
        """Returns no bytes until an event has needed repair. `break_off` returns the delayed events."""
        return b"" if self.passes else self._patcher.release()

    def forward(self, raw: bytes) -> bytes:
        """Adds the bytes of the newest event from `observe`. Returns the bytes that can be forwarded now."""
        event, self._event = self._event, _PendingEvent()
        event.raw = raw
        self._waiting.append(event)
        self._size += len(raw)
        if self._instead is not None and self._size > _MOST_HELD:
            return self.start_rewriting()
        out = []
        while self.passes and self._waiting and self._may_go(self._waiting[0]):
            out.append(self._pass(self._waiting[0]))
        return b"".join(out)

    def flush(self, *, failed: bool = False) -> bytes:
        """Returns all delayed bytes. Called at the end of a response that needed no repair.

        Args:
            failed: True if the response failed. The ends of tool calls are then left out, so that clients can't run
                these calls.
        """
        left_out = [event for event in self._waiting if failed and not self._patcher.keeps_order and event.ends_call]
        if any(event.has_text for event in left_out):
            return self.start_rewriting()
        events, self._waiting = self._waiting, deque()
        return b"".join([event.raw for event in events if event not in left_out])

    def break_off(self) -> bytes:
        """Returns the delayed bytes, without the end of the response, and an error event. Called if a response broke
        off."""
        errors = [shown for shown in self._due if isinstance(shown.delta, Failure)]
        self._due = [shown for shown in self._due if shown not in errors]
        if any(event.last and event.has_text for event in self._waiting):
            self.left = self.start_rewriting() + self._patcher.release()
        else:
            self._waiting = deque(event for event in self._waiting if not event.last)
            self.left = self.flush(failed=True)
        self.passes = False
        return self.left + self._patcher.feed_all([shown.delta for shown in errors])

    def start_rewriting(self) -> bytes:
        """Stops forwarding. Returns the patcher's bytes that follow the forwarded bytes."""
        self.passes = False
        self._waiting.clear()
        due, self._due = self._due, []
        out = (self._instead or b"") + b"".join(map(self._write_rest, due))
        return out + (self._patcher.finish() if self._finished else b"")

    def _may_go(self, event: _PendingEvent) -> bool:
        right_place = self._instead is None and not event.last
        return right_place and all(text_field.may_show(need) for text_field, need in event.needs)

    def _pass(self, event: _PendingEvent) -> bytes:
        """Feeds an SSE event to the patcher. Returns the event's bytes if the patcher can continue after the event.

        If the patcher can't, this event and all later events are delayed until the response ends, or until the delayed
        events are too large.
        """
        told, self._passed = self._patcher.feed_all(event.deltas) if event.payloads else b"", True
        written = [self._patcher.advance_past(payload) for payload in event.payloads if payload is not None]
        for text_field, need in event.needs:
            text_field.passed = need
        for delta in event.deltas:
            if isinstance(delta, RefusalDelta):
                self._fields[RefusalDelta].passed += len(delta.text)
            elif isinstance(delta, ExtraPart):
                self._gone[id(delta)] = delta
        self._due = [shown for shown in self._due if not self._has_gone(shown)]
        if elsewhere := [one for one in written if one is not None]:
            self._instead = told + b"".join(elsewhere)
            return b""
        self._waiting.popleft()
        self._size -= len(event.raw)
        return event.raw

    def _has_gone(self, shown: _Released) -> bool:
        if shown.text_field is None:
            return self._gone.pop(id(shown.delta), None) is not None
        return shown.end <= shown.text_field.passed

    def _write_rest(self, shown: _Released) -> bytes:
        """Returns the patcher's events for the part of a delta's text that wasn't forwarded."""
        delta, text_field, text, end = shown
        if text_field is None or (left := end - text_field.passed) >= len(text):
            return self._patcher.feed(delta)
        match delta:
            case ToolCallDelta() if left > 0:
                return self._patcher.feed(replace(delta, arguments=text[-left:]))
            case TextDelta() | ReasoningDelta() | RefusalDelta() if left > 0:
                return self._patcher.feed(replace(delta, text=text[-left:]))
        return b""


def _place(part: PartRef | None) -> object:
    return part and (part.item if part.output is None else part.output, part.number)


def _keys(call: ToolCallDelta, index: int | None) -> list[object]:
    return [key for key in (index, call.item or None, call.id) if key is not None]
