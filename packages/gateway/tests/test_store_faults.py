"""What a client sees while the store of responses can't be used: whole answers, at once, that can be referred to."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, client_of
from processes import free_port
from servers import END, STREAM, Connection, framed, serving
from streamfold.stores import SQLiteStore, Store, ValkeyStore, WriteBehindStore, open_store
from streamfold_gateway import Gateway, gateway
from streamfold_gateway.stored_responses import ResponseStore
from valkeys import ValkeyServer, valkey_program, valkey_server

# Stores run in threads, the same on both event loops.
pytestmark = [pytest.mark.slow, pytest.mark.one_loop]

LONGEST = 6.0  # seconds for an answer: the promise is a second and a half, and the machine may be busy
KINDS: list[dict[str, Any]] = [{}, {"stream": True}, {"store": True}, {"store": True, "stream": True}]


async def says_hello(connection: Connection) -> None:
    """A provider that says "Hello" in two pieces."""
    await connection.request()
    await connection.send(STREAM, *(framed(piece) for piece in (text("Hel"), text("lo"), fin("stop"), DONE)), END)


def asked(words: str, **members: Any) -> dict[str, Any]:
    return {"model": "main", "input": words, **members}


@asynccontextmanager
async def kept_in(where: str) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """A gateway that keeps responses there, and a client of it."""
    async with (
        serving(says_hello) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, turn_cache=False, responses=where) as app,
        client_of(app) as client,
    ):
        yield app, client


async def answer(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    """The response to a request, whole, and within the time that is promised."""
    with anyio.fail_after(LONGEST):
        made = await client.post(RESPONSES, json=asked("Hi", **members))
    assert made.status_code == 200, made.text
    if members.get("stream"):
        events = [json.loads(line[6:]) for line in made.text.splitlines() if line.startswith("data: ")]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.completed"
        assert "response_not_kept" not in made.text
        response: dict[str, Any] = events[-1]["response"]
    else:
        assert "x-streamfold-warnings" not in made.headers
        response = made.json()
    assert response["output"][0]["content"][0]["text"] == "Hello"
    return response


async def in_background(client: httpx.AsyncClient) -> str:
    """The id of a response that is made while nobody waits, when it is whole."""
    with anyio.fail_after(2 * LONGEST):
        response = (await client.post(RESPONSES, json=asked("Hi", background=True))).json()
        while response["status"] in ("queued", "in_progress"):
            await anyio.sleep(0.05)
            response = (await client.get(f"{RESPONSES}/{response['id']}")).json()
    assert response["status"] == "completed"
    return str(response["id"])


def behind_waiting(app: Gateway) -> Any:
    """The store that an app keeps responses in."""
    assert app._responses is not None
    assert isinstance(app._responses.store, WriteBehindStore)
    return app._responses.store.store


# --- an SQLite file ---------------------------------------------------------------------------------------------------

Fault = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[None]]


@contextmanager
def locked(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    """Another process writes, and does not end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield


