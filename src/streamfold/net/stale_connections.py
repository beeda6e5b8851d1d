"""Is a connection silent? Only then is it used again: whatever it still sends would be the answer to the next request.

A server, or a proxy before it, may send more than was requested: a second response, a late one, a 408 for a connection
that it wants to close, a chunk too many. RFC 9112, 9.2, forbids to take that for a response. Those bytes may be in four
places: in the parser of the connection's last response, in what its reader has buffered, in TLS, and in the socket.

- httpx and httpx2: `guard_connections` makes a pool of httpcore with a network backend of ours. Its streams see every
  byte (`framing`). Unless nothing is left anywhere, they tell the pool that a connection is readable, so that it is
  closed, and refuse a request, which the pool then sends on another connection.
- aiohttp: `over_aiohttp` gives the parser only what belongs to a response. It closes a connection that has more when
  that arrives, and looks here before one is used again.
- A client that was passed in: `end_unless_silent` looks at httpx's and httpcore's own objects.

HTTP/2 numbers its responses and needs none of this. Where something isn't found, nothing is certain, and the connection
is closed.
"""

from __future__ import annotations

import select
import ssl
from typing import Any

import httpx

from .deadlines import event_loop, shut_down
from .framing import MalformedHead, ResponseFraming

KEEPALIVE_EXPIRY = 5.0  # seconds that an idle connection is kept: httpx's own default


def guard_connections(transport: Any, httpcore: Any, verify: ssl.SSLContext, *, http2: bool, proxy: str | None) -> None:
    """Gives a transport of httpx or httpx2 a pool that uses connections again only if they are silent.

    The pool has no limit, and the options that the transport's own one was made with.

    Args:
        httpcore: the package: httpcore, or httpcore2, whose interface is the same.
    """
    options: dict[str, Any] = {"ssl_context": verify, "http2": http2, "keepalive_expiry": KEEPALIVE_EXPIRY}
    options["max_connections"] = options["max_keepalive_connections"] = None
    pool, begins_with_http = httpcore.AsyncConnectionPool, True
    if proxy is not None:
        url, auth = httpx.Proxy(proxy).url, httpx.Proxy(proxy).raw_auth
        options["proxy_url"] = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target="/")
        options["proxy_auth"] = auth
        begins_with_http = url.scheme in ("http", "https")
        pool = httpcore.AsyncHTTPProxy if begins_with_http else httpcore.AsyncSOCKSProxy
    backend = _Backend(httpcore, begins_with_http=begins_with_http)
    transport._pool = pool(**options, network_backend=backend)  # httpx has no option for the network backend


class _Backend:
    """A network backend as httpcore describes it (`AsyncNetworkBackend`), as far as our pools need one.

    Args:
        begins_with_http: False for a SOCKS proxy. Its connections can be followed behind TLS only; others are not kept.
    """

    def __init__(self, httpcore: Any, *, begins_with_http: bool) -> None:
        self._httpcore = httpcore
        self._begins_with_http = begins_with_http

    async def connect_tcp(self, *args: Any, **options: Any) -> GuardedStream:
        trio = event_loop() is None
        backend = self._httpcore.TrioBackend() if trio else self._httpcore.AnyIOBackend()
        stream = await backend.connect_tcp(*args, **options)
        return GuardedStream(self._httpcore, stream, follows=self._begins_with_http)


