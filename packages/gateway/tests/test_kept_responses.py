"""Responses that the gateway keeps: continued, fetched, resumed, cancelled and forgotten, whatever the provider is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from gateways import RESPONSES, client_of, served
from scale import pick
from sdks import openai
from servers import END, STREAM, Connection, framed, serving
from streamfold import StreamDecoder
from streamfold.deltas import Finish, ReasoningDelta, TextDelta
from streamfold.errors import ErrorInfo
from streamfold.serving import ResponsesSerializer
from streamfold.serving.chat import ChatSerializer
from streamfold.stores import MemoryStore
from streamfold.types import ToolCallDelta, Usage
from streamfold_gateway import gateway
from streamfold_gateway.stored_responses import ResponseStore
from streamfold_gateway.stored_responses.recorder import BackgroundResponse, RecorderMemory
from streamfold_gateway.stored_responses.store import StoredResponse

pytestmark = pytest.mark.one_loop  # uvicorn's


@dataclass
class Upstream:
    """A provider whose answers come piece by piece, each when the test lets it."""

    pieces: list[bytes] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    allowed: int = 10**6
    closed: int = 0
    left: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    def allow(self, count: int) -> None:
        self.allowed += count
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def script(self, connection: Connection) -> None:
        self.bodies.append(json.loads(await connection.request()))
        try:
            await connection.send(STREAM)
            for piece in self.pieces:
                while self.allowed <= 0:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._watch, connection, tasks.cancel_scope)
                        await self.changed.wait()
                        tasks.cancel_scope.cancel()
                    if self.left:
                        return
                self.allowed -= 1
                await connection.send(framed(piece))
            await connection.send(END)
        finally:
            self.closed += 1

    async def _watch(self, connection: Connection, scope: anyio.CancelScope) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await connection.gone()
        self.left = True
        scope.cancel()


def answer(*, calls: bool = False) -> list[bytes]:
    """An answer of reasoning, text and perhaps a call, cut into its events."""
    serializer = ChatSerializer(id="a", model="m", created=1, include_usage=True)
    deltas: list[Any] = [
        ReasoningDelta("I think. "),
        ReasoningDelta("So."),
        *(TextDelta(f"word {at} ") for at in range(5)),
    ]
    if calls:
        deltas += [
            ToolCallDelta(0, "call_1", "look"),
            ToolCallDelta(0, arguments='{"at":'),
            ToolCallDelta(0, arguments="1}"),
        ]
    end = Finish("tool_calls", "tool_calls") if calls else Finish("stop", "stop")
    pieces = [
        serializer.begin(),
        *(serializer.feed(delta) for delta in deltas),
        serializer.feed_all([Usage(3, 4, 7), end]),
    ]
    return [piece for piece in [*pieces, serializer.finish()] if piece]


@pytest.fixture(params=pick(["memory", "sqlite"], ["sqlite"]), autouse=True)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs with both stores; in the quick run with the file alone."""
    monkeypatch.setitem(PLACE, "responses", "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/r.db")


PLACE: dict[str, Any] = {}


@asynccontextmanager
async def kept(upstream: Upstream, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(upstream.script) as server,
        server.provider() as main,
        served(gateway({"main": main}, **PLACE, **options)) as (client, _),
    ):
        yield client


def asked(text: str = "Hi", **members: Any) -> dict[str, Any]:
    return {"model": "main", "input": text, **members}


def events_in(data: str | bytes) -> list[dict[str, Any]]:
    text = data.decode() if isinstance(data, bytes) else data
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def folded(data: bytes) -> Any:
    decoder = StreamDecoder("responses")
    decoder.feed(data)
    decoder.close()
    return decoder.reply


