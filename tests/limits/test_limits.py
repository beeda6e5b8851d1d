"""Limits: what is reserved and charged, the same in every store."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from scale import pick
from streamfold import ConfigError, Cost, Usage
from streamfold.limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStore,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    SharedLimitStore,
    SQLiteLimitStore,
    ValkeyLimitStore,
    open_limit_store,
    store_connection,
)
from streamfold.limits.limit_state import DAY, POLL, Batch, BatchAnswer, Charge, Grant, Operation, PauseSending, Reserve
from streamfold.limits.valkey import SCRIPT
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
        super().__init__(url, script=SCRIPT.replace("redis.call('TIME')", "{redis.call('GET', 'clock'), 0}"))
        self._clock = clock
        self.client.flushall()

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        self.client.set("clock", repr(self._clock.now))
        return super().apply(name, batch)


class Counter:
    """A store of one kind, and the clock that it goes by; numbers the batches that it sends for each holder."""

    def __init__(self, store: LimitStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self._numbers: dict[tuple[str, str], int] = {}

    def send(
        self, name: str, *operations: Operation, holder: str = "", lease: float = 0.0, **batch: Any
    ) -> BatchAnswer:
        """Sends operations as the next batch of a holder."""
        number = self._numbers[name, holder] = self._numbers.get((name, holder), 0) + 1
        return self.store.apply(name, Batch(operations, holder, number, lease, **batch))

    def reserve(self, name: str, ask: Reserve, **batch: Any) -> Grant:
        """Sends a question. One with slots or a budget is of a holder."""
        batch = {"lease": 10.0, "budgeted": ask.budget > 0, **batch} if ask.slots or ask.budget else batch
        found = self.send(name, replace(ask), **batch).grants[0]
        assert found is not None
        return found

    def charge(self, name: str, charge: Charge, **batch: Any) -> None:
        """Sends a charge."""
        self.send(name, charge, **batch)


Make = Callable[[], Counter]


@pytest.fixture(params=["memory", "sqlite", "valkey"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Counter] = []

    def opened() -> Counter:
        clock, store = Clock(), request.param
        if store == "memory":
            made.append(Counter(MemoryLimitStore(clock), clock))
        elif store == "sqlite":
            made.append(Counter(SQLiteLimitStore(tmp_path / "limits.db", clock=clock), clock))
        else:
            made.append(Counter(SteppedValkeyStore(request.getfixturevalue("valkey_url"), clock), clock))
        return made[-1]

    yield opened
    for counter in made:
        counter.store.close()


def test_requests_are_evenly_spread(make: Make) -> None:
    """Each takes the next free moment; one that is too far away is not reserved."""
    counter = make()
    ask = Reserve(rate=10.0, max_wait=1.0)
    waits = [counter.reserve("a", ask).wait for _ in range(5)]
    assert waits == near([0, 0.1, 0.2, 0.3, 0.4])
    counter.clock.now += 0.35
    assert counter.reserve("a", ask).wait == near(0.15)
    for _ in range(8):
        counter.reserve("a", ask)
    late = counter.reserve("a", ask)
    assert (late.requests, late.reason) == (0, "rate")
    assert late.wait == near(1.05)
    assert counter.reserve("another", ask).wait == 0


def test_unused_time_is_no_burst(make: Make) -> None:
    """Only as much can be caught up with as was agreed on."""
    counter = make()
    ask = Reserve(rate=10.0, burst=0.2)
    counter.reserve("a", ask)
    counter.clock.now += 60
    waits = [counter.reserve("a", ask).wait for _ in range(4)]
    assert waits == near([0, 0, 0, 0.1])


def test_several_moments_at_once(make: Make) -> None:
    """They are as many as the store says, and never more than were requested."""
    counter = make()
    grant = counter.reserve("a", Reserve(requests=10, rate=100.0, prefetch=0.05))
    assert (grant.requests, grant.step) == (5, 0.01)
    assert counter.reserve("a", Reserve(requests=2, rate=100.0, prefetch=0.05)).wait == near(0.05)
    assert counter.reserve("b", Reserve(requests=10, rate=1.0, prefetch=0.05)).requests == 1


def test_tokens_are_charged(make: Make) -> None:
    """A request reserves the mean of what was used before; what is used beyond that delays the next ones."""
    counter = make()
    ask = Reserve(token_rate=100.0, tokens=50.0, max_wait=60.0)
    assert counter.reserve("a", ask).wait == 0
    assert counter.reserve("a", ask).wait == near(0.5)
    counter.charge("a", Charge(token_seconds=(200 - 50) / 100, tokens=200.0))
    grant = counter.reserve("a", ask)
    assert (grant.wait, grant.tokens) == (near(2.5), 200.0)
    counter.charge("a", grant.given_back())
    counter.charge("a", Charge(tokens=100.0))
    counter.clock.now += 2.5
    grant = counter.reserve("a", ask)
    assert (grant.wait, grant.tokens) == (0, 150.0)


def test_a_rest_is_for_all(make: Make) -> None:
    """Nothing is sent until it ends, and nothing is caught up with after it."""
    counter = make()
    counter.send("a", PauseSending(5.0), PauseSending(2.0))
    late = counter.reserve("a", Reserve())
    assert (late.reason, late.wait) == ("rest", near(5))
    counter.clock.now += 5
    ask = Reserve(rate=10.0, burst=1.0)
    waits = [counter.reserve("a", ask).wait for _ in range(3)]
    assert waits == near([0, 0.1, 0.2])


def test_slots(make: Make) -> None:
    """Those of a holder that shows no sign of life are free again after its lease; those of others stay."""
    counter = make()
    ask = Reserve(slots=3)
    assert counter.reserve("x", replace(ask, requests=5), holder="a").requests == 3
    assert counter.reserve("x", ask, holder="b").reason == "slots"
    counter.charge("x", Charge(slots=1), holder="a", lease=10.0)
    assert counter.reserve("x", ask, holder="b").requests == 1
    for _ in range(4):
        counter.clock.now += 4
        counter.send("x", holder="b", lease=10.0)
    assert counter.reserve("x", replace(ask, requests=5), holder="b").requests == 2


def test_a_holder_that_was_taken_for_dead(make: Make) -> None:
    """It has its slots and its money again with its next batch, and others get none before there are any."""
    counter = make()
    ask = Reserve(slots=2, budget=1000, money=100)
    held = counter.send("x", replace(ask, requests=2), holder="a", lease=10.0, budgeted=True)
    again = {"slots": 2, "money": 200, "reserved": 2, "born": held.born, "day": held.day, "spent": held.spent}
    for _ in range(4):
        counter.clock.now += 4
        counter.send("x", holder="b", lease=10.0, budgeted=True)
    assert counter.reserve("x", ask, holder="b").spent == 100  # nothing of what `a` had reserved is spent
    assert counter.send("x", holder="a", lease=10.0, budgeted=True, **again).spent == 300
    assert counter.reserve("x", ask, holder="b").reason == "slots"
    charge = Charge(money=-50, reserved=100, day=held.day, slots=1)
    assert counter.send("x", charge, holder="a", lease=10.0, budgeted=True, **again).spent == 250
    assert counter.reserve("x", ask, holder="b").reason == "slots"


def test_nothing_is_lost_while_the_store_is_away(make: Make) -> None:
    """Nobody could renew a lease then, so that time doesn't count."""
    counter = make()
    counter.reserve("x", Reserve(slots=1), holder="a")
    for seconds in (3600, 4, -7200):  # away; working; the clock is stepped back
        counter.clock.now += seconds
        assert counter.reserve("x", Reserve(slots=1), holder="b").reason == "slots"
    counter.clock.now += 4  # the heartbeats of `a` don't come any more
    assert counter.reserve("x", Reserve(slots=1), holder="b").requests == 1


