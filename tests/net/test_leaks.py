"""Streams that end early, in every way: no connection, no task, no memory and no complaint stays behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import httpx
import pytest

import scale
import servers
from folding import DONE, fin, text
from servers import STREAM, Connection, Server, answer, falls_silent, framed, serving
from streamfold import APITimeoutError, IncompleteStreamError, Provider, StreamfoldError, UpstreamError
from tables import each_row
from ways_to_leave import HELLO, WAYS, leave, read, trickling

HERE = Path(__file__).parent

# Of a bare `async for` that is left early.
ABANDONED = "Async generator 'streamfold.client.network_stream.NetworkStream.batches':ResourceWarning"


@pytest.mark.slow
@pytest.mark.transports
@pytest.mark.filterwarnings(f"ignore:{ABANDONED}")
async def test_streams_that_are_left_at_random() -> None:
    """Many streams, abandoned, left, closed by others or cancelled: all connections are closed, and the next works."""
    rng = random.Random(7)
    limiter = anyio.CapacityLimiter(15)

    async def one(provider: Provider) -> None:
        async with limiter:
            await leave(provider, rng)

    async with serving(trickling) as server, server.provider() as provider:
        async with anyio.create_task_group() as tasks:
            for _ in range(scale.pick(300, 75)):
                tasks.start_soon(one, provider)
        gc.collect()
        await server.all_closed()
        with anyio.fail_after(10):
            assert (await provider.chat("whole")).text == "Hi"
        assert server.open == 1  # which waits in the pool


@pytest.mark.transports
async def test_an_answer_leaves_no_garbage() -> None:
    """What was made for an answer goes with the last reference to it: nothing is left to the garbage collector."""
    async with serving(trickling) as server, server.provider() as provider:
        await provider.chat("whole")
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await provider.chat("whole")
            gc.collect()
            ours = [kind for item in gc.garbage if (kind := type(item)).__module__.startswith("streamfold.")]
            assert ours == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


@pytest.mark.transports
async def test_k1_a_handle_that_is_kept_keeps_nothing_open() -> None:
    """Streams that were left are closed although somebody still holds them, and their generators, in hand."""
    async with serving(trickling) as server, server.provider() as provider:
        kept = []
        for _ in range(5):
            async with provider.chat_stream("Hello") as stream:
                async for _ in stream:
                    break
            kept.append((stream, aiter(stream)))
        await server.all_closed()
        assert server.connections == len(kept)


async def test_k2_a_pool_that_is_full_is_named() -> None:
    """Only a client of one's own can have a pool that is too small, and then the error says so."""
    limits = httpx.Limits(max_connections=1)
    async with serving(trickling) as server, httpx.AsyncClient(limits=limits) as client:
        config = {"base_url": server.base_url, "model": "m", "max_retries": 0, "timeouts": {"connect": 0.2}}
        provider = Provider.from_config(config, http_client=client)
        async with provider.chat_stream("Hello", timeouts={"connect": 30}) as stream:
            await anext(stream)
            with pytest.raises(APITimeoutError, match="no free connection in the pool") as caught:
                await provider.chat("Hello")
        assert (caught.value.phase, caught.value.retryable) == ("connect", True)
        assert (await provider.chat("whole", timeouts={"connect": 30})).text == "Hi"


SCRIPT = """
import gc, random
import anyio
from servers import serving
import servers
from ways_to_leave import WAYS, leave, trickling

servers.transport = {transport!r}

async def main():
    rng = random.Random(3)
    async with serving(trickling) as server, server.provider() as provider:
        for _ in range(40):
            await leave(provider, rng, WAYS[:{ways}])
        gc.collect()
        await server.all_closed()
        await provider.chat("whole")
        if "abandon" in WAYS[:{ways}]:
            stream = provider.chat_stream("Hello")  # and one that is open when everything ends
            await anext(stream)

anyio.run(main, backend={backend!r}, backend_options={options!r})
gc.collect()
"""
RUNS = [
    ("asyncio", {}, "httpx"),
    ("asyncio", {"use_uvloop": True}, "httpx"),
    ("asyncio", {}, "aiohttp"),
    ("asyncio", {"use_uvloop": True}, "aiohttp"),
    ("trio", {}, "httpx"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "options", "transport"), scale.some(RUNS, 2))
def test_nothing_is_said_at_the_end(backend: str, options: dict[str, Any], transport: str) -> None:
    """A program whose streams were left in every way ends without a word on stderr, with every warning an error."""
    if options:
        pytest.importorskip("uvloop")
    ways = -1 if backend == "trio" else len(WAYS)  # trio complains of a bare `async for` that is left early
    script = SCRIPT.format(backend=backend, options=options, transport=transport, ways=ways)
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONASYNCIODEBUG": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    said = [line for line in run.stderr.splitlines() if not line.startswith("Executing <")]  # slow, says asyncio
    assert (run.returncode, said) == (0, [])


class InMemory(httpx.AsyncBaseTransport):
    """Answers with these bodies in turn, and remembers nothing."""

    def __init__(self, *bodies: bytes) -> None:
        self._bodies = itertools.cycle(bodies)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Pieces(next(self._bodies)))


