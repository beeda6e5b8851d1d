"""An answer is never another request's, whatever a server says when nobody asked: each fault over each transport."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import httpcore
import httpx
import pytest
from anyio.streams.tls import TLSStream

from folding import DONE, fin, text
from scale import pick
from servers import Connection, Server, answer, certificate, framed, sends_each, serving
from streamfold import APIError, ConfigError, Provider
from streamfold.net import connection_reuse, http_client_and_proxies
from tables import each_row

ANSWER = text("first") + fin("stop") + DONE
CHUNKED = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n"
STRAY = answer("200 OK", text("SOMEBODY ELSE'S") + fin("stop") + DONE)

# Responses that end where nobody could doubt it, and what a request gets for them.
RESPONSES: dict[str, tuple[bytes, str]] = {
    "length": (answer("200 OK", ANSWER), "first"),
    "chunks": (CHUNKS + framed(ANSWER) + b"0\r\n\r\n", "first"),
    "trailers": (CHUNKS + framed(ANSWER) + b"0\r\nX-Took: 1\r\n\r\n", "first"),
    "extension": (CHUNKS + b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(ANSWER), ANSWER), "first"),
    "empty": (answer("200 OK", b""), "EmptyResponseError"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "EmptyResponseError"),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", "APIStatusError"),
    "100": (b"HTTP/1.1 100 Continue\r\n\r\n" + answer("200 OK", ANSWER), "first"),
    "103s": (b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 2 + answer("200 OK", ANSWER), "first"),
    "307": (answer("307 Temporary Redirect", b"", "Location: /elsewhere"), "APIStatusError"),
    "401": (answer("401 Unauthorized", b'{"error":{"message":"no"}}'), "AuthenticationError"),
    "close": (answer("200 OK", ANSWER, "Connection: close"), "first"),
    "1.0": (answer("200 OK", ANSWER, "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"), "first"),
}
SURPLUS: dict[str, bytes] = {
    "answer": STRAY,
    "answers": STRAY * 3,
    "408": answer("408 Request Timeout", b"", "Connection: close"),
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "head": CHUNKS,
    "half a body": STRAY[:-10],
    "chunk": framed(text("SOMEBODY ELSE'S")),
    "last chunk": b"0\r\n\r\n",
    "line end": b"\r\n",
    "garbage": b": ping\n\n",
    "NUL": b"\0",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}
WHEN = ["same packet", "next packet", "later"]


def transports(anyio_backend_name: str) -> list[str]:
    return ["httpx", "httpx2"] if anyio_backend_name == "trio" else ["aiohttp", "httpx", "httpx2"]


class Misbehaving:
    """A server that answers the first request of all as it is told, and every other one with its own text."""

    def __init__(self, first: bytes, surplus: bytes, when: str) -> None:
        self.first, self.surplus, self.when = first, surplus, when
        self.read, self.said = anyio.Event(), anyio.Event()

    async def __call__(self, peer: Connection) -> None:
        while True:
            body = await peer.request()
            if len(peer.server.requests) > 1:
                await peer.send(answer("200 OK", text(asked(body)) + fin("stop") + DONE))
                continue
            await peer.send(self.first + self.surplus if self.when == "same packet" else self.first)
            if self.when == "later":
                await self.read.wait()
            if self.when != "same packet":
                await peer.send(self.surplus)
            self.said.set()


def asked(body: bytes) -> str:
    return next(word for word in ("second", "third") if word.encode() in body)


async def said(provider: Provider, question: str, first_event: float | None = None) -> str:
    """The text of an answer, or the kind of error."""
    with anyio.fail_after(20):
        try:
            return (await provider.chat(question, timeouts={"first_event": first_event})).text
        except APIError as error:
            return type(error).__name__


async def all_answers(server: Server, script: Misbehaving, transport: str) -> list[str]:
    async with server.provider(transport=transport) as provider:
        found = [await said(provider, "first")]
        script.read.set()
        with anyio.fail_after(20):
            await script.said.wait()
        if script.when == "same packet":
            await server.all_closed()  # nobody will use it again, so nobody keeps it
        return [*found, await said(provider, "second"), await said(provider, "third")]


CASES = pick(
    list(product(RESPONSES, SURPLUS, WHEN)),
    [
        *product(RESPONSES, ["answer"], ["same packet"]),
        *product(["length"], SURPLUS, WHEN),
        *product(["chunks"], SURPLUS, ["same packet"]),
        *product(["chunks"], ["chunk"], WHEN[1:]),
    ],
)


@pytest.mark.slow
async def test_bytes_that_nobody_asked_for(anyio_backend_name: str) -> None:
    """What comes behind an answer, or between two, costs its connection and nothing else."""
    wrong = []
    for (response, surplus, when), transport in product(CASES, transports(anyio_backend_name)):
        first, expected = RESPONSES[response]
        script = Misbehaving(first, SURPLUS[surplus], when)
        async with serving(script) as server:
            found = await all_answers(server, script, transport)
        if found != [expected, "second", "third"] or server.connections > 2:
            wrong.append((transport, response, surplus, when, found, server.connections))
    assert wrong == []


# --- on every way to a server ----------------------------------------------------------------------------------------

LONG = answer("200 OK", text("first" * 10_000) + fin("stop") + DONE)  # more than is read from TLS at once


@asynccontextmanager
async def way(name: str, script: Misbehaving, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server that is reached with or without TLS, directly or through a proxy, as the environment says then."""
    for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate(folder), folder / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    secure = name in ("TLS", "tunnel", "SOCKS")

    async def greeted(peer: Connection) -> None:
        if name == "tunnel":
            assert (await peer.stream.receive()).startswith(b"CONNECT 127.0.0.1:9 ")
            await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
        if name == "SOCKS":
            for reply in (b"\x05\x00", b"\x05\x00\x00\x01" + bytes(6)):
                await peer.stream.receive()
                await peer.send(reply)
        if secure:
            peer.stream = await TLSStream.wrap(
                peer.stream, server_side=True, ssl_context=context, standard_compatible=False
            )
        await script(peer)

    async with serving(greeted) as server:
        scheme = "https" if secure else "http"
        if name in ("proxy", "tunnel", "SOCKS"):
            proxy = "socks5" if name == "SOCKS" else "http"
            monkeypatch.setenv(f"{scheme}_proxy", f"{proxy}://127.0.0.1:{server.port}")
            server.base_url = f"{scheme}://127.0.0.1:9/v1"
        else:
            server.base_url = f"{scheme}://127.0.0.1:{server.port}/v1"
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("name", ["direct", "TLS", "proxy", "tunnel", "SOCKS"])
async def test_bytes_that_nobody_asked_for_on_every_way(
    name: str, anyio_backend_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with TLS and through proxies, also where the bytes are read from the socket with the answer's end."""
    pytest.importorskip("socksio")
    for transport, when in product(transports(anyio_backend_name), WHEN):
        if name == "SOCKS" and transport == "aiohttp":
            continue
        for first, expected in ((RESPONSES["chunks"][0], "first"), (LONG, "first" * 10_000)):
            script = Misbehaving(first, STRAY, when)
            async with way(name, script, tmp_path, monkeypatch) as server:
                found = await all_answers(server, script, transport)
            assert (transport, when, found) == (transport, when, [expected, "second", "third"])
            assert server.connections <= 2


async def test_the_bytes_that_a_reader_has_buffered(anyio_backend_name: str) -> None:
    """An answer that ends where a read of the socket ends leaves nothing behind for the next request."""
    for transport, size in product(transports(anyio_backend_name), [2**14, 2**16, 2**18]):
        said_first = "x" * (size - 1000)
        body = text(said_first) + fin("stop") + DONE
        first = answer("200 OK", body, f"X-Pad: {'x' * (size - len(answer('200 OK', body, 'X-Pad: ')))}")
        assert len(first) == size
        script = Misbehaving(first, STRAY, "same packet")
        async with serving(script) as server:
            assert await all_answers(server, script, transport) == [said_first, "second", "third"]


# --- many at once ----------------------------------------------------------------------------------------------------


class Unreliable:
    """A server that answers each request with its own text, and does everything wrong besides that a server can."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    async def __call__(self, peer: Connection) -> None:
        while True:
            question = json.loads(await peer.request())["messages"][0]["content"]
            body = text(question[:3]) + text(question[3:]) + fin("stop") + DONE
            response = self._random.choice([answer("200 OK", body), CHUNKS + framed(body) + b"0\r\n\r\n"])
            if question.startswith("cancel"):
                response += answer("200 OK", body)  # nobody waits for either
            cut = self._random.randrange(1, len(response))
            await peer.send(response[:cut])
            for _ in range(self._random.randrange(5)):
                await anyio.lowlevel.checkpoint()
            match self._random.randrange(8):
                case 0:
                    return
                case 1:
                    await peer.send(response[cut:] + STRAY)
                case 2:
                    await peer.send(response[cut:])
                    await anyio.lowlevel.checkpoint()
                    # Never a whole one: behind a request that was sent meanwhile, nobody could tell it from the answer.
                    await peer.send(STRAY[: self._random.randrange(1, STRAY.index(b"finish_reason"))])
                case 3:
                    await peer.send(response[cut:])
                    return
                case _:
                    await peer.send(response[cut:])


@each_row("seed", range(pick(40, 3)))
async def test_nobody_gets_the_answer_of_another(seed: int, anyio_backend_name: str) -> None:
    """Answers that break off, end late or have another one behind them, and requests that are given up anywhere."""
    for transport in transports(anyio_backend_name):
        wrong: list[tuple[str, str]] = []
        async with serving(Unreliable(seed)) as server, server.provider(transport=transport) as provider:

            async def ask(number: int, provider: Provider = provider, wrong: list[tuple[str, str]] = wrong) -> None:
                for turn in range(4):
                    question = f"question {number} {turn}"
                    try:
                        got = (await provider.chat(question)).text
                    except APIError:
                        continue
                    if got != question:
                        wrong.append((question, got))

            async def give_up(number: int, provider: Provider = provider) -> None:
                chance = Random(seed + number)
                for turn in range(4):
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(said, provider, f"cancel {number} {turn}")
                        for _ in range(chance.randrange(60)):
                            await anyio.lowlevel.checkpoint()
                        tasks.cancel_scope.cancel()

            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(ask, number)
                    tasks.start_soon(give_up, number)
        assert (transport, wrong) == (transport, [])


async def test_bytes_that_arrive_when_a_connection_is_about_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request isn't written to a connection that has bytes to read by then, but to another one."""

    def unaware(stream: connection_reuse.GuardedStream, info: str) -> object:  # as when it was silent a moment ago
        return False if info == "is_readable" else stream._inner.get_extra_info(info)

    monkeypatch.setattr(connection_reuse.GuardedStream, "get_extra_info", unaware)
    for transport, when in product(["httpx", "httpx2"], WHEN):
        script = Misbehaving(RESPONSES["length"][0], STRAY, when)
        async with serving(script) as server, server.provider(transport=transport) as provider:
            assert await said(provider, "first") == "first"
            script.read.set()
            with anyio.fail_after(20):
                await script.said.wait()
            assert [await said(provider, "second"), await said(provider, "third")] == ["second", "third"]
            assert server.connections == 2


@pytest.mark.slow
@pytest.mark.parametrize("reads_on", [True, False])
async def test_an_answer_before_the_request_was_read(reads_on: bool, anyio_backend_name: str) -> None:
    """A server that answers before it has read a large request: its connection is not used in the middle of it."""

    async def hasty(peer: Connection) -> None:
        if peer.server.connections == 1:
            begin = await peer.stream.receive(400)  # the head, and perhaps some of the body
            await peer.send(answer("413 Content Too Large", b"too large"))
            if not reads_on:
                await anyio.sleep_forever()
            head, _, body = begin.partition(b"\r\n\r\n")
            left = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(body)
            while left:
                left -= len(await peer.stream.receive(left))
        assert b"second" in await peer.request()
        await peer.send(answer("200 OK", text("second") + fin("stop")))

    for transport in transports(anyio_backend_name):
        async with serving(hasty) as server, server.provider(transport=transport) as provider:
            # A server that doesn't read holds some clients back for ever, but not aiohttp, which reads meanwhile.
            expected = ["BadRequestError"] if reads_on else ["BadRequestError", "APITimeoutError"]
            assert await said(provider, "x" * 2**23, None if reads_on else 0.3) in expected
            assert await said(provider, "second") == "second"


@pytest.mark.slow
@pytest.mark.parametrize("response", ["length", "chunks"])
async def test_connections_are_used_again(response: str, anyio_backend_name: str) -> None:
    """A hundred requests, one after the other, need one connection."""
    well_behaved = sends_each(RESPONSES[response][0])
    for transport in transports(anyio_backend_name):
        async with serving(well_behaved) as server, server.provider(transport=transport) as provider:
            for _ in range(100):
                assert await said(provider, "first") == "first"
            assert (transport, server.connections) == (transport, 1)


@pytest.mark.slow
async def test_a_client_that_was_passed_in(anyio_backend_name: str) -> None:
    """The same for a client of httpx that is not ours."""
    for surplus in SURPLUS.values():
        script = Misbehaving(RESPONSES["length"][0], surplus, "same packet")
        async with serving(script) as server, httpx.AsyncClient() as client:
            provider = Provider.from_config({"base_url": server.base_url, "model": "m"}, http_client=client)
            found = [await said(provider, question) for question in ("first", "second", "third")]
            assert found == ["first", "second", "third"]
            assert server.connections == 2


@pytest.mark.slow
@pytest.mark.parametrize("last_words", [b"", answer("408 Request Timeout", b"", "Connection: close")])
async def test_connections_that_are_reset_while_nobody_uses_them(last_words: bytes, anyio_backend_name: str) -> None:
    """A load balancer that resets unused connections is not noticed, and nothing is logged."""
    noise: list[object] = []
    if anyio_backend_name == "asyncio":
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))

    async def impatient(peer: Connection) -> None:
        await peer.request()
        await peer.send(RESPONSES["length"][0])
        await idle.wait()
        await peer.send(last_words)
        raw = peer.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    for transport in transports(anyio_backend_name):
        idle = anyio.Event()
        async with serving(impatient) as server, server.provider(transport=transport) as provider:
            assert await said(provider, "first") == "first"
            idle.set()
            await server.all_closed()
            assert await said(provider, "first") == "first"
        gc.collect()
        await anyio.wait_all_tasks_blocked()
        assert (transport, noise) == (transport, [])


