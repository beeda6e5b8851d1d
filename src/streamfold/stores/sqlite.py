"""`SQLiteStore`: a store in an SQLite file that only the current user may read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import random
from threading import Lock, RLock
from time import monotonic, sleep, time
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .shared_files import ProcessLiveness
from .store import TIED, Retention, by_record, full, split_key
from .threaded import ThreadedStore

if TYPE_CHECKING:
    import sqlite3

_PATIENCE = 10  # seconds to wait for another process
_SHORTLY = 1.0  # the same, where an answer waits
_creating = Lock()  # a thread must not open a file that another one is just creating
# Triggers update NAME_total and NAME_owners, so that a process that is killed leaves no wrong counts.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS {name}_records (
    owner TEXT NOT NULL, key TEXT NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {name}_used ON {name}_records (used);
CREATE INDEX IF NOT EXISTS {name}_oldest ON {name}_records (owner, used);
CREATE TABLE IF NOT EXISTS {name}_values (
    owner TEXT NOT NULL, key TEXT NOT NULL, part TEXT NOT NULL, value BLOB NOT NULL, UNIQUE (owner, key, part)
);
CREATE TABLE IF NOT EXISTS {name}_owners (
    owner TEXT PRIMARY KEY, entries INTEGER NOT NULL, size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {name}_most_entries ON {name}_owners (entries);
CREATE INDEX IF NOT EXISTS {name}_most_size ON {name}_owners (size);
CREATE TABLE IF NOT EXISTS {name}_total (one INTEGER PRIMARY KEY, entries INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS {name}_added AFTER INSERT ON {name}_records BEGIN
    INSERT INTO {name}_owners VALUES (NEW.owner, 1, NEW.size)
        ON CONFLICT DO UPDATE SET entries = entries + 1, size = size + NEW.size;
    INSERT INTO {name}_total VALUES (1, 1, NEW.size)
        ON CONFLICT DO UPDATE SET entries = entries + 1, size = size + NEW.size;
END;
CREATE TRIGGER IF NOT EXISTS {name}_grown AFTER UPDATE OF size ON {name}_records BEGIN
    UPDATE {name}_owners SET size = size + NEW.size - OLD.size WHERE owner = NEW.owner;
    UPDATE {name}_total SET size = size + NEW.size - OLD.size;
END;
CREATE TRIGGER IF NOT EXISTS {name}_removed AFTER DELETE ON {name}_records BEGIN
    DELETE FROM {name}_values WHERE owner = OLD.owner AND key = OLD.key;
    UPDATE {name}_owners SET entries = entries - 1, size = size - OLD.size WHERE owner = OLD.owner;
    DELETE FROM {name}_owners WHERE owner = OLD.owner AND entries = 0;
    UPDATE {name}_total SET entries = entries - 1, size = size - OLD.size;
END;
"""
_TOUCHED = 0.05  # part of the age after which another use of a record is written


