"""Rate limits and budgets of keys. The gateway reserves the expected usage of each request, and later charges the
actual usage.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from math import ceil
from typing import Any, TypeAlias

import anyio

from streamfold import APIError, ChatStream, ConfigError, Cost, Reply, StreamChunk, UpstreamError, Usage
from streamfold.config import RateLimitSettings, store_url
from streamfold.limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStore,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    Reservation,
    SharedLimitStore,
    estimated_tokens,
    failed_before_answer,
    text_tokens,
)
from streamfold.types import ErrorInfo, Request

from .apis import ClientRequest
from .auth import GatewayKey
from .http_errors import HTTPError, http_error, misconfigured

Pricer: TypeAlias = Callable[[Usage], Cost | None]

_ASSUMED = 16_384  # assumed output tokens of a request without a limit
_FASTEST = 500  # tokens per second, to estimate hidden reasoning by its duration


class Unmetered:
    """Replaces `UsageMeter` for a request whose key has no limits."""

    reads_on = False

    def begin(self, stream: ChatStream) -> None:
        """Does nothing."""

    async def next_part(self, part: Reply) -> None:
        """Does nothing."""

    def take(self, chunk: StreamChunk) -> None:
        """Does nothing."""

    def answered(self, reply: Reply) -> None:
        """Does nothing."""

    def failed(self, error: APIError) -> None:
        """Does nothing."""

    def not_sent(self) -> None:
        """Does nothing."""

    async def aclose(self) -> None:
        """Does nothing."""


class UsageMeter:
    """Charges the usage of one client request to its key: the usage that the provider reports, or else an estimate.

    If the response needs several requests to the provider, each of them has its own reservation.

    Args:
        again: a function that reserves usage for the next request to the provider.
        cost: a function that is called with a `Usage` and returns its cost, or None if the price is unknown.

    Attributes:
        reads_on: true if the key has a limit on tokens or cost. The gateway then reads the provider's stream even after
            the client has disconnected, because the usage arrives at the end.
    """

    def __init__(
        self,
        reservation: Reservation,
        again: Callable[[], Awaitable[Reservation]],
        request: Request,
        cost: Pricer,
        *,
        reads_on: bool,
    ) -> None:
        self.reads_on = reads_on
        self._reservation = reservation
        self._again = again
        self._parts = 0  # number of requests to the provider that were charged
        self._request = request
        self._cost = cost
        self._began: float | None = None
        self._stream: ChatStream | None = None
        self._written = 0
        self._reply: Reply | None = None
        self._whole = False
        self._error: APIError | None = None

    def begin(self, stream: ChatStream) -> None:
        """Records the time at which the request is sent, and the stream of its response."""
        self._began, self._stream = anyio.current_time(), stream

    async def next_part(self, part: Reply) -> None:
        """Charges the usage of a finished provider request to the client's key, and reserves usage for the next
        provider request.

        Raises:
            LimitReachedError, BudgetExceededError: a limit or the budget of the key doesn't allow another request.
        """
        self._charge(part.usage, part.cost, written=self._written, whole=True)
        await self._reservation.aclose()
        self._parts += 1
        self._written = 0
        self._reservation = await self._again()

    def take(self, chunk: StreamChunk) -> None:
        """Counts the tokens of a chunk."""
        self._written += text_tokens(chunk.delta) + text_tokens(chunk.reasoning)

    def answered(self, reply: Reply) -> None:
        """Records the complete reply, which contains the usage."""
        self._reply, self._whole = reply, True

    def failed(self, error: APIError) -> None:
        """Records the error that ended the response, or that the provider sent instead of a response."""
        self._error, self._reply = error, error.partial

    def not_sent(self) -> None:
        """Records that the request wasn't sent."""
        self._began = None

    async def aclose(self) -> None:
        """Charges the usage and closes the reservation."""
        self.settle()
        await self._reservation.aclose()

    def settle(self) -> None:
        """Charges the usage that the meter knows so far."""
        if self._began is None:
            self._reservation.cancel()
            return
        calls = self._reply.tool_calls if self._reply else ()
        written = self._stream.partial_tool_calls if self._stream else ()
        texts = [*(call.raw_arguments for call in calls), *(call.text for call in written)]
        counted, error = self._written + sum(map(text_tokens, texts)), self._error
        if error is not None and not counted and (failed_before_answer(error) or isinstance(error, UpstreamError)):
            self._reservation.failed()
            return
        usage, cost = self._used()
        if not self._whole and error is None:  # the client has disconnected
            hidden = ceil((anyio.current_time() - self._began) * _FASTEST)
            counted = max(counted, min(hidden, _most_output(self._request)))
        self._charge(usage, cost, written=counted, whole=self._whole)

    def _used(self) -> tuple[Usage | None, Cost | None]:
        reply = self._reply
        if reply is None or reply.usage is None or not self._parts:
            return (reply.usage, reply.cost) if reply else (None, None)
        if len(reply.usage.steps) <= self._parts:  # nothing of the current request has arrived
            return None, None
        step = replace(reply, usage=reply.usage.steps[-1])
        return step.usage, step.cost

    def _charge(self, usage: Usage | None, cost: Cost | None, *, written: int, whole: bool) -> None:
        if usage is None or usage.input_tokens is None or usage.output_tokens is None or not whole:
            read = usage.input_tokens if usage and usage.input_tokens is not None else estimated_tokens(self._request)
            written = max(written, usage.output_tokens or 0 if usage else 0)
            usage, cost = Usage(read, written, read + written), cost if whole else None
        self._reservation.charge(usage, cost or self._cost(usage), partial=not whole)


