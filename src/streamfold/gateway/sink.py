"""The response to one request: JSON, or a stream of events that starts with its first bytes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any, Protocol

import anyio

from ..adapters.emitting import json_text
from ..net import Interrupted, waits
from .bodies import ClientGone

Send = Callable[[Any], Awaitable[None]]

_UNFIT = re.compile(r"[^ -~]")
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",  # a proxy that compresses a stream also holds it back
    "x-accel-buffering": "no",
}


class _Patience:
    """How long one `send` may wait: the deadline of `Waits`."""

    ends = inf

    def due(self) -> float:
        return self.ends


@contextmanager
def guarded(send: Send, seconds: float) -> Iterator[Send]:
    """Gives a `send` that raises ClientGone for a client that has left, or does not read for so many seconds.

    Nearly every `send` is done at once: only one that waits needs a clock.
    """
    patience = _Patience()
    bounded = waits(patience)

    async def guarded_send(message: Any) -> None:
        patience.ends = bounded.now() + seconds
        try:
            await bounded.wait(send(message))
        except (OSError, Interrupted) as exc:
            raise ClientGone from exc

    try:
        yield guarded_send
    finally:
        bounded.close()


async def send_json(send: Send, status: int, body: Any, headers: Mapping[str, str]) -> None:
    """Sends a response with a JSON body."""
    data = json_text(body).encode()
    head = {"content-type": "application/json", "content-length": str(len(data)), "cache-control": "no-store"}
    await send({"type": "http.response.start", "status": status, "headers": _encoded({**head, **headers})})
    await send({"type": "http.response.body", "body": data, "more_body": False})


class Sink(Protocol):
    """Where the events of an answer go.

    Attributes:
        ended: whether nothing more can be written.
    """

    ended: bool

    @property
    def started(self) -> bool:
        """Whether something has been written, so that the request can't be refused any more."""
        ...

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends events."""
        ...

    async def keep_alive(self) -> None:
        """Says now and then that the answer is still being made."""
        ...


class EventSink:
    """Sends the events of an answer.

    Until something is written there is no status, so that a request may still be refused with one.

    Args:
        headers: further headers.
        keepalive: seconds of silence after which `sign` is sent; 0: never.
        sign: what tells the client, and the proxies on the way, that the answer is still being made.

    Attributes:
        started: whether the response has started.
        ended: whether it has ended.
    """

    def __init__(self, send: Send, headers: Mapping[str, str], keepalive: float, sign: bytes) -> None:
        self._send = send
        self._headers = {**_HEADERS, **headers}
        self._keepalive = keepalive
        self._sign = sign
        self._lock = anyio.Lock(fast_acquire=True)  # taken for every event, and hardly ever by two
        self._last = anyio.current_time()
        self.started = False
        self.ended = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends bytes; the head of the response goes before the first ones."""
        async with self._lock:
            if self.ended:
                return
            if not self.started:
                self.started = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _encoded(self._headers)})
            self.ended = last
            await self._send({"type": "http.response.body", "body": data, "more_body": not last})
            self._last = anyio.current_time()

    async def keep_alive(self) -> None:
        """Sends the sign after each silence. Runs until it is cancelled or the client has left."""
        while self._keepalive and not self.ended:
            quiet_until = self._last + self._keepalive
            if anyio.current_time() < quiet_until:
                await anyio.sleep_until(quiet_until)
                continue
            try:
                await self.write(self._sign)
            except ClientGone:
                return  # the task that writes the answer learns of it with its next piece, or from the server


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers in ASGI's form; characters that a header can't carry are replaced."""
    return [
        (name.encode("latin-1"), _UNFIT.sub("?", " ".join(text.split())).encode()) for name, text in headers.items()
    ]