class PrivateDatabase:
    """An SQLite file that several threads and processes can use, but only the current user may read. The first use
    opens the file.

    Args:
        schema: SQL statements that create missing tables.
        patience: the maximum time to wait for another process or thread, in seconds.
        durable: True if committed data must survive a power failure, at the price of slower commits.

    Raises:
        ConfigError: the folder of the file doesn't exist.

    Attributes:
        lock: a lock. A thread must hold the lock while it uses the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: str, *, patience: float = _PATIENCE, durable: bool = False
    ) -> None:
        self.path = Path(path).expanduser()
        if not self.path.parent.is_dir():
            raise ConfigError(f"there is no folder {str(self.path.parent)!r} for the database {self.path.name!r}")
        self._schema = schema
        self._patience = patience
        self._durable = durable
        self.lock = RLock()
        self._open: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, *, reads: bool = False) -> Iterator[sqlite3.Connection]:
        """Runs the block in a transaction. Commits it after the block, or rolls it back if the block raises an
        exception.

        Args:
            reads: True if the block only reads, so that the transaction needn't wait for writers.

        Raises:
            ConfigError: the file can't be opened, or isn't a database.
            sqlite3.Error: the database is locked, full or damaged.
        """
        with self.lock:
            if self._open is None:
                self._open = self._connect()
            database = self._open
            database.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file. The next use opens it again."""
        with self.lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _connect(self) -> sqlite3.Connection:
        import sqlite3  # imported here, because most programs don't need it

        with ExitStack() as stack:
            try:
                # A file that exists is not opened here: to close it would drop the locks that SQLite holds on it for
                # this process, and another one could delete its journal (https://www.sqlite.org/howtocorrupt.html).
                with _creating, suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                database = sqlite3.connect(
                    self.path, timeout=self._patience, isolation_level=None, check_same_thread=False
                )
                stack.callback(database.close)
                self._write_ahead(database)
                # With NORMAL, a killed process loses nothing, but a power failure loses the last commits.
                database.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            except (OSError, sqlite3.Error) as exc:
                raise ConfigError(f"the database {str(self.path)!r} can't be used: {exc}") from exc
            database.executescript(self._schema)
            stack.pop_all()  # the caller closes it
        return database

    def _write_ahead(self, database: sqlite3.Connection) -> None:
        """Switches to write-ahead logging. If other processes do this at the same time, SQLite raises an error at
        once, and this method tries again.
        """
        import sqlite3

        given_up = monotonic() + self._patience
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > given_up:
                    raise
            sleep(random() * 0.02)  # noqa: S311 - the others try again too


