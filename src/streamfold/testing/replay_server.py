"""An HTTP server on a loopback address that replays recordings, and can reset TCP connections.

The server is for demonstrations and for clients that don't use httpx. For httpx clients, use `ReplayTransport`. Each
connection has its own thread and serves one request.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from http.client import responses
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from textwrap import shorten
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread

from ..errors import ConfigError
from ..faults import Fault
from ..recording import Match, RecordedRequest, RecordingSelector, ReplayedResponse, ReplayMismatch, Source, Speed
from ..urls import is_loopback

_PATHS = ("/chat/completions", "/responses", "/messages", ":streamGenerateContent", ":generateContent")
_BODY_BYTES = 64 * 1024 * 1024
_LINGER = 1.0  # seconds that a client has to read a refusal
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 seconds: unsent data is discarded, and the client gets a RST


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
    """An async context manager that serves recordings over HTTP. The context manager's `as` value is the server's
    base URL.

    If a request's `model` is the name of a recording, or the last part of that name, the server sends this recording,
    any number of times. For other requests, the server chooses a recording according to `match`. If no recording
    matches a request, the server sends a 400 error with the differences.

    Args:
        source, speed, cuts, faults, match, ignore: see `ReplayTransport`. Each piece of a body is sent as one HTTP
            chunk.
        host: the loopback address on which the server listens.
        port: the port; 0 chooses a free port.

    Raises:
        ConfigError: an argument is invalid.
        OSError: another process uses the port.
    """
    store = RecordingSelector(source, speed=speed, cuts=cuts, faults=faults, match=match, ignore=ignore)
    if not is_loopback(host):
        raise ConfigError(f"recordings are served on loopback addresses such as 127.0.0.1 or ::1 only, not on {host!r}")
    server = _Server(host, port, store)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}/v1"
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(server.stop)


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, store: RecordingSelector) -> None:
        self.store = store
        self.choosing = Lock()
        self.stopping = Event()
        self._open: set[Any] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        self.close_request(request)  # without an orderly shutdown, after which a client wouldn't see a reset

    def stop(self) -> None:
        self.stopping.set()
        self.shutdown()
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    disable_nagle_algorithm = True  # each piece is sent at once

    def handle(self) -> None:
        with suppress(OSError):  # the client left: others are not affected
            self.raw_requestline = self.rfile.readline(65_536)
            if self.raw_requestline and self.parse_request():
                self._respond()

    def _respond(self) -> None:
        if self.command != "POST" or not self.path.partition("?")[0].endswith(_PATHS):
            paths = " or ".join(f"POST <anything>{path}" for path in _PATHS)
            return self.send_error(
                HTTPStatus.NOT_FOUND, f"{self.command} {self.path} is not supported. Supported: {paths}"
            )
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers:
            return self.send_error(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length")
        if not (length.isascii() and length.isdigit()):
            return self.send_error(HTTPStatus.BAD_REQUEST, "the Content-Length is not a number")
        if int(length) > _BODY_BYTES:
            return self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return None
        pairs = [(name.lower(), value) for name, value in self.headers.items()]
        request, store = RecordedRequest(self.command, self.path, body, pairs), self.server.store
        try:
            with self.server.choosing:
                answer = store.named(request.model) or store.answer(request)
        except ReplayMismatch as exc:
            return self.send_error(HTTPStatus.BAD_REQUEST, str(exc), "replay_mismatch")
        if answer is None:
            names = shorten(", ".join(recording.name for recording in store.recordings), 400, placeholder=" ...")
            message = f"every recording was sent once. To get a recording again, send its name as the model: {names}"
            return self.send_error(HTTPStatus.NOT_FOUND, message)
        return self._play(answer)

    def _play(self, answer: ReplayedResponse) -> None:
        ended = False
        try:
            self._wait(answer.delay)
            if answer.status is None:
                return
            self._send_head(answer.status, {**answer.headers, "transfer-encoding": "chunked"})
            for step in answer.steps:
                self._wait(step.delay)
                if step.data:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(step.data), step.data))
                if step.ending == "end":  # without the last chunk the client knows that there should be more
                    self.wfile.write(b"0\r\n\r\n")
                    ended = True
                elif step.ending == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        finally:
            answer.broken = answer.broken or not ended

    def _wait(self, seconds: float) -> None:
        if seconds == math.inf:
            while self.connection.recv(65_536):  # until the client closes the connection
                pass
        elif seconds and self.server.stopping.wait(seconds):
            raise ConnectionAbortedError

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        error = {"message": message, "type": "invalid_request_error", "code": explain}
        body = json.dumps({"error": error}).encode()
        self._send_head(code, {"content-type": "application/json", "content-length": str(len(body))}, body)
        # Reads the rest of the request: closing earlier would reset the connection and lose the response.
        self.connection.shutdown(socket.SHUT_WR)
        ends = monotonic() + _LINGER
        self.connection.settimeout(_LINGER)
        while monotonic() < ends and self.connection.recv(65_536):
            pass

    def _send_head(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        first = f"HTTP/1.1 {int(status)} {responses.get(status, '')}"
        lines = [first, *(f"{name}: {value}" for name, value in headers.items()), "connection: close", "", ""]
        self.wfile.write("\r\n".join(lines).encode("latin-1") + body)
