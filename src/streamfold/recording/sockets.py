"""TCP on loopback addresses, down to the socket: the streams of anyio can't reset a connection.

Closing one of those sends the orderly end first, so that a client never sees the reset that some faults are about.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from ..text import is_loopback
from ..values import ConfigError

_AT_ONCE = struct.pack("ii", 1, 0)  # lingering for no time: unsent data is discarded and the peer gets a RST


class Connection(ByteStream):
    """One accepted connection."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a piece is to arrive as a piece
        self._socket = accepted

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Bytes that came.

        Raises:
            anyio.EndOfStream: the client will send no more.
            anyio.BrokenResourceError: it left.
        """
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            except OSError as exc:
                raise anyio.BrokenResourceError from exc
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        """Sends all of it. Raises anyio.BrokenResourceError if the client left."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc

    async def send_eof(self) -> None:
        """Tells the client that nothing follows."""
        await anyio.lowlevel.checkpoint()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def gone(self) -> None:
        """Waits until the client will send no more, or has left."""
        try:
            while True:
                await self.receive()
        except anyio.EndOfStream:
            pass

    def reset(self) -> None:
        """Resets the connection: the client gets a RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._socket.close()

    async def aclose(self) -> None:
        self._socket.close()


@asynccontextmanager
async def serving(
    handler: Callable[[Connection], Awaitable[None]], host: str, port: int
) -> AsyncIterator[tuple[str, int]]:
    """Runs `handler` for each connection to a loopback address, as long as the context lasts. Yields host and port.

    Raises:
        ConfigError: it is not a loopback address.
        OSError: the port is taken.
    """
    if not is_loopback(host):
        raise ConfigError(f"recordings are served on loopback addresses such as 127.0.0.1 or ::1 only, not on {host!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failure: Exception | None = None
    with socket.create_server((host, port), family=family) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_accept, listener, handler)
            try:
                yield host, listener.getsockname()[1]
            except Exception as exc:
                failure = exc  # raised below: a task group would wrap the caller's own exception in a group
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _accept(listener: socket.socket, handler: Callable[[Connection], Awaitable[None]]) -> None:
    async def handle(connection: Connection) -> None:
        async with connection:
            await handler(connection)

    async with anyio.create_task_group() as tasks:
        while True:
            try:
                accepted, _ = listener.accept()
            except BlockingIOError:
                await anyio.wait_readable(listener)
            except ConnectionError:
                continue  # it left before it was served
            else:
                tasks.start_soon(handle, Connection(accepted))
