"""The gateway over WebSockets: each message is a POST, and a connection remembers its newest response."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from openai import AsyncOpenAI
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from websockets.exceptions import ConnectionClosed

from folding import DONE, call, entry, fin, text
from gateways import RESPONSES, client_of, serve_command, served
from scale import pick
from servers import END, STREAM, Connection, framed, serving
from streamfold import Provider, tool, tool_result, user
from streamfold.recording import Recording, ReplayTransport
from streamfold.tools import run_tools
from streamfold_gateway import Gateway, gateway
from streamfold_gateway.websockets import WebSocketEndpoint
from tables import each_row

HI = text("Hi") + fin("stop") + DONE
BYE = text("Bye") + fin("stop") + DONE
ADD = call(entry(0, "call_1", "add", '{"a": 1, "b": 2}')) + fin("tool_calls") + DONE
CUT = text("Hal")


class Queue:
    """Messages between an app and its client."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._news = anyio.Event()

    async def put(self, message: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        self._messages.append(message)
        self._news.set()

    async def get(self) -> dict[str, Any]:
        while not self._messages:
            self._news = anyio.Event()
            await self._news.wait()
        return self._messages.pop(0)


class Socket:
    """A WebSocket of an app in this process."""

    def __init__(self) -> None:
        self.to_app, self.to_client = Queue(), Queue()
        self.close_code: int | None = None

    async def send(self, **message: Any) -> None:
        """Sends a `response.create`."""
        await self.send_text(json.dumps({"type": "response.create", "model": "main", **message}))

    async def send_text(self, message: str) -> None:
        await self.to_app.put({"type": "websocket.receive", "text": message})

    async def next(self) -> dict[str, Any]:
        """Returns the next event; an empty one when the connection is closed."""
        with anyio.fail_after(5):
            message = await self.to_client.get()
        if message["type"] == "websocket.close":
            self.close_code = message["code"]
            return {}
        assert message["type"] == "websocket.send", message
        read: dict[str, Any] = json.loads(message["text"])
        return read

    async def answer(self, **message: Any) -> dict[str, Any]:
        """Sends a request, and returns the last event of its answer."""
        await self.send(**message)
        return await self.end()

    async def end(self) -> dict[str, Any]:
        while True:
            event = await self.next()
            if event.get("type") in ("response.completed", "response.incomplete", "response.failed", "error", None):
                return event

    async def leave(self) -> None:
        await self.to_app.put({"type": "websocket.disconnect", "code": 1000})


def texts(event: dict[str, Any]) -> str:
    """The text of a response that has ended."""
    parts = [part for item in event["response"]["output"] for part in item.get("content", ())]
    return "".join(part["text"] for part in parts)


class Setting:
    """A gateway in front of recordings, and its sockets."""

    def __init__(self, app: Gateway, upstream: ReplayTransport) -> None:
        self.app = app
        self._upstream = upstream

    def sent(self, at: int) -> list[Any]:
        """The conversation that the provider got."""
        messages: list[Any] = json.loads(self._upstream.requests[at].content)["messages"]
        return [(message["role"], message["content"]) for message in messages]

    @property
    def asked(self) -> int:
        return len(self._upstream.requests)

    @asynccontextmanager
    async def socket(self, key: str = "", app: Any = None) -> AsyncIterator[Socket]:
        """An open connection; it is left at the end."""
        socket = Socket()
        headers = [(b"host", b"localhost"), (b"upgrade", b"websocket"), (b"sec-websocket-key", b"x")]
        headers += [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope = {"type": "websocket", "path": RESPONSES, "headers": headers, "query_string": b"", "extensions": {}}
        async with anyio.create_task_group() as tasks:
            await socket.to_app.put({"type": "websocket.connect"})
            tasks.start_soon(app or self.app, scope, socket.to_app.get, socket.to_client.put)
            first = await socket.to_client.get()
            if first["type"] == "websocket.accept":
                yield socket
                await socket.leave()
            else:
                socket.close_code = first["code"]
                yield socket


@asynccontextmanager
async def before(*bodies: bytes, **options: Any) -> AsyncIterator[Setting]:
    """A gateway whose provider answers with these bodies."""
    upstream = ReplayTransport([Recording("test", body, "chat") for body in bodies])
    config = {"base_url": "http://upstream/v1", "model": "m", "max_retries": 0}
    async with httpx.AsyncClient(transport=upstream) as client:
        provider = Provider.from_config(config, http_client=client)
        async with gateway({"main": provider}, **{"websockets": True, **options}) as app:
            yield Setting(app, upstream)
            assert app.running == 0
            assert app._handler.capacity._held == 0


# --- one connection ---------------------------------------------------------------------------------------------------


async def test_a_message_is_answered_as_a_post() -> None:
    """The events are those of the stream, one a message, without comments and without an end of the connection."""
    async with before(HI, HI) as setting, setting.socket() as socket:
        await socket.send(input="Hello")
        events = [await socket.next() for _ in range(9)]
        async with client_of(setting.app) as client:
            posted = await client.post(RESPONSES, json={"model": "main", "input": "Hello", "stream": True})
        lines = [line[6:] for line in posted.text.splitlines() if line.startswith("data: ")]
        kinds = [(event["type"], event["sequence_number"]) for event in events]
        assert kinds == [(json.loads(line)["type"], json.loads(line)["sequence_number"]) for line in lines]
        assert texts(events[-1]) == "Hi"


@pytest.mark.parametrize("responses", [True, False])
async def test_a_connection_remembers_its_newest_response(responses: bool) -> None:
    """`previous_response_id` works without storing anything, and only new items are sent."""
    async with before(HI, BYE, HI, responses=responses) as setting, setting.socket() as socket:
        first = await socket.answer(input="Hello", store=False)
        second = await socket.answer(
            input=[{"role": "user", "content": "Bye"}], store=False, previous_response_id=first["response"]["id"]
        )
        assert second["response"]["previous_response_id"] == first["response"]["id"]
        assert setting.sent(1) == [("user", "Hello"), ("assistant", "Hi"), ("user", "Bye")]
        third = await socket.answer(input="Again", store=False, previous_response_id=second["response"]["id"])
        assert texts(third) == "Hi"
        assert [role for role, _ in setting.sent(2)] == ["user", "assistant"] * 2 + ["user"]


async def test_only_the_newest_response_is_remembered() -> None:
    """Another response, that of another connection, and one that a failed turn continued, are not found."""
    async with before(HI, BYE) as setting, setting.socket() as socket:
        first = (await socket.answer(input="Hello", store=False))["response"]["id"]
        async with setting.socket() as other:
            refused = await other.answer(input="x", store=False, previous_response_id=first)
            assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
        second = (await socket.answer(input="Hello", store=False))["response"]["id"]
        for wanted in (first, second):
            refused = await socket.answer(input="x", store=False, previous_response_id=wanted)
            assert refused["error"]["code"] == "previous_response_not_found"
        assert setting.asked == 2


async def test_a_stored_response_is_found_by_every_connection() -> None:
    """What is stored as over HTTP is continued on another connection, and by a POST."""
    async with before(HI, BYE, HI) as setting:
        async with setting.socket() as socket:
            first = (await socket.answer(input="Hello"))["response"]["id"]
        async with setting.socket() as socket:
            second = await socket.answer(input="Bye", previous_response_id=first)
        assert (texts(second), second["response"]["previous_response_id"]) == ("Bye", first)
        async with client_of(setting.app) as client:
            body = {"model": "main", "input": "x", "previous_response_id": second["response"]["id"]}
            assert (await client.post(RESPONSES, json=body)).json()["status"] == "completed"
        assert [role for role, _ in setting.sent(2)] == ["user", "assistant"] * 2 + ["user"]


async def test_a_request_without_output_prepares_the_next_one() -> None:
    """`generate: false` calls no model; its response is continued as any other."""
    async with before(HI) as setting, setting.socket() as socket:
        made = await socket.answer(input="Hello", generate=False)
        assert (made["response"]["output"], made["response"]["usage"], setting.asked) == ([], None, 0)
        answered = await socket.answer(input="Go", previous_response_id=made["response"]["id"])
        assert texts(answered) == "Hi"
        assert setting.sent(0) == [("user", "Hello"), ("user", "Go")]


async def test_lanes_have_a_newest_response_each() -> None:
    """Events echo the `stream_id` of their request, and each lane is continued by itself."""
    async with before(HI, HI, BYE) as setting, setting.socket() as socket:
        await socket.send(input="A", store=False, stream_id="a")
        await socket.send(input="B", store=False, stream_id="b")
        a, b = await socket.end(), await socket.end()
        assert (a["stream_id"], b["stream_id"]) == ("a", "b")
        answered = await socket.answer(input="x", store=False, stream_id="a", previous_response_id=a["response"]["id"])
        assert (answered["stream_id"], setting.sent(2)[0]) == ("a", ("user", "A"))


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, int, str]] = [
    ("{nonsense", 400, "not a JSON object"),
    ("[]", 400, "send response.create"),
    ('{"type": "response.steer", "input": "x"}', 400, "send response.create"),
    ('{"type": "response.create", "model": "main", "input": "x", "background": true}', 400, "send a POST"),
    ('{"type": "response.create", "model": "main", "input": "x", "stream_id": ""}', 400, "stream_id"),
    ('{"type": "response.create", "model": "main", "input": "x", "stream_id": "a b"}', 400, "stream_id"),
    ('{"type": "response.create", "model": "nothing", "input": "x"}', 404, "nothing"),
    ('{"type": "response.create", "model": "main", "input": "x", "temperature": "hot"}', 400, "temperature"),
    ('{"type": "response.create", "model": "main", "input": "' + "x" * 3000 + '"}', 413, "2000"),
    ('{"type": "response.create", "model": "main", "input": ' + "[" * 900 + "]" * 900 + "}", 413, "2000"),
    ('{"type": "response.create", "model": "main", "input": [' + "[]," * 100 + "[]]}", 413, "2000"),
]


