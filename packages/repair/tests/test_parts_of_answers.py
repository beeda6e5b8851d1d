"""Below another client, a response that the client continues is left as it is."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from parted_answers import WIRES, Step, Wire, events_of
from streamfold_repair.httpx import RepairTransport

PATHS = {
    "gemini": "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse",
    "anthropic": "/v1/messages",
    "interactions": "/v1beta/interactions",
}
PART = [Step("text", "I will pay, "), Step("call", "pay", "a", {"amount": 1}), Step("text", "unless ")]
OPEN = {"functionCall": {"name": "pay", "willContinue": True}}  # a call that the next response goes on with


def sent_on(wire: Wire, body: bytes) -> bytes:
    headers = {"content-type": "text/event-stream"}
    below = httpx.MockTransport(lambda _: httpx.Response(200, content=body, headers=headers))
    request: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Pay?"}]}]}
    if wire == "anthropic":
        request = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Pay?"}]}
    if wire == "interactions":
        request = {"model": "gemini-4-argon", "stream": True, "input": "Pay?"}
    with httpx.Client(transport=RepairTransport(below)) as client:
        return client.post(f"https://test{PATHS[wire]}", json=request).content


@pytest.mark.parametrize("wire", WIRES)
def test_a_part_of_an_answer_is_unchanged(wire: Wire) -> None:
    """Its calls too: the client knows that the answer goes on."""
    body = b"".join(events_of(wire, PART, last=False))
    assert sent_on(wire, body) == body


def test_a_call_that_the_next_response_continues_is_unchanged() -> None:
    """Nothing is final in it."""
    candidate = {"content": {"role": "model", "parts": [OPEN]}, "index": 0}
    end = {"content": {"role": "model", "parts": []}, "finishReason": "CONTINUATION", "continuationToken": "MQ=="}
    events = [{"candidates": [candidate]}, {"candidates": [end]}]
    body = b"".join(f"data: {json.dumps(event)}\r\n\r\n".encode() for event in events)
    assert sent_on("gemini", body) == body
