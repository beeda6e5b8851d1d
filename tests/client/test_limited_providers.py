"""Providers with limits: each attempt waits for its turn, and says how it ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import trio
from trio.testing import MockClock

from folding import DONE, event, fin, text
from streamfold import APIError, APITimeoutError, ConfigError, Fallback, NotConfiguredError, Provider, RateLimitError
from streamfold.config import effective_values, read_config, read_profile
from streamfold.limits import BudgetExceededError, LimitReachedError, MemoryLimitStore, RateLimiter
from streamfold.limits.limit_state import Batch, BatchAnswer, Reserve
from streamfold.middleware import forward
from streamfold.types import ChatParams

PRICES = {"input": 100, "output": 1000}  # an answer of ANSWER costs 0.2


def counted(**usage: int) -> bytes:
    return text("Hi") + fin("stop") + event({"choices": [], "usage": usage}) + DONE


ANSWER = counted(prompt_tokens=1000, completion_tokens=100, total_tokens=1100)
TOO_MANY = json.dumps({"error": {"message": "slow down", "type": "requests"}}).encode()


class Upstream:
    """Answers with the responses it was given, the last one again and again, and counts."""

    def __init__(self, *responses: tuple[int, bytes | AsyncIterator[bytes], dict[str, str]] | bytes) -> None:
        self._left = [(200, found, {}) if isinstance(found, bytes) else found for found in responses or (ANSWER,)]
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        status, body, headers = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return httpx.Response(status, content=body, headers={"content-type": "text/event-stream", **headers})

    def provider(self, **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        base = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key": "geheim", "max_retries": 0}
        return Provider.from_config({**base, **settings}, http_client=client)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> MemoryLimitStore:
    """What "memory" means is a store of the test's own."""
    store = MemoryLimitStore()
    monkeypatch.setattr("streamfold.limits.rate_limiter.process_store", lambda: store)
    return store


async def spent(provider: Provider) -> Decimal:
    assert provider.limiter is not None
    assert isinstance(provider.limiter.store, MemoryLimitStore)
    return Decimal(provider.limiter.store.apply(provider.limiter.name, Batch(budgeted=True)).spent) / 1_000_000


async def test_without_limits_there_is_no_limiter() -> None:
    """Nothing is counted, and nothing waits."""
    async with Upstream().provider() as provider:
        await provider.chat("Hello")
        assert provider.limiter is None


async def test_a_spent_budget_is_refused_before_anything_is_sent() -> None:
    """By the costs of the answers so far; fallbacks are asked instead."""
    upstream, other = Upstream(), Upstream()
    async with upstream.provider(max_cost_per_day=0.5, prices=PRICES) as provider:
        for _ in range(2):
            assert (await provider.chat("Hello")).text == "Hi"
        assert await spent(provider) == Decimal("0.4")
        with pytest.raises(BudgetExceededError, match=r"custom: the budget of 0.5 USD per day is spent"):
            await provider.chat("Hello")
        assert upstream.asked == 2
        async with Fallback(provider, other.provider(api_key="another")) as model:
            reply = await model.chat("Hello")
        assert (other.asked, reply.attempts[0].error) == (1, "BudgetExceededError")


async def test_a_budget_without_prices() -> None:
    """It can't be held: no provider is made, and a request for another model isn't sent."""
    with pytest.raises(ConfigError, match="custom: max_cost_per_day: the prices of m are unknown: set prices"):
        Upstream().provider(max_cost_per_day=0.5)
    upstream, table = Upstream(), {"pattern": "m", "prices": PRICES}
    async with upstream.provider(max_cost_per_day=0.5, models=[table]) as provider:
        await provider.chat("Hello")
        with pytest.raises(ConfigError, match="custom: max_cost_per_day: the prices of other are unknown"):
            await provider.chat("Hello", model="other")
        limited = provider.with_limiter(RateLimiter("mine", max_cost_per_day=1, store=MemoryLimitStore()))
        with pytest.raises(ConfigError, match="mine: max_cost_per_day: the prices of other are unknown"):
            await limited.chat("Hello", model="other")
        assert upstream.asked == 1


@pytest.mark.parametrize("usage", [{}, {"completion_tokens": 1}])
async def test_a_budget_is_spent_by_answers_without_usage(usage: dict[str, int]) -> None:
    """Each is charged an estimate of its tokens, and says so in a warning; then nothing more is sent."""
    upstream = Upstream(counted(**usage))
    async with upstream.provider(max_cost_per_day=0.004, prices=PRICES) as provider:
        for count in (1, 2):
            reply = await provider.chat("Hello")
            assert [(each.code, each.detail) for each in reply.warnings] == [
                (
                    "usage_estimated",
                    "the server didn't count the tokens of the answer: max_cost_per_day was charged an estimate",
                )
            ]
            assert reply.cost is None
            assert await spent(provider) == count * Decimal("0.0016")  # 6 tokens of the request, and 1 of "Hi"
        with pytest.raises(BudgetExceededError):
            await provider.chat("Hello")
        assert upstream.asked == 2