async def test_a_conversation_goes_on_by_the_id_alone() -> None:
    """`previous_response_id` brings back all that was said, also across several responses."""
    upstream = Upstream(answer())
    async with kept(upstream) as client:
        first = (await client.post(RESPONSES, json=asked("One", instructions="Be brief."))).json()
        second = (await client.post(RESPONSES, json=asked("Two", previous_response_id=first["id"]))).json()
        third = await client.post(RESPONSES, json=asked("Three", previous_response_id=second["id"], stream=True))
    text = "word 0 word 1 word 2 word 3 word 4 "
    said = [(message["role"], message["content"]) for message in upstream.bodies[-1]["messages"]]
    assert said == [("user", "One"), ("assistant", text), ("user", "Two"), ("assistant", text), ("user", "Three")]
    assert (first["store"], first["previous_response_id"]) == (True, None)
    assert second["previous_response_id"] == first["id"]
    assert {event["response"]["previous_response_id"] for event in events_in(third.text) if "response" in event} == {
        second["id"]
    }


async def test_results_of_calls_alone() -> None:
    """A client that keeps nothing sends the result of the call and no call."""
    upstream = Upstream(answer(calls=True))
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    async with kept(upstream) as client:
        first = (await client.post(RESPONSES, json=asked(tools=tools))).json()
        result = [{"type": "function_call_output", "call_id": "call_1", "output": "seen"}]
        body = {"model": "main", "tools": tools, "input": result, "previous_response_id": first["id"]}
        assert (await client.post(RESPONSES, json=body)).status_code == 200
        reference = [{"type": "item_reference", "id": item["id"]} for item in first["output"] if "call_id" in item]
        body = {"model": "main", "tools": tools, "input": [{"role": "user", "content": "Hi"}, *reference, *result]}
        assert (await client.post(RESPONSES, json=body)).status_code == 200
    for sent in upstream.bodies[1:]:
        assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
        assert sent["messages"][1]["tool_calls"][0]["id"] == "call_1"


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_fetch_and_delete(stream: bool) -> None:
    """A kept response is there until it is deleted; one that was not to be kept never was."""
    upstream = Upstream(answer(calls=True))
    async with kept(upstream) as client:
        made = await client.post(RESPONSES, json=asked(stream=stream, store=True))
        whole = events_in(made.text)[-1]["response"] if stream else made.json()
        assert whole["store"] is True
        path = f"{RESPONSES}/{whole['id']}"
        assert (await client.get(path)).json() == whole
        resumed = await client.get(path, params={"stream": "true"})
        assert folded(resumed.content).tool_calls[0].id == "call_1"
        assert (await client.delete(path)).json() == {"id": whole["id"], "object": "response", "deleted": True}
        assert (await client.get(path)).status_code == 404
        assert (await client.delete(path)).status_code == 404
        unkept = (await client.post(RESPONSES, json=asked(store=False))).json()
        assert unkept["store"] is False
        assert (await client.get(f"{RESPONSES}/{unkept['id']}")).status_code == 404
        again = await client.post(RESPONSES, json=asked(previous_response_id=whole["id"]))
    assert again.status_code == 400
    assert again.json()["error"]["code"] == "previous_response_not_found"


@pytest.mark.slow
async def test_a_cut_at_every_event_is_resumed() -> None:
    """Whatever a client has seen of a stream, the rest comes by `starting_after`, and nothing twice."""
    upstream = Upstream(answer(calls=True))
    async with kept(upstream) as client:
        whole = (await client.post(RESPONSES, json=asked(stream=True, store=True))).content
        events = events_in(whole)
        path = f"{RESPONSES}/{events[0]['response']['id']}"
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        for at in range(-1, len(events), pick(1, 5)):
            rest = await client.get(path, params={"stream": "true", "starting_after": at})
            assert events_in(rest.text) == events[at + 1 :]
        bad = await client.get(path, params={"stream": "true", "starting_after": "x"})
        assert bad.status_code == 400
    assert len(upstream.bodies) == 1


