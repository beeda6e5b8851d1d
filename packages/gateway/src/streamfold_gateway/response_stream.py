"""The response to one client: JSON or server-sent events, keep-alive, send timeout, disconnect."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

import anyio

from streamfold.serving import json_text

from .request_body import ClientGone, Receive

Send = Callable[[Any], Awaitable[None]]

_UNFIT = re.compile(r"[^ -~]")
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",  # a proxy that compresses a stream also holds it back
    "x-accel-buffering": "no",
}


class GuardedSend:
    """A `send` that raises ClientGone if the client has left, or reads nothing for `seconds`."""

    __slots__ = ("_send", "seconds")

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self.seconds = seconds

    async def __call__(self, message: Any) -> None:
        """Sends a message."""
        try:
            # In the server's task for this request. A cancellation that is left over if the server cancels it at the
            # same moment ends no more than that request, whose client can't be reached any more.
            with anyio.fail_after(self.seconds):
                await self._send(message)
        except OSError as exc:  # TimeoutError is one
            raise ClientGone from exc

    async def untimed(self, message: Any) -> None:
        """Sends a message without a timeout, for callers that have a `DisconnectWatcher`."""
        try:
            await self._send(message)
        except OSError as exc:
            raise ClientGone from exc


async def send_json(send: Send, status: int, body: Any, headers: Mapping[str, str]) -> None:
    """Sends a response with a JSON body."""
    data = json_text(body).encode()
    head = {"content-type": "application/json", "content-length": str(len(data)), "cache-control": "no-store"}
    await send({"type": "http.response.start", "status": status, "headers": _encoded({**head, **headers})})
    await send({"type": "http.response.body", "body": data, "more_body": False})


class Sink(Protocol):
    """The output for the events of an answer.

    Attributes:
        ended: whether nothing more can be written.
    """

    ended: bool

    @property
    def started(self) -> bool:
        """True if something has been written, so that the response can't be an error any more."""
        ...

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Writes events."""
        ...

    @property
    def overdue(self) -> bool:
        """True if the client has read nothing for too long."""
        ...

    def rest(self) -> float:
        """Returns the seconds until a keep-alive is due or the client is overdue; infinite: never."""
        ...

    async def send_keepalive(self) -> None:
        """Writes a keep-alive."""
        ...


class SSEResponse:
    """Sends the events of an answer as server-sent events.

    The status is sent with the first bytes, so that until then the response can still be an error.

    Args:
        headers: further headers.
        keepalive: seconds of silence after which `keepalive_bytes` are sent; 0: never.
        keepalive_bytes: what keeps the connection open in clients and proxies.

    Attributes:
        started: whether the response has started.
        ended: whether it has ended.
    """

    __slots__ = (
        "_headers",
        "_keepalive",
        "_keepalive_bytes",
        "_keepalive_sent",
        "_last",
        "_send",
        "_since",
        "ended",
        "started",
    )

    def __init__(self, send: GuardedSend, headers: Mapping[str, str], keepalive: float, keepalive_bytes: bytes) -> None:
        self._send = send
        self._headers = {**_HEADERS, **headers}
        self._keepalive = keepalive
        self._keepalive_bytes = keepalive_bytes
        self._last = monotonic()
        self._since: float | None = (
            None  # when the write that is going on began; a timeout for each write would cost a tenth of an answer
        )
        self._keepalive_sent: anyio.Event | None = None  # set when the keep-alive that is being sent is out
        self.started = False
        self.ended = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends bytes; the head of the response goes before the first ones."""
        if not (data or last):
            return
        if self._keepalive_sent is not None:
            await self._keepalive_sent.wait()
        self._since = monotonic()
        try:
            await self._write(self._send.untimed, data, last)
        finally:
            self._since = None

    async def _write(self, send: Send, data: bytes, last: bool) -> None:
        if self.ended:
            return
        if not self.started:
            self.started = True
            await send({"type": "http.response.start", "status": 200, "headers": _encoded(self._headers)})
        self.ended = last
        await send({"type": "http.response.body", "body": data, "more_body": not last})
        self._last = monotonic()

    @property
    def overdue(self) -> bool:
        """True if a write has waited for the client longer than the send timeout."""
        return self._since is not None and self.rest() <= 0

    def rest(self) -> float:
        """Returns the seconds until the client is `overdue` or a keep-alive is due.

        They are at most the send timeout, because a write may begin at any time.
        """
        if self._since is not None:
            return self._since + self._send.seconds - monotonic()
        if not self._keepalive or self.ended:
            return self._send.seconds
        return min(self._send.seconds, self._last + self._keepalive - monotonic())

    async def send_keepalive(self) -> None:
        """Sends a keep-alive."""
        self._keepalive_sent = anyio.Event()
        try:
            await self._write(self._send, self._keepalive_bytes, False)
        except ClientGone:
            self._keepalive = 0.0  # the next write, or the server, reports it
        finally:
            self._keepalive_sent.set()
            self._keepalive_sent = None


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns headers in ASGI's form; characters that a header can't contain are replaced."""
    return [
        (name.encode("latin-1"), _UNFIT.sub("?", " ".join(text.split())).encode()) for name, text in headers.items()
    ]


async def wait_for_disconnect(receive: Receive, sink: Sink | None = None) -> None:
    """Returns when the client has left or is overdue. Sends keep-alives until then."""
    while True:
        rest = inf if sink is None else sink.rest()
        if sink is not None and rest <= 0:
            if sink.overdue:
                return
            await sink.send_keepalive()
            rest = sink.rest()
        with anyio.CancelScope(deadline=anyio.current_time() + rest):
            while (await receive())["type"] != "http.disconnect":
                pass
            return


class DisconnectWatcher:
    """A block that calls `left` when the client disconnects. No exception but a cancellation may leave it.

    Args:
        receive: waits for the client to leave.
        sink: sends keep-alives; None: none are sent.
        left: called when the client has left.
    """

    __slots__ = ("_left", "_receive", "_sink", "_tasks")

    def __init__(self, receive: Receive, sink: Sink | None, left: Callable[[], None]) -> None:
        self._receive = receive
        self._sink = sink
        self._left = left
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> DisconnectWatcher:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, traceback)

    def end(self, seconds: float = 0.0) -> None:
        """Cancels the block, now or in some seconds."""
        if seconds:
            self._tasks.cancel_scope.deadline = anyio.current_time() + seconds
        else:
            self._tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        await wait_for_disconnect(self._receive, self._sink)
        self._left()
