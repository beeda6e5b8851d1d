"""Limits in an SQLite file: for the processes of one machine, and for budgets that outlive them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import anyio.to_thread

from ...values import ConfigError
from ..databases import private_database
from .algorithm import Ask, Belief, Grant, Settlement, State, alive, believe, settle, take
from .errors import LimitStoreError
from .threads import ThreadedStore

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SQLiteLimitStore"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS limits (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID"


class SQLiteLimitStore(ThreadedStore):
    """Counts in an SQLite file, which only this user may read. It is opened when it is first needed.

    Args:
        path: the file.
        clock: seconds since 1970.

    Raises:
        ConfigError: there is no folder for the file.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._path = Path(path).expanduser()
        if not self._path.parent.is_dir():
            raise ConfigError(f"there is no folder {str(self._path.parent)!r} for the database {self._path.name!r}")
        self._clock = clock
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None

    def take_now(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests."""
        with self._state(name) as state:
            return take(state, self._clock(), ask)

    def settle_now(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used."""
        with self._state(name) as state:
            settle(state, self._clock(), settlement)

    def believe_now(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes what is believed about the rate."""
        with self._state(name) as state:
            believe(state, self._clock(), rest, belief)

    def alive(self, name: str, holder: str, held: int) -> None:
        """Notes that a holder of slots is alive."""
        with self._state(name) as state:
            alive(state, self._clock(), holder, held, self.lifetime)

    async def aclose(self) -> None:
        """Closes the file. It is opened again when it is needed again."""
        await anyio.to_thread.run_sync(self._close)

    def __repr__(self) -> str:
        return f"<SQLiteLimitStore {str(self._path)!r}>"

    @contextmanager
    def _state(self, name: str) -> Iterator[State]:
        import sqlite3

        try:
            with self._transaction() as database:
                row = database.execute("SELECT state FROM limits WHERE name = ?", (name,)).fetchone()
                state: State = json.loads(row[0]) if row else {}
                yield state
                database.execute("REPLACE INTO limits VALUES (?, ?)", (name, json.dumps(state)))
        except sqlite3.Error as exc:
            raise LimitStoreError(f"the limits in {str(self._path)!r} can't be used: {exc}", retryable=True) from exc

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._open is None:
                self._open = private_database(self._path)
                self._open.execute(_SCHEMA)
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield self._open
                self._open.execute("COMMIT")
            except BaseException:
                if self._open.in_transaction:
                    self._open.execute("ROLLBACK")
                raise

    def _close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None