def every_connection(change: Callable[[sqlite3.Connection, str], None]) -> Fault:
    """Something happens to each statement that writes."""

    class Changed(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> Any:
            if statement.startswith(("INSERT", "REPLACE", "UPDATE", "DELETE")):
                change(self, statement)
            return super().execute(statement, *values)

    @contextmanager
    def fault(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        connect = sqlite3.connect
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", lambda *args, **how: connect(*args, factory=Changed, **how))
            yield

    return fault


def full(database: sqlite3.Connection, _: str) -> None:
    sqlite3.Connection.execute(database, "PRAGMA max_page_count = 1")


def read_only(database: sqlite3.Connection, _: str) -> None:
    sqlite3.Connection.execute(database, "PRAGMA query_only = ON")


def slow(_: sqlite3.Connection, statement: str) -> None:
    time.sleep(0.05 if statement.startswith("INSERT") else 0)


@contextmanager
def corrupt(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    """The file has become something else; it is put right again."""
    aside = path.with_suffix(".aside")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.rename(aside)
    path.write_bytes(b"not a database, and long enough to be taken for one" * 200)
    try:
        yield
    finally:
        path.unlink()
        aside.rename(path)


FAULTS: dict[str, tuple[Fault, bool]] = {  # and whether what was kept before can be read
    "locked": (locked, True),
    "full": (every_connection(full), True),
    "read-only": (every_connection(read_only), True),
    "slow": (every_connection(slow), True),
    "corrupt": (corrupt, False),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_an_sqlite_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and nothing waits for long."""
    fault, readable = FAULTS[name]
    path = tmp_path / "kept.db"
    async with kept_in(f"sqlite:///{path}") as (app, client):
        before = await answer(client)
        await behind_waiting(app).aclose()  # whatever happens to the file happens to a new connection
        with fault(path, monkeypatch):
            ids = [(await answer(client, **members))["id"] for members in KINDS]
            ids.append(await in_background(client))
            for made in ids:
                await answer(client, previous_response_id=made)
            found = await client.get(f"{RESPONSES}/{before['id']}")
            assert (found.status_code, found.headers.get("retry-after")) == ((200, None) if readable else (503, "1"))
        await behind_waiting(app).aclose()
        await check_kept(SQLiteStore(path, table="responses"), [before["id"], *ids])


async def check_kept(store: Store, ids: list[str]) -> None:
    """Checks that responses are in a store, soon."""
    responses = ResponseStore(store, 2**20)
    with anyio.fail_after(20):
        for response_id in ids:
            while (kept := await responses.get(response_id, "")) is None or not kept.response["output"]:
                await anyio.sleep(0.1)
            assert kept.response["output"][0]["content"][0]["text"] == "Hello"
    await store.aclose()


async def test_many_clients_of_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not wait one behind the other, and take no threads that others need."""
    async with kept_in(f"sqlite:///{tmp_path}/kept.db") as (_, client):
        await answer(client)
        with locked(tmp_path / "kept.db", monkeypatch), anyio.fail_after(3 * LONGEST):
            async with anyio.create_task_group() as tasks:
                for _ in range(45):
                    tasks.start_soon(answer, client)
                await anyio.to_thread.run_sync(time.sleep, 0.01)


# --- several processes, and one that is killed ------------------------------------------------------------------------

WRITER = """
import sys, anyio
from streamfold.stores import StoreError, open_store

async def main(where, name):
    store = open_store(where)
    for at in range(10**9 if name == "killed" else 40):
        try:
            await store.put("me", {f"{name}-{at}": b"x" * 1000, f"{name}-{at}/part": b"y" * 1000})
        except StoreError:
            break
        print(at, flush=True)
    await store.aclose()

anyio.run(main, *sys.argv[1:])
"""


@contextmanager
def served(kind: str, folder: Path) -> Iterator[tuple[str, ValkeyServer | None]]:
    """The name of a store of that kind, and its server."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/kept.db", None
        return
    port = free_port()
    with valkey_server(folder, "--port", str(port), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield f"valkey://127.0.0.1:{port}", server


@pytest.mark.parametrize("kind", ["sqlite", "valkey"])
async def test_six_processes_open_a_new_store_at_once(kind: str, tmp_path: Path) -> None:
    """None of them finds it locked, and what they write is all there."""
    with served(kind, tmp_path) as (where, _):
        command = [sys.executable, "-c", WRITER, where]
        processes = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abcdef"]
        assert [process.communicate(timeout=120)[0].split()[-1] for process in processes] == ["39"] * 6
        store = open_store(where)
        for name in "abcdef":
            keys = [f"{name}-{at}" for at in range(40)]
            assert await store.get("me", keys) == dict.fromkeys(keys, b"x" * 1000)
        await store.aclose()


@pytest.mark.parametrize("kind", ["sqlite", "valkey"])
async def test_it_is_killed_in_mid_write(kind: str, tmp_path: Path) -> None:
    """Who writes a file, or the server: what was said to be kept is there, and everything there is whole."""
    with served(kind, tmp_path) as (where, server):
        command = [sys.executable, "-c", WRITER, where, "killed"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(30)]
            if server is None:
                process.kill()
            else:
                server.kill()
            lines += process.stdout.read().splitlines()
        if server is not None:
            server.start()
        store = open_store(where)
        for at in range(len(lines) + 1):
            found = await store.get("me", [f"killed-{at}", f"killed-{at}/part"])
            assert len(found) == 2 or (at == len(lines) and not found)
        await store.aclose()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "valkey"])
async def test_what_is_kept_is_damaged(kind: str, tmp_path: Path) -> None:
    """It counts as lost, whatever part of it that is; it stops nobody who asks for something else, or deletes it."""
    with served(kind, tmp_path) if kind != "memory" else nullcontext(("memory", None)) as (where, _):
        async with kept_in(where) as (app, client):
            assert app._responses is not None
            for part, damaged in itertools.product(("", "/state"), (b"", b"{", b"\xff", b"[]", b"{}", b"[" * 10**5)):
                made = (await answer(client, stream=True))["id"]
                await app._responses.store.put("", {made + part: damaged})
                path = f"{RESPONSES}/{made}"
                seen = [
                    await client.get(path),
                    await client.get(path, params={"stream": "true"}),
                    await client.get(f"{path}/input_items"),
                    await client.post(RESPONSES, json=asked("Hi", previous_response_id=made)),
                    await client.post(f"{path}/cancel"),
                    await client.delete(path),
                ]
                assert [found.status_code for found in seen] == [404, 404, 404, 400, 404, 404], (part, damaged)
            await answer(client)


# --- a Valkey server --------------------------------------------------------------------------------------------------


@contextmanager
def stopped(server: ValkeyServer, _: Any) -> Iterator[None]:
    """It does not answer."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def away(server: ValkeyServer, _: Any) -> Iterator[None]:
    """It is killed, and started again with what it had."""
    server.kill()
    yield
    server.start()


def configured(**settings: Any) -> Any:
    """It runs with other settings for a while."""

    @contextmanager
    def fault(_: ValkeyServer, client: Any) -> Iterator[None]:
        before = {name: client.config_get(name)[name] for name in settings}
        for name, value in settings.items():
            client.config_set(name, value)
        yield
        for name, value in before.items():
            client.config_set(name, value)

    return fault


async def test_a_server_that_takes_its_time(tmp_path: Path) -> None:
    """A call that takes less than a second and a half is waited for."""
    import valkey

    with valkey_server(tmp_path) as server:
        store, client = ValkeyStore(server.url), valkey.Valkey.from_url(server.url)
        await store.put("me", {"a": b"1"})
        client.client_pause(1100)
        assert await store.get("me", ["a"]) == {"a": b"1"}
        client.close()
        await store.aclose()


SERVER_FAULTS: dict[str, tuple[Any, bool]] = {
    "full": (configured(maxmemory=1), True),
    "read-only": (configured(**{"min-replicas-to-write": 1}), True),
    "stopped": (stopped, False),
    "away": (away, False),
}


@pytest.mark.parametrize("name", SERVER_FAULTS)
async def test_a_valkey_server(name: str, tmp_path: Path) -> None:
    """As with a file."""
    valkey_program()
    import valkey

    fault, readable = SERVER_FAULTS[name]
    port = free_port()
    server = ValkeyServer(tmp_path, "--port", str(port), "--appendonly", "yes", "--appendfsync", "always")
    server.start()
    where = f"valkey://127.0.0.1:{port}"
    try:
        async with kept_in(where) as (_, client):
            before = await answer(client)
            with valkey.Valkey.from_url(server.url) as admin, fault(server, admin):
                ids = [(await answer(client, **members))["id"] for members in KINDS]
                ids.append(await in_background(client))
                for made in ids:
                    await answer(client, previous_response_id=made)
                with anyio.fail_after(LONGEST):
                    found = await client.get(f"{RESPONSES}/{before['id']}")
                assert (found.status_code, found.headers.get("retry-after")) == (
                    (200, None) if readable else (503, "1")
                )
            await check_kept(ValkeyStore(where, table="responses"), [before["id"], *ids])
    finally:
        server.kill()