@each_row("message, status, says", REFUSED)
async def test_a_wrong_message_is_an_error(message: str, status: int, says: str) -> None:
    """It has the status that it would have over HTTP, and the connection goes on."""
    async with before(HI, max_body_bytes=2000) as setting, setting.socket() as socket:
        await socket.send_text(message)
        refused = await socket.next()
        assert (refused["type"], refused["status"]) == ("error", status)
        assert says in refused["error"]["message"]
        assert texts(await socket.answer(input="Hello")) == "Hi"


async def test_a_message_that_is_nested_too_deeply() -> None:
    """It is an error, and the connection goes on."""
    async with before(HI) as setting, setting.socket() as socket:
        for depth in (20_000, 200_000):  # Python 3.13 reads a thousand levels, 3.11 doesn't
            nested = "[" * depth + "]" * depth
            await socket.send_text(
                f'{{"type": "response.create", "model": "main", "input": "x", "metadata": {nested}}}'
            )
            assert (await socket.end())["status"] == 400
        assert texts(await socket.answer(input="Hello")) == "Hi"


async def test_more_than_32_lanes_are_refused() -> None:
    """The 33rd name of a lane is an error; the others go on."""
    async with before(HI) as setting, setting.socket() as socket:
        for number in range(32):
            await socket.answer(input="x", generate=False, stream_id=f"lane-{number}")
        refused = await socket.answer(input="x", stream_id="one-more")
        assert refused["error"]["code"] == "websocket_stream_limit_reached"
        assert texts(await socket.answer(input="x", stream_id="lane-0")) == "Hi"


