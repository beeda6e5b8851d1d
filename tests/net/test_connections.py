"""Connections are reused at any number of streams, on both transports and behind the gateway."""

from __future__ import annotations

import asyncio

import anyio
import httpx
import pytest

import servers
from folding import DONE, fin, text
from servers import END, STREAM, Connection, falls_silent, framed, serving
from streamfold.net import connection_reuse
from tables import each_row

pytestmark = pytest.mark.transports


async def answers(peer: Connection) -> None:
    """Answers one request after the other on the same connection, each with a short pause in the middle."""
    while True:
        await peer.request()
        await peer.send(STREAM, framed(text("Hi")))
        await anyio.sleep(0.02)
        await peer.send(framed(fin("stop") + DONE), END)


async def many(ask, at_once: int, rounds: int = 3) -> None:
    """Asks with so many tasks at once, each one question after the other."""

    async def one() -> None:
        for _ in range(rounds):
            assert await ask() == "Hi"

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(one)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [10, 100])
async def test_no_more_connections_than_streams_at_once(at_once: int) -> None:
    """The server counts at most as many connections as there are streams at once, however many requests there are."""
    async with serving(answers) as server, server.provider(timeouts={"connect": 30}) as provider:

        async def ask() -> str:
            return (await provider.chat("Hello")).text

        await many(ask, at_once)
        assert len(server.requests) == 3 * at_once
        assert server.connections <= at_once


@pytest.mark.thorough
async def test_a_thousand_streams_at_once() -> None:
    """The same at 1,000 streams."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        await test_no_more_connections_than_streams_at_once(1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_an_unused_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a burst, connections that were idle for some seconds are closed by the next request."""
    monkeypatch.setattr(connection_reuse, "KEEPALIVE_EXPIRY", 0.05)
    own = "httpx2" if servers.transport == "httpx2" else "httpx"  # aiohttp has a timer for that
    async with serving(answers) as server, server.provider(transport=own) as provider:

        async def ask() -> str:
            return (await provider.chat("Hello")).text

        await many(ask, 20, rounds=1)
        assert server.connections == 20
        await anyio.sleep(0.1)
        await ask()
        with anyio.fail_after(5):
            while server.open > 1:
                await anyio.sleep(0.005)


@pytest.mark.slow
async def test_no_more_connections_through_the_gateway() -> None:
    """The gateway needs no more connections to the provider than it has streams at once."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    async with serving(answers) as server, server.provider() as provider:
        app = gateway({"main": provider})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:

            async def ask() -> str:
                body = {"model": "main", "messages": [{"role": "user", "content": "Hello"}]}
                response = await client.post("/v1/chat/completions", json=body, timeout=30)
                return str(response.json()["choices"][0]["message"]["content"])

            await many(ask, 50)
        assert server.connections <= 50


@pytest.mark.one_loop
@each_row("ticks", range(5))
async def test_a_reader_that_is_cancelled_while_the_stream_is_closed(ticks: int) -> None:
    """The connection is closed, however soon after the cancellation of its reader `aclose` is called."""
    async with serving(falls_silent(STREAM, framed(text("Hel")))) as server, server.provider() as provider:
        stream = provider.chat_stream("Hi")
        await anext(stream)

        async def read() -> None:
            await anext(stream)

        reading = asyncio.create_task(read())
        await anyio.wait_all_tasks_blocked()
        reading.cancel()
        for _ in range(ticks):
            await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await server.all_closed()
