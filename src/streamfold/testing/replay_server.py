"""An HTTP server on loopback that plays recordings, down to the reset of a TCP connection."""

from __future__ import annotations

import json
import math
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.client import responses
from textwrap import shorten

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ..errors import ConfigError, PicklableError
from ..faults import Fault
from ..recording import Match, RecordedRequest, RecordingSelector, ReplayedResponse, ReplayMismatch, Source, Speed
from ..urls import is_loopback

# TCP on loopback addresses, down to the socket: the streams of anyio can't reset a connection.
# Closing one of those sends the orderly end first, so that a client never sees the reset that some faults are
# about.

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


# A small HTTP server that answers with recordings, for clients that do not use httpx.
# Tests should use `ReplayTransport`, which needs no socket. The server is for demonstrations, clients in other
# languages and tests of sockets. It listens on loopback addresses only, serves the paths of the built-in wire
# formats, and answers one request per connection.

_PATHS = ("/chat/completions", "/responses", "/messages", ":streamGenerateContent", ":generateContent")
_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 64 * 1024 * 1024
_LINGER = 1.0  # seconds that a client has to take note of a refusal

# Errors of a connection whose client went away.
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@asynccontextmanager
async def serve_replay(
    source: Source,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    speed: Speed = "instant",
    cuts: str = "recorded",
    faults: Iterable[Fault] = (),
    match: Match = "order",
    ignore: Iterable[str | re.Pattern[str]] = (),
) -> AsyncIterator[str]:
    """Serves recordings as long as the context lasts. Yields the base URL.

    A request whose `model` is the name of a recording, or the last part of one, gets that, as often as it asks. Other
    requests get recordings according to `match`; one that does not match is refused with 400 and the difference.

    Args:
        source, match, ignore: as in `ReplayTransport`.
        host: a loopback address; port: 0 takes a free one.
        speed, cuts: as in `paced`. Each piece is one HTTP chunk.
        faults: what goes wrong, of `testing.faults`. A request that is sent again because a fault broke its answer
            off gets the same recording again.

    Raises:
        ConfigError: an argument can't be used.
        OSError: the port is taken.
    """
    server = _Server(RecordingSelector(source, speed=speed, cuts=cuts, faults=faults, match=match, ignore=ignore))
    async with serving(server.answer, host, port) as (_, taken):
        yield f"http://{f'[{host}]' if ':' in host else host}:{taken}/v1"


class _BadRequest(PicklableError):
    """The request can't be read: the status to answer with, and why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Server:
    """Reads requests and plays answers."""

    def __init__(self, store: RecordingSelector) -> None:
        self._store = store

    async def answer(self, connection: Connection) -> None:
        """Reads one request and answers it."""
        try:
            await self._respond(connection)
        except _GONE:
            return  # other clients are not affected

    async def _respond(self, connection: Connection) -> None:
        try:
            request = await _receive(connection)
        except _BadRequest as exc:
            return await _send_error(connection, exc.status, str(exc))
        if request.method != "POST" or not request.path.partition("?")[0].endswith(_PATHS):
            paths = " or ".join(f"POST <anything>{path}" for path in _PATHS)
            return await _send_error(
                connection, HTTPStatus.NOT_FOUND, f"{request.method} {request.path} is not served here, {paths} is"
            )
        try:
            answer = self._store.named(request.model) or self._store.answer(request)
        except ReplayMismatch as exc:
            return await _send_error(connection, HTTPStatus.BAD_REQUEST, str(exc), "replay_mismatch")
        if answer is None:
            names = shorten(", ".join(recording.name for recording in self._store.recordings), 400, placeholder=" ...")
            message = f"every recording was sent once; one that is named as the model is sent again: {names}"
            return await _send_error(connection, HTTPStatus.NOT_FOUND, message)
        return await _play(connection, answer)


async def _receive(stream: ByteStream) -> RecordedRequest:
    """One request. Raises _BadRequest if it can't be read."""
    buffered = BufferedByteReceiveStream(stream)
    try:
        head = await buffered.receive_until(b"\r\n\r\n", _HEAD_BYTES)
    except anyio.DelimiterNotFound as exc:
        raise _BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large") from exc
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    headers = dict(pairs)
    words = first.split()
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1 request")
    if "transfer-encoding" in headers:
        raise _BadRequest(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise _BadRequest(HTTPStatus.BAD_REQUEST, "the Content-Length is not a number")
    if int(length) > _BODY_BYTES:
        raise _BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")
    body = await buffered.receive_exactly(int(length)) if int(length) else b""
    return RecordedRequest(words[0], words[1], body, pairs)


async def _play(connection: Connection, answer: ReplayedResponse) -> None:
    ended = False
    try:
        await _pause(connection, answer.delay)
        if answer.status is None:
            return
        await connection.send(_head(answer.status, {**answer.headers, "transfer-encoding": "chunked"}))
        for step in answer.steps:
            await _pause(connection, step.delay)
            if step.data:
                await connection.send(b"%x\r\n%b\r\n" % (len(step.data), step.data))
            if step.ending == "end":  # without the last chunk the client knows that there should be more
                await connection.send(b"0\r\n\r\n")
                ended = True
            elif step.ending == "reset":
                connection.reset()
    finally:
        answer.broken = answer.broken or not ended


async def _pause(connection: Connection, seconds: float) -> None:
    """Waits. A client that leaves meanwhile ends it if it would not end by itself."""
    if seconds == math.inf:
        await connection.gone()
    else:
        await anyio.sleep(seconds)


async def _send_error(stream: ByteStream, status: HTTPStatus, message: str, code: str | None = None) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    await stream.send(_head(status, headers) + body)
    # The rest of a request that was not read to its end: closing on it would reset the connection, answer included.
    await stream.send_eof()
    with anyio.move_on_after(_LINGER):
        while True:
            await stream.receive()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {int(status)} {responses.get(status, '')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