# --- what we know of other packages ----------------------------------------------------------------------------------


class Without:
    """An object of another project, and all that it leads to, without one attribute, or piece of information."""

    def __init__(self, target: object, name: str) -> None:
        self.target, self.name = target, name

    def __getattr__(self, name: str) -> object:
        if name == self.name:
            raise AttributeError(name)
        found = getattr(self.target, name)
        ours = type(found).__module__.partition(".")[0] in ("httpcore", "anyio", "h11", "trio")
        return Without(found, self.name) if ours else found

    def get_extra_info(self, info: str) -> object:
        return None if info == self.name else self.target.get_extra_info(info)


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes connections, and ways to them, without an attribute."""
    for backend in (httpcore.AnyIOBackend, httpcore.TrioBackend):
        connect = backend.connect_tcp

        async def connected(*args: Any, connect: Any = connect, **options: Any) -> Any:
            return Without(await connect(*args, **options), name)

        monkeypatch.setattr(backend, "connect_tcp", connected)


OF_ASYNCIO = ("_stream", "_protocol", "read_queue")  # trio reads no more than it is asked for


async def test_where_an_attribute_is_missing_the_connection_is_closed(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second request opens a new connection then; with all of them it doesn't."""
    for name in ["nothing", "socket", *OF_ASYNCIO]:
        with monkeypatch.context() as patches:
            without(name, patches)
            async with (
                serving(sends_each(RESPONSES["length"][0])) as server,
                server.provider(transport="httpx") as provider,
            ):
                for _ in range(2):
                    assert await said(provider, "first") == "first"
                kept = name == "nothing" or (anyio_backend_name == "trio" and name in OF_ASYNCIO)
                assert (name, server.connections) == (name, 1 if kept else 2)


