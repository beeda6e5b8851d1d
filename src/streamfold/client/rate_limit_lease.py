"""The permit of one request: its reservation at a limiter, from one attempt to the next."""

from __future__ import annotations

from ..limits import LimitReachedError, RateLimiter, Reservation
from ..values import APIError, QuotaExceededError, RateLimit, Reply, failed_before_answer


class RateLimitLease:
    """Waits for the reservation of each attempt, and closes it.

    Args:
        limiter: what the request waits for.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._reservation: Reservation | None = None
        self._answered = False

    async def begin(self) -> None:
        """Waits until the next attempt may be sent. Raises APIError, ConfigError."""
        self._answered = False
        self._reservation = self._limiter.claimed() or await self._limiter.acquire()

    def answered(self, rate_limit: RateLimit | None) -> None:
        """Notes that the server has accepted the attempt."""
        self._answered = True
        if self._reservation is not None:
            self._reservation.answered(rate_limit)

    def charge(self, reply: Reply, *, partial: bool = False) -> None:
        """Notes what the answer has used."""
        if self._reservation is not None:
            cost = reply.cost if self._limiter.limits_cost else None
            self._reservation.charge(reply.usage, cost, partial=partial)

    @property
    def is_answered(self) -> bool:
        """Whether the server has accepted the attempt, which is not settled yet."""
        return self._answered and self._reservation is not None

    async def failed(self, error: APIError) -> None:
        """Ends the reservation of an attempt that has failed. Of an answer that had begun, it stays."""
        reservation = self._reservation
        if reservation is None:
            return
        if self.refuses(error):
            retry_after, rate_limit = getattr(error, "retry_after", None), getattr(error, "rate_limit", None)
            reservation.refused(retry_after, rate_limit)
        elif not self._answered and failed_before_answer(error):
            reservation.failed()
        await self.aclose()

    def refuses(self, error: APIError) -> bool:
        """Whether an error is the server's word for too many requests."""
        status = getattr(error, "status_code", None)
        return status == 429 and not isinstance(error, QuotaExceededError | LimitReachedError)

    async def aclose(self) -> None:
        """Ends the reservation that is left. From any task, repeatedly."""
        if self._reservation is not None:
            await self._reservation.aclose()
