"""Base class of the serializers, which convert deltas to SSE events or to one JSON body."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Required, TypedDict

from ..deltas import Delta, Failure, Finish, Meta, ReasoningDelta, RefusalDelta, TextDelta, Warn
from ..errors import ErrorInfo
from ..jsontext import parse_object
from ..types import CallKind, ExtraPart, ReadToolChoice, ToolCall, ToolCallDelta, Usage, WarningCode


def is_complete_object(arguments: str) -> bool:
    """Returns True if a text is a complete JSON object or empty. A tool call without arguments has an empty text."""
    if not arguments.strip():
        return True
    try:
        return isinstance(parse_object(arguments), dict)
    except ValueError:
        return False


@dataclass(slots=True, eq=False)
class SerializedCall:
    """A tool call that a serializer writes.

    Attributes:
        number: the position of the tool call, from 0.
        item: the id of the provider's output item, if the provider has sent an id.
        pieces: the pieces of the arguments so far.
        written: the number of pieces that have been written. The number stays 0 until the tool call's id and name are
            known.
        opened: True if the id and the name have been written.
        closed: True if the tool call is complete.
        custom: True for a call of a custom tool, whose input is plain text. See `StreamSerializer.reserve_call`.
    """

    number: int
    id: str = ""
    name: str = ""
    item: str | None = None
    extra: dict[str, Any] | None = None
    pieces: list[str] = field(default_factory=list)
    written: int = 0
    opened: bool = False
    closed: bool = False
    custom: bool = False

    @property
    def arguments(self) -> str:
        if self.written == len(self.pieces) > 1:
            self.pieces, self.written = ["".join(self.pieces)], 1
        return "".join(self.pieces)


# Line ends for some SSE parsers (`str.splitlines`), and halves of surrogate pairs, which can't be encoded.
_ESCAPED = re.compile("[\u0085\u2028\u2029\ud800-\udfff]")

DONE = b"data: [DONE]\n\n"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_text(value: Any) -> str:
    """Returns JSON text without any kind of line break. NaN and Infinity stay unchanged."""
    text = _encode(value)
    return text if text.isascii() else _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def event(payload: Any, name: str | None = None, *, end: str = "\n") -> bytes:
    """Returns a server-sent event with a JSON payload. `end` is the line break after each line."""
    if name and not name.isprintable():  # a line break would end the field
        name = "".join(filter(str.isprintable, name))
    head = f"event: {name}{end}" if name else ""
    return f"{head}data: {json_text(payload)}{end}{end}".encode()


SSE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",  # a proxy that compresses a stream also delays it
        "x-accel-buffering": "no",
    }
)
"""The headers of a response with server-sent events."""


def comment(text: str) -> bytes:
    line = " ".join(text.split())
    return f": {_ESCAPED.sub(' ', line)}\n\n".encode()


_WARNING = "streamfold warning "  # the start of an SSE comment with a warning


def warning_comment(text: str) -> bytes:
    """Returns an SSE comment with a warning, which programs can parse: `CODE: DETAIL`."""
    return comment(f"{_WARNING}{text}")


def openai_error_body(info: ErrorInfo) -> dict[str, Any]:
    """Returns the body of an error response for both of OpenAI's APIs. In Chat Completions, the event for an error
    contains the same object."""
    error: dict[str, Any] = {"message": info.message, "type": info.type, "param": info.param, "code": info.code}
    return {"error": error if info.status is None else {**error, "status": info.status}}


class SerializerArguments(TypedDict, total=False):
    """Keyword arguments of `StreamSerializer`, which documents them."""

    id: Required[str]
    model: Required[str]
    created: int
    tool_choice: ReadToolChoice
    fill_finish_reason: bool


class StreamSerializer(ABC):
    """Writes the SSE events of one response from deltas. An adapter's `decode` does the opposite.

    The deltas come from `DeltaOrder` or `reply_deltas.py`. In these deltas, a tool call's index is its position in the
    answer, and its name is never split. A subclass implements the methods `write_...`, which call `send` with the
    payload of each event. These methods and the attributes are public, so that subclasses in other packages can use
    them.

    A tool call is written as soon as its id and name are known. More arguments may follow until the end of the answer.

    Args:
        id, model, created: the id, the model and the creation time of the response. A `Meta` delta that comes before
            the start replaces them.
        tool_choice: the tool choice of the request. If it is "none", tool calls are dropped.
        fill_finish_reason: True to send the client a finish reason if the stream ended normally but the provider sent
            none.

    Attributes:
        calls_may_be_cut: True if clients of this API can detect a truncated tool call. If False, a response with a
            truncated tool call ends with an error.
        arguments_are_text: True if tool call arguments are JSON text in this API, False if they are an object.
        call_kinds: the kinds of tool calls that this API supports.
        end_words: the finish reasons that this API documents. The repair package replaces other values.
        keeps_order: True if content after a tool call is delayed, in `waiting`, until the tool call is complete.
        open_call: with `keeps_order`, the incomplete tool call that delays other content. None if there is none.
        begun, ended: True if the start or the end of the answer has been written.
        usage, finish_reason: the latest values that have arrived. These values are written at the end of the answer.
        calls: the tool calls so far, by index. Calls of custom tools have negative keys.
        collected: the payloads of the events of a response that isn't streamed.
        said: the reply's complete text, reasoning and refusal. Using these strings instead of equal copies saves
            memory.
    """

    calls_may_be_cut: ClassVar[bool] = True
    arguments_are_text: ClassVar[bool] = True
    call_kinds: ClassVar[tuple[CallKind, ...]] = ("function",)
    end_words: ClassVar[frozenset[str]] = frozenset()
    keeps_order: ClassVar[bool] = False
    line_end: ClassVar[str] = "\n"

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the word on the wire
        model: str,
        created: int = 0,
        tool_choice: ReadToolChoice = "auto",
        fill_finish_reason: bool = False,
    ) -> None:
        self.id = id
        self.model = model
        self.created = created
        self.tool_choice = tool_choice
        self.fill_finish_reason = fill_finish_reason
        self.ended = False
        self.begun = False
        self.usage: Usage | None = None
        self.finish_reason: Finish | None = None
        self.calls: dict[int, SerializedCall] = {}
        self._warnings: dict[str, None] = {}
        self._extras: dict[str, int] = {}
        self._customs: dict[int, SerializedCall] = {}  # calls of custom tools, by the provider's number
        self._out: list[bytes] = []
        self.collected: list[dict[str, Any]] = []
        self._streams = True
        self.said: Collection[str] = ()
        self.open_call: SerializedCall | None = None
        self.waiting: list[Delta] = []

    def begin(self) -> bytes:
        """Returns the events that start the response. If `begin` isn't called, the first delta starts the response."""
        self.ensure_started()
        return self.drain()

    def ensure_started(self) -> None:
        """Writes the start of the answer, unless it has been written."""
        if not self.begun:
            self.write_start()

    def feed(self, delta: Delta) -> bytes:
        """Returns the events for a delta. After a `Failure` delta, the method returns no more events.

        Usage, warnings and the finish reason are written at the end of the answer, because newer values may follow.

        Raises:
            TypeError: `DeltaOrder` would have to convert the delta first, for example a tool call without an index.
        """
        return self.feed_all((delta,))

    def feed_all(self, deltas: Iterable[Delta]) -> bytes:
        """Returns the events for several deltas, as `feed` does for one."""
        self._write_in_order(deltas)
        return self.drain()

    def _write_in_order(self, deltas: Iterable[Delta]) -> None:
        """Writes deltas, except those that must wait until the open tool call is complete."""
        for delta in deltas:
            if self.ended:
                return
            if self.open_call is not None and self._is_behind(delta):
                self.waiting.append(delta)
            else:
                self._write(delta)
            while self.waiting and self.open_call is None:
                waiting, self.waiting = self.waiting, []
                self._write_in_order(waiting)

    def _write(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text, whole=False):
                if text:
                    self.write_text(delta)
            case ReasoningDelta(whole=False):
                self.write_reasoning(delta)
            case RefusalDelta(text, whole=False):
                if text:
                    self.write_refusal(delta)
            case ToolCallDelta(index=int()):
                if self.tool_choice != "none":
                    (self._custom_call if delta.custom else self._call)(delta)
            case ExtraPart(name, value, whole):
                known = self._extras.get(name, 0)
                values = value[known:] if whole else [value]  # only the new values of a complete list
                self._extras[name] = known + len(values)
                for each in values:
                    self.write_extra(name, each)
            case Usage():
                self.usage = delta
            case Finish():
                self.finish_reason = delta
            case Warn(code, detail):
                self._warn(code, detail)
            case Meta() if not self.begun:
                self.id, self.model = delta.id or self.id, delta.model or self.model
                if isinstance(delta.created, int | float):
                    self.created = int(delta.created)
            case Failure():
                self.write_waiting()
                self.write_failure(delta)
                self.ended = True
            case TextDelta() | ReasoningDelta() | RefusalDelta() | ToolCallDelta():
                _unsorted(delta)

    def _is_behind(self, delta: Delta) -> bool:
        if isinstance(delta, ToolCallDelta):
            return self.calls.get(delta.index or 0) is not self.open_call
        return isinstance(delta, TextDelta | ReasoningDelta | RefusalDelta | ExtraPart)

    def finish(self) -> bytes:
        """Returns the events that end the response. Returns no events after a failure, or on a second call."""
        if self.ended:
            return b""
        while self.waiting:
            self.end_open_call()
            waiting, self.waiting = self.waiting, []
            self._write_in_order(waiting)
        self.ended = True
        for call in self.calls.values():
            # A call whose id never arrived gets one. A call without a name can't be run, and isn't written.
            cut = call.custom and self.finish_reason is not None and self.finish_reason.cut
            if not call.opened and call.name and not cut:
                call.id = call.id or f"call_{self.stem}_{call.number}"
                self._write_call(call)
        self.write_end()
        return self.drain()

    def release(self) -> bytes:
        """Returns the events for the delayed content of an answer that has failed. After this call, only a `Failure`
        delta may follow."""
        if not self.ended:
            self.write_waiting()
        return self.drain()

    def serialize_whole(self, deltas: Iterable[Delta]) -> dict[str, Any]:
        """Returns the JSON body of a response that isn't streamed.

        Args:
            deltas: the complete answer, with complete tool calls.
        """
        self._streams = False
        self.feed_all(deltas)
        self.finish()
        return self.body()

    def shows_broken(self, call: ToolCall) -> bool:
        """Returns True if clients can detect that a tool call's arguments aren't a JSON object. Clients then don't run
        the tool call."""
        return self.arguments_are_text and not is_complete_object(call.raw_arguments)

    @property
    def warnings(self) -> list[str]:
        """The warnings so far, each as `CODE: DETAIL`."""
        return [warning.removeprefix(_WARNING) for warning in self._warnings]

    @property
    def has_calls(self) -> bool:
        """True if a tool call has been written."""
        return any(call.opened for call in self.calls.values())

    def send(self, payload: dict[str, Any], event_name: str | None = None) -> None:
        """Writes one event. The payload is encoded immediately, so the caller may modify it afterwards.

        If the response isn't streamed, the payload is passed to `collect` instead.
        """
        if self._streams:
            self._out.append(event(payload, event_name, end=self.line_end))
        else:
            self.collect(payload)

    def drain(self) -> bytes:
        """Returns the events written since the last `drain`."""
        written, self._out = self._out, []
        return b"".join(written)

    def _warn(self, code: WarningCode, detail: str) -> None:
        self._warnings.setdefault(f"{_WARNING}{code}: {detail}")

    def _write_warnings(self) -> None:
        self._out += [comment(warning) for warning in self._warnings]

    def _call(self, part: ToolCallDelta) -> None:
        call = self.calls.setdefault(part.index or 0, SerializedCall(len(self.calls)))
        if call.closed:
            return
        if part.name and call.name and part.name != call.name:  # a written name can't be taken back
            _unsorted(part)
        if not call.opened:
            call.id, call.name = call.id or part.id or "", call.name or part.name or ""
            call.item = call.item or part.item
        known = call.extra
        if part.extra:
            call.extra = {**(call.extra or {}), **part.extra}
        piece = part.arguments
        if part.whole:
            # Only the rest is written, because written pieces can't be taken back.
            written = call.arguments
            piece = piece[len(written) :] if piece.startswith(written) else ""
        call.pieces.append(piece)
        # A complete call that adds nothing isn't written, because some clients would begin the call again.
        new = piece or not (part.whole and call.opened) or call.extra != known
        if call.id and call.name and new:
            self._write_call(call)
        if part.whole and part.arguments and call.opened:  # the Responses API begins a call with ""
            call.closed = True
            if call.arguments == part.arguments:
                call.pieces = [part.arguments]
            self.close_call(call)

    def _custom_call(self, part: ToolCallDelta) -> None:
        """Adds a piece of the input of a custom tool. The first piece reserves the position of the tool call."""
        number = part.index or 0
        if (call := self._customs.get(number)) is None:
            call = self._customs[number] = self.reserve_call(part.id or f"call_{number}", part.name or "", "")
        call.pieces = [part.arguments] if part.whole else [*call.pieces, part.arguments]

    def reserve_call(self, call_id: str, name: str, text: str) -> SerializedCall:
        """Reserves the next position for a call of a custom tool. The tool call is written at the end of the answer,
        because clients would run an incomplete input, which is plain text."""
        call = SerializedCall(len(self.calls), call_id, name, pieces=[text], custom=True)
        self.calls[-1 - call.number] = call
        return call

    def _write_call(self, call: SerializedCall) -> None:
        piece = "".join(call.pieces[call.written :])
        call.written = len(call.pieces)
        first, call.opened = not call.opened, True
        self.write_call_piece(call, piece, first=first)

    @property
    def stem(self) -> str:
        """The part of `id` that is in all generated ids of items and tool calls."""
        return re.sub(r"^[a-z]+[-_]|[^A-Za-z0-9]", "", self.id)[-40:] or "0"

    @abstractmethod
    def write_start(self) -> None:
        """Writes the start of the answer."""

    @abstractmethod
    def write_text(self, delta: TextDelta) -> None:
        """Writes a piece of text."""

    @abstractmethod
    def write_reasoning(self, delta: ReasoningDelta) -> None:
        """Writes a piece of reasoning. An empty piece means that the provider doesn't show the model's reasoning."""

    def write_refusal(self, delta: RefusalDelta) -> None:
        """Writes a piece of a refusal, as text if the API has no other place for refusals."""
        self.write_text(TextDelta(delta.text))

    @abstractmethod
    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        """Writes a piece of a tool call's arguments, which may be empty. With `first`, also writes the tool call's id
        and name."""

    def close_call(self, call: SerializedCall) -> None:  # noqa: B027 - not every format marks it
        """Writes the event for the end of a complete tool call, if this API has such an event."""

    @abstractmethod
    def write_extra(self, name: str, value: Any) -> None:
        """Writes data other than text and tool calls, if this API has a field for the data."""

    @abstractmethod
    def write_end(self) -> None:
        """Writes the end of the answer: the finish reason, usage and warnings."""

    def end_open_call(self) -> None:
        """Closes the open tool call at the end of the answer."""
        self.open_call = None

    def write_waiting(self) -> None:
        """Writes the delayed content of an answer that has failed. The open tool call stays incomplete, and delayed
        tool calls are dropped."""
        self.open_call = None
        waiting, self.waiting = self.waiting, []
        for delta in waiting:
            if not isinstance(delta, ToolCallDelta):
                self._write(delta)

    @abstractmethod
    def write_failure(self, failure: Failure) -> None:
        """Writes the error that ends the answer."""

    def collect(self, payload: dict[str, Any]) -> None:
        """Stores the payload of an event, from which `body` makes the body of a response that isn't streamed."""
        self.collected.append(payload)

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """Returns the complete JSON body of a response that isn't streamed."""


def _unsorted(delta: Delta) -> NoReturn:
    raise TypeError(f"a serializer needs the deltas of DeltaOrder or of a reply, not {delta!r}")
