"""Rate limits: requests and tokens per minute, requests at once and money per day, for one process or for many.

limit_state    the arithmetic: what is reserved and charged
adaptive_rate  how a rate is found that isn't configured, and what response headers state
stores         where it is counted: in this process, in an SQLite file (`sqlite`), in Valkey or Redis (`valkey`)
sessions       what a limiter sends to a store, once; what happens while that can't be reached
rate_limiter   waits for reservations, and charges them

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
    open_limit_store,
    provider_limiter,
)
from .sqlite import SQLiteLimitStore
from .store_session import SharedLimitStore
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
    "text_tokens",
]

set_public_module(__name__, [globals()[name] for name in __all__])
