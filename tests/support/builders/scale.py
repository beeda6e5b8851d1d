"""How much the tests try: `pytest` runs one cut of each kind, `pytest --thorough` many cuts and every case.

Every promise is checked at both speeds. What differs is how many inputs it is checked with, and the figures that stand
in a test are those of `--thorough`. `nox -s thorough` tries more still where that takes a quarter of an hour.
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


def whole() -> bool:
    """Whether this is the run of `nox -s thorough`, with STREAMFOLD_THOROUGH=2."""
    return os.environ.get(VARIABLE) == "2"


def pick(full: int, quick: int, most: int | None = None) -> int:
    """Returns `full` in a thorough run, else `quick`; and `most` in that of `nox -s thorough`."""
    if most is not None and whole():
        return most
    return full if thorough() else quick


def examples(full: int) -> int:
    """Returns how many examples a property test tries: `full` in a thorough run, else an eighth, and at least 15."""
    return pick(full, min(full, max(15, full // 8)))


def some(items: Sequence[T], quick: int) -> Sequence[T]:
    """Returns all items in a thorough run, else about `quick` of them, evenly spaced, with the first and the last."""
    return items if thorough() else spaced(items, quick)


def spaced(items: Sequence[T], most: int) -> Sequence[T]:
    """Returns about `most` of the items, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return items
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]
