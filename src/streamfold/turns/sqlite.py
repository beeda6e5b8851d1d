"""Turns in an SQLite file: they are there again when the process is started again, and other processes share them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from time import time

import anyio.to_thread

from ..stores import PrivateDatabase, close_in_thread
from .store import Retention

__all__ = ["SQLiteTurnStore"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS {name} (key TEXT PRIMARY KEY, value BLOB NOT NULL, used REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {name}_used ON {name} (used);
CREATE TABLE IF NOT EXISTS {name}_size (entries INTEGER NOT NULL, size INTEGER NOT NULL);
INSERT INTO {name}_size SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM {name}_size);
CREATE TRIGGER IF NOT EXISTS {name}_added AFTER INSERT ON {name} BEGIN
    UPDATE {name}_size SET entries = entries + 1, size = size + length(NEW.key) + length(NEW.value);
END;
CREATE TRIGGER IF NOT EXISTS {name}_removed AFTER DELETE ON {name} BEGIN
    UPDATE {name}_size SET entries = entries - 1, size = size - length(OLD.key) - length(OLD.value);
END;
"""
_MOST_VARIABLES = 500  # of one statement; SQLite allows at least 999
_TOUCHED = 0.05  # a use is written down when this part of the age has passed since the last one


class SQLiteTurnStore:
    """Keeps turns in an SQLite file. The file is opened when it is first needed, and read and written in threads.

    Args:
        path: the file. Only this user may read it.
        retention: how much is kept.
        clock: what the age goes by, in seconds since 1970.
        name: the table. Stores with other names have other entries and sizes.

    Raises:
        ConfigError: there is no folder for the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        retention: Retention | None = None,
        *,
        clock: Callable[[], float] = time,
        name: str = "turns",
    ) -> None:
        self._database = PrivateDatabase(path, _SCHEMA.format(name=name))
        self._retention = retention or Retention()
        self._clock = clock
        self._table = name

    async def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known. Raises ConfigError, sqlite3.Error."""
        return await anyio.to_thread.run_sync(self._get, list(keys))

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Keeps entries. A key that is known gets the new value. Raises ConfigError, sqlite3.Error."""
        await anyio.to_thread.run_sync(self._put, dict(entries))

    async def aclose(self) -> None:
        """Closes the file. It is opened again when it is needed again."""
        await close_in_thread(self._database.close)

    def _get(self, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        now, age, table = self._clock(), self._retention.age, self._table
        with self._database.transaction() as database:
            for start in range(0, len(keys), _MOST_VARIABLES):
                some = keys[start : start + _MOST_VARIABLES]
                among = f"key IN ({','.join('?' * len(some))})"
                query = f"SELECT key, value FROM {table} WHERE {among} AND used >= ?"  # noqa: S608
                rows = database.execute(query, (*some, now - age))
                found.update(rows)
                touched = (now, *some, now - age * _TOUCHED, now - age)
                database.execute(f"UPDATE {table} SET used = ? WHERE {among} AND used < ? AND used >= ?", touched)  # noqa: S608
        return found

    def _put(self, entries: dict[str, bytes]) -> None:
        now, table = self._clock(), self._table
        with self._database.transaction() as database:
            for key, value in entries.items():
                database.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608
                database.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (key, value, now))  # noqa: S608
            database.execute(f"DELETE FROM {table} WHERE used < ?", (now - self._retention.age,))  # noqa: S608
            while True:
                entries_now, size = database.execute(f"SELECT entries, size FROM {table}_size").fetchone()  # noqa: S608
                if entries_now <= 2 * self._retention.entries and size <= self._retention.size:
                    break
                oldest = f"SELECT key FROM {table} ORDER BY used LIMIT 1"  # noqa: S608
                database.execute(f"DELETE FROM {table} WHERE key IN ({oldest})")  # noqa: S608
