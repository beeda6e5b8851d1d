"""Checks of single settings: URLs, timeouts, quirks, and variables of the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from ..text import shown_url, variable_names
from ..values import ConfigError, Timeouts
from .toml_positions import toml_path
from .toml_tables import read_table, validation_errors

POSITIVE = Field(gt=0)
# The last part of a request's URL, in each API.
_PATH_OF_API = re.compile(r"(/chat/completions|/responses|/messages|/models/[^/]+:(?:stream)?[gG]enerateContent)/*$")


def check_url(url: str) -> None:
    """Raises ValueError if a text can't be the base URL of requests. The error does not quote it."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("must not contain spaces or control characters")
    if "#" in url:
        raise ValueError("must not have a fragment (#...), which is never sent")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("must have a valid host") from None
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("must have a port between 0 and 65535") from None
    try:
        host.encode("idna").decode("idna")
    except UnicodeError:  # an "xn--" that is not an encoded name, a label of more than 63 characters
        host = ""
    if not host:
        raise ValueError("must have a valid host")
    if found := _PATH_OF_API.search(parts.path):
        right = shown_url(parts._replace(path=parts.path[: found.start()], query="").geturl())
        raise ValueError(f"must end before {found[1]}, which is added: {right}")


def same_origin(one: Any, other: Any) -> bool:
    """Returns whether two base URLs surely have the same scheme, host and port; not with a variable in one of them."""
    if not (isinstance(one, str) and isinstance(other, str)) or variable_names(one) or variable_names(other):
        return False
    try:
        first, second = urlsplit(one), urlsplit(other)
    except ValueError:
        return False
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)


def joined_url(base_url: str, path: str) -> str:
    """Returns the URL of a path below a base URL. Both may have a query."""
    base, _, query = base_url.partition("?")
    path, _, more = path.partition("?")
    queries = "&".join(filter(None, (query, more)))
    return base + path + ("?" + queries if queries else "")


def read_timeouts(value: Any) -> Any:
    """Returns the `Timeouts` of a table. `inf` switches one off, because TOML has no null."""
    if isinstance(value, Timeouts):
        value = asdict(value)
    if isinstance(value, Mapping):
        value = {name: None if seconds == float("inf") else seconds for name, seconds in value.items()}
    return read_table(Timeouts, value, POSITIVE)


def timeouts_over(configured: Timeouts, given: Timeouts | Mapping[str, object] | None) -> Timeouts:
    """Returns the timeouts of a request: a `Timeouts` replaces the configured ones, a mapping some of them.

    Raises:
        ConfigError: an unknown timeout, or a value that is not greater than 0.
    """
    if given is None:
        return configured
    if not isinstance(given, Timeouts | Mapping):
        raise ConfigError(f'timeouts must be a Timeouts or a mapping such as {{"read": 5}}, not {type(given).__name__}')
    members = asdict(given) if isinstance(given, Timeouts) else given
    numbers = all(isinstance(value, float | int | None) for value in members.values())
    read = _over if numbers else _over.__wrapped__  # other values may have no hash, and are mistakes
    try:
        return read(configured, tuple(members), *members.values())
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        raise ConfigError(f"{toml_path(('timeouts', *path))}: {text}") from None


@lru_cache(maxsize=64, typed=True)
def _over(configured: Timeouts, names: tuple[str, ...], *seconds: object) -> Timeouts:
    """Reads the timeouts once that many requests have in common."""
    timeouts: Timeouts = read_timeouts({**asdict(configured), **dict(zip(names, seconds, strict=True))})
    return timeouts
