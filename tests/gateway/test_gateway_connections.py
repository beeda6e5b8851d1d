"""Connections that clients open and do not use, under uvicorn on loopback."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import CHAT, MESSAGES, asking, served
from streamfold import Provider
from streamfold.gateway import gateway
from streamfold.gateway.connections import bounded_protocol, connections_for
from streamfold.recording import Recording, ReplayTransport

pytestmark = pytest.mark.one_loop  # uvicorn knows no other
HELLO = text("Hello") + fin("stop") + DONE


@asynccontextmanager
async def behind_uvicorn(
    *, max_body_bytes: int = 32_000_000, **bounds: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client of a gateway with these bounds under uvicorn, and its port."""
    transport = ReplayTransport([Recording("test", HELLO)])
    async with httpx.AsyncClient(transport=transport) as upstream:
        main = Provider.from_config({"base_url": "http://u/v1", "model": "m"}, http_client=upstream)
        app = gateway({"main": main}, max_body_bytes=max_body_bytes)
        async with served(app, http=bounded_protocol(**bounds)) as (client, _):
            assert client.base_url.port is not None
            yield client, client.base_url.port


async def is_closed(client: socket.socket, within: float = 5.0) -> bool:
    with anyio.move_on_after(within):
        while True:
            try:
                if not client.recv(1):
                    return True
            except BlockingIOError:
                await anyio.sleep(0.01)
            except ConnectionError:
                return True
    return False


def connected(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(sent)
    client.setblocking(False)
    return client


@pytest.mark.parametrize("sent", [b"", b"POST /v1/ch", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"])
async def test_adversary_38_a_head_that_does_not_come(sent: bytes) -> None:
    """A connection that waits for its request, for the first or for another, is closed after a while."""
    async with behind_uvicorn(head_timeout=0.1, max_connections=100) as (client, port):
        with connected(port, sent) as waiting:
            assert await is_closed(waiting)
        assert (await client.get("/healthz")).status_code == 200


async def test_adversary_38_connections_are_bounded() -> None:
    """When all are taken, the one that has waited longest for its request makes room; nobody in an answer does."""
    async with behind_uvicorn(head_timeout=60, max_connections=5) as (client, port):
        waiting = [connected(port, b"POST /v1/ch") for _ in range(12)]
        try:
            assert (await client.post(CHAT, json=asking(CHAT))).status_code == 200
            assert [await is_closed(each, 0.5) for each in waiting[:8]] == [True] * 8
            assert not await is_closed(waiting[-1], 0.05)
        finally:
            for each in waiting:
                each.close()


async def test_a_connection_too_many_is_told_so() -> None:
    """Connections that have just been opened are not closed without a word: their requests get a 503, with a reason."""
    async with behind_uvicorn(head_timeout=60, max_connections=3) as (client, port):
        opened = [connected(port, b"") for _ in range(4)]
        try:
            refused = await client.post(CHAT, json=asking(CHAT))
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert not any([await is_closed(each, 0.01) for each in opened])
        finally:
            for each in opened:
                each.close()
        with anyio.fail_after(5):
            while (await client.post(CHAT, json=asking(CHAT))).status_code != 200:
                await anyio.sleep(0.01)


@pytest.mark.parametrize(("path", "status", "kind"), [(CHAT, 503, "code"), (MESSAGES, 529, "type")])
async def test_the_reason_is_in_the_form_of_the_api(path: str, status: int, kind: str) -> None:
    """As any other refusal of the gateway."""
    app = gateway({"main": {"base_url": "http://u/v1", "model": "m"}})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app.refuse_connection), base_url="http://x") as client:
        refused = await client.post(path)
    assert (refused.status_code, refused.headers["retry-after"]) == (status, "1")
    error = refused.json()["error"]
    assert error["message"] == "too many connections are open; try again later"
    assert error[kind] in ("overloaded", "overloaded_error")


@pytest.mark.parametrize("size", [100_000, 3_000_000])
async def test_a_body_that_is_too_large_gets_its_answer(size: int) -> None:
    """Whoever is still sending it reads the 413, and may ask again on the same connection: the rest is dropped."""
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    async with behind_uvicorn(head_timeout=60, max_connections=5, max_body_bytes=1000) as (_, port):
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with stream:
            await stream.send(head % (CHAT.encode(), size))
            answers = await stream.receive()
            assert answers.startswith(b"HTTP/1.1 413 ")
            for _ in range(size // 10_000):
                await stream.send(b"x" * 10_000)
            await stream.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with anyio.fail_after(5):
                while b"HTTP/1.1 200 " not in answers:
                    answers += await stream.receive()


async def test_a_head_without_end() -> None:
    """It is refused at 64 KiB, whichever library reads it."""
    async with behind_uvicorn(head_timeout=60, max_connections=5) as (_, port):
        with connected(port, b"GET / HTTP/1.1\r\nX: ") as client:
            with contextlib.suppress(OSError):
                for _ in range(20):
                    client.sendall(b"x" * 8192)
                    await anyio.sleep(0.01)
            assert await is_closed(client)


def test_connections_fit_into_the_files_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each running request needs a connection to its provider too; where the system has no bound, ours counts."""
    resource = pytest.importorskip("resource", reason="Windows has no such bound")
    for files, expected in [(1024, 512), (400, 200), (256, 128), (1, 1), (resource.RLIM_INFINITY, 512)]:
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connections_for(512, 256) == expected
