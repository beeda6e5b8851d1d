"""Databases of our own are closed, whenever that is, and one that could not be opened is tried again."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamfold.limits.limit_state import Batch, Reserve
from streamfold.limits.sqlite import SQLiteLimitStore
from streamfold.stores import SQLiteStore, threaded


async def used(store: Any) -> None:
    if isinstance(store, SQLiteStore):
        assert await store.get("", ["a"]) == {}
    else:
        assert store.apply("a", Batch((Reserve(rate=10.0),))).grants[0] is not None


@pytest.mark.parametrize("kind", [SQLiteStore, SQLiteLimitStore])
async def test_a_task_that_was_cancelled_closes_its_databases(kind: Any, tmp_path: Path) -> None:
    """A program that is interrupted leaves no file open."""
    store = kind(tmp_path / "a.db")
    await used(store)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db"]  # SQLite removes what it needs while open


@pytest.mark.parametrize("kind", [SQLiteStore, SQLiteLimitStore])
async def test_a_database_that_could_not_be_opened_is_tried_again(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first failure is reported, nothing stays open, and the next use finds the tables."""
    monkeypatch.setattr(threaded, "RETRY_SECONDS", 0.0)
    opened: list[sqlite3.Connection] = []

    class Broken(sqlite3.Connection):
        def executescript(self, script: str) -> Any:
            raise sqlite3.OperationalError("disk I/O error")

    def broken(*args: Any, **settings: Any) -> sqlite3.Connection:
        opened.append(connect(*args, factory=Broken, **settings))
        return opened[-1]

    connect, store = sqlite3.connect, kind(tmp_path / "a.db")
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", broken)
        with pytest.raises(Exception, match="disk I/O error"):
            await used(store)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
    await used(store)
    await store.aclose()


async def test_processes_that_begin_with_a_new_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses some of them without the wait that they asked for: they try again."""
    refused = 0

    class Busy(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> Any:
            nonlocal refused
            if "journal_mode" in statement and refused < 3:
                refused += 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().execute(statement, *values)

    connect, store = sqlite3.connect, SQLiteStore(tmp_path / "a.db")
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **settings: connect(*args, factory=Busy, **settings))
    await used(store)
    await store.aclose()
    assert refused == 3


OTHER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute("SELECT count(*) FROM kept_records").fetchone()[0])
database.close()
"""


@pytest.mark.slow
async def test_another_process_that_closes_the_file_takes_nothing_away(tmp_path: Path) -> None:
    """The journal of those that go on stays: what they write is there for all, also after many have come and gone."""
    first, second = SQLiteStore(tmp_path / "a.db"), SQLiteStore(tmp_path / "a.db")
    for number in range(1, 4):
        for store in (first, second):  # reading and writing have connections of their own
            assert await store.put("me", {f"{store.name}-{number}": b"1"})
            assert await store.get("me", [f"{first.name}-{number}"])
        found = await anyio.run_process([sys.executable, "-c", OTHER, str(tmp_path / "a.db")])
        assert int(found.stdout) == 2 * number
        assert (tmp_path / "a.db-wal").exists()
    for store in (first, second):
        await store.aclose()
