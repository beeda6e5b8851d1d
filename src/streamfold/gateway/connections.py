"""The gateway's end of HTTP connections: how many there may be, and how long each may wait for a request.

uvicorn has no clock on the head of a request and no bound on connections, so that a thousand clients that send half a
head and wait would keep everybody else out.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["bounded_protocol", "connections_for"]


class _BoundedProtocol(H11Protocol):
    """A connection that is closed when its next request does not arrive in time.

    Attributes:
        waiting: the connections without a request, those that have waited longest first, and since when they do.
    """

    head_timeout: ClassVar[float]
    max_connections: ClassVar[int]
    waiting: ClassVar[dict[_BoundedProtocol, float]]

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.max_connections:
            oldest = next(iter(self.waiting), self)
            oldest._stop_waiting()
            self.connections.discard(oldest)  # uvicorn does it too, but only after others may have come
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: the app tells the client that there are no WebSockets."""

    def _watch(self) -> None:
        """Starts the clock when a request is awaited, and stops it when one has begun."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
        elif self._clock is None and not self.transport.is_closing():
            self.waiting[self] = monotonic()
            self._clock = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def bounded_protocol(*, head_timeout: float, max_connections: int) -> type[_BoundedProtocol]:
    """Returns a protocol for uvicorn's `http=`, with the connections of one server."""
    bounds: dict[str, Any] = {"head_timeout": head_timeout, "max_connections": max_connections, "waiting": {}}
    return type("BoundedProtocol", (_BoundedProtocol,), bounds)


def connections_for(wanted: int, requests: int) -> int:
    """Returns how many client connections fit into the files that the process may open, at most `wanted`.

    Each running request needs a connection to its provider too.
    """
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return wanted
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(files - requests - 64, files // 2, 1))
