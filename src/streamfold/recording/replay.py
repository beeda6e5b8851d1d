"""Recorded answers, played to httpx as if a server sent them.

A recording that is played by a transport takes the way of a live answer, through httpx and all that is above it, and
needs neither a network nor a key.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import httpx

from ..errors import ConfigError
from .files import Recording, Speed, paced

__all__ = ["ReplayTransport", "answer_headers"]

# They describe the connection, or the encoding of the day of the recording, not the bytes that are played.
_NOT_PLAYED = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "set-cookie"}


def answer_headers(recording: Recording) -> dict[str, str]:
    """The headers to answer with: those of the recording that still hold, and a content type in any case."""
    kept = {name.lower(): value for name, value in recording.headers.items() if name.lower() not in _NOT_PLAYED}
    return {"content-type": "text/event-stream", **kept}


class ReplayTransport(httpx.AsyncBaseTransport):
    """Answers requests with recordings, whatever is asked: `httpx.AsyncClient(transport=ReplayTransport(...))`.

    Args:
        source: a recording, the path of one, or several of them: one for each request, in this order.
        speed, cuts: as in `paced`.
        faults: nothing yet.

    Attributes:
        requests: the requests that came, bodies read.

    Raises:
        ConfigError: an argument can't be used; or, when it happens, there are more requests than recordings.
    """

    def __init__(
        self,
        source: Recording | str | os.PathLike[str] | Sequence[Recording | str | os.PathLike[str]],
        *,
        speed: Speed = "instant",
        cuts: str = "recorded",
        faults: Sequence[Any] = (),
    ) -> None:
        if faults:
            raise ConfigError(f"faults can't be injected yet: leave them out, instead of {faults!r}")
        several = [source] if isinstance(source, Recording | str | os.PathLike) else list(source)
        if not several:
            raise ConfigError("no recording was given: there is nothing to answer with")
        recordings = [item if isinstance(item, Recording) else Recording.load(item) for item in several]
        self._answers = [(recording, paced(recording, cuts, speed)) for recording in recordings]
        self._bodies: list[_Body] = []
        self.requests: list[httpx.Request] = []

    @property
    def open_streams(self) -> int:
        """How many of the answers have not been closed yet."""
        return sum(not body.closed for body in self._bodies)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The next recording as an answer. Raises ConfigError when there is none left."""
        await request.aread()
        self.requests.append(request)
        number, there_are = len(self.requests), len(self._answers)
        if number > there_are:
            given = ", ".join(recording.name for recording, _ in self._answers)
            raise ConfigError(f"request {number} ({request.method} {request.url}) has no recording: given were {given}")
        recording, steps = self._answers[number - 1]
        body = _Body(steps, broken=recording.broken)
        self._bodies.append(body)
        return httpx.Response(recording.status, headers=answer_headers(recording), stream=body, request=request)


class _Body(httpx.AsyncByteStream):
    """The bytes of one answer. Not a generator: trio complains of one that is dropped half-way."""

    def __init__(self, steps: Sequence[tuple[float, bytes]], *, broken: bool) -> None:
        self._steps = iter(steps)
        self._broken = broken
        self._waiting: anyio.CancelScope | None = None
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        delay, piece = next(self._steps, (0.0, b""))
        if not self.closed:
            with anyio.CancelScope() as self._waiting:
                await anyio.sleep(delay)  # also for no time at all: a network would let others run here
        if self.closed:
            raise httpx.ReadError("the answer was closed while it was being read")
        if piece:
            return piece
        if self._broken:  # in httpx's own words
            raise httpx.RemoteProtocolError(
                "peer closed connection without sending complete message body (incomplete chunked read)"
            )
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True
        if self._waiting is not None:  # whoever waits for the next piece learns of it now, as on a socket
            self._waiting.cancel()
