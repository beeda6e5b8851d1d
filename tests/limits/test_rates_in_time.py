"""What limits hold over time, in virtual time: a minute takes a moment, whatever the machine does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from scale import pick
from streamfold import Usage
from streamfold.limits import MemoryLimitStore, RateLimiter
from streamfold.limits.adaptive_rate import rates_from_headers
from streamfold.types import RateLimit, RateLimitWindow
from tables import each_row


@dataclass
class Server:
    """Counts with a token bucket, as most do, and refuses what is too much.

    Attributes:
        rate: requests per second.
        burst: requests that may come at once.
        busy: the part of requests that it refuses whatever their rate.
    """

    rate: float
    burst: float
    latency: float = 0.2
    retry_after: float | None = 1.0
    busy: float = 0.0
    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    _level: float | None = None
    _at: float = 0.0
    _dice: random.Random = field(default_factory=lambda: random.Random(1))

    async def ask(self) -> bool:
        """One request. Returns whether it was accepted."""
        await trio.sleep(self.latency / 2)
        now = trio.current_time()
        level = self.burst if self._level is None else min(self.burst, self._level + (now - self._at) * self.rate)
        good = level >= 1 and self._dice.random() >= self.busy
        self._level, self._at = level - good, now
        (self.accepted if good else self.refused).append(now)
        await trio.sleep(self.latency / 2)
        return good

    def share(self, start: float, end: float) -> float:
        """How much of the limit was used in a time."""
        return len([moment for moment in self.accepted if start <= moment < end]) / (self.rate * (end - start))


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Runs in virtual time."""
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def load(
    limiters: list[RateLimiter], workers: int, seconds: float, ask: Callable[[Any], Awaitable[None]]
) -> None:
    """Keeps workers of several processes asking."""

    async def work(limiter: RateLimiter) -> None:
        while True:
            async with limiter.reserve() as reservation:
                await ask(reservation)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for limiter in limiters:
                for _ in range(workers):
                    nursery.start_soon(work, limiter)


def limiters(number: int, **limits: Any) -> list[RateLimiter]:
    store = MemoryLimitStore(clock=lambda: 1e9 + trio.current_time())
    store.prefetch_seconds = 0.05
    return [RateLimiter("a", store=store, **limits) for _ in range(number)]


async def searched(server: Server, seconds: float, processes: int = 1, workers: int = 200, **limits: float) -> None:
    async def ask(reservation: Any) -> None:
        if await server.ask():
            reservation.answered()
        else:
            reservation.refused(server.retry_after)

    await load(limiters(processes, adapt=True, **limits), workers, seconds, ask)


