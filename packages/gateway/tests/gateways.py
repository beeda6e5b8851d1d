"""A gateway for tests: in this process, or served by uvicorn on loopback, with a server of ours as its provider."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import Process

from served_apps import client_of, is_listening, served, serving_app
from servers import Connection, Script, Server, serving
from streamfold import Provider
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import Gateway, gateway

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
PATHS = {"chat": CHAT, "responses": RESPONSES}


def asking(path: str, question: str = "Hi", /, **members: Any) -> dict[str, Any]:
    """The body of a request for this path."""
    said: dict[str, Any] = (
        {"input": question} if path == RESPONSES else {"messages": [{"role": "user", "content": question}]}
    )
    return {"model": "main", **said, **members}


@asynccontextmanager
async def behind(
    *bodies: bytes | Recording, status: int = 200, headers: Mapping[str, str] | None = None, **rest: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway in this process, whose provider answers with these bodies, one for each request.

    Keys of `Provider.from_config` are for the provider, all others for the gateway. The client's `upstream` is the
    transport, with the requests that the provider got.
    """
    adapter = rest.pop("adapter", "chat")
    recordings = [
        body
        if isinstance(body, Recording)
        else Recording("test", body, adapter, status=status, headers=dict(headers or {}))
        for body in bodies
    ]
    transport = ReplayTransport(recordings)
    config = {"base_url": "http://upstream/v1", "model": "m-1", "max_retries": 0, "adapter": adapter}
    for name in ("api_key", "api_key_env", "dialect", "quirks", "name", "prices"):
        if name in rest:
            config[name] = rest.pop(name)
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = gateway({"main": Provider.from_config(config, http_client=upstream)}, **rest)
        async with client_of(app) as client:
            client.upstream = transport  # type: ignore[attr-defined]
            yield client


@asynccontextmanager
async def served_before(script: Script, **rest: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Server, Gateway]]:
    """A client of a gateway under uvicorn, and the server behind it that runs this script."""
    provider: dict[str, Any] = rest.pop("provider", {})
    settings: dict[str, Any] = rest.pop("uvicorn", {})
    async with serving(script) as upstream, upstream.provider(**provider) as main:
        app = gateway({"main": main}, **rest)
        async with served(app, **settings) as (client, _):
            yield client, upstream, app


@asynccontextmanager
async def serve_command(file: Path, **environment: str) -> AsyncIterator[tuple[str, bytearray, Callable[[], None]]]:
    """Runs `streamfold serve -c FILE` on a free port, and stops it as a service manager does.

    Gives its address, what it says, all of which is there at the end, and what tells it to stop before that.
    """
    async with running_command(file, **environment) as command:
        yield command.address, command.said, command.stop


@dataclass
class Command:
    """`streamfold serve` in a process of its own, with what it says, and the provider behind it if a test has one."""

    process: Process
    said: bytearray = field(default_factory=bytearray)
    changed: anyio.Event = field(default_factory=anyio.Event)
    upstream: Any = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{int(self.said.partition(b'http://127.0.0.1:')[2].split(b'/')[0].split()[0])}"

    @property
    def workers(self) -> list[int]:
        """The ids of the processes that have said that they serve, in their order."""
        return [int(found) for found in re.findall(rb"worker (\d+) is ready", self.said)]

    def stop(self, sig: int | None = None) -> None:
        """Tells it to stop, or something else, as a service manager does."""
        self.process.send_signal(sig or (signal.SIGTERM if os.name == "posix" else signal.SIGINT))

    async def read(self) -> None:
        """Reads what it says, to the end."""
        assert self.process.stdout is not None
        async for data in self.process.stdout:
            self.said += data
            changed, self.changed = self.changed, anyio.Event()
            changed.set()

    async def says(self, text: bytes, times: int = 1) -> None:
        """Waits until it has said something."""
        with anyio.fail_after(120):  # a busy machine starts a server slowly
            while self.said.count(text) < times:
                await self.changed.wait()


@asynccontextmanager
async def running_command(file: Path, *words: str, **environment: str) -> AsyncIterator[Command]:
    """Runs `streamfold serve -c FILE` on a free port, and stops it in order."""
    command = [sys.executable, "-c", "from streamfold.cli import main; main()", "serve", "-c", str(file), "--port", "0"]
    env = {**os.environ, **environment}
    async with anyio.create_task_group() as tasks:
        process = await anyio.open_process([*command, *words], env=env, stderr=subprocess.STDOUT)
        made = Command(process)
        tasks.start_soon(made.read)
        try:
            await made.says(b"http://127.0.0.1:")
            yield made
        finally:
            with suppress(ProcessLookupError):  # it was told so before
                made.stop()
            with anyio.fail_after(20):
                await process.wait()


__all__ = [
    "CHAT",
    "MESSAGES",
    "PATHS",
    "RESPONSES",
    "Command",
    "Connection",
    "asking",
    "behind",
    "client_of",
    "is_listening",
    "running_command",
    "serve_command",
    "served",
    "served_before",
    "serving_app",
]


def sent(client: Any, at: int = 0) -> dict[str, Any]:
    """What the provider was asked."""
    body: dict[str, Any] = json.loads(client.upstream.requests[at].content)
    return body
