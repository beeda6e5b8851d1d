"""Clients without a network: their requests are answered by what is at hand, and noted on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from .errors import ConfigError
from .recording import Recording, ReplayTransport
from .recording.replay import pause

__all__ = ["NoConnection", "client_answered_by", "client_noted_by"]


@dataclass(frozen=True, slots=True)
class NoConnection:
    """There is no answer, because there is no connection, or after `delay` seconds none in time."""

    message: str
    timed_out: bool = False
    delay: float = 0.0


def client_answered_by(answer: Callable[[bytes], Recording | NoConnection]) -> httpx.AsyncClient:
    """A client whose requests are answered by a function of their bodies. It need not be closed."""
    return httpx.AsyncClient(transport=_Answered(answer), timeout=None)


def client_noted_by(
    transport: httpx.AsyncBaseTransport, note: Callable[[bytes], None], misused: Callable[[str], Exception]
) -> httpx.AsyncClient:
    """A client of this transport that tells the body of each request first. Closing the transport is enough.

    Args:
        misused: makes the exception for a request that the transport has nothing for, of what it says.
    """
    return httpx.AsyncClient(transport=_Noted(transport, note, misused), timeout=None)


class _Answered(httpx.AsyncBaseTransport):
    def __init__(self, answer: Callable[[bytes], Recording | NoConnection]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answer(await request.aread())
        if isinstance(answer, NoConnection):
            await pause(answer.delay)
            raise httpx.ConnectTimeout(answer.message) if answer.timed_out else httpx.ConnectError(answer.message)
        return await ReplayTransport(answer, speed="recorded" if answer.cuts else "instant").handle_async_request(
            request
        )


class _Noted(httpx.AsyncBaseTransport):
    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        note: Callable[[bytes], None],
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
