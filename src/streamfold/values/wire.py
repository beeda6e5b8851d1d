"""Single values of an event as servers send them: numbers as strings, ids as numbers, `[DONE]` in quotes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from ..text import join_surrogates, without_surrogates
from .reasons import FinishReason

# Where servers put the words of an error that is not under `error`.
ERROR_KEYS = ("message", "msg", "detail", "error_message", "error_msg", "errors")


def is_done(data: str) -> bool:
    """Whether the payload is `[DONE]`, or as seen in the field `[done]` or `"[DONE]"`, with blanks around."""
    return data[:1] != "{" and data.strip().strip('"').upper() == "[DONE]"


def index(value: Any) -> int | None:
    """The position of a choice or item, also as a string or a float. None for anything else."""
    number = value if type(value) is int else whole_number(value)
    return number if number is not None and number >= 0 else None


def whole_number(value: Any) -> int | None:
    """A whole number, also as a string or a float. None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return int(value) if value.removeprefix("-").isdecimal() and len(value) < 20 else None
    return int(value) if isinstance(value, float) and value.is_integer() else None


# A word that is in no table, by what it has in it.
_TELLING: tuple[tuple[FinishReason | Literal["error"], str], ...] = (
    ("content_filter", "filter|safety|guard|moderat|blocked|policy|prohibit|censor|refus"),
    ("error", "error|fail|abort|cancel|crash|exception"),
    (
        "length",
        (
            "length|limit|max|trunc|incomplete|unfinished|partial|cut|timeout|time_out|timed_out|interrupt|exceed"
            "|overflow|budget|disconnect|preempt|early|exhaust|evict|quota|context|expired|deadline|stopped_by"
        ),
    ),
)


def unlisted_reason(word: str) -> FinishReason | Literal["error"]:
    """The meaning of a finish reason that an adapter does not list. It is never "stop".

    An answer that was cut must not be taken for a whole one, in whatever words the server says so; any other word is
    "unknown".

    >>> unlisted_reason("time_limit"), unlisted_reason("eventually")
    ('length', 'unknown')
    """
    word = word.lower().replace("-", "_")
    return next((reason for reason, telling in _TELLING if re.search(telling, word)), "unknown")


def word(value: Any) -> str | None:
    """An id or a name; None for `""`."""
    if value is None:
        return None
    if type(value) is str:
        return (value if value.isascii() else join_surrogates(value)) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def count(numbers: Mapping[str, Any], *names: str) -> int | None:
    """The first of these members that is a number."""
    for name in names:
        value = numbers.get(name)
        if type(value) is int:
            return value
        if type(value) is float and math.isfinite(value):
            return int(value)
    return None


def keep(value: Any) -> Any:
    """A value as it came, except that all of it can be encoded. Raises ValueError if it is too deep for that."""
    try:
        return without_surrogates(value)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
