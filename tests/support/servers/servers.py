"""Servers on loopback that say exactly what a test wants, byte by byte, and know how many connections are open."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from streamfold import Provider

STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nx-request-id: req_1\r\n\r\n"
)
END = b"0\r\n\r\n"

transport = "httpx"  # that the providers of a test use: see `anyio_backend` in conftest.py


def framed(*bodies: bytes) -> bytes:
    """HTTP chunks, one for each body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)


def answer(status: str, body: bytes, *headers: str) -> bytes:
    """A whole response with a length."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n" + body


@dataclass
class Server:
    """What a server has seen."""

    port: int
    base_url: str
    connections: int = 0
    open: int = 0
    most_open: int = 0
    requests: list[bytes] = field(default_factory=list)

    def provider(self, **config: Any) -> Provider:
        """A provider for this server that never retries, over the transport of the test."""
        base = {"base_url": self.base_url, "model": "m", "max_retries": 0, "transport": transport}
        return Provider.from_config({**base, **config})

    async def all_closed(self) -> None:
        """Waits until no connection is open."""
        with anyio.fail_after(5):
            while self.open:
                await anyio.sleep(0.005)


@dataclass
class Connection:
    """One connection, on which a script talks."""

    stream: ByteStream
    server: Server

    async def request(self) -> bytes:
        """Reads a whole request."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self.stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lines[0]) if lines else 0  # a GET
        while len(body) < length:
            body += await self.stream.receive()
        self.server.requests.append(head + b"\r\n\r\n" + body)
        return body

    async def send(self, *data: bytes) -> None:
        for piece in data:
            await self.stream.send(piece)

    async def gone(self) -> None:
        """Waits until the client has closed the connection."""
        while True:
            await self.stream.receive()


def certificate(folder: Path) -> Path:
    """A certificate for loopback that signs itself, and its key beside it; skips the test if it can't be made."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    (folder / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
    return cert


Script = Callable[[Connection], Awaitable[None]]


def sends(*data: bytes) -> Script:
    """Reads a request, sends these bytes, and hangs up."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(*data)

    return script


def sends_each(*data: bytes) -> Script:
    """Reads requests, one after the other, and sends these bytes for each."""

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            await peer.send(*data)

    return script


def falls_silent(*data: bytes) -> Script:
    """Reads a request, sends these bytes, and then nothing until the client leaves."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(*data)
        await peer.gone()

    return script


@asynccontextmanager
async def serving(script: Script, port: int = 0) -> AsyncIterator[Server]:
    """A server that runs `script` for each connection, and closes it when the script returns."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    port = listener.extra(SocketAttribute.local_port)
    server = Server(port, f"http://127.0.0.1:{port}/v1")

    async def handle(stream: ByteStream) -> None:
        server.connections += 1
        server.open += 1
        server.most_open = max(server.most_open, server.open)
        try:
            async with stream:
                await script(Connection(stream, server))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client left, which is often what the test is about
        finally:
            server.open -= 1

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield server
        tasks.cancel_scope.cancel()
