"""Serves the Responses API over WebSockets. The gateway handles each `response.create` message like a POST request with
the same body.

So keys, limits, budgets, stored responses and logs work as over HTTP. In addition, the gateway remembers the newest
response for each `stream_id` of a connection. The next message can continue that response, even with `store: false`.

https://developers.openai.com/api/docs/guides/websocket-mode
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import monotonic, time
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.datastructures import Headers

from streamfold.serving import json_text, new_response_object, openai_error_body, parse_object
from streamfold.turn_cache import named_end_user

from .apis import RESPONSES_API
from .handler import RequestHandler
from .http_errors import HTTPError, http_error
from .request_body import Receive, parsed_size, run_sized
from .response_stream import Send
from .stored_responses.references import input_items, without_cut_calls

_OLDEST = 3600.0  # maximum age of a connection in seconds, as at OpenAI
_WAITING = 8  # maximum number of messages that wait for the current response
_LANES = 32  # maximum number of different `stream_id`s on a connection, as at OpenAI
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_ENVELOPE = ("type", "stream_id", "generate", "background", "stream_options")  # fields that a POST request doesn't have
_OF_UPGRADE = (b"connection", b"upgrade", b"content-length", b"content-type", b"transfer-encoding")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
_HEADERS = ("retry-after", "x-should-retry")  # headers of an error response that clients need

# Codes of close frames: RFC 6455, 7.4.1, and https://www.iana.org/assignments/websocket
_NORMAL, _TOO_MANY, _FAILED, _SERVER_STOPS, _TRY_LATER = 1000, 1008, 1011, 1012, 1013
_CLOSING = 1.0  # seconds for sending a close frame

Answer = Callable[[Any, Receive, Send], Awaitable[None]]


async def refuse_websocket(refusal: HTTPError, scope: Any, receive: Receive, send: Send) -> None:
    """Rejects a WebSocket with an HTTP error response if the ASGI server supports that, otherwise with a 403."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1000, "reason": ""})
        return
    body = json_text(openai_error_body(refusal.info)).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    headers.pop("connection", None)  # the server sets this header
    written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": written})
    await send({"type": "websocket.http.response.body", "body": body})


