"""The keys of clients: whose they are, which models they may ask for, and how much they may use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from math import ceil
from typing import Any

from ..config import KeyOptions, RateLimitSettings, read_settings, store_url
from ..limits import (
    BudgetExceededError,
    LimitReachedError,
    LimitStore,
    LimitStoreError,
    MemoryLimitStore,
    RateLimiter,
    Reservation,
)
from ..values import APIError, ConfigError, ErrorInfo, Reply
from .failures import Refused, refused
from .outcomes import Outcome

__all__ = ["ANYBODY", "Client", "KeyRateLimits", "read_keys"]

_MINUTE = 60.0  # a key may use what it is allowed in a minute at once, as with providers


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: the owner of a key.

    Attributes:
        name: of the key, as it is configured; None if it has none.
        key: what the client sends; empty where no key is needed.
        options: what the key may do.
    """

    name: str | None = None
    key: bytes = field(default=b"", repr=False)
    options: KeyOptions = field(default_factory=KeyOptions)

    @property
    def id(self) -> str:
        """What belongs to the client is kept under this id: a hash of the key, or "" where none is needed."""
        return sha256(self.key).hexdigest() if self.key else ""

    @property
    def may_ask_anything(self) -> bool:
        """Whether the client may use every model that is served."""
        return "*" in self.options.models

    def may_ask(self, model: str) -> bool:
        """Returns whether the client may use the model of this name."""
        return any(fnmatchcase(model, pattern) for pattern in self.options.models)


ANYBODY = Client()


def read_keys(keys: Collection[str | Client] | Mapping[str, Any]) -> list[Client]:
    """Returns the clients that have these keys.

    Args:
        keys: a list of keys; or by the names of the keys, each the key, or a mapping with the member `key` and those of
            `KeyOptions`.

    Raises:
        ConfigError: a key is empty, two are the same, or something else is wrong in what was given.
    """
    if isinstance(keys, str):
        raise ConfigError("keys must be a list of strings that are not empty")
    named = keys.items() if isinstance(keys, Mapping) else [(None, key) for key in keys]
    made = [_client(name, given) for name, given in named]
    known: dict[bytes, str | None] = {}
    for client in made:
        if client.name and client.key in known:
            raise ConfigError(f"keys: {client.name!r} and {known[client.key]!r} are the same key")
        known[client.key] = client.name
    return made


def _client(name: str | None, given: Any) -> Client:
    if isinstance(given, Client):
        return given
    options: dict[str, Any] = {}
    if isinstance(given, Mapping):
        options = dict(given)
        given = options.pop("key", None)
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(
            "keys must be a list of strings that are not empty"
            if name is None
            else f"keys: {name!r} must be a key that is not empty, or a mapping with one as `key`"
        )
    return Client(name, given.strip().encode(), read_settings(KeyOptions, options))


class KeyRateLimits:
    """Keeps clients within the limits of their keys: before a provider is asked, and by what its answer used.

    Args:
        where: where it is counted; None: in this app.
    """

    def __init__(self, clients: Iterable[Client], where: RateLimitSettings | LimitStore | str | None = None) -> None:
        self._limiters: dict[str | None, RateLimiter] = {}
        options: dict[str, Any] = {}
        store = MemoryLimitStore() if where is None else where
        if isinstance(store, RateLimitSettings):
            options = {"on_store_error": store.on_store_error, "replicas": store.replicas}
            store = store_url(store.store, "rate_limits.store")
        for client in clients:
            limits = client.options.rate_limits()
            if limits:
                name = f"gateway key {client.name}"
                self._limiters[client.name] = limiter = RateLimiter(
                    name, **limits, store=store, burst=_MINUTE, label=f"key {client.name!r}", **options
                )
                store = limiter.store  # one connection for all of them

    @asynccontextmanager
    async def within(self, client: Client) -> AsyncIterator[Callable[[Outcome], None] | None]:
        """Reserves one request of a client. Gives what is to observe its end; None if the key has no limits.

        Raises:
            Refused: a limit of the key is reached, or its budget is spent.
        """
        limiter = self._limiters.get(client.name) if client.name else None
        if limiter is None:
            yield None
            return
        reservation = await _reserved(limiter)
        try:
            yield lambda outcome: _settle(reservation, outcome)
        except Refused as refusal:  # it is logged when this block has ended
            _give_back(reservation, refusal)
            raise
        finally:
            await reservation.aclose()

    async def aclose(self) -> None:
        """Closes the store."""
        async with AsyncExitStack() as stack:
            for limiter in self._limiters.values():
                stack.push_async_callback(limiter.aclose)


async def _reserved(limiter: RateLimiter) -> Reservation:
    try:
        return await limiter.acquire(max_wait=0)
    except LimitReachedError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "rate_limit_error", "rate_limit_exceeded")
        raise Refused(429, info, {"retry-after": str(ceil(error.retry_after or 1))}) from None
    except BudgetExceededError as error:
        info = ErrorInfo(f"{limiter.label}: {error.message}", "insufficient_quota", "insufficient_quota")
        # Clients of OpenAI and of Anthropic try no more then: it would take hours.
        headers = {"retry-after": str(ceil(error.retry_after or 1)), "x-should-retry": "false"}
        raise Refused(429, info, headers) from None
    except LimitStoreError as error:
        raise refused(503, "the limits of keys can't be counted now; try again later", retry_after="1") from error
    except ConfigError as error:
        raise refused(500, f"the limits of {limiter.label} can't be counted; see the server's log") from error


def _settle(reservation: Reservation, outcome: Outcome) -> None:
    """Notes what an answer used. What is not known, as when its client has left, stays as it was reserved."""
    reservation.settle(outcome.usage, outcome.cost)


def _give_back(reservation: Reservation, refusal: Refused) -> None:
    """Notes that there was no answer, or only a part of one."""
    match refusal.__cause__:
        case APIError(partial=Reply() as partial):
            reservation.settle(partial.usage, partial.cost)
        case APIError():
            reservation.failed()
        case _:
            reservation.cancel()
