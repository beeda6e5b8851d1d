"""Whether and when a request is sent again. One budget for everything that may fail before the first chunk.

What is worth another try is said by the error itself (`errors.py`); this says how long to wait. stamina and tenacity
wrap a function that is called again; here the thing that is tried is a stream up to its first chunk, closed by any task
while it waits, and twenty lines of our own are less than the adapter to theirs.
"""

from __future__ import annotations

from random import random

from ..values import APIError

__all__ = ["retry_delay"]

_FIRST, _LONGEST = 0.5, 8.0  # seconds
_LONGEST_ASKED = 60.0  # seconds that a server may ask for; if it wants more, the caller should know


def retry_delay(error: APIError, attempt: int) -> float | None:
    """Seconds until a request that failed with `error` may be sent again; None if it should not be.

    What the server asks for, else half a second, doubled with each attempt up to eight, less up to a quarter by chance.
    """
    if not error.retryable:
        return None
    asked: float | None = getattr(error, "retry_after", None)
    if asked is not None:
        return asked if asked <= _LONGEST_ASKED else None
    return float(min(_FIRST * 2**attempt, _LONGEST)) * (1 - 0.25 * random())  # noqa: S311 - spread, not secrecy
