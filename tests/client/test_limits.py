"""Limits: what is reserved, settled and believed, the same in every store."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
import sniffio

from scale import pick
from streamfold import ConfigError, Cost, Usage
from streamfold.limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStore,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    SQLiteLimitStore,
    ValkeyLimitStore,
    guard,
    open_limit_store,
)
from streamfold.limits.algorithm import DAY, Ask, Grant, Settlement
from streamfold.limits.belief import Belief
from streamfold.limits.lua import SCRIPT
from tables import each_row
from valkeys import valkey_server

NOON = 20_000 * DAY + DAY / 2


def near(value: Any) -> Any:
    """Seconds since 1970 are exact to a microsecond."""
    return pytest.approx(value, abs=1e-5)


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey_server(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


class SteppedValkeyStore(ValkeyLimitStore):
    """Runs the script with the time of a clock instead of the server's."""

    def __init__(self, url: str, clock: Clock) -> None:
        script = SCRIPT.replace("redis.call('TIME')", "{redis.call('LPOP', 'moments'), 0}")
        super().__init__(url, script=script)
        self._clock = clock
        self.client.flushall()

    async def take(self, name: str, ask: Ask) -> Grant:
        self._set()
        return await super().take(name, ask)

    async def settle(self, name: str, settlement: Settlement) -> None:
        self._set()
        await super().settle(name, settlement)

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        self._set()
        await super().believe(name, rest, belief)

    def alive(self, name: str, holder: str, held: int) -> None:
        self._set()
        super().alive(name, holder, held)

    def _set(self) -> None:
        self.client.rpush("moments", repr(self._clock.now))  # a list, for nobody waits until something is settled


Make = Callable[[], tuple[LimitStore, Clock]]