async def test_a_client_that_lost_its_connection_continues() -> None:
    """The answer goes on without it, and the rest is there for it, as it comes."""
    upstream = Upstream(answer(), allowed=5)
    async with kept(upstream) as client:
        seen: list[dict[str, Any]] = []
        async with client.stream("POST", RESPONSES, json=asked(stream=True, store=True)) as response:
            async for line in response.aiter_lines():
                seen += [json.loads(line[6:])] if line.startswith("data: ") else []
                if seen and seen[-1]["type"] == "response.output_text.delta":
                    break
        response_id, number = seen[0]["response"]["id"], seen[-1]["sequence_number"]
        path = f"{RESPONSES}/{response_id}"
        assert (await client.get(path)).json()["status"] == "in_progress"
        async with anyio.create_task_group() as tasks:
            rest: list[dict[str, Any]] = []

            async def resume() -> None:
                params = {"stream": "true", "starting_after": number}
                rest.extend(events_in((await client.get(path, params=params)).text))

            tasks.start_soon(resume)
            await anyio.sleep(0.05)
            upstream.allow(100)
        numbers = [event["sequence_number"] for event in [*seen, *rest]]
        assert numbers == list(range(len(numbers)))
        assert rest[-1]["response"]["status"] == "completed"
    assert len(upstream.bodies) == 1


async def test_an_answer_that_need_not_be_kept_is_given_up_with_its_client() -> None:
    """Without `store: true` a client that leaves closes the provider's connection, as everywhere."""
    upstream = Upstream(answer(), allowed=3)
    async with kept(upstream) as client:
        async with client.stream("POST", RESPONSES, json=asked(stream=True)) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    break
        with anyio.fail_after(5):
            while not upstream.closed:
                await anyio.sleep(0.01)


@pytest.mark.slow
async def test_background() -> None:
    """The answer is made while nobody waits: its id comes at once, and the rest can be fetched."""
    upstream = Upstream(answer(), allowed=0)
    async with kept(upstream) as client:
        with anyio.fail_after(5):
            begun = (await client.post(RESPONSES, json=asked(background=True))).json()
        assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])
        path = f"{RESPONSES}/{begun['id']}"
        assert (await client.get(path)).json()["status"] in ("queued", "in_progress")
        busy = await client.post(RESPONSES, json=asked(previous_response_id=begun["id"]))
        assert "still in progress" in busy.text
        upstream.allow(100)
        with anyio.fail_after(5):
            while (done := (await client.get(path)).json())["status"] != "completed":
                await anyio.sleep(0.01)
    assert done["background"] is True
    assert done["output"][-1]["content"][0]["text"].startswith("word 0")


