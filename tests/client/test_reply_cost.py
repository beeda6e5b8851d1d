"""`reply.cost` through a provider: who says what an answer cost, and when nobody does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from folding import DONE, call, entry, event, fin, text
from streamfold import ConfigError, Cost, IncompleteStreamError, Provider, Reply, run_tools
from tables import each_row

Server = Callable[[httpx.Request], httpx.Response]


def answering(*bodies: bytes) -> Server:
    """A server that answers its requests with these bodies, one after the other."""
    left = list(bodies)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=left.pop(0), headers={"content-type": "text/event-stream"})

    return answer


def provider(server: Server, spec: Any = None, **settings: Any) -> Provider:
    """A provider before a server; without a name, one that nobody knows."""
    client = httpx.AsyncClient(transport=httpx.MockTransport(server))
    made = {"base_url": "http://127.0.0.1:9/v1", "model": "some-model"} if spec is None else spec
    return Provider.from_config(made, http_client=client, **settings)


def usage(**counts: Any) -> bytes:
    return event({"choices": [], "usage": counts})


COUNTED = text("Hi") + fin("stop") + usage(prompt_tokens=1000, completion_tokens=100) + DONE


async def asked(server: Server, spec: Any = None, **settings: Any) -> Reply:
    async with provider(server, spec, **settings) as model:
        return await model.chat("Hello")


async def test_an_unknown_endpoint() -> None:
    """Nobody knows what a server of one's own costs."""
    assert (await asked(answering(COUNTED))).cost is None


async def test_configured_prices() -> None:
    """Prices are of a million tokens, of all models or of some."""
    models = [{"pattern": "other*", "prices": {"input": 9}}, {"pattern": "some*", "prices": {"output": 20}}]
    reply = await asked(answering(COUNTED), prices={"input": 2, "output": 10, "currency": "EUR"}, models=models)
    assert reply.cost == Cost(Decimal("0.004"), "EUR", "prices")


@pytest.mark.parametrize(
    ("name", "member", "value"), [("openrouter:a/b", "cost", 0.00014), ("xai:grok-4", "cost_in_usd_ticks", 1_400_000)]
)
async def test_the_providers_own_figure(name: str, member: str, value: float) -> None:
    """OpenRouter and xAI say what a request cost; what they say wins over prices."""
    body = text("Hi") + fin("stop") + usage(prompt_tokens=10, completion_tokens=1, **{member: value}) + DONE
    reply = await asked(answering(body), name, api_key="k", prices={"input": 100, "output": 100})
    assert reply.cost == Cost(Decimal("0.00014"), "USD", "provider")


async def test_the_price_table_of_a_package() -> None:
    """Without prices in the configuration those of the package `genai-prices` are taken, and it is named."""
    pytest.importorskip("genai_prices")
    reply = await asked(answering(COUNTED), "openai:gpt-4o", api_key="k")
    assert reply.cost == Cost(Decimal("0.0035"), "USD", "genai-prices")  # 2.5 and 10 dollars since October 2024


async def test_no_answer_without_counts() -> None:
    """A server that sends no token counts leaves the cost unknown."""
    assert (await asked(answering(text("Hi") + fin("stop") + DONE), prices={"input": 1, "output": 1})).cost is None


async def test_an_answer_that_was_cut() -> None:
    """Its counts may not be the last ones: what they cost is marked as an estimate."""
    body = text("Hi") + usage(prompt_tokens=1_000_000, completion_tokens=0)
    with pytest.raises(IncompleteStreamError) as caught:
        await asked(answering(body), prices={"input": 1, "output": 1}, max_retries=0)
    assert caught.value.partial is not None
    assert caught.value.partial.cost == Cost(Decimal(1), "USD", "prices", estimated=True)


async def test_a_run_of_tools() -> None:
    """The turns of a run are added up."""

    def now() -> str:
        """The time."""
        return "noon"

    first = call(entry(0, "call_a", "now", "{}")) + fin("tool_calls") + usage(prompt_tokens=10, completion_tokens=1)
    async with provider(answering(first + DONE, COUNTED), prices={"input": 1, "output": 1}) as model:
        run = run_tools(model, "When?", [now])
        await run
    assert run.cost == Cost(Decimal("0.001111"), "USD", "prices")


async def test_a_reply_can_be_copied_and_stored() -> None:
    """What it cost goes with it, and no key does."""
    reply = await asked(answering(COUNTED), prices={"input": 1, "output": 1}, api_key="sk-never-stored")
    stored = pickle.dumps(reply)
    assert b"sk-never" not in stored
    assert pickle.loads(stored).cost == copy.deepcopy(reply).cost == reply.cost


