"""What an answer costs, by its token counts; among them the published mispricings of others, to the cent and beyond."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import Cost, Reply, StreamDecoder, Usage
from streamfold.config import read_prices, read_profile
from streamfold.types import Prices, total_cost
from tables import each_row


def chat(**usage: Any) -> Usage:
    """The usage that the Chat adapter reads from a usage object."""
    return _decoded("chat", {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": usage})


def anthropic(**usage: Any) -> Usage:
    """The usage that the Anthropic adapter reads from a usage object."""
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    return _decoded("anthropic", start, end, {"type": "message_stop"})


def gemini(**usage: Any) -> Usage:
    """The usage that the Gemini adapter reads from its metadata."""
    content = {"role": "model", "parts": [{"text": "x"}]}
    return _decoded("gemini", {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage})


def _decoded(adapter: str, *events: dict[str, Any]) -> Usage:
    decoder = StreamDecoder(adapter)
    decoder.feed(b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))
    decoder.close()
    assert decoder.reply.usage is not None
    return decoder.reply.usage


SONNET = Prices(input=3, output=15, cached_input=0.3, cache_write=3.75, cache_write_1h=6)
OPUS = Prices(input=5, output=25, cached_input=0.5, cache_write=6.25, cache_write_1h=10)
LONG = Prices(
    input=5,
    output=25,
    cached_input=0.5,
    cache_write=6.25,
    tiers=({"above": 200_000, "input": 10, "output": 37.5, "cached_input": 1, "cache_write": 12.5},),
)

MISPRICED = {
    # https://github.com/BerriAI/litellm/issues/6215: cached input was billed as input too
    "cached input of OpenAI": (
        Prices(input=2.5, output=10, cached_input=1.25),
        chat(prompt_tokens=2006, completion_tokens=300, prompt_tokens_details={"cached_tokens": 1920}),
        "0.005615",
    ),
    # https://github.com/BerriAI/litellm/issues/14849: 0.7642 instead of 0.1849
    "cached input of Gemini": (
        Prices(input=1.25, output=10, cached_input=0.625),
        gemini(promptTokenCount=262_960, cachedContentTokenCount=257_955, candidatesTokenCount=1744),
        "0.184918125",
    ),
    # https://github.com/earendil-works/pi/pull/2148: 0.0137 instead of 0.0056
    "cached input of Gemini Flash": (
        Prices(input=0.5, output=3, cached_input=0.05),
        gemini(promptTokenCount=20_212, cachedContentTokenCount=16_298, candidatesTokenCount=931),
        "0.0055649",
    ),
    # https://github.com/BerriAI/litellm/issues/9812: 0.091311 instead of what Anthropic billed
    "cache writes of Anthropic": (
        SONNET,
        anthropic(input_tokens=3, cache_creation_input_tokens=12_304, cache_read_input_tokens=0, output_tokens=550),
        "0.054399",
    ),
    # https://github.com/BerriAI/litellm/issues/6575: a write cost 3.75 on top of the 3 for input
    "cache writes are no input": (
        SONNET,
        anthropic(input_tokens=0, cache_creation_input_tokens=1000, output_tokens=0),
        "0.00375",
    ),
    # https://github.com/BerriAI/litellm/issues/5443: reads from the cache cost nothing
    "cache reads of Anthropic": (
        SONNET,
        anthropic(input_tokens=10, cache_read_input_tokens=100_000, output_tokens=0),
        "0.03003",
    ),
    # https://github.com/BerriAI/litellm/issues/11364: 0.047080 was recorded
    "reads and writes at once": (
        OPUS,
        anthropic(
            input_tokens=10, cache_read_input_tokens=66_360, cache_creation_input_tokens=32_435, output_tokens=5120
        ),
        "0.36394875",
    ),
    # https://github.com/BerriAI/litellm/issues/33772: OpenAI's writes were billed as plain input
    "cache writes of OpenAI": (
        Prices(input=2, output=8, cached_input=0.2, cache_write=2.5),
        chat(
            prompt_tokens=10_000,
            completion_tokens=100,
            prompt_tokens_details={"cached_tokens": 4000, "cache_write_tokens": 5000},
        ),
        "0.0161",
    ),
    # https://github.com/BerriAI/litellm/issues/30135: the prices above 200,000 tokens were ignored
    "a long context": (
        LONG,
        anthropic(input_tokens=0, cache_creation_input_tokens=585_659, output_tokens=1000),
        "7.3582375",
    ),
    # https://github.com/Aider-AI/aider/issues/5516: each cached token was billed twice
    "a prompt that is cached whole": (
        Prices(input=1, output=5, cached_input=0.1, cache_write=1.25),
        anthropic(input_tokens=9, cache_read_input_tokens=17_102, output_tokens=0),
        "0.0017192",
    ),
    # https://github.com/earendil-works/pi/pull/5738: writes for an hour at the price of five minutes, 6.25
    "cache writes for an hour": (
        OPUS,
        anthropic(
            input_tokens=0,
            cache_creation_input_tokens=1_000_000,
            cache_creation={"ephemeral_5m_input_tokens": 600_000, "ephemeral_1h_input_tokens": 400_000},
            output_tokens=0,
        ),
        "7.75",
    ),
    # https://github.com/UKGovernmentBEIS/inspect_ai/issues/5528: reasoning beside the output cost nothing
    "reasoning of xAI": (
        Prices(input=3, output=15),
        chat(
            prompt_tokens=1000,
            completion_tokens=500,
            total_tokens=6500,
            completion_tokens_details={"reasoning_tokens": 5000},
        ),
        "0.0855",
    ),
    # the same figures where reasoning is part of the output, as OpenAI counts: it must not be billed twice
    "reasoning of OpenAI": (
        Prices(input=3, output=15),
        chat(
            prompt_tokens=1000,
            completion_tokens=5500,
            total_tokens=6500,
            completion_tokens_details={"reasoning_tokens": 5000},
        ),
        "0.0855",
    ),
    # thoughts stand beside the candidates: https://ai.google.dev/api/generate-content#UsageMetadata
    "thoughts of Gemini": (
        Prices(input=1.25, output=10),
        gemini(promptTokenCount=1000, candidatesTokenCount=100, thoughtsTokenCount=900, totalTokenCount=2000),
        "0.01125",
    ),
}


@each_row("name", MISPRICED)
def test_what_others_got_wrong(name: str) -> None:
    """Each kind of token has its own price, and is billed once."""
    prices, usage, amount = MISPRICED[name]
    assert prices.of(usage) == Cost(Decimal(amount), source="prices")


def test_a_price_that_is_assumed_is_marked() -> None:
    """Without a price for cached input it is billed as input, and the cost is an estimate."""
    usage = chat(prompt_tokens=1000, completion_tokens=0, prompt_tokens_details={"cached_tokens": 400})
    assert Prices(input=1, output=2).of(usage) == Cost(Decimal("0.001"), source="prices", estimated=True)


def test_audio_makes_it_an_estimate() -> None:
    """Tokens of audio have prices of their own, which are not known."""
    usage = chat(prompt_tokens=1000, completion_tokens=10, prompt_tokens_details={"audio_tokens": 900})
    cost = Prices(input=1, output=2).of(usage)
    assert cost is not None
    assert cost.estimated


@each_row(
    ("prices", "usage"),
    [
        (Prices(), Usage(input_tokens=1, output_tokens=1)),
        (Prices(input=1), Usage(input_tokens=1, output_tokens=1)),
        (Prices(input=1, output=1), Usage()),
        (Prices(input=1, output=1), Usage(input_tokens=1)),
    ],
)
def test_nothing_is_guessed(prices: Prices, usage: Usage) -> None:
    """Without prices, or without counts, no cost is known."""
    assert prices.of(usage) is None


def test_what_the_provider_says_wins() -> None:
    """A figure in the usage object is what was charged, in its own unit."""
    usage = chat(prompt_tokens=1000, completion_tokens=10, cost_in_usd_ticks=37_756_000)
    prices = Prices(input=1, output=2, reported="cost_in_usd_ticks", reported_unit=1e-10)
    assert prices.of(usage) == Cost(Decimal("0.0037756"), source="provider")


@each_row("value", [None, "0.1", True, -1, {"total": 1}])
def test_a_figure_that_is_none(value: object) -> None:
    """Something else in its place is not taken for a cost."""
    usage = chat(prompt_tokens=1_000_000, completion_tokens=0, cost=value)
    assert Prices(input=1, output=2, reported="cost").of(usage) == Cost(Decimal(1), source="prices")


def test_a_figure_inside_a_table() -> None:
    """The path may lead into an object, as Perplexity's does."""
    usage = chat(prompt_tokens=10, completion_tokens=0, cost={"total_cost": 0.006})
    cost = Prices(reported="cost.total_cost").of(usage)
    assert cost is not None
    assert cost.amount == Decimal("0.006")


