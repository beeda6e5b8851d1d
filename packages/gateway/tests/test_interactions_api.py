"""The Interactions API of the gateway: what its clients get, from providers of this API and of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import corpus
import interaction_streams as ix
from every_api import scripted, through
from gateways import behind
from google_sdk import google_client, google_interaction
from streamfold import Provider, Reply, StreamDecoder
from streamfold.testing import ScriptedProvider, call, fail, say, think, usage
from streamfold_gateway import gateway
from tables import each_row

pytestmark = [pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"), pytest.mark.one_loop]

PATH = "/v1beta/interactions"
THOUGHTS = {"generation_config": {"thinking_summaries": "auto"}}
ASK = {"model": "main", "input": "Hi"}


async def asked(model: Any, body: dict[str, Any], **options: Any) -> httpx.Response:
    transport = httpx.ASGITransport(gateway({"main": model}, **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        return await client.post(PATH, json=body)


TURN = [think("Hm."), say("I ", "look."), call("get_weather", city="Oslo"), usage(12, 34, cached_tokens=5)]


async def test_a_stream_and_a_whole_answer() -> None:
    """Google's client reads the stream; the whole answer has the same steps; thoughts are for those that ask."""
    streamed = await asked(ScriptedProvider(TURN), {**ASK, **THOUGHTS, "stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    read = google_interaction(streamed.content)
    assert (read.text, read.thoughts, read.finish_reason) == ("I look.", "Hm.", "requires_action")
    [(call_id, name, arguments)] = read.calls
    assert (name, arguments) == ("get_weather", {"city": "Oslo"})
    whole = (await asked(ScriptedProvider(TURN), {**ASK, **THOUGHTS})).json()
    assert (whole["object"], whole["status"], whole["model"]) == ("interaction", "requires_action", "main")
    assert whole["steps"] == [
        {"type": "thought", "summary": [{"type": "text", "text": "Hm."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "I look."}]},
        {"type": "function_call", "id": call_id, "name": "get_weather", "arguments": {"city": "Oslo"}},
    ]
    assert (whole["usage"]["total_input_tokens"], whole["usage"]["total_cached_tokens"]) == (12, 5)
    unasked = (await asked(ScriptedProvider(TURN), ASK)).json()
    assert [step["type"] for step in unasked["steps"]] == ["thought", "model_output", "function_call"]
    assert unasked["steps"][0] == {"type": "thought"}  # what it thought is for those that ask


@each_row("stream", [True, False])
async def test_an_answer_whose_end_says_nothing(stream: bool) -> None:
    """A provider that gives no finish reason has ended the answer all the same: clients wait for that event."""
    body = (Path(__file__).parents[3] / "fixtures/ends/done_without_reason.sse").read_bytes()
    async with behind(body) as client:
        answer = await client.post(PATH, json={**ASK, "stream": stream})
    if stream:
        read = google_interaction(answer.content)
        assert (read.text, read.finish_reason) == ("All of it.", "completed")
    else:
        assert answer.json()["status"] == "completed"


async def test_googles_client_reads_a_whole_answer() -> None:
    """Its types accept it."""
    body = (await asked(ScriptedProvider(TURN), {**ASK, **THOUGHTS})).content
    with google_client(body) as client:
        interaction = client.interactions.create(model="m", input="?")
    assert interaction.status == "requires_action"
    assert interaction.output_text == "I look."
    assert [step.type for step in interaction.steps] == ["thought", "model_output", "function_call"]


async def test_a_conversation_in_steps() -> None:
    """Text of both sides, calls and their results, images and instructions reach a provider of another API."""
    model = ScriptedProvider("Fine.")
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Look:"},
                                           {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}]},
        {"type": "thought", "signature": "c2ln"},
        {"type": "function_call", "id": "a1", "name": "see", "arguments": {"n": 1}},
        {"type": "function_result", "call_id": "a1", "name": "see", "result": {"sky": "blue"}, "is_error": False},
        {"type": "model_output", "content": [{"type": "text", "text": "Blue."}]},
        {"type": "user_input", "content": "Sure?"},
    ]  # fmt: skip
    tools = [{"type": "function", "name": "see", "description": "Sees.", "parameters": {"type": "object"}}]
    answer = await asked(model, {"model": "main", "input": steps, "tools": tools, "system_instruction": "Be brief."})
    assert answer.status_code == 200
    sent = model.requests[0].body["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert (sent[2]["tool_calls"][0]["id"], sent[3]["content"]) == ("a1", '{"sky":"blue"}')
    assert [part["type"] for part in sent[1]["content"]] == ["text", "image_url"]


@each_row("name", corpus.names("corpus/interactions/*.sse"))
async def test_recordings_through_the_gateway(name: str) -> None:
    """A provider of this API behind it: text, thoughts, calls, sources, usage, and each step with its signature."""
    body = corpus.body(name)
    upstream = httpx.MockTransport(
        lambda _: httpx.Response(200, content=body, headers={"content-type": "text/event-stream"})
    )
    decoder = StreamDecoder("interactions")
    decoder.feed(body)
    decoder.close()
    async with httpx.AsyncClient(transport=upstream) as client:
        provider = Provider.from_config("gemini-interactions:m", api_key="k", http_client=client)
        streamed = await asked(provider, {**ASK, **THOUGHTS, "stream": True})
        whole = await asked(provider, {**ASK, **THOUGHTS})
    for answer in (streamed, whole):
        read = StreamDecoder("interactions")
        read.feed(answer.content)
        read.close()
        assert _said(read.reply) == _said(decoder.reply)
    if b'"google_search_call"' not in body:  # of which Google's own types refuse what Google sends
        assert google_interaction(streamed.content).text == decoder.reply.text


def _said(reply: Reply) -> tuple[Any, ...]:
    calls = [(made.id, made.name, made.arguments) for made in reply.tool_calls]
    citations = [(one.url, one.start, one.end) for one in reply.citations]
    return reply.text, reply.reasoning, calls, citations, reply.usage, reply.extras["steps"], reply.raw_finish_reason


async def test_what_only_google_has() -> None:
    """It is sent to a provider of this API, and refused or left out with a warning before others."""
    tools = [{"type": "google_search"}]
    native = scripted("interactions", "Hi")
    async with through("interactions", native) as (model, _):
        await model.chat("Hi", extra_body={"tools": tools, "labels": {"a": "b"}})
    assert (native.requests[0].body["tools"], native.requests[0].body["labels"]) == (tools, {"a": "b"})
    refused = await asked(ScriptedProvider("Hi"), {**ASK, "tools": tools})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_argument")
    assert "tools[0].type is 'google_search'" in refused.json()["error"]["message"]
    left_out = await asked(ScriptedProvider("Hi"), {**ASK, "labels": {"a": "b"}, "stream": True})
    assert b"option_dropped" in left_out.content


@each_row(
    "member",
    [
        {"previous_interaction_id": "v1_of_another_client"},
        {"background": True},
        {"agent": "deep-research"},
        {"agent": "deep-research", "model": None},
    ],
)
@each_row("api", ["chat", "interactions"])
async def test_no_interaction_is_stored(api: str, member: dict[str, Any]) -> None:
    """An id is no permission: what one client has stored at the provider is not another's."""
    model = scripted(api, "Hi")
    answer = await asked(model.provider, {**ASK, **member})
    assert answer.status_code == 400
    assert next(iter(member)) in answer.json()["error"]["message"]
    assert model.requests == []


async def test_errors() -> None:
    """A refusal has Google's form; an answer that breaks off ends with an error event, and has no call."""
    refused = await asked(ScriptedProvider(fail(429, "slow down")), ASK)
    assert (refused.status_code, refused.json()) == (
        429,
        {"error": {"code": "resource_exhausted", "message": "slow down"}},
    )
    broken = await asked(ScriptedProvider([say("Half"), call("f", a=1), fail("it broke")]), {**ASK, "stream": True})
    kinds = [line[7:] for line in broken.text.split("\n") if line.startswith("event: ")]
    assert kinds[-1] == "error"
    assert "interaction.completed" not in kinds
    empty = await asked(ScriptedProvider("Hi"), {"model": "main", "input": []})
    assert (empty.status_code, empty.json()["error"]["message"]) == (
        400,
        "input is empty: it must be a text, a list of contents, or a list of steps",
    )


def test_what_is_written_is_read_at_any_cut() -> None:
    """The builder of these tests and Google's client agree about a stream."""
    body = ix.answer(ix.output(0, "Hi"), ix.call(1, "a1", "f", '{"x":', "1}"), status="requires_action")
    assert google_interaction(body).calls == [("a1", "f", {"x": 1})]