def _most_output(request: Request) -> int:
    return request.options.max_output_tokens or _ASSUMED


Meter: TypeAlias = UsageMeter | Unmetered

_NEXT_PART_SECONDS = 300.0  # seconds that the next request to the provider waits for the key's limits

_MINUTE = 60.0  # seconds: a key may use the limit of a minute at once, as with providers


class KeyRateLimits:
    """The limits of all keys.

    Args:
        where: the store for the counted usage; None: this process's memory.
    """

    def __init__(
        self, clients: Iterable[GatewayKey], where: RateLimitSettings | LimitStore | str | None = None
    ) -> None:
        self._limiters: dict[str | None, RateLimiter] = {}
        options: dict[str, Any] = {}
        store: RateLimitSettings | LimitStore | SharedLimitStore | str = MemoryLimitStore() if where is None else where
        if isinstance(store, RateLimitSettings):
            options = {"on_store_error": store.on_store_error, "replicas": store.replicas}
            store = store_url(store.store, "rate_limits.store")
        for client in clients:
            if limits := client.options.rate_limits():
                name, label = f"gateway key {client.name}", f"key {client.name!r}"
                # The first request needs no burst. A little more is allowed, because sums of floats drift.
                burst = max(0.0, _MINUTE - 0.999 * _MINUTE / limits["rpm"]) if "rpm" in limits else _MINUTE
                limiter = RateLimiter(name, **limits, store=store, burst=burst, label=label, **options)
                self._limiters[client.name] = limiter
                store = limiter.store  # all limiters share one connection

    async def reserve(self, client_request: ClientRequest) -> Meter:
        """Reserves the expected usage of a client's request. Returns the meter that charges the actual usage.

        Raises:
            HTTPError: a limit of the key is reached, its budget is spent, or it has a budget and the model's price is
                unknown.
        """
        client, route, request = client_request.client, client_request.route, client_request.parsed
        limiter = self._limiters.get(client.name) if client.name else None
        if limiter is None:
            return Unmetered()
        bound: Cost | None = None
        read = estimated_tokens(request)
        written = route.max_output_tokens(request.options.max_output_tokens) or _most_output(request)
        expected = Usage(read, written, read + written)  # the highest usage that the request can cause
        if limiter.limits_cost and (bound := route.cost(expected)) is None and not route.priced:
            why = f"the price of the model is unknown, but {limiter.label} has a budget: configure `prices`"
            raise misconfigured(ConfigError(why))
        reads_on = limiter.limits_cost or client.options.tpm is not None

        def again() -> Awaitable[Reservation]:
            return limiter.acquire(max_wait=_NEXT_PART_SECONDS, cost=bound.amount if bound else None)

        return UsageMeter(await _reserved(limiter, bound), again, request, route.cost, reads_on=reads_on)

    async def aclose(self) -> None:
        """Closes the store for the counted usage."""
        async with AsyncExitStack() as stack:
            for limiter in self._limiters.values():
                stack.push_async_callback(limiter.aclose)


async def _reserved(limiter: RateLimiter, bound: Cost | None) -> Reservation:
    try:
        return await limiter.acquire(max_wait=0, cost=bound.amount if bound else None)
    except LimitReachedError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "rate_limit_error", "rate_limit_exceeded")
        raise HTTPError(429, info, {"retry-after": str(ceil(error.retry_after or 1))}) from None
    except BudgetExceededError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "insufficient_quota", "insufficient_quota")
        # So the SDKs of OpenAI and Anthropic don't retry: the wait would take hours.
        headers = {"retry-after": str(ceil(error.retry_after or 1)), "x-should-retry": "false"}
        raise HTTPError(429, info, headers) from None
    except LimitStoreError as error:
        text = "the store of the rate limits is unavailable; try again later"
        raise http_error(503, text, cause=error, retry_after="1") from error
    except ConfigError as error:
        text = f"the limits of {limiter.label} can't be counted; see the server's log"
        raise http_error(500, text, cause=error) from error
