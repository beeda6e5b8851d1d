"""Limits in an SQLite file: for the processes of one machine, and for budgets that outlive them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..stores import PrivateDatabase, close_in_thread
from .algorithm import Ask, Belief, Grant, Settlement, State, alive, believe, read, settle, take
from .errors import LimitStoreError
from .threads import ThreadedStore

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
        self._database = PrivateDatabase(path, _SCHEMA)
        self._clock = clock

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
        await close_in_thread(self._database.close)

    def __repr__(self) -> str:
        return f"<SQLiteLimitStore {str(self._database.path)!r}>"

    @contextmanager
    def _state(self, name: str) -> Iterator[State]:
        import sqlite3

        try:
            with self._database.transaction() as database:
                row = database.execute("SELECT state FROM limits WHERE name = ?", (name,)).fetchone()
                state = read(_json(row[0]) if row else {}, self._clock())
                yield state
                database.execute("REPLACE INTO limits VALUES (?, ?)", (name, json.dumps(state)))
        except sqlite3.Error as exc:
            raise LimitStoreError(
                f"the limits in {str(self._database.path)!r} can't be used: {exc}", retryable=True
            ) from exc


def _json(text: object) -> object:
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):  # somebody else wrote it
        return {}