async def test_a_transport_that_takes_no_pool_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of ours whose connections can't be guarded is looked at as one that was passed in."""
    monkeypatch.setattr(http_client_and_proxies, "guard_connections", lambda *_, **__: None)
    async with serving(sends_each(RESPONSES["length"][0])) as server, server.provider(transport="httpx") as provider:
        for _ in range(2):
            assert await said(provider, "first") == "first"
        assert server.connections == 1
    script = Misbehaving(RESPONSES["length"][0], STRAY, "same packet")
    async with serving(script) as server:
        assert await all_answers(server, script, "httpx") == ["first", "second", "third"]


class Bytes(httpx.AsyncByteStream):
    """The body of a response of httpx without an attribute, in it or further down."""

    def __init__(self, inner: Any, name: str) -> None:
        self.inner, self.name = inner, name

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self.inner)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def __getattr__(self, name: str) -> object:
        return getattr(Without(self.inner, self.name), name)


CHAIN = ["_httpcore_stream", "_stream", "_connection", "_h11_state", "trailing_data"]


def test_a_client_library_without_a_known_pool() -> None:
    """If httpx keeps its pool elsewhere, providers can't be made, rather than made without checked connections."""

    class AsyncHTTPTransport:
        pass

    with pytest.raises(ConfigError, match="connections can't be checked with this version of"):
        connection_reuse.guard_connections(
            AsyncHTTPTransport(), httpcore, ssl.create_default_context(), http2=False, proxy=None
        )


@each_row("name", ["nothing", "_protocol", "read_queue", *CHAIN])
async def test_where_an_attribute_of_a_client_that_was_passed_in_is_missing(
    name: str, anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, from the response to the connection below it."""

    class Hooked(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            response.stream = Bytes(response.stream, name)
            response.extensions["network_stream"] = Without(response.extensions["network_stream"], name)
            return response

    async with (
        serving(sends_each(RESPONSES["length"][0])) as server,
        httpx.AsyncClient(transport=Hooked()) as client,
    ):
        provider = Provider.from_config({"base_url": server.base_url, "model": "m"}, http_client=client)
        for _ in range(2):
            assert await said(provider, "first") == "first"
        kept = name == "nothing" or (anyio_backend_name == "trio" and name in OF_ASYNCIO[1:])
        assert server.connections == (1 if kept else 2)
