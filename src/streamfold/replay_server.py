"""A small HTTP server that answers with recordings, for whatever speaks HTTP and is not httpx.

`ReplayTransport` needs no socket and is what tests should use. This is for the other cases: a demonstration, a client
in another language, a test that means the socket. It listens on this machine only, knows two paths and one method, and
answers one request per connection, which is all that the client of a recorded answer can notice.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import responses
from ipaddress import ip_address

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream

from .errors import ConfigError
from .jsontext import parse_event
from .recording import Recording, Speed, answer_headers, paced

__all__ = ["serve_replay"]

_PATHS = ("/chat/completions", "/responses")
_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 64 * 1024 * 1024
_LINGER = 1.0  # seconds that a client has to take note of a refusal

# What a connection ends in whose client went away; there is nobody left to tell.
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@asynccontextmanager
async def serve_replay(
    recordings: Recording | Sequence[Recording],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    speed: Speed = "instant",
    cuts: str = "recorded",
) -> AsyncIterator[str]:
    """Serves recordings as long as the context lasts, and says at which base URL.

    A request whose `model` is the name of a recording, or the last part of one, gets that, as often as it asks. Other
    requests get the recordings in order, each once.

    Args:
        host: a loopback address; port: 0 takes a free one.
        speed, cuts: as in `paced`. Each piece is one HTTP chunk.

    Raises:
        ConfigError: an argument can't be used.
        OSError: the port is taken.
    """
    if not _is_loopback(host):
        raise ConfigError(f"recordings are served on loopback addresses such as 127.0.0.1 or ::1 only, not on {host!r}")
    served = [recordings] if isinstance(recordings, Recording) else list(recordings)
    if not served:
        raise ConfigError("no recording was given: there is nothing to serve")
    shelf = _Shelf([(recording, paced(recording, cuts, speed)) for recording in served])
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's extra, not Django's
    failure: Exception | None = None
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, shelf.answer)
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
        except Exception as exc:
            failure = exc  # raised below: a task group would wrap the caller's own exception in a group
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    body: bytes


class _BadRequest(Exception):
    """The request can't be read: the status to answer with, and why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Shelf:
    """The recordings, and which of them is next."""

    def __init__(self, answers: list[tuple[Recording, list[tuple[float, bytes]]]]) -> None:
        self._answers = answers
        self._served = 0

    async def answer(self, stream: ByteStream) -> None:
        """Reads one request, answers it, and closes the connection."""
        async with stream:
            try:
                await self._respond(stream)
            except _GONE:
                return  # one client less; the others are none of its business

    async def _respond(self, stream: ByteStream) -> None:
        try:
            request = await _receive(stream)
        except _BadRequest as exc:
            return await _send_error(stream, exc.status, str(exc))
        if request.method != "POST" or not request.path.endswith(_PATHS):
            paths = " or ".join(f"POST <anything>{path}" for path in _PATHS)
            return await _send_error(
                stream, HTTPStatus.NOT_FOUND, f"{request.method} {request.path} is not served here, {paths} is"
            )
        chosen = self._choose(request.body)
        if chosen is None:
            message = f"there are {len(self._answers)} recordings, and each was sent once; name one as the model"
            return await _send_error(stream, HTTPStatus.NOT_FOUND, message)
        return await _send(stream, *chosen)

    def _choose(self, body: bytes) -> tuple[Recording, list[tuple[float, bytes]]] | None:
        model = _model(body)
        for answer in self._answers:
            if model is not None and model in (answer[0].name, answer[0].name.rpartition("/")[2]):
                return answer
        if self._served == len(self._answers):
            return None
        self._served += 1
        return self._answers[self._served - 1]


async def _receive(stream: ByteStream) -> _Request:
    """One request. Raises _BadRequest if it can't be read."""
    buffered = BufferedByteReceiveStream(stream)
    try:
        head = await buffered.receive_until(b"\r\n\r\n", _HEAD_BYTES)
    except anyio.DelimiterNotFound as exc:
        raise _BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large") from exc
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
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
    return _Request(words[0], words[1].partition("?")[0], body)


async def _send(stream: ByteStream, recording: Recording, steps: Sequence[tuple[float, bytes]]) -> None:
    headers = {**answer_headers(recording), "transfer-encoding": "chunked"}
    await stream.send(_head(recording.status, headers))
    for delay, piece in steps:
        await anyio.sleep(delay)
        await stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    if not recording.broken:  # without the last chunk the client knows that there should be more
        await stream.send(b"0\r\n\r\n")


async def _send_error(stream: ByteStream, status: HTTPStatus, message: str) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}}).encode()
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


def _model(body: bytes) -> str | None:
    """The model that a request asks for; None if it has none, or is not JSON, which a recording does not mind."""
    try:
        request = parse_event(body.decode())
    except ValueError:
        return None
    model = request.get("model") if isinstance(request, dict) else None
    return model if isinstance(model, str) else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