async def test_only_budgets_warn_of_estimates() -> None:
    """Without a budget nothing is added to a reply."""
    upstream = Upstream(counted())
    async with upstream.provider(tpm=1000, prices=PRICES) as provider:
        assert (await provider.chat("Hello")).warnings == []


@pytest.mark.parametrize(  # what is spent is counted as long as the event loop lives: each row has its own
    ("response", "kept"),
    [
        ((500, b"{}", {}), Decimal(0)),
        ((400, b"{}", {}), Decimal(0)),
        (text("Hi"), Decimal("0.2")),  # broke off: what was reserved stays
    ],
)
async def test_what_a_failed_answer_costs(response: Any, kept: Decimal) -> None:
    """Nothing, if the server answered nothing; else what an answer costs in the mean."""
    upstream = Upstream(ANSWER, response)
    async with upstream.provider(max_cost_per_day=5, prices=PRICES) as provider:
        await provider.chat("Hello")
        with pytest.raises(APIError):
            await provider.chat("Hello")
        assert await spent(provider) == Decimal("0.2") + kept


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, Decimal("0.0016")),  # 6 tokens of the request, and 1 of "Hi"
        ({"prompt_tokens": 5000, "completion_tokens": 20, "total_tokens": 5020}, Decimal("0.52")),
    ],
)
async def test_what_an_answer_costs_that_is_left(told: dict[str, int], kept: Decimal) -> None:
    """What was sent and read of it, by the provider's count where that has come; not what others have cost."""

    async def answer() -> AsyncIterator[bytes]:
        yield (event({"choices": [], "usage": told}) if told else b"") + text("Hi")
        await anyio.sleep_forever()

    upstream = Upstream(ANSWER, (200, answer(), {}))
    async with upstream.provider(max_cost_per_day=5, prices=PRICES) as provider:
        await provider.chat("Hello")
        stream = provider.chat_stream("Hello")
        await anext(stream)
        await stream.aclose()
        assert await spent(provider) == Decimal("0.2") + kept


async def test_what_a_whole_answer_costs_that_is_left() -> None:
    """What has come of it is counted, as that of a stream is."""
    begun = anyio.Event()

    async def answer() -> AsyncIterator[bytes]:
        yield b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi'
        begun.set()
        await anyio.sleep_forever()

    upstream = Upstream(ANSWER, (200, answer(), {}))
    async with upstream.provider(max_cost_per_day=5, prices=PRICES) as provider:
        await provider.chat("Hello")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(provider.chat, "Hello", stream=False))
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert await spent(provider) == Decimal("0.2") + Decimal("0.0016")


async def test_slots_are_free_however_it_ends() -> None:
    """After an answer, an error, an answer that was left, and one that was cancelled."""
    upstream = Upstream(ANSWER, (500, b"{}", {}), ANSWER, ANSWER, ANSWER)
    async with upstream.provider(max_concurrent=1) as provider:
        await provider.chat("Hello")
        with pytest.raises(APIError):
            await provider.chat("Hello")
        async with provider.chat_stream("Hello") as stream:
            await anext(stream)
        stream = provider.chat_stream("Hello")
        await anext(stream)
        with anyio.move_on_after(0.05):
            await provider.chat("Hello")  # waits for the slot of the stream
        assert upstream.asked == 4
        await stream.aclose()
        with anyio.fail_after(5):
            await provider.chat("Hello")
    assert upstream.asked == 5


async def test_a_wait_ends_when_the_stream_is_closed() -> None:
    """From another task, too; and with the timeout `total`."""
    upstream = Upstream()
    async with upstream.provider(rpm=1) as provider:
        await provider.chat("Hello")
        waiting = provider.chat_stream("Hello")
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                assert [chunk async for chunk in waiting] == []

            tasks.start_soon(read)
            await anyio.sleep(0.05)
            await waiting.aclose()
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello", timeouts={"total": 0.05})
        assert caught.value.phase == "total"
    assert upstream.asked == 1


