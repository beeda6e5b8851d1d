"""aiohttp below httpx: its connections and its parser, which is written in C, for the clients that providers make.

Everything else speaks httpx, so this is the only module that knows both. It sends what httpx would send, byte by byte,
and raises httpx's exceptions. httpx-aiohttp does the same for any program; it costs a generator and a second buffer for
each piece of a body, calls every lost connection a `ConnectTimeout`, and rewrites the escapes of URLs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Self
from weakref import finalize

import aiohttp
import httpx
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from .failures import caused_by
from .pool import KEPT
from .urls import sent_url

__all__ = ["aiohttp_transport"]

_PIECE = 2**18  # bytes of a request that are handed to aiohttp at once
_ONE_WRITE = 2**15  # a request of up to so many bytes is written whole or not at all
_HEAD = 100 * 1024  # bytes of a header, as httpcore accepts them
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # headers that aiohttp would add

# Those further down are also exceptions of those further up: the last one that fits counts.
_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (aiohttp.ClientError, httpx.ReadError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (HttpProcessingError, httpx.RemoteProtocolError),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (TimeoutError, httpx.ConnectTimeout),  # the only timeout that aiohttp is given
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ClientProxyConnectionError, httpx.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
)


def aiohttp_transport(*, verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
    """Returns a transport that sends with aiohttp, with as many connections as there are streams at once.

    Args:
        verify: the TLS settings.
        proxy: URL of an HTTP proxy for all requests.
    """
    verify.set_alpn_protocols(["http/1.1"])  # as httpcore does: some servers want it
    return _Transport(verify, proxy)


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, verify: ssl.SSLContext, proxy: str | None) -> None:
        self._verify = verify
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        await _notice_closed_connections()
        try:
            try:
                response = await self._send(request, body)
            except aiohttp.ClientOSError as exc:
                if len(body) > _ONE_WRITE or not caused_by(exc, aiohttp.ClientConnectionResetError):
                    raise
                # An unused connection was closed when it was about to be used: nothing was sent.
                response = await self._send(request, body)
        except Exception as exc:
            raise _mapped(exc) from exc
        # Without the reason phrase: see `_Tidy`.
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(response))

    async def _send(self, request: httpx.Request, body: bytes) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw)
        return await session.request(
            request.method,
            URL(sent_url(request.url), encoded=True),
            headers=CIMultiDict(headers),
            data=_Pieces(body) if len(body) > _PIECE else body or None,
            allow_redirects=False,
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(total=None, connect=request.extensions["timeout"]["connect"]),
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """Makes the session on the event loop that it belongs to."""
        connector = aiohttp.TCPConnector(
            limit=0, ssl=self._verify, keepalive_timeout=KEPT, resolver=aiohttp.ThreadedResolver()
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=_Response,
            skip_auto_headers=_AUTOMATIC,
            max_line_size=_HEAD,
            max_field_size=_HEAD,
        )
        finalize(self, _forget, session)
        self._session = session
        return session


def _forget(session: aiohttp.ClientSession) -> None:
    """Lets go of a session that nobody can close any more: aiohttp would log an error, which httpx does not."""
    connector = session.connector
    session.detach()
    if connector is not None:
        connector.__exit__()  # closes it at once; `close` would make a task, for a loop that may never run again


async def _notice_closed_connections() -> None:
    """Lets the event loop see which connections have been closed.

    httpcore looks at a socket before it uses it. aiohttp relies on the event loop, which comes to a closed one after
    the callbacks that are due: too late if the program did not let it run for a while, or if a connection is used again
    in the moment in which its last response has ended, and the server closes it.
    """
    for _ in range(2):
        await asyncio.sleep(0)


class _Response(aiohttp.ClientResponse):
    def _response_eof(self) -> None:
        """Leaves it to `_Body.aclose` to give the connection back to the pool."""


class _Pieces:
    """A large request body in pieces. aiohttp warns of one that comes whole, because it would block the event loop."""

    def __init__(self, body: bytes) -> None:
        self._pieces = iter([body[at : at + _PIECE] for at in range(0, len(body), _PIECE)])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


class _Body(httpx.AsyncByteStream):
    """The body of a response. Each read returns all that has arrived."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self._read = response.content.readany
        self._protocol = None if response.connection is None else response.connection.protocol
        self._closed = None if self._protocol is None else self._protocol.closed
        if self._closed is not None:
            self._closed.add_done_callback(self._lost)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._read()
        except Exception as exc:
            # aiohttp forgets what arrived before the connection broke and was not read yet.
            data = self._content._read_nowait(-1)
            if not data:
                raise _mapped(self._reason(exc)) from exc
        if data:
            return data
        raise StopAsyncIteration

    async def aclose(self) -> None:
        connection = self._response.connection
        if connection is None:
            return  # closed before
        if self._closed is not None:
            self._closed.remove_done_callback(self._lost)
        if self._content.is_eof():
            try:
                await _notice_closed_connections()
            finally:
                self._response.release()
            return
        transport = connection.transport
        self._response.close()
        if transport is not None:
            transport.abort()
            await asyncio.sleep(0)  # in which the socket is closed

    def _lost(self, closed: asyncio.Future[None]) -> None:
        """Ends the wait of a reader when the connection is lost.

        aiohttp (3.14) does not where it closes the connection itself, because of a chunk that breaks HTTP's rules.
        """
        closed.exception()  # else it would be logged
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(self._reason(aiohttp.ClientPayloadError("the connection was closed")))

    def _reason(self, exc: Exception) -> Exception:
        """Returns what went wrong with a connection that is lost; `exc` if that is not known."""
        lost = self._protocol is not None and not self._protocol.connected
        known = self._protocol.exception() if self._protocol is not None and lost else None
        return known if isinstance(known, Exception) else exc


def _mapped(exc: Exception) -> Exception:
    """Returns httpx's exception for one of aiohttp's; any other one as it is."""
    kinds = [kind for of, kind in _ERRORS if isinstance(exc, of)]
    if not kinds:
        return exc
    return kinds[-1](" ".join(str(getattr(exc, "message", exc)).split()))  # without the URL
