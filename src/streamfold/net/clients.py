"""The HTTP clients that providers make for themselves: httpx over its own transport, over httpx2, or over aiohttp."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from time import monotonic
from typing import Self
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx

from ..values import ConfigError
from .over_httpx2 import httpx2_transport

__all__ = ["LoggedURL", "make_client"]

_PIECE = 2**18  # bytes of a request that are handed to aiohttp at once
_CLOSING = 5.0  # seconds that closing a connection may take


class LoggedURL(httpx.URL):
    """A URL with another text. httpx logs the URL of every request, and a URL may contain a key."""

    def __init__(self, url: httpx.URL, shown: str) -> None:
        super().__init__(url)
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"URL({self._shown!r})"


def make_client(transport: str = "httpx", *, http2: bool = False) -> httpx.AsyncClient:
    """Makes a client with as many connections as there are streams: a full pool would look like a slow server.

    Args:
        transport: "httpx", "httpx2" or "aiohttp".
        http2: offer HTTP/2 (not with aiohttp).

    Raises:
        ConfigError: an extra is not installed, or a configured proxy is not supported.
    """
    if transport == "aiohttp":
        return httpx.AsyncClient(transport=_Tidy(_aiohttp_transport()), timeout=None)
    if http2 and find_spec("h2") is None:
        raise ConfigError("http2 = true needs the extra: pip install 'streamfold[http2]'")
    verify = httpx.create_ssl_context()
    make: Callable[..., httpx.AsyncBaseTransport] = (
        httpx2_transport if transport == "httpx2" else httpx.AsyncHTTPTransport
    )

    def route(proxy: str | None) -> httpx.AsyncBaseTransport:
        if http2:  # few connections, each for many streams: httpcore's pool is fine
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
            return make(verify=verify, http2=True, limits=limits, proxy=proxy)
        return _Connections(lambda: make(verify=verify, limits=_ONE, proxy=proxy))

    try:
        return httpx.AsyncClient(transport=_Tidy(_Proxied(route)), timeout=None)
    except ImportError as exc:
        raise ConfigError(
            "the SOCKS proxy that is set in the environment needs the extra: pip install 'streamfold[socks]'"
        ) from exc


class _Tidy(httpx.AsyncBaseTransport):
    """Takes out of the head of a response what httpx would stumble over or log.

    httpx parses the target of a redirect even if it is not followed, and raises errors of other libraries for odd ones.
    It logs the reason phrase, in which a server may echo a key.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        response.extensions.pop("reason_phrase", None)
        if "location" in response.headers:
            response.extensions["location"] = response.headers.pop("location")
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


# --- httpx -----------------------------------------------------------------------------------------------------------


class _Proxied(httpx.AsyncBaseTransport):
    """Sends requests through the proxies of the environment. httpx itself does so only without a transport of ours."""

    def __init__(self, make: Callable[[str | None], httpx.AsyncBaseTransport]) -> None:
        found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all") and url}
        self._proxies = {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}
        self._routes = {proxy: make(proxy) for proxy in (None, *dict.fromkeys(self._proxies.values()))}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        proxy = None
        if self._proxies and not proxy_bypass(url.host if url.port is None else f"{url.host}:{url.port}"):
            proxy = self._proxies.get(url.scheme) or self._proxies.get("all")
        return await self._routes[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for route in self._routes.values():
            await route.aclose()


_ONE = httpx.Limits(max_connections=None, max_keepalive_connections=1)
_KEPT = 5.0  # seconds that an unused connection is kept: what httpx does by default


class _Connections(httpx.AsyncBaseTransport):
    """Reuses connections at any number of streams: one httpx transport with one connection for each stream at once.

    httpcore's pool compares its keep-alive limit with the number of all connections instead of the idle ones
    (https://github.com/encode/httpcore/issues/1000, open in 2026), so that with more streams than the limit nearly
    every request opens a new connection. Without a limit it walks over all connections for every request.
    """

    def __init__(self, make: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._make = make
        self._idle = deque([(make(), monotonic())])  # the one used last is last; the first one proves that `make` works

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        transport = self._idle.pop()[0] if self._idle else self._make()
        try:
            await self._close_unused()
            response = await transport.handle_async_request(request)
        except BaseException:
            await _close(transport)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - for the type checker
        response.stream = _Body(response.stream, self, transport)
        return response

    def give_back(self, transport: httpx.AsyncBaseTransport) -> None:
        """Keeps the connection of an answer that has been closed for the next request."""
        self._idle.append((transport, monotonic()))

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.popleft()[0].aclose()

    async def _close_unused(self) -> None:
        oldest = monotonic() - _KEPT
        while self._idle and self._idle[0][1] < oldest:
            await _close(self._idle.popleft()[0])


class _Body(httpx.AsyncByteStream):
    """The body of an answer, with the transport that is free when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, owner: _Connections, transport: httpx.AsyncBaseTransport) -> None:
        self._stream = stream
        self._owner = owner
        self._transport: httpx.AsyncBaseTransport | None = transport

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        transport, self._transport = self._transport, None
        try:
            await self._stream.aclose()
        except BaseException:
            if transport is not None:
                await _close(transport)
            raise
        if transport is not None:
            self._owner.give_back(transport)


async def _close(transport: httpx.AsyncBaseTransport) -> None:
    with anyio.move_on_after(_CLOSING, shield=True):
        await transport.aclose()


# --- aiohttp ---------------------------------------------------------------------------------------------------------


class _Pieces(httpx.AsyncByteStream):
    """A large request body in pieces. aiohttp warns of one that comes whole, because it would block the event loop."""

    def __init__(self, body: bytes) -> None:
        self._pieces = iter([body[at : at + _PIECE] for at in range(0, len(body), _PIECE)])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


def _aiohttp_transport() -> httpx.AsyncBaseTransport:
    try:
        import aiohttp
        from httpx_aiohttp import AiohttpTransport
    except ImportError:
        raise ConfigError("transport \"aiohttp\" needs the extra: pip install 'streamfold[aiohttp]'") from None

    proxies = getproxies()
    if ("all" in proxies and not {"http", "https"} <= proxies.keys()) or any(
        proxies.get(scheme, "").startswith("socks") for scheme in ("http", "https")
    ):  # aiohttp would silently go past them, or fail with each request
        raise ConfigError(
            'transport "aiohttp" does not support SOCKS proxies or ALL_PROXY: set HTTP_PROXY and HTTPS_PROXY to'
            ' http:// proxies, or use transport "httpx"'
        )
    verify = httpx.create_ssl_context()

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            await super().start(connection)
            self.reason = None  # the transport would encode it, which fails if it is not ASCII
            return self

    def session() -> aiohttp.ClientSession:  # made on the event loop that it belongs to
        # Its default session would stop at 100 connections and ignore the proxies of the environment.
        connector = aiohttp.TCPConnector(limit=0, ssl=verify, keepalive_timeout=_KEPT)
        return aiohttp.ClientSession(
            connector=connector, trust_env=True, cookie_jar=aiohttp.DummyCookieJar(), response_class=Response
        )

    class Transport(AiohttpTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            large = len(request.content) > _PIECE
            # It sends the URL's text, and refuses credentials in it, which httpx has made a header.
            if large or request.url.userinfo or isinstance(request.url, LoggedURL):
                request = httpx.Request(
                    request.method,
                    httpx.URL(request.url).copy_with(userinfo=b""),
                    headers=request.headers,
                    content=None if large else request.content,
                    stream=_Pieces(request.content) if large else None,
                    extensions=request.extensions,
                )
            return await super().handle_async_request(request)

    return Transport(verify=verify, client=session)
