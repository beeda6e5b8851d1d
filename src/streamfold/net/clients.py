"""The HTTP clients that providers make for themselves: httpx, with its own connections, those of aiohttp, or httpx2."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from urllib.request import getproxies, proxy_bypass

import httpx

from ..values import ConfigError, __version__
from .deadlines import event_loop
from .over_httpx2 import httpx2_transport

KEEPALIVE_EXPIRY = 5.0  # seconds that an idle connection is kept: httpx's own default

MakeTransport = Callable[[ssl.SSLContext, "str | None"], httpx.AsyncBaseTransport]  # given TLS settings and a proxy


def make_client(transport: str = "httpx", *, http2: bool = False) -> httpx.AsyncClient:
    """Returns a client without a limit on its connections: a full pool would look like a slow server.

    It keeps no cookies: they would belong to whoever sent the last request.

    Args:
        transport: "httpx", "httpx2" or "aiohttp".
        http2: offer HTTP/2 (not with aiohttp).

    Raises:
        ConfigError: an extra is not installed.
    """
    if http2 and find_spec("h2") is None:
        raise ConfigError("http2 = true needs the extra: pip install 'streamfold[http2]'")
    make = _aiohttp() if transport == "aiohttp" else _httpx(transport, http2)
    return httpx.AsyncClient(
        transport=_ProxyTransport(make),
        timeout=None,
        headers={"User-Agent": f"streamfold/{__version__}"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


def _httpx(transport: str, http2: bool) -> MakeTransport:
    kind: Callable[..., httpx.AsyncBaseTransport] = (
        httpx2_transport if transport == "httpx2" else httpx.AsyncHTTPTransport
    )
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_EXPIRY)

    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        try:
            return kind(verify=verify, http2=http2, limits=limits, proxy=proxy)
        except ImportError as exc:
            raise ConfigError(
                "the SOCKS proxy that is set in the environment needs the extra: pip install 'streamfold[socks]'"
            ) from exc

    return make


def _aiohttp() -> MakeTransport:
    try:
        from .over_aiohttp import aiohttp_transport
    except ImportError:
        raise ConfigError("transport \"aiohttp\" needs the extra: pip install 'streamfold[aiohttp]'") from None

    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        if event_loop() is None:
            raise ConfigError('transport "aiohttp" needs asyncio: use transport "httpx" on trio')
        if proxy is not None and not proxy.startswith("http://"):  # aiohttp would fail with each request
            raise ConfigError(
                'transport "aiohttp" supports http:// proxies only: set HTTP_PROXY and HTTPS_PROXY to one, or use'
                ' transport "httpx"'
            )
        return aiohttp_transport(verify=verify, proxy=proxy)

    return make


class _ProxyTransport(httpx.AsyncBaseTransport):
    """Sends requests through the proxies of the environment. httpx itself does so only without a transport of ours.

    Takes out of the head of a response what httpx would stumble over or log: it parses the target of a redirect even if
    that is not followed, and raises errors of other libraries for odd ones; it logs the reason phrase, in which a
    server may echo a key.
    """

    def __init__(self, make: MakeTransport) -> None:
        found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all") and url}
        self._proxies = {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}
        self._verify = cache(httpx.create_ssl_context)  # reads all certificates, which takes a while
        self._make = make
        self._transports: dict[tuple[bool, str | None], httpx.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._to(request.url).handle_async_request(request)
        response.extensions.pop("reason_phrase", None)
        if "location" in response.headers:
            response.extensions["location"] = response.headers.pop("location")
        return response

    def _to(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        """Returns the transport for a URL."""
        proxy = None
        if self._proxies and not proxy_bypass(url.host if url.port is None else f"{url.host}:{url.port}"):
            proxy = self._proxies.get(url.scheme) or self._proxies.get("all")
        secure = url.scheme == "https" or (proxy or "").startswith("https:")
        if (transport := self._transports.get((secure, proxy))) is None:
            # Without TLS: settings that trust nobody.
            verify = self._verify() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            transport = self._transports[secure, proxy] = self._make(verify, proxy)
        return transport

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()
