"""Clients for tests: their requests are answered by what is at hand, or noted on their way to the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ..net import make_client
from ..values import ConfigError
from .recording import Recording, RecordTransport, ReplayTransport, recording_client
from .recording.replay import pause

__all__ = ["NoConnection", "client_answered_by", "client_noted_by", "recording_transport"]


@dataclass(frozen=True, slots=True)
class NoConnection:
    """There is no answer, because there is no connection, or after `delay` seconds none in time."""

    message: str
    timed_out: bool = False
    delay: float = 0.0


def client_answered_by(answer: Callable[[bytes], Recording | NoConnection]) -> httpx.AsyncClient:
    """A client whose requests are answered by a function of their bodies. It need not be closed."""
    return _Client(_Answered(answer))


def client_noted_by(
    transport: httpx.AsyncBaseTransport, note: Callable[[bytes], object], misused: Callable[[str], Exception]
) -> httpx.AsyncClient:
    """A client of this transport that tells the body of each request first. Closing the transport is enough.

    Args:
        misused: makes the exception for a request that the transport has nothing for, of what it says.
    """
    return _Client(_Noted(transport, note, misused))


def recording_transport(transport: str, folder: Path, *, name: str, adapter: str) -> RecordTransport:
    """The way to the network that a client of our own takes ("httpx" or "aiohttp"), recorded. It is to be closed."""
    return recording_client(make_client(transport), folder, name=name, adapter=adapter)[1]


class _Client(httpx.AsyncClient):
    """A client that hands out the transport's own answer.

    httpx wraps it into generators and leaves these to the garbage collector where a stream is closed early, of which
    trio complains each time: in a test that would be a failure.
    """

    def __init__(self, way: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=way, timeout=None)
        self._way = way

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        response = await self._way.handle_async_request(request)
        response.request = request
        return response


class _Answered(httpx.AsyncBaseTransport):
    def __init__(self, answer: Callable[[bytes], Recording | NoConnection]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answer(await request.aread())
        if isinstance(answer, NoConnection):
            await pause(answer.delay)
            if answer.timed_out:
                raise httpx.ConnectTimeout(answer.message) from TimeoutError(answer.message)
            raise httpx.ConnectError(answer.message)
        return await ReplayTransport(answer, speed="recorded" if answer.cuts else "instant").handle_async_request(
            request
        )


class _Noted(httpx.AsyncBaseTransport):
    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        note: Callable[[bytes], object],
        misused: Callable[[str], Exception],
    ) -> None:
        self._transport = transport
        self._note = note
        self._misused = misused

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._note(await request.aread())
        try:
            return await self._transport.handle_async_request(request)
        except ConfigError as exc:
            raise self._misused(str(exc)) from exc
