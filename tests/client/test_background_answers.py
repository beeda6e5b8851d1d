"""Answers that a provider stores: read again by their ids, also in another process, waited for, and cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import httpx
import pytest

import interaction_streams as ix
import streamfold.sync
from streamfold import APITimeoutError, ConfigError, Hooks, NotFoundError, Provider, Reply, Tool
from streamfold.client import network_stream
from streamfold.deltas import Finish, TextDelta
from streamfold.serving.responses import ResponsesSerializer
from streamfold.types import ToolCallDelta, Usage
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "integer"}}})
SPECS = {"responses": "openai-responses:gpt-5.6", "interactions": "gemini-interactions:gemini-3-flash-preview"}
BACKGROUND: dict[str, Any] = {"background": True}


def responses_events() -> list[bytes]:
    serializer = ResponsesSerializer(id="resp_1", model="m", created=1)
    call = ToolCallDelta(0, "call_a", "look", '{"at": 1}', whole=True)
    deltas: list[Any] = [TextDelta("one "), TextDelta("two"), call, Usage(5, 7, 12), Finish("tool_calls", "completed")]
    data = serializer.begin() + serializer.feed_all(deltas) + serializer.finish()
    return [block + b"\n\n" for block in data.split(b"\n\n") if block]


def interactions_events() -> list[bytes]:
    call = {"id": "call_a", "name": "look"}
    return [
        ix.created(), ix.start(0, "model_output"), ix.delta(0, "text", text="one "), ix.delta(0, "text", text="two"),
        ix.stop(0), ix.start(1, "function_call", **call), ix.delta(1, "arguments_delta", arguments='{"at": 1}'),
        ix.stop(1), ix.completed(status="requires_action"), ix.DONE,
    ]  # fmt: skip


EVENTS = {"responses": responses_events(), "interactions": interactions_events()}
IDS = {"responses": "resp_1", "interactions": "v1_a"}
PATHS = {"responses": "/v1/responses", "interactions": "/v1beta/interactions"}
CALL_STEP = {"type": "function_call", "id": "call_a", "name": "look", "arguments": {"at": 1}}
ITEMS: list[Any] = [
    {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "one two"}]},
    {"type": "function_call", "id": "f", "call_id": "call_a", "name": "look", "arguments": '{"at": 1}'},
]
WHOLE: dict[str, dict[str, Any]] = {
    "responses": {"id": "resp_1", "object": "response", "status": "completed", "output": ITEMS},
    "interactions": {"id": "v1_a", "object": "interaction", "status": "requires_action",
                     "steps": [{"type": "model_output", "content": [{"type": "text", "text": "one two"}]}, CALL_STEP]},
}  # fmt: skip
BEGUN = {"responses": 5, "interactions": 3}  # events until text has come
RUNNING = {
    "responses": {"id": "resp_1", "object": "response", "status": "queued", "output": []},
    "interactions": {"id": "v1_a", "object": "interaction", "status": "in_progress", "steps": []},
}


class Body(httpx.AsyncByteStream):
    """A body that breaks at its end, or falls silent there."""

    def __init__(self, events: Sequence[bytes], end: str = "") -> None:
        self._events, self._end = events, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event
        if self._end == "breaks":
            raise httpx.ReadError("connection reset")
        if self._end == "falls silent":
            await anyio.sleep_forever()


class Server:
    """Answers with the responses, one for each request."""

    def __init__(self, *answers: httpx.Response) -> None:
        self._answers = [*answers]
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self._answers.pop(0)

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    def provider(self, api: str, **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Provider.from_config(SPECS[api], api_key="k", http_client=client, **settings)


def stream(api: str, start: int = 0, stop: int | None = None, end: str = "") -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=Body(EVENTS[api][start:stop], end))


def whole(reply: Reply, shown: str) -> None:
    assert shown == reply.text == "one two"
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [("call_a", {"at": 1})]
    assert reply.finish_reason == "tool_calls"


async def read(answer: Any) -> tuple[str, Reply]:
    shown = "".join([chunk.delta async for chunk in answer])
    return shown, answer.reply


@each_row("api", SPECS)
async def test_an_answer_is_read_again(api: str) -> None:
    """By its id alone: the whole answer, with its calls; nothing is sent to a model."""
    server = Server(stream(api))
    shown, reply = await read(server.provider(api).retrieve(IDS[api], [LOOK]))
    whole(reply, shown)
    assert reply.id == IDS[api]
    assert server.asked == [f"GET {PATHS[api]}/{IDS[api]}?stream=true"]
    assert server.requests[0].content == b""
    assert "content-type" not in server.requests[0].headers
    assert not reply.warnings


@each_row("api", SPECS)
async def test_the_id_of_a_running_answer(api: str) -> None:
    """It is known from the first event on, so that a program can save it before the answer has ended."""
    server = Server(stream(api))
    answer = server.provider(api).chat_stream("Hi", [LOOK], extra_body=BACKGROUND)
    assert answer.answer_id is None
    async with answer:
        async for chunk in answer:
            assert answer.answer_id == IDS[api]
            assert chunk is not None
    assert json.loads(server.requests[0].content)["background"] is True


@each_row("api", SPECS)
async def test_a_connection_that_breaks_meanwhile(api: str) -> None:
    """What is read again is resumed as the answer itself is, and shown once."""
    server = Server(stream(api, 0, BEGUN[api], "breaks"), stream(api, 0 if api == "interactions" else BEGUN[api]))
    shown, reply = await read(server.provider(api, max_retries=2).retrieve(IDS[api], [LOOK]))
    whole(reply, shown)
    assert len(server.asked) == 2
    assert server.asked[1].startswith(f"GET {PATHS[api]}/{IDS[api]}?stream=true")


@each_row("api", SPECS)
async def test_an_answer_is_waited_for(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that the server has lost is replaced by the stored answer, which is asked for until it is finished."""
    monkeypatch.setattr(network_stream, "_FIRST_POLL", 0.001)
    begun = BEGUN[api]
    silent = [
        stream(api, 0, begun, "falls silent"),
        stream(api, 0 if api == "interactions" else begun, begun, "falls silent"),
    ]
    running = [httpx.Response(200, json=RUNNING[api]) for _ in range(3)]
    server = Server(*silent, *running, httpx.Response(200, json=WHOLE[api]))
    provider = server.provider(api, max_retries=3, timeouts={"read": 0.05})
    shown, reply = await read(provider.chat_stream("Hi", [LOOK], extra_body=BACKGROUND))
    whole(reply, shown)
    path = f"{PATHS[api]}/{IDS[api]}"
    assert server.asked[0] == f"POST {PATHS[api]}"
    assert server.asked[2:] == [f"GET {path}"] * 4
    assert [request.method for request in server.requests].count("POST") == 1


