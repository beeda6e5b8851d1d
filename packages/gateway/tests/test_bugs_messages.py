"""Bugs that other gateways had on their way from another API to the Messages API, each by its entry (NA64 to NA80)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, call, chunk, entry, event, fin, text
from gateways import MESSAGES, behind
from mirror import payloads, read
from streamfold.serving.anthropic.request import parse_anthropic_request as parse_messages
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

THINKING = {"thinking": {"type": "adaptive"}}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
THINKS = chunk({"reasoning_content": "Hm."})


def asking(**members: Any) -> dict[str, Any]:
    return {"model": "main", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}], **members}


async def streamed(*body: bytes, **members: Any) -> bytes:
    """What a client gets for an answer of a Chat provider."""
    async with behind(b"".join(body)) as client:
        answer = await client.post(MESSAGES, json=asking(stream=True, **THINKING, **members))
    return answer.content


def blocks(body: bytes) -> list[tuple[str, str]]:
    """The kinds of the blocks of a stream, with what their deltas say. Fails for a delta of another kind."""
    found: list[tuple[str, str]] = []
    members = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
    for payload in payloads(body):
        if payload["type"] == "content_block_start":
            found.append((payload["content_block"]["type"], ""))
        elif payload["type"] == "content_block_delta" and payload["delta"]["type"] != "signature_delta":
            kind, said = found[-1]
            found[-1] = kind, said + payload["delta"][members[kind]]
    return found


async def test_na64_na65_na66_na78_deltas_are_in_blocks_of_their_kind() -> None:
    """A change of kind opens a block, an empty list of calls is nothing, and input comes as fragments alone."""
    body = await streamed(
        THINKS,
        chunk({"content": "Hel", "tool_calls": []}),
        chunk({"content": "lo", "tool_calls": []}),
        call(entry(0, "a", "f", '{"a":1}')),  # arguments in one piece
        fin("tool_calls"),
        DONE,
        tools=[TOOL],
    )
    assert blocks(body) == [("thinking", "Hm."), ("text", "Hello"), ("tool_use", '{"a":1}')]
    starts = [payload["content_block"] for payload in payloads(body) if payload["type"] == "content_block_start"]
    assert starts[-1]["input"] == {}


@each_row("body", [b"", text("Hi"), THINKS, event({"error": {"message": "no"}})])
async def test_na67_na68_an_answer_that_failed_is_no_empty_answer(body: bytes) -> None:
    """Whether the provider's stream just ends or reports an error, the client learns that the answer failed."""
    async with behind(body) as client:
        answer = await client.post(MESSAGES, json=asking(stream=True))
    last = answer.json() if answer.status_code != 200 else payloads(answer.content)[-1]
    assert last["type"] == "error"
    assert b"message_stop" not in answer.content


async def test_na69_refusals_and_stop_strings_keep_their_reason() -> None:
    """They are not `end_turn`."""
    body = await streamed(text("I"), fin("content_filter"), DONE)
    assert payloads(body)[-2]["delta"]["stop_reason"] == "refusal"


@each_row(("cached", "fresh"), [(None, 9), (0, 9), (4, 5), (9, 0)])
async def test_na70_cached_tokens_are_counted_once(cached: int | None, fresh: int) -> None:
    """Input tokens are those that were not read from the cache."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}
    body = await streamed(text("I"), event({"choices": [], "usage": usage}), fin("stop"), DONE)
    told = payloads(body)[-2]["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"]) == (fresh, cached or 0)


async def test_na71_a_whole_answer_keeps_its_signature_in_a_stream() -> None:
    """A provider may send JSON although a stream was asked for."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [thought, {"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    head = {"content-type": "application/json"}
    async with behind(json.dumps(message).encode(), adapter="anthropic", headers=head) as client:
        answer = await client.post(MESSAGES, json=asking(stream=True, **THINKING))
    assert read("anthropic", answer.content).extras["blocks"] == message["content"]


async def test_na72_thinking_is_a_block_with_the_key_of_a_signature() -> None:
    """Front ends drop blocks of thinking that have none."""
    start, *_, signed = [
        payload.get("content_block") or payload.get("delta")
        for payload in payloads(await streamed(THINKS, text("Hi"), fin("stop"), DONE))
        if payload.get("index") == 0 and payload["type"] != "content_block_stop"
    ]
    assert start == {"type": "thinking", "thinking": "", "signature": ""}
    assert signed == {"type": "signature_delta", "signature": ""}


async def test_na73_na74_na75_what_clients_send_is_taken() -> None:
    """Thinking, effort, context management, system messages inside the conversation, contents without an image."""
    conversation = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": []},
        {"role": "user", "content": "And?"},
    ]
    body = await streamed(
        text("Hi"), fin("stop"), DONE,
        messages=conversation, context_management={"edits": []}, output_config={"effort": "max"},
    )  # fmt: skip
    assert blocks(body) == [("text", "Hi")]


async def test_na74_the_highest_effort_stays_the_highest() -> None:
    """An effort of the Messages API is the same effort towards the provider."""
    for effort in ("low", "medium", "high", "xhigh", "max"):
        request = parse_messages({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
                                  "output_config": {"effort": effort}})  # fmt: skip
        assert request.options.reasoning_effort == effort


async def test_na76_nothing_is_added_to_a_request() -> None:
    """No system message, no tools, no effort that the client did not ask for."""
    async with behind(text("Hi") + fin("stop") + DONE) as client:
        await client.post(MESSAGES, json=asking())
        sent = json.loads(client.upstream.requests[0].content)  # type: ignore[attr-defined]
    assert sent["messages"] == [{"role": "user", "content": "Hi"}]
    assert not {"tools", "tool_choice", "reasoning_effort", "temperature", "metadata"} & sent.keys()


async def test_na77_halves_of_characters_are_joined() -> None:
    """Half of a pair that has lost its other half becomes a replacement character; none is passed on."""
    halves = json.dumps("\U0001f600")[1:-1]
    body = "".join(
        'data: {"choices":[{"index":0,"delta":{"content":"HALF"}}]}\n\n'.replace("HALF", half)
        for half in (halves[:6], halves[6:], r"\ud83d")
    )
    got = read("anthropic", await streamed(body.encode(), fin("stop"), DONE))
    assert got.text == "\U0001f600\ufffd"


async def test_na79_na80_counting_and_compacting() -> None:
    """A count is answered without a model, and a context that is too long is told in the words of this API."""
    error = {"error": {"message": "Your input exceeds the context window of this model.", "code": None}}
    async with behind(json.dumps(error).encode(), status=400) as client:
        count = await client.post(f"{MESSAGES}/count_tokens", json=asking())
        answer = await client.post(MESSAGES, json=asking())
    assert count.json()["input_tokens"] > 0
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")
