"""Sends httpx requests with aiohttp, whose HTTP parser is written in C.

The transport sends the same bytes as httpx, and raises httpx's exceptions. The package httpx-aiohttp isn't used,
because it reports every lost connection as `ConnectTimeout` and rewrites percent-encoded characters in URLs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any
from weakref import finalize

import aiohttp
import httpx
from yarl import URL

from .connection_reuse import KEEPALIVE_EXPIRY, MalformedHead, ResponseFraming, has_decrypted, is_readable
from .httpx_transport import Pieces, sent_url
from .transport_errors import MalformedResponse, has_cause

_PIECE = 2**18  # bytes per write: aiohttp warns about larger writes, which block the event loop
_ONE_WRITE = 2**15  # bytes: a request up to this size is written completely or not at all
_HEAD = 100 * 1024  # bytes of a header, as in httpcore
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # headers that aiohttp would add

# The last class that matches counts: later classes are subclasses of earlier ones.
_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (aiohttp.ClientError, httpx.ReadError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, MalformedResponse),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (TimeoutError, httpx.ConnectTimeout),  # aiohttp has no other timeout
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ClientProxyConnectionError, httpx.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
)


def aiohttp_transport(*, verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
    """Returns an httpx transport that sends requests with aiohttp. The number of connections isn't limited.

    Args:
        verify: the TLS context for all connections.
        proxy: URL of an HTTP proxy for all requests.
    """
    verify.set_alpn_protocols(["http/1.1"])  # as in httpcore: some servers require ALPN
    return _Transport(verify, proxy)


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, verify: ssl.SSLContext, proxy: str | None) -> None:
        self._verify = verify
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        await asyncio.sleep(0)  # often enough to notice that the server has closed the idle connection
        try:
            try:
                response = await self._send(request, body)
            except aiohttp.ClientOSError as exc:
                if len(body) > _ONE_WRITE or not has_cause(exc, aiohttp.ClientConnectionResetError):
                    raise
                # An idle connection was closed when it was about to be used: nothing was sent.
                response = await self._send(request, body)
        except httpx.TransportError:
            raise
        except Exception as exc:
            raise _mapped(exc) from exc
        if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
            response.close()
            raise MalformedResponse("the server switches to another protocol, which was not requested")
        connection = response.connection  # None if the response is complete
        extensions = {} if connection is None else {"streamfold.connection": connection.transport}
        return httpx.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response), extensions=extensions
        )

    async def _send(self, request: httpx.Request, body: bytes) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        return await session.request(
            request.method,
            URL(sent_url(request.url), encoded=True),
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
            data=Pieces(body, _PIECE) if len(body) > _PIECE else body or None,
            allow_redirects=False,
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(total=None, connect=request.extensions["timeout"]["connect"]),
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        connector = _Connector(
            limit=0, ssl=self._verify, keepalive_timeout=KEEPALIVE_EXPIRY, resolver=aiohttp.ThreadedResolver()
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC,
            max_line_size=_HEAD,
            max_field_size=_HEAD,
        )
        finalize(self, _forget, session)
        self._session = session
        return session


def _forget(session: aiohttp.ClientSession) -> None:
    """Closes the connections of a garbage-collected session, before aiohttp closes them and logs an error."""
    connector = session.connector
    session.detach()
    if connector is not None:
        connector.__exit__()  # closes it at once; `close` would make a task, for a loop that may never run again


class _Connector(aiohttp.TCPConnector):
    """Reuses a connection only if no bytes have arrived on it since the last response. Each connection has a
    `_GuardedProtocol`.
    """

    async def connect(self, *args: Any, **options: Any) -> Any:
        while True:
            connection = await super().connect(*args, **options)
            transport, protocol = connection.transport, connection.protocol
            if transport is None or protocol is None:
                return connection  # new, but already closed: writing the request fails
            guard = transport.get_protocol()
            if not isinstance(guard, _GuardedProtocol):
                guard = _GuardedProtocol(transport, protocol)
                transport.set_protocol(guard)
            elif not guard.is_silent():
                connection.close()
                continue
            guard.begin(connection)
            return connection


class _GuardedProtocol(asyncio.Protocol):
    """Passes the bytes of each response to aiohttp's parser, and closes a connection on which other bytes arrive.

    aiohttp ignores bytes that arrive while a connection is idle. If bytes follow the end of a response, aiohttp either
    drops the response or treats these bytes as the next response.
    """

    def __init__(self, transport: asyncio.Transport, protocol: Any) -> None:
        self.reader: _Body | None = None
        self._transport = transport
        self._protocol = protocol
        self._framing = ResponseFraming()
        self._unused = True

    def is_silent(self) -> bool:
        tls = self._transport.get_extra_info("ssl_object")
        return not (tls and has_decrypted(tls)) and not is_readable(self._transport.get_extra_info("socket"))

    def begin(self, connection: Any) -> None:
        self._unused = False
        self._framing.begin()
        connection.add_callback(self._released)

    def _released(self) -> None:
        self.reader, self._unused = None, True
        if self._framing.surplus or not self._framing.ended:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            for piece in self._framing.feed(data):
                self._protocol.data_received(piece)
        except MalformedHead as exc:
            self._protocol.set_exception(MalformedResponse(str(exc)))
            self._transport.close()
        if self._unused and self._framing.surplus:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)
        if self.reader is not None:
            self.reader.lost()

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        connection = response.connection
        self._protocol = None if connection is None else connection.protocol
        if connection is not None:
            guard = None if connection.transport is None else connection.transport.get_protocol()
            if isinstance(guard, _GuardedProtocol):
                guard.reader = self
            else:
                self.lost()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._content.readany()
        except Exception as exc:
            data = self._content._read_nowait(-1)  # data before the error: aiohttp's public methods raise the error
            if not data:
                mapped = _mapped(self._reason(exc))
                if mapped is exc:
                    raise
                raise mapped from exc
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        connection = self._response.connection
        if connection is None:
            return  # the connection was released or closed
        transport = connection.transport
        self._response.close()
        if transport is not None:
            transport.abort()
            await asyncio.sleep(0)  # the event loop closes the socket

    def lost(self) -> None:
        """Wakes a waiting reader with an error. aiohttp 3.14 doesn't wake the reader if it closes the connection
        because of an invalid chunk.
        """
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(self._reason(aiohttp.ClientPayloadError("the connection was closed")))

    def _reason(self, exc: Exception) -> Exception:
        lost = self._protocol is not None and not self._protocol.connected
        known = self._protocol.exception() if self._protocol is not None and lost else None
        return known if isinstance(known, Exception) else exc


def _mapped(exc: Exception) -> Exception:
    kinds = [kind for of, kind in _ERRORS if isinstance(exc, of)]
    if not kinds and type(exc).__module__.partition(".")[0] == "aiohttp":  # exceptions of aiohttp's private parser
        kinds = [MalformedResponse]
    if not kinds:
        return exc
    message = getattr(exc, "message", exc)  # `exc.message` doesn't contain the URL
    return kinds[-1](" ".join(str(message).split()))
