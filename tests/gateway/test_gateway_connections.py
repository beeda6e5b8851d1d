"""Connections that clients open and do not use, under uvicorn on loopback."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, fin, text
from gateways import CHAT, asking, served
from streamfold import Provider
from streamfold.gateway import gateway
from streamfold.gateway.connections import bounded_protocol, connections_for
from streamfold.recording import Recording, ReplayTransport

pytestmark = pytest.mark.one_loop  # uvicorn knows no other
HELLO = text("Hello") + fin("stop") + DONE


@asynccontextmanager
async def behind_uvicorn(**bounds: Any) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client of a gateway with these bounds under uvicorn, and its port."""
    transport = ReplayTransport([Recording("test", HELLO)])
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = gateway({"main": Provider.from_config({"base_url": "http://u/v1", "model": "m"}, http_client=upstream)})
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


def test_connections_fit_into_the_files_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each running request needs a connection to its provider too; where the system has no bound, ours counts."""
    resource = pytest.importorskip("resource", reason="Windows has no such bound")
    for files, expected in [(1024, 512), (400, 200), (256, 128), (1, 1), (resource.RLIM_INFINITY, 512)]:
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connections_for(512, 256) == expected