@pytest.mark.slow
class NotedStore(MemoryLimitStore):
    """Notes the number of accepted requests that each reservation reports."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: list[int] = []

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        self.accepted += [each.accepted for each in batch.operations if isinstance(each, Reserve)]
        return super().apply(name, batch)


async def test_a_request_that_is_left_was_not_accepted() -> None:
    """A stream that is closed before the response has begun doesn't raise the adaptive rate."""
    sent = anyio.Event()

    async def never(request: httpx.Request) -> httpx.Response:
        sent.set()
        await anyio.sleep_forever()
        raise AssertionError

    store = NotedStore()
    limiter = RateLimiter("left", adapt=True, store=store)
    client = httpx.AsyncClient(transport=httpx.MockTransport(never))
    settings = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key": "geheim"}
    async with Provider.from_config(settings, http_client=client).with_limiter(limiter) as provider:
        stream = provider.chat_stream("Hello")
        async with anyio.create_task_group() as group:
            group.start_soon(partial(anext, stream, None))
            await sent.wait()
            await stream.aclose()
    async with limiter.reserve():
        pass
    assert store.accepted == [0, 0]


async def test_too_many_requests_cost_no_retry() -> None:
    """The request waits as long as the server says, together with all others of the same key."""
    refused = (429, TOO_MANY, {"retry-after-ms": "30"})
    upstream = Upstream(refused, refused, refused, ANSWER)
    async with upstream.provider(rpm=60_000, max_retries=1) as provider:
        reply = await provider.chat("Hello")
        assert [attempt.error for attempt in reply.attempts] == ["RateLimitError"] * 3
        assert reply.timing is not None
        assert (reply.timing.total or 0) > 0.09
    endless = Upstream((429, TOO_MANY, {"retry-after": "0"}))
    async with endless.provider(max_concurrent=5, max_retries=1) as provider:
        with pytest.raises(APITimeoutError):
            await provider.chat("Hello", timeouts={"total": 0.3})


@pytest.mark.parametrize("limit", [{"rpm": 6000}, {"max_concurrent": 5}, {"prices": PRICES, "max_cost_per_day": 1}])
def test_a_server_that_always_refuses(limit: dict[str, Any]) -> None:
    """The request is an error after a minute, whatever is limited, and at once if nothing may be retried."""

    async def ask(max_retries: int) -> tuple[int, float]:
        upstream = Upstream((429, TOO_MANY, {}))
        async with upstream.provider(max_retries=max_retries, **limit) as provider:
            began = trio.current_time()
            with pytest.raises(RateLimitError):
                await provider.chat("Hello")
            return upstream.asked, trio.current_time() - began

    asked, waited = trio.run(ask, 2, clock=MockClock(autojump_threshold=0))
    assert 5 < asked < 100
    assert 60 <= waited < 70
    assert trio.run(ask, 0, clock=MockClock(autojump_threshold=0))[0] == 1


async def test_a_long_pause_is_an_error() -> None:
    """More than a minute is for the caller to decide; others with the same key are told without a request."""
    upstream = Upstream((429, TOO_MANY, {"retry-after": "3600"}))
    async with upstream.provider(rpm=60_000) as provider, upstream.provider(rpm=60_000) as same_key:
        with pytest.raises(RateLimitError) as caught:
            await provider.chat("Hello")
        assert caught.value.retry_after == 3600
        with pytest.raises(LimitReachedError, match=r"the server requested a pause, which ends in 3\d+ s"):
            await same_key.chat("Hello")
    assert upstream.asked == 1


async def test_with_another_provider_nobody_waits() -> None:
    """A fallback is asked instead, as without limits."""
    busy, other = Upstream((429, TOO_MANY, {"retry-after": "30"})), Upstream()
    model = Fallback(busy.provider(rpm=60_000), other.provider(api_key="another"))
    async with model:
        with anyio.fail_after(5):
            await model.chat("Hello")
    assert (busy.asked, other.asked) == (1, 1)


async def test_a_quota_is_no_pause() -> None:
    """An empty account is an error at once, and says nothing about the rate."""
    body = json.dumps({"error": {"message": "no credit", "code": "insufficient_quota"}}).encode()
    upstream = Upstream((429, body, {}), ANSWER)
    async with upstream.provider(rpm=60_000) as provider:
        with pytest.raises(APIError, match="no credit"):
            await provider.chat("Hello")
        with anyio.fail_after(5):
            await provider.chat("Hello")


async def test_headers_say_the_rate() -> None:
    """Where none is configured, requests go as fast as the server says in its headers."""
    told = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"}
    upstream = Upstream((200, ANSWER, told))
    async with upstream.provider(max_concurrent=5) as provider:
        await provider.chat("Hello")
        await provider.chat("Hello")
        with anyio.move_on_after(0.2):
            await provider.chat("Hello")
    assert upstream.asked == 2


