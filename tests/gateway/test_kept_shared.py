"""Kept responses that several processes share: each knows what the others make."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, asking, client_of
from servers import END, STREAM, Connection, framed, serving
from streamfold.gateway import gateway
from streamfold.gateway.kept import KeptResponse, SQLiteResponses
from streamfold.gateway.kept.events import KeptEvent
from streamfold.stores import SQLiteStore

BACKGROUND = asking(RESPONSES, background=True, store=True, stream=False)


@asynccontextmanager
async def two(folder: Path, go_on: anyio.Event) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Clients of two gateways with one file, and a provider that says "Hel", and "lo" when it may."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hel")))
        async with anyio.create_task_group() as tasks:

            async def gone() -> None:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await connection.gone()
                go_on.set()

            tasks.start_soon(gone)
            await go_on.wait()
            tasks.cancel_scope.cancel()
        await connection.send(framed(text("lo"), fin("stop"), DONE), END)

    kept = f"sqlite:///{folder}/kept.db"
    async with (
        serving(script) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, responses=kept) as one,
        gateway({"main": main}, responses=kept) as other,
        client_of(one) as first,
        client_of(other) as second,
    ):
        yield first, second


async def begun(client: httpx.AsyncClient) -> str:
    """The path of a response that is under way, and has begun."""
    path = f"{RESPONSES}/{(await client.post(RESPONSES, json=BACKGROUND)).json()['id']}"
    with anyio.fail_after(10):
        while (await client.get(path)).json()["status"] != "in_progress":
            await anyio.sleep(0.01)
    return path


async def test_an_answer_that_another_process_makes(tmp_path: Path) -> None:
    """It can be fetched and followed anywhere while it is made, and continued when it is there."""
    go_on = anyio.Event()
    async with two(tmp_path, go_on) as (first, second):
        path = await begun(first)
        assert (await second.get(path)).json()["status"] == "in_progress"
        followed: list[str] = []

        async def follow() -> None:
            followed.append((await second.get(path, params={"stream": "true"})).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.sleep(0.1)
            go_on.set()
        assert followed[0].count("event: response.completed") == 1
        assert '"delta":"Hel"' in followed[0].replace('": "', '":"')
        response = (await second.get(path)).json()
        assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "Hello")
        more = await second.post(RESPONSES, json=asking(RESPONSES, previous_response_id=response["id"]))
        assert more.status_code == 200


@pytest.mark.slow
async def test_an_answer_is_cancelled_by_another_process(tmp_path: Path) -> None:
    """Whoever makes it gives it up, and the client gets what had come of it."""
    async with two(tmp_path, anyio.Event()) as (first, second):
        path = await begun(first)
        response = (await second.post(f"{path}/cancel")).json()
        assert response["status"] == "cancelled"
        assert response["output"][0]["content"][0]["text"] == "Hel"
        assert (await first.get(path)).json() == response


async def test_an_answer_is_deleted_by_another_process(tmp_path: Path) -> None:
    """It is gone for everybody, and nobody goes on to make it."""
    async with two(tmp_path, anyio.Event()) as (first, second):
        path = await begun(first)
        assert (await second.delete(path)).json()["deleted"]
        assert (await first.get(path)).status_code == 404


async def test_a_process_that_is_gone(tmp_path: Path) -> None:
    """Only its answers are ended by the others, and those of one that runs are not."""
    path = tmp_path / "kept.db"
    one, other = SQLiteResponses(path), SQLiteResponses(path)
    for store, name in ((one, "a"), (other, "b")):
        await store.put(KeptResponse(name, "me", [], None, {"id": name, "status": "in_progress", "output": []}))
    assert await one.wanted("a")
    assert [getattr(await other.get(name, "me"), "ended", None) for name in "ab"] == [False, False]
    await one.aclose()
    found = await other.get("a", "me")
    assert found is not None
    assert found.response["status"] == "failed"
    assert not await other.wanted("a")
    assert await other.wanted("b")
    await other.cancel("b")
    assert not await other.wanted("b")
    await other.aclose()
    assert [found.name for found in tmp_path.iterdir() if found.suffix == ".lock"] == []


HAMMER = """
import sys, anyio
from streamfold.stores import SQLiteStore
from streamfold.gateway.kept import KeptResponse, SQLiteResponses
from streamfold.gateway.kept.events import KeptEvent

async def main(folder, name):
    turns, responses = SQLiteStore(folder + "/turns.db"), SQLiteResponses(folder + "/kept.db")
    for at in range(30):
        await turns.put("", {f"{name}-{at}": b"x"})
        kept = KeptResponse(f"{name}-{at}", "me", [], None, {"id": "a", "status": "in_progress", "output": []})
        await responses.put(kept)
        await responses.append(kept.id, [KeptEvent(0, b"x", True)], {**kept.response, "status": "completed"})
    await turns.aclose()
    await responses.aclose()

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.slow
def test_many_processes_open_a_file_at_once(tmp_path: Path) -> None:
    """None of them finds it locked, and what they write is all there."""
    names = "abc"
    processes = [subprocess.Popen([sys.executable, "-c", HAMMER, str(tmp_path), name]) for name in names]
    assert [process.wait(60) for process in processes] == [0] * len(names)
    anyio.run(check_all, tmp_path, names)


async def check_all(folder: Path, names: str) -> None:
    """Checks that everything is there that the processes of these names wrote."""
    turns, responses = SQLiteStore(folder / "turns.db"), SQLiteResponses(folder / "kept.db")
    written = [f"{name}-{at}" for name in names for at in range(30)]
    assert set(await turns.get("", written)) == set(written)
    for name in written:
        found = await responses.get(name, "me")
        assert found is not None
        assert found.ended
        assert await responses.events(name, -1) == [KeptEvent(0, b"x", True)]
    await turns.aclose()
    await responses.aclose()
