"""Where the events of one answer go: an ASGI response that begins with its first bytes, and is never quiet for long."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

__all__ = ["ClientGone", "EventSink", "Send", "encoded", "guarded"]

Send = Callable[[Any], Awaitable[None]]

KEEP_ALIVE = b": keepalive\n\n"  # there are no `id:` lines here: with one, a comment makes an event to some readers

_UNFIT = re.compile(r"[^ -~]")
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",  # nobody on the way is to compress it, and so hold it back
    "x-accel-buffering": "no",
}


class ClientGone(Exception):
    """There is nobody left to send to."""


def guarded(send: Send) -> Send:
    """A `send` that raises ClientGone where the server raises an OSError for it; others are silent, or cancel."""

    async def guarded_send(message: Any) -> None:
        try:
            await send(message)
        except OSError as exc:
            raise ClientGone from exc

    return guarded_send


class EventSink:
    """Sends the events of an answer.

    Until something is written there is no status, so that a request may still be refused with one.

    Args:
        headers: further headers.
        every: seconds of silence after which a comment is sent; None: never.

    Attributes:
        started: whether the answer has begun.
        ended: whether it has ended.
    """

    def __init__(self, send: Send, headers: Mapping[str, str], every: float | None) -> None:
        self._send = send
        self._headers = {**_HEADERS, **headers}
        self._every = every
        self._lock = anyio.Lock(fast_acquire=True)  # taken for every event, and hardly ever by two
        self._last = anyio.current_time()
        self.started = False
        self.ended = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends bytes; the first ones after the head of the answer."""
        async with self._lock:
            if self.ended:
                return
            if not self.started:
                self.started = True
                await self._send({"type": "http.response.start", "status": 200, "headers": encoded(self._headers)})
            self.ended = last
            await self._send({"type": "http.response.body", "body": data, "more_body": not last})
            self._last = anyio.current_time()

    async def keep_alive(self) -> None:
        """Sends a comment whenever it has been quiet for long. Runs until it is cancelled, or nobody listens."""
        while self._every and not self.ended:
            quiet_until = self._last + self._every
            if anyio.current_time() < quiet_until:
                await anyio.sleep_until(quiet_until)
                continue
            try:
                await self.write(KEEP_ALIVE)
            except ClientGone:
                return  # who reads the answer learns of it with the next piece, or from the server


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI wants them; what a header can't carry is replaced."""
    return [
        (name.encode("latin-1"), _UNFIT.sub("?", " ".join(text.split())).encode()) for name, text in headers.items()
    ]