def test_slots_are_shared_fairly(make: Make) -> None:
    """A holder that has its share gets no more of them while another one waits."""
    counter = make()
    ask = Reserve(slots=4, requests=4)
    assert counter.reserve("x", ask, holder="a").requests == 4
    assert counter.reserve("x", ask, holder="b").requests == 0
    counter.charge("x", Charge(slots=1), holder="a", lease=10.0)
    assert counter.reserve("x", ask, holder="a").requests == 0
    assert counter.reserve("x", ask, holder="b").requests == 1
    counter.clock.now += 1  # it doesn't wait any more
    counter.charge("x", Charge(slots=3), holder="a", lease=10.0)
    assert counter.reserve("x", ask, holder="a").requests == 3


def test_a_budget_is_for_a_day(make: Make) -> None:
    """What answers cost at most is reserved; when the mean does not fit any more, that is refused until midnight."""
    counter = make()
    ask = Reserve(budget=1000)

    def used(grant: Grant, cost: int) -> Charge:
        return Charge(money=cost - grant.cost, reserved=grant.cost, cost=cost, day=grant.day)

    def charge(charge: Charge) -> None:
        counter.charge("a", charge, holder="a", lease=15.0, budgeted=True)

    def reserve(ask: Reserve, holder: str = "a") -> Grant:
        return counter.reserve("a", ask, holder=holder, lease=15.0)

    first = reserve(ask)
    assert (first.cost, first.spent) == (1000, 1000)  # nothing is known: one alone
    assert reserve(ask, "b").reason == "reserved"
    charge(used(first, 100))
    two = reserve(replace(ask, requests=2))
    assert (two.requests, two.cost, two.spent) == (2, 100, 300)
    assert reserve(replace(ask, money=800)).reason == "reserved"  # it might not fit; let us see
    charge(used(two, 400))
    bound = reserve(replace(ask, money=250))
    assert (bound.cost, bound.mean, bound.spent) == (250, 250, 850)
    assert reserve(ask).reason == "reserved"
    charge(used(bound, 200))
    charge(used(two, 100))
    last = reserve(ask)  # alone, with less than the highest cost
    assert (last.cost, last.spent) == (200, 1000)
    charge(used(last, 190))
    refused = reserve(ask)
    assert (refused.requests, refused.reason, refused.wait, refused.spent) == (0, "budget", DAY / 2, 990)
    counter.clock.now += DAY / 2
    late = reserve(ask)
    charge(Charge(money=-50, day=first.day))  # yesterday's are closed
    assert (late.spent, late.cost, late.mean) == (377, 377, 198)
    for _ in range(5):  # the process was killed: what it had reserved is given back, but for the mean
        counter.clock.now += 4
        after = counter.send("a", holder="b", lease=15.0, budgeted=True)
    assert after.spent == 198


