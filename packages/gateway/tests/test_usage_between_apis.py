"""The counts of tokens that a client of the gateway reads, where its API is not the provider's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateways import MESSAGES, RESPONSES, asking, behind

MESSAGES_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 16,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 3,
        "output_tokens": 10,
        "output_tokens_details": {"thinking_tokens": 6},
    },
}
CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
        "completion_tokens_details": {"reasoning_tokens": 6},
    },
}


def last_with(member: str, body: str) -> dict[str, Any]:
    """The last event that has this member."""
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
    return next(event for event in reversed(events) if event.get(member))


@pytest.mark.parametrize("stream", [True, False])
async def test_responses_before_messages(stream: bool) -> None:
    """Usage on the Responses API has no member of the Messages API, which counts what is cached beside the input."""
    async with behind(json.dumps(MESSAGES_ANSWER).encode(), adapter="anthropic") as client:
        answer = await client.post(RESPONSES, json=asking(RESPONSES, stream=stream))
    assert (last_with("response", answer.text)["response"] if stream else answer.json())["usage"] == {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 6},
        "total_tokens": 30,
    }


@pytest.mark.parametrize("stream", [True, False])
async def test_messages_before_chat(stream: bool) -> None:
    """The tokens of reasoning are on the Messages API, whether the answer is streamed or not."""
    async with behind(json.dumps(CHAT_ANSWER).encode()) as client:
        answer = await client.post(MESSAGES, json=asking(MESSAGES, stream=stream, max_tokens=100))
    usage = (last_with("usage", answer.text) if stream else answer.json())["usage"]
    assert usage["output_tokens"] == 10
    assert usage["output_tokens_details"] == {"thinking_tokens": 6}
