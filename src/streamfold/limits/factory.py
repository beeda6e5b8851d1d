"""Opens a store by its name, and the session of a limiter."""

from __future__ import annotations

from typing import Literal

from ..config import store_place
from ..values import ConfigError
from .sessions import SharedLimitStore
from .sqlite import SQLiteLimitStore
from .stores import LimitStore, MemoryLimitStore, process_store
from .valkey import ValkeyLimitStore

_instead: list[str] = []  # where "memory" is, if it is not this process alone


def count_memory_in(where: str) -> None:
    """Counts elsewhere from now on what this process would count in memory: for processes that serve together.

    Args:
        where: see `open_limit_store`.
    """
    _instead[:] = [where]


def open_limit_store(where: str) -> LimitStore:
    """Returns a store by its name.

    Args:
        where: "memory": this process; `sqlite:///PATH`, relative to the working directory, with a fourth slash an
            absolute path: processes of this machine, and later ones; or the URL of a Valkey or Redis server,
            `valkey://HOST:PORT/DATABASE`, with TLS `valkeys://`.

    Raises:
        ConfigError: it is none of them.
    """
    if where == "memory" and _instead:
        where = _instead[0]
    scheme, rest = store_place(where, "the store of limits")
    if scheme == "memory":
        return process_store()
    return SQLiteLimitStore(rest[1:]) if scheme == "sqlite" else ValkeyLimitStore(where)


def shared_store(
    store: LimitStore | SharedLimitStore | str, on_error: Literal["local", "refuse"], replicas: int
) -> MemoryLimitStore | SharedLimitStore:
    """Returns a store, or one by its name, with a rule for the time in which it can't be used.

    Raises:
        ConfigError: a value is not allowed.
    """
    if on_error not in ("local", "refuse"):
        raise ConfigError(f"on_store_error: can't be {on_error!r}. Allowed: local, refuse")
    if type(replicas) is not int or replicas < 1:
        raise ConfigError(f"replicas must be a whole number above 0, not {replicas!r}")
    opened = open_limit_store(store) if isinstance(store, str) else store
    if isinstance(opened, MemoryLimitStore | SharedLimitStore):
        return opened
    return SharedLimitStore(opened, local=on_error == "local", replicas=replicas)
