"""Single values of an event as servers send them: numbers as strings, ids as numbers, `[DONE]` in quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..text import join_surrogates, without_surrogates

# Where servers put the words of an error that is not under `error`.
ERROR_KEYS = ("message", "msg", "detail", "error_message", "error_msg", "errors")


def is_done(data: str) -> bool:
    """Whether the payload is `[DONE]`, or as seen in the field `[done]` or `"[DONE]"`, with blanks around."""
    return data[:1] != "{" and data.strip().strip('"').upper() == "[DONE]"


def int_or_none(value: Any) -> int | None:
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


def str_or_none(value: Any) -> str | None:
    """An id or a name; None for `""`."""
    if value is None:
        return None
    if type(value) is str:
        return (value if value.isascii() else join_surrogates(value)) or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


_TOO_LARGE = 10**12


def amount(value: Any) -> float | None:
    """Returns a number from a server if it can be counted: finite, not negative and below 10^12; else None.

    Nothing else from a server is added up, charged or reported: a negative number would give money back, and an
    infinite one never ends. A string, true and false aren't numbers.
    """
    return value if type(value) in (int, float) and 0 <= value < _TOO_LARGE else None


def as_count(value: Any) -> int | None:
    """Returns a number from a server as a count, without its fraction; None if it can't be one: see `amount`.

    >>> [as_count(value) for value in (7, 7.0, -1, float("nan"), True, "7", 10**12)]
    [7, 7, None, None, None, None, None]
    """
    number = amount(value)
    return None if number is None else int(number)


def count_or_none(numbers: Mapping[str, Any], *names: str) -> int | None:
    """Returns the first of these members that is a count: see `as_count`."""
    return next((found for name in names if (found := as_count(numbers.get(name))) is not None), None)


def count_or_zero(numbers: Mapping[str, Any], name: str) -> int | None:
    """Returns a count that is 0 where the server left it out; None if it sent something that isn't a count."""
    return 0 if numbers.get(name) is None else count_or_none(numbers, name)


def non_empty(value: Any) -> Any:
    """A value as it came, except that all of it can be encoded. Raises ValueError if it is too deep for that."""
    try:
        return without_surrogates(value)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
