"""Items of a provider of the Responses API that are neither text nor functions, before clients of the same API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest

import corpus
from folding import event as written
from gateways import RESPONSES, behind
from mirror import check_response_events, payloads
from streamfold import StreamDecoder
from streamfold.recording import Recording
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "?"}}
PATCH = {
    "type": "custom_tool_call", "id": "ctc_1", "status": "completed", "call_id": "c-1", "name": "apply_patch",
    "input": "*** Begin Patch",
}  # fmt: skip
ANSWER = {
    "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
    "content": [{"type": "output_text", "text": "Sunny.", "annotations": [], "logprobs": []}],
}  # fmt: skip


def response(*items: dict[str, Any], ends: str | None = "completed") -> bytes:
    """A stream of these items, whole, in OpenAI's order."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m"}}]
    for at, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
        if item["type"] == "message":
            text, place = item["content"][0]["text"], {"output_index": at, "item_id": item["id"], "content_index": 0}
            events.append({"type": "response.output_text.delta", **place, "delta": text})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    if ends:
        last = {"id": "resp_1", "model": "m", "object": "response", "status": ends, "output": [*items]}
        events.append({"type": f"response.{ends}", "response": last})
    return b"".join(written({**event, "sequence_number": number}) for number, event in enumerate(events))


async def answered(body: bytes, *, stream: bool = True) -> bytes:
    async with behind(Recording("test", body, "responses"), adapter="responses") as client:
        asked = {"model": "main", "input": "Hi", "stream": stream, "tools": [{"type": "web_search"}]}
        return (await client.post(RESPONSES, json=asked)).content


@pytest.mark.parametrize("stream", [True, False])
async def test_a_truncated_message_is_incomplete(stream: bool) -> None:
    """The status of a message that was cut by a limit is the provider's, not `completed`."""
    body = await answered(response(ANSWER | {"status": "incomplete"}, ends="incomplete"), stream=stream)
    last = payloads(body)[-1]["response"] if stream else json.loads(body)
    assert [(item["type"], item["status"]) for item in last["output"]] == [("message", "incomplete")]


@each_row(
    "items", [(REASONING, SEARCH, ANSWER), (REASONING, PATCH), (SEARCH, ANSWER, SEARCH | {"id": "ws_2"}), (PATCH,)]
)
async def test_items_come_in_their_order(items: tuple[dict[str, Any], ...]) -> None:
    """Each is what the provider sent, in its place: an encrypted reasoning belongs to the item behind it."""
    found = check_response_events(await answered(response(*items)))
    ids = [item["id"] for item in found["output"] if item["type"] == "message"]  # texts are written anew
    assert found["output"] == [{**item, "id": ids[0]} if item is ANSWER else item for item in items]


async def test_a_custom_call_has_its_own_events() -> None:
    """As the API documents them."""
    events = payloads(await answered(response(PATCH)))
    assert [event["type"].removeprefix("response.") for event in events[2:-1]] == [
        "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
    ]  # fmt: skip


async def test_an_answer_that_is_not_streamed_has_them_too() -> None:
    """All of them, in some order."""
    async with behind(Recording("test", response(SEARCH, PATCH), "responses"), adapter="responses") as client:
        answer = await client.post(RESPONSES, json={"model": "main", "input": "Hi"})
    assert answer.json()["output"] == [SEARCH, PATCH]


@pytest.mark.parametrize("ends", [None, "incomplete"])
async def test_nothing_is_run_of_an_answer_that_breaks_off(ends: str | None) -> None:
    """A call that the client would run is written when the answer has ended in order, and not before."""
    found = await answered(response(SEARCH, PATCH, ends=ends))
    assert b"web_search_call" in found
    assert b"custom_tool_call" not in found
    assert payloads(found)[-1]["type"] == ("response.incomplete" if ends else "response.failed")


RECORDED = [name for name in corpus.names("corpus/responses/*.sse") if isinstance(name, str)]


@each_row("name", RECORDED or corpus.names("corpus/responses/*.sse"))
async def test_recorded_items_pass_through(name: str) -> None:
    """What a recorded answer has beside text, functions and plain reasoning, a client of the gateway gets unchanged.

    Each item comes twice, and may differ: OpenAI encrypts it anew in the response that ends the stream, and its list of
    tools is empty before that. A client gets either form where the provider has it. All items are in their order.
    """
    expected = corpus.expected(name)
    if expected["ends"] != "complete":
        pytest.skip("the recorded answer broke off")
    events = payloads(corpus.body(name))
    last = events[-1].get("response", {}).get("output", ())
    written = payloads(await answered(corpus.body(name)))
    found = written[-1]["response"]["output"]
    assert others(done(written)) == others(done(events) or last)
    assert others(found) == others(last or done(events))
    whole = json.loads(await answered(corpus.body(name), stream=False))["output"]
    assert order(found) == order(whole) == order(last or done(events))