async def test_a_key_is_needed_to_open_a_connection() -> None:
    """Without a key, or with a wrong one, the connection is refused with the error of HTTP."""
    async with before(HI, keys=["one"]) as setting:
        for key in ("", "two"):
            async with setting.socket(key) as socket:
                assert socket.close_code == 1000
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": RESPONSES, "headers": [], "query_string": b""}
        await setting.app({**scope, "extensions": {"websocket.http.response": {}}}, receive, send)
        assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 401)
        assert json.loads(sent[1]["body"])["error"]["code"] == "invalid_api_key"
        async with setting.socket("one") as socket:
            assert texts(await socket.answer(input="Hello")) == "Hi"


async def test_a_web_page_of_another_host_opens_no_connection() -> None:
    """Browsers don't ask before they open a WebSocket: where no key is needed, `Origin` is checked."""
    async with before(HI) as setting:

        async def page(scope: Any, receive: Any, send: Any) -> None:
            headers = [*scope["headers"], (b"origin", b"https://evil.example")]
            await setting.app({**scope, "headers": headers}, receive, send)

        async with setting.socket(app=page) as socket:
            assert socket.close_code == 1000


async def test_limits_of_keys_hold_for_each_message() -> None:
    """The second request of a minute is refused, with the seconds to wait."""
    async with before(HI, HI, keys={"a": {"key": "one", "rpm": 1}}) as setting, setting.socket("one") as socket:
        await socket.answer(input="Hello")
        refused = await socket.answer(input="Hello")
        assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded")
        assert float(refused["headers"]["retry-after"]) > 0
        assert setting.asked == 1


