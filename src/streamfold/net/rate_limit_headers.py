"""Parses rate limits and retry times in the response headers of all providers.

Known headers: `x-ratelimit-limit-requests` (OpenAI, Groq, Fireworks; Cerebras appends `-minute` or `-day`),
`anthropic-ratelimit-input-tokens-remaining`, `x-ratelimit-remaining` (OpenRouter, Together), the IETF draft's
`ratelimit-reset`, `RateLimit: "name";r=50;t=30` and `RateLimit-Policy: "name";q=100;w=60`
(https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/), `retry-after` and `retry-after-ms`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf, isfinite
from time import time
from typing import Any

from ..types import RateLimit, RateLimitResource, RateLimitWindow

_NAME = re.compile(r"(?:x-|anthropic-)?ratelimit-(.+)")
_FIELDS = {"limit": "limit", "remaining": "remaining", "reset": "reset_after"}
_RESOURCES: dict[tuple[str, ...], RateLimitResource] = {  # by the remaining words of the header's name, sorted
    (): "requests", ("requests",): "requests", ("req",): "requests", ("tokens",): "tokens",
    ("input", "tokens"): "input_tokens", ("prompt", "tokens"): "input_tokens",
    ("output", "tokens"): "output_tokens", ("generated", "tokens"): "output_tokens",
}  # fmt: skip
_PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "month": 2592000.0}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_EARLIEST_TIMESTAMP = 1e9  # a number above it is no duration (31 years) but a point in time


def read_rate_limit(headers: Iterable[tuple[str, str]]) -> RateLimit | None:
    """Parses the rate limits in response headers. Returns None if the headers contain no rate limits.

    Negative numbers and limits of 0 are ignored, because Azure sends `-1` and `0` for unknown values.
    """
    found: dict[tuple[RateLimitResource, float | None], dict[str, float]] = {}
    lower = [
        (name, value.strip())
        for written, value in headers
        if "ratelimit" in (name := written.lower()) or name.startswith("retry-after")
    ]
    if not lower:
        return None
    for name, value in lower:
        if name in ("ratelimit", "ratelimit-policy"):
            _read_structured(value, found)
        elif (matched := _NAME.fullmatch(name)) and (place := _place(matched[1].split("-"))) is not None:
            member, key = place
            number = _seconds(value) if member == "reset_after" else _amount(value)
            if number is not None:
                found.setdefault(key, {}).setdefault(member, number)
    windows = [
        RateLimitWindow(resource, period=period, **members) for (resource, period), members in found.items() if members
    ]
    windows = [window for window in windows if window.limit != 0]
    retry_after = read_retry_after(dict(lower))
    if not windows and retry_after is None:
        return None
    return RateLimit(tuple(sorted(windows, key=lambda window: window.period or 0.0)), retry_after)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the number of seconds to wait before a retry, or None if the headers contain no retry time.

    Args:
        headers: the response headers, with lower-case names or as a case-insensitive mapping. `retry-after-ms` contains
            milliseconds, `retry-after` seconds or a date.
    """
    ways: list[tuple[str, Callable[[str], float]]] = [
        ("retry-after-ms", lambda text: float(text) / 1000),
        ("retry-after", float),
        ("retry-after", lambda text: parsedate_to_datetime(text).timestamp() - time()),
    ]
    for name, read in ways:
        if not (value := headers.get(name)):
            continue
        try:
            seconds = read(value)
        except (ValueError, OverflowError):  # OverflowError: a date far outside of the calendar
            continue
        if seconds == seconds:  # not "nan"
            return max(0.0, seconds)
    return None


def _place(words: list[str]) -> tuple[str, tuple[RateLimitResource, float | None]] | None:
    fields = [word for word in words if word in _FIELDS]
    periods = [_PERIODS[word] for word in words if word in _PERIODS]
    rest = tuple(sorted({*words} - {*_FIELDS, *_PERIODS}))
    if len(fields) != 1 or len(periods) > 1 or rest not in _RESOURCES:
        return None
    return _FIELDS[fields[0]], (_RESOURCES[rest], periods[0] if periods else None)


def _read_structured(value: str, found: dict[Any, dict[str, float]]) -> None:
    """Parses a `RateLimit` header in the format of the IETF draft. Adds its limit, remaining count and reset time to
    `found`.

    The format is `"name";r=50;t=30` (remaining, reset) or `"name";q=100;w=60` (quota, window).
    """
    first = value.partition(",")[0]
    members = dict(re.findall(r";\s*([qrtw])\s*=\s*(\d{1,15})", first))
    names = {"q": "limit", "r": "remaining", "t": "reset_after"}
    if members:
        window = found.setdefault(("requests", None), {})
        for letter, name in names.items():
            if letter in members:
                window.setdefault(name, float(members[letter]))


def _amount(text: str) -> float | None:
    """Returns the first number of a header value such as `100` or `100, 100;w=60`."""
    try:
        number = float(re.split("[,;]", text)[0])
    except ValueError:
        return None
    return number if 0 <= number < inf else None


def _seconds(text: str) -> float | None:
    """Parses the time until a window resets, and returns it in seconds.

    The forms are `1s`, `6m0s`, `120ms`, `59.5`, a timestamp, and a date in RFC 3339 format.
    """
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|[smhd])", text))
    try:
        number = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        number = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isfinite(number) or number < 0:
        return None
    if number >= _EARLIEST_TIMESTAMP * 1000:
        number /= 1000  # milliseconds
    return number if number < _EARLIEST_TIMESTAMP else max(0.0, number - time())