async def test_one_key_has_one_limit(alone: MemoryLimitStore) -> None:
    """Whatever the providers are called; another key or address has its own. No name has the key."""
    upstream = Upstream()
    settings: list[dict[str, Any]] = [{}, {"name": "b", "model": "other"}, {"api_key": "c"}]
    settings.append({"base_url": "http://127.0.0.1:9/v2"})
    names = []
    for changed in settings:
        async with upstream.provider(rpm=60, **changed) as provider:
            assert provider.limiter is not None
            names.append(provider.limiter.name)
            assert "geheim" not in f"{provider.limiter.name} {provider.limiter!r}"
    assert names[0] == names[1]
    assert len(set(names)) == 3


async def test_another_limiter() -> None:
    """`with_limiter` gives a provider a limit for some of its requests."""
    upstream = Upstream()
    async with upstream.provider(prices=PRICES) as provider:
        limited = provider.with_limiter(RateLimiter("a", max_cost_per_day=0.1, store=MemoryLimitStore()))
        await limited.chat("Hello")
        with pytest.raises(BudgetExceededError):
            await limited.chat("Hello")
        assert provider.limiter is None


async def test_a_reservation_of_the_caller() -> None:
    """The first request of a call uses it, and the provider charges and closes it: no second one is waited for."""
    limiter = RateLimiter("a", max_concurrent=1, store=MemoryLimitStore())
    async with Upstream().provider() as provider:
        limited = provider.with_limiter(limiter)
        with anyio.fail_after(5):
            async with limiter.reserve() as reservation:
                params = replace(ChatParams.read("Hello", None, "auto", {}), reservation=reservation)
                async for _ in forward(limited, params):
                    pass
                assert not reservation.claim(limiter)
                await limited.chat("Hello")  # the slot is free again


# --- configuration ----------------------------------------------------------------------------------------------------

FILE = """
[providers.main]
base_url = "http://127.0.0.1:9/v1"
model = "m"
rpm = 100
[rate_limits]
store = "{store}"
replicas = 4
"""


def test_the_table_of_the_file(tmp_path: Path) -> None:
    """It says where the limits of all its providers are counted; passwords are never shown."""
    file = tmp_path / "streamfold.toml"
    file.write_text(FILE.format(store="valkey://me:geheim@127.0.0.1:6379/0"))
    profile = Provider.from_config("main", config=file).profile
    assert profile.rate_limits is not None
    assert (profile.rpm, profile.rate_limits.replicas) == (100, 4)
    assert read_config(file).rate_limits() == profile.rate_limits
    shown = {value.key: value.shown for value in effective_values(read_config(file), "main")}
    assert shown["rate_limits.store"] == '"valkey://***@127.0.0.1:6379/0"'
    assert (shown["rpm"], shown["tpm"]) == ("100.0", "none")
    assert "geheim" not in repr(profile)
    assert read_profile({"base_url": "http://h/v1", "rate_limits": {"replicas": 2}}).rate_limits is not None


async def test_a_store_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when the first request is made."""
    file = tmp_path / "streamfold.toml"
    file.write_text(FILE.format(store="sqlite:///${FOLDER}/limits.db"))
    async with Provider.from_config("main", config=file) as provider:
        with pytest.raises(NotConfiguredError, match=r"limits\.store: FOLDER is not set"):
            await provider.chat("Hello")
        monkeypatch.setenv("FOLDER", str(tmp_path))
        assert "limits.db" in repr(provider.limiter)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("[rate_limits]\nstore = 'sqllite:///x'", r":5: rate_limits\.store: must be memory, .*did you mean 'sqlite'"),
        ("[limits]\nstore = 'memory'", r":4: limits: unknown key \(did you mean 'rate_limits'\?\)"),
        ("[rate_limits]\nstore = true", r":5: rate_limits\.store: must be a string"),
        ("[rate_limits]\nstor = 'memory'", r":5: rate_limits\.stor: unknown key \(did you mean 'store'\?\)"),
        ("[rate_limits]\non_store_error = 'lokal'", r":5: rate_limits\.on_store_error: can't be 'lokal'"),
        ("rpm = 0", r":4: providers\.main\.rpm: must be greater than 0"),
        ("max_concurrent = 1.5", r":4: providers\.main\.max_concurrent: must be a whole number"),
        ("[providers.main.rate_limits]\nreplicas = 0", r":5: .*rate_limits\.replicas: must be greater than 0"),
    ],
)
def test_mistakes_have_their_line(written: str, problem: str, tmp_path: Path) -> None:
    """They are found when a provider is made."""
    file = tmp_path / "streamfold.toml"
    file.write_text(f'[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n{written}\n')
    with pytest.raises(ConfigError, match=problem):
        Provider.from_config("main", config=file)