async def test_models_of_a_key_hold_for_each_message() -> None:
    """A model that the key may not use is not found."""
    keys = {"a": {"key": "one", "models": ["other"]}}
    async with before(HI, keys=keys, aliases={"other": "main"}) as setting, setting.socket("one") as socket:
        assert (await socket.answer(input="Hello"))["status"] == 404
        assert texts(await socket.answer(model="other", input="Hello")) == "Hi"


async def test_owners_see_nothing_of_each_other() -> None:
    """A stored response of another key, and a remembered one of another end user, are not found."""
    keys = {"a": {"key": "one"}, "b": {"key": "two"}}
    async with before(HI, HI, keys=keys) as setting:
        async with setting.socket("one") as socket:
            stored = (await socket.answer(input="Hello"))["response"]["id"]
            kept = (await socket.answer(input="Hello", store=False, safety_identifier="u1"))["response"]["id"]
            refused = await socket.answer(input="x", store=False, safety_identifier="u2", previous_response_id=kept)
            assert refused["error"]["code"] == "previous_response_not_found"
        async with setting.socket("two") as socket:
            refused = await socket.answer(input="x", previous_response_id=stored)
            assert refused["error"]["code"] == "previous_response_not_found"
        assert setting.asked == 2


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_a_failure_of_the_provider_ends_the_answer_alone() -> None:
    """An answer that breaks off ends with an error event; the connection goes on, and nothing is continued."""
    async with before(HI, CUT, BYE) as setting, setting.socket() as socket:
        first = (await socket.answer(input="Hello", store=False))["response"]["id"]
        failed = await socket.answer(input="x", store=False, previous_response_id=first)
        assert failed["type"] == "error"
        assert (await socket.end())["type"] == "response.failed"
        refused = await socket.answer(input="x", store=False, previous_response_id=first)
        assert refused["error"]["code"] == "previous_response_not_found"
        assert texts(await socket.answer(input="x", store=False)) == "Bye"


