"""Receives and parses request bodies, and limits their size, memory and time, and the number of requests in flight."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
from starlette.datastructures import Headers

from streamfold.serving import parse_object

from .config import GatewayOptions
from .http_errors import http_error

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]

_LARGE = 2**18  # bytes of a body above which it is parsed in a thread
_SLOWEST = 2**16  # minimum bytes per second, after the first seconds
# Bytes of a parsed list, of an object, and of one more entry in either: CPython 3.11 to 3.14, 64 bits.
_BYTES = {b"["[0]: 64, b"{"[0]: 144, b","[0]: 40}
# A string, even without its end, or a character that begins a list, an object or an entry.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{,]', re.DOTALL)


class ClientGone(Exception):
    """The client disconnected before the end of its request or of the response."""


class Capacity:
    """Limits the number of requests in flight, and the memory of all request bodies together.

    Args:
        observe: called with the number of requests in flight whenever it changes.

    Attributes:
        running: the number of requests in flight.
    """

    def __init__(self, options: GatewayOptions, observe: Callable[[int], None] | None = None) -> None:
        self.options = options
        self.running = 0
        self._observe = observe
        self._held = 0

    def take(self, size: int) -> None:
        """Counts `size` more bytes as memory in use. Raises HTTPError if the total would exceed the limit."""
        if self._held + size > self.options.max_total_body_bytes:
            raise http_error(503, "too many large requests at once; try again later", "overloaded", retry_after="1")
        self.add(size)

    def add(self, size: int) -> None:
        """Counts `size` more bytes as memory in use, even above the limit. A negative `size` reduces the count."""
        self._held += size

    def check(self) -> None:
        """Raises HTTPError if `max_requests` requests are already in flight."""
        if self.running >= self.options.max_requests:
            message = f"{self.running} requests are in flight already; try again later"
            raise http_error(503, message, "overloaded", retry_after="1")

    def count(self, more: int) -> None:
        """Adds `more` to the number of requests in flight."""
        self.running += more
        if self._observe is not None:
            self._observe(self.running)

    @contextmanager
    def occupied(self, size: int) -> Iterator[None]:
        """Inside the block, one more request with a body of `size` bytes counts as in flight. Background responses use
        this, because they may outlive their HTTP request.
        """
        self.add(size)
        self.count(1)
        try:
            yield
        finally:
            self.count(-1)
            self.add(-size)


class RequestBody:
    """A context manager that receives and parses the JSON body of a request.

    Inside its block, the request counts as in flight, and its body counts towards the memory limit.

    Attributes:
        value: the parsed JSON body.
        size: the size of the unparsed body in bytes, including stored items that were added to it.
    """

    __slots__ = ("_capacity", "_counted", "_options", "_receive", "_scope", "_structure", "size", "value")

    def __init__(self, capacity: Capacity, scope: Any, receive: Receive) -> None:
        self.value: Any = None
        self.size = 0
        self._capacity = capacity
        self._options = capacity.options
        self._scope = scope
        self._receive = receive
        self._structure = 0
        self._counted = False

    async def __aenter__(self) -> Self:
        try:
            self._capacity.check()
            raw = await self._read()
            self._capacity.check()  # a request counts as in flight only after its body has arrived
            self._capacity.count(1)
            self._counted = True
            most = self._options.max_body_bytes
            structure = await run_sized(len(raw), partial(parsed_size, raw, most))
            self._check(structure, "the parsed request body")
            self._capacity.take(structure)
            self._structure = structure
            self.value = await run_sized(len(raw), partial(_parsed, raw))
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._capacity.add(-self.size - self._structure)
        if self._counted:
            self._capacity.count(-1)

    async def _read(self) -> bytes:
        length = Headers(scope=self._scope).get("content-length", "")
        if length.isdecimal() and len(length) < 20:
            self._check(int(length), "the request body")
        pieces: list[bytes] = []
        seconds = self._options.body_timeout
        # In the server's task for this request. A cancellation that is left over if the server cancels it at the same
        # moment ends no more than that request, which is refused anyway.
        with anyio.move_on_after(seconds) as scope:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece = message.get("body", b"")
                self._hold(len(piece), "the request body")
                pieces.append(piece)
                scope.deadline += len(piece) / _SLOWEST
                if not message.get("more_body"):
                    return b"".join(pieces)
        raise http_error(408, f"the request body did not arrive within {seconds:g} seconds", "request_timeout")

    def grow(self, size: int) -> None:
        """Adds the size of the stored items that replace references in the body to the size of the body. Raises
        HTTPError if the body or all bodies together become too large.
        """
        self._hold(size, "the request with its references")

    def _hold(self, size: int, what: str) -> None:
        self._check(self.size + size, what)
        self._capacity.take(size)
        self.size += size

    def _check(self, size: int, what: str) -> None:
        if size > self._options.max_body_bytes:
            raise http_error(413, f"{what} is larger than the allowed {self._options.max_body_bytes} bytes")


def parsed_size(raw: bytes, most: int) -> int:
    """Estimates how many bytes the lists and objects of a JSON text need after parsing. Strings aren't counted.

    The parsed value of a JSON text such as `[],[],[]` needs thirty times as much memory as the text. So the gateway
    estimates the size before it parses, from the number of brackets and commas outside of strings. The function stops
    counting when the size exceeds `most`.

    >>> parsed_size(b'{"a": [1, 2, "x, [y]"]}', 10_000)
    288
    """
    size = sum(bytes_each * raw.count(token) for token, bytes_each in _BYTES.items())
    if size <= len(raw):  # an upper bound, because some brackets may be in strings
        return size
    size = 0
    for token in _TOKEN.finditer(raw):
        size += _BYTES.get(raw[token.start()], 0)
        if size > most:
            break
    return size


async def run_sized(size: int, work: Callable[[], T]) -> T:
    """Calls `work`, in a thread if the body is large, so that other requests don't wait."""
    return await anyio.to_thread.run_sync(work) if size > _LARGE else work()


def _parsed(raw: bytes) -> Any:
    try:
        return parse_object(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise http_error(400, f"the request body is not JSON: {error}") from None
