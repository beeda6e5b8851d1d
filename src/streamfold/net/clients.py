"""The clients that requests go through when the caller brings none: httpx, over its own transport or over aiohttp."""

from __future__ import annotations

from typing import Self
from urllib.request import getproxies

import httpx

from ..values import ConfigError

__all__ = ["LoggedURL", "make_client"]

_PIECE = 2**18  # bytes of a request that are handed to aiohttp at once


class LoggedURL(httpx.URL):
    """A URL that is shown otherwise than it is: httpx logs the URL of every request, and a path may hold a key."""

    def __init__(self, url: httpx.URL, shown: str) -> None:
        super().__init__(url)
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"URL({self._shown!r})"


class _Pieces(httpx.AsyncByteStream):
    """A body in pieces. Of a large one that comes as a whole aiohttp warns, as it would hold up the event loop."""

    def __init__(self, body: bytes) -> None:
        self._pieces = iter([body[at : at + _PIECE] for at in range(0, len(body), _PIECE)])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


def make_client(transport: str = "httpx", *, http2: bool = False) -> httpx.AsyncClient:
    """A client of our own. As many connections as there are streams: a pool that is full would look like a slow server.

    Raises:
        ConfigError: it needs an extra that is not installed.
    """
    # Few idle connections: closing one makes httpcore look at all of them.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    if transport == "aiohttp":
        return httpx.AsyncClient(transport=_aiohttp_transport(limits), timeout=None)
    try:
        return httpx.AsyncClient(limits=limits, timeout=None, http2=http2)
    except ImportError as exc:  # httpx asks for h2, or, where the environment names a SOCKS proxy, for socksio
        extra = "http2" if "h2" in str(exc) else "socks"
        what = "http2 = true" if extra == "http2" else "the SOCKS proxy that the environment names"
        raise ConfigError(f"{what} needs the extra: pip install 'streamfold[{extra}]'") from exc


def _aiohttp_transport(limits: httpx.Limits) -> httpx.AsyncBaseTransport:
    try:
        import aiohttp
        from httpx_aiohttp import AiohttpTransport
    except ImportError:
        raise ConfigError("transport \"aiohttp\" needs the extra: pip install 'streamfold[aiohttp]'") from None

    proxies = getproxies()
    if ("all" in proxies and not {"http", "https"} <= proxies.keys()) or any(
        proxies.get(scheme, "").startswith("socks") for scheme in ("http", "https")
    ):  # it would go past them without a word, or fail with each request
        raise ConfigError(
            'transport "aiohttp" takes no SOCKS proxy and no ALL_PROXY: name http:// ones in HTTP_PROXY and'
            ' HTTPS_PROXY, or use transport "httpx"'
        )
    verify = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:  # made on the event loop that it belongs to
        # Its own session would stop at 100 connections and take no proxy from the environment, where httpx does.
        connector = aiohttp.TCPConnector(limit=0, ssl=verify, keepalive_timeout=limits.keepalive_expiry)
        return aiohttp.ClientSession(connector=connector, trust_env=True, cookie_jar=aiohttp.DummyCookieJar())

    class Transport(AiohttpTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            large = len(request.content) > _PIECE
            if large or isinstance(request.url, LoggedURL):  # it sends the URL's text
                request = httpx.Request(
                    request.method,
                    httpx.URL(request.url),
                    headers=request.headers,
                    content=None if large else request.content,
                    stream=_Pieces(request.content) if large else None,
                    extensions=request.extensions,
                )
            return await super().handle_async_request(request)

    return Transport(verify=verify, limits=limits, client=session)
