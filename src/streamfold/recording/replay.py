"""Plays recordings to httpx as if a server sent them.

A replayed answer takes the same path as a live one, through httpx and everything above it, without a network or a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterable

import anyio
import httpx

from ..faults import Ending, Fault
from ..values import ConfigError
from .files import Speed
from .request_matching import RecordedRequest
from .store import Match, RecordingSelector, ReplayedResponse, Source


class ReplayTransport(httpx.AsyncBaseTransport):
    """Answers requests with recordings: `httpx.AsyncClient(transport=ReplayTransport(...))`.

    Args:
        source: a recording, the path of one (and of what followed it in the same conversation), a folder, or a list.
        speed, cuts: as in `paced`.
        faults: what goes wrong, of `testing.faults`. A request that is sent again because a fault broke its answer
            off gets the same recording again.
        match: "order": each recording once, in their order, for the request that was recorded with it, or for any
            request if none was. "request": each for its request, whenever and as often as that comes. "any": in their
            order, whatever is asked.
        ignore: regular expressions. Text in a request that matches one may differ from the recorded request, as
            `r"\\d{4}-\\d\\d-\\d\\d"` for a date in the prompt.

    Attributes:
        requests: the requests that came, bodies read.

    Raises:
        ConfigError: an argument can't be used; or, when it happens, there are more requests than recordings.
        ReplayMismatch: when it happens, a request is not the one that was recorded.
    """

    def __init__(
        self,
        source: Source,
        *,
        speed: Speed = "instant",
        cuts: str = "recorded",
        faults: Iterable[Fault] = (),
        match: Match = "order",
        ignore: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        self._store = RecordingSelector(source, speed=speed, cuts=cuts, faults=faults, match=match, ignore=ignore)
        self._bodies: list[_Body] = []
        self.requests: list[httpx.Request] = []

    @property
    def open_streams(self) -> int:
        """The number of answers that have not been closed yet."""
        return sum(not body.closed for body in self._bodies)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers with a recording. Raises ConfigError if none is left, ReplayMismatch if none fits."""
        await request.aread()
        self.requests.append(request)
        answer = self._store.answer(RecordedRequest.of(request))
        if answer is None:
            given = ", ".join(recording.name for recording in self._store.recordings)
            number = len(self.requests)
            raise ConfigError(f"request {number} ({request.method} {request.url}) has no recording: given were {given}")
        if answer.delay:
            await pause(answer.delay)
        if answer.status is None:
            raise hung_up()
        body = _Body(answer)
        self._bodies.append(body)
        return httpx.Response(answer.status, headers=dict(answer.headers), stream=body, request=request)


class _Body(httpx.AsyncByteStream):
    """The bytes of one answer. Not a generator: trio complains of one that is dropped half-way."""

    def __init__(self, answer: ReplayedResponse) -> None:
        self._answer = answer
        self._ending: Ending | None = None
        self._waiting: anyio.CancelScope | None = None
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._ending:
            step = next(self._answer.steps)
            if not self.closed:
                with anyio.CancelScope() as self._waiting:
                    await pause(step.delay)
            if self.closed:
                raise httpx.ReadError("the answer was closed while it was being read")
            self._ending = step.ending
            if step.data:
                return step.data
        if self._ending != "end":
            raise broken_off(self._ending)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True
        self._answer.broken = self._answer.broken or self._ending is None
        if self._waiting is not None:  # wakes the task that waits for the next piece, as on a socket
            self._waiting.cancel()


async def pause(seconds: float) -> None:
    """Sleeps; for ever if `seconds` is infinite. Zero seconds let other tasks run, as a network would."""
    if seconds == math.inf:
        await anyio.sleep_forever()
    await anyio.sleep(seconds)


def hung_up() -> httpx.HTTPError:
    """Returns the exception that httpx raises where a connection is closed before the response."""
    return httpx.RemoteProtocolError("Server disconnected without sending a response.")


def broken_off(ending: Ending) -> httpx.HTTPError:
    """Returns the exception that httpx raises where a body ends in this way."""
    if ending == "reset":
        return httpx.ReadError("connection reset by peer")
    return httpx.RemoteProtocolError(
        "peer closed connection without sending complete message body (incomplete chunked read)"
    )
