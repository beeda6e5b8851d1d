"""Many answers at once and many in a row, over real sockets: each comes out right, and nothing of it is kept."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

import scale
import servers
from folding import DONE, call, entry, fin, text
from servers import END, STREAM, Connection, framed, serving
from streamfold import Provider, Reply

pytestmark = pytest.mark.transports


@pytest.fixture
def many_sockets() -> Iterator[None]:
    """Room for 2,000 sockets: this process holds both ends of each connection."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < 4000:
        pytest.skip(f"no more than {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def begun(number: int) -> bytes:
    return framed(text(f"{number}: Grü"), call(entry(0, f"a{number}", "f", '{"x":')), call(entry(1, "b", "g", "{")))


def ended(number: int) -> bytes:
    return framed(text("ße"), call(entry(1, arguments="}")), call(entry(0, arguments=f"{number}}}")), fin("stop"), DONE)


def said(reply: Reply) -> tuple[str, list[tuple[str, Any]]]:
    return reply.text, [(made.id, made.arguments) for made in reply.tool_calls]


@pytest.mark.slow
@pytest.mark.usefixtures("many_sockets")
async def test_a_thousand_at_once(anyio_backend_name: str) -> None:
    """All of them are open at the same time, with half an answer each, and each ends with its own text and calls."""
    streams = scale.pick(1000, 200) if (anyio_backend_name, servers.transport) == ("asyncio", "httpx") else 100
    go_on, halves, replies = anyio.Event(), 0, {}

    async def script(peer: Connection) -> None:
        number = int(json.loads(await peer.request())["model"])
        await peer.send(STREAM, begun(number))
        await go_on.wait()
        await peer.send(ended(number), END)

    async def ask(provider: Provider, number: int) -> None:
        nonlocal halves
        async with provider.chat_stream("Hello", model=str(number)) as stream:
            await anext(stream)
            halves += 1
            if halves == streams:
                go_on.set()
            async for _ in stream:
                pass
        replies[number] = said(stream.reply)

    async with serving(script) as server:
        # A thousand handshakes at once are more than a backlog holds, and the system takes its time with the rest.
        async with server.provider(timeouts={"connect": 60}) as provider, anyio.create_task_group() as tasks:
            for number in range(streams):
                tasks.start_soon(ask, provider, number)
            await go_on.wait()
            assert server.open == streams
        await server.all_closed()
    assert replies == {
        number: (f"{number}: Grüße", [(f"a{number}", {"x": number}), ("b", {})]) for number in range(streams)
    }


@pytest.mark.slow
async def test_hundreds_in_a_row() -> None:
    """One connection serves them all, and nothing of them is kept.

    Caches that fill up now and then are no leak, nor are timers of asyncio, which forgets a hundred of them at a time:
    that would show in every hundred.
    """
    hundreds = scale.pick(5, 3)
    whole = begun(7) + ended(7) + END

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            peer.server.requests.clear()
            await peer.send(STREAM + whole)

    async with serving(script) as server, server.provider() as provider:
        in_use = []
        for _ in range(hundreds):
            for _ in range(100):
                assert said(await provider.chat("Hello")) == ("7: Grüße", [("a7", {"x": 7}), ("b", {})])
            in_use.append(blocks())
        assert min(after - before for before, after in pairwise(in_use)) < 100
        assert server.connections == 1


def blocks() -> int:
    """How many blocks of memory Python has given out, without garbage."""
    gc.collect()
    return sys.getallocatedblocks()
