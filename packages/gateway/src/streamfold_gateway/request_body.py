"""Request bodies: size limits, memory budget, timeout."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.datastructures import Headers

from .config import GatewayOptions
from .http_errors import http_error

Receive = Callable[[], Awaitable[Any]]

_SLOWEST = 2**16  # bytes per second that a client has to send after the first seconds
# Bytes that a list, an object and a further entry of either take once they are parsed: CPython 3.11 to 3.14, 64 bits.
_BYTES = {b"["[0]: 64, b"{"[0]: 144, b","[0]: 40}
# A string, also one without an end, or a character that begins a container or an entry.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{,]', re.DOTALL)


class ClientGone(Exception):
    """The client has disconnected."""


class BodyBudget:
    """The memory limit for all request bodies together."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._held = 0

    def take(self, size: int) -> None:
        """Adds bytes. Raises HTTPError if the limit is exceeded."""
        if self._held + size > self._options.max_total_body_bytes:
            raise http_error(503, "too many large requests at once; try again later", "overloaded", retry_after="1")
        self.add(size)

    def add(self, size: int) -> None:
        """Adds bytes without a check; a negative number frees them."""
        self._held += size


class AccountedBody:
    """One body with its references, which counts towards the memory limit until `release`.

    Attributes:
        size: the number of bytes that count towards the limit.
    """

    __slots__ = ("_bodies", "_options", "_structure", "size")

    def __init__(self, bodies: BodyBudget) -> None:
        self._bodies = bodies
        self._options = bodies._options
        self._structure = 0
        self.size = 0

    def release(self) -> None:
        """Releases the bytes of this body."""
        self._bodies.add(-self.size - self._structure)

    async def read(self, headers: Headers, receive: Receive) -> bytes:
        """Returns the whole body.

        Raises:
            HTTPError: the body is too large, or arrives too slowly.
            ClientGone: the client disconnected before the end of the body.
        """
        length = headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20:
            self._check(int(length), "the request body")
        pieces: list[bytes] = []
        seconds = self._options.body_timeout
        # In the server's task for this request. A cancellation that is left over if the server cancels it at the same
        # moment ends no more than that request, which is refused anyway.
        with anyio.move_on_after(seconds) as scope:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece = message.get("body", b"")
                self._hold(len(piece), "the request body")
                pieces.append(piece)
                scope.deadline += len(piece) / _SLOWEST
                if not message.get("more_body"):
                    return b"".join(pieces)
        raise http_error(408, f"the request body did not arrive within {seconds:g} seconds", "request_timeout")

    def hold_structure(self, size: int) -> None:
        """Adds the size of the parsed lists and objects, as returned by `parsed_size`.

        Raises:
            HTTPError: a limit is exceeded.
        """
        self._check(size, "the parsed request body")
        self._bodies.take(size)
        self._structure += size

    def grow(self, size: int) -> None:
        """Adds the size of data that will be inserted into the body. Raises HTTPError if a limit is exceeded."""
        self._hold(size, "the request with its references")

    def _hold(self, size: int, what: str) -> None:
        self._check(self.size + size, what)
        self._bodies.take(size)
        self.size += size

    def _check(self, size: int, what: str) -> None:
        if size > self._options.max_body_bytes:
            raise http_error(413, f"{what} is larger than the allowed {self._options.max_body_bytes} bytes")


def parsed_size(raw: bytes, most: int) -> int:
    """Estimates the size in bytes of the parsed lists and objects of a JSON text, without strings.

    A text such as `[],[],[]` becomes thirty times as large, so the size is estimated before parsing, from the brackets
    and commas outside of strings. Counting stops above `most`.

    >>> parsed_size(b'{"a": [1, 2, "x, [y]"]}', 10_000)
    288
    """
    size = sum(bytes_each * raw.count(token) for token, bytes_each in _BYTES.items())
    if size <= len(raw):  # at most, as some may be in strings
        return size
    size = 0
    for token in _TOKEN.finditer(raw):
        size += _BYTES.get(raw[token.start()], 0)
        if size > most:
            break
    return size
