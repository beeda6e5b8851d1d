"""`RateLimiter` waits until a request may be sent. `Reservation` charges the request's usage to the limits."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from hashlib import sha256
from types import TracebackType
from typing import Literal, Self

import anyio

from ..config import Profile, RateLimitSettings, read_settings, store_place, store_url
from ..errors import APIError, BudgetExceededError, ConfigError, LimitReachedError, failed_before_answer, is_rate_limit
from ..net import Interrupted, run_within
from ..types import Cost, RateLimit, Usage
from .adaptive_rate import FIRST_RATE, rates_from_headers
from .limit_state import DAY, Charge, Grant, PauseSending, Reserve
from .sqlite import SQLiteLimitStore
from .store_connection import LocalSession, SharedLimitStore, SharedSession
from .stores import LARGEST_BUDGET, LimitStore, MemoryLimitStore, check_number, process_store
from .valkey import ValkeyLimitStore

_instead: list[str] = []  # the store that "memory" means, if it isn't this process


def count_memory_in(where: str) -> None:
    """Uses the store `where` instead of the store "memory" in this process. So the worker processes of one server share
    their limits.

    See `open_limit_store`.
    """
    _instead[:] = [where]


def open_limit_store(where: str) -> LimitStore:
    """Opens the store in which a rate limiter counts requests, tokens and costs.

    Args:
        where: the store's URL. The store "memory" counts in this process. The store `sqlite:///PATH` counts for all
            processes on this machine. The path is relative to the working directory, or absolute after a fourth slash.
            The store `valkey://HOST:PORT/DATABASE` counts on a Valkey or Redis server, and `valkeys://` uses TLS.

    Raises:
        ConfigError: `where` isn't the URL of a store.
    """
    if where == "memory" and _instead:
        where = _instead[0]
    scheme, rest = store_place(where, "the store of limits")
    if scheme == "memory":
        return process_store()
    return SQLiteLimitStore(rest[1:]) if scheme == "sqlite" else ValkeyLimitStore(where)


MILLION = 1_000_000
_AHEAD = 1.0  # seconds: requests are reserved at most this far ahead, because later pauses don't apply to them
_PREFETCHED = 10  # requests that are reserved at once
_FIRST_TOKENS = 1000.0  # tokens assumed for an answer while no usage is known
_MOST_TOKENS = 10**12  # no answer uses more
_LONGEST_REST = 60.0  # seconds; if the server requests a longer pause, the caller gets an error
_CHARGING = 3.0  # seconds that charging may take
_UNCHANGED = Charge()  # the charge of a request that changes nothing in the store


class RateLimiter:
    """Limits the rate and the cost of requests, in this process or in all processes that share a store. Several tasks
    may use one instance.

        limiter = RateLimiter("openai", rpm=500, max_cost_per_day=20, store="valkey://127.0.0.1:6379")
        async with limiter.reserve() as reservation:
            reply = await ask()
            reservation.charge(reply.usage, reply.cost)

    A `Provider` creates its own limiter from its configuration.

    Args:
        name: the name under which the store counts. All limiters with the same name and store share their limits.
        rpm: the maximum number of requests per minute. The limiter spaces requests evenly.
        tpm: the maximum number of tokens per minute, input and output together. Each request first reserves the average
            number of tokens of recent answers. When the answer is complete, the number of its tokens replaces the
            reserved number.
        max_concurrent: the maximum number of parallel requests. If a process crashes, its requests count for 15 more
            seconds.
        max_cost_per_day: the maximum amount of money per day (UTC), in the currency of the costs, at most
            1,000,000,000. Each request reserves the cost of the most expensive recent answer. Until the first cost is
            known, requests are sent one at a time. If the rest of the budget is less than the average cost of an
            answer, the limiter raises BudgetExceededError.
        store: the store in which requests, tokens and costs are counted: "memory", "sqlite:///PATH",
            "valkey://HOST:PORT", or the attribute `store` of another limiter.
        adapt: True to find the server's rate limit by trying, if `rpm` isn't set. The limiter starts with a low rate.
        burst: for how many seconds unused capacity is saved, so that later requests can use it in a burst.
        on_store_error: what happens while the store is down. With "local", this process counts only its own requests,
            with the limits divided by `replicas`. With "refuse", the limiter raises LimitStoreError.
        replicas: the number of processes that share the store.
        label: the limiter's name in error messages. The default is `name`.

    Raises:
        ConfigError: an argument is invalid.
    """

    def __init__(
        self,
        name: str,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        max_concurrent: int | None = None,
        max_cost_per_day: float | None = None,
        store: LimitStore | SharedLimitStore | str = "memory",
        adapt: bool = False,
        burst: float = 0.05,
        on_store_error: Literal["local", "refuse"] = "local",
        replicas: int = 1,
        label: str | None = None,
    ) -> None:
        bounds = {"rpm": rpm, "tpm": tpm, "max_concurrent": max_concurrent, "max_cost_per_day": max_cost_per_day}
        for key, value in bounds.items():
            check_number(key, value)
        read_settings(RateLimitSettings, {"on_store_error": on_store_error, "replicas": replicas}, "rate limits")
        self.name = name
        self.label = name if label is None else label
        self._owns_store = isinstance(store, str)
        self._rate, self._token_rate = (rpm or 0.0) / 60, (tpm or 0.0) / 60
        self._stated, self._stated_tokens = 0.0, 0.0  # the limits in the server's headers
        self._adapt = adapt
        self._burst = burst
        self._slots = max_concurrent or 0
        self._budget = millionths(Decimal(str(max_cost_per_day or 0)), ROUND_FLOOR)
        self._unusable = ""  # why costs can't be counted
        self._currency: str | None = None
        opened = open_limit_store(store) if isinstance(store, str) else store
        leased, budgeted = self._slots > 0 or self._budget > 0, self._budget > 0
        self.counts_here = isinstance(opened, MemoryLimitStore)
        self.store: MemoryLimitStore | SharedLimitStore
        self._session: LocalSession | SharedSession
        if isinstance(opened, MemoryLimitStore):
            self.store, self._session = opened, LocalSession(opened, name, leased=leased, budgeted=budgeted)
        else:
            if not isinstance(opened, SharedLimitStore):
                opened = SharedLimitStore(opened, local=on_store_error == "local", replicas=replicas)
            self.store, self._session = opened, SharedSession(opened, name, leased=leased, budgeted=budgeted)
        self._gate = anyio.Lock(fast_acquire=True)
        self._waiting = 0
        self._prefetched: deque[tuple[float, Reservation]] = deque()  # each with the moment at which it may be used
        self._accepted = 0  # requests that the server accepted since the last reservation
        self._freed: anyio.Event | None = None  # set when a slot or reserved money is released

    @asynccontextmanager
    async def reserve(self, *, max_wait: float | None = None) -> AsyncIterator[Reservation]:
        """Waits until a request may be sent, then runs the block. The block must send the request. See `acquire`.

        Inside the block, don't use a provider that has this limiter, because the provider makes its own reservations.
        """
        async with await self.acquire(max_wait=max_wait) as reservation:
            yield reservation

    async def acquire(self, *, max_wait: float | None = None, cost: Decimal | None = None) -> Reservation:
        """Waits until a request may be sent. You must close the reservation, for example with `async with`.

        Args:
            max_wait: the maximum time to wait, in seconds. By default, the wait has no limit.
            cost: the maximum cost of the request. The limiter reserves this amount. Ignored without `max_wait`.

        Raises:
            LimitReachedError: the wait would be longer than `max_wait`.
            BudgetExceededError: today's budget is spent.
            LimitStoreError: the store can't be used, and `on_store_error` is "refuse".
            ConfigError: the store refuses the password, or the costs of earlier answers were unknown or in different
                currencies.
        """
        self._check_usable()
        if max_wait is not None:
            most = cost if cost is not None and cost.is_finite() else Decimal(0)
            return await self._acquire_within(max_wait, millionths(min(max(most, Decimal(0)), Decimal(LARGEST_BUDGET))))
        if (reservation := await self.at_once()) is not None:
            return reservation
        self._waiting += 1
        try:
            async with self._gate:  # only one task waits for its time, so that a new rate applies to all others
                return await self._next()
        finally:
            self._waiting -= 1
            while not self._waiting and self._prefetched:
                _, unused = self._prefetched.pop()
                unused.cancel()
                await unused.aclose()

    async def at_once(self) -> Reservation | None:
        """Returns a reservation if a request may be sent now. Returns None if the limiter would have to wait or to call
        a store outside of this process.

        Raises:
            ConfigError: the costs of earlier answers were unknown or in different currencies.
        """
        self._check_usable()
        if self.counts_here and not self._waiting:
            grant, _ = await self._reserve(1, 0.0)
            if grant.requests:
                return Reservation(self, grant)
        return None

    async def aclose(self) -> None:
        """Sends the charges in the queue to the store. Closes the store, unless the caller passed it."""
        await self._session.aclose()
        if self._owns_store:
            await self.store.aclose()

    @property
    def limits_cost(self) -> bool:
        """True if the limiter has a budget."""
        return self._budget > 0

    def __repr__(self) -> str:
        return f"<RateLimiter {self.label} {self.store!r}>"

    def _check_usable(self) -> None:
        if self._unusable and self._budget:
            raise ConfigError(f"{self.label}: max_cost_per_day: {self._unusable}")

    async def _next(self) -> Reservation:
        while not self._prefetched:
            grant, local = await self._reserve(min(self._waiting, _PREFETCHED), _AHEAD)
            if not grant.requests:
                await self._pause(grant, max(min(grant.wait - _AHEAD / 2, _AHEAD), 0.001))
                continue
            if grant.requests == 1 and not grant.wait:
                return Reservation(self, grant, local)
            first = anyio.current_time() + grant.wait
            for at in range(grant.requests):
                self._prefetched.append((first + at * grant.step, Reservation(self, grant, local)))
        if (seconds := self._prefetched[0][0] - anyio.current_time()) > 0:
            await anyio.sleep(seconds)
        return self._prefetched.popleft()[1]

    async def _acquire_within(self, max_wait: float, cost: int) -> Reservation:
        ends = anyio.current_time() + max_wait
        while True:
            left = ends - anyio.current_time()
            grant, local = await self._reserve(1, max(0.0, min(_AHEAD, left)), cost)
            if grant.requests:
                reservation = Reservation(self, grant, local)
                try:
                    if grant.wait:
                        await anyio.sleep(grant.wait)
                except BaseException:
                    reservation.cancel()
                    await reservation.aclose()
                    raise
                return reservation
            if grant.reason != "budget" and grant.wait > left:
                raise self._reached(grant)
            await self._pause(grant, grant.wait)

    async def _pause(self, grant: Grant, seconds: float) -> None:
        if grant.reason == "budget":
            raise self._spent_error(grant)
        if grant.reason == "rest" and grant.wait > _LONGEST_REST:
            raise self._reached(grant)
        if grant.reason in ("slots", "reserved"):
            self._freed = self._freed or anyio.Event()
            with suppress(Interrupted):
                await run_within(self._freed.wait, seconds)
        else:
            await anyio.sleep(seconds)

    async def _reserve(self, requests: int, max_wait: float, money: int = 0) -> tuple[Grant, LimitStore | None]:
        rate, token_rate = self._rate or self._stated, self._token_rate or self._stated_tokens
        accepted, self._accepted = self._accepted, 0
        ask = Reserve(
            requests=requests,
            max_wait=max_wait,
            prefetch=self._session.prefetch_seconds,
            burst=self._burst,
            rate=rate,
            token_rate=token_rate,
            start=FIRST_RATE if self._adapt and not rate else 0.0,
            accepted=accepted,
            tokens=_FIRST_TOKENS if token_rate else 0.0,
            slots=self._slots,
            budget=self._budget,
            money=money,
        )
        return await self._session.reserve(ask)

    def note_accepted(self, limit: RateLimit | None, *, first: bool) -> None:
        """Records that the server accepted a request.

        Args:
            limit: the rate limits in the response headers, or None.
            first: True if this is the first response for the reservation.
        """
        self._accepted += first
        self._note_stated(limit)

    def note_costs(self, currency: str | None) -> None:
        """Records the currency of an answer's cost. If the cost is unknown (None), the limiter refuses further
        requests, because it can't check the budget.
        """
        if currency is None:
            self._unusable = "the cost of an answer is unknown: set the prices of the model in the configuration"
        elif self._currency not in (None, currency):
            self._unusable = f"costs in {self._currency} and in {currency} can't be added"
        self._currency = self._currency or currency

    async def charge(self, charge: Charge, local: LimitStore | None) -> None:
        """Sends a reservation's charge to the store."""
        try:
            await self._session.send(charge, local)
        finally:
            if self._freed is not None:
                self._freed.set()
                self._freed = None

    async def note_refused(
        self, grant: Grant, local: LimitStore | None, retry_after: float | None, limit: RateLimit | None
    ) -> None:
        """Records that the server refused a request (429). Pauses all requests for `retry_after` seconds, and
        lowers the rate.
        """
        self._note_stated(limit)
        if retry_after or grant.rate:
            pause = PauseSending(retry_after or 0.0, grant.rate, self._rate or self._stated)
            await self._session.send(pause, local)

    def _note_stated(self, limit: RateLimit | None) -> None:
        rate, token_rate = rates_from_headers(limit)
        self._stated, self._stated_tokens = rate or self._stated, token_rate or self._stated_tokens

    def _reached(self, grant: Grant) -> LimitReachedError:
        if grant.reason == "slots":
            what = f"the limit of {self._slots} parallel requests is reached"
        elif grant.reason == "reserved":
            what = "requests in flight have reserved the rest of today's budget"
        elif grant.reason == "rest":
            what = f"the server requested a pause, which ends in {grant.wait:.0f} s"
        else:
            rates = {"requests": self._rate or self._stated, "tokens": self._token_rate or self._stated_tokens}
            limits = " and ".join(f"{rate * 60:g} {of} per minute" for of, rate in rates.items() if rate)
            what = f"the limit of {limits or 'requests'} is reached"
        return LimitReachedError(f"{what}; nothing was sent", retry_after=grant.wait, provider=self.label)

    def _spent_error(self, grant: Grant) -> BudgetExceededError:
        day = datetime.fromtimestamp((grant.day + 1) * DAY, UTC)
        spent, budget, cost = (Decimal(number) / MILLION for number in (grant.spent, self._budget, grant.mean))
        about = f", and an answer costs about {cost.normalize():f}" if grant.spent < self._budget else ""
        unit = f" {self._currency}" if self._currency else ""
        return BudgetExceededError(
            f"the budget of {budget.normalize():f}{unit} per day is spent ({spent.normalize():f} of it{about}); nothing"
            f" was sent. It begins again at {day:%Y-%m-%d %H:%M} UTC (max_cost_per_day)",
            retry_after=grant.wait,
            provider=self.label,
        )


