"""Store URLs ("memory", "sqlite:///PATH", "valkey://HOST:PORT") and the table [rate_limits]."""

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
    """Raises ValueError if a text isn't the URL of a store. The error never contains passwords."""
    check_references(where)
    scheme, _, rest = where.partition("://")
    if where == "memory" or variable_names(scheme):
        return
    if scheme not in STORE_SCHEMES:
        hint = did_you_mean(scheme, STORE_SCHEMES) if len(scheme) < 20 else ""
        raise ValueError(f"must be memory, sqlite:///PATH or valkey://HOST:PORT{hint}")
    if scheme in ("memory", "sqlite") and not (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1):
        raise ValueError("must be memory, or sqlite:/// and a path (one more slash begins an absolute path)")
    host = None
    with suppress(ValueError):
        host = urlsplit(where).hostname
    if scheme not in ("memory", "sqlite") and not variable_names(rest) and not host:
        raise ValueError(f"must name a server, as in {scheme}://127.0.0.1:6379")


def store_place(where: str, what: str) -> tuple[str, str]:
    """Returns the scheme and the rest of a store's URL. Raises ConfigError, which begins with `what`."""
    try:
        check_store(where)
    except ValueError as exc:
        raise ConfigError(f"{what} {exc}") from None
    scheme, _, rest = where.partition("://")
    return scheme, rest


def is_shared_store(where: str) -> bool:
    """Returns whether processes in other folders and on other machines can reach a store by its URL.

    A file counts if its path is absolute: then at least the processes of one machine can.
    """
    scheme, _, rest = where.partition("://")
    return scheme != "memory" and (scheme != "sqlite" or rest.startswith("//"))


def store_url(where: str, what: str = "memory") -> str:
    """Replaces environment variables in a store's URL. Raises NotConfiguredError for an unset variable."""
    return expand_variables(where, lambda variable: variable_value(variable, what))


def _read(value: Any) -> Any:
    if isinstance(value, str):
        check_store(value)
    elif not isinstance(value, bool):
        raise ValueError('must be true, false or a store: "memory", "sqlite:///PATH", "valkey://HOST:PORT"')
    return value


StoreName = Annotated[str | bool, BeforeValidator(_read)]


class RateLimitSettings(Table):
    """The `[rate_limits]` table of `streamfold.toml`, which configures the store of all providers' rate limits.

    Attributes:
        store: "memory" for one process; "sqlite:///limits.db" for all processes of a machine, with budgets that survive
            a restart; "valkey://host:6379" or "redis://host:6379" for several machines. The URL may contain environment
            variables.
        on_store_error: the behaviour while the store fails. With "local", each process counts alone, with the limits
            divided by `replicas`. With "refuse", requests fail.
        replicas: the number of processes that share the store.
    """

    store: Annotated[str, validated_by(check_store)] = "memory"
    on_store_error: Literal["local", "refuse"] = "local"
    replicas: PositiveCount = 1

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, shown_url(value) if name == "store" else value
