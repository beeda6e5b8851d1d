"""Sends a request until an attempt succeeds, with backoff, `Retry-After` and rate limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import random
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..errors import APIError, APITimeoutError, is_rate_limit
from ..net import Exchange, HTTPRequest, LoopBoundClient, Redactor, StreamTimeouts, event_loop, redact_error
from ..types import Attempt, RateLimit, Reply
from .hooks import Notifier

if TYPE_CHECKING:
    from ..limits import RateLimiter, Reservation

T = TypeVar("T")

_MAX_RETRY_AFTER = 60.0  # seconds; if the server's `Retry-After` is longer, the error is raised at once
_MAX_RATE_LIMIT_WAIT = 60.0  # seconds for which 429s are retried; limits per minute have recovered then


@dataclass(frozen=True, slots=True)
class Backoff:
    """Computes the delay before a retry. The delay grows exponentially. A random part is subtracted, so that clients
    don't all retry at the same time.

    Attributes:
        first: the delay after the first failure, in seconds.
        longest: the maximum delay, in seconds.
        factor: the factor by which the delay grows with each failure.
        jitter: the largest fraction of the delay that may be subtracted, from 0 to 1.
    """

    first: float = 0.5
    longest: float = 8.0
    factor: float = 2.0
    jitter: float = 0.25

    def delay(self, failures: int) -> float:
        """Returns the delay in seconds.

        Args:
            failures: the number of earlier failures of the request, 0 after the first failure.
        """
        grown = self.first * self.factor ** min(failures, 100)  # larger powers would overflow
        return min(grown, self.longest) * (1 - self.jitter * random())  # noqa: S311 - spread, not secrecy


_BACKOFF = Backoff()


def retry_delay(error: APIError, attempt: int) -> float | None:
    """Returns the number of seconds to wait before a retry of a failed request, or None if a retry can't help.

    The delay is the value of the server's `Retry-After` header. Without this header, a `Backoff` computes the delay.
    """
    if not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _MAX_RETRY_AFTER else None
    return _BACKOFF.delay(attempt)


class RateLimitLease:
    """Reserves capacity at the rate limiter for each attempt of a request. Without a limiter, every attempt may start
    at once.

    Args:
        first: the caller's reservation for the first attempt. The reservation is ignored if another request has used
            it, or if it belongs to another limiter.
    """

    def __init__(self, limiter: RateLimiter | None, first: Reservation | None = None) -> None:
        self.limiter = limiter
        self._first = first
        self._reservation: Reservation | None = None
        self._answered = False

    async def begin(self) -> None:
        """Waits until the rate limiter allows the next attempt. Raises APIError and ConfigError."""
        self._answered = False
        if self.limiter is not None:
            first = self._first
            usable = first is not None and first.claim(self.limiter)
            self._reservation = first if usable else await self.limiter.acquire()

    def answered(self, rate_limit: RateLimit | None) -> None:
        self._answered = True
        if self._reservation is not None:
            self._reservation.answered(rate_limit)

    def charge(self, reply: Reply, *, partial: bool = False) -> None:
        if self._reservation is not None and self.limiter is not None:
            cost = reply.cost if self.limiter.limits_cost else None
            self._reservation.charge(reply.usage, cost, partial=partial)

    def charge_estimate(self, used: Callable[[], Reply]) -> None:
        """Charges estimated token counts to the limits. Does nothing if no answer had begun.

        An estimate is needed if the program stopped reading before the server sent the token counts.
        """
        if self._answered and self._reservation is not None:
            self.charge(used(), partial=True)

    async def failed(self, error: APIError) -> None:
        """Releases the reservation of a failed attempt. If an answer had begun, its tokens and costs stay charged."""
        if self._reservation is None:
            return
        if not self._answered or is_rate_limit(error):
            self._reservation.note_error(error)
        await self.aclose()

    async def aclose(self) -> None:
        """Releases the last reservation. Can be called from any task, and several times."""
        if self._reservation is not None:
            await self._reservation.aclose()


class RetryLoop:
    """Sends a request, and retries after temporary errors.

    Args:
        connections: creates the HTTP client, and returns it again for later requests.
        max_retries: the maximum number of retries and reconnections. With a rate limiter, 429 responses don't count:
            they are retried for a minute, unless the maximum is 0.
        repeats: True if the request may be sent more than once.
        limiter: the rate limiter that each attempt must wait for, or None without limits.
        reservation: the caller's reservation for the first attempt.
        waits: True to wait and retry after a 429 response, False to raise an error instead.

    Attributes:
        lease: reserves capacity at the rate limiter for each attempt.
        exchange: the attempt in flight, or the last attempt.
        failed: the failed attempts, for `reply.attempts` and `error.attempts`.
        closed: True after `aclose` was called.
        headers_after: the number of seconds from sending the last request to its response headers; None before the
            headers have arrived.
    """

    def __init__(
        self,
        request: HTTPRequest,
        notifier: Notifier,
        connections: LoopBoundClient,
        *,
        max_retries: int,
        repeats: bool = True,
        limiter: RateLimiter | None = None,
        reservation: Reservation | None = None,
        waits: bool = True,
    ) -> None:
        self._request = request
        self._notifier = notifier
        self._connections = connections
        self._max_retries = max_retries
        self._repeats = repeats
        self.lease = RateLimitLease(limiter, reservation)
        self._waits = waits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now = anyio.current_time
        self._began = 0.0
        self._timeouts: StreamTimeouts | None = None
        self._retries = self._rate_limit_retries = 0
        self._limited_since: float | None = None
        self._has_new_credentials = False
        self.exchange: Exchange | None = None
        self.failed: list[Attempt] = []
        self.closed = False
        self.headers_after: float | None = None

    async def run(
        self,
        attempt: Callable[[], Callable[[Exchange], Awaitable[T]]],
        without: Callable[[APIError], HTTPRequest | None] = lambda error: None,
    ) -> T:
        """Sends the request until an attempt succeeds, and returns the result of this attempt.

        Args:
            attempt: called for each attempt; returns a function that reads the response.
            without: called with an error; returns the request without the rejected part, or None.

        Raises:
            APIError: the last attempt failed.
            ConfigError: the request can't be sent.
        """
        loop = self._loop = event_loop()
        self._now = anyio.current_time if loop is None else loop.time
        if self._timeouts is None:
            self._began = self._now()
            self._timeouts = StreamTimeouts(self._request.timeouts, self._began)
        timeouts = self._timeouts
        pause = 0.0
        while True:
            exchange = self.exchange = Exchange(self._connections.client(loop), self._request, timeouts, loop)
            read = attempt()
            await exchange.pause(pause)
            try:
                if self.lease.limiter is not None:
                    await exchange.wait_for(self.lease.begin)
                if not self.closed:
                    self._notifier.notify("on_request")
                with self._notifier.sending():
                    await exchange.open()
                self.headers_after = self.elapsed()
                if not self.closed:
                    self.lease.answered(exchange.rate_limit)
                return await read(exchange)
            except APIError as error:
                await exchange.aclose()
                await self.lease.failed(error)
                if self.closed or (wanted := self._next_pause(error, exchange, timeouts, without)) is None:
                    raise
                pause = wanted

    async def next_request(self, request: HTTPRequest) -> None:
        """Replaces the request with the request for the next part of the same answer.

        The new request has its own retries and its own reservation. The timeout `total` isn't restarted.
        """
        if self.exchange is not None:
            await self.exchange.aclose()
        await self.lease.aclose()
        self._request = request
        self._retries = self._rate_limit_retries = 0
        self._limited_since = None
        self._has_new_credentials = False

    async def reconnect(
        self, request: HTTPRequest, error: APIError, after: int | str, reconnects: int
    ) -> Exchange | None:
        """Connects again to read the rest of an answer that broke off.

        Args:
            request: the request for the rest of the answer.
            error: the error that interrupted the answer.
            after: the number or id of the last SSE event that arrived.
            reconnects: the number of reconnections since the last SSE event.

        Returns:
            The exchange that reads the rest, or None if the rest isn't available.
        """
        while reconnects < self._max_retries and self._timeouts is not None:
            pause = retry_delay(error, reconnects - 1) if reconnects else 0.0
            if pause is None or self._now() + pause >= self._timeouts.ends:
                return None
            reconnects += 1
            self._note_failure(error, pause, after)
            try:
                return await self._open_next(request, pause, self._timeouts)
            except APIError as refused:
                error = refused
        return None

    async def ask_again(self, request: HTTPRequest, pause: float) -> Exchange:
        """Polls a stored answer: sends the request again after a pause, because the answer isn't finished.

        Raises:
            APIError: the request failed, or the timeout `total` expired.
        """
        if self._timeouts is None or self._now() + pause >= self._timeouts.ends:
            raise APITimeoutError("the answer is still running at the end of the timeout `total`", phase="total")
        return await self._open_next(request, pause, self._timeouts)

    async def _open_next(self, request: HTTPRequest, pause: float, timeouts: StreamTimeouts) -> Exchange:
        if self.exchange is not None:
            await self.exchange.aclose()
        exchange = self.exchange = Exchange(self._connections.client(self._loop), request, timeouts, self._loop)
        if self.closed:
            await exchange.aclose()
        await exchange.pause(pause)
        with self._notifier.sending():
            await exchange.open()
        return exchange

    async def aclose(self) -> None:
        """Closes the connection. A task that waits for data wakes up."""
        self.closed = True
        if self.exchange is not None:
            await self.exchange.aclose()
        await self.lease.aclose()

    def elapsed(self) -> float:
        return self._now() - self._began

    def complete_error(self, error: APIError) -> None:
        """Sets the provider, the failed attempts, the URL and the request id of an error, and removes secrets from the
        error.
        """
        error.provider = self._notifier.info.provider
        error.attempts = tuple(self.failed)
        error.url = self._request.shown_url
        if self.exchange is not None:
            error.request_id = error.request_id or self.exchange.request_id
            error.warnings = error.warnings or self.exchange.warnings
        redact_error(error, self._redactor())

    def _redactor(self) -> Redactor:
        return self._request.redactor if self.exchange is None else self.exchange.redactor

    def _next_pause(
        self,
        error: APIError,
        exchange: Exchange,
        timeouts: StreamTimeouts,
        without: Callable[[APIError], HTTPRequest | None],
    ) -> float | None:
        redact_error(error, exchange.redactor)  # warnings may quote the error's message
        if (changed := without(error)) is not None:
            self._request, pause = changed, 0.0
        elif not self._has_new_credentials and exchange.discard_credentials(error):
            self._has_new_credentials, pause = True, 0.0
        elif self._max_retries and self.lease.limiter is not None and is_rate_limit(error):
            if self._limited_since is None:
                self._limited_since = self._now()
            delay = retry_delay(error, self._rate_limit_retries)
            if not self._waits or delay is None or self._now() >= self._limited_since + _MAX_RATE_LIMIT_WAIT:
                return None
            self._rate_limit_retries += 1
            pause = delay if error.retry_after is None else 0.0  # otherwise the limiter pauses all requests
        else:
            may_repeat = self._repeats and self._retries < self._max_retries
            wanted = retry_delay(error, self._retries) if may_repeat else None
            if wanted is None or self._now() + wanted >= timeouts.ends:
                return None
            self._retries, pause = self._retries + 1, wanted
        self._note_failure(error, pause)
        return pause

    def _note_failure(self, error: APIError, pause: float, resumed_after: int | str | None = None) -> None:
        redact_error(error, self._redactor())
        failed = Attempt(self._notifier.info.provider, error.message, type(error).__name__, pause, resumed_after)
        self._notifier.notify("on_retry", failed)
        self.failed.append(failed)
