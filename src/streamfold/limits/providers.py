"""The limiter that the settings of a provider ask for."""

from __future__ import annotations

from hashlib import sha256

from ..config import Profile, RateLimitSettings, store_url
from .rate_limiter import RateLimiter
from .sessions import SharedLimitStore
from .stores import LimitStore


def account_digest(profile: Profile) -> str:
    """Returns a name for the account that a base URL and a key belong to, which shows neither of them.

    Raises:
        ConfigError: a variable is not set.
    """
    return sha256(f"{profile.sent_url()}\0{profile.key() or ''}".encode()).hexdigest()[:32]


def is_limited(profile: Profile) -> bool:
    """Returns whether the settings of a provider limit anything."""
    limits = (profile.rpm, profile.tpm, profile.max_concurrent, profile.max_cost_per_day, profile.rate_limits)
    return any(limit is not None for limit in limits)


def provider_limiter(
    profile: Profile,
    *,
    rpm: float | None = None,
    tpm: float | None = None,
    store: LimitStore | SharedLimitStore | None = None,
) -> RateLimiter:
    """Returns the limiter of a provider. Providers with the same base URL and key share what it counts.

    Args:
        rpm, tpm: limits instead of those of the settings.
        store: where they are counted instead.

    Raises:
        ConfigError: a variable is not set, or the store can't be used.
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
