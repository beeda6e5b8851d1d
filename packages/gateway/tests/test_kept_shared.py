"""Kept responses that several processes share: each knows what the others make."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, asking, client_of
from processes import free_port
from servers import END, STREAM, Connection, framed, serving
from streamfold.serving.responses import ResponsesSerializer
from streamfold.stores import MemoryStore, SQLiteStore
from streamfold_gateway import gateway
from streamfold_gateway.stored_responses import ResponseStore
from streamfold_gateway.stored_responses.recorder import BackgroundResponse, RecorderMemory
from streamfold_gateway.stored_responses.store import StoredResponse
from valkeys import valkey_server

BACKGROUND = asking(RESPONSES, background=True, store=True, stream=False)


@pytest.fixture(params=["sqlite", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where both gateways keep responses."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/kept.db"
        return
    with valkey_server(tmp_path, "--port", str(port := free_port())):
        yield f"valkey://127.0.0.1:{port}"


@asynccontextmanager
async def two(kept: str, go_on: anyio.Event) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Clients of two gateways with one store, and a provider that says "Hel", and "lo" when it may."""

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


@pytest.mark.slow
async def test_an_answer_that_another_process_makes(place: str) -> None:
    """It can be fetched and followed anywhere while it is made, and continued when it is there."""
    go_on = anyio.Event()
    async with two(place, go_on) as (first, second):
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
async def test_an_answer_is_cancelled_by_another_process(place: str) -> None:
    """Whoever makes it gives it up, and the client gets what had come of it."""
    async with two(place, anyio.Event()) as (first, second):
        path = await begun(first)
        response = (await second.post(f"{path}/cancel")).json()
        assert response["status"] == "cancelled"
        assert response["output"][0]["content"][0]["text"] == "Hel"
        assert (await first.get(path)).json() == response


@pytest.mark.slow
async def test_an_answer_is_deleted_while_it_is_made(place: str) -> None:
    """By its own process or by another one: it is gone for everybody, and nobody goes on to make it."""
    for number in range(2):
        async with two(place, anyio.Event()) as clients:
            path = await begun(clients[0])
            assert (await clients[number].delete(path)).json()["deleted"]
            assert [(await client.get(path)).status_code for client in clients] == [404, 404]
            assert (await clients[number].delete(path)).status_code == 404


async def test_a_process_that_is_gone(tmp_path: Path) -> None:
    """Only its answers are ended by the others, and those of one that runs are not."""
    stores = [SQLiteStore(tmp_path / "kept.db", present=True) for _ in range(2)]
    one, other = (ResponseStore(store, 1000) for store in stores)
    for responses, name in ((one, "a"), (other, "b")):
        response = {"id": name, "status": "in_progress", "output": []}
        kept = StoredResponse(name, "me", [], None, response)
        await responses.put(kept, json.dumps(response).encode(), ended=False)
    assert [getattr(await other.get(name, "me"), "ended", None) for name in "ab"] == [False, False]
    await one.aclose()
    found = await other.get("a", "me")
    assert found is not None
    assert (found.response["status"], [event.number for event in await other.events(found)]) == ("failed", [0])
    running = await other.get("b", "me")
    assert running is not None
    assert await other.pending_cancellation(running) is None
    await other.cancel(running)
    assert await other.pending_cancellation(running) == "cancelled"
    await other.delete("b", "me")
    await other.cancel(running)
    assert await other.pending_cancellation(running) == "deleted"
    assert await other.get("b", "me") is None
    await other.aclose()
    assert [found.name for found in tmp_path.iterdir() if found.suffix == ".lock"] == []


async def test_what_is_not_kept_yet_is_not_shown_either() -> None:
    """Else a client that asks one process and then another sees an answer go back."""
    puts, go_on = anyio.Event(), anyio.Event()

    class Slow(MemoryStore):
        async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
            puts.set()
            await go_on.wait()
            return await super().put(owner, values, new=new, ahead=ahead)

    kept = StoredResponse("resp_1", "me", [], None, {"status": "queued"})
    serializer = ResponsesSerializer(id="resp_1", model="m", records=True)
    serializer.begin()
    responses = ResponseStore(Slow(), 10**6)
    running = BackgroundResponse(responses, RecorderMemory(10**6), kept, serializer, background=True)
    running.record()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.save)
        await puts.wait()
        assert running.as_kept().response["status"] == "queued"
        go_on.set()
    assert running.as_kept().response["status"] == "in_progress"
