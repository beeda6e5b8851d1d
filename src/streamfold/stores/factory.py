"""Opens a store by its name, as configurations write it."""

from __future__ import annotations

from ..config import store_place
from .memory import MemoryStore
from .sqlite import SQLiteStore
from .store import Retention, Store
from .valkey import ValkeyStore
from .write_behind import WriteBehindStore


def open_store(where: str, retention: Retention | None = None, *, table: str = "kept", present: bool = False) -> Store:
    """Returns a store by its name.

    Args:
        where: "memory"; `sqlite:///PATH`, relative to the working directory, with a fourth slash an absolute path; or
            the URL of a Valkey or Redis server, `valkey://HOST:PORT/DATABASE`, with TLS `valkeys://`.
        retention: how much is kept.
        table: what is kept. In one file or database, stores with other tables have other records and sizes.
        present: let other processes know that this one runs, for `Store.runs`.

    Raises:
        ConfigError: it is none of them.
    """
    scheme, rest = store_place(where, f"the store of {table}")
    if scheme == "memory":
        return MemoryStore(retention)
    if scheme == "sqlite":
        return SQLiteStore(rest[1:], retention, table=table, present=present)
    return ValkeyStore(where, retention, table=table, present=present)


def persistent_store(where: str, retention: Retention | None = None, *, table: str, present: bool = False) -> Store:
    """Returns a store by its name, as `open_store`. While it can't be used, what is put there waits in this process."""
    store = open_store(where, retention, table=table, present=present)
    return store if isinstance(store, MemoryStore) else WriteBehindStore(store, retention)
