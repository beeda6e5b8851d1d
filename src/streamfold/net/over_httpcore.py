"""httpcore's connections over HTTP/1.1, without a proxy: without its pool, and without httpx's objects."""

from __future__ import annotations

import ssl
from functools import partial

import httpcore
from anyio.lowlevel import checkpoint

from .bodies import NamesakeBody, RequestBody, raise_as_httpx
from .handshakes import Handshake
from .pool import KEPT, Connections, PooledBody, close
from .received import DirectTransport, Outgoing, Received, end


class HttpcoreTransport(Connections, DirectTransport):
    def __init__(self, verify: ssl.SSLContext) -> None:
        super().__init__()
        self._verify = verify
        self.takes_objects = False

    async def receive(self, request: Outgoing) -> Received:
        to = request.address
        url = httpcore.URL(scheme=to.raw_scheme, host=to.raw_host, port=to.port, target=to.raw_path)
        extensions = {"timeout": {"connect": request.connect}}  # and headers later: h11 checks them, one look is enough
        sent = httpcore.Request(request.method, url, content=RequestBody(request.body), extensions=extensions)
        sent.headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
        connection, handshake = await self._connection(url.origin), Handshake(sent.extensions)
        try:
            response = await connection.handle_async_request(sent)
        except BaseException as exc:
            await close(connection)
            await close(handshake)
            raise_as_httpx(exc, "httpcore")
        finally:
            handshake.end()
        stream = NamesakeBody(response.stream, "httpcore")
        aclose = PooledBody(stream, self, connection).aclose
        return Received(response.status, response.headers, stream, partial(end, aclose, stream))

    async def _connection(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        await checkpoint()  # in which a server's end of the connection that was used last is often noticed
        await self.close_unused()
        if (old := self.take()) is not None:
            if old.is_available() and old.can_handle_request(origin) and not old.has_expired():
                return old  # type: ignore[no-any-return]
            await close(old)
        return httpcore.AsyncHTTPConnection(origin, ssl_context=self._verify, keepalive_expiry=KEPT)
