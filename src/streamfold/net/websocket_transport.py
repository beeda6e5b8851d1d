"""Sends requests to the Responses API over WebSockets, and all other requests over HTTP.

The transport sends a POST request's body as a WebSocket message, and converts the server's messages to the SSE events
of an HTTP response. So timeouts, retries, redaction, recordings and the decoder work as with HTTP. httpx opens the
connections, with TLS, proxies and the `Upgrade` request. The package `websockets` parses and serializes the frames.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha1, sha256
from secrets import token_bytes
from typing import Any, Self

import anyio
import httpcore
import httpx
from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from ..adapters.responses import CONNECTION_EXPIRED, RESPONSE_FORGOTTEN, NewestResponse, SocketError, SocketTurn
from ..engine import error_body
from ..errors import ProtocolError
from ..types import Limits, Reply
from .connection_reuse import is_readable
from .httpx_transport import sent_url
from .transport_errors import MalformedResponse, is_network_error

_PATH = "/responses"
_OLDEST = 55 * 60.0  # seconds: servers close every connection after 60 minutes
_MOST_IDLE = 16  # connections: the one that was idle longest gets the next conversation
_READ = 2**16  # bytes
_CLOSING = 1.0  # seconds to tell the server that a connection is closed
_ARRIVED = 0.001  # seconds to read what the event loop has read of an idle connection
_REPEATS = 2  # attempts to repeat a message that was refused because of the connection's age or last response
_REFUSED = (400, 404, 409, 422)  # statuses of a request that the server does not accept as it is
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
# Headers of the POST request that don't belong in the handshake.
_OF_POST = ("accept", "connection", "content-length", "content-type", "transfer-encoding")
# Statuses of servers that have no WebSocket at this URL.
_NO_WEBSOCKET = (200, 400, 404, 405, 426, 501)


class WebSocketTransport(httpx.AsyncBaseTransport):
    """An httpx transport with one WebSocket for each conversation.

    If a request continues the newest response of an idle connection, it is sent on this connection, with only the new
    items. Any other request is sent on a new connection, or on an idle connection without a conversation.

    Args:
        http: the transport for requests that don't ask the Responses API for a streamed answer.
        opener: the transport that opens the WebSocket connections.
        now: a function that returns the time in seconds. With None, the transport uses the event loop's time.
    """

    def __init__(
        self,
        http: httpx.AsyncBaseTransport,
        opener: httpx.AsyncBaseTransport,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._other_requests = http
        self._opener = opener
        self._now = now or anyio.current_time
        self._idle: list[_Connection] = []  # the most recently used connection is the last one

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "POST" or not request.url.path.endswith(_PATH):
            return await self._other_requests.handle_async_request(request)
        turn = SocketTurn.read(await request.aread())
        if turn is None:
            return await self._other_requests.handle_async_request(request)
        head = _handshake(request)
        connection = await self._idle_for(turn, _identity(head))
        is_new, must_be_whole = connection is None, False
        for repeats in range(_REPEATS + 1):
            if connection is None:
                opened = await self._open(head, request)
                if isinstance(opened, httpx.Response):
                    return opened
                connection = opened
            try:
                first = await connection.begin(turn)
            except ConnectionClosedInOrder as exc:
                if is_new or repeats == _REPEATS:
                    raise httpx.RemoteProtocolError(str(exc)) from exc
                connection, is_new = None, True  # it was closed while it was idle
                continue
            if repeats < _REPEATS and turn.error_code == CONNECTION_EXPIRED:
                await connection.aclose()
                connection, is_new = None, True
            elif repeats < _REPEATS and connection.sent_less and turn.error_code == RESPONSE_FORGOTTEN:
                connection.newest = None
            elif repeats < _REPEATS and connection.sent_less and _is_refusal(first[-1]):
                connection.newest, must_be_whole = None, True
            else:
                if must_be_whole and not isinstance(first[-1], SocketError):
                    connection.continues = False
                return self._response(connection, turn, first)
        raise AssertionError("the last repeat returns or raises")

    async def aclose(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.aclose()
        await self._opener.aclose()
        await self._other_requests.aclose()

    def release(self, connection: _Connection) -> None:
        """Adds a connection whose answer has ended to the idle connections."""
        self._idle.append(connection)

    def _response(self, connection: _Connection, turn: SocketTurn, first: list[bytes | SocketError]) -> httpx.Response:
        body = _Body(self, connection, turn, [event for event in first if isinstance(event, bytes)])
        extensions = {"streamfold.connection": connection}
        if isinstance(error := first[-1], SocketError):
            headers = {"content-type": "application/json", **error.headers}
            body.pieces = [error.body]
            return httpx.Response(error.status, headers=headers, stream=body, extensions=extensions)
        headers = {"content-type": "text/event-stream", **connection.headers}
        return httpx.Response(200, headers=headers, stream=body, extensions=extensions)

    async def _idle_for(self, turn: SocketTurn, identity: bytes) -> _Connection | None:
        while (connection := self._choice(turn, identity)) is not None:
            self._idle.remove(connection)
            if not turn.continues(connection.newest):
                connection.newest = None
            if self._now() - connection.opened_at < _OLDEST and await connection.is_silent():
                return connection
            await connection.aclose()
        return None

    def _choice(self, turn: SocketTurn, identity: bytes) -> _Connection | None:
        same = [connection for connection in self._idle if connection.identity == identity]
        found = [connection for connection in same if turn.continues(connection.newest)]
        free = [connection for connection in same if connection.newest is None]
        if found or free:
            return (found or free)[-1]
        return same[0] if len(same) >= _MOST_IDLE else None

    async def _open(self, head: httpx.Request, request: httpx.Request) -> _Connection | httpx.Response:
        for surplus in self._idle[: max(0, len(self._idle) - _MOST_IDLE + 1)]:  # connections for other keys or URLs
            self._idle.remove(surplus)
            await surplus.aclose()
        key = b64encode(token_bytes(16))
        head.headers["Sec-WebSocket-Key"] = key.decode()
        response = await self._opener.handle_async_request(head)
        if response.status_code != httpx.codes.SWITCHING_PROTOCOLS:
            return await _refused(response) if response.status_code in _NO_WEBSOCKET else response
        try:
            accepted = b64encode(sha1(key + _MAGIC, usedforsecurity=False).digest()).decode()
            headers = response.headers
            if headers.get("upgrade", "").lower() != "websocket" or headers.get("sec-websocket-accept") != accepted:
                raise MalformedResponse("the server switched to a protocol other than WebSocket")
            if "sec-websocket-extensions" in headers or "sec-websocket-protocol" in headers:
                raise MalformedResponse("the server chose a WebSocket extension that was not offered")
        except MalformedResponse:
            await response.aclose()
            raise
        limits: Limits = request.extensions.get("streamfold.limits", Limits())
        return _Connection(response, _identity(head), self._now(), limits.event_bytes)


class ConnectionClosedInOrder(Exception):
    """The server closed a WebSocket before the first event of the answer."""


class _Connection:
    """One WebSocket connection.

    Attributes:
        identity: a digest of the URL and the headers of the connection.
        opened_at: the time at which the connection was opened.
        headers: the `x-request-id` of the handshake's HTTP response, which every answer on this connection gets.
        newest: the response that the server keeps in memory for this connection. None if the connection can't continue
            a conversation.
        sent_less: True if the last request contained only the new items.
        continues: False if the server rejects requests with `previous_response_id`.
    """

    def __init__(self, response: httpx.Response, identity: bytes, opened_at: float, most: int) -> None:
        self._response = response
        self._stream: Any = response.extensions["network_stream"]
        self._protocol = Protocol(CLIENT, state=OPEN, max_size=most)
        self._most = most
        self._begun = bytearray()  # a message in several frames
        self.identity = identity
        self.opened_at = opened_at
        self.headers = {name: response.headers[name] for name in ("x-request-id",) if name in response.headers}
        self.newest: NewestResponse | None = None
        self.sent_less = False
        self.continues = True

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    async def begin(self, turn: SocketTurn) -> list[bytes | SocketError]:
        """Sends a request, and receives events until the answer has begun or ended. Returns these events. A failure
        closes the connection.

        Raises:
            ConnectionClosedInOrder: the server closed the connection before any event.
        """
        try:
            self.sent_less = self.newest is not None and not turn.names_response
            self._protocol.send_text(turn.message(self.newest).encode())
            await self._flush()
            events: list[bytes | SocketError] = []
            while not (turn.begun or turn.ended):
                messages = await self.receive()
                if not messages and not events and self._protocol.close_rcvd is not None:
                    raise ConnectionClosedInOrder(self.how_it_ended())
                if not messages:
                    raise httpx.RemoteProtocolError(self.how_it_ended())
                events += self.feed(turn, messages)
            return events
        except BaseException:
            await self.aclose()
            raise

    def feed(self, turn: SocketTurn, messages: list[bytes]) -> list[bytes | SocketError]:
        events: list[bytes | SocketError] = []
        for message in messages:
            if turn.ended:
                self._protocol.fail(1002, "a message without a matching request")
                break
            events.append(turn.feed(message))
        return events

    async def receive(self) -> list[bytes]:
        """Waits for messages and returns them. Returns an empty list if the connection was closed. Answers pings
        meanwhile.

        Raises:
            ProtocolError: a message is too large.
        """
        while self.is_open:
            if messages := await self._read(None):
                return messages
        if isinstance(self._protocol.parser_exc, PayloadTooBig):
            raise ProtocolError(f"a message has more than {self._most} bytes (limits.event_bytes)", partial=Reply())
        return []

    async def is_silent(self) -> bool:
        waiting = is_readable(self.get_extra_info("socket"))
        try:
            messages = await self._read(_CLOSING if waiting else _ARRIVED)
        except httpcore.ReadTimeout:
            return not waiting
        except httpcore.NetworkError:
            return False
        return self.is_open and not messages and not self._begun

    @property
    def is_open(self) -> bool:
        return self._protocol.state is OPEN

    def how_it_ended(self) -> str:
        if self._protocol.parser_exc is not None and not isinstance(self._protocol.parser_exc, EOFError):
            return f"the server sent a malformed WebSocket frame: {self._protocol.parser_exc}"
        closed = self._protocol.close_rcvd
        if closed is None:
            return "the WebSocket ended without a closing frame"
        return f"the server closed the WebSocket: {closed.code} {closed.reason}".rstrip()

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                if self.is_open:
                    self._protocol.send_close(1000)
                with anyio.move_on_after(_CLOSING):
                    await self._flush()
            except Exception as exc:  # closed already
                if not is_network_error(exc):
                    raise
            finally:
                with anyio.move_on_after(_CLOSING), suppress(anyio.BrokenResourceError):
                    await self._response.aclose()

    async def _read(self, seconds: float | None) -> list[bytes]:
        data = await self._stream.read(_READ, timeout=seconds)
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        messages: list[bytes] = []
        for frame in self._protocol.events_received():
            if isinstance(frame, Frame) and frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._begun += frame.data
                if frame.fin:
                    messages.append(bytes(self._begun))
                    self._begun.clear()
        with suppress(httpcore.NetworkError):  # a pong failed: the next read raises the error of the lost connection
            await self._flush()
        return messages

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:  # empty at the end of the connection, which `aclose` closes
                await self._stream.write(data)


class _Body(httpx.AsyncByteStream):
    """The SSE events of an answer as a response body. The class isn't a generator, because generators need explicit
    closing.
    """

    def __init__(
        self, transport: WebSocketTransport, connection: _Connection, turn: SocketTurn, pieces: list[bytes]
    ) -> None:
        self.pieces = pieces
        self._transport = transport
        self._connection: _Connection | None = connection
        self._turn = turn

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self.pieces:
            data, self.pieces = b"".join(self.pieces), []
            return data
        connection = self._connection
        if self._turn.ended or connection is None:
            raise StopAsyncIteration
        messages = await connection.receive()
        if not messages:
            raise httpx.RemoteProtocolError(connection.how_it_ended())
        return b"".join(event for event in connection.feed(self._turn, messages) if isinstance(event, bytes))

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._turn.ended and self._turn.error_code != CONNECTION_EXPIRED and connection.is_open:
            connection.newest = self._turn.newest if connection.continues else None
            self._transport.release(connection)
        else:
            await connection.aclose()


def _is_refusal(event: bytes | SocketError) -> bool:
    """Returns True if the server may have refused a request because of `previous_response_id`.

    Not all servers send the code `previous_response_not_found`, and xAI refuses `instructions` together with
    `previous_response_id` (https://docs.x.ai/developers/model-capabilities/text/generate-text).
    """
    return isinstance(event, SocketError) and event.status in _REFUSED


def _handshake(request: httpx.Request) -> httpx.Request:
    headers = [(name, value) for name, value in request.headers.raw if name.lower().decode() not in _OF_POST]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers += [(name.encode(), value.encode()) for name, value in upgrade.items()]
    head = httpx.Request("GET", "http://localhost", headers=headers, extensions=request.extensions)
    head.url = request.url  # not as text, because `str` may leave out secrets
    return head


def _identity(head: httpx.Request) -> bytes:
    headers = sorted((name.lower(), value) for name, value in head.headers.raw if name.lower() != b"sec-websocket-key")
    return sha256(repr((sent_url(head.url), headers)).encode()).digest()


async def _refused(response: httpx.Response) -> httpx.Response:
    received = bytearray()
    try:
        async for piece in response.aiter_raw():
            received += piece
            if len(received) > _READ:
                break
    finally:
        await response.aclose()
    read = error_body(received.decode("utf-8", "replace").strip())
    said = read.get("error", read) if isinstance(read, dict) else read
    said = said.get("message", said) if isinstance(said, dict) else said
    message = f"the server refused the WebSocket (HTTP {response.status_code}): {said or 'no message'}"
    status = response.status_code if response.status_code >= 400 else httpx.codes.UPGRADE_REQUIRED
    body = json.dumps({"error": {"message": f'{message}; use transport = "httpx"', "type": "invalid_request_error"}})
    return httpx.Response(status, headers={"content-type": "application/json"}, content=body.encode())
