"""An answer with nothing in it is an error that is retried, on every wire format."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from streamfold import (
    EmptyResponseError,
    IncompleteStreamError,
    Provider,
    StreamDecoder,
    UpstreamError,
)


def stream(*events: Any) -> bytes:
    """Events, named by their type where they have one."""
    names = [f"event: {one['type']}\n" if isinstance(one, dict) and "type" in one else "" for one in events]
    texts = [one if isinstance(one, str) else json.dumps(one) for one in events]
    return "".join(f"{name}data: {text}\n\n" for name, text in zip(names, texts, strict=True)).encode()


def chat(delta: Any, finish: str | None = None) -> Any:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def gemini(parts: Any, finish: str | None = None) -> Any:
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}} | ({"finishReason": finish} if finish else {})]
    }


START = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
MESSAGE = {"type": "message", "id": "i", "role": "assistant", "content": []}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "item_id": "i", "content_index": 0, "delta": ""}
USAGE = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
EMPTY: list[tuple[str, bytes]] = [
    *((api, stream("[DONE]")) for api in ("chat", "kimi", "anthropic", "gemini", "responses")),
    ("chat", stream(chat({"role": "assistant"}), "[DONE]")),
    ("kimi", stream(chat({"role": "assistant", "content": ""}), "[DONE]")),
    ("chat", stream(chat({"content": None, "refusal": "", "reasoning_content": "", "tool_calls": []}), "[DONE]")),
    ("chat", stream(chat({"tool_calls": [{"index": 0}]}), {"choices": [], "usage": USAGE}, "[DONE]")),
    ("chat", stream({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}, "[DONE]")),
    ("anthropic", stream(START, {"type": "ping"}, "[DONE]")),
    ("anthropic", stream(START, BLOCK, {"type": "content_block_stop", "index": 0}, {"type": "message_stop"})),
    ("gemini", stream({"responseId": "r", "modelVersion": "g"}, "[DONE]")),
    ("gemini", stream(gemini([{"text": ""}, {"text": "", "thought": True}]) | {"usageMetadata": {}}, "[DONE]")),
    ("responses", stream(CREATED, "[DONE]")),
    ("responses", stream(CREATED, {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE}, DELTA)
     + stream({"type": "response.output_item.done", "output_index": 0, "item": MESSAGE}, "[DONE]")),
]  # fmt: skip
SAID: list[tuple[str, bytes]] = [
    ("chat", stream(chat({"content": " "}), "[DONE]")),
    ("chat", stream(chat({"reasoning_content": "Hm"}), "[DONE]")),
    ("chat", stream(chat({"refusal": "No"}), "[DONE]")),
    ("chat", stream(chat({"function_call": {"name": "f", "arguments": "{}"}}), "[DONE]")),
    ("chat", stream(chat({"tool_calls": [{"index": 0, "id": "c", "custom": {"name": "f", "input": ""}}]}), "[DONE]")),
    ("anthropic", stream(START, {**BLOCK, "content_block": {"type": "redacted_thinking", "data": "x"}}, "[DONE]")),
    ("gemini", stream(gemini([{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]), "[DONE]")),
    ("responses", stream(CREATED, {"type": "response.output_item.done", "output_index": 0, "item": {
        "type": "reasoning", "id": "i", "summary": [], "encrypted_content": "x"}}, "[DONE]")),
]  # fmt: skip


def read(api: str, body: bytes, interrupted: str | None = None) -> StreamDecoder:
    decoder = StreamDecoder(api)
    decoder.feed(body)
    decoder.close(interrupted=interrupted)
    return decoder


@pytest.mark.anyio
@pytest.mark.parametrize(("api", "body"), EMPTY)
async def test_an_answer_of_nothing_is_retried(api: str, body: bytes) -> None:
    """A role, metadata or empty pieces, and then the end without a finish reason: the request is sent again."""
    with pytest.raises(EmptyResponseError) as caught:
        read(api, body)
    assert caught.value.retryable
    sent: list[httpx.Request] = []
    answer = {"headers": {"content-type": "text/event-stream"}, "content": body}
    transport = httpx.MockTransport(lambda request: sent.append(request) or httpx.Response(200, **answer))
    config = {"adapter": api, "base_url": "https://a.test/v1", "model": "m", "api_key": "k", "max_retries": 1}
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(EmptyResponseError):
            await Provider.from_config(config, http_client=client).chat("Hi")
    assert len(sent) == 2


@pytest.mark.parametrize(("api", "body"), SAID)
def test_whatever_is_in_an_answer_makes_it_one(api: str, body: bytes) -> None:
    """A piece of text, reasoning, a call or anything else that the model made is delivered, with a warning."""
    reply = read(api, body).reply
    assert reply.finish_reason in ("unknown", "tool_calls")
    assert "missing_finish_reason" in [warning.code for warning in reply.warnings]


CALL = chat({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a": 1'}}]})
LIMIT: dict[str, list[Any]] = {
    "chat": [chat({"role": "assistant"}), chat({}, "length")],
    "chat, a call": [CALL, chat({}, "length")],
    "anthropic": [START, {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}}],
    "gemini": [gemini([{"text": ""}], "MAX_TOKENS")],
}


@pytest.mark.parametrize("name", LIMIT)
def test_an_error_behind_a_finish_reason_without_an_answer(name: str) -> None:
    """If nothing but a finish reason has come, what goes wrong then is the answer."""
    api = name.partition(",")[0]
    error = {"type": "error", "error": {"type": "api_error", "message": "overloaded"}}
    with pytest.raises(UpstreamError, match="overloaded"):
        read(api, stream(*LIMIT[name], error))
    with pytest.raises(IncompleteStreamError, match="the connection broke"):
        read(api, stream(*LIMIT[name]), "the connection broke")
    assert read(api, stream(*LIMIT[name])).reply.finish_reason == "length"