def done(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def order(items: Iterable[dict[str, Any]]) -> list[str]:
    """The types of the items, without texts that say nothing."""
    said = [(item["type"], json.dumps([item.get("content"), item.get("summary")])) for item in items]
    return [kind for kind, texts in said if kind not in ("message", "reasoning") or re.search('"text": "[^"]', texts)]


def others(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that are neither text nor plain reasoning nor a function's call."""
    return [item for item in items if item["type"] not in ("message", "reasoning", "function_call")]


def _text(words: str, *cited: tuple[int, int]) -> dict[str, Any]:
    places = [{"start_index": a, "end_index": b, "url": f"https://{a}.test"} for a, b in cited]
    found = [{"type": "url_citation", "title": "t", **place} for place in places]
    return {"type": "output_text", "text": words, "annotations": found}


def _message(item_id: str, phase: str, *parts: dict[str, Any]) -> dict[str, Any]:
    about = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "phase": phase}
    return {**about, "content": list(parts)}


NO = {"type": "refusal", "refusal": "No."}
SAID: list[list[dict[str, Any]]] = [
    [_message("m1", "final_answer", _text("abc", (0, 2)))],
    [_message("m1", "commentary", _text("abc", (0, 2))), _message("m2", "final_answer", _text("defg", (1, 3)))],
    [_message("m1", "final_answer", _text("abc", (0, 2)), _text("de", (0, 1)))],
    [_message("m1", "commentary", NO), _message("m2", "final_answer", _text("hij", (0, 1)))],
    [_message("m1", "commentary", _text("hij", (0, 1)), NO), _message("m2", "final_answer", _text("klm", (0, 1)))],
    [_message("m1", "final_answer", NO, NO)],
    [_message("m1", "final_answer", NO, _text("hij", (0, 1)))],
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("upstream", ["whole", "stream", "mixed pieces"])
@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("items", SAID)
async def test_messages_are_what_the_provider_wrote(
    items: list[dict[str, Any]], has_ids: bool, upstream: str, streamed: bool
) -> None:
    """Texts, refusals, citations and phases, in one or several parts and messages, streamed and whole.

    So it is where the pieces of two messages are mixed, and where items have no ids.
    """
    items = [item if has_ids else {**item, "id": None} for item in items]
    last = {"id": "resp_1", "model": "m", "object": "response", "status": "completed", "output": items}
    body = json.dumps(last).encode()
    if upstream != "whole":
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**last, "status": "in_progress", "output": []}}
        ]
        done = []
        for at, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}})
            for number, part in enumerate(item["content"]):
                name, member = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
                place = {"output_index": at, "item_id": item["id"], "content_index": number}
                events += [{"type": f"response.{name}.delta", **place, "delta": piece} for piece in part[member]]
            done.append(events.pop())
            done.append({"type": "response.output_item.done", "output_index": at, "item": item})
            if upstream == "stream":
                events += done
                done.clear()
        events += done
        events.append({"type": "response.completed", "response": last})
        body = b"".join(written({**event, "sequence_number": number}) for number, event in enumerate(events))
    answer = await answered(body, stream=streamed)
    assert _read(answer) == _read(body)
    assert _messages(answer) == [_kinds(item) for item in items]


def _messages(body: bytes) -> list[list[tuple[str, str]]]:
    """What each message says that a client has at the end."""
    response = payloads(body)[-1]["response"] if body.startswith(b"event") else json.loads(body)
    return [_kinds(item) for item in response["output"] if item["type"] == "message"]


def _kinds(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Texts and refusals of a message in their order; several parts of one kind may be written as one."""
    said = [(part["type"], part.get("text", part.get("refusal"))) for part in message["content"]]
    return [(kind, "".join(text for _, text in parts)) for kind, parts in groupby(said, itemgetter(0))]


def _read(body: bytes) -> Any:
    decoder = StreamDecoder("responses")
    decoder.feed(body)
    decoder.close()
    reply = decoder.reply
    cited = [(one.url, reply.text[one.start : one.end]) for one in reply.citations]
    return reply.text, reply.refusal, cited, reply.phases
