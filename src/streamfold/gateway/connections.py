"""The gateway's end of HTTP connections: how many there may be, and how long each may wait for a request.

uvicorn has no clock on the head of a request and no bound on connections, so that a thousand clients that send half a
head and wait would keep everybody else out. Its protocol is the one of httptools where that is installed, else of h11.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.flow_control import service_unavailable

from .watching import DEPARTURE, Departure

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as _Protocol

_IDLE = 1.0  # seconds after which a connection without a request makes room for others
_LONGEST_HEAD = 65_536  # bytes, as h11 has it


class _BoundedProtocol(_Protocol):
    """A connection that is closed when its next request does not arrive in time.

    When there are too many of them, idle ones make room. If there are none, requests are refused with a reason: a
    connection that is just closed would tell its client nothing.

    Attributes:
        busy: the app that refuses them.
        most: connections, with those that are only told so.
        waiting: the connections without a request, those that have waited longest first, and since when they do.
    """

    head_timeout: ClassVar[float]
    max_connections: ClassVar[int]
    most: ClassVar[int]
    busy: ClassVar[Any]
    waiting: ClassVar[dict[_BoundedProtocol, float]]

    _clock: asyncio.TimerHandle | None = None
    _head = 0  # bytes of a head that is not complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._departure = Departure()
        self._watch()
        self._make_room()
        if len(self.connections) > self.most:
            next(iter(self.waiting), self)._abort()

    def data_received(self, data: bytes) -> None:
        if len(self.connections) > self.max_connections:
            self.app = self.busy
        super().data_received(data)
        self._head += len(data)
        self._watch()
        cycle: Any = self.cycle
        if cycle is not None:
            cycle.scope.setdefault("extensions", {DEPARTURE: self._departure})
        if self in self.waiting:
            self._make_room()
            rest = cycle is not None and cycle.more_body  # of a body that was refused: it is dropped as it comes
            if self._head > _LONGEST_HEAD and not rest and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def _make_room(self) -> None:
        """Closes connections without a request: those that have been idle for a while, or have begun a head."""
        if len(self.connections) > self.max_connections:
            idle = monotonic() - _IDLE
            for each in [each for each, since in self.waiting.items() if since <= idle or each._head]:
                each._abort()
                if len(self.connections) <= self.max_connections:
                    break

    def _abort(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)  # uvicorn does it too, but only after others may have come
        self.transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        self._departure.happened()

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: the app tells the client that there are no WebSockets."""

    def _watch(self) -> None:
        """Starts the clock when a request is awaited, and stops it when one has begun."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
            self._head = 0
        elif self._clock is None and not self.transport.is_closing():
            self.waiting[self] = monotonic()
            self._clock = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def bounded_protocol(
    *, head_timeout: float, max_connections: int, most: int | None = None, busy: Any = service_unavailable
) -> type[_BoundedProtocol]:
    """Returns a protocol for uvicorn's `http=`, with the connections of one server."""
    bounds = {"head_timeout": head_timeout, "max_connections": max_connections, "waiting": {}}
    refusing = {"most": 2 * max_connections if most is None else most, "busy": staticmethod(busy)}
    return type("BoundedProtocol", (_BoundedProtocol,), {**bounds, **refusing})


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
