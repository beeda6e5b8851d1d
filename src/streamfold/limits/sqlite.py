"""Counts requests, tokens and costs in an SQLite file that the processes on one machine share. Budgets survive a
restart.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from ..errors import ConfigError, LimitStoreError
from ..stores import PrivateDatabase
from .limit_state import DAY, Batch, BatchAnswer, apply, read_state, written_state
from .stores import LimitStore

_SHORTLY = 1.0  # seconds to wait for another process
_SCHEMA = """
CREATE TABLE IF NOT EXISTS limits (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    name TEXT NOT NULL, holder TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (name, holder)
) WITHOUT ROWID;
"""


class SQLiteLimitStore(LimitStore):
    """Counts requests, tokens and costs in an SQLite file. Only the current user may read the file. The first use opens
    the file.

    Args:
        path: the path of the file.
        clock: a function that returns the time in seconds since 1970.

    Raises:
        ConfigError: the folder of the file doesn't exist.
    """

    prefetch_seconds = 0.02
    lease_seconds = 15.0

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._database = PrivateDatabase(path, _SCHEMA, patience=_SHORTLY)
        self._clock = clock

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        import sqlite3

        key = (name, batch.holder)
        try:
            with self._database.transaction() as database:
                last = database.execute(
                    "SELECT number, answer FROM batches WHERE name = ? AND holder = ?", key
                ).fetchone()
                if batch.number and last is not None and last[0] >= batch.number:
                    return BatchAnswer.from_text(last[1], batch)
                row = database.execute("SELECT state FROM limits WHERE name = ?", (name,)).fetchone()
                state, now = read_state(_json(row[0]) if row else {}), self._clock()
                seen = state.get("seen", 0.0)
                answer = apply(state, now, batch)
                if batch.number and not batch.leaves:
                    values = (*key, batch.number, now, answer.to_text())
                    database.execute("REPLACE INTO batches VALUES (?, ?, ?, ?, ?)", values)
                elif batch.leaves:
                    database.execute("DELETE FROM batches WHERE name = ? AND holder = ?", key)
                if now // DAY != seen // DAY:  # once a day
                    old = (name, batch.holder, min(now, seen) - DAY)
                    database.execute("DELETE FROM batches WHERE name = ? AND holder != ? AND at < ?", old)
                database.execute("REPLACE INTO limits VALUES (?, ?)", (name, json.dumps(written_state(state))))
                return answer
        except (sqlite3.Error, ConfigError) as exc:  # a file that is locked, or no database, when it is opened
            path = str(self._database.path)
            raise LimitStoreError(f"the limits in {path!r} can't be used: {exc}", retryable=True) from exc

    def close(self) -> None:
        self._database.close()

    def __repr__(self) -> str:
        return f"<SQLiteLimitStore {str(self._database.path)!r}>"


def _json(text: object) -> object:
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):  # written by another program
        return {}
