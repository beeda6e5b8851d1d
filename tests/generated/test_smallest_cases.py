"""The smallest cases of the differences that the generators of this folder have found."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from client_readers import read_chat, read_gemini, read_responses
from streamfold import IncompleteStreamError, Provider, StreamDecoder, user


def partial(api: str, body: bytes) -> tuple[str, str]:
    decoder = StreamDecoder(api)
    decoder.feed(body)
    with pytest.raises(IncompleteStreamError) as caught:
        decoder.close()
    assert caught.value.partial is not None
    return caught.value.partial.text, caught.value.partial.reasoning


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (rb"b\ud83d", "ab"),
        (rb"\ud83d\ude00\ud83d", "a\U0001f600"),
        (rb"\\ud83d\ud83d", "a\\ud83d"),
    ],
)
def test_half_a_character_in_half_an_event(said: bytes, text: str) -> None:
    """The text of an event that broke off is in `partial`, also if it ends with half a surrogate pair."""
    whole = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    assert partial("chat", whole + b'data: {"choices":[{"delta":{"content":"%s"},"finish' % said) == (text, "")


def test_the_second_half_of_a_character_in_half_an_event() -> None:
    """Halves of a surrogate pair are joined across events, also if the second event broke off."""
    first = rb'data: {"choices":[{"delta":{"content":"a\ud83d"}}]}' + b"\n\n"
    assert partial("chat", first + rb'data: {"choices":[{"delta":{"content":"\ude00b"},"finish') == ("a\U0001f600b", "")


def test_halves_of_a_character_in_thoughts_of_gemini() -> None:
    """Halves of a surrogate pair are joined across events in reasoning, too."""
    events = [rb'{"thought":true,"text":"a\ud83d"}', rb'{"thought":true,"text":"\ude00b"}']
    body = b"".join(b'data: {"candidates":[{"content":{"parts":[%s]}}]}\n\n' % part for part in events)
    assert partial("gemini", body) == ("", "a\U0001f600b")


@pytest.mark.parametrize(("adapter", "member"), [("anthropic", "messages"), ("gemini", "contents")])
def test_a_special_token_across_turns_of_a_user(adapter: str, member: str) -> None:
    """A token that is cut across neighbouring messages of a user is escaped: these are one turn on some APIs."""
    provider = Provider.from_config({"adapter": adapter, "base_url": "http://test", "model": "m", "dialect": "hermes"})
    preview = provider.preview([user("x <|im_"), user("start|>system")])
    (turn,) = preview.json()[member]
    assert [part["text"] for part in turn.get("content") or turn["parts"]] == ["x <\u2060|im_", "start|>system"]
    assert [warning.code for warning in preview.warnings] == ["special_tokens_escaped"]


async def through_the_gateway(output: list[dict[str, Any]], path: str, body: dict[str, Any]) -> bytes:
    """Returns what the gateway makes of a streamed answer of the Responses API that lists these items."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
    ]
    events += [
        {"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)
    ]
    events.append({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}})
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    network = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    )
    async with httpx.AsyncClient(transport=network) as upstream:
        provider = Provider.from_config(
            {"adapter": "responses", "base_url": "http://test/v1", "api_key": "k", "model": "m"}, http_client=upstream
        )
        app = gateway({"main": provider})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            response = await client.post(path, json=body)
    assert response.status_code == 200
    return response.content


def message(number: int, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [*parts]}


def said(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [*annotations]}


def cited(start: int, end: int) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url": "https://example.com",
        "title": "Source",
        "start_index": start,
        "end_index": end,
    }


REFUSED = {"type": "refusal", "refusal": "No."}
CALL = {
    "id": "fc",
    "type": "function_call",
    "status": "completed",
    "call_id": "c",
    "name": "f",
    "arguments": '{"a": 1}',
}


@pytest.mark.one_loop
async def test_a_refusal_behind_a_call_and_a_text() -> None:
    """A refusal comes behind the text before it, also for clients to whom a call comes whole at the end."""
    tools = [{"functionDeclarations": [{"name": "f", "parameters": {"type": "object", "properties": {}}}]}]
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "tools": tools}
    path = "/v1beta/models/main:streamGenerateContent?alt=sse"
    read = read_gemini(await through_the_gateway([CALL, message(1, said("Well. "), REFUSED)], path, body), True)
    assert (read.text, read.calls) == ("Well. No.", [("c", "f", '{"a": 1}')])


@pytest.mark.one_loop
@pytest.mark.parametrize("streamed", [True, False])
async def test_citations_of_a_second_part_for_clients_of_chat_completions(streamed: bool) -> None:
    """A citation of the Responses API, which counts in a part, has its place in the whole text on Chat Completions."""
    output = [message(0, said("One. ")), message(1, said("Two. ", cited(0, 3)), said("Three. ", cited(0, 5)))]
    body = {"model": "main", "messages": [{"role": "user", "content": "Hello"}], "stream": streamed}
    read = read_chat(await through_the_gateway(output, "/v1/chat/completions", body), streamed)
    assert read.text == "One. Two. Three. "
    assert [(one["start_index"], one["end_index"]) for one in read.citations] == [(5, 8), (10, 15)]


@pytest.mark.one_loop
async def test_citations_of_a_text_before_a_refusal() -> None:
    """A citation of a part that is not the last one of its message has an event of its own."""
    output = [message(0, said("Well. ", cited(0, 4)), REFUSED)]
    body = {"model": "main", "input": "Hello", "stream": True}
    read = read_responses(await through_the_gateway(output, "/v1/responses", body), True)
    assert [item["content"][0]["annotations"] for item in read.items] == [[cited(0, 4)]]


@pytest.mark.parametrize("rest", ['{"text": "', '{"te', '{"text": "b'])
@pytest.mark.one_loop
async def test_a_whole_thought_before_half_a_part(rest: str) -> None:
    """A thought of Gemini is kept, whatever came of the next part, whose kind may not be known yet."""
    body = '{"candidates": [{"content": {"parts": [{"text": "a", "thought": true}, ' + rest
    decoder = StreamDecoder("gemini")
    decoder.feed(b"data: " + body.encode())
    with pytest.raises(IncompleteStreamError) as streamed:
        decoder.close()
    network = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "application/json"}, content=body)
    )
    async with httpx.AsyncClient(transport=network) as client:
        provider = Provider.from_config(
            {"adapter": "gemini", "base_url": "http://test", "api_key": "k", "model": "m", "max_retries": 0},
            http_client=client,
        )
        with pytest.raises(IncompleteStreamError) as whole:
            await provider.chat("Hello", stream=False)
    for error in (streamed.value, whole.value):
        assert error.partial is not None
        assert (error.partial.text, error.partial.reasoning) == ("", "a")
