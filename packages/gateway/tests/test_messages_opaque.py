"""What only a provider can read travels through clients of the Messages API, and comes back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folding import event
from gateways import MESSAGES, behind
from mirror import read
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

FIXTURES = Path(__file__).parents[3] / "fixtures"
TOOLS = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("look", "edit")]
THINKING = {"thinking": {"type": "adaptive"}}
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
     "encrypted_content": "ä+1"},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "two"},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}",
     "status": "completed"},
    {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "edit", "arguments": "{}",
     "status": "completed"},
]  # fmt: skip
SIGNED = [
    {"text": "I'll look."},
    {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2lnIG9uZQ=="},
    {"functionCall": {"name": "edit", "args": {}}},
]


def responses() -> bytes:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m"}}]
    for at, item in enumerate(ITEMS):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            part = {"item_id": item["id"], "output_index": at, "content_index": 0}
            events.append({"type": "response.output_text.delta", **part, "delta": text})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    done = {"id": "resp_1", "model": "m", "status": "completed", "output": ITEMS}
    return b"".join(map(event, [*events, {"type": "response.completed", "response": done}]))


def gemini() -> bytes:
    return event({"candidates": [{"content": {"role": "model", "parts": SIGNED}, "finishReason": "STOP"}]})


def asking(*messages: Any, **members: Any) -> dict[str, Any]:
    talk = [{"role": "user", "content": "Hi"}, *messages]
    return {"model": "main", "max_tokens": 100, "messages": talk, "tools": TOOLS, **THINKING, **members}


async def second_request(adapter: str, answer: bytes, *, stream: bool, cached: bool = False) -> tuple[Any, Any]:
    """The content that a client gets and sends back with results, and what the provider is asked then."""
    async with behind(answer, answer, adapter=adapter, turn_cache=cached) as client:
        first = await client.post(MESSAGES, json=asking(stream=stream))
        content = first.json()["content"] if not stream else read("anthropic", first.content).extras["blocks"]
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": "ok"} for call in calls]
        turns = [{"role": "assistant", "content": content}, {"role": "user", "content": results or "Go on."}]
        await client.post(MESSAGES, json=asking(*turns, stream=stream))
        return content, json.loads(client.upstream.requests[1].content)  # type: ignore[attr-defined]


@pytest.mark.parametrize("stream", [True, False])
async def test_encrypted_reasoning_of_the_responses_api(stream: bool) -> None:
    """Each item goes back byte for byte, before the item that it belongs to."""
    content, asked = await second_request("responses", responses(), stream=stream)
    kinds = [block["type"] for block in content]
    assert kinds == ["thinking", "redacted_thinking", "text", "redacted_thinking", "tool_use", "tool_use"]
    sent = [item for item in asked["input"] if item.get("role") != "user"]
    assert [item.get("type", "message") for item in sent] == [
        "reasoning", "message", "reasoning", "function_call", "function_call",
        "function_call_output", "function_call_output",
    ]  # fmt: skip
    assert [item for item in sent if item.get("type") == "reasoning"] == [ITEMS[0], ITEMS[2]]


@pytest.mark.parametrize("stream", [True, False])
async def test_thought_signatures_of_gemini(stream: bool) -> None:
    """The signature goes back on the part that had it, and on no other."""
    content, asked = await second_request("gemini", gemini(), stream=stream)
    assert [block["type"] for block in content] == ["text", "redacted_thinking", "tool_use", "tool_use"]
    [turn] = [content for content in asked["contents"] if content["role"] == "model"]
    assert [part.get("thoughtSignature") for part in turn["parts"]] == [None, "c2lnIG9uZQ==", None]
    assert [part["functionCall"]["name"] for part in turn["parts"][1:]] == ["look", "edit"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("adapter", "answer"), [("responses", responses()), ("gemini", gemini())])
async def test_a_turn_cache_keeps_it_instead(adapter: str, answer: bytes, stream: bool) -> None:
    """With a turn cache, no client gets a block that its user can't read, and the provider gets the same turn back."""
    content, asked = await second_request(adapter, answer, stream=stream, cached=True)
    assert "redacted_thinking" not in {block["type"] for block in content}
    assert "streamfold_" not in json.dumps(content)
    if adapter == "responses":
        assert asked["input"][1 : 1 + len(ITEMS)] == ITEMS
    else:
        assert asked["contents"][1]["parts"] == SIGNED


@each_row("name", ["hidden_thinking", "web_search"])
@each_row("stream", [True, False])
async def test_blocks_of_anthropic(name: str, stream: bool) -> None:
    """Redacted thinking, searches and citations reach the client in their places, and go back as they came."""
    answer = (FIXTURES / "anthropic" / f"{name}.sse").read_bytes()
    content, asked = await second_request("anthropic", answer, stream=stream)
    came_as = read("anthropic", answer).extras["blocks"]
    required = {} if stream else {"tool_use": {"caller": {"type": "direct"}}}
    assert content == [required.get(block["type"], {}) | block for block in came_as]
    assert asked["messages"][1]["content"] == came_as


@each_row("stream", [True, False])
@each_row(("adapter", "answer"), [("responses", responses()), ("gemini", gemini())])
async def test_clients_that_asked_for_no_thinking(adapter: str, answer: bytes, stream: bool) -> None:
    """They may not expect such blocks, and get none."""
    async with behind(answer, adapter=adapter, turn_cache=False) as client:
        body = {**asking(stream=stream), "thinking": {"type": "disabled"}}
        got = await client.post(MESSAGES, json=body)
    assert b"thinking" not in got.content


async def test_a_block_that_nobody_of_us_made() -> None:
    """Redacted thinking of another maker is not looked into, and not sent to a provider that can't read it."""
    for data in ("streamfold_", "streamfold_!", "streamfold_bm90IGpzb24", "cmVkYWN0ZWQ="):
        turn = {
            "role": "assistant",
            "content": [{"type": "redacted_thinking", "data": data}, {"type": "text", "text": "a"}],
        }
        async with behind(gemini(), adapter="gemini", turn_cache=False) as client:
            answer = await client.post(MESSAGES, json=asking(turn, {"role": "user", "content": "b"}))
            asked = client.upstream.requests[0].content  # type: ignore[attr-defined]
        assert answer.status_code == 200
        assert data.encode() not in asked
