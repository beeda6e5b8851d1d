"""Bytes to server-sent events, by the WHATWG rules: https://html.spec.whatwg.org/multipage/server-sent-events.html

The event type is httpx-sse's, which is what the ecosystem hands around. The decoder is our own, because that one loses
the first event behind a byte-order mark and a last event without its blank line, makes events out of `id:` and `retry:`
lines that carry no data, follows a charset in the header although the format is always UTF-8, and has no size limit.

Two things go beyond the rules. `finish` hands out what is left at the end of the body, because a missing blank line is
no reason to lose an answer: whoever calls it must judge whether the payload is whole. And a line `error: {...}`, which
the rules ignore, is an event named `error`: llama.cpp reports a failure in mid-stream that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from ..values import Limits, ProtocolError

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

__all__ = ["SSEDecoder", "body_kind"]

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b":", b"data", b"event", b"id", b"retry", b"error")


class SSEDecoder:
    """Cuts a body into events, however it was cut into pieces on the way.

    Attributes:
        invalid_utf8: how many events held bytes that are not UTF-8; those are replaced by U+FFFD.
        foreign: whether there was a line that is no field of the format.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        # httpx_sse imports httpx; importing this module alone shall not.
        from httpx_sse import ServerSentEvent

        self._event_type = ServerSentEvent
        self._limit = (limits or Limits()).event_bytes
        self._head: bytes | None = b""  # the first bytes, as long as they may be a byte-order mark
        self._after_cr = False  # the last byte was a CR: an LF that follows belongs to it
        self._tail: list[bytes] = []  # a line whose end has not come yet
        self._size = 0  # bytes of the event so far, the tail included
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self.invalid_utf8 = 0
        self.foreign = False

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]:
        """The events that `data` completes. Must be used up before the next call.

        Raises:
            ProtocolError: an event is larger than the limit.
        """
        at_start = not self._size and self._head is None and not self._after_cr
        if at_start and data.endswith(b"\n\n") and (event := self._only(data[:-2])):
            return (event,)
        return self._feed(data)

    def _only(self, lines: bytes) -> ServerSentEvent | None:
        """The event of these lines, if they are what nearly all are: one line of data, perhaps a type before it."""
        end = lines.find(b"\n")
        if b"\r" in lines or len(lines) >= self._limit:
            return None
        if end < 0 and lines.startswith(b"data: "):
            return self._event_type("", self._decode(lines[6:]), self._id, None)
        if lines.startswith(b"event: ") and lines.startswith(b"data: ", end + 1) and lines.rfind(b"\n") == end:
            return self._event_type(self._decode(lines[7:end]), self._decode(lines[end + 7 :]), self._id, None)
        return None

    def _feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return
            self._head = None
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if not data:
            return
        if b"\r" in data:
            yield from self._lines(data)
            return
        events = data.split(b"\n\n")
        rest = events.pop()
        for lines in events:
            if not self._size and (event := self._only(lines)):
                yield event
            else:
                yield from self._lines(lines + b"\n\n")
        if rest:
            yield from self._lines(rest)

    def finish(self) -> ServerSentEvent | None:
        """What is left when the input has ended: an event without its blank line, whole or not."""
        last, self._tail = b"".join(self._tail), []
        if last and not any(field.startswith(last) for field in _FIELDS):  # else the field's name is cut off
            self._size -= len(last)
            self._line(last)
        return self._made() if self._data else None

    def _lines(self, data: bytes) -> Iterator[ServerSentEvent]:
        # On bytes, unlike on str, splitlines() knows CR, LF and CRLF only, which is what the format wants.
        lines = data.splitlines()
        self._after_cr = data.endswith(b"\r")
        rest = b"" if data.endswith((b"\r", b"\n")) else lines.pop()
        if lines and self._tail:
            self._size -= sum(map(len, self._tail))  # counted again with the whole line
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail = []
        for line in lines:
            if line:
                self._line(line)
            elif self._data:
                yield self._made()
            else:  # without a data line there is no event, whatever other lines there were
                self._next()
        if rest:
            self._tail.append(rest)
            self._size += len(rest)
        self._check_size()

    def _line(self, line: bytes) -> None:
        self._size += len(line) + 1
        self._check_size()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = self._decode(value)
            case b"id" if b"\0" not in value:
                self._id = self._decode(value)
            case b"retry" if value.isdigit():
                self._retry = int(value[:18])
            case b"error":  # llama.cpp, reported by GPUStack: `error: {"error": {"message": ...}}`
                self._event = "error"
                self._data.append(value)
            case _:  # a comment, or a field that nobody knows
                self._size -= len(line) + 1
                self.foreign = self.foreign or bool(name)

    def _made(self) -> ServerSentEvent:
        self._check_size()
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = self._event_type(self._event, self._decode(data), self._id, self._retry)
        self._next()
        return event

    def _next(self) -> None:
        self._data = []
        self._event = ""
        self._retry = None
        self._size = 0

    def _decode(self, value: bytes) -> str:
        # No character is cut here: a line is whole, and no byte of a longer UTF-8 sequence looks like a line end.
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.invalid_utf8 += 1
            return value.decode("utf-8", "replace")

    def _check_size(self) -> None:
        if self._size > self._limit:
            raise ProtocolError(f"one event is larger than {self._limit} bytes (limits.event_bytes)")


def skip_blank(head: bytes) -> bytes:
    """The first bytes of a body without white space and byte-order marks in front."""
    while (rest := head.lstrip(b" \t\r\n").removeprefix(_BOM)) != head:
        head = rest
    return head


def body_kind(head: bytes) -> Literal["events", "json", "markup"] | None:
    """What a 2xx body is, by its first bytes rather than by a content type that is often wrong. None: too early to say.

    Anything that is neither JSON nor markup is read as events; afterwards `SSEDecoder.foreign` tells whether it was.
    """
    head = skip_blank(head)
    start = head[:1]
    if _BOM.startswith(head):
        return None
    return {b"{": "json", b"[": "json", b"<": "markup"}.get(start, "events")  # type: ignore[return-value]