class Pieces(httpx.AsyncByteStream):
    """A body in pieces, without a generator that somebody would have to end."""

    def __init__(self, body: bytes) -> None:
        self._pieces = iter([body[at : at + 50] for at in range(0, len(body), 50)])

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


@pytest.mark.slow
async def test_streams_in_a_row_do_not_grow() -> None:
    """What a stream took is given back: many of them leave not one object each."""
    broken = text("Hi") + b'data: {"error":{"message":"full","code":503}}\n\n'

    async def some(provider: Provider, number: int) -> None:
        for _ in range(number):
            for ends in (None, UpstreamError, IncompleteStreamError):
                with pytest.raises(ends) if ends else nullcontext():
                    await read(provider.chat_stream("Hello"))
                await anyio.lowlevel.checkpoint()  # an event loop forgets its timers when it runs

    async with httpx.AsyncClient(transport=InMemory(HELLO, broken, text("Hi"))) as client:
        provider = Provider.from_config(
            {"base_url": "http://test/v1", "model": "m", "max_retries": 0}, http_client=client
        )
        number = scale.pick(200, 60)
        await some(provider, 50)
        before = objects()
        await some(provider, number)
        assert objects() - before < number


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.slow
@pytest.mark.transports
async def test_k15_a_slow_reader_holds_the_server_back() -> None:
    """What the reader does not ask for stays with the server, but for what fits into the buffers of two sockets."""
    piece = framed(text("x" * 2**16))
    sent = 0

    async def script(peer: Connection) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(STREAM)
        while sent < 2**28:
            await peer.send(piece)
            sent += len(piece)

    async with serving(script) as server, server.provider() as provider:
        async with provider.chat_stream("Hello") as stream:
            first = (await anext(stream)).delta
            assert first in ["x" * 2**16 * events for events in (1, 2, 3, 4)]  # as many as one read of a socket holds
            seen = -1
            with anyio.fail_after(60):
                while seen != sent:  # until the server can't send any more
                    seen = sent
                    await anyio.sleep(0.3)
            assert sent < 2**25
        await server.all_closed()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_k8_one_event_loop_after_the_other(backend: str) -> None:
    """A provider works in each of them: its connections are closed when their loop ends, without a warning."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(trickling)) as server,
    ):
        provider = server.provider()

        async def ask() -> str:
            return (await provider.chat("whole")).text

        for _ in range(3):
            assert anyio.run(ask, backend=backend) == "Hi"
            gc.collect()
        portal.call(server.all_closed)


@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_k8_a_loop_that_was_closed_without_its_generators() -> None:
    """Where a program runs a loop by hand, the connections go with it, Python says so, and the next loop works."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(trickling)) as server,
    ):
        _ask_in_two_loops(server)
        for _ in range(2):  # here, where the warnings are expected; what lets go of a session is collected first
            gc.collect()


def _ask_in_two_loops(server: Server) -> None:
    provider = server.provider()

    async def ask() -> str:
        return (await provider.chat("whole")).text

    for _ in range(2):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask()) == "Hi"
        loop.close()


