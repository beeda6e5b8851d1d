"""How much the tests try: `pytest` runs one cut of each kind, `pytest --thorough` every cut and every case.

Every promise is checked at both speeds. What differs is how many inputs it is checked with, and the figures that stand
in a test are those of `--thorough`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "STREAMFOLD_THOROUGH"


def thorough() -> bool:
    """Whether this is a run with `--thorough`, or with STREAMFOLD_THOROUGH=1, which subprocesses inherit."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def pick(full: int, quick: int) -> int:
    """Returns `full` in a thorough run, else `quick`."""
    return full if thorough() else quick


def examples(full: int) -> int:
    """Returns how many examples a property test tries: `full` in a thorough run, else an eighth, and at least 15."""
    return pick(full, min(full, max(15, full // 8)))


def some(items: Sequence[T], quick: int) -> Sequence[T]:
    """Returns all items in a thorough run, else about `quick` of them, evenly spaced, with the first and the last."""
    if thorough() or len(items) <= quick:
        return items
    return [items[round(at * (len(items) - 1) / (quick - 1))] for at in range(quick)]
