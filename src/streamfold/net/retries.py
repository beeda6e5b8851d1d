"""Decides whether and when a request is sent again. One budget covers everything that fails before the first chunk.

The error itself knows whether a retry may help (`errors.py`); this module knows how long to wait. stamina and tenacity
wrap a function and call it again. Here a stream up to its first chunk is retried, which any task may close while it
waits; an adapter to those libraries would be longer than these twenty lines.
"""

from __future__ import annotations

from random import random

from ..values import APIError

_FIRST, _LONGEST = 0.5, 8.0  # seconds
_LONGEST_ASKED = 60.0  # seconds that a server may ask for; if it wants more, the caller should know


def retry_delay(error: APIError, attempt: int) -> float | None:
    """Returns the seconds until a request that failed with `error` may be sent again; None if it should not be.

    These are the seconds that the server asks for, else half a second, doubled with each attempt up to eight seconds,
    less a random part of up to a quarter.
    """
    if not error.retryable:
        return None
    asked: float | None = getattr(error, "retry_after", None)
    if asked is not None:
        return asked if asked <= _LONGEST_ASKED else None
    return float(min(_FIRST * 2**attempt, _LONGEST)) * (1 - 0.25 * random())  # noqa: S311 - spread, not secrecy
