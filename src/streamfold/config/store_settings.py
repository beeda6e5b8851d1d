"""Parses the URLs of stores, such as "memory", "sqlite:///PATH" or "valkey://HOST:PORT", and the table
`[rate_limits]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from ..errors import ConfigError, did_you_mean
from ..urls import check_references, expand_variables, shown_url, variable_names
from .environment import variable_value
from .tables import PositiveCount, Table, validated_by

STORE_SCHEMES = ("memory", "sqlite", "valkey", "valkeys", "redis", "rediss")


def check_store(where: str) -> None:
    """Raises ValueError if the argument isn't the URL of a store. The error message doesn't contain the URL's
    password.
    """
    check_references(where)
    scheme, _, rest = where.partition("://")
    if where == "memory" or variable_names(scheme):
        return
    if scheme not in STORE_SCHEMES:
        hint = did_you_mean(scheme, STORE_SCHEMES) if len(scheme) < 20 else ""
        raise ValueError(f"must be memory, sqlite:///PATH or valkey://HOST:PORT{hint}")
    if scheme in ("memory", "sqlite") and not (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
        raise ValueError("must be memory, or sqlite:/// and a path (for an absolute path, add a slash)")
    host = None
    with suppress(ValueError):
        host = urlsplit(where).hostname
    if scheme not in ("memory", "sqlite") and not variable_names(rest) and not host:
        raise ValueError(f"must name a server, as in {scheme}://127.0.0.1:6379")


def store_place(where: str, what: str) -> tuple[str, str]:
    """Returns the scheme of a store's URL, and the part after the scheme. Raises ConfigError; its message begins with
    `what`.
    """
    try:
        check_store(where)
    except ValueError as exc:
        raise ConfigError(f"{what} {exc}") from None
    scheme, _, rest = where.partition("://")
    return scheme, rest


def is_shared_store(where: str) -> bool:
    """Returns True if other processes can reach the same store by this URL.

    The result is True for a server, and for a file with an absolute path. A relative path points to different files in
    different working directories.
    """
    scheme, _, rest = where.partition("://")
    return scheme != "memory" and (scheme != "sqlite" or rest.startswith("//"))


def store_url(where: str, what: str = "memory") -> str:
    """Replaces environment variables in a store's URL with their values. Raises NotConfiguredError if a variable isn't
    set.
    """
    return expand_variables(where, lambda variable: variable_value(variable, what))


def _read(value: Any) -> Any:
    if isinstance(value, str):
        check_store(value)
    elif not isinstance(value, bool):
        raise ValueError('must be true, false or a store: "memory", "sqlite:///PATH", "valkey://HOST:PORT"')
    return value


StoreName = Annotated[str | bool, BeforeValidator(_read)]


class RateLimitSettings(Table):
    """The table `[rate_limits]` in `streamfold.toml`, which selects the store for all providers' rate limits.

    Attributes:
        store: the URL of the store. With "memory", each process counts only its own requests. With
            "sqlite:///limits.db", all processes on one machine share the counts, and budgets survive a restart. With
            "valkey://host:6379" or "redis://host:6379", several machines share the counts. The URL may contain
            environment variables.
        on_store_error: what happens while the store can't be used. With "local", each process counts only its own
            requests, with the limits divided by `replicas`. With "refuse", every request raises LimitStoreError.
        replicas: the number of processes that share the store.
    """

    store: Annotated[str, validated_by(check_store)] = "memory"
    on_store_error: Literal["local", "refuse"] = "local"
    replicas: PositiveCount = 1

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name == "store" else value
