"""Many requests at once on a key with a budget: never more is spent than the budget, whatever they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, event, fin, text
from streamfold import Provider
from streamfold_gateway import gateway
from valkeys import valkey_server

ANSWERS, TOKENS = 10, 1000
PRICES = {"input": 0, "output": 1000}  # an answer of TOKENS costs 1
HELLO = [{"role": "user", "content": "Hello"}]


pytestmark = pytest.mark.one_loop


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey_server(tmp_path_factory.mktemp("valkey"), "--port", "0") as server:
        yield server.url


async def spend(
    store: Any, body: dict[str, Any], usage: Any, path: str = "/v1/chat/completions", **given: Any
) -> Counter[int]:
    """Sends 40 requests at once. Returns how often each status came."""

    async def answer(request: httpx.Request) -> httpx.Response:
        await anyio.sleep(0.05)
        told = b"" if usage is None else event({"choices": [], "usage": usage})
        return httpx.Response(200, content=text("Hi") + fin("stop") + told + DONE)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    settings = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "prices": PRICES, "api_key": "k", "max_retries": 0}
    provider = Provider.from_config({**settings, **given}, http_client=client)
    keys = {"guest": {"key": "guest-key", "max_cost_per_day": ANSWERS}}
    app = gateway({"main": provider}, keys=keys, rate_limits=store)
    statuses: Counter[int] = Counter()
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as http:

        async def ask() -> None:
            headers = {"authorization": "Bearer guest-key"}
            statuses[(await http.post(path, json={"model": "main", **body}, headers=headers)).status_code] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(40):
                tasks.start_soon(ask)
        await ask()
    await provider.aclose()
    return statuses


@pytest.mark.parametrize("where", ["memory", "sqlite", "valkey"])
@pytest.mark.parametrize("most", [None, 1000, 2500, 16_384, 10**18, 10**30])
async def test_a_budget_of_ten_answers(where: str, most: int | None, tmp_path: Path, valkey_url: str) -> None:
    """Of 40 requests at once, each of which reserves the most that it may cost, no more than ten are answered."""
    store = {"memory": None, "sqlite": f"sqlite:///{tmp_path}/limits.db", "valkey": None}[where]
    if where == "valkey":
        from streamfold.limits import ValkeyLimitStore

        with_store: Any = ValkeyLimitStore(valkey_url)
        with_store.client.flushall()
        store = with_store
    usage = {"prompt_tokens": 10, "completion_tokens": TOKENS, "total_tokens": TOKENS + 10}
    body = {"messages": HELLO} if most is None else {"messages": HELLO, "max_tokens": most}
    statuses = await spend(store, body, usage)
    assert set(statuses) == {200, 429}
    assert 1 <= statuses[200] <= ANSWERS
    if where == "valkey":
        with_store.close()


@pytest.mark.parametrize(
    "usage",
    [None, {}]
    + [
        {"prompt_tokens": 10, "completion_tokens": odd, "total_tokens": odd}
        for odd in (-1, -(10**9), 10**18, 1e308, float("inf"), float("nan"), True, "7", None, [1])
    ],
)
async def test_a_usage_that_can_not_be(usage: Any) -> None:
    """It gives no money back, and ends no budget: what could be counted is charged."""
    statuses = await spend(None, {"messages": HELLO, "max_tokens": 1000}, usage)
    assert set(statuses) <= {200, 429}
    assert 1 <= statuses[200] <= ANSWERS + 1


@pytest.mark.parametrize("most", [-1, 0, 1.5, "7", True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HELLO, "max_tokens": None}),
        ("/v1/chat/completions", {"messages": HELLO, "max_completion_tokens": None}),
        ("/v1/responses", {"input": "Hello", "max_output_tokens": None}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": None}),
        ("/v1beta/models/main:generateContent", {"contents": [{"parts": [{"text": "Hello"}]}], "generationConfig": {}}),
    ],
)
async def test_a_limit_below_one_token(path: str, body: dict[str, Any], most: Any) -> None:
    """It is refused with a 400 on every API, and reserves nothing."""
    if "contents" in body:
        body = {**body, "generationConfig": {"maxOutputTokens": most}}
    else:
        body = {name: most if value is None else value for name, value in body.items()}
    assert await spend(None, body, None, path) == {400: 41}


async def test_what_is_reserved_without_a_limit() -> None:
    """The smaller of what the model writes at most and 16,384 tokens; a configured default comes first."""
    usage = {"prompt_tokens": 10, "completion_tokens": 500, "total_tokens": 510}
    limited = {"models": [{"pattern": "m", "max_output_tokens": 1000}]}
    assert (await spend(None, {"messages": HELLO}, usage, **limited))[200] == ANSWERS + 1
    assert (await spend(None, {"messages": HELLO}, usage, options={"max_output_tokens": 2000}))[200] == 5 + 1
    assert (await spend(None, {"messages": HELLO}, usage))[200] == 1 + 1
