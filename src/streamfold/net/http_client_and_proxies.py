"""Creates a provider's HTTP client for one event loop: an httpx client that may send with aiohttp, httpx2 or
WebSockets.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx
from anyio.lowlevel import current_token

from .._version import __version__
from ..errors import ConfigError, StreamfoldError
from ..urls import shown_url
from .connection_reuse import guard_connections
from .redaction import Redactor, secrets_in_url
from .timeouts_and_cancellation import event_loop

_CLOSING = 5.0  # seconds that closing the connections may take when their event loop ends
_OLDEST_AIOHTTP, _TOO_NEW_AIOHTTP = (3, 14), (4, 0)  # as in pyproject.toml

MakeTransport = Callable[[ssl.SSLContext, "str | None"], httpx.AsyncBaseTransport]  # given TLS settings and a proxy


def make_client(transport: str = "httpx", *, http2: bool = False) -> httpx.AsyncClient:
    """Returns an HTTP client that ignores cookies. The number of connections isn't limited, because a full pool would
    look like a slow server.

    Args:
        transport: "httpx", "httpx2", "aiohttp" or "websocket".
        http2: True to offer HTTP/2 to servers. Not available with aiohttp and websocket.

    Raises:
        ConfigError: the extra for `transport` or `http2` is not installed.
    """
    if http2 and find_spec("h2") is None:
        raise ConfigError("http2 = true needs the extra: pip install 'streamfold[http2]'")
    make = {"aiohttp": _aiohttp, "websocket": _websocket}.get(transport, partial(_httpx, transport, http2))()
    return httpx.AsyncClient(
        transport=_ProxyTransport(make),
        timeout=None,
        headers={"User-Agent": f"streamfold/{__version__}"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


def aiohttp_problem(url: str) -> str | None:
    """Returns the reason why requests to a URL can't be sent with aiohttp, or None if they can."""
    if event_loop() is None:
        return "the event loop is trio's"
    try:
        _aiohttp()
    except ConfigError as exc:
        return str(exc)
    proxy = _proxy_for(_environment_proxies(), httpx.URL(url))
    return None if proxy is None or proxy.startswith("http://") else "the proxy is not an http:// one"


def _httpx(transport: str, http2: bool) -> MakeTransport:
    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        try:
            if transport == "httpx2":
                from .httpx2_transport import httpx2_transport

                return httpx2_transport(verify, http2=http2, proxy=proxy)
            import httpcore  # installed with httpx

            sender = httpx.AsyncHTTPTransport(verify=verify, http2=http2, proxy=proxy)
            guard_connections(sender, httpcore, verify, http2=http2, proxy=proxy)
            return sender
        except ImportError as exc:
            raise ConfigError(
                "the SOCKS proxy that is set in the environment needs the extra: pip install 'streamfold[socks]'"
            ) from exc

    return make


def _aiohttp() -> MakeTransport:
    try:
        from aiohttp import __version__ as version

        if not (_OLDEST_AIOHTTP <= tuple(int(part) for part in version.split(".")[:2]) < _TOO_NEW_AIOHTTP):
            raise ConfigError(
                f'transport "aiohttp" needs aiohttp 3.14 or later and before 4, not {version}: pip install'
                " 'streamfold[aiohttp]'"
            )
        from .aiohttp_transport import aiohttp_transport
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


def _websocket() -> MakeTransport:
    try:
        from .websocket_transport import WebSocketTransport
    except ImportError:
        raise ConfigError("transport \"websocket\" needs the extra: pip install 'streamfold[websocket]'") from None

    def make(verify: ssl.SSLContext, proxy: str | None) -> httpx.AsyncBaseTransport:
        unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        opener = httpx.AsyncHTTPTransport(verify=verify, proxy=proxy, limits=unlimited)
        return WebSocketTransport(_httpx("httpx", http2=False)(verify, proxy), opener)

    return make


