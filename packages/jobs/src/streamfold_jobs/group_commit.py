"""Writes to a ledger, committed in groups a few milliseconds apart: many rows share one wait for the disk.

The statements of a group are executed on the event loop's thread, where each takes a few microseconds, and only the
commit is left to another one: a thread that executes statements waits for Python's lock after each of them, and while
the loop is busy that is up to five milliseconds for a statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from .errors import JobPausedError

_GROUP = 0.005  # seconds between two commits
_MANY = 1000  # statements that would hold up the event loop


class GroupCommit:
    """What is to be written to a database. One task at a time commits it."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path = path
        self._db = database
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._told: list[Callable[[], None]] = []
        self._failure: Exception | None = None
        self._storing: anyio.Event | None = None  # set when the group that is being committed is on disk
        self._committed = anyio.Event()
        self._wanted = anyio.Event()

    def note(self, statement: str, values: tuple[Any, ...]) -> None:
        """Notes a statement. What is noted without an `await` in between is committed in one transaction."""
        if not self._waiting:
            self._wanted.set()
        self._waiting.append((statement, values))

    def tell(self, then: Callable[[], None]) -> None:
        """Calls a function when what was noted so far is on disk."""
        self._told.append(then)

    async def written(self) -> None:
        """Waits until all that was noted is on disk.

        Raises:
            JobPausedError: it can't be written. That is tried once more when `commit` ends.
        """
        if self._failure is None:
            if self._waiting:
                await self._committed.wait()
            elif self._storing is not None:
                await self._storing.wait()
        if self._failure is not None:
            problem = f"its ledger can't be written: {self._path}: {self._failure}"
            raise JobPausedError(f"the job has paused, because {problem}") from self._failure

    async def commit(self) -> None:
        """Commits what is noted, in groups, until it is cancelled or fails; what waits then is committed."""
        try:
            while self._failure is None:
                await self._wanted.wait()
                await anyio.sleep(_GROUP)
                await self._flush()
        finally:
            await self._flush()

    async def _flush(self) -> None:
        if not self._waiting:
            return
        group, self._waiting = self._waiting, []
        told, self._told = self._told, []
        committed, self._committed, self._wanted = self._committed, anyio.Event(), anyio.Event()
        self._storing = committed
        try:
            await self._store(group)
        except Exception as error:  # whatever it is, what waits is written later or asked again
            self._failure = error
            self._waiting, self._told = [*group, *self._waiting], [*told, *self._told]
        else:
            for then in told:
                then()
        self._storing = None
        committed.set()

    async def _store(self, group: list[tuple[str, tuple[Any, ...]]]) -> None:
        with anyio.CancelScope(shield=True):
            try:
                if len(group) > _MANY:
                    await anyio.to_thread.run_sync(self._execute, group)
                else:
                    self._execute(group)
                await anyio.to_thread.run_sync(self._db.commit)
            except BaseException:
                self._db.rollback()
                raise

    def _execute(self, group: list[tuple[str, tuple[Any, ...]]]) -> None:
        for statement, values in group:
            self._db.execute(statement, values)
