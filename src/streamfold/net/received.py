"""A response whose body is still to be read, whichever library brings it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

import httpx

from .silence import close_unless_silent


class Received:
    """The head of a response, and its body as it comes.

    Attributes:
        body: without httpx's layers, which cost a microsecond a piece.
        aclose: closes the connection, or returns it to its pool after the end of the body.
        reason: what the server calls the status, where that may be shown.
        is_unpacked: whether the body has been read and is without its codings.
    """

    __slots__ = (
        "aclose",
        "body",
        "headers",
        "is_unpacked",
        "reason",
        "status",
    )  # a dataclass would make imports dearer

    def __init__(
        self,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: AsyncIterator[bytes],
        aclose: Callable[[], Awaitable[None]],
        reason: str = "",
        is_unpacked: bool = False,
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.aclose = aclose
        self.reason = reason
        self.is_unpacked = is_unpacked

    def fields(self) -> list[tuple[str, str]]:
        """Returns the headers as texts, read as httpx reads them. The names are in lower case."""
        for encoding in ("ascii", "utf-8"):
            try:
                return [(name.lower().decode(encoding), value.decode(encoding)) for name, value in self.headers]
            except UnicodeDecodeError:
                continue
        return [(name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]


class DirectBody(httpx.AsyncByteStream, ABC):
    """A body whose next bytes can be awaited without a step of its own between a reader and the connection.

    Attributes:
        read: returns all that has arrived, as soon as there is some; nothing at the end. Raises what it likes: see
            `left`.
    """

    read: Callable[[], Awaitable[bytes]]

    @abstractmethod
    def left(self, exc: Exception) -> bytes:
        """Returns what arrived before `read` failed. Raises httpx's exception if that is nothing."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self.read()
        except Exception as exc:
            data = self.left(exc)
        if data:
            return data
        raise StopAsyncIteration


class Outgoing(NamedTuple):
    """A request as it is sent: `url` with its escapes, `connect` the seconds until there must be a connection."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    connect: float | None
    address: httpx.URL


class DirectTransport(httpx.AsyncBaseTransport, ABC):
    """A transport that needs none of httpx's objects, which cost as much as all else that is done for a request."""

    takes_objects = True

    @abstractmethod
    def receive(self, request: Outgoing) -> Awaitable[Received] | None:
        """Sends a request, and raises httpx's exceptions. None: it has to be sent with httpx's objects."""


def received(response: httpx.Response) -> Received:
    """Returns what httpx has received."""
    extensions, headers = response.extensions, response.headers.raw
    if "location" in extensions:
        headers = [*headers, (b"location", extensions["location"].encode(response.headers.encoding))]
    stream = extensions.get("streamfold.body", response.stream)
    plain = not response.is_stream_consumed and isinstance(stream, httpx.AsyncByteStream)
    return Received(
        response.status_code,
        headers,
        stream.__aiter__() if plain else response.aiter_bytes(),
        partial(end, response.aclose, response.stream),
        response.reason_phrase,
        response.is_stream_consumed,
    )


async def end(aclose: Callable[[], Awaitable[None]], stream: object) -> None:
    await aclose()
    await close_unless_silent(stream)
