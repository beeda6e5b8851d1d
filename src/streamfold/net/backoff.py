"""Decides whether and when a request is sent again. One budget covers everything that fails before the first chunk.

The error itself knows whether a retry may help (`errors.py`); this module knows how long to wait. stamina and tenacity
wrap a function and call it again. Here a stream up to its first chunk is retried, which any task may close while it
waits; an adapter to those libraries would be longer than these twenty lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import random

from ..errors import APIError

_LONGEST_ASKED = 60.0  # seconds that a server may ask for; if it wants more, the caller should know


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before something that failed is tried again: longer each time, less a random part.

    The random part spreads requests that failed together.

    Attributes:
        first: seconds after the first failure.
        longest: seconds that are never exceeded.
        factor: by which the delay grows with each failure.
        jitter: the largest part of the delay that is taken off at random, from 0 to 1.
    """

    first: float = 0.5
    longest: float = 8.0
    factor: float = 2.0
    jitter: float = 0.25

    def delay(self, failures: int) -> float:
        """Returns the seconds to wait.

        Args:
            failures: how often it failed before this failure.
        """
        grown = self.first * self.factor ** min(failures, 100)  # more would overflow
        return min(grown, self.longest) * (1 - self.jitter * random())  # noqa: S311 - spread, not secrecy


_BACKOFF = Backoff()


def retry_delay(error: APIError, attempt: int) -> float | None:
    """Returns the seconds until a request that failed with `error` may be sent again; None if it should not be.

    These are the seconds that the server asks for, else those of a `Backoff`.
    """
    if not error.retryable:
        return None
    asked = error.retry_after
    if asked is not None:
        return asked if asked <= _LONGEST_ASKED else None
    return _BACKOFF.delay(attempt)
