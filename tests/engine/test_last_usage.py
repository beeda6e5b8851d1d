"""Which token counts an answer has, where its server sends several."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from folding import assert_any_cut, event
from streamfold import Cost, StreamDecoder, Usage
from streamfold.deltas import Finish, TextDelta
from streamfold.serving.anthropic import AnthropicSerializer
from streamfold.types import Prices
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


def counts(api: str, first: int, second: int) -> dict[str, int]:
    return dict(zip(NAMES[api], (first, second, first + second), strict=False))


@pytest.mark.parametrize("api", ["chat", "anthropic", "gemini"])
def test_zeros_after_counts(api: str) -> None:
    """A usage that counts nothing is no newer information than one that does, and says so in the raw object too."""
    real, zeros = counts(api, 7, 3), counts(api, 0, 0)
    for sent in ([real, zeros], [zeros, real], [real, zeros, zeros], [zeros, real, zeros]):
        reply = assert_any_cut(WRITTEN[api](*sent), adapter=api)
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens, dict(reply.usage.raw)) == (7, 3, real)


@each_row("api", WRITTEN)
def test_the_last_counts_are_those_that_count(api: str) -> None:
    """Counts are replaced and never summed; zeros alone are what they are."""
    for sent, expected in (([(5, 1), (7, 3)], (7, 3)), ([(0, 0), (0, 0)], (0, 0)), ([(0, 4)], (0, 4))):
        body = WRITTEN[api](*(counts(api, *each) for each in (sent if len(sent) > 1 else sent * 2)))
        usage = assert_any_cut(body, adapter=api).usage
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
    serializer = AnthropicSerializer(id="m", model="c", created=1)
    data = (
        serializer.begin()
        + serializer.feed_all([TextDelta("Hi"), usage, Finish("stop", "end_turn")])
        + serializer.finish()
    )
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


def responses(usage: Any) -> bytes:
    return event({"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": usage}})


@each_row(
    ("adapter", "body", "expected"),
    [
        # OpenAI: the parts are in the sums, predictions that were not taken as well.
        ("chat", chat({"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50,
                       "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 6},
                       "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 7,
                                                     "accepted_prediction_tokens": 2,
                                                     "rejected_prediction_tokens": 3}}),
         Usage(20, 30, 50, 4, 5, details={"input_audio_tokens": 6, "output_audio_tokens": 7,
                                          "accepted_prediction_tokens": 2, "rejected_prediction_tokens": 3})),
        # xAI: reasoning is beside the sum of the completion, and in the total.
        ("chat", chat({"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 399,
                       "prompt_tokens_details": {"text_tokens": 12, "image_tokens": 0, "cached_tokens": 3},
                       "completion_tokens_details": {"reasoning_tokens": 386}}),
         Usage(12, 387, 399, 3, 386, details={"input_text_tokens": 12, "input_image_tokens": 0})),
        # Perplexity, and OpenRouter's searches.
        ("chat", chat({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11, "citation_tokens": 90,
                       "num_search_queries": 2}),
         Usage(5, 6, 11, tools={"web_search": 2}, details={"citation_tokens": 90})),
        ("chat", chat({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11,
                       "server_tool_use": {"web_search_requests": 1}}),
         Usage(5, 6, 11, tools={"web_search": 1})),
        ("responses", responses({"input_tokens": 9, "output_tokens": 8, "total_tokens": 17,
                                 "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1,
                                                          "image_tokens": 3},
                                 "output_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 1}}),
         Usage(9, 8, 17, 2, 4, 1, details={"input_image_tokens": 3, "output_audio_tokens": 1})),
        # Anthropic: what was read from the cache and written to it is beside the input.
        ("anthropic", anthropic(
            {"input_tokens": 6, "output_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 5,
             "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 1}},
            {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3},
             "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 2}}),
         Usage(13, 7, 20, 2, 3, 5, tools={"web_search": 1, "web_fetch": 2},
               details={"cache_write_5m_tokens": 4, "cache_write_1h_tokens": 1})),
        # Google: thoughts are beside the candidates, and what tools put into the prompt beside the prompt.
        ("gemini", gemini({"promptTokenCount": 10, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 5,
                           "thoughtsTokenCount": 3, "cachedContentTokenCount": 2, "totalTokenCount": 22,
                           "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7},
                                                   {"modality": "AUDIO", "tokenCount": 3}],
                           "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}],
                           "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 5}],
                           "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 2}]}),
         Usage(14, 8, 22, 2, 3, details={"input_text_tokens": 11, "input_audio_tokens": 3, "output_image_tokens": 5,
                                         "cached_text_tokens": 2, "tool_use_input_tokens": 4})),
    ],
)  # fmt: skip
def test_every_count_of_the_server_has_a_place(adapter: str, body: bytes, expected: Usage) -> None:
    """The sums include all that belongs to them, by each provider's convention; parts without a field are details."""
    decoder = StreamDecoder(adapter)
    decoder.feed(body)
    decoder.close()
    found = decoder.reply.usage
    assert found is not None
    assert replace(found, raw={}) == expected
    assert (found + found).details == {name: 2 * number for name, number in expected.details.items()}
