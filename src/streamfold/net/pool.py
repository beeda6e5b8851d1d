"""Reuses connections of httpx's transports, at any number of streams."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import anyio
import httpx

KEPT = 5.0  # seconds that an unused connection is kept: what httpx does by default
_CLOSING = 5.0  # seconds that closing a connection may take


class Connections:
    """Those that nobody uses. The one used last is the next one."""

    def __init__(self) -> None:
        self._idle: deque[tuple[Any, float]] = deque()

    def take(self) -> Any:
        return self._idle.pop()[0] if self._idle else None

    def give_back(self, connection: Any) -> None:
        self._idle.append((connection, monotonic()))

    async def close_unused(self) -> None:
        while self._idle and self._idle[0][1] < monotonic() - KEPT:
            await close(self._idle.popleft()[0])

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.popleft()[0].aclose()


class ConnectionPool(Connections, httpx.AsyncBaseTransport):
    """One httpx transport with one connection for each stream at once.

    httpcore's pool compares its keep-alive limit with the number of all connections instead of the idle ones
    (https://github.com/encode/httpcore/issues/1000, open in 2026), so that with more streams than the limit nearly
    every request opens a new connection. Without a limit it walks over all connections for every request.
    """

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._make = make
        super().__init__()
        self.give_back(make())  # it proves that `make` works

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        transport = self.take() or self._make()
        try:
            await self.close_unused()
            response = await transport.handle_async_request(request)
        except BaseException:
            await close(transport)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - for the type checker
        response.stream = PooledBody(response.stream, self, transport)
        return response


class PooledBody(httpx.AsyncByteStream):
    """The body of an answer, with the transport that is free when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, owner: Connections, transport: Any) -> None:
        self._stream = stream
        self._owner = owner
        self._transport = transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        transport, self._transport = self._transport, None
        try:
            await self._stream.aclose()
        except BaseException:
            if transport is not None:
                await close(transport)
            raise
        if transport is not None:
            self._owner.give_back(transport)


async def close(connection: Any) -> None:
    with anyio.move_on_after(_CLOSING, shield=True):
        await connection.aclose()
