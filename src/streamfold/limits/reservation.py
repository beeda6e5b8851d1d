"""A reservation: the right to send one request, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

import anyio

from ..values import Cost, RateLimit, Usage
from .algorithm import Grant, Settlement
from .search import told_rate

BILLION = 1_000_000_000
_SENDING = 3.0  # seconds that settling may take
_NOTHING = Settlement()  # of a request that reserved nothing which has to be settled

_current: ContextVar[Reservation | None] = ContextVar("streamfold_reservation", default=None)


def current_reservation() -> Reservation | None:
    """Returns the reservation of the innermost `async with` block."""
    return _current.get()


class Settled(Protocol):
    """What a limiter learns of the requests that it let through."""

    counts_here: bool

    @property
    def limits_cost(self) -> bool: ...

    def counts(self, currency: str | None) -> None: ...

    def clean(self, epoch: int) -> None: ...

    def told(self, rate: float, token_rate: float) -> None: ...

    async def refused(self, grant: Grant, retry_after: float | None) -> None: ...

    async def settle(self, settlement: Settlement) -> None: ...


class Reservation:
    """The right to send one request. Unless a method says otherwise, it has used what answers use in the mean.

    Make one with `RateLimiter.reserve`.
    """

    def __init__(self, limiter: Settled, grant: Grant) -> None:
        self._limiter = limiter
        self._grant = grant
        self._tokens: float | None = None
        self._cost: int | None = None
        self._unused = self._nothing = self._answered = self._refused = self._closed = self._claimed = False
        self._retry_after: float | None = None

    def settle(self, usage: Usage | None = None, cost: Cost | None = None, *, partial: bool = False) -> None:
        """Notes what the answer used and cost. What is None is taken for the mean of other answers.

        Args:
            partial: the answer was cut, so that its cost may not be known though the costs of others are.
        """
        self._tokens = _total(usage)
        if cost is not None:
            self._cost = round(cost.amount * BILLION)
        if cost is not None or (usage is not None and not partial):
            self._limiter.counts(cost.currency if cost is not None else None)

    def cancel(self) -> None:
        """Notes that no request was sent: all of it is given back."""
        self._unused = True

    def failed(self) -> None:
        """Notes that the server has answered nothing: tokens and money are given back."""
        self._tokens, self._cost, self._nothing = 0.0, 0, True

    def answered(self, rate_limit: RateLimit | None = None) -> None:
        """Notes that the server has accepted the request, and what it says of its limits."""
        if not self._answered:
            self._limiter.clean(self._grant.belief.epoch)
        self._answered = True
        self._limiter.told(*told_rate(rate_limit))

    def refused(self, retry_after: float | None = None, rate_limit: RateLimit | None = None) -> None:
        """Notes that the server has had too many requests. Nobody who shares the limit sends for a while.

        Args:
            retry_after: seconds that the server asks for.
        """
        self.failed()
        self._refused, self._retry_after = True, retry_after
        self._limiter.told(*told_rate(rate_limit))

    def claim(self, limiter: Settled) -> bool:
        """Returns whether it is a reservation of a limiter that nobody has used yet; it counts as used then."""
        if self._limiter is not limiter or self._claimed or self._closed:
            return False
        self._claimed = True
        return True

    async def __aenter__(self) -> Self:
        self._before = _current.get()
        _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.set(self._before)
        await self.aclose()

    async def aclose(self) -> None:
        """Settles the reservation. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._limiter.counts_here:  # without a wait, so that nothing can be cancelled
            await self._end()
        else:
            with anyio.move_on_after(_SENDING, shield=True):  # perhaps because the task is being cancelled
                await self._end()

    async def _end(self) -> None:
        if (settlement := self._settlement()) != _NOTHING:
            await self._limiter.settle(settlement)
        if self._refused:
            await self._limiter.refused(self._grant, self._retry_after)

    def _settlement(self) -> Settlement:
        grant, used, cost = self._grant, self._tokens, self._cost
        if self._unused:
            return grant.given_back()
        money = grant.mean if cost is None else cost
        return Settlement(
            token_seconds=(used - grant.tokens) / grant.token_rate if grant.token_rate and used is not None else 0.0,
            tokens=used if used and grant.token_rate else None,
            cost=cost if self._limiter.limits_cost and not self._nothing else None,
            money=money - grant.cost if self._limiter.limits_cost else 0,
            held=grant.cost,
            day=grant.day if self._limiter.limits_cost else 0,
            slots=1 if grant.slots else 0,
            holder=grant.holder,
            local=grant.local,
        )


class Reserving:
    """The block of a reservation that is still to be made. A class, for a generator would cost as much as the rest."""

    def __init__(self, acquire: Callable[[], Awaitable[Reservation]]) -> None:
        self._acquire = acquire

    async def __aenter__(self) -> Reservation:
        self._reservation = await self._acquire()
        return await self._reservation.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._reservation.__aexit__(kind, error, traceback)


def _total(usage: Usage | None) -> float | None:
    if usage is None or usage.total_tokens is not None:
        return None if usage is None else usage.total_tokens
    return None if usage.input_tokens is None else usage.input_tokens + (usage.output_tokens or 0)
