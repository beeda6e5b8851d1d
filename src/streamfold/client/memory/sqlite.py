"""Turns in an SQLite file: they are there again when the process is started again, and other processes share them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING

import anyio.to_thread

from ...values import ConfigError
from .store import StoreLimits

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SQLiteStore", "private_database"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (key TEXT PRIMARY KEY, value BLOB NOT NULL, used REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_used ON turns (used);
CREATE TABLE IF NOT EXISTS turns_size (entries INTEGER NOT NULL, size INTEGER NOT NULL);
INSERT INTO turns_size SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM turns_size);
CREATE TRIGGER IF NOT EXISTS turns_added AFTER INSERT ON turns BEGIN
    UPDATE turns_size SET entries = entries + 1, size = size + length(NEW.key) + length(NEW.value);
END;
CREATE TRIGGER IF NOT EXISTS turns_removed AFTER DELETE ON turns BEGIN
    UPDATE turns_size SET entries = entries - 1, size = size - length(OLD.key) - length(OLD.value);
END;
"""
_MOST_VARIABLES = 500  # of one statement; SQLite allows at least 999
_TOUCHED = 0.05  # a use is written down when this part of the age has passed since the last one


def private_database(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Opens a database that only this user may read, for use by several threads, one at a time.

    Raises:
        ConfigError: it can't be opened, or is not a database.
    """
    import sqlite3  # most programs need none

    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a power cut the last moment
    except (OSError, sqlite3.Error) as exc:
        raise ConfigError(f"the database {str(path)!r} can't be used: {exc}") from exc
    return database


class SQLiteStore:
    """Keeps turns in an SQLite file. The file is opened when it is first needed, and read and written in threads.

    Args:
        path: the file. Only this user may read it.
        limits: how much is kept.
        clock: what the age goes by, in seconds since 1970.

    Raises:
        ConfigError: there is no folder for the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], limits: StoreLimits | None = None, *, clock: Callable[[], float] = time
    ) -> None:
        self._path = Path(path).expanduser()
        if not self._path.parent.is_dir():
            raise ConfigError(f"there is no folder {str(self._path.parent)!r} for the database {self._path.name!r}")
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None

    async def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known. Raises ConfigError, sqlite3.Error."""
        return await anyio.to_thread.run_sync(self._get, list(keys))

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Keeps entries. A key that is known gets the new value. Raises ConfigError, sqlite3.Error."""
        await anyio.to_thread.run_sync(self._put, dict(entries))

    async def aclose(self) -> None:
        """Closes the file. It is opened again when it is needed again."""
        await anyio.to_thread.run_sync(self._close)

    def _get(self, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        now, age = self._clock(), self._limits.age
        with self._transaction() as database:
            for start in range(0, len(keys), _MOST_VARIABLES):
                some = keys[start : start + _MOST_VARIABLES]
                among = f"key IN ({','.join('?' * len(some))})"
                rows = database.execute(f"SELECT key, value FROM turns WHERE {among} AND used >= ?", (*some, now - age))  # noqa: S608
                found.update(rows)
                touched = (now, *some, now - age * _TOUCHED, now - age)
                database.execute(f"UPDATE turns SET used = ? WHERE {among} AND used < ? AND used >= ?", touched)  # noqa: S608
        return found

    def _put(self, entries: dict[str, bytes]) -> None:
        now = self._clock()
        with self._transaction() as database:
            for key, value in entries.items():
                database.execute("DELETE FROM turns WHERE key = ?", (key,))
                database.execute("INSERT INTO turns VALUES (?, ?, ?)", (key, value, now))
            database.execute("DELETE FROM turns WHERE used < ?", (now - self._limits.age,))
            while True:
                entries_now, size = database.execute("SELECT entries, size FROM turns_size").fetchone()
                if entries_now <= 2 * self._limits.entries and size <= self._limits.size:
                    break
                oldest = "SELECT key FROM turns ORDER BY used LIMIT 1"
                database.execute(f"DELETE FROM turns WHERE key IN ({oldest})")  # noqa: S608

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._open is None:
                self._open = private_database(self._path)
                self._open.executescript(_SCHEMA)
            self._open.execute("BEGIN IMMEDIATE")
            try:
                yield self._open
            except BaseException:
                self._open.execute("ROLLBACK")
                raise
            self._open.execute("COMMIT")

    def _close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None