@each_row(
    ("settings", "text"),
    [
        ({"prices": {"inptu": 1}}, r"prices\.inptu: unknown key \(did you mean 'input'\?\)"),
        ({"prices": {"input": "1"}}, r"prices\.input: must be a number"),
        ({"prices": {"input": -1}}, "prices: input: must be a number, and not less than 0"),
        ({"models": [{"pattern": "*", "prices": {"out": 1}}]}, r"models\[0\]\.prices\.out: unknown key"),
    ],
)
def test_mistakes_in_prices(settings: dict[str, Any], text: str) -> None:
    """A mistake in them is said with its place, when the provider is made."""
    with pytest.raises(ConfigError, match=text):
        Provider.from_config({"base_url": "http://127.0.0.1:9/v1", **settings})


STEPS: list[dict[str, Any]] = [
    {"type": "compaction", "input_tokens": 60385, "output_tokens": 522},
    {"type": "advisor_message", "model": "grand-2", "input_tokens": 2728, "output_tokens": 3880},
    {"type": "message", "input_tokens": 612, "output_tokens": 2819, "cache_read_input_tokens": 100},
]
BY_MODEL = [
    {"pattern": "some-model", "prices": {"input": 3, "output": 15, "cached_input": 1}},
    {"pattern": "grand-*", "prices": {"input": 5, "output": 25}},
]
STEP_COSTS = [3 * 60385 + 15 * 522, 5 * 2728 + 25 * 3880, 3 * 612 + 100 + 15 * 2819]


def messages(counts: dict[str, Any], *blocks: dict[str, Any]) -> bytes:
    start = {"id": "msg_1", "model": "some-model", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts}
    said = [{"type": "message_start", "message": start}]
    for at, block in enumerate([*blocks, {"type": "text", "text": "Hi"}]):
        said += [{"type": "content_block_start", "index": at, "content_block": block}]
        said += [{"type": "content_block_stop", "index": at}]
    return b"".join(map(event, [*said, end, {"type": "message_stop"}]))


async def cost_of(body: bytes, **settings: Any) -> Cost | None:
    settings = {"adapter": "anthropic", "models": BY_MODEL, **settings}
    return (await asked(answering(body), **settings)).cost


async def test_steps_at_the_prices_of_their_models() -> None:
    """Claude's compaction, an advisor and the answer itself are billed one by one, each as a request of its model."""
    top = {"input_tokens": 612, "output_tokens": 2819}
    whole = messages({**top, "iterations": STEPS})
    assert await cost_of(whole) == Cost(Decimal(sum(STEP_COSTS)) / 1_000_000, source="prices")
    tiers = [{"above": 50_000, "input": 30}]  # which one step alone is large enough for
    models = [{**BY_MODEL[0], "prices": {**BY_MODEL[0]["prices"], "tiers": tiers}}, BY_MODEL[1]]  # type: ignore[dict-item]
    dearer = Decimal(sum(STEP_COSTS) + 27 * 60385) / 1_000_000
    assert await cost_of(whole, models=models) == Cost(dearer, source="prices")


async def test_steps_of_a_model_whose_prices_nobody_knows() -> None:
    """Those of all models, or else of the one that was asked for, are an estimate."""
    whole = messages({"input_tokens": 612, "output_tokens": 2819, "iterations": STEPS})
    for settings in ({"models": BY_MODEL[:1]}, {"models": [], "prices": {"input": 3, "output": 15}}):
        found = await cost_of(whole, **settings)
        assert found is not None
        assert found.estimated


async def test_an_answer_of_the_model_that_replaced_another() -> None:
    """`fallback` at the server: it costs what the model costs that answered, and what the first one has used."""
    fallback = {"type": "fallback", "from": {"model": "some-model"}, "to": {"model": "grand-2"}}
    top = {"input_tokens": 412, "output_tokens": 264}
    refused = {"type": "message", "model": "some-model", "input_tokens": 408, "output_tokens": 0}
    served = {"type": "fallback_message", "model": "grand-2", **top}
    amount = Decimal(3 * 408 + 5 * 412 + 25 * 264) / 1_000_000
    body = messages({**top, "iterations": [refused, served]}, fallback)
    assert await cost_of(body) == Cost(amount, source="prices")
    reply = await asked(answering(messages(top, fallback)), adapter="anthropic", models=BY_MODEL)
    alone = Decimal(5 * 412 + 25 * 264) / 1_000_000
    assert (reply.model, reply.cost) == ("grand-2", Cost(alone, source="prices", estimated=True))