class GuardedStream:
    """A connection as httpcore describes it (`AsyncNetworkStream`), which knows whether it is silent.

    Args:
        stream: httpcore's own.
        outside: what a TLS stream runs over.
        follows: whether all that is sent and received is HTTP/1.1.
    """

    def __init__(
        self, httpcore: Any, stream: Any, outside: GuardedStream | None = None, *, follows: bool = True
    ) -> None:
        self._httpcore = httpcore
        self._inner = stream
        self._outside = outside
        self._framing = ResponseFraming() if follows else None
        self._answered = False  # whether anything has arrived since the current request began
        if self._framing is not None:
            self._framing.begin()

    async def read(self, *args: Any, **options: Any) -> bytes:
        data: bytes = await self._inner.read(*args, **options)
        if self._framing is not None:
            self._answered = True
            try:
                self._framing.feed(data)
            except MalformedHead:  # its end isn't known, so the connection won't be used again
                self._framing = None
        return data

    async def write(self, *args: Any, **options: Any) -> None:
        if self._framing is not None and self._answered:  # another request begins
            if not self.is_silent():
                raise self._httpcore.ConnectionNotAvailable  # the pool takes another connection
            self._framing.begin()
            self._answered = False
        await self._inner.write(*args, **options)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> Any:
        stream = await self._inner.start_tls(*args, **options)
        tls = stream.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            return stream
        return GuardedStream(self._httpcore, stream, self)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and (self._framing is None or self._answered):  # httpcore closes idle ones that are
            return not self.is_silent()
        return self._inner.get_extra_info(info)

    def is_silent(self) -> bool:
        """Whether the last response has ended, and nothing is left behind it. Not if that can't be found out."""
        if self._framing is None or self._framing.surplus or not self._framing.ended:
            return False
        try:
            stream = self
            while stream._outside is not None:
                if has_decrypted(stream._inner.get_extra_info("ssl_object")):
                    return False
                stream = stream._outside
            return not (_has_queued(stream._inner) or is_readable(stream._inner.get_extra_info("socket")))
        except AttributeError:
            return False


def end_unless_silent(response: httpx.Response) -> None:
    """Ends the connection of a response whose end was read, unless it is certain that nothing came behind that.

    Must be called before the response is closed: its pool then finds the connection readable and closes it, in the step
    in which another request could have got it.

    There is nothing to do for a response without a connection (in-memory transports), for one of aiohttp, over HTTP/2,
    and where the connection is guarded.
    """
    network = response.extensions.get("network_stream")
    if network is None or isinstance(network, GuardedStream) or not response.http_version.startswith("HTTP/1"):
        return
    socket = network.get_extra_info("socket")  # httpcore itself closes a connection that has none
    if socket is not None and not _is_silent(response, network):
        shut_down(socket)


def _is_silent(response: httpx.Response, network: Any) -> bool:
    """Whether a connection of httpx's own is silent: nothing is left in h11, in TLS, in anyio's stream, in the socket.

    Not if that can't be found out, and not with TLS on trio, where TLS inside of TLS can't be told from a single one.
    """
    try:
        tls = network.get_extra_info("ssl_object")
        if tls is not None and (event_loop() is None or has_decrypted(tls)):
            return False
        stream: Any = response.stream
        # h11 keeps what came behind the response, and nothing public of httpx and httpcore leads there.
        rest, _ = stream._stream._httpcore_stream._stream._connection._h11_state.trailing_data
        return not (rest or _has_queued(network) or is_readable(network.get_extra_info("socket")))
    except AttributeError:
        return False


def _has_queued(network: Any) -> bool:
    """Whether a connection of httpcore has read more than was asked for, which asyncio makes anyio do, but not trio."""
    if event_loop() is None:
        return False
    # Nothing public of anyio tells whether `receive` would return at once.
    return bool(_below_tls(network._stream)._protocol.read_queue)


def _below_tls(stream: Any) -> Any:
    """Returns anyio's stream below TLS; None if there is TLS inside of TLS, where only one can be looked into."""
    below = getattr(stream, "transport_stream", stream)
    return None if hasattr(below, "transport_stream") else below


def is_readable(socket: Any) -> bool:
    """Whether there is something to read from a socket, its end included. True if it is closed, or there is none."""
    if socket is None or (descriptor := socket.fileno()) < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def has_decrypted(tls: ssl.SSLObject) -> bool:
    """Whether there is something to read in TLS that is in the socket no more. Takes it away."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass  # the end, or nothing that could be read
    return True
