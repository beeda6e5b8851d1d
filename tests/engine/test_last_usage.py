"""Which token counts an answer has, where its server sends several."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from folding import assert_any_cut, event
from streamfold import Cost, StreamDecoder, Usage
from streamfold.adapters.anthropic import MessagesEmitter
from streamfold.types import Prices
from streamfold.values import Finish, Text
from tables import each_row


def chat(*usages: Any) -> bytes:
    body = event({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    return body + b"".join(event({"choices": [], "usage": usage}) for usage in usages) + b"data: [DONE]\n\n"


def gemini(*usages: Any) -> bytes:
    said: dict[str, Any] = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    return b"".join(event({**said, "usageMetadata": usage}) for usage in usages)


def anthropic(*usages: Any) -> bytes:
    first, *others = usages
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": first}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        *({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage} for usage in others),
        {"type": "message_stop"},
    ]
    return b"".join(event(each) for each in events)


def responses(*usages: Any) -> bytes:
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "content": [part]}
    kinds = ["response.in_progress"] * (len(usages) - 1) + ["response.completed"]
    states = [{"id": "r", "status": "completed", "output": [item], "usage": usage} for usage in usages]
    return b"".join(event({"type": kind, "response": each}) for kind, each in zip(kinds, states, strict=True))


NAMES = {
    "chat": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "responses": ("input_tokens", "output_tokens", "total_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
}
WRITTEN = {"chat": chat, "responses": responses, "anthropic": anthropic, "gemini": gemini}


def counts(wire: str, first: int, second: int) -> dict[str, int]:
    return dict(zip(NAMES[wire], (first, second, first + second), strict=False))


@pytest.mark.parametrize("wire", ["chat", "anthropic", "gemini"])
def test_zeros_after_counts(wire: str) -> None:
    """A usage that counts nothing is no newer information than one that does, and says so in the raw object too."""
    real, zeros = counts(wire, 7, 3), counts(wire, 0, 0)
    for sent in ([real, zeros], [zeros, real], [real, zeros, zeros], [zeros, real, zeros]):
        reply = assert_any_cut(WRITTEN[wire](*sent), adapter=wire)
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens, dict(reply.usage.raw)) == (7, 3, real)


@each_row("wire", WRITTEN)
def test_the_last_counts_are_those_that_count(wire: str) -> None:
    """Counts are replaced and never summed; zeros alone are what they are."""
    for sent, expected in (([(5, 1), (7, 3)], (7, 3)), ([(0, 0), (0, 0)], (0, 0)), ([(0, 4)], (0, 4))):
        body = WRITTEN[wire](*(counts(wire, *each) for each in (sent if len(sent) > 1 else sent * 2)))
        usage = assert_any_cut(body, adapter=wire).usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == expected


def step(kind: str, read: int, written: int, output: int, hour: int = 0, **more: Any) -> dict[str, Any]:
    """An entry of `usage.iterations`."""
    return {
        "type": kind,
        "input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_1h_input_tokens": hour},
        "output_tokens": output,
        **more,
    }


def billed(*steps: dict[str, Any]) -> Usage:
    """The usage of an answer whose last step is what the top level counts."""
    top = {name: value for name, value in steps[-1].items() if name not in ("type", "model")}
    body = anthropic({"input_tokens": 1}, {**top, "iterations": list(steps)})
    usage = assert_any_cut(body, adapter="anthropic").usage
    assert usage is not None
    assert usage.raw["iterations"] == list(steps)
    return usage


PRICES = Prices(5.0, 25.0, 0.5, 6.25, 10.0)


def test_a_compaction_is_counted() -> None:
    """Claude's compaction is a pass of its own that the top level leaves out and that is billed."""
    usage = billed(step("compaction", 100, 55096, 131, hour=96), step("message", 229, 0, 5))
    assert (usage.input_tokens, usage.cache_write_tokens, usage.output_tokens) == (55425, 55096, 136)
    assert usage.total_tokens == 55561
    amount = Decimal("5") * 329 + Decimal("6.25") * 55000 + Decimal(10) * 96 + Decimal(25) * 136
    assert PRICES.of(usage) == Cost(amount / 1_000_000, source="prices")


def test_steps_of_other_models() -> None:
    """Their tokens are counted; the cost is an estimate, because they have prices of their own."""
    usage = billed(step("advisor_message", 10, 0, 20, model="claude-opus-4-7"), step("message", 5, 0, 3))
    assert (usage.input_tokens, usage.output_tokens) == (15, 23)
    found = PRICES.of(usage)
    assert found is not None
    assert found.estimated


def test_steps_that_the_top_level_counts() -> None:
    """Several passes of the message itself are its top level already."""
    top = {"input_tokens": 30, "output_tokens": 7}
    steps = [step("message", 10, 0, 3), step("message", 20, 0, 4)]
    for said in (steps, None, [], ["odd"], "odd"):
        usage = assert_any_cut(anthropic({}, {**top, "iterations": said}), adapter="anthropic").usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (30, 7)


def test_a_compaction_behind_the_gateway() -> None:
    """A client of the Messages API gets the top level as it was, which it takes for the size of the context."""
    usage = billed(step("compaction", 100, 0, 131), step("message", 229, 0, 5))
    emitter = MessagesEmitter(id="m", model="c", created=1)
    data = emitter.begin() + emitter.feed_all([Text("Hi"), usage, Finish("stop", "end_turn")]) + emitter.finish()
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
    (written,) = [said for said in events if said["type"] == "message_delta"]
    assert written["usage"]["input_tokens"] == 229
    assert written["usage"]["iterations"] == usage.raw["iterations"]


def test_counts_of_events_that_are_known() -> None:
    """They are read when somebody asks, and those of another kind of event that count nothing replace none of them."""
    said: dict[str, Any] = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
    of_details = {**counts("gemini", 0, 0), "promptTokensDetails": [{"tokenCount": 5}]}
    body = b"".join(
        event({**said, "usageMetadata": usage})
        for number in range(1, 20)
        for usage in (counts("gemini", 7, number), of_details)
    )
    decoder = StreamDecoder("gemini")
    for count in (20, 1, 3, 2):
        events = body.split(b"\n\n")[:-1][:count]
        body = body[len(b"\n\n".join(events)) + 2 :]
        decoder.feed(b"\n\n".join(events) + b"\n\n")
    usage = decoder.partial().usage
    assert usage == Usage(7, 13, 20, 0, 0, raw=counts("gemini", 7, 13))
    decoder.feed(event({**said, "usageMetadata": {}}))
    assert decoder.partial().usage == usage