def test_expensive_answers_leave_the_rest_of_a_budget_to_cheap_ones(make: Make) -> None:
    """A request that costs less at most than what is left is granted, whatever other answers cost on average."""
    counter = make()

    def reserve(money: int) -> Grant:
        return counter.reserve("a", Reserve(budget=100, money=money), holder="a", lease=15.0)

    def charge(grant: Grant, cost: int) -> None:
        used = Charge(money=cost - grant.cost, reserved=grant.cost, cost=cost, day=grant.day)
        counter.charge("a", used, holder="a", lease=15.0, budgeted=True)

    for _ in range(3):
        charge(reserve(40), 30)
    assert reserve(40).reason == "budget"
    assert reserve(11).reason == "budget"
    cheap = reserve(5)
    assert (cheap.requests, cheap.cost, cheap.spent) == (1, 5, 95)
    charge(cheap, 2)
    assert reserve(8).cost == 8


def test_a_clock_that_steps_back_never_begins_a_day_again(make: Make) -> None:
    """What was spent stays spent, on whichever side of midnight the clock is."""
    counter = make()
    ask, day = Reserve(budget=1000, money=400), int(NOON // DAY)

    def spend() -> int:
        grant = counter.reserve("a", ask, holder="a")
        if grant.requests:
            charge = Charge(reserved=grant.cost, cost=400, day=grant.day)
            counter.charge("a", charge, holder="a", lease=10.0, budgeted=True)
        return grant.requests

    assert [spend(), spend(), spend()] == [1, 1, 0]
    counter.clock.now = (day + 1) * DAY + 60
    assert [spend(), spend(), spend()] == [1, 1, 0]
    for moment in (NOON, NOON - 9 * DAY, (day + 1) * DAY - 1, (day + 1) * DAY + 60):
        counter.clock.now = moment
        assert spend() == 0
    counter.clock.now = (day + 2) * DAY
    assert spend() == 1


def test_a_store_that_lost_its_state_is_told_what_was_spent(make: Make) -> None:
    """Limiters remember the last figure; a store that has a higher one keeps that."""
    counter = make()
    ask = Reserve(budget=1000, money=10)
    known: dict[str, Any] = {"day": int(NOON // DAY), "spent": 900, "born": 1.0}
    assert counter.reserve("a", ask, holder="a", **known).spent == 910
    assert counter.reserve("a", ask, holder="b", **{**known, "spent": 850}).spent == 920
    assert counter.reserve("a", ask, holder="b", **{**known, "spent": 990}).spent == 930
    assert counter.reserve("b", ask, holder="a", **{**known, "day": 19_999}).spent == 10


def test_a_batch_has_its_effect_once(make: Make) -> None:
    """Sent again, at once, after its lease or after the next one, it changes nothing, and gets the same answer."""
    counter = make()
    ask = Reserve(slots=2, budget=10**9, money=10, rate=10.0)
    batch = Batch((ask, Charge(money=5, day=int(NOON // DAY))), "a", 1, 10.0, budgeted=True)
    first = counter.store.apply("x", batch)
    assert counter.store.apply("x", batch) == first
    for _ in range(5):
        counter.clock.now += 4
        other = counter.send("x", holder="b", lease=10.0, budgeted=True)
    assert counter.store.apply("x", batch) == first
    assert counter.send("x", holder="b", lease=10.0, budgeted=True).spent == other.spent


def test_money_is_exact_up_to_a_billion(make: Make) -> None:
    """Each millionth of a budget of 10^9 is counted."""
    counter = make()
    budget, day = 10**15, int(NOON // DAY)
    for money in (10**15 - 3, 1, 1):
        found = counter.send("x", Charge(money=money, day=day), holder="a", lease=9.0, budgeted=True)
    assert found.spent == budget - 1
    last = counter.reserve("x", Reserve(budget=budget), holder="a")
    assert (last.requests, last.cost) == (1, 1)
    assert counter.reserve("x", Reserve(budget=budget), holder="b").reason == "reserved"


def test_a_rate_is_lowered_once(make: Make) -> None:
    """Of all requests that were refused at one rate, the first lowers it; those that are accepted raise it."""
    counter = make()
    ask = Reserve(start=10.0, max_wait=100.0)
    assert counter.reserve("a", ask).rate == 10.0
    counter.send("a", PauseSending(refused_rate=10.0), PauseSending(refused_rate=10.0))
    assert counter.reserve("a", ask).rate == 7.0
    assert counter.reserve("a", replace(ask, accepted=7)).rate == near(7.14)
    counter.send("a", PauseSending(refused_rate=7.0))
    assert counter.reserve("a", ask).rate == near(7.14 * 0.97)
    assert counter.reserve("a", replace(ask, start=0.0, rate=100.0)).rate == 100.0  # it is stated now
    counter.send("a", PauseSending(refused_rate=50.0, rate=100.0))  # sent before it was
    assert counter.reserve("a", replace(ask, rate=100.0)).rate == 100.0
    counter.send("a", PauseSending(refused_rate=100.0, rate=100.0))
    assert counter.reserve("a", replace(ask, rate=100.0)).rate == 70.0


def test_the_script_does_what_python_does(valkey_url: str) -> None:
    """Any sequence of batches gets the same answers from both."""
    for seed in range(pick(60, 8)):
        dice, clock = random.Random(seed), Clock()
        counters = [Counter(MemoryLimitStore(clock), clock), Counter(SteppedValkeyStore(valkey_url, clock), clock)]
        limits = {"rate": dice.choice([0, 7.0, 90.0]), "token_rate": dice.choice([0, 500.0])}
        limits |= {"slots": dice.choice([0, 6]), "budget": dice.choice([0, 5000]), "start": dice.choice([0, 10.0])}
        answer, grant = BatchAnswer(0.0, 0, 0, []), Grant()

        for _ in range(150):
            clock.now += dice.choice([0, 0.01, 0.25, 3, 7000, -3, -90_000, 200_000])
            batch = {
                "holder": dice.choice("ab"),
                "lease": 15.0,
                "budgeted": limits["budget"] > 0,
                "slots": dice.randrange(3),
                "money": dice.randrange(500),
                "reserved": dice.randrange(3),
                "born": dice.choice([0.0, answer.born, 1.0]),
                "day": dice.choice([0, answer.day]),
                "spent": dice.randrange(3000),
                "leaves": dice.random() < 0.03,
            }
            operations = [_any_operation(dice, clock, grant, limits) for _ in range(dice.randrange(4))]
            answer, other = [counter.send("x", *operations, **batch) for counter in counters]
            grant = next((found for found in answer.grants if found), grant)
            assert _rounded(answer) == _rounded(other)
        counters[1].store.close()


def _any_operation(dice: random.Random, clock: Clock, grant: Grant, limits: dict[str, Any]) -> Operation:
    match dice.randrange(5):
        case 0:
            return Charge(
                request_seconds=dice.choice([0, -0.2]),
                token_seconds=dice.uniform(-2, 2),
                tokens=dice.choice([None, dice.randrange(900)]),
                cost=dice.choice([None, dice.randrange(900)]),
                money=dice.randrange(-300, 300),
                reserved=dice.choice([0, 100, 300]),
                requests=dice.randrange(3),
                day=dice.choice([grant.day, int(clock.now // DAY)]),
                slots=dice.randrange(3),
            )
        case 1:
            rates = [0, grant.rate, 40.0]
            return PauseSending(dice.choice([0.0, 0.0, 2.0]), dice.choice(rates), dice.choice([0, limits["rate"]]))
    return Reserve(
        requests=dice.randrange(6),
        prefetch=dice.choice([0, 0.05, 0.5]),
        burst=dice.choice([0.05, 0.5]),
        tokens=70.0,
        money=dice.choice([0, 0, 100, 900]),
        accepted=dice.randrange(4),
        **limits,
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, BatchAnswer | Grant):
        return {field.name: _rounded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


# --- the limiter ------------------------------------------------------------------------------------------------------


async def test_slots_are_free_again_at_once() -> None:
    """In this process, however the block ends."""
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
        with pytest.raises(LimitReachedError, match="the limit of 2 parallel requests is reached; nothing was sent"):
            await limiter.acquire(max_wait=0)


async def test_a_caller_that_does_not_wait_is_told_how_long_it_would_be() -> None:
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
    store = MemoryLimitStore(clock)
    limiter = RateLimiter("a", rpm=120, tpm=60_000, burst=0.0, store=store)
    await limiter.acquire()
    for _ in range(5):
        with anyio.move_on_after(0.01):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(limiter.acquire)
    grant = Counter(store, clock).reserve("a", Reserve(rate=2.0, token_rate=1000.0, tokens=1.0))
    assert grant.wait == near(1.0)  # of the tokens of the first one: a thousand, as nothing was charged yet


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_waits_with_and_without_a_bound_at_once(where: str, tmp_path: Path) -> None:
    """`acquire()` and `acquire(max_wait=...)` in parallel on one limiter: each gets its own moment, or an error."""
    store = MemoryLimitStore() if where == "memory" else SQLiteLimitStore(tmp_path / "limits.db")
    store.prefetch_seconds = 0.02
    limiter = RateLimiter("a", rpm=60_000, max_concurrent=5, burst=0.0, store=store)
    found: list[str] = []

    async def ask(max_wait: float | None) -> None:
        try:
            with anyio.move_on_after(0.05 if max_wait == 0.5 else 60):
                async with limiter.reserve(max_wait=max_wait):
                    await anyio.sleep(0.001)
            found.append("sent")
        except LimitReachedError:
            found.append("refused")

    async with anyio.create_task_group() as tasks:
        for number in range(60):
            tasks.start_soon(ask, (None, 0.002, 0.5)[number % 3])
    assert len(found) == 60
    await limiter.aclose()
    await anyio.sleep(4 * POLL)  # a limiter whose last caller gave up counts as waiting, with a share, for 3 * POLL
    counter = Counter(store, Clock())
    granted = counter.store.apply("a", Batch((Reserve(requests=9, slots=5),), "other", 1, 9.0)).grants[0]
    assert granted is not None
    assert granted.requests == 5  # all of them are free again
    store.close()


async def test_a_budget_that_is_spent() -> None:
    """The error says which budget, how much of it, and when it begins again; nothing is reserved before."""
    limiter = RateLimiter("a", max_cost_per_day=0.3, store=MemoryLimitStore(Clock()), label="main")
    for _ in range(3):
        async with limiter.reserve() as reservation:
            reservation.charge(Usage(10, 10, 20), Cost(Decimal("0.1")))
    with pytest.raises(BudgetExceededError) as caught:
        await limiter.acquire()
    assert str(caught.value) == (
        "main: the budget of 0.3 USD per day is spent (0.3 of it); nothing was sent. It begins again at"
        " 2024-10-05 00:00 UTC (max_cost_per_day)"
    )
    assert (caught.value.status_code, caught.value.retryable, caught.value.retry_after) == (429, False, DAY / 2)


@pytest.mark.parametrize("where", ["memory", "sqlite", "valkey"])
async def test_a_large_budget(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Budgets up to 10^9 hold, to the millionth, in every store; a cost is rounded up to one."""
    urls = {"memory": "memory", "sqlite": f"sqlite:///{tmp_path}/limits.db"}
    url = urls.get(where) or request.getfixturevalue("valkey_url")
    limiter = _on(url, name=f"large {tmp_path}", max_cost_per_day=10**9)
    async with limiter.reserve() as reservation:
        reservation.charge(None, Cost(Decimal("999999999.9999994"), "JPY"))
    with pytest.raises(BudgetExceededError, match=r"the budget of 1000000000 JPY per day is spent \(1000000000 of it"):
        await limiter.acquire()
    await limiter.store.aclose()


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-1", "1e308", "-0.000001"])
async def test_a_cost_that_can_not_be(cost: str) -> None:
    """It counts as one that is unknown: as what answers cost on average."""
    store = MemoryLimitStore(Clock())
    limiter = RateLimiter("a", max_cost_per_day=10, store=store)
    for each in ("2", cost):
        async with limiter.reserve() as reservation:
            reservation.charge(Usage(10, 10, 20), Cost(Decimal(each)))
    assert store.apply("a", Batch(budgeted=True)).spent == 4_000_000


@pytest.mark.parametrize("total", [-5, 10**18, True, "7", float("inf"), float("nan")])
async def test_a_usage_that_can_not_be(total: Any) -> None:
    """It counts as one that is unknown, and no later request waits for it."""
    limiter = RateLimiter("a", tpm=1_000_000, store=MemoryLimitStore(Clock()))
    for each in (100, total):
        async with limiter.reserve(max_wait=1) as reservation:
            reservation.charge(Usage(total_tokens=each))
    async with limiter.reserve(max_wait=0):
        pass


@pytest.mark.parametrize("where", ["sqlite", "valkey"])
async def test_a_budget_survives_a_restart(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Another process finds what was spent."""
    url = f"sqlite:///{tmp_path}/limits.db" if where == "sqlite" else request.getfixturevalue("valkey_url")
    for _ in range(2):
        limiter = _on(url, name=str(tmp_path), max_cost_per_day=0.5)
        async with limiter.reserve() as reservation:
            reservation.charge(Usage(10, 10, 20), Cost(Decimal("0.2")))
        await limiter.store.aclose()
    limiter = _on(url, name=str(tmp_path), max_cost_per_day=0.5)
    with pytest.raises(BudgetExceededError, match=r"\(0.4 of it, and an answer costs about 0.2\)"):
        await limiter.acquire()
    await limiter.store.aclose()


def _on(url: str, **arguments: Any) -> RateLimiter:
    store = ValkeyLimitStore(url) if url.startswith("unix") else open_limit_store(url)
    return RateLimiter(store=store, **arguments)


async def test_unknown_costs() -> None:
    """A budget can't be held without them: the next request says so, instead of being sent."""
    limiter = RateLimiter("a", max_cost_per_day=1, store=MemoryLimitStore(Clock()))
    async with limiter.reserve() as reservation:
        reservation.charge(Usage(10, 10, 20), None)
    with pytest.raises(ConfigError, match="max_cost_per_day: the cost of an answer is unknown: set the prices"):
        await limiter.acquire()
    limiter = RateLimiter("a", max_cost_per_day=1, store=MemoryLimitStore(Clock()))
    for currency in ("USD", "CNY"):
        async with limiter.reserve() as reservation:
            reservation.charge(None, Cost(Decimal("0.01"), currency))
    with pytest.raises(ConfigError, match="costs in USD and in CNY can't be added"):
        await limiter.acquire()


async def test_a_reservation_is_for_one_request() -> None:
    """It is claimed once, for its own limiter, while it is open."""
    limiter, other = RateLimiter("a", store=MemoryLimitStore()), RateLimiter("b", store=MemoryLimitStore())
    async with limiter.reserve() as reservation:
        assert [reservation.claim(each) for each in (other, limiter, limiter)] == [False, True, False]
    async with limiter.reserve() as reservation:
        await reservation.aclose()
        assert not reservation.claim(limiter)


def test_a_grant_in_memory_does_not_wait() -> None:
    """What this process counts itself costs no turn of the event loop, and no thread: it is done in one go."""
    limiter = RateLimiter("a", rpm=60_000, tpm=6e6, max_concurrent=2, store=MemoryLimitStore())

    async def ask() -> None:
        async with limiter.reserve() as reservation:
            reservation.charge(Usage(input_tokens=10, output_tokens=10))

    for _ in range(3):
        with pytest.raises(StopIteration):
            ask().send(None)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@each_row(
    ("arguments", "problem"),
    [
        ({"rpm": 0}, "rpm must be greater than 0, not 0"),
        ({"rpm": 10**400}, "rpm must be between 1e-09 and 1e\\+12"),
        ({"max_cost_per_day": 1e-300}, "max_cost_per_day must be between"),
        ({"max_cost_per_day": 1e-7}, "max_cost_per_day must be between 0.000001 and 1,000,000,000"),
        ({"max_cost_per_day": 10**9 + 1}, "max_cost_per_day must be between 0.000001 and 1,000,000,000"),
        ({"max_concurrent": True}, "max_concurrent must be a number above 0, not True"),
        ({"tpm": "5"}, "tpm must be a number above 0, not '5'"),
        ({"tpm": float("inf")}, "tpm must be greater than 0, not inf"),
        ({"max_cost_per_day": -1}, "max_cost_per_day must be greater than 0, not -1"),
        ({"store": "sqllite:///x"}, "the store of limits must be memory, .* \\(did you mean 'sqlite'\\?\\)"),
        ({"store": "valkey://"}, "the store of limits must name a server"),
        ({"store": "valkey://h?ssl_cert_reqs=none"}, "can't have ssl_cert_reqs"),
        ({"store": "sqlite:////nowhere/at/all/x.db"}, "there is no folder '/nowhere/at/all'"),
        (
            {"on_store_error": "lokal"},
            r"on_store_error: can't be 'lokal' \(did you mean 'local'\?\). Allowed: local, refuse",
        ),
        ({"replicas": 0}, "replicas: must be greater than 0"),
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
        with pytest.raises(LimitReachedError, match="requests in flight have reserved"):
            await limiter.acquire(max_wait=0)  # no cost is known
        reservation.charge(None, Cost(Decimal("0.1")))
    async with limiter.reserve(max_wait=0) as reservation, limiter.reserve(max_wait=0):
        with pytest.raises(LimitReachedError, match="parallel requests is reached"):
            await limiter.acquire(max_wait=0)
        reservation.charge(None, Cost(Decimal("0.5")))
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
            reservation.charge(None, Cost(Decimal("1")))
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


class LeavingStore(SQLiteLimitStore):
    """A store that may be away: before it has acted, or after it, so that only its answer is lost."""

    away = ""

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        if self.away == "before":
            raise LimitStoreError("away", retryable=True)
        answer = super().apply(name, batch)
        if self.away:
            raise LimitStoreError("away", retryable=True)
        return answer


def spent_in(store: LimitStore, name: str = "a") -> Decimal:
    return Decimal(store.apply(name, Batch(budgeted=True)).spent) / 1_000_000


def try_again(limiter: RateLimiter) -> None:
    """The second for which a store that failed is left alone has passed."""
    assert isinstance(limiter.store, SharedLimitStore)
    limiter.store.availability.recovered()


async def _spend(limiter: RateLimiter, cost: str) -> None:
    async with limiter.reserve() as reservation:
        reservation.charge(None, Cost(Decimal(cost)))


@pytest.mark.parametrize("away", ["before", "after"])
async def test_a_store_that_comes_back(tmp_path: Path, away: str) -> None:
    """While it is away the limits of this process hold; when it is back it learns once what was spent meanwhile."""
    clock = Clock()
    clock.now = time.time()
    store = LeavingStore(tmp_path / "x.db", clock=clock)
    limiter = RateLimiter("a", max_cost_per_day=1, replicas=2, store=store)
    await _spend(limiter, "0.2")
    store.away = away
    for _ in range(4):
        await _spend(limiter, "0.1")
    with pytest.raises(BudgetExceededError):  # 0.2 + (1 - 0.2) / 2 are 0.6
        await _spend(limiter, "0.1")
    store.away = ""
    try_again(limiter)
    await _spend(limiter, "0.1")
    assert spent_in(store) == Decimal("0.7")
    await limiter.aclose()
    assert spent_in(store) == Decimal("0.7")
    store.close()


@pytest.mark.parametrize("on_store_error", ["local", "refuse"])
@pytest.mark.parametrize("ends", ["answered", "left", "cancelled"])
async def test_what_was_reserved_before_the_store_went_away(tmp_path: Path, on_store_error: Any, ends: str) -> None:
    """It is charged at the latest when the limiter is closed, also if the answer to its charge was lost."""
    store = LeavingStore(tmp_path / "x.db")
    limiter = RateLimiter("a", max_cost_per_day=10, max_concurrent=3, store=store, on_store_error=on_store_error)
    await _spend(limiter, "2")
    reservations = [await limiter.acquire() for _ in range(3)]
    assert spent_in(store) == 8
    for away, reservation in zip(("after", "before", "before"), reservations, strict=True):
        store.away = away
        if ends == "answered":
            reservation.charge(None, Cost(Decimal("1")))
        elif ends == "cancelled":
            reservation.cancel()
        await reservation.aclose()
        try_again(limiter)
    store.away = ""
    await limiter.aclose()
    assert spent_in(store) == {"answered": 5, "left": 8, "cancelled": 2}[ends]
    assert Counter(store, Clock()).reserve("a", Reserve(requests=9, slots=3), holder="me").requests == 3
    store.close()


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


async def test_a_budget_on_a_server_that_evicts(tmp_path: Path) -> None:
    """It is refused, with the setting to change; limits without money are counted there."""
    with valkey_server(tmp_path, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as server:
        store = ValkeyLimitStore(server.url)
        limiter = RateLimiter("a", max_cost_per_day=5, store=store)
        with pytest.raises(ConfigError, match="set maxmemory-policy to"):
            await limiter.acquire()
        await (await RateLimiter("b", rpm=5, store=store).acquire()).aclose()
        store.close()


@pytest.mark.parametrize("on_store_error", ["local", "refuse"])
async def test_a_store_that_is_killed_and_started_again(on_store_error: Any, tmp_path: Path) -> None:
    """Meanwhile limits are counted here, or nothing is sent; a server that forgot everything learns what was spent."""
    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url)
        limiter = RateLimiter("a", max_cost_per_day=10, store=store, on_store_error=on_store_error)
        await _spend(limiter, "0.1")
        server.kill()
        if on_store_error == "local":
            await _spend(limiter, "0.1")
        else:
            with pytest.raises(LimitStoreError):
                await _spend(limiter, "0.1")
        server.start()
        try_again(limiter)
        await _spend(limiter, "0.1")
        assert spent_in(store) == (Decimal("0.3") if on_store_error == "local" else Decimal("0.2"))
        store.close()


@pytest.mark.skipif(os.name == "nt", reason="processes can't be stopped and continued there")
async def test_a_server_that_hangs(tmp_path: Path) -> None:
    """It is noticed soon; what it grants when it goes on is given back, for its caller has gone."""
    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url)
        limiter = RateLimiter("a", max_concurrent=1, store=store, on_store_error="refuse")
        await (await limiter.acquire()).aclose()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with anyio.fail_after(3), pytest.raises(LimitStoreError, match="can't be reached"):
                await limiter.acquire()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        try_again(limiter)
        await (await limiter.acquire(max_wait=0)).aclose()
        await limiter.aclose()
        store.close()


@pytest.mark.skipif(os.name == "nt", reason="processes can't be stopped and continued there")
async def test_a_task_that_is_cancelled_while_it_waits_for_the_store(tmp_path: Path) -> None:
    """What is granted to it is given back: a slot is never held by a task that has gone."""
    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url, timeout=5.0)
        limiter = RateLimiter("a", max_concurrent=1, store=store, on_store_error="refuse")
        await (await limiter.acquire()).aclose()
        for _ in range(3):
            os.kill(server.pid, signal.SIGSTOP)
            with anyio.move_on_after(0.05):
                await limiter.acquire()
            os.kill(server.pid, signal.SIGCONT)
            with anyio.fail_after(5):
                await (await limiter.acquire()).aclose()
        await limiter.aclose()
        store.close()


async def test_a_connection_that_the_server_has_closed(valkey_url: str) -> None:
    """Another one is opened, and nothing is counted twice."""
    store = ValkeyLimitStore(valkey_url)
    limiter = RateLimiter(f"closed {random.random()}", max_cost_per_day=100, store=store, on_store_error="refuse")
    for _ in range(3):
        await _spend(limiter, "1")
        store.client.client_kill_filter(_type="normal", skipme=True)
        store.client.script_flush()
    assert spent_in(store, limiter.name) == 3
    await limiter.aclose()
    store.close()


@pytest.mark.slow
async def test_idle_connections_are_closed(tmp_path: Path) -> None:
    """There are as many as are needed at once, and none when the store hasn't been needed for some seconds."""
    with valkey_server(tmp_path) as server:
        store = ValkeyLimitStore(server.url)
        limiters = [RateLimiter(str(number), rpm=6e6, store=store) for number in range(40)]
        limiters[1:] = [RateLimiter(str(number), rpm=6e6, store=limiters[0].store) for number in range(1, 40)]
        async with anyio.create_task_group() as tasks:
            for limiter in limiters:
                tasks.start_soon(limiter.acquire)
        import valkey

        with valkey.Valkey.from_url(server.url) as admin:
            assert len(admin.client_list()) <= 8 + 1
            with anyio.fail_after(15):
                while len(admin.client_list()) > 1:
                    await anyio.sleep(0.2)
        store.close()


ODD = {
    "requests": "nan", "rest": "1e308", "seen": "inf", "spent": "-1e308", "cost": "-inf", "rate": "nan",
    "h:gone": "99", "x:gone": "1e308", "h:lost": "99", "m:lost": "nan",
}  # fmt: skip


def write(store: LimitStore, name: str, state: dict[str, str]) -> None:
    """Writes a state into a store, as another program could."""
    if isinstance(store, ValkeyLimitStore):
        store.client.delete(f"streamfold:limits:{{{name}}}")
        store.client.hset(f"streamfold:limits:{{{name}}}", mapping=state)
    elif isinstance(store, SQLiteLimitStore):
        text = ", ".join(f'"{field}": {value}' for field, value in state.items())
        text = text.replace("nan", "NaN").replace("inf", "Infinity")
        with store._database.transaction() as database:
            database.execute("REPLACE INTO limits VALUES (?, ?)", (name, f"{{{text}}}"))
    else:
        assert isinstance(store, MemoryLimitStore)
        store._states[name] = {field: float(value) for field, value in state.items()}


def test_numbers_that_were_never_counted(make: Make) -> None:
    """Where others may write too, what can't be a count or a moment is not there; nothing waits for it."""
    counter = make()
    if isinstance(counter.store, MemoryLimitStore):
        return  # no other program can write there
    ask = Reserve(rate=10.0, token_rate=1000.0, tokens=10.0, slots=2, budget=100)
    expected = counter.reserve("good", ask, holder="a")
    write(counter.store, "odd", ODD)
    if isinstance(counter.store, SQLiteLimitStore):
        with counter.store._database.transaction() as database:
            for name, state in {"list": "[1]", "none": "{"}.items():
                database.execute("INSERT INTO limits VALUES (?, ?)", (name, state))
    for name in ("odd", "list", "none"):
        assert counter.reserve(name, ask, holder="a") == expected


@pytest.mark.parametrize("missing", ["day", "spent"])
@pytest.mark.parametrize("value", [None, "1e400", "nan"])
def test_a_state_without_a_field_that_is_expected(make: Make, missing: str, value: str | None) -> None:
    """It is a LimitStoreError that says which field, and what to do."""
    counter = make()
    whole = {"day": f"{NOON // DAY:.0f}", "spent": "5000"}
    write(counter.store, "a", {**whole, **({missing: value} if value else {})} | {"seen": str(NOON)})
    if value is None or isinstance(counter.store, MemoryLimitStore):
        del whole[missing]
        write(counter.store, "a", whole)
    with pytest.raises(LimitStoreError, match=f"has no '{missing}': delete the state to reset the limit"):
        counter.reserve("a", Reserve(budget=100), holder="a")


async def test_many_charges_for_a_store_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are added up from some number on, and each is counted once."""
    monkeypatch.setattr(store_connection, "_MOST_QUEUED", 20)
    store = LeavingStore(tmp_path / "x.db")
    limiter = RateLimiter("a", max_cost_per_day=1000, store=store)
    await _spend(limiter, "1")
    store.away = "before"
    for _ in range(50):
        await _spend(limiter, "2")
    assert len(limiter._session._queue) <= 21  # type: ignore[attr-defined]
    store.away = ""
    await limiter.aclose()
    assert spent_in(store) == 101
    store.close()


@pytest.mark.slow
async def test_a_file_that_another_process_locks(tmp_path: Path) -> None:
    """No request waits for it for long, and threads of others are free; what was given up is not done later."""
    path = tmp_path / "limits.db"
    limiter = RateLimiter("a", rpm=60, max_concurrent=1, store=f"sqlite:///{path}", on_store_error="refuse")
    await (await limiter.acquire()).aclose()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        failed = list[str]()

        async def take() -> None:
            with pytest.raises(LimitStoreError) as caught:
                await limiter.acquire()
            failed.append(caught.value.message)

        with anyio.fail_after(8):
            async with anyio.create_task_group() as tasks:
                for _ in range(60):
                    tasks.start_soon(take)
                await anyio.sleep(0.05)
                with anyio.fail_after(0.9):
                    await anyio.to_thread.run_sync(int)
        assert len(failed) == 60
    try_again(limiter)
    await (await limiter.acquire()).aclose()
    await limiter.aclose()


@pytest.mark.parametrize("seed", range(pick(60, 12)))
async def test_nothing_that_was_spent_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """With "local", whenever the store is away or answers are lost, and whatever is in flight then."""
    monkeypatch.setattr("streamfold.stores.threaded.RETRY_SECONDS", 0.0)
    dice, store = random.Random(seed), LeavingStore(tmp_path / "x.db")
    limiters = [
        RateLimiter("a", max_cost_per_day=1000, max_concurrent=20, store=store, replicas=dice.choice([1, 2]))
        for _ in range(2)
    ]
    spent, held = Decimal(0), list[Any]()
    for _ in range(60):
        match dice.randrange(5):
            case 0:
                store.away = dice.choice(["", "", "before", "after"])
            case 1 | 2 if len(held) < 8:
                limiter = dice.choice(limiters)
                with suppress(LimitReachedError):
                    held.append(await limiter.acquire(max_wait=0, cost=Decimal(dice.randrange(1, 5))))
            case _ if held:
                reservation = held.pop(dice.randrange(len(held)))
                if dice.random() < 0.2:
                    reservation.cancel()
                else:
                    cost = Decimal(dice.randrange(600)) / 100
                    spent += cost
                    reservation.charge(None, Cost(cost))
                await reservation.aclose()
    for reservation in held:
        reservation.cancel()
        await reservation.aclose()
    store.away = ""
    for limiter in limiters:
        await limiter.aclose()
    assert spent_in(store) == spent
    other = Counter(store, Clock())
    other.clock.now = time.time()
    assert other.reserve("a", Reserve(requests=30, slots=20), holder="other").requests == 20
    store.close()
