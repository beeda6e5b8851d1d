"""Responses in an SQLite file: several processes share them, and those of one that was killed are not lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio.to_thread

from ...stores import Presence, PrivateDatabase, close_in_thread
from .events import FINAL, KeptEvent, broken_off
from .store import KeptResponse, ResponseRetention

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SQLiteResponses"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, items TEXT NOT NULL, previous TEXT, response TEXT NOT NULL,
    resumable INTEGER NOT NULL, ended INTEGER NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS responses_used ON responses (used);
CREATE TABLE IF NOT EXISTS response_events (
    id TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (id, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS response_writers (
    id TEXT PRIMARY KEY, writer TEXT NOT NULL, given_up INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""
_STOPPED = {
    "code": "server_error",
    "message": "the gateway was stopped while the answer was under way; this is what had come of it",
}


class SQLiteResponses:
    """Keeps responses in an SQLite file, which several processes of one machine may use together.

    Answers that a process was making when it was killed are ended, as `failed`, by the next one that looks at them.

    Args:
        path: the file. Only this user may read it.
        limits: how much is kept.
        clock: what the age goes by, in seconds since 1970.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        limits: ResponseRetention | None = None,
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        self._database = PrivateDatabase(path, _SCHEMA)
        self._limits = limits or ResponseRetention()
        self._clock = clock
        self._name = uuid4().hex
        self._presence: Presence | None = None  # while it is open

    async def put(self, kept: KeptResponse) -> None:
        """Keeps a response. Raises ConfigError, sqlite3.Error, as all methods do."""
        await anyio.to_thread.run_sync(self._put, kept)

    async def append(self, response_id: str, events: Sequence[KeptEvent], response: dict[str, Any] | None) -> None:
        """Adds events to a response, and its new state if they tell one."""
        await anyio.to_thread.run_sync(self._append, response_id, events, response)

    async def get(self, response_id: str, owner: str) -> KeptResponse | None:
        """Returns a response of this owner; None if there is none."""
        return await anyio.to_thread.run_sync(self._get, response_id, owner)

    async def events(self, response_id: str, after: int) -> list[KeptEvent]:
        """Returns the events with a higher number."""
        return await anyio.to_thread.run_sync(self._events, response_id, after)

    async def delete(self, response_id: str, owner: str) -> bool:
        """Forgets a response. Returns whether there was one."""
        return await anyio.to_thread.run_sync(self._delete, response_id, owner)

    async def cancel(self, response_id: str) -> None:
        """Asks the process that makes a response to give it up."""
        await anyio.to_thread.run_sync(self._cancel, response_id)

    async def wanted(self, response_id: str) -> bool:
        """Returns whether a response that is made here is to go on: nobody has cancelled or deleted it elsewhere."""
        return await anyio.to_thread.run_sync(self._wanted, response_id)

    async def aclose(self) -> None:
        """Closes the file. It is opened again when it is needed again."""
        await close_in_thread(self._close)

    def _put(self, kept: KeptResponse) -> None:
        items, response = json.dumps(kept.items), json.dumps(kept.response)
        row = (kept.id, kept.owner, items, kept.previous, response, kept.resumable, kept.ended, self._clock())
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, len(items)))
            if not kept.ended and self._presence is not None:
                mine = (kept.id, self._name)
                database.execute("INSERT OR REPLACE INTO response_writers (id, writer) VALUES (?, ?)", mine)
            self._forget(database)

    def _append(self, response_id: str, events: Sequence[KeptEvent], response: dict[str, Any] | None) -> None:
        with self._transaction() as database:
            self._write(database, response_id, events, response)

    def _write(
        self, database: sqlite3.Connection, response_id: str, events: Sequence[KeptEvent], response: Any
    ) -> None:
        size = sum(len(kept.data) for kept in events)
        if not database.execute("UPDATE responses SET size = size + ? WHERE id = ?", (size, response_id)).rowcount:
            return
        rows = [(response_id, kept.number, kept.data, kept.last) for kept in events]
        database.executemany("INSERT OR REPLACE INTO response_events VALUES (?, ?, ?, ?)", rows)
        if response is not None:
            state = (json.dumps(response), response["status"] in FINAL, response_id)
            database.execute("UPDATE responses SET response = ?, ended = ? WHERE id = ?", state)
            if state[1]:
                database.execute("DELETE FROM response_writers WHERE id = ?", (response_id,))

    def _get(self, response_id: str, owner: str) -> KeptResponse | None:
        with self._transaction() as database:
            self._forget(database)
            self._end_stopped(database, "id = ? AND NOT ended", response_id)
            found = "SELECT items, previous, response, resumable FROM responses WHERE id = ? AND owner = ?"
            row = database.execute(found, (response_id, owner)).fetchone()
            if row is None:
                return None
            database.execute("UPDATE responses SET used = ? WHERE id = ?", (self._clock(), response_id))
        items, previous, response, resumable = row
        return KeptResponse(response_id, owner, json.loads(items), previous, json.loads(response), bool(resumable))

    def _events(self, response_id: str, after: int) -> list[KeptEvent]:
        with self._transaction() as database:
            return self._read(database, response_id, after)

    def _read(self, database: sqlite3.Connection, response_id: str, after: int = -1) -> list[KeptEvent]:
        found = "SELECT number, data, last FROM response_events WHERE id = ? AND number > ? ORDER BY number"
        return [
            KeptEvent(number, data, bool(last)) for number, data, last in database.execute(found, (response_id, after))
        ]

    def _delete(self, response_id: str, owner: str) -> bool:
        with self._transaction() as database:
            gone = database.execute("DELETE FROM responses WHERE id = ? AND owner = ?", (response_id, owner)).rowcount
            if gone:
                database.execute("DELETE FROM response_events WHERE id = ?", (response_id,))
                database.execute("DELETE FROM response_writers WHERE id = ?", (response_id,))
            return bool(gone)

    def _cancel(self, response_id: str) -> None:
        with self._transaction() as database:
            database.execute("UPDATE response_writers SET given_up = 1 WHERE id = ?", (response_id,))

    def _wanted(self, response_id: str) -> bool:
        with self._transaction() as database:
            found = "SELECT given_up FROM response_writers WHERE id = ?"
            return bool(database.execute(found, (response_id,)).fetchone() == (0,))

    def _forget(self, database: sqlite3.Connection) -> None:
        limits = self._limits
        stale = database.execute("SELECT id FROM responses WHERE ended AND used < ?", (self._clock() - limits.age,))
        gone = [response_id for (response_id,) in stale]
        count, size = database.execute("SELECT count(*), coalesce(sum(size), 0) FROM responses").fetchone()
        oldest = database.execute("SELECT id, size FROM responses WHERE ended ORDER BY used").fetchall()
        for response_id, freed in oldest if count > limits.responses or size > limits.size else ():
            if count <= limits.responses and size <= limits.size:
                break
            gone.append(response_id)
            count, size = count - 1, size - freed
        for response_id in gone:
            database.execute("DELETE FROM responses WHERE id = ?", (response_id,))
            database.execute("DELETE FROM response_events WHERE id = ?", (response_id,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._database.transaction() as database:
            if self._presence is None:
                with ExitStack() as begun:
                    self._presence = Presence(self._database.path, self._name)
                    begun.callback(self._leave)
                    self._end_stopped(database, "NOT ended")
                    begun.pop_all()
            yield database

    def _end_stopped(self, database: sqlite3.Connection, where: str, *values: Any) -> None:
        """Ends the answers that nobody writes any more."""
        found = f"SELECT id, response, writer FROM responses LEFT JOIN response_writers USING (id) WHERE {where}"  # noqa: S608
        for response_id, response, writer in database.execute(found, values).fetchall():
            if writer is None or not self._runs(writer):
                events = self._read(database, response_id)
                ended, last = broken_off(json.loads(response), events, "failed", error=_STOPPED)
                self._write(database, response_id, [last], ended)

    def _runs(self, writer: str) -> bool:
        return writer == self._name or Presence.runs(self._database.path, writer)

    def _close(self) -> None:
        with self._database.lock:
            self._database.close()
            self._leave()

    def _leave(self) -> None:
        if self._presence is not None:
            self._presence.close()
            self._presence = None
