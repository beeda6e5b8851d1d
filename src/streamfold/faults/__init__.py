"""Faults between a provider and its caller, as values: `reset(after_events=3)`, `status(429, times=2)`.

`ReplayTransport(..., faults=[...])` and the replay server break recordings with them, and
`FaultTransport(transport, faults)` breaks live answers. The same fault does the same to the same bytes every time, and
nothing here waits, so that all of it can be tested as bytes in, bytes out.
"""

from __future__ import annotations

from ..values import set_public_module
from .injector import Injection, Injector
from .reading import read_fault
from .steps import BodyStep, Chain, Ending
from .vocabulary import (
    Fault,
    corrupt,
    cut_after,
    drop,
    duplicate,
    garbage,
    hang_up,
    keepalive,
    reset,
    slow,
    stall,
    status,
    truncate_json,
)

__all__ = [
    "Fault",
    "corrupt",
    "cut_after",
    "drop",
    "duplicate",
    "garbage",
    "hang_up",
    "keepalive",
    "reset",
    "slow",
    "stall",
    "status",
    "truncate_json",
]

set_public_module(__name__, [globals()[name] for name in __all__])
