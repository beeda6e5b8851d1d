"""Parses server-sent events (`SSEDecoder`), and finds where events are in bytes (`event_ranges`, `EventScanner`)."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import ProtocolError
from ..types import Limits

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


# The positions of events in a body, for code that cuts, counts or changes events without parsing them.

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_PLAIN_EVENT = re.compile(rb"(?:event: ([ -~]*)\n)?data: ([^\n]*)\n\n")  # the form of nearly every event
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_ENOUGH = len(_BOM + b"data:")  # bytes of a line that are enough to know whether it is data


class EventRange(NamedTuple):
    """The byte range of one SSE event in a response body.

    Attributes:
        start, end: the byte range of the event's lines, including the blank lines after the event.
        payloads: the start and end of each `data` value. For a comment, the list is empty.
        ended: true if a blank line ends the event.
    """

    start: int
    end: int
    payloads: tuple[tuple[int, int], ...] = ()
    ended: bool = False


def event_ranges(body: bytes) -> Iterator[EventRange]:
    """Splits a response body into SSE events at its blank lines. Together, the ranges contain all bytes of the body.

    >>> [body[r.start : r.end] for body in [b": hi\\n\\ndata: a\\n\\n"] for r in event_ranges(body)]
    [b': hi\\n\\n', b'data: a\\n\\n']
    """
    start, payloads, content, ended = 0, list[tuple[int, int]](), False, False
    for found in _LINE.finditer(body):
        if found.start() == found.end():
            break
        line, begin = found[1], found.start()
        if line and ended:
            yield EventRange(start, begin, tuple(payloads), True)
            start, payloads, content, ended = begin, [], False, False
        if value := _data_value(line):
            payloads.append((begin + value, begin + len(line)))
        content = content or bool(line)
        ended = ended or (content and not line)
    if start < len(body):
        yield EventRange(start, len(body), tuple(payloads), ended)


class EventScanner:
    """Finds where SSE events end in bytes that arrive in pieces. Comments don't count as events."""

    def __init__(self) -> None:
        self._line = b""  # the beginning of the line that is arriving
        self._after_cr = False  # a following LF belongs to the same line end
        self._has_data = False

    @property
    def in_event(self) -> bool:
        return self._has_data or bool(_data_value(self._line))

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yields `data` in non-empty pieces. Each piece has a flag that is true if an SSE event ends with the piece."""
        start, at = 0, int(self._after_cr and data[:1] == b"\n")
        for end in _LINE_END.finditer(data, at):
            line = self._line + data[at : end.start()]
            self._line, at = b"", end.end()
            if line:
                self._has_data = self._has_data or bool(_data_value(line))
            elif self._has_data:
                self._has_data = False
                yield data[start:at], True
                start = at
        self._line = (self._line + data[at:])[:_ENOUGH]
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        if start < len(data):
            yield data[start:], False


def _data_value(line: bytes) -> int:
    name = len(_BOM) if line.startswith(_BOM) else 0
    if line.startswith(b"data:", name):
        return name + (6 if line.startswith(b" ", name + 5) else 5)
    return len(line) if line[name:] == b"data" else 0


# Server-sent events by the WHATWG rules: https://html.spec.whatwg.org/multipage/server-sent-events.html
# httpx-sse's own decoder loses the first event after a byte-order mark and a last event without its blank line, makes
# events of lone `id:` and `retry:` lines, follows the header's charset, and has no size limit.
# Beyond the rules, `finish` returns a last event without its blank line, and `error: {...}` is an event named `error`
# (llama.cpp).


_FIELDS = (b":", b"data", b"event", b"id", b"retry", b"error")
_SHOWN = 80  # bytes of an unknown line
_UTF8 = getincrementaldecoder("utf-8")
_LONGEST_BARE = 1 << 16  # bytes of an error that isn't an event


@cache
def event_type() -> type[ServerSentEvent]:
    """Returns a subclass of httpx-sse's event type. The subclass has attributes instead of httpx-sse's properties,
    because attributes are faster."""
    # httpx_sse imports httpx; importing this module alone must not.
    from httpx_sse import ServerSentEvent as Shared

    if TYPE_CHECKING:
        return Shared

    class ServerSentEvent(Shared):
        __slots__ = ("data", "event", "id", "retry")

        def __init__(self, event=None, data=None, id=None, retry=None):  # noqa: A002 - its name there
            self.event, self.data, self.id, self.retry = event or "message", data or "", id or "", retry

    return ServerSentEvent


class SSEDecoder:
    """Parses a response body into server-sent events.

    Attributes:
        invalid_utf8: the number of events with bytes that aren't valid UTF-8. U+FFFD replaces these bytes.
        foreign: the beginning of the first line that isn't an SSE field; "" if there is no such line.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._event_type = event_type()
        self._limit = (limits or Limits()).event_bytes
        self._head: bytes | None = b""  # the first bytes, as long as they may be a byte-order mark
        self._after_cr = False  # the last byte was a CR, so a following LF belongs to the same line end
        self._tail: list[bytes] = []  # a line whose end hasn't arrived
        self._size = 0  # bytes of the event so far, the tail included
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._bare = b""  # JSON after the events without a field name, as Google may send an error
        self.invalid_utf8 = 0
        self.foreign = ""

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]:
        """Returns the SSE events that `data` completes. Exhaust the iterable before you call `feed` again.

        Raises:
            ProtocolError: an event is larger than `limits.event_bytes`.
        """
        if not data:
            return ()
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return ()
            self._head = None
            data = data.removeprefix(_BOM)
        if self._after_cr:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:  # CRLF and CR end a line as LF does
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n")
            if b"\r" in data:
                data = data.replace(b"\r", b"\n")
        if self._size or self._data or self._event or self._retry is not None:
            return self._read_lines(data)
        events: list[ServerSentEvent] = []
        at = 0
        while (found := _PLAIN_EVENT.match(data, at)) is not None and found.end() - at <= self._limit:
            try:
                name, text = (found[1] or b"").decode(), found[2].decode()
            except UnicodeDecodeError:
                break
            events.append(self._event_type(name, text, self._id))
            at = found.end()
        return events if at == len(data) else chain(events, self._read_lines(data[at:]))

    def _read_lines(self, data: bytes) -> Iterator[ServerSentEvent]:
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._tail:
            self._size -= sum(map(len, self._tail))  # they are counted again with the complete line
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail = []
        for line in lines:
            if not line:
                if self._data:
                    yield self._made()
                else:  # without a data line, there is no event
                    self._event, self._retry, self._size = "", None, 0
            elif line.startswith(b"data: "):  # nearly every line
                self._size += len(line) + 1
                self._check_size()
                self._data.append(line[6:])
            else:
                self._line(line)
        if rest:
            self._tail.append(rest)
            self._size += len(rest)
            self._check_size()

    def finish(self) -> ServerSentEvent | None:
        """Ends the input. Returns the last event if the blank line after it is missing, otherwise None."""
        last, self._tail = b"".join(self._tail), []
        decoder = _UTF8("replace")
        decoder.decode(last[-4:])
        last = last[: len(last) - len(decoder.getstate()[0])]  # without an incomplete character
        if last and not any(field.startswith(last) for field in _FIELDS):  # otherwise the field's name is truncated
            self._size -= len(last)
            self._line(last)
        if not self._data and b'"error"' in self._bare:
            self._data.append(self._bare)
        return self._made() if self._data else None

    def _line(self, line: bytes) -> None:
        self._size += len(line) + 1
        self._check_size()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._event = self._decode(value)
            case b"data":
                self._data.append(value)
            case b"id" if b"\0" not in value:
                self._id = self._decode(value)
            case b"retry" if value.isdigit():
                self._retry = int(value[:18])
            case b"error":  # llama.cpp, reported by GPUStack: `error: {"error": {"message": ...}}`
                self._event = "error"
                self._data.append(value)
            case _:  # a comment, or an unknown field
                self._size -= len(line) + 1
                if (line[:1] == b"{" or self._bare) and len(self._bare) < _LONGEST_BARE:
                    self._bare += line + b"\n"
                if name and not self.foreign:
                    self.foreign = line[:_SHOWN].decode("utf-8", "replace")

    def _made(self) -> ServerSentEvent:
        text = self._decode(b"\n".join(self._data))
        event = self._event_type(self._event, text, self._id, self._retry)
        self._data = []
        self._event, self._retry, self._size = "", None, 0
        return event

    def _decode(self, value: bytes) -> str:
        # Lines are split at ASCII bytes, so no character is cut.
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.invalid_utf8 += 1
            return value.decode("utf-8", "replace")

    def _check_size(self) -> None:
        if self._size > self._limit:
            raise ProtocolError(f"one event is larger than {self._limit} bytes (limits.event_bytes)")


def decode_cut(data: bytes) -> str:
    """Decodes UTF-8 and leaves out an incomplete character at the end of `data`. Other invalid bytes become U+FFFD."""
    return _UTF8("replace").decode(data)


def strip_bom_and_space(head: bytes) -> bytes:
    while (rest := head.lstrip(b" \t\r\n").removeprefix(_BOM)) != head:
        head = rest
    return head


def body_kind(head: bytes) -> Literal["events", "json", "markup"] | None:
    """Detects the kind of a response body from its first bytes, because servers often send a wrong content type.
    Returns None if more bytes are needed.

    The body may be text although the result is "events". `SSEDecoder.foreign` then contains the first line that isn't
    an SSE field.
    """
    head = strip_bom_and_space(head)
    if _BOM.startswith(head):
        return None
    return "json" if head.startswith((b"{", b"[")) else "markup" if head.startswith(b"<") else "events"