class Reservation:
    """A reservation for one request at a `RateLimiter`. If the program doesn't call `charge`, the limiter charges the
    average usage of an answer.

    `RateLimiter.reserve` and `RateLimiter.acquire` create reservations.
    """

    def __init__(self, limiter: RateLimiter, grant: Grant, local: LimitStore | None = None) -> None:
        self._limiter = limiter
        self._grant = grant
        self._local = local
        self._tokens: float | None = None
        self._cost: int | None = None
        self._unused = self._nothing = self._answered = self._refused = self._closed = self._claimed = False
        self._retry_after: float | None = None
        self._rate_limit: RateLimit | None = None

    def charge(self, usage: Usage | None = None, cost: Cost | None = None, *, partial: bool = False) -> None:
        """Records the usage and the cost of the answer. If `usage` or `cost` is None or an impossible value, the
        limiter charges the average of other answers instead.

        Args:
            partial: True if the answer was cut off. The cost of such an answer may be unknown even if the prices are
                known.
        """
        self._tokens = _total_tokens(usage)
        self._cost = None if cost is None else read_cost(cost.amount)
        if cost is not None or (usage is not None and not partial):
            self._limiter.note_costs(cost.currency if cost is not None else None)

    def cancel(self) -> None:
        """Releases the entire reservation. Call this if no request was sent."""
        self._unused = True

    def failed(self) -> None:
        """Releases the reserved tokens and money. Call this if the server sent no answer."""
        self._tokens, self._cost, self._nothing = 0.0, 0, True

    def answered(self, rate_limit: RateLimit | None = None) -> None:
        """Records that the server accepted the request.

        Args:
            rate_limit: the rate limits in the response headers, or None.
        """
        self._limiter.note_accepted(rate_limit, first=not self._answered)
        self._answered = True

    def refused(self, retry_after: float | None = None, rate_limit: RateLimit | None = None) -> None:
        """Records that the server refused the request (429). When the reservation is closed, the limiter pauses all
        requests that share the limit.

        Args:
            retry_after: the number of seconds to wait, from the server's `Retry-After` header.
        """
        self.failed()
        self._refused, self._retry_after, self._rate_limit = True, retry_after, rate_limit

    def note_error(self, error: APIError) -> None:
        """Records that an error ended the request without an answer. Does nothing for an error after the answer had
        begun.
        """
        if is_rate_limit(error):
            self.refused(error.retry_after, error.rate_limit)
        elif failed_before_answer(error):
            self.failed()

    def claim(self, limiter: RateLimiter) -> bool:
        """Marks the reservation as used for a request of a provider. Returns False if it is already used or belongs to
        another limiter.

        The provider that finds the reservation in `ChatParams.reservation` charges and closes it.
        """
        if self._limiter is not limiter or self._claimed or self._closed:
            return False
        self._claimed = True
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Charges the request's usage to the limits, and releases its slot of `max_concurrent`. A second call has no
        effect.
        """
        if self._closed:
            return
        self._closed = True
        if self._limiter.counts_here:  # never waits, so it can't be cancelled
            await self._end()
        else:
            # Shielded, because the task may be about to be cancelled.
            with anyio.CancelScope(shield=True), suppress(Interrupted):
                await run_within(self._end, _CHARGING)

    async def _end(self) -> None:
        if (charge := self._charge()) != _UNCHANGED:
            await self._limiter.charge(charge, self._local)
        if self._refused:
            await self._limiter.note_refused(self._grant, self._local, self._retry_after, self._rate_limit)

    def _charge(self) -> Charge:
        grant, used, cost = self._grant, self._tokens, self._cost
        if self._unused:
            return grant.given_back()
        limits_cost = self._limiter.limits_cost
        money = grant.mean if cost is None else cost
        return Charge(
            token_seconds=(used - grant.tokens) / grant.token_rate if grant.token_rate and used is not None else 0.0,
            tokens=used if used and grant.token_rate else None,
            cost=cost if limits_cost and not self._nothing else None,
            money=money - grant.cost if limits_cost else 0,
            reserved=grant.cost,
            day=grant.day if limits_cost else 0,
            slots=1 if grant.slots else 0,
        )


def millionths(amount: Decimal, rounding: str = ROUND_CEILING) -> int:
    """Converts an amount of money to an integer in millionths of the currency unit."""
    return int((amount * MILLION).to_integral_value(rounding))


def read_cost(amount: Decimal | None) -> int | None:
    """Converts an amount of money to millionths of the currency unit, rounded up.

    Returns None for None, and for an amount that is negative, not finite or too large.
    """
    if amount is None or not amount.is_finite() or not 0 <= amount <= LARGEST_BUDGET:
        return None
    return millionths(amount)


def _total_tokens(usage: Usage | None) -> float | None:
    if usage is None:
        return None
    total: object = usage.total_tokens
    if total is None and usage.input_tokens is not None:
        total = usage.input_tokens + (usage.output_tokens or 0)
    known = isinstance(total, int | float) and not isinstance(total, bool) and 0 <= total < _MOST_TOKENS
    return float(total) if known else None  # type: ignore[arg-type]


def account_digest(profile: Profile) -> str:
    """Returns a digest of the provider's base URL and API key, under which the limits are counted. Raises ConfigError
    if an environment variable isn't set.
    """
    endpoint = profile.resolve()
    return sha256(f"{endpoint.base_url}\0{endpoint.key or ''}".encode()).hexdigest()[:32]


def provider_limiter(
    profile: Profile,
    *,
    rpm: float | None = None,
    tpm: float | None = None,
    store: LimitStore | SharedLimitStore | None = None,
) -> RateLimiter:
    """Creates a provider's rate limiter. Providers with the same base URL and API key share their limits.

    Args:
        rpm, tpm: the limits to use instead of those in the settings.
        store: the store to use instead of the store in the settings.

    Raises:
        ConfigError: an environment variable isn't set, or the store can't be used.
    """
    shared = profile.rate_limits or RateLimitSettings()
    return RateLimiter(
        f"account:{account_digest(profile)}",
        rpm=rpm or profile.rpm,
        tpm=tpm or profile.tpm,
        max_concurrent=profile.max_concurrent,
        max_cost_per_day=profile.max_cost_per_day,
        store=store_url(shared.store, "rate_limits.store") if store is None else store,
        adapt=True,
        on_store_error=shared.on_store_error,
        replicas=shared.replicas,
        label=profile.name,
    )
