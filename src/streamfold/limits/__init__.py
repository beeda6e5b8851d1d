"""Rate limits: requests and tokens per minute, parallel requests and money per day, for one process or many.

limit_state       computes reservations and charges
adaptive_rate     finds a rate that isn't configured, and reads those in response headers
stores            where limits are counted: the interface, and in memory
sqlite            in an SQLite file
valkey            in Valkey or Redis
store_connection  sends the operations of a limiter to its store, once; counts locally while the store is down
rate_limiter      waits for reservations, and charges them
errors            an exceeded limit or budget, a failed store

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..errors import failed_before_answer
from ..public_names import set_public_module
from ..requests import estimated_tokens, text_tokens
from .errors import BudgetExceededError, LimitReachedError, LimitStoreError
from .rate_limiter import (
    RateLimiter,
    Reservation,
    account_digest,
    count_memory_in,
    is_limited,
    is_rate_limit,
    open_limit_store,
    part_reserver,
    provider_limiter,
    reserving_parts,
)
from .sqlite import SQLiteLimitStore
from .store_connection import SharedLimitStore
from .stores import LimitStore, MemoryLimitStore, check_number
from .valkey import ValkeyLimitStore

__all__ = [
    "BudgetExceededError",
    "LimitReachedError",
    "LimitStore",
    "LimitStoreError",
    "MemoryLimitStore",
    "RateLimiter",
    "Reservation",
    "SharedLimitStore",
    "check_number",
    "count_memory_in",
    "estimated_tokens",
    "failed_before_answer",
    "provider_limiter",
    "reserving_parts",
    "text_tokens",
]

set_public_module(__name__, [globals()[name] for name in __all__])
