"""A gateway that is killed, and started again: what it had of an answer is there, and says that it is not whole."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import Process

from folding import DONE, fin, text
from gateways import RESPONSES, is_listening
from servers import END, STREAM, Connection, framed, serving
from streamfold.deltas import TextDelta
from streamfold.serving.chat import ChatSerializer

pytestmark = pytest.mark.one_loop  # The gateway is a process of its own: one event loop for its client is enough


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[tuple[str, Process]]:
    """`streamfold serve` in a process of its own, which is killed at the end."""
    words = [sys.executable, "-c", "from streamfold.cli import main; main()", "serve", "-c", str(file), "--port", "0"]
    process = await anyio.open_process(words, env={**os.environ}, stderr=-2)
    said = b""
    assert process.stdout is not None
    try:
        with anyio.fail_after(30):
            while b"http://127.0.0.1:" not in said:
                said += await process.stdout.receive()
        yield f"http://127.0.0.1:{int(said.partition(b'http://127.0.0.1:')[2].split(b'/')[0].split()[0])}", process
    finally:
        with suppress(ProcessLookupError):  # it was killed before
            process.kill()
        await process.wait()
        await process.aclose()


async def never_ends(connection: Connection) -> None:
    """Says five words, and then nothing more."""
    await connection.request()
    serializer = ChatSerializer(id="a", model="m", created=1)
    pieces = [serializer.begin(), *(serializer.feed(TextDelta(f"word {at} ")) for at in range(5))]
    await connection.send(STREAM, *(framed(piece) for piece in pieces if piece))
    await connection.gone()


@pytest.mark.slow
async def test_kill_9_in_mid_answer(tmp_path: Path) -> None:
    """The events that a client has seen, and those that it has not, are there after a restart, and then a failure."""
    async with serving(never_ends) as upstream:
        file = tmp_path / "streamfold.toml"
        file.write_text(
            f'[providers.main]\nbase_url = "{upstream.base_url}"\nmodel = "m"\n'
            f'[gateway]\nresponses = "sqlite:///{tmp_path}/kept.db"\n'
        )
        seen: list[dict[str, Any]] = []
        async with running(file) as (address, process), httpx.AsyncClient(timeout=20) as client:
            body = {"model": "main", "input": "Hi", "stream": True, "store": True}
            with suppress(httpx.TransportError):
                async with client.stream("POST", f"{address}{RESPONSES}", json=body) as response:
                    async for line in response.aiter_lines():
                        seen += [json.loads(line[6:])] if line.startswith("data: ") else []
                        if "word 4" in line:
                            process.kill()
            assert "word 4" in str(seen[-1])
        path, number = f"{RESPONSES}/{seen[0]['response']['id']}", seen[3]["sequence_number"]
        async with running(file) as (address, _), httpx.AsyncClient(timeout=20) as client:
            params = {"stream": "true", "starting_after": number}
            lines = (await client.get(f"{address}{path}", params=params)).text.splitlines()
            rest = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
            now = (await client.get(f"{address}{path}")).json()
    numbers = [event["sequence_number"] for event in [*seen[:4], *rest]]
    assert numbers == list(range(len(numbers)))
    assert rest[: len(seen) - 4] == seen[4:]
    assert rest[-1] == {"type": "response.failed", "sequence_number": numbers[-1], "response": now}
    assert (now["status"], now["error"]["code"]) == ("failed", "server_error")
    assert now["output"][0]["content"][0]["text"] == "word 0 word 1 word 2 word 3 word 4 "
    assert now["output"][0]["status"] == "incomplete"


@pytest.mark.slow
@pytest.mark.parametrize("in_time", [True, False])
async def test_told_to_stop_it_finishes_what_nobody_waits_for(tmp_path: Path, *, in_time: bool) -> None:
    """An answer in the background is a running answer: it gets `shutdown` seconds, and fails if they are too few."""
    go_on = anyio.Event()

    async def waits(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hel")))
        await go_on.wait()
        await connection.send(framed(text("lo"), fin("stop"), DONE), END)

    async with serving(waits) as upstream:
        file = tmp_path / "streamfold.toml"
        file.write_text(
            f'[providers.main]\nbase_url = "{upstream.base_url}"\nmodel = "m"\n'
            f'[gateway]\nresponses = "sqlite:///{tmp_path}/kept.db"\nshutdown = {20 if in_time else 0.5}\n'
        )
        async with running(file) as (address, process), httpx.AsyncClient() as client:
            body = {"model": "main", "input": "Hi", "background": True}
            path = f"{RESPONSES}/{(await client.post(f'{address}{RESPONSES}', json=body)).json()['id']}"
            with anyio.fail_after(10):
                async with client.stream("GET", f"{address}{path}?stream=true") as events:
                    async for line in events.aiter_lines():
                        if "Hel" in line:
                            break
                process.terminate()
                while await is_listening(address):
                    await anyio.sleep(0.02)
                if in_time:
                    go_on.set()
                await process.wait()
        go_on.set()
        async with running(file) as (address, _), httpx.AsyncClient() as client:
            now = (await client.get(f"{address}{path}")).json()
    said = now["output"][0]["content"][0]["text"]
    assert (now["status"], said) == (("completed", "Hello") if in_time else ("failed", "Hel"))
