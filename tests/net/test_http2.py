"""Answers over HTTP/2, where many share one connection: each ends for itself, and a connection that ends, ends well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import ByteStream, SocketAttribute
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error

from folding import DONE, fin, fragments, text
from streamfold import APIConnectionError, ConfigError, IncompleteStreamError, Provider, ServerError
from streamfold.net import clients, retries
from streamfold.net.clients import make_client
from tables import each_row

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


async def test_text_and_calls() -> None:
    """An answer is what it is over HTTP/1.1, and many share one connection."""
    async with serving(whole) as server, server.provider() as provider:
        replies = []

        async def ask() -> None:
            replies.append(await provider.chat("Hello"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
        assert [(reply.text, [made.arguments for made in reply.tool_calls]) for reply in replies] == [
            ("Hi", [{"x": 1}])
        ] * 10
        assert server.connections == 1


async def goaway(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    peer.h2.close_connection(last_stream_id=stream_id)
    await peer.flush()
    await peer.stream.aclose()


async def goaway_before(peer: Peer, stream_id: int) -> None:
    """The answer has begun, and the connection says that it never took the request."""
    await begun(peer, stream_id)
    peer.h2.close_connection(last_stream_id=0, error_code=11)
    await peer.flush()
    await peer.stream.aclose()


async def reset(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    peer.h2.reset_stream(stream_id, error_code=2)
    await peer.flush()


async def hung_up(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    await peer.stream.aclose()


async def garbage(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    await peer.send(b"\xff" * 64)
    await peer.stream.aclose()


@each_row("answer", [goaway, goaway_before, reset, hung_up, garbage], ids=lambda answer: answer.__name__)
async def test_k14_broken_off(answer: Callable[[Peer, int], Awaitable[None]]) -> None:
    """However HTTP/2 breaks off in the middle of an answer: the error of ours, with the text so far and no call."""
    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("Hello")
        error = caught.value
        assert error.partial is not None
        assert (error.partial.text, error.partial.tool_calls, error.retryable) == ("Hel", [], True)
        assert error.request_id == "req_1"
        assert isinstance(error.__cause__, APIConnectionError)


@each_row("how", ["reset", "hang up", "goaway", "garbage"])
async def test_k14_broken_before_the_answer(how: str) -> None:
    """Before the head of the answer it is a lost connection, which is tried again."""

    async def answer(peer: Peer, stream_id: int) -> None:
        if len(peer.server.requests) > 1:
            await whole(peer, stream_id)
        elif how == "reset":
            peer.h2.reset_stream(stream_id, error_code=7)
            await peer.flush()
        else:
            if how == "goaway":
                peer.h2.close_connection(error_code=2)
                await peer.flush()
            elif how == "garbage":
                await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await peer.stream.aclose()

    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(APIConnectionError, match="no connection") as caught:
            await provider.chat("Hello")
        assert caught.value.retryable
        assert (await provider.chat("Hello")).text == "Hi"


async def test_error_status() -> None:
    """A status over HTTP/2, which has no reason phrase."""

    async def answer(peer: Peer, stream_id: int) -> None:
        await peer.head(stream_id, "503")
        await peer.data(stream_id, b"", end=True)

    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(ServerError, match=r"Service Unavailable \(HTTP 503\)"):
            await provider.chat("Hello")


@each_row("how", ["break", "cancel", "aclose"])
async def test_a_stream_that_ends_early_leaves_the_others_alone(how: str) -> None:
    """Ending one answer ends neither the connection nor the answers beside it."""
    go_on = anyio.Event()

    async def answer(peer: Peer, stream_id: int) -> None:
        if len(peer.server.requests) > 2:
            await whole(peer, stream_id)
            return
        await begun(peer, stream_id)
        if stream_id == 3:  # the second one
            await go_on.wait()
            await peer.data(stream_id, text("lo") + fin("stop") + DONE, end=True)

    async with serving(answer) as server, server.provider() as provider:
        first, second = provider.chat_stream("Hello"), provider.chat_stream("Hello")
        assert (await anext(first)).delta == "Hel"
        assert (await anext(second)).delta == "Hel"
        if how == "cancel":
            with anyio.move_on_after(0.05):
                await anext(first)
        await first.aclose()
        go_on.set()
        with anyio.fail_after(10):
            assert "".join([chunk.delta async for chunk in second]) == "lo"
            assert (await provider.chat("Hello")).text == "Hi"
        assert (server.connections, server.open) == (1, 1)


@pytest.mark.slow
def test_a_connection_whose_first_request_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far it had come: the next request is answered, and nothing stays open."""
    monkeypatch.setattr(retries, "_FIRST", 0.001)

    async def main() -> None:
        async with serving(whole) as server:
            for turns in range(0, 150, 7):
                async with server.provider(max_retries=1) as provider:
                    task = asyncio.create_task(provider.chat("Hello"))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                    with anyio.fail_after(10):
                        assert (await provider.chat("Hello")).text == "Hi"
            with anyio.fail_after(10):
                while server.open:
                    await asyncio.sleep(0.005)

    asyncio.run(main())


async def test_the_key_reaches_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """`http2 = true` makes a client that offers it, and without the extra the error names it."""
    made: list[object] = []
    plain = httpx.AsyncHTTPTransport

    def transport(*, http2: bool = False, **options: Any) -> httpx.AsyncHTTPTransport:
        made.append(http2)
        return plain(http2=http2, **options)

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", transport)
    for http2 in (True, False):
        config = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_retries": 0, "http2": http2}
        async with Provider.from_config(config) as provider:
            with pytest.raises(APIConnectionError):
                await provider.chat("Hello")
    assert made == [True, False]

    monkeypatch.setattr(clients, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"http2 = true needs the extra: pip install 'streamfold\[http2\]'"):
        make_client(http2=True)