class _ProxyTransport(httpx.AsyncBaseTransport):
    """Sends requests through the proxies in environment variables. httpx does so only with its own transports.

    Removes two parts of a response. The target of a redirect is removed, because httpx may raise another library's
    exception for it. The reason phrase is removed, because httpx logs it and it may contain an API key.
    """

    def __init__(self, make: MakeTransport) -> None:
        self._proxies = _environment_proxies()
        self._verify = cache(httpx.create_ssl_context)  # slow: it reads all certificates
        self._make = make
        self._transports: dict[tuple[bool, str | None], httpx.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = _proxy_for(self._proxies, request.url)
        secure = request.url.scheme == "https" or (proxy or "").startswith("https:")
        if (transport := self._transports.get((secure, proxy))) is None:
            # Without TLS: settings that trust no certificate.
            verify = self._verify() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            transport = self._transports[secure, proxy] = self._make(verify, proxy)
        try:
            response = await transport.handle_async_request(request)
        except (httpx.ProxyError, httpx.ConnectError) as exc:
            if proxy is None:
                raise
            text = Redactor(secrets_in_url(proxy)).text(str(exc))
            raise type(exc)(f"the proxy {shown_url(proxy)}: {text}") from exc
        response.extensions.pop("reason_phrase", None)
        if "location" in response.headers:
            response.extensions["location"] = response.headers.pop("location")
        return response

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


def _environment_proxies() -> dict[str, str]:
    found = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all") and url}
    return {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}


def _proxy_for(proxies: dict[str, str], url: httpx.URL) -> str | None:
    if not proxies or proxy_bypass(url.host if url.port is None else f"{url.host}:{url.port}"):
        return None
    return proxies.get(url.scheme) or proxies.get("all")


class LoopBoundClient:
    """The HTTP client of one provider.

    When an event loop ends, streamfold closes the client that it created on this loop. So a provider can be used in
    several `asyncio.run` calls.

    Args:
        provider: name of the provider, for errors.
        given: an HTTP client that the caller created. streamfold never changes or closes this client.

    Attributes:
        make: a function that creates a client for the running event loop.
        owned: True if streamfold has created the client.
    """

    def __init__(self, provider: str, given: httpx.AsyncClient | None, make: Callable[[], httpx.AsyncClient]) -> None:
        self._provider = provider
        self._given = given
        self.make = make
        self.owned = given is None
        self._bound: _BoundClient | None = None

    def client(self, loop: asyncio.AbstractEventLoop | None) -> httpx.AsyncClient:
        """Returns the client. Raises StreamfoldError if the client can't be used on this event loop.

        Args:
            loop: the running asyncio event loop; None on trio.
        """
        if self._given is not None:
            if self._given.is_closed:
                raise StreamfoldError(f'provider "{self._provider}": the http_client that was passed to it is closed')
            return self._given  # the caller decides on which event loops it is used
        here, bound = loop or current_token(), self._bound
        if bound is not None and not bound.is_gone:
            if bound.loop != here:
                raise StreamfoldError(
                    f'provider "{self._provider}" is in use on another event loop, and its connections can\'t'
                    " change loops. Make one provider for each loop, or call aclose() before"
                )
            return bound.client
        self._bound = _BoundClient(self.make(), here)
        self._bound.close_with_loop()
        return self._bound.client

    async def aclose(self) -> None:
        """Closes the client, unless the caller passed it."""
        bound, self._bound = self._bound, None
        if bound is None or bound.is_gone:
            return
        try:
            await bound.aclose()
        except RuntimeError:
            if bound.loop == (event_loop() or current_token()):
                raise
            # The connections belong to an event loop of another thread, and only that thread could close them properly.


@dataclass(eq=False)
class _BoundClient:
    client: httpx.AsyncClient
    loop: object
    _closing: AsyncGenerator[None] | None = None

    @property
    def is_gone(self) -> bool:
        is_closed = getattr(self.loop, "is_closed", None)  # asyncio's loops
        return self.client.is_closed or (is_closed is not None and is_closed())

    def close_with_loop(self) -> None:
        """Closes the client when the running event loop ends.

        A suspended asynchronous generator closes the client. asyncio and trio close all suspended generators when an
        event loop ends. The generator has no reference to the provider, so that the provider can be garbage-collected.
        """
        self._closing = self._close_at_end()
        try:
            self._closing.__anext__().send(None)
        except StopIteration:
            return  # the generator is suspended at its `yield`
        raise RuntimeError("the generator that closes the connections did not begin")

    async def _close_at_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with anyio.move_on_after(_CLOSING, shield=True):
                await self.client.aclose()

    async def aclose(self) -> None:
        await self.client.aclose()
        if self._closing is not None:
            await self._closing.aclose()
