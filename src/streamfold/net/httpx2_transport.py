"""httpx2 below httpx: the transport of httpx's successor, for the clients that providers make for themselves.

Everything else speaks httpx, so this is the only module that knows both.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx

from ..errors import ConfigError
from .connection_reuse import guard_connections
from .stream_bodies import ExceptionMappingStream, raise_as_httpx
from .urls import sent_url

if TYPE_CHECKING:
    import httpx2


def httpx2_transport(verify: ssl.SSLContext, *, http2: bool, proxy: str | None) -> httpx.AsyncBaseTransport:
    """Returns a transport that sends with httpx2.

    Raises:
        ConfigError: httpx2 is not installed.
        ImportError: a package for a SOCKS proxy is not installed.
    """
    try:
        import httpcore2
        import httpx2
    except ImportError:
        raise ConfigError("transport \"httpx2\" needs the extra: pip install 'streamfold[httpx2]'") from None
    transport = httpx2.AsyncHTTPTransport(verify=verify, http2=http2, proxy=proxy)
    guard_connections(transport, httpcore2, verify, http2=http2, proxy=proxy)
    return _Transport(transport, httpx2.Request)


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, transport: httpx2.AsyncHTTPTransport, request: type[httpx2.Request]) -> None:
        self._transport = transport
        self._request = request

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        extensions = {name: value for name, value in request.extensions.items() if name != "trace"}
        body = await request.aread()
        try:
            response = await self._transport.handle_async_request(
                self._request(  # not in a variable: its URL may have a key, which its repr shows
                    request.method,
                    sent_url(request.url),
                    headers=request.headers.raw,
                    content=body,
                    extensions=extensions,
                )
            )
        except Exception as exc:
            raise_as_httpx(exc, "httpx2")
        return httpx.Response(
            response.status_code,
            headers=response.headers.raw,
            stream=ExceptionMappingStream(response.stream, "httpx2"),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        await self._transport.aclose()
