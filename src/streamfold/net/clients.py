"""The HTTP clients that providers make for themselves: httpx over aiohttp, over its own transport, or over httpx2."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Awaitable, Callable
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from types import FunctionType
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx

from ..values import ConfigError
from .over_httpx2 import httpx2_transport
from .own_client import OwnClient
from .pool import ConnectionPool
from .received import DirectTransport, Outgoing, Received
from .waits import event_loop

_ONE = httpx.Limits(max_connections=None, max_keepalive_connections=1)
_ANY = httpx.Limits(max_connections=None, max_keepalive_connections=None)
_OLDEST_AIOHTTP = (3, 12)  # closes TLS connections without waiting for the other side

Make = Callable[[ssl.SSLContext, "str | None"], httpx.AsyncBaseTransport]  # given the URL of a proxy


def make_client(transport: str = "auto", *, http2: bool = False) -> httpx.AsyncClient:
    """Makes a client with as many connections as there are streams: a full pool would look like a slow server.

    Args:
        transport: "httpx", "httpx2", "aiohttp", or "auto": aiohttp where it is installed, and httpx for what aiohttp
            can't do: trio, HTTP/2, and SOCKS proxies. Where httpx's own transport has been patched, as packages for
            tests and for tracing do, "auto" sends with httpx, too.
        http2: offer HTTP/2 (not with aiohttp).

    Raises:
        ConfigError: an extra is not installed.
    """
    make: Make
    fast = transport == "aiohttp" or (transport == "auto" and not http2 and event_loop() is not None and _has_aiohttp())
    if transport == "aiohttp":
        make = _over_aiohttp()
    elif fast:
        make = _over_either(_over_aiohttp(), _over_httpx("httpx", http2=False))
    else:
        make = _over_httpx(transport, http2)
    proxied = _Proxied(make)
    return OwnClient(proxied, None if http2 or transport == "httpx2" else proxied.receive)


def _over_httpx(transport: str, http2: bool) -> Make:
    if http2 and find_spec("h2") is None:
        raise ConfigError("http2 = true needs the extra: pip install 'streamfold[http2]'")
    kind: Callable[..., httpx.AsyncBaseTransport] = (
        httpx2_transport if transport == "httpx2" else httpx.AsyncHTTPTransport
    )

    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        try:
            if http2:  # few connections, each for many streams: httpcore's pool is fine
                return kind(verify=verify, http2=True, limits=_ANY, proxy=proxy)
            plain = partial(ConnectionPool, lambda: kind(verify=verify, limits=_ONE, proxy=proxy))
            if transport == "httpx2" or proxy is not None:
                return plain()
        except ImportError as exc:
            raise ConfigError(
                "the SOCKS proxy that is set in the environment needs the extra: pip install 'streamfold[socks]'"
            ) from exc
        from .over_httpcore import HttpcoreTransport

        return _UnlessPatched(HttpcoreTransport(verify), plain)

    return make


def _over_aiohttp() -> Callable[[ssl.SSLContext, str | None], DirectTransport]:
    try:
        from .over_aiohttp import aiohttp_transport
    except ImportError:
        raise ConfigError("transport \"aiohttp\" needs the extra: pip install 'streamfold[fast]'") from None

    def make(verify: ssl.SSLContext, proxy: str | None) -> DirectTransport:
        if event_loop() is None:
            raise ConfigError('transport "aiohttp" needs asyncio: use transport "auto" or "httpx" on trio')
        if not _is_for_aiohttp(proxy):  # aiohttp would fail with each request
            raise ConfigError(
                'transport "aiohttp" supports http:// proxies only: set HTTP_PROXY and HTTPS_PROXY to one, or use'
                ' transport "auto"'
            )
        return aiohttp_transport(verify=verify, proxy=proxy)

    return make


def _over_either(fast: Callable[[ssl.SSLContext, str | None], DirectTransport], plain: Make) -> Make:
    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        if not _is_for_aiohttp(proxy):
            return plain(verify, proxy)
        return _UnlessPatched(fast(verify, proxy), lambda: plain(verify, proxy))

    return make


def _is_for_aiohttp(proxy: str | None) -> bool:
    return proxy is None or proxy.startswith("http://")


def _has_aiohttp() -> bool:
    """Whether aiohttp can be imported, in a version that does what is needed."""
    if find_spec("aiohttp") is None:
        return False
    try:
        from aiohttp import __version__ as version
    except ImportError:  # a package of it is missing, or does not fit: httpx is always there
        return False
    return tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_AIOHTTP


class _UnlessPatched(DirectTransport):
    """Sends with one transport, and with httpx's own while that is patched.

    respx, pytest-httpx and VCR.py replace methods of httpx's transport to keep requests from the network, and
    OpenTelemetry's instrumentation does it to see them. None of them knows of other transports.
    """

    def __init__(self, transport: DirectTransport, plain: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._transport = transport
        self._make_plain = plain
        self._plain: httpx.AsyncBaseTransport | None = None

    def receive(self, request: Outgoing) -> Awaitable[Received] | None:
        return None if _is_patched() else self._transport.receive(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._transport.takes_objects and not _is_patched():
            return await self._transport.handle_async_request(request)
        if self._plain is None:
            self._plain = self._make_plain()
        return await self._plain.handle_async_request(request)

    async def aclose(self) -> None:
        await self._transport.aclose()
        if self._plain is not None:
            await self._plain.aclose()


def _is_patched() -> bool:
    """Whether somebody has replaced what httpx sends requests with."""
    kinds: list[Any] = [httpx.AsyncHTTPTransport]
    if (httpcore := sys.modules.get("httpcore")) is not None:  # else nobody has replaced anything in it
        kinds += [httpcore.AsyncConnectionPool, httpcore.AsyncHTTPConnection]
    for kind in kinds:
        method = getattr(kind, "handle_async_request", None)
        if type(method) is not FunctionType or not _is_original(method):
            return True
    return False


@lru_cache(8)
def _is_original(method: FunctionType) -> bool:
    """Whether a function is httpx's, by the module in which it was defined: a wrapper may copy name and module."""
    return str(method.__globals__.get("__name__")).startswith(("httpx.", "httpcore."))


class _Proxied(httpx.AsyncBaseTransport):
    """Sends requests through the proxies of the environment. httpx itself does so only without a transport of ours.

    Takes out of the head of a response what httpx would stumble over or log: it parses the target of a redirect even if
    that is not followed, and raises errors of other libraries for odd ones; it logs the reason phrase, in which a
    server may echo a key.
    """

    def __init__(self, make: Make) -> None:
        found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all") and url}
        self._proxies = {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}
        self._verify = cache(httpx.create_ssl_context)  # reads all certificates, which takes a while
        self._make = make
        self._transports: dict[tuple[bool, str | None], httpx.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._to(request.url).handle_async_request(request)
        response.extensions["streamfold.body"] = response.stream  # before httpx puts a generator around it
        response.extensions.pop("reason_phrase", None)
        if "location" in response.headers:
            response.extensions["location"] = response.headers.pop("location")
        return response

    def receive(self, url: httpx.URL, request: Outgoing) -> Awaitable[Received] | None:
        """Sends a request as `DirectTransport` does; None if it has to be sent with httpx's objects."""
        transport = self._to(url)
        return transport.receive(request) if isinstance(transport, DirectTransport) else None

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
