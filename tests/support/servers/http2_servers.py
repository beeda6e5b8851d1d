"""A server that speaks HTTP/2 with prior knowledge, on loopback, and runs a script for each request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import httpx
from anyio.abc import ByteStream, SocketAttribute
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error

from folding import DONE, fin, fragments, text
from streamfold import Provider

CALL = fragments('0 a f {"x":', "0 - - 1}")


@dataclass
class Peer:
    """The server's end of one connection."""

    stream: ByteStream
    h2: H2Connection
    server: Server
    lock: anyio.Lock = field(default_factory=anyio.Lock)  # one task sends at a time

    async def head(self, stream_id: int, status: str = "200") -> None:
        self.h2.send_headers(stream_id, [(":status", status), ("x-request-id", f"req_{stream_id}")])
        await self.flush()

    async def data(self, stream_id: int, data: bytes, *, end: bool = False) -> None:
        self.h2.send_data(stream_id, data, end_stream=end)
        await self.flush()

    async def flush(self) -> None:
        await self.send(self.h2.data_to_send())

    async def send(self, data: bytes) -> None:
        async with self.lock:
            await self.stream.send(data)


@dataclass
class Server:
    port: int
    connections: int = 0
    open: int = 0
    requests: list[int] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def provider(self, **config: object) -> AsyncIterator[Provider]:
        base = {"base_url": f"http://127.0.0.1:{self.port}/v1", "model": "m", "max_retries": 0}
        async with httpx.AsyncClient(http1=False, http2=True) as client:
            yield Provider.from_config({**base, **config}, http_client=client)


@asynccontextmanager
async def serving(answer: Callable[[Peer, int], Awaitable[None]]) -> AsyncIterator[Server]:
    """A server with prior knowledge that runs `answer` for each whole request."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    server = Server(listener.extra(SocketAttribute.local_port))

    async def handle(stream: ByteStream) -> None:
        server.connections += 1
        server.open += 1
        peer = Peer(stream, H2Connection(H2Configuration(client_side=False)), server)
        peer.h2.initiate_connection()
        try:
            async with stream, anyio.create_task_group() as tasks:
                await peer.flush()
                while True:
                    for event in peer.h2.receive_data(await stream.receive()):
                        if isinstance(event, RequestReceived):
                            server.requests.append(event.stream_id)
                        elif isinstance(event, DataReceived):
                            peer.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        elif isinstance(event, StreamEnded):
                            tasks.start_soon(answer, peer, event.stream_id)
                        elif isinstance(event, StreamReset):
                            server.resets.append(event.stream_id)
                    await peer.flush()
        except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, H2Error):
            pass  # the client left, or this end closed the connection
        finally:
            server.open -= 1

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield server
        tasks.cancel_scope.cancel()


async def whole(peer: Peer, stream_id: int) -> None:
    await peer.head(stream_id)
    await peer.data(stream_id, text("Hi") + CALL + fin("tool_calls") + DONE, end=True)


async def begun(peer: Peer, stream_id: int) -> None:
    await peer.head(stream_id)
    await peer.data(stream_id, text("Hel") + CALL)
