"""Rate limits and budgets, for one process or for many: requests, tokens, parallel requests and money per day.

limit_state       computes reservations and charges
adaptive_rate     finds a server's unknown rate limit by trying, and parses the limits in response headers
stores            the interface of the stores that count requests, and the store in memory
sqlite            the store in an SQLite file
valkey            the store in Valkey or Redis
store_connection  sends a limiter's operations to its store, and counts locally while the store is down
rate_limiter      `RateLimiter`: waits until a request may be sent, and charges its usage

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..errors import BudgetExceededError, LimitReachedError, LimitStoreError, failed_before_answer
from ..public_names import set_public_module
from ..requests import estimated_tokens, text_tokens
from .rate_limiter import RateLimiter, Reservation, account_digest, count_memory_in, open_limit_store, provider_limiter
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
    "text_tokens",
]

set_public_module(__name__, [globals()[name] for name in __all__])
