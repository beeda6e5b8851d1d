"""Text and calls reach the client in the order in which the provider sent them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, call, entry, event, fin, fragments, text
from gateways import CHAT, PATHS, RESPONSES, asking, behind
from mirror import APIS, payloads, read
from tables import each_row

USER = {"role": "user", "content": "?"}
BOTH = pytest.mark.parametrize("api", APIS)

ASIDE = (
    text("Before. ")
    + call(entry(0, "a", "f", '{"x"'))
    + text("Between. ")
    + fragments("1 b g {}", "0 - - :1}")
    + text("After.")
    + fin("tool_calls")
    + DONE
)


def order_of_events(api: str, body: bytes) -> list[str]:
    """The texts and the ids of calls, as they follow each other in a stream."""
    found: list[str] = []
    for payload in payloads(body):
        if api == "chat":
            for choice in payload["choices"]:
                found += [choice["delta"]["content"]] if choice["delta"].get("content") else []
                found += [made["id"] for made in choice["delta"].get("tool_calls", ()) if made.get("id")]
        elif payload["type"] == "response.output_text.delta":
            found.append(payload["delta"])
        elif payload["type"] == "response.output_item.added" and payload["item"]["type"] == "function_call":
            found.append(payload["item"]["call_id"])
    return found


@BOTH
async def test_seed_002_10_text_that_came_after_a_call_is_written_after_it(api: str) -> None:
    """Also where it came between two calls, and although calls are written only when the answer has ended."""
    async with behind(ASIDE) as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=True))
    assert order_of_events(api, answer.content) == ["Before. ", "a", "Between. ", "b", "After."]
    assert read(api, answer.content).text == "Before. Between. After."


async def test_seed_002_10_items_of_a_whole_response() -> None:
    """An answer that is not streamed has its items in the same order."""
    async with behind(ASIDE, ASIDE) as client:
        output = (await client.post(RESPONSES, json=asking(RESPONSES))).json()["output"]
        message = (await client.post(CHAT, json=asking(CHAT))).json()["choices"][0]["message"]
    said = [item.get("call_id") or item["content"][0]["text"] for item in output]
    assert said == ["Before. ", "a", "Between. ", "b", "After."]
    assert message["content"] == "Before. Between. After."


@BOTH
@each_row("reason", ["length", "stop"])
async def test_text_behind_calls_that_are_dropped(api: str, reason: str) -> None:
    """The text stays, in a stream and in a whole answer."""
    body = call(entry(0, "a", "f", '{"x"')) + text("After.") + fin(reason) + DONE
    async with behind(body, body) as client:
        for stream in (True, False):
            answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=stream))
            assert read(api, answer.content).text == "After."


@BOTH
async def test_text_behind_a_call_of_an_answer_that_breaks_off(api: str) -> None:
    """The answer ends with an error; no call is written, and all of the text is there."""
    body = text("Before.") + call(entry(0, "a", "f", "{}")) + text("After.")
    async with behind(body) as client:
        answer = await client.post(PATHS[api], json=asking(PATHS[api], stream=True))
    texts = [payload for payload in payloads(answer.content) if "error" not in payload]
    assert order_of_events(api, b"".join(event(payload) for payload in texts)) == ["Before.", "After."]
    assert b'"error":{' in answer.content


@BOTH
async def test_gemini_signatures_come_back(api: str) -> None:
    """A client that returns the items of an answer returns `extra_content` too, and the provider gets it back."""
    signed = {**entry(0, "a", "f", "{}"), "extra_content": {"google": {"thought_signature": "s"}}}
    done = text("Done.") + fin("stop") + DONE
    async with behind(call(signed) + fin("tool_calls") + DONE, done) as client:
        first = (await client.post(PATHS[api], json=asking(PATHS[api]))).json()
        if api == "chat":
            answer = [{"role": "tool", "tool_call_id": "a", "content": "1"}]
            turn: dict[str, Any] = {"messages": [USER, first["choices"][0]["message"], *answer]}
        else:
            turn = {"input": [USER, *first["output"], {"type": "function_call_output", "call_id": "a", "output": "1"}]}
        second = await client.post(PATHS[api], json={"model": "main", **turn})
        sent = json.loads(client.upstream.requests[1].content)  # type: ignore[attr-defined]
    assert second.status_code == 200
    assert sent["messages"][1]["tool_calls"][0]["extra_content"] == signed["extra_content"]
