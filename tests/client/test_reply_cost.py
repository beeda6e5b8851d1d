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


@pytest.mark.parametrize(
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
