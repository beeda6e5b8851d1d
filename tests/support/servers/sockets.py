"""A server on loopback that speaks the Responses API over WebSockets, message by message, as a script says."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from streamfold import Provider


def message_item(text: str, number: int = 0) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message", "id": f"msg_{text}_{number}", "role": "assistant", "status": "completed", "content": [part],
    }  # fmt: skip


def call_item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}
    return {**item, "status": "completed"}


def reasoning_item(text: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA", "status": "completed"}


def events_of(response_id: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of an answer with these items."""
    head = {"object": "response", "id": response_id, "model": "m", "output": []}
    events = [{"type": "response.created", "response": {**head, "status": "in_progress"}}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        started = {**item, "status": "in_progress"}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            events.append(
                {"type": "response.output_item.added", "output_index": at, "item": {**started, "content": []}}
            )
            for letter in text:
                events.append({"type": "response.output_text.delta", **place, "content_index": 0, "delta": letter})
        elif item["type"] == "function_call":
            started["arguments"] = ""
            events.append({"type": "response.output_item.added", "output_index": at, "item": started})
            for letter in item["arguments"]:
                events.append({"type": "response.function_call_arguments.delta", **place, "delta": letter})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    done = {**head, "status": "completed", "output": list(items), "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def error_event(status: int | None, code: str, message: str = "no", **more: Any) -> dict[str, Any]:
    """An error of the socket."""
    error = {"type": "invalid_request_error", "code": code, "message": message}
    return {"type": "error", **({} if status is None else {"status": status}), "error": error, **more}


@dataclass
class SocketServer:
    """What a server has seen.

    Attributes:
        created: each `response.create` that came, with the number of its connection under "_connection".
        heads: the head of the request that opened each connection.
        closes: the codes with which clients closed; None for a connection that was cut.
    """

    base_url: str
    created: list[dict[str, Any]] = field(default_factory=list)
    heads: list[Request] = field(default_factory=list)
    closes: list[int | None] = field(default_factory=list)
    open: int = 0

    def provider(self, **config: Any) -> Provider:
        """A provider for this server that never retries, over WebSockets."""
        base = {"adapter": "responses", "base_url": self.base_url, "model": "m", "max_retries": 0}
        return Provider.from_config({**base, "transport": "websocket", "api_key": "sk-secret", **config})

    async def all_closed(self) -> None:
        with anyio.fail_after(5):
            while self.open:
                await anyio.sleep(0.005)


class SocketGone(Exception):
    """The client has closed the connection."""


class SocketPeer:
    """One connection, on which a script talks."""

    def __init__(self, stream: ByteStream, server: SocketServer, number: int) -> None:
        self.number = number
        self.server = server
        self.pongs: list[bytes] = []
        self._stream = stream
        self._protocol = ServerProtocol(max_size=None)
        self._messages: list[str] = []
        self._text = b""

    async def head(self) -> Request:
        """Reads the head of the first request of the connection."""
        while not (events := self._protocol.events_received()):
            self._protocol.receive_data(await self._stream.receive())
        [request] = events
        assert isinstance(request, Request)
        return request

    async def http_request(self) -> bytes:
        """Reads a request that opens no WebSocket."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self._stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < sum(lengths):
            body += await self._stream.receive()
        return head + b"\r\n\r\n" + body

    async def accept(self, *, status: int = 101, body: str = "") -> None:
        """Opens the connection; or answers with another status."""
        request = await self.head()
        self.server.heads.append(request)
        response = self._protocol.accept(request) if status == 101 else self._protocol.reject(status, body)
        self._protocol.send_response(response)
        await self._flush()

    async def receive(self) -> dict[str, Any]:
        """Returns the next message of the client."""
        while not self._messages:
            await self._read()
        return json.loads(self._messages.pop(0))  # type: ignore[no-any-return]

    async def create(self) -> dict[str, Any]:
        """Returns the next request of the client."""
        message = await self.receive()
        assert message["type"] == "response.create", message
        self.server.created.append({**message, "_connection": self.number})
        return message

    async def send(self, *events: dict[str, Any] | str) -> None:
        """Sends events, one a message."""
        for event in events:
            self._protocol.send_text((event if isinstance(event, str) else json.dumps(event)).encode())
        await self._flush()

    async def send_pieces(self, event: str, size: int) -> None:
        """Sends one message in frames of this size."""
        data = event.encode()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self._protocol.send_text(pieces[0], fin=False)
        for piece in pieces[1:]:
            self._protocol.send_continuation(piece, fin=False)
        self._protocol.send_continuation(b"", fin=True)
        await self._flush()

    async def send_bytes(self, data: bytes) -> None:
        await self._stream.send(data)

    async def ping(self, data: bytes) -> None:
        self._protocol.send_ping(data)
        await self._flush()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the connection in order."""
        self._protocol.send_close(code, reason)
        await self._flush()

    async def gone(self) -> None:
        """Waits until the client has closed the connection."""
        while True:
            await self._read()

    async def pong(self) -> bytes:
        """Waits for a pong."""
        while not self.pongs:
            await self._read()
        return self.pongs.pop(0)

    async def _read(self) -> None:
        if self._protocol.state is not OPEN:
            raise SocketGone
        try:
            self._protocol.receive_data(await self._stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.server.closes.append(None)
            raise SocketGone from None
        for frame in self._protocol.events_received():
            assert isinstance(frame, Frame)
            if frame.opcode is Opcode.PONG:
                self.pongs.append(bytes(frame.data))
            elif frame.opcode is Opcode.CLOSE:
                self.server.closes.append(self._protocol.close_rcvd and self._protocol.close_rcvd.code)
            elif frame.opcode in (Opcode.TEXT, Opcode.CONT):
                self._text += bytes(frame.data)
                if frame.fin:
                    self._messages.append(self._text.decode())
                    self._text = b""
        await self._flush()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._stream.send(data)


SocketScript = Callable[[SocketPeer], Awaitable[None]]


def answers(*turns: list[Any]) -> SocketScript:
    """Answers the requests of all connections, one after the other, with the events of these turns."""
    rest = list(turns)

    async def script(peer: SocketPeer) -> None:
        await peer.accept()
        while rest:
            await peer.create()
            await peer.send(*rest.pop(0))
        await peer.gone()

    return script


@asynccontextmanager
async def serving_sockets(script: SocketScript, tls: ssl.SSLContext | None = None) -> AsyncIterator[SocketServer]:
    """A server that runs `script` for each connection, and closes it when the script returns."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    server = SocketServer(f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/v1")
    numbers = count()

    async def handle(stream: ByteStream) -> None:
        server.open += 1
        try:
            async with stream:
                await script(SocketPeer(stream, server, next(numbers)))
        except (SocketGone, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client left
        finally:
            server.open -= 1

    async with listener, anyio.create_task_group() as tasks:
        serving: Any = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)
        tasks.start_soon(serving.serve, handle)
        yield server
        tasks.cancel_scope.cancel()
