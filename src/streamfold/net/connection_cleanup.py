"""Closes connections that are given up while they are being opened.

httpcore (1.0.9) closes a connection whose request fails, but not in these cases. It reports each step to a callback, so
that they can be handled here.

- A task is cancelled between the moment at which TCP is there and the one at which the request is sent, TLS handshake
  included. The connection stays open, in its pool or outside of it, for as long as the client lives. Over HTTP/2 it
  stays in use with a half-initialised count of its streams, and every later request on it fails. It is closed here.
  Another request that waits for it then loses it before the first byte, and is tried again.
- Several requests wait for one connection to be opened, which may become one of HTTP/2, and one of them is cancelled.
  The pool forgets the connection; the others open and use it all the same, and then nothing ever closes it. So whoever
  would send on such a connection says that it isn't available, and gets another one from the pool.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import anyio
import httpx

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_USED = "send_request_headers.started"  # from here on httpcore closes it, or over HTTP/2 the stream

# How many requests of a client were given up before they were sent.
_given_up: WeakKeyDictionary[httpx.AsyncClient, int] = WeakKeyDictionary()


class ConnectCleanup:
    """The connection that is opened for a request, until the request is sent on it."""

    def __init__(self, client: httpx.AsyncClient, extensions: Any) -> None:
        self._client = client
        self._given_up = _given_up.get(client, 0)
        self._is_sent = False
        self._stream: Any = None
        self._forgotten: list[Any] = []  # connections that may have no pool
        self._extensions = extensions
        self._extensions["trace"] = self._trace

    def end(self, response: httpx.Response | None) -> None:
        """Must be called when the head of the response has come, or has failed (None)."""
        if self._extensions.get("trace") == self._trace:  # the steps behind it are none of ours
            del self._extensions["trace"]
        if not self._is_sent:
            _given_up[self._client] = _given_up.get(self._client, 0) + 1
        if response is not None:  # its connection wasn't forgotten after all
            used = response.extensions.get("network_stream")
            self._forgotten = [stream for stream in self._forgotten if stream is not used]

    def is_clean(self) -> bool:
        """Whether there is nothing to close."""
        return self._stream is None and not self._forgotten

    async def aclose(self) -> None:
        """Closes connections that were opened and never used."""
        streams = [*self._forgotten, self._stream] if self._stream is not None else self._forgotten
        self._stream, self._forgotten = None, []
        for stream in streams:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # then it is closed too
                await stream.aclose()

    async def _trace(self, step: str, info: dict[str, Any]) -> None:
        if step.endswith(_OPENED):
            self._stream = info["return_value"]
        elif step.endswith(_USED):
            if step.startswith("http2."):
                self._check()
            self._is_sent, self._stream = True, None

    def _check(self) -> None:
        """Refuses a connection that its pool may have forgotten, because another request was given up meanwhile."""
        given_up = _given_up.get(self._client, 0)
        if given_up == self._given_up:
            return
        self._given_up = given_up
        if self._stream is not None:
            self._forgotten.append(self._stream)
            self._stream = None
        from httpcore import ConnectionNotAvailable

        raise ConnectionNotAvailable