async def test_waiting_ends_with_the_timeout_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`total` holds for the waiting, too; the error has what had arrived."""
    monkeypatch.setattr(network_stream, "_FIRST_POLL", 3600.0)
    api = "interactions"
    silent = [stream(api, 0, 3, "falls silent") for _ in range(2)]
    server = Server(*silent, httpx.Response(200, json=RUNNING[api]))
    provider = server.provider(api, max_retries=3, timeouts={"read": 0.05, "total": 1800.0})
    with pytest.raises(APITimeoutError) as caught:
        await read(provider.chat_stream("Hi", [LOOK], extra_body=BACKGROUND))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "one "
    assert len(server.requests) == 3


@each_row("api", SPECS)
async def test_an_answer_is_cancelled(api: str) -> None:
    """By a request of its own; leaving the stream alone cancels nothing."""
    server = Server(
        stream(api, 0, BEGUN[api], "falls silent"), httpx.Response(200, json={**WHOLE[api], "status": "cancelled"})
    )
    provider = server.provider(api)
    async with provider.chat_stream("Hi", [LOOK], extra_body=BACKGROUND) as answer:
        async for _ in answer:
            break
        found = answer.answer_id
    assert len(server.requests) == 1
    assert found is not None
    await provider.cancel(found)
    assert server.asked[1] == f"POST {PATHS[api]}/{IDS[api]}/cancel"
    assert server.requests[1].headers["x-goog-api-key" if api == "interactions" else "authorization"]


@each_row("api", SPECS)
async def test_an_answer_that_is_not_there(api: str) -> None:
    """Both raise what the server says. No request for a new answer is ever made of it."""
    missing = {"error": {"code": "not_found", "message": "no such answer"}}
    server = Server(*[httpx.Response(404, json=missing) for _ in range(2)])
    provider = server.provider(api, max_retries=0)
    with pytest.raises(NotFoundError, match="no such answer"):
        await read(provider.retrieve("gone", [LOOK]))
    with pytest.raises(NotFoundError, match="no such answer"):
        await provider.cancel("gone")
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert server.requests[1].content == b""


async def test_an_id_is_no_path() -> None:
    """Whatever an id is made of, it stays one part of the path."""
    server = Server(stream("responses"))
    await read(server.provider("responses").retrieve("../files?x=1", [LOOK]))
    assert server.asked == ["GET /v1/responses/..%2Ffiles%3Fx%3D1?stream=true"]


@each_row("adapter", ["chat", "kimi", "anthropic", "gemini"])
async def test_an_api_that_stores_nothing(adapter: str) -> None:
    """The error comes before anything is sent."""
    provider = Provider.from_config({"base_url": "http://127.0.0.1:9/v1", "adapter": adapter, "model": "m"})
    with pytest.raises(ConfigError, match="stores no answers"):
        provider.retrieve("id_1")
    with pytest.raises(ConfigError, match="can't cancel"):
        await provider.cancel("id_1")


@each_row("wrong", ["", None, 5])
async def test_an_id_that_is_none(wrong: Any) -> None:
    """It is an error of the caller's."""
    provider = Provider.from_config(SPECS["responses"], api_key="k")
    with pytest.raises(ConfigError, match="answer_id must be the id of an answer"):
        provider.retrieve(wrong)
    with pytest.raises(ConfigError, match="answer_id must be the id of an answer"):
        await provider.cancel(wrong)


@pytest.mark.one_loop
async def test_our_own_gateway() -> None:
    """A response in the background of the gateway is read by another client, to its end."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    seen: list[str] = []
    upstream = Server(stream("responses"))
    app = gateway({"main": upstream.provider("responses")})
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        config = {"adapter": "responses", "base_url": "http://gateway/v1", "model": "main"}
        hooks = Hooks(on_request=lambda info: seen.append(info.url))
        provider = Provider.from_config(config, http_client=client, hooks=hooks)
        async with provider.chat_stream("Hi", [LOOK], extra_body=BACKGROUND) as answer:
            async for _ in answer:
                break
            found = answer.answer_id
        assert found is not None
        shown, reply = await read(Provider.from_config(config, http_client=client).retrieve(found, [LOOK]))
    whole(reply, shown)


@pytest.mark.one_loop
async def test_without_an_event_loop() -> None:
    """The synchronous provider has the same."""
    server = Server(stream("responses"), httpx.Response(200, json=WHOLE["responses"]))
    with streamfold.sync.Provider(server.provider("responses")) as provider:
        answer = provider.retrieve("resp_1", [LOOK])
        shown = "".join(chunk.delta for chunk in answer)
        whole(answer.reply, shown)
        assert answer.answer_id == "resp_1"
        provider.cancel("resp_1")
    assert server.asked[1] == "POST /v1/responses/resp_1/cancel"
