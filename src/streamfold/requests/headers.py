"""What can be sent in a header, and the option `extra_headers`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..values import ConfigError

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # https://www.rfc-editor.org/rfc/rfc9110#name-tokens


# They frame the message or belong to one connection: the HTTP library sets them.
_FRAMING = {
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


def header_name_problem(name: Any) -> str | None:
    """Returns why a header of this name can't be set; None if it can."""
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        return f"{name!r} can't be the name of a header"
    if name.lower() in _FRAMING:
        return f"{name} can't be set: it frames the message, and the HTTP library writes it"
    return None


def header_problem(value: Any) -> str | None:
    """Returns why a value can't be sent in a header, without quoting it; None if it can."""
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}"
    return (
        None if not value or (value.isascii() and value.isprintable()) else "has a character that a header can't carry"
    )


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Returns headers that can be sent. Raises ConfigError that names the wrong one and never quotes its value."""
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"extra_headers must be a mapping of names to strings, not {type(headers).__name__}")
    given: Mapping[Any, Any] = headers or {}
    for name, value in given.items():
        if problem := header_name_problem(name):
            raise ConfigError(f"extra_headers: {problem}")
        if problem := header_problem(value):
            raise ConfigError(f"extra_headers.{name}: {problem}")
    return dict(given)