class SQLiteStore(ThreadedStore):
    """A `Store` in an SQLite file that only the current user may read. The first use opens the file.

    Args:
        path: the path of the file.
        retention: the limits of the store.
        clock: a function that returns the time in seconds since 1970. The store computes the age of records from it.
        table: a prefix for the names of the store's SQL tables. Stores with different prefixes share no records.
        present: True to create a locked file next to the database. Other processes can then find out with `runs`
            whether this process is still running.

    Raises:
        ConfigError: the folder of the file doesn't exist.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        retention: Retention | None = None,
        *,
        clock: Callable[[], float] = time,
        table: str = "kept",
        present: bool = False,
    ) -> None:
        super().__init__(retention, clock)
        schema = _SCHEMA.format(name=table)
        durable = not self._retention.evicts
        self._database = PrivateDatabase(path, schema, patience=_SHORTLY, durable=durable)
        self._reader = PrivateDatabase(path, schema, patience=_SHORTLY)  # doesn't wait for writers
        self._table = table
        self._present = present
        self._presence: ProcessLiveness | None = None  # while it is open

    def failures(self) -> tuple[type[Exception], ...]:
        import sqlite3

        return (sqlite3.Error, OSError, ConfigError)

    def get_now(self, owner: str, keys: list[str]) -> Mapping[str, bytes]:
        names = dict.fromkeys(split_key(key)[0] for key in keys)
        with self._open(reads=True) as database:
            used = {name: at for name in names if (at := self._used(database, owner, name)) is not None}
            found = self._found(database, owner, keys)
        self._touch(owner, used)
        return found

    def put_now(self, owner: str, values: dict[str, bytes], new: bool, ahead: float) -> bool:
        records = dict(by_record(values))
        now = self._clock()
        with self._open() as database:
            if new and self._found(database, owner, list(values)):
                return False
            for name, parts in records.items():
                self._add(database, owner, name, parts, now + ahead)
            self._forget(database, now)
            return all(self._used(database, owner, name) is not None for name in records)

    def parts_now(self, owner: str, key: str, after: str) -> Mapping[str, bytes]:
        found = f"SELECT part, value FROM {self._table}_values WHERE owner = ? AND key = ? AND part > ? ORDER BY part"  # noqa: S608
        with self._open(reads=True) as database:
            used = self._used(database, owner, key)
            parts = {} if used is None else dict(database.execute(found, (owner, key, after)))
        if used is not None:
            self._touch(owner, {key: used})
        return parts

    def delete_now(self, owner: str, key: str) -> bool:
        with self._open() as database:
            known = self._used(database, owner, key) is not None
            database.execute(f"DELETE FROM {self._table}_records WHERE owner = ? AND key = ?", (owner, key))  # noqa: S608
            return known

    def runs_now(self, name: str) -> bool:
        return ProcessLiveness.runs(self._database.path, name)

    def close_now(self) -> None:
        self._reader.close()
        with self._database.lock:
            self._database.close()
            if self._presence is not None:
                self._presence.close()
                self._presence = None

    def __repr__(self) -> str:
        return f"<SQLiteStore {str(self._database.path)!r}>"

    @contextmanager
    def _open(self, *, reads: bool = False) -> Iterator[sqlite3.Connection]:
        import sqlite3

        try:
            with (self._reader if reads else self._database).transaction(reads=reads) as database:
                if self._present and self._presence is None and not reads:
                    self._presence = ProcessLiveness(self._database.path, self.name)
                yield database
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY:  # the file may be replaced
                (self._reader if reads else self._database).close()
            raise

    def _used(self, database: sqlite3.Connection, owner: str, key: str) -> float | None:
        found = f"SELECT used FROM {self._table}_records WHERE owner = ? AND key = ? AND used >= ?"  # noqa: S608
        row = database.execute(found, (owner, key, self._clock() - self._retention.age)).fetchone()
        return None if row is None else float(row[0])

    def _found(self, database: sqlite3.Connection, owner: str, keys: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        value = f"SELECT value FROM {self._table}_values WHERE owner = ? AND key = ? AND part = ?"  # noqa: S608
        for key in keys:
            name, part = split_key(key)
            if self._used(database, owner, name) is not None:
                row = database.execute(value, (owner, name, part)).fetchone()
                if row is not None:
                    found[key] = row[0]
        return found

    def _touch(self, owner: str, used: Mapping[str, float]) -> None:
        now, seldom = self._clock(), self._retention.age * _TOUCHED
        late = [name for name, at in used.items() if at < now - seldom]
        if late:
            written = f"UPDATE {self._table}_records SET used = ? WHERE owner = ? AND key = ? AND used < ?"  # noqa: S608
            import sqlite3

            with suppress(sqlite3.OperationalError), self._open() as database:  # the values were read anyway
                database.executemany(written, [(now, owner, name, now) for name in late])

    def _add(self, database: sqlite3.Connection, owner: str, name: str, parts: dict[str, bytes], used: float) -> None:
        table, grown = self._table, 0
        known = f"INSERT INTO {table}_records VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
        database.execute(known, (owner, name, used, len(name)))
        for part, value in parts.items():
            before = f"SELECT length(value) FROM {table}_values WHERE owner = ? AND key = ? AND part = ?"  # noqa: S608
            row = database.execute(before, (owner, name, part)).fetchone()
            grown += len(part) + len(value) if row is None else len(value) - row[0]
            database.execute(f"REPLACE INTO {table}_values VALUES (?, ?, ?, ?)", (owner, name, part, value))  # noqa: S608
        grows = f"UPDATE {table}_records SET used = ?, size = size + ? WHERE owner = ? AND key = ?"  # noqa: S608
        database.execute(grows, (used, grown, owner, name))

    def _forget(self, database: sqlite3.Connection, now: float) -> None:
        table, retention = self._table, self._retention
        database.execute(f"DELETE FROM {table}_records WHERE used < ?", (now - retention.age,))  # noqa: S608
        while True:
            total = database.execute(f"SELECT entries, size FROM {table}_total").fetchone()  # noqa: S608
            entries, size = total or (0, 0)
            if entries <= retention.entries and size <= retention.size:
                return
            if not retention.evicts:  # the transaction is rolled back
                raise full(self)
            much = "entries" if entries > retention.entries else "size"
            most = f"SELECT owner FROM {table}_owners WHERE {much} = (SELECT max({much}) FROM {table}_owners) LIMIT ?"  # noqa: S608
            oldest = f"SELECT used, owner, key FROM {table}_records WHERE owner = ? ORDER BY used LIMIT 1"  # noqa: S608
            tied = database.execute(most, (TIED,)).fetchall()
            _, owner, key = min(database.execute(oldest, row).fetchone() for row in tied)
            database.execute(f"DELETE FROM {table}_records WHERE owner = ? AND key = ?", (owner, key))  # noqa: S608
