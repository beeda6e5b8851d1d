"""Parses AWS event streams, the binary format in which Amazon Bedrock streams responses.

https://smithy.io/2.0/aws/amazon-eventstream.html describes the format. Each message of a stream consists of a prelude
with its length, headers, a payload and a checksum. The payload of a `chunk` message is a JSON object whose field
`bytes` contains an event of the Messages API in base64. If Bedrock ends the stream with an exception message,
streamfold converts this message to an event named `error`.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from struct import unpack_from
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ...errors import ProtocolError
from ...types import Limits

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

_PRELUDE, _CHECKSUM, _STRING = 12, 4, 7
# The Messages API's error types, by the names of Bedrock's exceptions.
_ERRORS = {
    "throttlingException": "rate_limit_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
    "accessDeniedException": "permission_error",
    "resourceNotFoundException": "not_found_error",
    "serviceUnavailableException": "overloaded_error",
}


class AWSEventStream:
    """Splits a response body into events. The body may arrive in pieces of any length.

    Attributes:
        invalid_utf8: the number of events so far that contained invalid UTF-8.
        foreign: always "". If the body has another format, `feed` raises ProtocolError.
    """

    is_binary = True

    def __init__(self, limits: Limits) -> None:
        from httpx_sse import ServerSentEvent

        self._event_type = ServerSentEvent
        self._limit = limits.event_bytes
        self._buffer = bytearray()
        self.invalid_utf8 = 0
        self.foreign = ""

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        """Yields the events that the next bytes of the body complete.

        Raises:
            ProtocolError: a message of the stream is damaged, or larger than `Limits.event_bytes`.
        """
        self._buffer += data
        while len(self._buffer) >= _PRELUDE:
            length, headers, checksum = unpack_from(">III", self._buffer)
            if crc32(self._buffer[:8]) != checksum:
                raise ProtocolError("the response is not an AWS event stream: the checksum of a message is wrong")
            if length > self._limit:
                raise ProtocolError(f"one event is larger than {self._limit} bytes (limits.event_bytes)")
            if len(self._buffer) < length:
                return
            message, self._buffer = bytes(self._buffer[:length]), self._buffer[length:]
            yield from self._read(message, headers)

    def finish(self) -> ServerSentEvent | None:
        """Returns None, because an incomplete message at the end of the body can't be parsed."""
        return None

    def _read(self, message: bytes, headers_length: int) -> Iterator[ServerSentEvent]:
        if len(message) < _PRELUDE + headers_length + _CHECKSUM:
            raise ProtocolError("a message of the event stream is shorter than its declared length")
        if crc32(message[:-_CHECKSUM]) != unpack_from(">I", message, len(message) - _CHECKSUM)[0]:
            raise ProtocolError("a message of the event stream is damaged: its checksum is wrong")
        headers = _headers(message[_PRELUDE : _PRELUDE + headers_length])
        payload = message[_PRELUDE + headers_length : -_CHECKSUM]
        kind = headers.get(":message-type", "event")
        if kind == "event":
            if data := self._inner(payload):
                yield self._event_type("", data, "", None)
            return
        name = headers.get(":exception-type") or headers.get(":error-code") or kind
        said = headers.get(":error-message") or _message(payload) or name
        error = {"type": _ERRORS.get(name, "api_error"), "message": said}
        yield self._event_type("error", json.dumps({"type": "error", "error": error}), "", None)

    def _inner(self, payload: bytes) -> str:
        try:
            outer = json.loads(payload)
            inner = b64decode(outer["bytes"]) if isinstance(outer, dict) and "bytes" in outer else b""
        except (ValueError, Base64Error) as exc:
            raise ProtocolError(f"a message of the event stream can't be read: {exc}") from exc
        text = inner.decode("utf-8", "replace")
        self.invalid_utf8 += "\ufffd" in text and text.encode() != inner
        return text


def _headers(data: bytes) -> dict[str, str]:
    """Returns a message's headers. Stops at a header whose value isn't a string, because Bedrock sends only strings."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        size = data[at]
        name, at = data[at + 1 : at + 1 + size].decode("utf-8", "replace"), at + 1 + size
        if at + 3 > len(data) or data[at] != _STRING:
            break
        (length,) = unpack_from(">H", data, at + 1)
        found[name] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
        at += 3 + length
    return found


def _message(payload: bytes) -> str | None:
    try:
        said: Any = json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace") or None
    message = said.get("message") if isinstance(said, dict) else None
    return message if isinstance(message, str) else None