@pytest.mark.slow
@pytest.mark.parametrize("burst", [0.1, 10], ids=["even", "saved"])
@pytest.mark.parametrize("rate", [10, 50, pytest.param(500, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("retry_after", [1.0, None])
def test_an_unknown_rate_is_found(rate: int, burst: float, retry_after: float | None) -> None:
    """In the second minute most of it is used, and few requests are refused; the more, the faster it is."""
    server = Server(rate, burst=max(1, rate * burst), retry_after=retry_after)
    run(lambda: searched(server, 120))
    # A `Retry-After` of a second is the time of ten requests where there are ten in a second.
    least = {10: 0.65 if retry_after else 0.75, 50: 0.85, 500: 0.9}[rate]
    assert server.share(60, 120) >= least
    assert sum(moment >= 60 for moment in server.refused) < (0.2 if rate == 10 else 0.06) * 60 * rate


@pytest.mark.slow
def test_an_unknown_rate_is_found_soon() -> None:
    """After 15 s, 90 % of it is used, and less than 1 % of all requests were refused."""
    server = Server(100, burst=10)
    run(lambda: searched(server, 40))
    assert server.share(15, 40) >= 0.9
    assert len(server.refused) < 0.01 * len(server.accepted)


@pytest.mark.slow
@pytest.mark.parametrize("configured", [{}, {"rpm": 30_000}])
@pytest.mark.parametrize("retry_after", [0.0, None])
def test_refusals_that_have_other_reasons(retry_after: float | None, configured: dict[str, float]) -> None:
    """A server that refuses 3 % at any rate does not make the rate fall to nothing."""
    server = Server(1e6, burst=1e6, latency=0.02, retry_after=retry_after, busy=0.03)
    run(lambda: searched(server, 120, workers=20, **configured))
    seconds = Counter(int(moment) for moment in server.accepted)
    assert sum(seconds[at] for at in range(20)) >= 20 * 20
    assert sum(seconds[at] for at in range(60, 120)) >= 60 * 20


@pytest.mark.slow
def test_whatever_was_saved_up_before() -> None:
    """A server may accept a minute's requests at once, and then no more than its rate: it is found after that."""
    server = Server(100, burst=1000)
    run(lambda: searched(server, 60))
    assert server.share(20, 60) >= 0.9
    assert len(server.refused) < 0.15 * len(server.accepted)


@pytest.mark.slow
def test_a_rate_that_changes() -> None:
    """It is found again, up and down."""
    server = Server(200, burst=20)

    async def change() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: searched(server, 90))
            await trio.sleep(30)
            server.rate = 50.0

    run(change)
    assert server.share(45, 90) >= 0.8
    assert len([moment for moment in server.refused if moment > 35]) < 0.05 * len(server.accepted)


@pytest.mark.slow
@pytest.mark.parametrize("retry_after", [1.0, None])
def test_a_server_that_refuses_all_for_a_while(retry_after: float | None) -> None:
    """That says nothing of its limit: soon after it, as much is sent as before."""
    server = Server(100, burst=10, retry_after=retry_after)

    async def change() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: searched(server, 180, workers=50))
            await trio.sleep(20)
            server.busy = 1.0
            await trio.sleep(30)
            server.busy = 0.0

    run(change)
    assert server.share(130, 180) >= 0.7


def test_headers_lift_a_belief() -> None:
    """A rate that the server says in its answers ends what one early refusal made the limiter believe."""
    told = RateLimit((RateLimitWindow("requests", 30_000, 29_990, reset_after=0.02),))
    granted: list[float] = []

    async def ask(reservation: Any) -> None:
        granted.append(trio.current_time())
        await trio.sleep(0.05)
        if len(granted) == 4:
            reservation.refused(0.1, told)
        else:
            reservation.answered(told)

    run(lambda: load(limiters(1, adapt=True), 60, 6, ask))
    assert sum(moment > granted[0] + 2 for moment in granted) >= 0.9 * 4 * 500


@pytest.mark.slow
def test_several_processes_and_one_rate() -> None:
    """All of it is used, by all of them alike, never more, and nobody is refused; processes that are killed take
    nothing along but what they had under way."""
    server = Server(200, burst=20)
    counts = [0] * 4

    async def main() -> None:
        async def ask(at: int, reservation: Any) -> None:
            counts[at] += await server.ask()

        async def process(at: int, limiter: RateLimiter) -> None:
            for lived in (7.0, 5.0, 9.0, 11.0):
                await load([limiter], 50, lived, lambda reservation: ask(at, reservation))
                limiter._prefetched.clear()  # killed: what it had reserved is lost

        async with trio.open_nursery() as nursery:
            for at, limiter in enumerate(limiters(4, rpm=12_000)):
                nursery.start_soon(process, at, limiter)

    run(main)
    assert 0.98 <= server.share(2, 30) <= 1.005
    assert max(server.share(start / 2, start / 2 + 10) for start in range(40)) <= 1.02
    assert server.refused == []
    assert max(counts) < 1.1 * min(counts)


def test_tokens_are_used_up_and_no_more() -> None:
    """Answers with a long tail, of which nobody knows the length before: 97 to 101 % of the limit.

    What is under way at both ends of a minute is known later: a single minute has 2 % more or less.
    """
    used: list[tuple[float, int]] = []
    dice = random.Random(1)

    async def main() -> None:
        async def ask(reservation: Any) -> None:
            began = trio.current_time()
            await trio.sleep(dice.uniform(0.3, 1.5))
            tokens = min(4096, int(dice.lognormvariate(6.9, 0.8)))
            used.append((began, tokens))
            reservation.charge(Usage(total_tokens=tokens))

        await load(limiters(4, tpm=600_000), 10, pick(150, 90), ask)

    run(main)
    minutes = {
        at: sum(tokens for began, tokens in used if at <= began < at + 60) / 600_000
        for at in range(10, pick(90, 30), 5)
    }
    whole = [minutes[at] for at in (10, 15, 20, 25, *pick([70], []))]
    assert 0.97 <= min(whole)
    assert max(whole) <= 1.01
    assert 0.99 <= sum(minutes.values()) / len(minutes) <= 1.01
    assert max(minutes.values()) <= 1.03


def test_headers_lead_to_the_rate_at_once() -> None:
    """With the first answer, without a refusal."""
    server = Server(100, burst=10)
    limit = RateLimit((RateLimitWindow("requests", limit=6000, remaining=5990),))

    async def ask(reservation: Any) -> None:
        await server.ask()
        reservation.answered(limit)

    run(lambda: load(limiters(1, adapt=True), 100, 20, ask))
    assert server.share(2, 20) >= 0.98
    assert server.refused == []


@each_row(
    ("window", "rate"),
    [
        (RateLimitWindow("requests", limit=600), 10),
        (RateLimitWindow("requests", limit=600, remaining=599, reset_after=0.1), 10),
        (RateLimitWindow("requests", limit=14_400, remaining=14_370, reset_after=180), 0),  # of a day: a budget
        (RateLimitWindow("requests", limit=100, period=10.0), 10),
        (RateLimitWindow("requests", limit=100_000, period=86400.0), 0),
        (RateLimitWindow("requests", remaining=5), 0),
        (RateLimitWindow("requests", limit=-1), 0),
        (RateLimitWindow("requests", limit=0), 0),
    ],
)
def test_what_headers_say(window: RateLimitWindow, rate: float) -> None:
    """A limit without a period is for a minute, unless it fills up more slowly; long windows are no rates."""
    assert rates_from_headers(RateLimit((window,))) == (rate, 0)


def test_tokens_in_headers() -> None:
    """Where input and output have limits of their own, the one for both is just the narrowest of them."""
    both = RateLimitWindow("tokens", limit=60_000)
    assert rates_from_headers(RateLimit((both,))) == (0, 1000)
    assert rates_from_headers(RateLimit((both, RateLimitWindow("output_tokens", limit=8000)))) == (0, 0)
    assert rates_from_headers(None) == (0, 0)
