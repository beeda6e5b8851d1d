"""A limiter: waits until a request may be sent, and settles what it used."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil
from typing import Literal
from uuid import uuid4

import anyio

from ..values import ConfigError
from .algorithm import DAY, Ask, Grant, Settlement
from .belief import Belief
from .errors import BudgetExceededError, LimitReachedError
from .heartbeat import Heartbeat
from .opening import guarded_store
from .reservation import BILLION, Reservation, Reserving, current_reservation
from .search import FIRST_RATE, better_belief, first_doubt
from .store import LimitStore, MemoryLimitStore, check_number

_HORIZON = 1.0  # seconds that a reserved moment may be away: a pause or a new rate counts for all later ones
_LEASE = 10  # requests that are reserved at once
_FIRST_TOKENS = 1000.0  # of an answer, before one is known
_LONGEST_REST = 60.0  # seconds that the server may want a pause for; if it wants more, the caller should know


@dataclass(frozen=True, slots=True)
class _Lease:
    """A moment that was reserved, and belongs to nobody yet."""

    moment: float
    grant: Grant


class RateLimiter:
    """Keeps requests within limits, in this process or in all that share a store. Safe to share between tasks.

        limiter = RateLimiter("openai", rpm=500, max_cost_per_day=20, store="valkey://127.0.0.1:6379")
        async with limiter.reserve() as reservation:
            reply = await ask()
            reservation.settle(reply.usage, reply.cost)

    `Provider` makes one by itself from the keys of its configuration.

    Args:
        name: what is limited. All limiters with the same name and store share the limits.
        rpm: requests per minute, evenly spread.
        tpm: tokens per minute, of input and output together. A request reserves the mean of the answers so far; what it
            really used is settled at its end.
        max_concurrent: requests at once. Those of a process that was killed count for some seconds more.
        max_cost_per_day: money per day (UTC), in the currency of the costs. A request reserves what answers have cost
            at most, or all that is left as long as nothing is known; so the first one is asked alone, and so is the
            last. When less is left than an answer costs in the mean, nothing is sent.
        store: where it is counted: "memory", "sqlite:///PATH", "valkey://HOST:PORT", or the `store` of another limiter.
        adapt: search for the rate if `rpm` is not given, beginning slowly.
        burst: seconds of unused allowance that may be caught up with.
        on_store_error: what happens while the store can't be used: "local" counts in this process, with the limits
            divided by `replicas`; "refuse" sends nothing.
        replicas: how many processes share the store.
        label: what errors call it. Default: the name.

    Attributes:
        store: where it is counted.
        counts_here: whether that is this process alone, so that nothing has to be waited for but the limit.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        max_concurrent: int | None = None,
        max_cost_per_day: float | None = None,
        store: LimitStore | str = "memory",
        adapt: bool = False,
        burst: float = 0.05,
        on_store_error: Literal["local", "refuse"] = "local",
        replicas: int = 1,
        label: str | None = None,
    ) -> None:
        for key, value in {
            "rpm": rpm,
            "tpm": tpm,
            "max_concurrent": max_concurrent,
            "max_cost_per_day": max_cost_per_day,
        }.items():
            check_number(key, value)
        self.name = name
        self.label = name if label is None else label
        self.store = guarded_store(store, on_store_error, replicas)
        self._owns_store = isinstance(store, str)
        self._rate, self._token_rate = (rpm or 0.0) / 60, (tpm or 0.0) / 60
        self._told, self._told_tokens = 0.0, 0.0
        self._lifted = 0.0  # the rate that the server said when the belief in a slower one was given up
        self._adapt = adapt
        self._burst = burst
        self._slots = max_concurrent or 0
        self._budget = ceil(Decimal(str(max_cost_per_day or 0)) * BILLION)
        self._spent = (0, 0)  # the day, and what is known to have been spent on it
        self._unusable = ""  # why costs can't be counted
        self._currency: str | None = None
        self.counts_here = type(self.store) is MemoryLimitStore
        self._gate = anyio.Lock(fast_acquire=True)
        self._waiting = 0
        self._leases: deque[_Lease] = deque()
        self._epoch = self._clean = self._refused = self._since = 0  # answers at the rate that is believed
        self._freed: anyio.Event | None = None  # of those who wait for a slot or for money that is reserved
        self._holder = uuid4().hex[:12]
        self._heartbeat = Heartbeat(self._beat, self.store.lifetime / 3)

    def reserve(self, *, max_wait: float | None = None) -> AbstractAsyncContextManager[Reservation]:
        """Waits until a request may be sent; the block sends it. See `acquire`.

        If the block asks a provider that has this limiter, its first request uses this reservation.
        """
        return Reserving(lambda: self.acquire(max_wait=max_wait))

    async def acquire(self, *, max_wait: float | None = None, cost: Decimal | None = None) -> Reservation:
        """Waits until a request may be sent. The reservation must be closed; `async with` does.

        Args:
            max_wait: seconds that it may take. Default: as long as it takes.
            cost: what the request may cost at most, to reserve that; only with `max_wait`.

        Raises:
            LimitReachedError: it would take longer than `max_wait`.
            BudgetExceededError: the money for today is spent.
            LimitStoreError: the store can't be used, and `on_store_error` is "refuse".
            ConfigError: the store refuses its password, or costs can't be counted.
        """
        if self._unusable and self._budget:
            raise ConfigError(f"{self.label}: max_cost_per_day: {self._unusable}")
        if max_wait is not None:
            return self._reservation(await self._within(max_wait, cost or Decimal(0)))
        if (reservation := await self.at_once()) is not None:
            return reservation
        self._waiting += 1
        try:
            async with self._gate:  # one waits, the others behind it: a new rate counts for them
                return self._reservation(await self._next())
        finally:
            self._waiting -= 1
            if not self._waiting and self._leases:
                await self._give_back()

    async def at_once(self) -> Reservation | None:
        """Returns the right to send a request now, if it is counted in this process that nobody has to wait; else None.

        Raises:
            ConfigError: costs can't be counted.
        """
        if self._unusable and self._budget:
            raise ConfigError(f"{self.label}: max_cost_per_day: {self._unusable}")
        if self.counts_here and not self._waiting and (grant := await self._take(1, 0.0)).requests:
            return self._reservation(grant)
        return None

    def claimed(self) -> Reservation | None:
        """Returns the reservation of the block of `reserve` that this is called in, once; else None."""
        current = current_reservation()
        return current if current is not None and current.claim(self) else None

    async def aclose(self) -> None:
        """Closes the store, unless it was passed in."""
        self._heartbeat.stop()
        if self._owns_store:
            await self.store.aclose()

    def __repr__(self) -> str:
        return f"<RateLimiter {self.label} {self.store!r}>"

    async def _next(self) -> Grant:
        while not self._leases:
            grant = await self._take(min(self._waiting, _LEASE), _HORIZON)
            if not grant.requests:
                await self._pause(grant, max(min(grant.wait - _HORIZON / 2, _HORIZON), 0.001))
                continue
            if grant.requests == 1 and not grant.wait:
                return grant
            first = anyio.current_time() + grant.wait
            self._leases.extend(_Lease(first + at * grant.step, grant) for at in range(grant.requests))
        lease = self._leases[0]
        if (seconds := lease.moment - anyio.current_time()) > 0:
            await anyio.sleep(seconds)
        return self._leases.popleft().grant

    async def _within(self, max_wait: float, cost: Decimal) -> Grant:
        ends = anyio.current_time() + max_wait
        while True:
            left = ends - anyio.current_time()
            grant = await self._take(1, max(0.0, min(_HORIZON, left)), ceil(cost * BILLION))
            if grant.requests:
                self._leases.append(_Lease(0.0, grant))
                try:
                    await anyio.sleep(grant.wait)
                except BaseException:
                    await self._give_back()
                    raise
                return self._leases.popleft().grant
            if grant.reason != "budget" and grant.wait > left:
                raise self._reached(grant)
            await self._pause(grant, grant.wait)

    async def _pause(self, grant: Grant, seconds: float) -> None:
        if grant.reason == "budget":
            raise self._spent_error(grant)
        if grant.reason == "rest" and grant.wait > _LONGEST_REST:
            raise self._reached(grant)
        if grant.reason in ("slots", "held"):
            self._freed = self._freed or anyio.Event()
            with anyio.move_on_after(seconds):
                await self._freed.wait()
        else:
            await anyio.sleep(seconds)

    async def _take(self, requests: int, horizon: float, money: int = 0) -> Grant:
        rate, token_rate = self._rate or self._told, self._token_rate or self._told_tokens
        clean, refused, since = self._clean, self._refused, self._since
        self._clean = self._refused = self._since = 0
        ask = Ask(
            requests=requests,
            horizon=horizon,
            lease=self.store.lease,
            burst=self._burst,
            rate=rate,
            token_rate=token_rate,
            start=FIRST_RATE if self._adapt and not rate else 0.0,
            tokens=_FIRST_TOKENS if token_rate else 0.0,
            slots=self._slots,
            budget=self._budget,
            money=money,
            day=self._spent[0],
            spent=self._spent[1],
            holder=self._holder,
            lifetime=self.store.lifetime,
            epoch=self._epoch,
            clean=clean,
            refused=refused,
            since=since,
        )
        grant = await self.store.take(self.name, ask)
        self._epoch, self._spent = grant.belief.epoch, (grant.day, grant.spent)
        if grant.holder:
            self._heartbeat.hold(grant.requests)
        better = better_belief(grant.belief, rate)
        if self._told > grant.belief.rate > 0 and not self._rate and self._lifted != self._told:
            # The server knows better. Once: if it refuses again, others use the same limit.
            better, self._lifted = Belief(grant.belief.epoch), self._told
        if better is not None:
            await self.store.believe(self.name, 0.0, better)
        return grant

    async def _give_back(self) -> None:
        """Gives back moments that were reserved for tasks that have been cancelled since."""
        leases, self._leases = self._leases, deque()
        for lease in leases:
            reservation = self._reservation(lease.grant)
            reservation.cancel()
            await reservation.aclose()

    def _reservation(self, grant: Grant) -> Reservation:
        return Reservation(self, grant)

    def clean(self, epoch: int) -> None:
        """Counts an answer that was no refusal, for the search of the rate."""
        if epoch == self._epoch:
            self._clean += 1
            self._since += self._refused > 0

    def told(self, rate: float, token_rate: float) -> None:
        """Notes the rates that the server allows by its own words."""
        self._told, self._told_tokens = rate or self._told, token_rate or self._told_tokens

    async def refused(self, grant: Grant, retry_after: float | None) -> None:
        """Notes that the server refused a request: nobody sends for as long as the server says.

        Without its word only the one that was refused rests. Whether all become slower is for `search` to say.
        """
        belief = grant.belief
        self._refused += belief.epoch == self._epoch
        doubt = first_doubt(belief, grant.rate)
        if retry_after or doubt is not None:
            await self.store.believe(self.name, retry_after or 0.0, doubt)

    async def settle(self, settlement: Settlement) -> None:
        """Hands the settlement of a reservation to the store."""
        if settlement.money and settlement.day == self._spent[0]:
            self._spent = (settlement.day, max(0, self._spent[1] + settlement.money))
        if settlement.holder:
            self._heartbeat.release(settlement.requests)
        try:
            await self.store.settle(self.name, settlement)
        finally:
            if self._freed is not None:
                self._freed.set()
                self._freed = None

    def _beat(self, held: int) -> None:
        self.store.alive(self.name, self._holder, held if self._slots else 0)

    def counts(self, currency: str | None) -> None:
        """Notes the currency of a cost, or that it is not known what an answer cost."""
        if currency is None:
            self._unusable = "what an answer costs is not known: give its prices in the configuration"
        elif self._currency not in (None, currency):
            self._unusable = f"costs are in {self._currency} and in {currency}, which can't be added"
        self._currency = self._currency or currency

    @property
    def limits_cost(self) -> bool:
        """Whether money is limited."""
        return self._budget > 0

    def _reached(self, grant: Grant) -> LimitReachedError:
        text = f"{self._what(grant)}; nothing was sent"
        return LimitReachedError(text, retry_after=grant.wait, provider=self.label)

    def _what(self, grant: Grant) -> str:
        if grant.reason == "slots":
            return f"the limit of {self._slots} requests at once is reached"
        if grant.reason == "held":
            return "what is left of the budget of today is reserved for requests under way"
        if grant.reason == "rest":
            return f"the server has asked for a pause, of which {grant.wait:.0f} s are left"
        rates = {"requests": self._rate or grant.belief.rate, "tokens": self._token_rate or self._told_tokens}
        text = " and ".join(f"{rate * 60:g} {of} per minute" for of, rate in rates.items() if rate)
        return f"the limit of {text} is reached"

    def _spent_error(self, grant: Grant) -> BudgetExceededError:
        day = datetime.fromtimestamp((grant.day + 1) * DAY, UTC)
        spent, budget, cost = (Decimal(number) / BILLION for number in (grant.spent, self._budget, grant.mean))
        about = f", and an answer costs about {cost.normalize():f}" if grant.spent < self._budget else ""
        unit = f" {self._currency}" if self._currency else ""
        return BudgetExceededError(
            f"the budget of {budget.normalize():f}{unit} per day is spent ({spent.normalize():f} of it{about}); nothing"
            f" was sent. It begins again at {day:%Y-%m-%d %H:%M} UTC (max_cost_per_day)",
            retry_after=grant.wait,
            provider=self.label,
        )
