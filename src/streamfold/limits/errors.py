"""The exceptions that a limit raises before a request is sent."""

from __future__ import annotations

from typing import Unpack

from ..errors import APIConnectionError, APIErrorDetails, QuotaExceededError, RateLimitError


class LimitReachedError(RateLimitError):
    """A configured limit is reached, and the wait would be too long. `retry_after` is the time to wait, in seconds."""

    def __init__(self, message: str, *, retry_after: float, **details: Unpack[APIErrorDetails]) -> None:
        details.setdefault("retryable", True)
        super().__init__(message, status_code=429, code="rate_limit_exceeded", retry_after=retry_after, **details)


class BudgetExceededError(QuotaExceededError):
    """Today's budget is spent. `retry_after` is the time until the next day begins (UTC), in seconds."""

    def __init__(self, message: str, *, retry_after: float, **details: Unpack[APIErrorDetails]) -> None:
        super().__init__(message, status_code=429, code="budget_exceeded", retry_after=retry_after, **details)


class LimitStoreError(APIConnectionError):
    """The shared store can't be used, and the setting `on_store_error` is "refuse"."""