@each_row(
    ("usage", "amount", "upstream", "estimated"),
    [
        ({"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}, "0.021", "0.02", False),
        (
            {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0360795}},
            "0.0360795",
            "0.0360795",
            False,
        ),
        ({"cost": 0.001, "is_byok": True, "cost_details": None}, "0.001", None, True),
        ({"cost": 0.02, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.02}}, "0.02", None, False),
        ({"cost": 0.02}, "0.02", None, False),
    ],
)
def test_a_key_of_ones_own(usage: dict[str, Any], amount: str, upstream: str | None, estimated: bool) -> None:
    """The figure is a fee then: what the provider behind it charges is added, or the cost is an estimate."""
    prices = read_prices(read_profile("openrouter").prices)
    cost = prices.of(chat(prompt_tokens=10, completion_tokens=5, **usage))
    assert cost is not None
    assert (cost.amount, cost.upstream) == (Decimal(amount), None if upstream is None else Decimal(upstream))
    assert (cost.source, cost.estimated) == ("provider", estimated)


@each_row(
    ("tools", "estimated"),
    [({"web_search_requests": 3}, True), ({"web_search_requests": 0}, False), ({"web_fetch_requests": 2}, False)],
)
def test_searches_without_a_price(tools: dict[str, int], estimated: bool) -> None:
    """An answer that searched costs more than its tokens, and how much more isn't known; a fetched page is free."""
    usage = anthropic(input_tokens=1000, output_tokens=5, server_tool_use=tools)
    cost = Prices(input=3, output=15).of(usage)
    assert cost is not None
    assert (cost.amount, cost.estimated) == (Decimal("0.003075"), estimated)