@pytest.mark.slow
async def test_cancel() -> None:
    """A cancelled answer ends with what had come of it, for those who read along too, and its provider is left."""
    upstream = Upstream(answer(calls=True), allowed=9)
    async with kept(upstream) as client:
        begun = (await client.post(RESPONSES, json=asked(background=True))).json()
        path = f"{RESPONSES}/{begun['id']}"
        read: list[httpx.Response] = []

        async def follow() -> None:
            read.append(await client.get(path, params={"stream": "true"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.sleep(0.1)
            cancelled = (await client.post(f"{path}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        assert cancelled == (await client.get(path)).json() == (await client.post(f"{path}/cancel")).json()
        assert events_in(read[0].text)[-1]["type"] == "response.cancelled"
        kinds = [(item["type"], item.get("status")) for item in cancelled["output"]]
        assert ("function_call", "completed") not in kinds
        with anyio.fail_after(5):
            while not upstream.closed:
                await anyio.sleep(0.01)


@pytest.mark.slow
async def test_input_items() -> None:
    """All that a response has read, the newest first, page by page."""
    upstream = Upstream(answer())
    async with kept(upstream) as client:
        first = (await client.post(RESPONSES, json=asked("One"))).json()
        second = (await client.post(RESPONSES, json=asked("Two", previous_response_id=first["id"]))).json()
        path = f"{RESPONSES}/{second['id']}/input_items"
        items = (await client.get(path)).json()
        roles = [item.get("role", item["type"]) for item in items["data"]]
        assert roles == ["user", "assistant", "reasoning", "user"]
        assert items["has_more"] is False
        page = (await client.get(path, params={"limit": 2, "order": "asc"})).json()
        assert page["has_more"] is True
        rest = (await client.get(path, params={"after": page["last_id"], "order": "asc"})).json()
        assert [*page["data"], *rest["data"]] == items["data"][::-1]


@pytest.mark.slow
async def test_keys_see_their_own_responses_alone() -> None:
    """Another client's response does not exist: it can't be fetched, continued, cancelled or deleted."""
    ann, bob = ({"authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    async with kept(Upstream(answer()), keys=["ann", "bob"]) as client:
        mine = (await client.post(RESPONSES, json=asked(store=True), headers=ann)).json()
        path = f"{RESPONSES}/{mine['id']}"
        for refused in (
            await client.get(path, headers=bob),
            await client.get(f"{path}/input_items", headers=bob),
            await client.post(f"{path}/cancel", headers=bob),
            await client.delete(path, headers=bob),
        ):
            assert refused.status_code == 404
        body = asked(previous_response_id=mine["id"])
        assert (await client.post(RESPONSES, json=body, headers=bob)).status_code == 400
        assert (await client.get(path)).status_code == 401
        assert (await client.get(path, headers=ann)).json() == mine


@pytest.mark.slow
async def test_refusals_are_those_of_the_gateway() -> None:
    """A request that can't be answered is refused at once, kept or not, in the background or not; nothing is kept."""
    upstream = Upstream(answer())
    async with kept(upstream) as client:
        for members in ({}, {"store": True}, {"background": True}, {"store": True, "stream": True}):
            unknown = await client.post(RESPONSES, json={**asked(), "model": "nobody", **members})
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
            wrong = await client.post(RESPONSES, json={**asked(), "tools": 3, **members})
            assert wrong.status_code == 400
        both = await client.post(RESPONSES, json=asked(background=True, store=False))
        assert "can't be combined with store: false" in both.text
        assert (await client.post(RESPONSES, content=b"{")).status_code == 400
        assert (await client.get(f"{RESPONSES}/resp_unknown")).json()["error"]["message"].startswith("there is no")
    assert upstream.bodies == []


@pytest.mark.slow
async def test_errors_of_the_provider() -> None:
    """Its status reaches a client that waits; of a background response it is the error."""

    async def refuses(connection: Connection) -> None:
        await connection.request()
        body = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
        await connection.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async with (
        serving(refuses) as server,
        server.provider() as main,
        served(gateway({"main": main}, **PLACE)) as (client, _),
    ):
        for members in ({"store": True}, {"store": True, "stream": True}):
            failed = await client.post(RESPONSES, json=asked(**members))
            assert (failed.status_code, failed.json()["error"]["code"]) == (400, "context_length_exceeded")
            assert (await client.get(f"{RESPONSES}/{failed.headers['x-request-id']}")).status_code == 404
        begun = (await client.post(RESPONSES, json=asked(background=True))).json()
        with anyio.fail_after(5):
            while (done := (await client.get(f"{RESPONSES}/{begun['id']}")).json())["status"] == "queued":
                await anyio.sleep(0.01)
    assert (done["status"], done["error"]["code"]) == ("failed", "context_length_exceeded")


async def test_warnings() -> None:
    """They reach the client in the header and in a comment, as those of any answer."""
    odd = [*answer()[:-1], b"data: [DONE]\n\n"]  # without a finish reason
    async with kept(Upstream(odd)) as client:
        for members in ({}, {"store": True}):
            made = await client.post(RESPONSES, json=asked(**members))
            assert made.headers["x-streamfold-warnings"].startswith("missing_finish_reason: ")
            streamed = await client.post(RESPONSES, json=asked(stream=True, **members))
            assert "missing_finish_reason" in streamed.text


async def test_switched_off() -> None:
    """Without a place to keep them, what refers to kept responses is refused as ever."""
    async with client_of(gateway({"main": {"base_url": "http://x/v1", "model": "m"}}, responses=False)) as client:
        refused = await client.post(RESPONSES, json=asked(previous_response_id="resp_1"))
        assert "previous_response_id can't be used" in refused.text
        assert (await client.get(f"{RESPONSES}/resp_1")).status_code in (404, 405)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_app_that_nobody_has_entered(anyio_backend: str) -> None:
    """A mounted app has no place for tasks: kept answers are made while their requests are open."""
    upstream = Upstream(answer())
    async with serving(upstream.script) as server, server.provider() as main:
        app = gateway({"main": main}, **PLACE)
        async with client_of(app) as client:
            begun = (await client.post(RESPONSES, json=asked(background=True))).json()
            assert (await client.get(f"{RESPONSES}/{begun['id']}")).json()["status"] == "completed"
            streamed = await client.post(RESPONSES, json=asked(stream=True, store=True))
            assert folded(streamed.content).text.startswith("word 0")
        await app.aclose()


@pytest.mark.slow
async def test_openai_python() -> None:
    """OpenAI's own client retrieves, continues, cancels and deletes."""
    async with (
        kept(Upstream(answer())) as client,
        openai.AsyncOpenAI(base_url=str(client.base_url.join("/v1")), api_key="k", max_retries=0) as sdk,
    ):
        first = await sdk.responses.create(model="main", input="One", background=True)
        while (done := await sdk.responses.retrieve(first.id)).status != "completed":
            await anyio.sleep(0.01)
        assert done.output_text.startswith("word 0")
        second = await sdk.responses.create(model="main", input="Two", previous_response_id=done.id)
        stream = await sdk.responses.retrieve(first.id, stream=True, starting_after=3)
        numbers = [event.sequence_number async for event in stream]
        assert numbers == list(range(4, 4 + len(numbers)))
        assert [item.type async for item in sdk.responses.input_items.list(second.id)]
        await sdk.responses.cancel(second.id)
        await sdk.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(second.id)


async def test_an_answer_has_one_end() -> None:
    """Where it breaks off while it is being cancelled, the first of both ends it, and the other changes nothing."""

    class Slow(MemoryStore):
        async def put(self, *args: Any, **how: Any) -> bool:
            await anyio.sleep(0.01)
            return await super().put(*args, **how)

    responses = ResponseStore(Slow(), 10_000)
    begun = StoredResponse("resp_1", "me", [], None, {"id": "resp_1", "status": "in_progress", "output": []})
    serializer = ResponsesSerializer(id="resp_1", model="m", records=True)
    running = BackgroundResponse(responses, RecorderMemory(10_000), begun, serializer, background=True)
    await running.begin()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.cancel)
        tasks.start_soon(running.fail, ErrorInfo("the answer broke off"))
    kept = await responses.get("resp_1", "me")
    assert kept is not None
    assert running.response == kept.response
    assert (running.done, [event.number for event in running.events]) == (True, [0, 1, 2])
    assert kept.response["status"] in running.events[-1].data.decode()


async def test_the_end_is_stored_before_the_writer_goes_on() -> None:
    """So nothing that is cancelled afterwards can store the last events a second time."""
    responses = ResponseStore(MemoryStore(), 10_000)
    begun = StoredResponse("resp_1", "me", [], None, {"id": "resp_1", "status": "in_progress", "output": []})
    serializer = ResponsesSerializer(id="resp_1", model="m", records=True, fill_finish_reason=True)
    running = BackgroundResponse(responses, RecorderMemory(10_000), begun, serializer, background=True)
    await running.begin()
    assert serializer.feed(TextDelta("Hi")) + serializer.finish() == b""
    await running.write(b"", last=True)
    kept = await responses.get("resp_1", "me")
    assert kept is not None
    assert (kept.ended, running.done, running.over) == (True, True, True)
    numbers = [event.number for event in await responses.events(kept)]
    assert numbers == list(range(len(numbers)))
