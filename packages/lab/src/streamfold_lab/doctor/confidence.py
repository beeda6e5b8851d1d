"""Exact confidence intervals for a proportion (Clopper and Pearson, 1934)."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

CONFIDENCE = 0.95
_STEPS = 40  # of a bisection: more than a float has digits for


def interval(found: int, tries: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns the confidence interval of a probability, from `found` successes in `tries` tries.

    If no try or every try was a success, the interval is one-sided: for 0 of 59, the interval is 0 to 5 percent.

    >>> [round(bound, 3) for bound in interval(0, 59)]
    [0.0, 0.05]
    """
    if tries < 1 or not 0 <= found <= tries:
        raise ValueError(f"found must be from 0 to tries, and tries at least 1, not {found} and {tries}")
    sides = 1 if found in (0, tries) else 2
    alpha = (1 - confidence) / sides
    low = 0.0 if found == 0 else _bisect(lambda share: _at_least(found, tries, share) - alpha)
    high = 1.0 if found == tries else _bisect(lambda share: alpha - _at_least(tries - found, tries, 1 - share))
    return low, high


def _at_least(found: int, tries: int, share: float) -> float:
    """Returns the probability of at least `found` successes in `tries` tries, if each try succeeds with probability
    `share`.
    """
    return sum(comb(tries, k) * share**k * (1 - share) ** (tries - k) for k in range(found, tries + 1))


def _bisect(rising: Callable[[float], float]) -> float:
    """Returns the number between 0 and 1 at which a rising function is zero."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
