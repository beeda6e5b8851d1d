"""Single values of an event as servers really send them: numbers as strings, ids as numbers, `[DONE]` in quotes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .jsontext import join_surrogates, without_surrogates

__all__ = ["ERROR_KEYS", "count", "index", "is_done", "keep", "word"]

# Where servers put the words of an error that is not under `error`.
ERROR_KEYS = ("message", "msg", "detail", "error_message", "error_msg", "errors")


def is_done(data: str) -> bool:
    """Whether the payload is `[DONE]`, or as seen in the field `[done]` or `"[DONE]"`, with blanks around."""
    return data[:1] != "{" and data.strip().strip('"').upper() == "[DONE]"


def index(value: Any) -> int | None:
    """The position of a call, choice or item. A string or float is read; what is negative or anything else is none."""
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 20 else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    else:
        value = None
    return value if value is not None and value >= 0 else None


def word(value: Any) -> str | None:
    """An id or a name; `""` is none."""
    if value is None:
        return None
    if type(value) is str:
        return (value if value.isascii() else join_surrogates(value)) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def count(numbers: Mapping[str, Any], *names: str) -> int | None:
    """The first of these members that is a number."""
    for name in names:
        value = numbers.get(name)
        if isinstance(value, float) and math.isfinite(value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def keep(value: Any) -> Any:
    """A value as it came, except that all of it can be encoded. Raises ValueError if it is too deep for that."""
    try:
        return without_surrogates(value)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