async def test_a_connection_ends_after_an_hour() -> None:
    """The next message gets `websocket_connection_limit_reached`, and the connection is closed."""
    clock = [0.0]
    async with before(HI) as setting:
        endpoint = setting.app._websockets
        assert endpoint is not None
        aged = WebSocketEndpoint(endpoint.answer, endpoint.handler, stores=True, now=lambda: clock[0])
        async with setting.socket(app=aged) as socket:
            clock[0] = 3599.0
            assert texts(await socket.answer(input="Hello")) == "Hi"
        async with setting.socket(app=aged) as socket:
            await socket.answer(input="x", generate=False)
            clock[0] += 3600.0
            refused = await socket.answer(input="x")
            assert (refused["status"], refused["error"]["code"]) == (400, "websocket_connection_limit_reached")
            assert await socket.next() == {}
            assert socket.close_code == 1000


async def test_a_flood_of_messages_ends_the_connection() -> None:
    """More than eight messages that wait for an answer end the connection."""
    blocked = anyio.Event()

    async def never(scope: Any, receive: Any, send: Any) -> None:
        blocked.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    async with before(HI) as setting:
        endpoint = setting.app._websockets
        assert endpoint is not None
        async with setting.socket(app=WebSocketEndpoint(never, endpoint.handler, stores=True)) as socket:
            await socket.send(input="x")
            await blocked.wait()
            for _ in range(9):
                await socket.send(input="x")
            assert await socket.next() == {}
            assert socket.close_code == 1008


async def test_messages_count_as_bodies() -> None:
    """A message that the memory for all bodies has no room for ends the connection."""
    async with before(HI, max_total_body_bytes=5000) as setting, setting.socket() as socket:
        assert texts(await socket.answer(input="x" * 1000)) == "Hi"
        await socket.send(input="x" * 6000)
        assert (await socket.next(), socket.close_code) == ({}, 1013)


async def test_a_conversation_without_room_is_not_remembered() -> None:
    """What a connection remembers counts as a body; without room, the client sends the whole conversation."""
    async with before(HI, max_body_bytes=1000) as setting, setting.socket() as socket:
        first = (await socket.answer(input="x" * 900, store=False))["response"]["id"]
        refused = await socket.answer(input="x", store=False, previous_response_id=first)
        assert refused["error"]["code"] == "previous_response_not_found"


async def test_a_client_that_leaves_ends_its_answer() -> None:
    """The connection to the provider is closed, as over HTTP."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(CUT))
        await peer.gone()

    async with (
        serving(script) as upstream,
        upstream.provider() as provider,
        gateway({"main": provider}, websockets=True) as app,
    ):
        async with Setting(app, ReplayTransport([Recording("test", HI, "chat")])).socket() as socket:
            await socket.send(input="Hello", store=False)
            while (await socket.next())["type"] != "response.output_text.delta":
                pass
        await upstream.all_closed()
        assert app.running == 0


async def test_a_server_that_drains_closes_idle_connections() -> None:
    """An idle connection is closed at once, and a busy one behind its answer."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(CUT))
        await goes_on.wait()
        await peer.send(framed(BYE), END)

    goes_on = anyio.Event()
    async with (
        serving(script) as upstream,
        upstream.provider() as provider,
        gateway({"main": provider}, websockets=True) as app,
    ):
        setting = Setting(app, ReplayTransport([Recording("test", HI, "chat")]))
        async with setting.socket() as idle, setting.socket() as busy:
            await idle.answer(input="x", generate=False)
            await busy.send(input="Hello", store=False)
            while (await busy.next())["type"] != "response.output_text.delta":
                pass
            app.draining = True
            assert (await idle.next(), idle.close_code) == ({}, 1012)
            goes_on.set()
            assert texts(await busy.end()) == "HalBye"
            assert (await busy.next(), busy.close_code) == ({}, 1012)


async def test_a_client_that_reads_nothing_is_left() -> None:
    """A client that takes nothing of its answer for `send_timeout` seconds loses its connection."""
    async with before(HI, send_timeout=0.1) as setting:
        stuck = anyio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            async def send_slowly(message: Any) -> None:
                if message["type"] == "websocket.send":
                    await stuck.wait()
                await send(message)

            await setting.app(scope, receive, send_slowly)

        async with setting.socket(app=slow) as socket:
            await socket.send(input="Hello", store=False)
            assert (await socket.next(), socket.close_code) == ({}, 1011)


