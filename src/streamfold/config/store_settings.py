"""Where something is to be kept: the grammar that providers and the gateway share, `"sqlite:///turns.db"`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from ..text import check_references, expand_variables, variable_names
from ..values import ConfigError, did_you_mean
from .environment import variable_value

STORE_SCHEMES = ("memory", "sqlite", "valkey", "valkeys", "redis", "rediss")


def check_store(where: str) -> None:
    """Raises ValueError if a text does not say where something can be kept. The error does not quote passwords."""
    check_references(where)
    scheme, _, rest = where.partition("://")
    if where == "memory" or variable_names(scheme):
        return
    if scheme not in STORE_SCHEMES:
        hint = did_you_mean(scheme, STORE_SCHEMES) if len(scheme) < 20 else ""
        raise ValueError(f"must be memory, sqlite:///PATH or valkey://HOST:PORT{hint}")
    if scheme in ("memory", "sqlite") and not (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
        raise ValueError("must be memory, or sqlite:/// and a path (one more slash begins an absolute path)")
    if scheme not in ("memory", "sqlite") and not variable_names(rest) and not _host(where):
        raise ValueError(f"must name a server, as in {scheme}://127.0.0.1:6379")


def store_place(where: str, what: str) -> tuple[str, str]:
    """Returns the scheme of a store, and the rest of its URL. Raises ConfigError that begins with `what`."""
    try:
        check_store(where)
    except ValueError as exc:
        raise ConfigError(f"{what} {exc}") from None
    scheme, _, rest = where.partition("://")
    return scheme, rest


def store_url(where: str, what: str = "memory") -> str:
    """Returns the text with the values of its variables. Raises NotConfiguredError for one that is not set."""
    return expand_variables(where, lambda variable: variable_value(variable, what))


def _host(where: str) -> str | None:
    try:
        return urlsplit(where).hostname
    except ValueError:
        return None


def _read(value: Any) -> Any:
    if isinstance(value, str):
        check_store(value)
    elif not isinstance(value, bool):
        raise ValueError('must be true, false, or where it is kept: "memory", "sqlite:///PATH", "valkey://HOST:PORT"')
    return value


StoreName = Annotated[str | bool, BeforeValidator(_read)]