class WebSocketEndpoint:
    """The ASGI app for the URL path that accepts WebSockets.

    Args:
        answer: the ASGI app that handles a POST request.
        stores: true if the app stores responses unless a request has `store: false`.
        now: a clock, in seconds, that measures the age of connections.

    Attributes:
        stops: true while the server is stopping, so that connections handle no new messages.
    """

    def __init__(
        self, answer: Answer, handler: RequestHandler, *, stores: bool, now: Callable[[], float] = monotonic
    ) -> None:
        self.answer = answer
        self.handler = handler
        self.stores = stores
        self.now = now
        self.stops = False
        self._open: set[_Connection] = set()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            self.handler.access.check(scope)
        except HTTPError as refusal:
            await refuse_websocket(refusal, scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        connection = _Connection(self, scope, receive, send)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.remove(connection)

    def set_stops(self, stops: bool) -> None:
        """If `stops` is true, closes idle connections now, and other connections after their current responses. If it
        is false, connections handle new messages again.
        """
        self.stops = stops
        for connection in self._open if stops else ():
            connection.stop()


@dataclass(frozen=True, slots=True)
class _NewestResponse:
    """The newest response for a `stream_id`.

    Attributes:
        items: the JSON of the conversation's items, including the response's output.
        user: the end user that the request named.
    """

    response_id: str
    items: bytes
    user: str


@dataclass(slots=True)
class _Turn:
    """A client's request over the WebSocket.

    Attributes:
        body: the body of the equivalent POST request.
        conversation: the input items that the connection remembers together with the response's output; None if the
            response is stored.
        previous: the id of the remembered response that the request continues; None for other requests.
    """

    body: bytes
    lane: str | None
    user: str
    conversation: list[Any] | None
    previous: str | None


class _Connection:
    """A client's WebSocket connection. The gateway handles its requests one after the other, even if their `stream_id`
    differs.
    """

    def __init__(self, endpoint: WebSocketEndpoint, scope: Any, receive: Receive, send: Send) -> None:
        self._endpoint = endpoint
        self._options = endpoint.handler.options
        self._bodies = endpoint.handler.capacity
        self._scope = scope
        self._receive = receive
        self._send_message = send
        self._ends = endpoint.now() + _OLDEST
        self._gone = anyio.Event()  # the client has disconnected, or the connection must close
        self._code = _NORMAL
        self._newest: dict[str | None, _NewestResponse] = {}  # by `stream_id`
        self._lanes: set[str] = set()
        self._held = 0  # size of waiting messages, which counts towards the memory limit of all bodies
        self._idle = anyio.CancelScope()  # cancels the wait for the next message

    def stop(self) -> None:
        self._idle.cancel()

    async def run(self) -> None:
        """Handles requests until the client disconnects or the connection is an hour old."""
        code = _SERVER_STOPS
        waiting, messages = anyio.create_memory_object_stream[str](_WAITING)
        try:
            async with waiting, messages, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, waiting)
                while not self._gone.is_set() and (message := await self._next(messages)) is not None:
                    await self._answer(message)
                tasks.cancel_scope.cancel()
            code = self._code
        except Exception:
            code = _FAILED
            raise
        finally:
            self._bodies.add(-self._held)
            for lane in list(self._newest):
                self._forget(lane)
            with anyio.move_on_after(_CLOSING, shield=True), suppress(OSError, RuntimeError):  # disconnected
                await self._send_message({"type": "websocket.close", "code": code, "reason": ""})

    async def _read(self, waiting: MemoryObjectSendStream[str]) -> None:
        """Receives messages, even during a response, to notice when the client disconnects."""
        async with waiting:
            while (message := await self._receive())["type"] == "websocket.receive":
                text = message.get("text")
                if text is None:
                    text = (message.get("bytes") or b"").decode("utf-8", "replace")
                try:
                    self._bodies.take(len(text))
                    self._held += len(text)
                    waiting.send_nowait(text)
                except HTTPError:
                    self._code = _TRY_LATER
                    break
                except anyio.WouldBlock:
                    self._code = _TOO_MANY
                    break
        self._gone.set()

    async def _next(self, messages: MemoryObjectReceiveStream[str]) -> str | None:
        left = 0.0 if self._endpoint.stops else self._ends - self._endpoint.now()
        with anyio.move_on_after(left) as self._idle, suppress(anyio.EndOfStream):
            message = await messages.receive()
            if self._endpoint.now() < self._ends and not self._endpoint.stops:
                return message
        if self._endpoint.stops:
            self._code = _SERVER_STOPS
        elif not self._gone.is_set():
            text = "the connection was open for 60 minutes: open another one"
            await self._refuse(http_error(400, text, "websocket_connection_limit_reached"), None)
        return None

    async def _answer(self, message: str) -> None:
        lane = None
        try:
            payload = await self._parse(message)
            lane = self._lane(payload)
            turn = self._turn(payload, lane)
        except HTTPError as refusal:
            await self._refuse(refusal, lane)
            return
        except RecursionError:
            await self._refuse(http_error(400, "the message is nested too deeply"), lane)
            return
        finally:
            self._held -= len(message)
            self._bodies.add(-len(message))
        if payload.get("generate") is False:
            await self._warm_up(turn, payload)
            return
        writer = _EventWriter(self, turn)
        scope = {**self._scope, "type": "http", "method": "POST", "path_params": {}, "headers": self._headers(turn)}
        rest = [turn.body]

        async def receive() -> Any:
            if rest:
                return {"type": "http.request", "body": rest.pop(), "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        await self._endpoint.answer(scope, receive, writer.send)
        if not writer.ended and not self._gone.is_set():  # the client has read nothing for too long
            self._code = _FAILED
            self._gone.set()

    async def _parse(self, message: str) -> dict[str, Any]:
        raw, most = message.encode("utf-8", "replace"), self._options.max_body_bytes
        if max(len(raw), await run_sized(len(raw), partial(parsed_size, raw, most))) > most:
            raise http_error(413, f"the message is larger than the allowed {most} bytes")
        try:
            payload = await run_sized(len(raw), partial(parse_object, message))
        except ValueError as error:
            raise http_error(400, f"the message is not a JSON object: {error}") from None
        if not isinstance(payload, dict) or payload.get("type") != "response.create":
            kind = payload.get("type") if isinstance(payload, dict) else None
            raise http_error(
                400, f"messages of the type {str(kind)[:100]!r} are not supported here: send response.create"
            )
        return payload

    def _lane(self, payload: dict[str, Any]) -> str | None:
        lane = payload.get("stream_id")
        if lane is None:
            return None
        if not isinstance(lane, str) or not _LANE.fullmatch(lane):
            text = "stream_id must have 1 to 256 letters, digits, underscores, hyphens and periods"
            raise http_error(400, text, "invalid_stream_id")
        if lane not in self._lanes and len(self._lanes) >= _LANES:
            text = f"the connection has {_LANES} values of stream_id already; open another one"
            raise http_error(400, text, "websocket_stream_limit_reached")
        self._lanes.add(lane)
        return lane

    def _turn(self, payload: dict[str, Any], lane: str | None) -> _Turn:
        """Converts a message to the body of a POST request. If the message continues a remembered response, the input
        begins with that conversation. Raises HTTPError for an invalid message.
        """
        if payload.get("background"):
            raise http_error(400, "background is not available over a WebSocket: send a POST")
        user = named_end_user(payload, Headers(scope=self._scope), explicit=True)
        sent = {name: value for name, value in payload.items() if name not in _ENVELOPE}
        previous, stores = payload.get("previous_response_id"), self._endpoint.stores
        found = [each for each in self._newest.values() if each.response_id == previous and each.user == user]
        if found:
            del sent["previous_response_id"]
            sent["input"] = [*json.loads(found[0].items), *input_items(payload.get("input"))]
        elif previous and not stores:
            text = f"previous_response_id: {str(previous)[:200]!r} is not the newest response of this connection"
            raise http_error(400, f"{text}; send the whole conversation as input", "previous_response_not_found")
        body = json_text({**sent, "stream": True}).encode()
        conversation = input_items(sent.get("input")) if payload.get("store") is False or not stores else None
        return _Turn(body, lane, user, conversation, found[0].response_id if found else None)

    def _headers(self, turn: _Turn) -> list[tuple[bytes, bytes]]:
        """Returns the headers of the POST request: those of the client's WebSocket request, with another content type
        and length.
        """
        kept = [
            (name, value)
            for name, value in self._scope["headers"]
            if name not in _OF_UPGRADE and not name.startswith(b"sec-websocket-")
        ]
        return [*kept, (b"content-type", b"application/json"), (b"content-length", str(len(turn.body)).encode())]

    async def _warm_up(self, turn: _Turn, payload: dict[str, Any]) -> None:
        """Handles a request with `generate: false`: remembers its input, without calling a model."""
        turn.conversation = turn.conversation or input_items(json.loads(turn.body).get("input"))
        response = {**new_response_object(payload), "id": f"resp_{token_hex(16)}", "created_at": int(time())}
        response |= {"model": payload.get("model"), "store": False}
        done = {**response, "status": "completed", "completed_at": int(time())}
        with suppress(OSError):  # as in `_refuse`
            await self.forward(turn, "response.created", {"sequence_number": 0, "response": response})
            await self.forward(turn, "response.completed", {"sequence_number": 1, "response": done})

    async def forward(self, turn: _Turn, kind: str, event: str | dict[str, Any]) -> None:
        """Sends an event of a response to the client. Remembers the response after its last event."""
        if isinstance(event, str) and turn.lane is None and turn.previous is None and kind not in _ENDS:
            await self._send(event)
            return
        payload = {"type": kind, **(json.loads(event) if isinstance(event, str) else event)}
        if turn.lane is not None:
            payload["stream_id"] = turn.lane
        response = payload.get("response")
        if isinstance(response, dict) and turn.previous is not None:
            response["previous_response_id"] = turn.previous
        if kind in _ENDS:
            self._forget(turn.lane)  # even if the request fails, as at OpenAI
            if isinstance(response, dict) and response.get("status") in ("completed", "incomplete"):
                self._remember(turn, response)
        await self._send(json_text(payload))

    async def forward_error(self, turn: _Turn, status: int, headers: dict[str, str], body: bytes) -> None:
        """Sends an error response to the client as an event."""
        self._forget(turn.lane)
        await self._send_error(status, json.loads(body), headers, turn.lane)

    async def _refuse(self, refusal: HTTPError, lane: str | None) -> None:
        status, body, headers = RESPONSES_API.error_response(refusal, "")
        with suppress(OSError):  # the client has disconnected, which `_read` notices
            await self._send_error(status, body, headers, lane)

    async def _send_error(self, status: int, body: dict[str, Any], headers: dict[str, str], lane: str | None) -> None:
        wanted = {name: value for name, value in headers.items() if name in _HEADERS}
        event = {"type": "error", "status": status, "error": body["error"], **({"headers": wanted} if wanted else {})}
        await self._send(json_text(event if lane is None else {**event, "stream_id": lane}))

    def _remember(self, turn: _Turn, response: dict[str, Any]) -> None:
        if turn.conversation is None:
            return
        items = json_text([*turn.conversation, *without_cut_calls(response["output"])]).encode()
        if len(items) > self._options.max_body_bytes:
            return
        with suppress(HTTPError):  # too little memory: the client must send the whole conversation
            self._bodies.take(len(items))
            self._newest[turn.lane] = _NewestResponse(response["id"], items, turn.user)

    def _forget(self, lane: str | None) -> None:
        if (known := self._newest.pop(lane, None)) is not None:
            self._bodies.add(-len(known.items))

    async def _send(self, text: str) -> None:
        """Sends a message. Raises OSError if the client has disconnected."""
        if self._gone.is_set():
            raise ConnectionResetError("the client has left")
        await self._send_message({"type": "websocket.send", "text": text})


class _EventWriter:
    """The ASGI function `send` for a message that is handled as a POST request. Sends each SSE event, or the error
    response, over the WebSocket.

    Attributes:
        ended: true if the end of the response has been written.
    """

    def __init__(self, connection: _Connection, turn: _Turn) -> None:
        self._connection = connection
        self._turn = turn
        self.ended = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._data = b""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            return
        self._data += message.get("body", b"")
        if self._headers.get("content-type", "").startswith("text/event-stream"):
            *blocks, self._data = self._data.split(b"\n\n")
            for block in blocks:
                fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line[:1] not in (b":", b""))
                if b"data" in fields:  # without data, the event is a comment
                    kind, data = fields.get(b"event", b"").decode(), fields[b"data"].decode()
                    await self._connection.forward(self._turn, kind, data)
        elif not message.get("more_body"):
            await self._connection.forward_error(self._turn, self._status, self._headers, self._data)
        self.ended = not message.get("more_body")