@pytest.fixture(params=["memory", "sqlite", "valkey"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def made() -> tuple[LimitStore, Clock]:
        clock = Clock()
        if request.param == "memory":
            return MemoryLimitStore(clock), clock
        if request.param == "sqlite":
            return SQLiteLimitStore(tmp_path / "limits.db", clock=clock), clock
        return SteppedValkeyStore(request.getfixturevalue("valkey_url"), clock), clock

    return made


async def test_requests_are_evenly_spread(make: Make) -> None:
    """Each takes the next free moment; one that is too far away is not reserved."""
    store, clock = make()
    ask = Ask(rate=10.0, horizon=1.0)
    waits = [(await store.take("a", ask)).wait for _ in range(5)]
    assert waits == near([0, 0.1, 0.2, 0.3, 0.4])
    clock.now += 0.35
    assert (await store.take("a", ask)).wait == near(0.15)
    for _ in range(8):
        await store.take("a", ask)
    late = await store.take("a", ask)
    assert (late.requests, late.reason) == (0, "rate")
    assert late.wait == near(1.05)
    assert (await store.take("another", ask)).wait == 0
    await store.aclose()


async def test_unused_time_is_no_burst(make: Make) -> None:
    """Only so much can be caught up with as was agreed on."""
    store, clock = make()
    ask = Ask(rate=10.0, burst=0.2)
    await store.take("a", ask)
    clock.now += 60
    waits = [(await store.take("a", ask)).wait for _ in range(4)]
    assert waits == near([0, 0, 0, 0.1])
    await store.aclose()


async def test_several_moments_at_once(make: Make) -> None:
    """A lease is as long as the store says, and never longer than what was asked for."""
    store, _ = make()
    grant = await store.take("a", Ask(requests=10, rate=100.0, lease=0.05))
    assert (grant.requests, grant.step) == (5, 0.01)
    assert (await store.take("a", Ask(requests=2, rate=100.0, lease=0.05))).wait == near(0.05)
    assert (await store.take("b", Ask(requests=10, rate=1.0, lease=0.05))).requests == 1
    await store.aclose()


async def test_tokens_are_settled(make: Make) -> None:
    """A request reserves the mean of what was used before; what is used beyond that delays the next ones."""
    store, clock = make()
    ask = Ask(token_rate=100.0, tokens=50.0, horizon=60.0)
    assert (await store.take("a", ask)).wait == 0
    assert (await store.take("a", ask)).wait == near(0.5)
    await store.settle("a", Settlement(token_seconds=(200 - 50) / 100, tokens=200.0))
    grant = await store.take("a", ask)
    assert (grant.wait, grant.tokens) == (near(2.5), 200.0)
    await store.settle("a", grant.given_back())
    await store.settle("a", Settlement(tokens=100.0))
    clock.now += 2.5
    grant = await store.take("a", ask)
    assert (grant.wait, grant.tokens) == (0, 150.0)
    await store.aclose()


async def test_a_rest_is_for_everybody(make: Make) -> None:
    """Nothing is sent until it ends, and nothing is caught up with after it."""
    store, clock = make()
    await store.believe("a", 5.0, None)
    await store.believe("a", 2.0, None)
    late = await store.take("a", Ask())
    assert (late.reason, late.wait) == ("rest", near(5))
    clock.now += 5
    ask = Ask(rate=10.0, burst=1.0)
    waits = [(await store.take("a", ask)).wait for _ in range(3)]
    assert waits == near([0, 0.1, 0.2])
    await store.aclose()


async def test_slots(make: Make) -> None:
    """So many at once; those of a holder without a sign of life are free again after its lifetime."""
    store, clock = make()
    first, second = Ask(slots=3, holder="a", lifetime=10.0), Ask(slots=3, holder="b", lifetime=10.0)
    assert (await store.take("x", replace(first, requests=5))).requests == 3
    assert (await store.take("x", second)).reason == "slots"
    await store.settle("x", Settlement(slots=1, holder="a"))
    assert (await store.take("x", second)).requests == 1
    clock.now += 8
    store.alive("x", "b", 1)
    clock.now += 8
    assert (await store.take("x", replace(second, requests=5))).requests == 2
    await store.aclose()


async def test_slots_are_shared_fairly(make: Make) -> None:
    """Whoever holds its share gets no more of them while somebody else waits."""
    store, clock = make()
    first, second = Ask(slots=4, holder="a", requests=4), Ask(slots=4, holder="b", requests=4)
    assert (await store.take("x", first)).requests == 4
    assert (await store.take("x", second)).requests == 0
    await store.settle("x", Settlement(slots=1, holder="a"))
    assert (await store.take("x", first)).requests == 0
    assert (await store.take("x", second)).requests == 1
    clock.now += 1  # nobody waits any more
    await store.settle("x", Settlement(slots=3, holder="a"))
    assert (await store.take("x", first)).requests == 3
    await store.aclose()


async def test_a_budget_is_for_a_day(make: Make) -> None:
    """What answers cost at most is reserved; when the mean does not fit any more, that is refused until midnight."""
    store, clock = make()
    ask = Ask(budget=1000, holder="a", lifetime=15.0)

    def used(grant: Grant, cost: int) -> Settlement:
        return Settlement(money=cost - grant.cost, held=grant.cost, cost=cost, day=grant.day, holder="a")

    first = await store.take("a", ask)
    assert (first.cost, first.spent) == (1000, 1000)  # nothing is known: one alone
    assert (await store.take("a", replace(ask, holder="b"))).reason == "held"
    await store.settle("a", used(first, 100))
    two = await store.take("a", replace(ask, requests=2))
    assert (two.requests, two.cost, two.spent) == (2, 100, 300)
    assert (await store.take("a", replace(ask, money=800))).reason == "held"  # it might not fit; let us see
    await store.settle("a", used(two, 400))
    bound = await store.take("a", replace(ask, money=250))
    assert (bound.cost, bound.mean, bound.spent) == (250, 250, 850)
    assert (await store.take("a", ask)).reason == "held"
    await store.settle("a", used(bound, 200))
    await store.settle("a", used(two, 100))
    last = await store.take("a", ask)  # alone, with less than the dearest cost
    assert (last.cost, last.spent) == (200, 1000)
    await store.settle("a", used(last, 190))
    refused = await store.take("a", ask)
    assert (refused.requests, refused.reason, refused.wait, refused.spent) == (0, "budget", DAY / 2, 990)
    clock.now += DAY / 2
    late = await store.take("a", ask)
    await store.settle("a", Settlement(money=-50, day=first.day))  # yesterday's are closed
    assert (late.spent, late.cost, late.mean) == (377, 377, 198)
    clock.now += 20  # the process was killed: what it had reserved is given back, but for the mean
    assert (await store.take("a", replace(ask, holder="b", money=5))).spent == 198 + 5
    await store.aclose()


async def test_a_store_that_forgot_is_told_what_was_spent(make: Make) -> None:
    """Processes remember the last figure; a store that has one of its own keeps that."""
    store, clock = make()
    ask = Ask(budget=1000, day=int(clock.now // DAY), spent=900, money=10)
    assert (await store.take("a", ask)).spent == 910
    assert (await store.take("a", replace(ask, spent=950))).spent == 920
    assert (await store.take("b", replace(ask, day=ask.day - 1))).spent == 10
    await store.aclose()


async def test_a_belief_changes_once(make: Make) -> None:
    """Of all who were refused at one rate, the first lowers it."""
    store, _ = make()
    belief = (await store.take("a", Ask(start=10.0))).belief
    assert (belief.rate, belief.need) == (10.0, 5)
    slower = replace(belief, rate=5.0, base=5.0)
    await store.believe("a", 0, slower)
    await store.believe("a", 0, replace(slower, rate=1.0))
    grant = await store.take("a", Ask(start=10.0, epoch=belief.epoch, clean=3))
    assert (grant.belief.rate, grant.belief.clean, grant.belief.epoch) == (5.0, 0, belief.epoch + 1)
    grant = await store.take("a", Ask(rate=100.0, epoch=belief.epoch + 1, clean=3, refused=1, since=2))
    assert (grant.rate, grant.belief.clean, grant.belief.refused, grant.belief.since) == (5.0, 3, 1, 2)
    grant = await store.take("a", Ask(rate=100.0, epoch=belief.epoch + 1, clean=4))
    assert (grant.belief.clean, grant.belief.since) == (7, 6)
    await store.aclose()


async def test_the_script_does_what_python_does(valkey_url: str) -> None:
    """Any sequence of questions gets the same answers from both."""
    for seed in range(pick(40, 5)):
        dice, clock = random.Random(seed), Clock()
        stores: list[Any] = [MemoryLimitStore(clock), SteppedValkeyStore(valkey_url, clock)]
        stores[0].lifetime = stores[1].lifetime
        grant = Grant()
        limits = {"rate": dice.choice([0, 7.0, 90.0]), "token_rate": dice.choice([0, 500.0])}
        limits |= {"slots": dice.choice([0, 6]), "budget": dice.choice([0, 5000]), "start": dice.choice([0, 10.0])}
        for _ in range(150):
            clock.now += dice.choice([0, 0.01, 0.25, 3, 7000])
            answers = []
            match dice.randrange(8):
                case 0:
                    done = Settlement(
                        request_seconds=dice.choice([0, -0.2]),
                        token_seconds=dice.uniform(-2, 2),
                        tokens=dice.choice([None, dice.randrange(900)]),
                        cost=dice.choice([None, dice.randrange(900)]),
                        money=dice.randrange(-300, 300),
                        held=dice.choice([0, 100, 300]),
                        requests=dice.randrange(3),
                        day=dice.choice([grant.day, int(clock.now // DAY)]),
                        slots=dice.randrange(3),
                        holder=dice.choice("ab"),
                    )
                    answers = [await store.settle("x", done) for store in stores]
                case 1:
                    belief = dice.choice(
                        [None, replace(grant.belief, rate=dice.uniform(1, 50), base=dice.choice([0, 3.0]), need=6)]
                    )
                    rest = dice.choice([0.0, 0.0, 2.0])
                    answers = [await store.believe("x", rest, belief) for store in stores]
                case 2:
                    answers = [store.alive("x", "a", 2) for store in stores]
                case _:
                    ask = Ask(
                        requests=dice.randrange(1, 6),
                        lease=dice.choice([0, 0.05, 0.5]),
                        burst=dice.choice([0.05, 0.5]),
                        tokens=70.0,
                        money=dice.choice([0, 0, 100, 900]),
                        holder=dice.choice("ab"),
                        lifetime=15.0,
                        epoch=grant.belief.epoch,
                        clean=dice.randrange(4),
                        refused=dice.randrange(2),
                        since=dice.randrange(2),
                        **limits,
                    )
                    answers = [await store.take("x", ask) for store in stores]
                    grant = answers[0]
            assert _rounded(answers[0]) == _rounded(answers[1])
        await stores[1].aclose()


def _rounded(grant: Grant | None) -> Any:
    if grant is None:
        return None
    flat = {name: getattr(grant, name) for name in grant.__slots__ if name != "belief"}
    flat |= {f"belief.{name}": getattr(grant.belief, name) for name in grant.belief.__slots__}
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in flat.items()}


# --- the limiter ------------------------------------------------------------------------------------------------------


async def test_one_at_a_time_without_a_word() -> None:
    """A slot is handed on at once, in this process; it is free again however the block ends."""
    limiter = RateLimiter("a", max_concurrent=2, store=MemoryLimitStore())
    busy = peak = 0

    async def ask() -> None:
        nonlocal busy, peak
        async with limiter.reserve():
            busy, peak = busy + 1, max(peak, busy + 1)
            await anyio.sleep(0.001)
            busy -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    with pytest.raises(RuntimeError):
        async with limiter.reserve():
            raise RuntimeError
    assert peak == 2
    async with limiter.reserve(max_wait=0), limiter.reserve(max_wait=0):
        with pytest.raises(LimitReachedError, match="the limit of 2 requests at once is reached; nothing was sent"):
            await limiter.acquire(max_wait=0)


async def test_who_does_not_wait_is_told_how_long_it_would_be() -> None:
    """The error is a RateLimitError with `retry_after`, and nothing stays reserved."""
    clock = Clock()
    limiter = RateLimiter("a", rpm=60, burst=0.0, store=MemoryLimitStore(clock), label="main")
    await limiter.acquire(max_wait=0)
    for _ in range(3):
        with pytest.raises(LimitReachedError, match="main: the limit of 60 requests per minute is reached") as caught:
            await limiter.acquire(max_wait=0)
        assert caught.value.retry_after == near(1.0)
        assert (caught.value.status_code, caught.value.retryable) == (429, True)


async def test_a_cancelled_wait_gives_back() -> None:
    """What was reserved for tasks that are gone is for the next ones."""
    clock = Clock()
    limiter = RateLimiter("a", rpm=120, tpm=60_000, burst=0.0, store=MemoryLimitStore(clock))
    await limiter.acquire()
    for _ in range(5):
        with anyio.move_on_after(0.01):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(limiter.acquire)
    grant = await limiter.store.take("a", Ask(rate=2.0, token_rate=1000.0, tokens=1.0))
    assert grant.wait == near(1.0)  # of the tokens of the first one: a thousand, as nothing was settled yet


async def test_a_budget_that_is_spent() -> None:
    """The error says which budget, how much of it, and when it begins again; nothing is reserved before."""
    limiter = RateLimiter("a", max_cost_per_day=0.3, store=MemoryLimitStore(Clock()), label="main")
    for _ in range(3):
        async with limiter.reserve() as reservation:
            reservation.settle(Usage(10, 10, 20), Cost(Decimal("0.1")))
    with pytest.raises(BudgetExceededError) as caught:
        await limiter.acquire()
    assert str(caught.value) == (
        "main: the budget of 0.3 USD per day is spent (0.3 of it); nothing was sent. It begins again at"
        " 2024-10-05 00:00 UTC (max_cost_per_day)"
    )
    assert (caught.value.status_code, caught.value.retryable, caught.value.retry_after) == (429, False, DAY / 2)


@pytest.mark.parametrize("where", ["sqlite", "valkey"])
async def test_a_budget_survives_a_restart(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Another process finds what was spent, and what the last one had reserved when it was killed."""
    url = f"sqlite:///{tmp_path}/limits.db" if where == "sqlite" else request.getfixturevalue("valkey_url")
    for _ in range(2):
        limiter = _on(url, name=str(tmp_path), max_cost_per_day=0.5)
        async with limiter.reserve() as reservation:
            reservation.settle(Usage(10, 10, 20), Cost(Decimal("0.2")))
        await limiter.store.aclose()
    limiter = _on(url, name=str(tmp_path), max_cost_per_day=0.5)
    with pytest.raises(BudgetExceededError, match=r"\(0.4 of it, and an answer costs about 0.2\)"):
        await limiter.acquire()
    await limiter.store.aclose()


def _on(url: str, **arguments: Any) -> RateLimiter:
    store = ValkeyLimitStore(url) if url.startswith("unix") else open_limit_store(url)
    return RateLimiter(store=store, **arguments)


async def test_costs_that_nobody_knows() -> None:
    """A budget can't be held without them: the next request says so, instead of being sent."""
    limiter = RateLimiter("a", max_cost_per_day=1, store=MemoryLimitStore(Clock()))
    async with limiter.reserve() as reservation:
        reservation.settle(Usage(10, 10, 20), None)
    with pytest.raises(ConfigError, match="max_cost_per_day: what an answer costs is not known: give its prices"):
        await limiter.acquire()
    limiter = RateLimiter("a", max_cost_per_day=1, store=MemoryLimitStore(Clock()))
    for currency in ("USD", "CNY"):
        async with limiter.reserve() as reservation:
            reservation.settle(None, Cost(Decimal("0.01"), currency))
    with pytest.raises(ConfigError, match="costs are in USD and in CNY, which can't be added"):
        await limiter.acquire()


async def test_a_block_reserves_once() -> None:
    """Whoever sends the request of a block gets its reservation, once."""
    limiter, other = RateLimiter("a", store=MemoryLimitStore()), RateLimiter("b", store=MemoryLimitStore())
    assert limiter.claimed() is None
    async with limiter.reserve() as outer:
        assert other.claimed() is None
        assert limiter.claimed() is outer
        assert limiter.claimed() is None
    async with limiter.reserve() as outer:
        await outer.aclose()
        assert limiter.claimed() is None


# --- what goes wrong --------------------------------------------------------------------------------------------------


@each_row(
    ("arguments", "problem"),
    [
        ({"rpm": 0}, "rpm must be greater than 0, not 0"),
        ({"rpm": 10**400}, "rpm must be between 1e-09 and 1e\\+12"),
        ({"max_cost_per_day": 1e-300}, "max_cost_per_day must be between"),
        ({"max_concurrent": True}, "max_concurrent must be a number above 0, not True"),
        ({"tpm": "5"}, "tpm must be a number above 0, not '5'"),
        ({"tpm": float("inf")}, "tpm must be greater than 0, not inf"),
        ({"max_cost_per_day": -1}, "max_cost_per_day must be greater than 0, not -1"),
        ({"store": "sqllite:///x"}, "the store of limits must be memory, .* \\(did you mean 'sqlite'\\?\\)"),
        ({"store": "valkey://"}, "the store of limits must name a server"),
        ({"store": "valkey://h?ssl_cert_reqs=none"}, "can't have ssl_cert_reqs"),
        ({"store": "sqlite:////nowhere/at/all/x.db"}, "there is no folder '/nowhere/at/all'"),
        ({"on_store_error": "lokal"}, "on_store_error: can't be 'lokal'. Allowed: local, refuse"),
        ({"replicas": 0}, "replicas must be a whole number above 0, not 0"),
    ],
)
def test_mistakes(arguments: Any, problem: str) -> None:
    """They are told when the limiter is made."""
    with pytest.raises(ConfigError, match=problem):
        RateLimiter("a", **arguments)


async def test_a_store_out_of_reach_locally() -> None:
    """Limits are counted in this process, one part of `replicas`; what was spent there is not forgotten."""
    pytest.importorskip("valkey")
    limiter = RateLimiter(
        "a", max_concurrent=4, max_cost_per_day=1, replicas=2, store="valkey://127.0.0.1:1/0", on_store_error="local"
    )
    async with limiter.reserve(max_wait=0) as reservation:
        with pytest.raises(LimitReachedError, match="is reserved for requests under way"):
            await limiter.acquire(max_wait=0)  # nobody knows what an answer costs
        reservation.settle(None, Cost(Decimal("0.1")))
    async with limiter.reserve(max_wait=0) as reservation, limiter.reserve(max_wait=0):
        with pytest.raises(LimitReachedError, match="requests at once is reached"):
            await limiter.acquire(max_wait=0)
        reservation.settle(None, Cost(Decimal("0.5")))
    with pytest.raises(BudgetExceededError):
        await limiter.acquire()
    await limiter.aclose()


@pytest.mark.parametrize("bad", ["no database", "locked"])
async def test_a_file_that_can_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    """It is out of reach as any other: a request is sent, or told that it may be tried again."""
    monkeypatch.setattr("streamfold.limits.sqlite._SHORTLY", 0.01)
    path = tmp_path / "limits.db"
    path.write_bytes(b"not a database, and long enough to be taken for one" * 100 if bad == "no database" else b"")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if bad == "locked":
            other.execute("BEGIN EXCLUSIVE")
        store = f"sqlite:///{path}"
        here = RateLimiter("a", max_cost_per_day=1, store=store)
        async with here.reserve() as reservation:
            reservation.settle(None, Cost(Decimal("1")))
        with pytest.raises(BudgetExceededError):
            await here.acquire()
        refusing = RateLimiter("b", rpm=5, store=store, on_store_error="refuse")
        with pytest.raises(LimitStoreError, match=r"limits\.db") as caught:
            await refusing.acquire()
        assert caught.value.retryable
    for limiter in (here, refusing):
        await limiter.aclose()


async def test_a_store_out_of_reach_refuses() -> None:
    """With "refuse", nothing is sent; the error may be retried, and says where the store is, without its password."""
    pytest.importorskip("valkey")
    limiter = RateLimiter("a", rpm=5, store="valkey://me:geheim@127.0.0.1:1/0", on_store_error="refuse")
    for _ in range(2):
        with pytest.raises(LimitStoreError, match=r"valkey://127\.0\.0\.1:1 can't be reached") as caught:
            await limiter.acquire()
        assert caught.value.retryable
        assert "geheim" not in f"{caught.value!r} {caught.value} {limiter!r}"
    await limiter.aclose()


async def test_a_store_that_comes_back(tmp_path: Path) -> None:
    """While it is away the limits of this process hold; when it is back it learns what was spent meanwhile."""
    clock = Clock()

    class Leaving(SQLiteLimitStore):
        away = False

        def take_now(self, name: str, ask: Ask) -> Grant:
            self._check()
            return super().take_now(name, ask)

        def settle_now(self, name: str, settlement: Settlement, given_up: Sequence[bool] = ()) -> None:
            self._check()
            super().settle_now(name, settlement, given_up)

        def _check(self) -> None:
            if self.away:
                raise LimitStoreError("away", retryable=True)

    store = Leaving(tmp_path / "x.db", clock=clock)
    limiter = RateLimiter("a", max_cost_per_day=1, replicas=2, store=store)
    guard: Any = limiter.store

    async def ask(cost: str) -> None:
        async with limiter.reserve() as reservation:
            reservation.settle(None, Cost(Decimal(cost)))

    await ask("0.2")
    store.away = True
    guard._local._clock = clock
    await ask("0.1")
    guard._local._clock = clock
    await ask("0.1")
    for _ in range(2):
        await ask("0.1")
    with pytest.raises(BudgetExceededError):  # 0.2 + (1 - 0.2) / 2 are 0.6
        await ask("0.1")
    store.away, guard._again, store._calls._again = False, 0.0, 0.0
    await ask("0.1")
    assert (await store.take("a", Ask())).spent == 700_000_000
    await limiter.store.aclose()


async def test_a_wrong_password(tmp_path: Path) -> None:
    """It is a mistake of the configuration, whatever `on_store_error` says."""
    with valkey_server(tmp_path, "--requirepass", "right") as server:
        limiter = RateLimiter("a", rpm=5, store=ValkeyLimitStore(server.url), on_store_error="local")
        with pytest.raises(ConfigError, match="refuses"):
            await limiter.acquire()
        limiter = RateLimiter("a", rpm=5, store=ValkeyLimitStore(f"{server.url}?password=wrong"))
        with pytest.raises(ConfigError, match="refuses the user name or the password of the URL"):
            await limiter.acquire()


async def test_a_full_store(tmp_path: Path) -> None:
    """The error has the server's own words."""
    with valkey_server(tmp_path, "--maxmemory", "1") as server:
        limiter = RateLimiter("a", rpm=5, store=ValkeyLimitStore(server.url), on_store_error="refuse")
        with pytest.raises(LimitStoreError, match=r"can't be used: .*maxmemory"):
            await limiter.acquire()


@pytest.mark.parametrize("on_store_error", ["local", "refuse"])
async def test_a_store_that_is_killed_and_started_again(on_store_error: Any, tmp_path: Path) -> None:
    """Meanwhile limits are counted here, or nothing is sent; a server that forgot everything learns what was spent."""
    price = Cost(Decimal("0.1"))

    async def ask() -> None:
        async with limiter.reserve() as reservation:
            reservation.settle(None, price)

    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url)
        limiter = RateLimiter("a", max_cost_per_day=10, store=store, on_store_error=on_store_error)
        guard: Any = limiter.store
        await ask()
        server.kill()
        if on_store_error == "local":
            await ask()
        else:
            with pytest.raises(LimitStoreError):
                await ask()
        server.start()
        guard._again = 0.0
        await ask()
        spent = 300_000_000 if on_store_error == "local" else 200_000_000
        assert (await store.take("a", Ask())).spent == spent
        await store.aclose()


async def test_a_server_that_hangs(tmp_path: Path) -> None:
    """It is noticed in a quarter of a second; what it grants when it goes on is given back, for nobody waits for it."""
    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url)
        limiter = RateLimiter("a", max_concurrent=1, store=store, on_store_error="refuse")
        guard: Any = limiter.store
        await (await limiter.acquire()).aclose()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with anyio.fail_after(1), pytest.raises(LimitStoreError, match="no answer within 250 ms"):
                await limiter.acquire()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        while (await store.take("b", Ask())).requests and store._line._late:
            await anyio.sleep(0.01)
        guard._again = 0.0
        await (await limiter.acquire(max_wait=0)).aclose()
        await store.aclose()


async def test_a_wait_that_asyncio_cancels(tmp_path: Path) -> None:
    """What is granted to a task that is gone is given back by the next one who asks."""
    if sniffio.current_async_library() != "asyncio":
        return
    with valkey_server(tmp_path) as server:
        store, ask = ValkeyLimitStore(server.url), Ask(slots=1, holder="me", lifetime=15.0)
        await store.settle("a", (await store.take("a", ask)).given_back())
        os.kill(server.pid, signal.SIGSTOP)
        task = asyncio.create_task(store.take("a", ask))
        await anyio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.kill(server.pid, signal.SIGCONT)
        while (await store.take("b", Ask())).requests and store._line._late:
            await anyio.sleep(0.01)
        assert (await store.take("a", ask)).requests == 1
        await store.aclose()


async def test_what_was_settled_on_a_broken_connection(valkey_url: str) -> None:
    """Nobody waits until it is settled; if it turns out to be lost it is sent again, and counts once."""
    store, ask = ValkeyLimitStore(valkey_url), Ask(token_rate=100.0, tokens=50.0, horizon=60.0)
    for lost in range(1, 4):
        name = f"{sniffio.current_async_library()} {lost}"
        assert (await store.take(name, ask)).wait == 0
        store.client.client_kill_filter(_type="normal", skipme=True)
        for _ in range(lost):
            await store.settle(name, Settlement(token_seconds=1.0, tokens=150.0))
        store.client.script_flush()
        grant = await store.take(name, ask)
        assert (grant.wait, grant.tokens) == (pytest.approx(0.5 + lost, abs=0.2), 150.0)
    await store.aclose()


ODD = {
    "requests": "nan", "rest": "1e308", "epoch": "inf", "spent": "-1e308", "cost": "-inf",
    "h:gone": "99", "x:gone": "1e308", "h:lost": "99",
}  # fmt: skip


async def test_numbers_that_nobody_counted(make: Make) -> None:
    """Where others may write too, what can't be a count or a moment is not there; nothing waits for it."""
    store, _ = make()
    ask = Ask(rate=10.0, token_rate=1000.0, tokens=10.0, slots=2, budget=100, holder="a")
    expected = await store.take("good", ask)
    match store:
        case SQLiteLimitStore():
            text = ", ".join(f'"{name}": {value}' for name, value in ODD.items())
            text = text.replace("nan", "NaN").replace("inf", "Infinity")
            with store._database.transaction() as database:
                for name, state in {"odd": f"{{{text}}}", "list": "[1]", "none": "{"}.items():
                    database.execute("INSERT INTO limits VALUES (?, ?)", (name, state))
        case ValkeyLimitStore():
            store.client.hset("streamfold:limits:{odd}", mapping=ODD)
    for name in ("odd", "list", "none"):
        assert await store.take(name, ask) == expected
    await store.aclose()


class AwayStore(MemoryLimitStore):
    """A store that may be away, and takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.away, self.paid = False, list[int]()

    async def take(self, name: str, ask: Ask) -> Grant:
        if self.away:
            raise LimitStoreError("away", retryable=True)
        return await super().take(name, ask)

    async def settle(self, name: str, settlement: Settlement) -> None:
        if self.away:
            raise LimitStoreError("away", retryable=True)
        await anyio.sleep(0)
        self.paid.append(settlement.money)


def test_a_grant_in_memory_does_not_wait() -> None:
    """What this process counts itself costs no turn of the event loop, and no thread: it is done in one go."""
    limiter = RateLimiter("a", rpm=60_000, tpm=6e6, max_concurrent=2, store=MemoryLimitStore())

    async def ask() -> None:
        async with limiter.reserve() as reservation:
            reservation.settle(Usage(input_tokens=10, output_tokens=10))

    for _ in range(3):
        with pytest.raises(StopIteration):
            ask().send(None)


async def test_what_was_owed_is_paid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks first after the store is back, and however many do so at once; nothing is forgotten."""
    monkeypatch.setattr(guard, "_AGAIN", 0.0)
    monkeypatch.setattr(guard, "_MOST_OWED", 50)
    store = AwayStore()
    guarded = guard.GuardedStore(store, local=False, replicas=1)
    store.away = True
    for number in range(1, 101):
        await guarded.settle("x", Settlement(money=number, day=1))
    store.away = False
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(guarded.take, "x", Ask())
    assert (len(store.paid), sum(store.paid)) == (50, 5050)


@pytest.mark.slow
async def test_a_file_that_another_process_locks(tmp_path: Path) -> None:
    """Nobody waits for it for long, and threads of others are free; what was given up is not done later."""
    path = tmp_path / "limits.db"
    store = SQLiteLimitStore(path)
    await store.settle("a", Settlement())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    failed = list[str]()

    async def take() -> None:
        with pytest.raises(LimitStoreError) as caught:
            await store.take("a", Ask(rate=1.0))
        failed.append(caught.value.message)

    with anyio.fail_after(8):  # it was ten seconds, for the threads of everybody
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(take)
            await anyio.sleep(0.05)
            with anyio.fail_after(0.9):
                await anyio.to_thread.run_sync(int)
    assert len(failed) == 60
    other.close()
    grant = await store.take("a", Ask(rate=1.0))  # at once: whoever guards it says when it is asked again
    assert (grant.requests, grant.wait) == (1, 0.0)
    await store.aclose()
