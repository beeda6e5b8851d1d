"""Any app in this process: asked without a network, or served by uvicorn on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx
import uvicorn


def client_of(app: Any) -> httpx.AsyncClient:
    """A client of an app in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")


@asynccontextmanager
async def served(app: Any, **settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, uvicorn.Server]]:
    """A client of an app that uvicorn serves on loopback, and the server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", **{"ws": "none", **settings})
        server = uvicorn.Server(config)
        port = listening.getsockname()[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            with anyio.fail_after(10):
                while not server.started:
                    await anyio.sleep(0.005)
            try:
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
                    yield client, server
            finally:
                server.should_exit = True


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """The address of an application that uvicorn serves on loopback, in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


async def is_listening(address: str) -> bool:
    """Whether a server accepts connections at a loopback address."""
    try:
        async with await anyio.connect_tcp("127.0.0.1", int(address.rpartition(":")[2])):
            return True
    except OSError:
        return False