async def test_a_server_that_stops_closes_connections() -> None:
    """A connection that is cancelled is closed with the code for a restart."""
    async with before(HI) as setting:
        closing = Socket()
        async with anyio.create_task_group() as tasks:
            await closing.to_app.put({"type": "websocket.connect"})
            scope = {"type": "websocket", "path": RESPONSES, "headers": [], "query_string": b"", "extensions": {}}
            tasks.start_soon(setting.app, scope, closing.to_app.get, closing.to_client.put)
            assert (await closing.to_client.get())["type"] == "websocket.accept"
            tasks.cancel_scope.cancel()
        assert await closing.next() == {}
        assert closing.close_code == 1012


# --- other people's clients -------------------------------------------------------------------------------------------


@asynccontextmanager
async def over_uvicorn(*bodies: bytes, **options: Any) -> AsyncIterator[tuple[str, Setting]]:
    """The base URL of a gateway on loopback."""
    async with before(*bodies, **options) as setting, served(setting.app, ws="websockets-sansio") as (client, _):
        yield f"{client.base_url}/v1", setting


@pytest.mark.one_loop
async def test_openai_python_over_its_own_socket_mode() -> None:
    """`client.responses.connect()`: text, a tool call and its result, an error, all on one connection."""
    async with (
        over_uvicorn(ADD, BYE, keys=["one"]) as (url, setting),
        AsyncOpenAI(api_key="one", base_url=url) as client,
    ):
        async with client.responses.connect() as connection:
            function = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
            await connection.response.create(model="main", input="1 + 2?", store=False, tools=[function])  # type: ignore[list-item]
            first = await last_event(connection)
            [item] = first.response.output
            assert (item.type, item.name, item.arguments) == ("function_call", "add", '{"a": 1, "b": 2}')
            result = {"type": "function_call_output", "call_id": item.call_id, "output": "3"}
            await connection.response.create(
                model="main",
                input=[result],
                store=False,
                previous_response_id=first.response.id,  # type: ignore[list-item]
            )
            second = await last_event(connection)
            assert (second.response.output_text, second.response.previous_response_id) == ("Bye", first.response.id)
            await connection.response.create(model="main", input="x", store=False, previous_response_id="resp_x")
            refused = await last_event(connection)
            assert (refused.type, refused.status, refused.error.code) == ("error", 400, "previous_response_not_found")
        assert [role for role, _ in setting.sent(1)] == ["user", "assistant", "tool"]


async def last_event(connection: Any) -> Any:
    async for event in connection:
        if event.type in ("response.completed", "response.failed", "error"):
            return event
    raise AssertionError("the connection ended")


LIMITS = ResponsesWebSocketLimits(
    max_lanes=8, max_events_per_lane=99, max_events=99, max_bytes_per_lane=2**20, max_bytes=2**20
)


@pytest.mark.one_loop
async def test_openai_python_over_lanes() -> None:
    """The SDK's session collects the answers of two lanes."""
    async with over_uvicorn(HI, BYE) as (url, _), AsyncOpenAI(api_key="none", base_url=url) as client:
        connecting = client.responses.connect()
        async with connecting as connection, AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session:
            lanes = [session.lane(name) for name in ("a", "b")]
            for lane in lanes:
                await lane.send({"type": "response.create", "model": "main", "input": "Hello", "store": False})
            assert [(await lane.get_final_response()).output_text for lane in lanes] == ["Hi", "Bye"]


@pytest.mark.one_loop
async def test_our_own_client_over_a_socket() -> None:
    """`transport = "websocket"` in front of the gateway: a run of tools is one connection, and sends what is new."""

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    async with over_uvicorn(ADD, BYE, HI, keys=["one"]) as (url, setting):
        config = {"adapter": "responses", "base_url": url, "model": "main", "api_key": "one", "transport": "websocket"}
        async with Provider.from_config(config) as provider:
            async with run_tools(provider, [user("1 + 2?")], [add]) as run:
                async for _ in run:
                    pass
            assert run.reply.text == "Bye"
            reply = await provider.chat([*run.messages, user("More")])
            assert (reply.text, reply.attempts) == ("Hi", ())
        assert [role for role, _ in setting.sent(2)] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.one_loop
