"""Sends httpx requests with httpx2, the successor of httpx."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, NoReturn, Self

import httpx

from ..errors import ConfigError
from .connection_reuse import guard_connections
from .httpx_transport import sent_url

if TYPE_CHECKING:
    import httpx2


def httpx2_transport(verify: ssl.SSLContext, *, http2: bool, proxy: str | None) -> httpx.AsyncBaseTransport:
    """Returns an httpx transport that sends requests with httpx2.

    Raises:
        ConfigError: httpx2 is not installed.
        ImportError: the proxy is a SOCKS proxy, and the package for SOCKS is not installed.
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
            _raise_as_httpx(exc)
        return httpx.Response(
            response.status_code,
            headers=response.headers.raw,
            stream=_Body(response.stream),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Body(httpx.AsyncByteStream):
    """A response body that raises httpx's exceptions. The class isn't a generator, because generators need explicit
    closing.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pieces = stream.__aiter__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._pieces.__anext__()  # type: ignore[no-any-return]
        except Exception as exc:
            _raise_as_httpx(exc)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _raise_as_httpx(exc: BaseException) -> NoReturn:
    if type(exc).__module__.partition(".")[0] != "httpx2":
        try:
            raise exc
        finally:
            del exc  # its traceback has this frame
    found = (getattr(httpx, kind.__name__, None) for kind in type(exc).__mro__)
    raise next(filter(None, found), httpx.TransportError)(str(exc)) from exc
