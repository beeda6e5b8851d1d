"""Closes connections that are given up while they are being opened.

httpcore closes a connection whose request fails, but not if the task is cancelled between the moment at which TCP is
there and the one at which the request is sent, TLS handshake included. Such a connection stays open, in its pool or
outside of it, for as long as the client lives. Over HTTP/2 it stays in use with a half-initialised count of its streams
(httpcore 1.0.9), and every later request on it fails. httpcore reports each step to a callback, so that the connection
can be closed here. Another request that waits for it then loses it before the first byte, and is tried again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_USED = "send_request_headers.started"  # from here on httpcore closes it, or over HTTP/2 the stream


class Handshake:
    """The connection that is opened for a request, until the request is sent on it."""

    def __init__(self, extensions: Any) -> None:
        self._stream: Any = None
        self._extensions = extensions
        self._extensions["trace"] = self._trace

    def end(self) -> None:
        """Must be called when the head of the response has come, or has failed."""
        if self._extensions.get("trace") == self._trace:  # the steps behind it are none of ours
            del self._extensions["trace"]

    async def aclose(self) -> None:
        """Closes the connection if it was opened and never used."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # then it is closed too
                await stream.aclose()

    async def _trace(self, step: str, info: dict[str, Any]) -> None:
        if step.endswith(_OPENED):
            self._stream = info["return_value"]
        elif step.endswith(_USED):
            self._stream = None  # another one is opened if this one turns out to be unusable (`silence.py`)