@pytest.mark.parametrize("store", [True, False])
async def test_the_provider_gets_the_same_by_both_ways(store: bool) -> None:
    """Generated conversations over a WebSocket and over HTTP: the same requests to the provider, the same answers."""
    bodies: list[Any] = []

    async def script(peer: Connection) -> None:
        while True:
            body = json.loads(await peer.request())
            bodies.append(body)
            number = len(body["messages"])
            answer = text(f"answer {number}") if number % 3 else call(entry(0, f"call_{number}", "add", "{}"))
            end = fin("stop" if number % 3 else "tool_calls")
            await peer.send(STREAM, framed(answer + end + DONE), END)

    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    async with serving(script) as upstream, upstream.provider() as main:
        app = gateway({"main": main}, websockets=True, turn_cache=False)
        async with served(app, ws="websockets-sansio") as (client, _):
            config = {"adapter": "responses", "base_url": f"{client.base_url}/v1", "model": "main", "api_key": "k"}
            config["extra_body"] = {"store": store}
            ways = [Provider.from_config({**config, "transport": name}) for name in ("websocket", "httpx")]
            for seed in range(pick(40, 2)):
                rng = random.Random(seed)
                histories: list[list[Any]] = [[user(f"question {seed}")] for _ in ways]
                for step in range(8):
                    replies = [await way.chat(each, tools) for way, each in zip(ways, histories, strict=True)]
                    assert bodies[-1] == bodies[-2]
                    assert replies[0].text == replies[1].text
                    edits = rng.random() < 0.2
                    for reply, history in zip(replies, histories, strict=True):
                        history += [reply.message, *(tool_result(each, "3") for each in reply.tool_calls)]
                        history += [] if reply.tool_calls else [user(f"question {step}")]
                        if edits:
                            history[0] = user(f"edited {step}")
            for way in ways:
                await way.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_streamfold_serve_opens_websockets(tmp_path: Path) -> None:
    """`streamfold serve` with `websockets = true` answers openai-python, and stops in order."""

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            await peer.send(STREAM, framed(HI), b"0\r\n\r\n")

    async with serving(script) as upstream:
        file = tmp_path / "streamfold.toml"
        provider = f'[providers.main]\nbase_url = "{upstream.base_url}"\nmodel = "m"\n'
        file.write_text(f"[gateway]\nwebsockets = true\n{provider}")
        async with serve_command(file) as (address, said, _):
            client = AsyncOpenAI(api_key="none", base_url=f"{address}/v1")
            async with client, client.responses.connect() as connection:
                await connection.response.create(model="main", input="Hello", store=False)
                first = (await last_event(connection)).response
                await connection.response.create(model="main", input="More", store=False, previous_response_id=first.id)
                assert (await last_event(connection)).response.output_text == "Hi"
    assert b"WARNING" not in said
    assert b"ERROR" not in said


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_streamfold_serve_stops_with_idle_websockets(tmp_path: Path) -> None:
    """Idle connections don't keep the server from stopping: they are closed with the code for a restart."""
    file = tmp_path / "streamfold.toml"
    provider = '[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    file.write_text(f"[gateway]\nwebsockets = true\nshutdown = 60.0\n{provider}")
    async with serve_command(file) as (address, _, stop):
        client = AsyncOpenAI(api_key="none", base_url=f"{address}/v1")
        async with client, client.responses.connect() as connection:
            warm_up: Any = {"type": "response.create", "model": "main", "input": "x", "generate": False}
            await connection.send(warm_up)
            assert (await last_event(connection)).type == "response.completed"
            stop()
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
