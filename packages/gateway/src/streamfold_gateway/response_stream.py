"""Sends the response to one client, as JSON or as server-sent events, sends keep-alives, and detects a client that
disconnects or reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Self

import anyio

from streamfold.serving import SSE_HEADERS, json_text

from .request_body import ClientGone, Receive

Send = Callable[[Any], Awaitable[None]]

_UNFIT = re.compile(r"[^ -~]")
_HEADERS = {**SSE_HEADERS, "content-type": "text/event-stream; charset=utf-8"}


class ResponseStream:
    """The response to one client, as a JSON body or as server-sent events.

    Inside `async with response.while_connected()`, a background task sends keep-alives, and detects when the client
    disconnects or reads nothing.

    Args:
        receive, send: the functions that the ASGI server passes to the app.
        send_timeout: seconds after which a client that reads nothing is treated as disconnected.

    Attributes:
        started: true if the first event has been sent to the client, so that an HTTP error response is no longer
            possible.
        ended: true if the last event has been sent.
        gone: true if the client has disconnected.
    """

    __slots__ = (
        "_grace", "_headers", "_keepalive", "_keepalive_bytes", "_keepalive_sent", "_last", "_receive", "_send",
        "_send_timeout", "_since", "_tasks", "ended", "gone", "started",
    )  # fmt: skip

    def __init__(self, receive: Receive, send: Send, send_timeout: float) -> None:
        self._receive = receive
        self._send = send
        self._send_timeout = send_timeout
        self._headers: Mapping[str, str] | None = None  # the headers of a stream; None for a JSON response
        self._keepalive = 0.0
        self._keepalive_bytes = b""
        self._keepalive_sent: anyio.Event | None = None  # set when the current keep-alive has been sent
        self._last = 0.0  # the time of the last write
        self._since: float | None = None  # when the current write began: a timeout for each write would cost 10 %
        self._grace = 0.0
        self._tasks = anyio.create_task_group()
        self.started = self.ended = self.gone = False

    async def send_json(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        """Sends a complete JSON response. Raises ClientGone if the client has disconnected, or reads nothing."""
        data = json_text(body).encode()
        head = {"content-type": "application/json", "content-length": str(len(data)), "cache-control": "no-store"}
        await self._send_timed(_response_start(status, {**head, **headers}))
        await self._send_timed({"type": "http.response.body", "body": data, "more_body": False})

    def stream_events(self, headers: Mapping[str, str], keepalive: float, keepalive_bytes: bytes) -> None:
        """Prepares a stream of server-sent events. The first `write` sends the HTTP status; before that, an HTTP error
        response is still possible.

        Args:
            headers: additional HTTP headers.
            keepalive: seconds of silence after which `keepalive_bytes` are sent; 0: never.
            keepalive_bytes: the bytes to send as a keep-alive.
        """
        self._headers = {**_HEADERS, **headers}
        self._keepalive, self._keepalive_bytes = keepalive, keepalive_bytes
        self._last = monotonic()

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Sends events to the client. Must be called inside `while_connected`. Raises ClientGone if the client has
        disconnected.
        """
        if not (data or last):
            return
        if self._keepalive_sent is not None:
            await self._keepalive_sent.wait()
        self._since = monotonic()
        try:
            await self._write(self._send, data, last)
        except OSError as exc:
            raise ClientGone from exc
        finally:
            self._since = None

    def while_connected(self, grace: float = 0.0) -> Self:
        """Returns an async context manager. When the client disconnects, the context manager cancels its block and
        raises ClientGone.

        Args:
            grace: seconds for which the block continues after the client has disconnected.
        """
        self._grace = grace
        return self

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        if error is None or isinstance(error, Exception):
            await self._tasks.__aexit__(None, None, None)  # None, because the task group would wrap the error
            if error is not None and self.gone:
                raise ClientGone from error
        elif await self._tasks.__aexit__(kind, error, traceback):
            raise ClientGone

    def leave(self) -> None:
        """Records that the client has disconnected. Cancels the block of `while_connected`, after `grace` seconds if
        `grace` isn't 0.
        """
        if not self.gone:
            self.gone = True
            if self._grace:
                self._tasks.cancel_scope.deadline = anyio.current_time() + self._grace
            else:
                self._tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Sends keep-alives until the client disconnects or reads nothing, then calls `leave`."""
        while True:
            rest = self._rest()
            if rest <= 0:
                if self._since is not None:
                    break
                await self._send_keepalive()
                rest = self._rest()
            with anyio.CancelScope(deadline=anyio.current_time() + rest):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
                break
        self.leave()

    def _rest(self) -> float:
        if self._headers is None:
            return inf
        if self._since is not None:
            return self._since + self._send_timeout - monotonic()
        if not self._keepalive or self.ended:
            return self._send_timeout
        return min(self._send_timeout, self._last + self._keepalive - monotonic())

    async def _send_keepalive(self) -> None:
        self._keepalive_sent = anyio.Event()
        try:
            await self._write(self._send_timed, self._keepalive_bytes, False)
        except ClientGone:
            self._keepalive = 0.0  # the next write or the server reports the error
        finally:
            self._keepalive_sent.set()
            self._keepalive_sent = None

    async def _write(self, send: Send, data: bytes, last: bool) -> None:
        if self.ended:
            return
        if not self.started:
            self.started = True
            await send(_response_start(200, self._headers or {}))
        self.ended = last
        await send({"type": "http.response.body", "body": data, "more_body": not last})
        self._last = monotonic()

    async def _send_timed(self, message: Any) -> None:
        try:
            # In the server's task for this request. A cancellation that is left over if the server cancels it at the
            # same moment ends no more than that request, whose client can't be reached any more.
            with anyio.fail_after(self._send_timeout):
                await self._send(message)
        except OSError as exc:  # TimeoutError is an OSError
            raise ClientGone from exc


def _response_start(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """Returns the ASGI message that starts a response. Replaces characters that HTTP doesn't allow in a header."""
    fields = [
        (name.encode("latin-1"), _UNFIT.sub("?", " ".join(text.split())).encode()) for name, text in headers.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": fields}
