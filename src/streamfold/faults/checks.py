"""Checks the arguments of faults, so that a mistake in a test does not look like the fault that it tests."""

from __future__ import annotations

import math
from typing import Any

from ..values import ConfigError


def check_place(fault: object, after_bytes: int | None, after_events: int | None) -> None:
    """Checks a place in an answer. Raises ConfigError."""
    check_number(fault, "bytes", after_bytes, least=0)
    check_number(fault, "events", after_events, least=0)
    if after_bytes is not None and after_events is not None:
        raise ConfigError(f"{type(fault).__name__}: a place is after so many bytes or after so many events, not both")


def check_number(
    fault: object, key: str, value: Any, *, least: int | None = None, most: int | None = None, endless: bool = False
) -> None:
    """Checks a number: an integer from `least`, or else seconds. None is allowed. Raises ConfigError."""
    if value is None:
        return
    if least is not None:
        wanted = f"a whole number from {least}" + (f" to {most}" if most else "")
        fits = type(value) is int and least <= value and (most is None or value <= most)
    else:
        wanted = "a number of seconds"
        fits = type(value) in (int, float) and value >= 0 and (endless or value < math.inf)
    if not fits:
        raise ConfigError(f"{type(fault).__name__}: {key} is {wanted}, not {value!r}")


def check_text(fault: object, key: str, value: Any, wanted: str, kinds: list[type]) -> None:
    """Checks the type of a text. Raises ConfigError."""
    if type(value) not in kinds:
        raise ConfigError(f"{type(fault).__name__}: {key} is {wanted}, not {value!r}")