@given(
    counts=st.lists(st.integers(0, 10**7), min_size=3, max_size=3),
    prices=st.lists(st.floats(0, 100), min_size=3, max_size=3),
)
def test_parts_add_up(counts: list[int], prices: list[float]) -> None:
    """The cost is the sum over the kinds of input, each with its own price, without any rounding."""
    usage = Usage(input_tokens=sum(counts), output_tokens=0, cached_tokens=counts[1], cache_write_tokens=counts[2])
    cost = Prices(input=prices[0], output=0, cached_input=prices[1], cache_write=prices[2]).of(usage)
    expected = (
        sum((count * Decimal(str(price)) for count, price in zip(counts, prices, strict=True)), Decimal(0)) / 10**6
    )
    assert cost is not None
    assert cost.amount == expected


def test_costs_add_up() -> None:
    """A sum says where all of it comes from, or nothing, and is an estimate if a part of it is."""
    one, two = Cost(Decimal("0.1"), source="prices"), Cost(Decimal("0.2"), source="provider", estimated=True)
    assert one + two == Cost(Decimal("0.3"), estimated=True)
    assert one + one == Cost(Decimal("0.2"), source="prices")
    assert str(one + two) == "about 0.3 USD"
    own = Cost(Decimal("0.3"), source="prices", upstream=Decimal("0.2"))
    assert ((one + own).upstream, (own + own).upstream) == (Decimal("0.2"), Decimal("0.4"))
    with pytest.raises(ValueError, match="USD and EUR can't be added"):
        _ = one + Cost(Decimal(1), "EUR")


def test_a_total_is_known_if_all_parts_are() -> None:
    """A reply without a known cost leaves the total unknown, rather than too small."""

    class Fixed:
        def cost(self, reply: Reply) -> Cost | None:
            return Cost(Decimal(reply.text)) if reply.text else None

    known, unknown = Reply(text="0.5", pricing=Fixed()), Reply(pricing=Fixed())
    assert total_cost([known, known]) == Cost(Decimal("1.0"))
    assert total_cost([known, unknown]) is None
    assert total_cost([]) is None


@each_row(
    ("wrong", "text"),
    [
        ({"input": -1}, "input: must be a number"),
        ({"output": float("nan")}, "output: must be a number"),
        ({"tiers": ({"input": 1.0},)}, r"tiers\[0\]: above is missing"),
        ({"tiers": ({"above": 1, "inptu": 1.0},)}, r"tiers\[0\]: unknown key 'inptu'"),
    ],
)
def test_wrong_prices(wrong: dict[str, Any], text: str) -> None:
    """A price that can't be one is refused where it is given."""
    with pytest.raises(ValueError, match=text):
        Prices(**wrong)
