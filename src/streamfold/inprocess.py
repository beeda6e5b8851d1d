"""Answers that a function makes, given to httpx as if a server sent them: no socket, no port, no server to stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import httpx

__all__ = ["NoConnection", "WireAnswer", "client_answered_by"]


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """An answer as it goes over the wire.

    Attributes:
        events: the pieces of the body, each with the seconds to wait before it.
        broken: the connection breaks off after them.
        delay: seconds until the head of the answer.
    """

    events: Sequence[tuple[float, bytes]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    broken: bool = False
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class NoConnection:
    """There is no answer, because there is no connection, or none in time."""

    message: str
    timed_out: bool = False
    delay: float = 0.0


def client_answered_by(answer: Callable[[bytes], WireAnswer | NoConnection]) -> httpx.AsyncClient:
    """A client whose requests are answered by a function of their bodies. Closing it is not needed."""
    return httpx.AsyncClient(transport=_Answering(answer))


class _Answering(httpx.AsyncBaseTransport):
    def __init__(self, answer: Callable[[bytes], WireAnswer | NoConnection]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answer(await request.aread())
        await anyio.sleep(answer.delay)
        if isinstance(answer, NoConnection):
            raise httpx.ConnectTimeout(answer.message) if answer.timed_out else httpx.ConnectError(answer.message)
        return httpx.Response(answer.status, headers=dict(answer.headers), stream=_Body(answer), request=request)


class _Body(httpx.AsyncByteStream):
    """The pieces of one answer. Not a generator: trio complains of one that is dropped half-way."""

    def __init__(self, answer: WireAnswer) -> None:
        self._events = iter(answer.events)
        self._broken = answer.broken
        self._waiting: anyio.CancelScope | None = None
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        delay, piece = next(self._events, (0.0, b""))
        if not self._closed:
            with anyio.CancelScope() as self._waiting:
                await anyio.sleep(delay)  # also for no time at all: a network would let others run here
        if self._closed:
            raise httpx.ReadError("the answer was closed while it was being read")
        if piece:
            return piece
        if self._broken:
            raise httpx.RemoteProtocolError("the connection broke off in the middle of the body")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._closed = True
        if self._waiting is not None:  # whoever waits for the next piece learns of it now, as on a socket
            self._waiting.cancel()
