"""Rate limits: requests and tokens per minute, requests at once and money per day, for one process or for many.

algorithm   the arithmetic: what is reserved, settled and believed (`lua` says the same for Valkey)
search      how a rate is found that nobody has configured
store       where it is counted: in this process, in an SQLite file (`sqlite`), in Valkey or Redis (`valkey`); `guard`
            says what happens while that can't be reached
limiter     waits for reservations, and settles them

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..values import set_public_module
from .errors import BudgetExceededError, LimitReachedError, LimitStoreError
from .limiter import RateLimiter
from .opening import count_memory_in, open_limit_store
from .providers import account_digest, is_limited, provider_limiter
from .reservation import Reservation
from .sqlite import SQLiteLimitStore
from .store import LimitStore, MemoryLimitStore, check_number
from .valkey import ValkeyLimitStore

__all__ = ["BudgetExceededError", "LimitReachedError", "LimitStore", "LimitStoreError", "RateLimiter", "Reservation"]

set_public_module(__name__, [globals()[name] for name in __all__])
