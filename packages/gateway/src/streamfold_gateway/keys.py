"""How much clients may use with their keys."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from math import ceil
from typing import Any

from streamfold import ConfigError, Cost
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
)
from streamfold.types import ErrorInfo, Request

from .gateway_keys import GatewayKey
from .http_errors import HTTPError, http_error
from .models import ModelRoute
from .usage_metering import UsageMeter, most_expected

_MINUTE = 60.0  # a key may use what it is allowed in a minute at once, as with providers


class KeyRateLimits:
    """Keeps clients within the limits of their keys: before a provider is asked, and by what its answer used.

    Args:
        where: where it is counted; None: in this app.
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
            limits = client.options.rate_limits()
            if limits:
                name = f"gateway key {client.name}"
                self._limiters[client.name] = limiter = RateLimiter(
                    name,
                    **limits,
                    store=store,
                    burst=_burst(limits.get("rpm")),
                    label=f"key {client.name!r}",
                    **options,
                )
                store = limiter.store  # one connection for all of them

    async def charge(self, client: GatewayKey, served: ModelRoute, request: Request) -> UsageMeter | None:
        """Reserves one request of a client. Returns what is to learn what it uses; None if the key has no limits.

        Raises:
            HTTPError: a limit of the key is reached, its budget is spent, or what the model costs is not known.
        """
        limiter = self._limiters.get(client.name) if client.name else None
        if limiter is None:
            return None
        bound: Cost | None = None
        expected = most_expected(request, served.max_output_tokens(request.options.max_output_tokens))
        if limiter.limits_cost and (bound := served.cost(expected)) is None and not served.priced:
            why = f"what the model costs is not known, and {limiter.label} has a budget: give its prices"
            said = "the server is misconfigured for this model; see its log"
            raise http_error(500, said, x_should_retry="false") from ConfigError(why)
        reads_on = limiter.limits_cost or client.options.tpm is not None
        return UsageMeter(await _reserved(limiter, bound), request, served.cost, reads_on=reads_on)

    async def aclose(self) -> None:
        """Closes the store."""
        async with AsyncExitStack() as stack:
            for limiter in self._limiters.values():
                stack.push_async_callback(limiter.aclose)


def _burst(rpm: float | None) -> float:
    """Returns how many seconds of unused allowance let a minute's requests come all at once, and not one more."""
    return max(0.0, _MINUTE - 0.999 * _MINUTE / rpm) if rpm else _MINUTE  # the first needs none; sums of floats drift


async def _reserved(limiter: RateLimiter, bound: Cost | None) -> Reservation:
    try:
        return await limiter.acquire(max_wait=0, cost=bound.amount if bound else None)
    except LimitReachedError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "rate_limit_error", "rate_limit_exceeded")
        raise HTTPError(429, info, {"retry-after": str(ceil(error.retry_after or 1))}) from None
    except BudgetExceededError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "insufficient_quota", "insufficient_quota")
        # Clients of OpenAI and of Anthropic try no more then: it would take hours.
        headers = {"retry-after": str(ceil(error.retry_after or 1)), "x-should-retry": "false"}
        raise HTTPError(429, info, headers) from None
    except LimitStoreError as error:
        raise http_error(503, "the limits of keys can't be counted now; try again later", retry_after="1") from error
    except ConfigError as error:
        raise http_error(500, f"the limits of {limiter.label} can't be counted; see the server's log") from error