def test_k8_two_event_loops_at_once() -> None:
    """Connections can't change loops: the second one is told so, as long as the first one runs."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(trickling)) as server,
    ):
        provider = server.provider()

        async def ask() -> str:
            return (await provider.chat("whole")).text

        assert portal.call(ask) == "Hi"
        with pytest.raises(StreamfoldError, match="on another event loop"):
            asyncio.run(ask())
        portal.call(provider.aclose)
        assert asyncio.run(ask()) == "Hi"


async def test_a_client_that_is_closed_is_told() -> None:
    """A client that was passed in and closed is an error of ours that says so."""
    client = httpx.AsyncClient()
    await client.aclose()
    provider = Provider.from_config({"base_url": "http://test/v1", "model": "m"}, http_client=client)
    with pytest.raises(StreamfoldError, match="http_client that was passed to it is closed"):
        await provider.chat("Hello")


# --- where a stream can be when it is closed or cancelled -------------------------------------------------------------

mute, headed, begun = falls_silent(), falls_silent(STREAM), falls_silent(STREAM, framed(text("one")))


async def done(peer: Connection) -> None:
    """The answer is whole, and the body does not end."""
    await peer.request()
    await peer.send(STREAM, framed(HELLO))
    await peer.gone()


async def refused(peer: Connection) -> None:
    """An error status whose body does not end."""
    await peer.request()
    await peer.send(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n", framed(b"no"))
    await peer.gone()


async def busy(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("503 Busy", b"{}", "retry-after: 50"))


WHERE = [mute, headed, begun, refused, busy]


async def waiting_at(server: servers.Server) -> None:
    """Until the request has come, and what the server says to it has been read."""
    with anyio.fail_after(10):
        while not server.requests:
            await anyio.sleep(0.002)
    await anyio.sleep(0.03)


@pytest.mark.transports
@each_row("script", WHERE, ids=lambda script: script.__name__)
async def test_k11_closed_by_two_tasks_while_it_waits(script: Callable[[Connection], Awaitable[None]]) -> None:
    """Wherever it waits: two tasks may close it at once, the reader sees the end, and it may be closed again."""
    async with serving(script) as server, server.provider(max_retries=1) as provider:
        stream = provider.chat_stream("Hello")
        got: list[str] = []

        async def reader() -> None:
            async for chunk in stream:
                got.append(chunk.delta)

        with anyio.fail_after(8):  # the body of an error status would be waited for longer
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reader)
                await waiting_at(server)
                tasks.start_soon(stream.aclose)
                tasks.start_soon(stream.aclose)
            await stream.aclose()
        assert got == (["one"] if script is begun else [])
        with pytest.raises(StreamfoldError, match="no reply yet"):
            _ = stream.reply
        assert [chunk async for chunk in stream] == []
        await server.all_closed()


@pytest.mark.transports
@each_row("script", [begun, done], ids=lambda script: script.__name__)
async def test_k11_closed_by_two_tasks_while_nobody_reads(script: Callable[[Connection], Awaitable[None]]) -> None:
    """Between two chunks and between the end of the answer and the end of the body: two tasks may close it at once."""
    async with serving(script) as server, server.provider() as provider:
        stream = provider.chat_stream("Hello")
        while not (chunk := await anext(stream)).delta and not chunk.finished:
            pass
        if script is done:
            while not chunk.finished:
                chunk = await anext(stream)
        with anyio.fail_after(8):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(stream.aclose)
        if script is done:
            assert stream.reply.text == "Hi"
        await server.all_closed()


@pytest.mark.transports
@each_row("script", [*WHERE, done], ids=lambda script: script.__name__)
async def test_k10_a_cancellation_goes_through(script: Callable[[Connection], Awaitable[None]]) -> None:
    """Wherever it arrives: never an error of ours, never a retry, and the connection is closed."""
    async with serving(script) as server, server.provider(max_retries=3) as provider:
        left: list[str] = []

        async def reader() -> None:
            try:
                await read(provider.chat_stream("Hello"))
                left.append("read to the end")
            except BaseException as exc:
                left.append(type(exc).__name__)
                raise

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await waiting_at(server)
            tasks.cancel_scope.cancel()
        assert left in (["CancelledError"], ["Cancelled"]) or script is done
        await server.all_closed()
        assert len(server.requests) == 1


@each_row("script", [*WHERE, done], ids=lambda script: script.__name__)
def test_k10_a_task_that_is_cancelled_natively(script: Callable[[Connection], Awaitable[None]]) -> None:
    """asyncio's own `task.cancel()` is raised as it is, leaves the count of cancellations alone, and closes."""

    async def main() -> None:
        async with serving(script) as server, server.provider(max_retries=3) as provider:
            task = asyncio.create_task(read(provider.chat_stream("Hello")))
            await waiting_at(server)
            if task.cancel("mine"):
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert task.cancelled()
                assert task.cancelling() == 1
            await server.all_closed()
            assert len(server.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize("how", ["cancel", "aclose"])
def test_k11_ended_at_every_turn_of_the_event_loop(how: str) -> None:
    """However far a request has come when it is cancelled or closed: its connection does not stay open."""

    async def main() -> None:
        async with serving(mute) as server, server.provider() as provider:
            for turns in range(80):
                stream = provider.chat_stream("Hello")
                task = asyncio.create_task(read(stream))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel() if how == "cancel" else await stream.aclose()
                await asyncio.wait([task], timeout=10)
                assert task.cancelled() == (how == "cancel")
            await server.all_closed()

    asyncio.run(main())


def test_k10_a_cancellation_and_a_clock_at_once() -> None:
    """A cancellation that comes together with a clock or with `aclose` is not lost in it."""

    async def main(together: Callable[[Any], Awaitable[None]], **clocks: float) -> None:
        async with serving(begun) as server, server.provider(timeouts=clocks) as provider:
            stream = provider.chat_stream("Hello")
            task = asyncio.create_task(read(stream))
            await waiting_at(server)
            task.cancel()
            await together(stream)
            with pytest.raises(asyncio.CancelledError):
                await task
            await stream.aclose()
            await server.all_closed()

    asyncio.run(main(lambda stream: stream.aclose()))
    asyncio.run(main(lambda _: asyncio.sleep(0)))


@pytest.mark.slow
@pytest.mark.transports
async def test_a_request_that_is_cancelled_while_it_is_sent() -> None:
    """Nothing is left of it, and the next request has a connection of its own."""

    async def script(peer: Connection) -> None:
        if peer.server.connections == 1:
            await peer.stream.receive(1000)
            begun.set()
            await anyio.sleep_forever()
        await peer.request()
        await peer.send(answer("200 OK", text("Hi") + fin("stop") + DONE))

    for transport in (servers.transport, "httpx2"):
        begun = anyio.Event()
        async with serving(script) as server, server.provider(transport=transport) as provider:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(provider.chat, "x" * 2**24)
                await begun.wait()
                tasks.cancel_scope.cancel()
            gc.collect()
            assert (await provider.chat("Hello")).text == "Hi"
            assert server.connections == 2
