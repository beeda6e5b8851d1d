"""The ledger of a job: which rows were sent and what came back, in one SQLite file that survives a kill at any moment.

A row is marked as sent before its request is, and an answer is reported after it was committed: an answer that is in
the ledger is never asked for again, and what may be asked twice is what was marked as sent when the process died.
The file belongs on a local disk; one job writes to it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from streamfold import ConfigError, Cost, Usage
from streamfold.stores import locked_file

from . import tables
from .answers import Answer, JobSummary
from .group_commit import GroupCommit

_PAGE = 100  # answers that are read at once


class Ledger:
    """The ledger of one job. A context manager; close it at the end.

    Args:
        path: the file; it is made if there is none, unless it is only read.
        readonly: only read what is there, also while a job is running.

    Raises:
        ConfigError: the file is no ledger, or another job is writing to it.
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = Path(path)
        if readonly and not self.path.exists():
            raise ConfigError(f"{path}: there is no such ledger")
        self._lock = None if readonly else _lock(self.path)
        with ExitStack() as opened:
            if self._lock is not None:
                opened.callback(self._lock.close)
            self._db = _connect(self.path, readonly=readonly)
            opened.callback(self._db.close)
            # Whoever reads does not keep those waiting who write.
            self._writer = None if readonly else _connect(self.path, readonly=False)
            self._kept_open = opened.pop_all()
        self._commits = GroupCommit(self.path, self._writer or self._db)
        self._using = threading.Lock()  # the connection for reading is used by one thread at a time

    def begin(self, settings: Mapping[str, str]) -> None:
        """Notes what the job is, or checks that it is the one that was begun.

        Raises:
            ConfigError: this ledger is that of a job with other rows or other settings; the message names them.
        """
        with self._using, self._db:
            before = dict(self._db.execute("SELECT key, value FROM meta"))
            if not before:
                wanted = {"format": tables.FORMAT, **settings}
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", wanted.items())
                return
        changed = [name for name, value in settings.items() if before.get(name) != value]
        if changed:
            shown = "; ".join(
                f"{name} was {_short(before.get(name))} and is {_short(settings[name])}" for name in changed
            )
            raise ConfigError(
                f"{self.path}: this ledger belongs to another job: {shown}. Use the settings that it was begun with to"
                " go on, or another ledger to begin anew"
            )

    def states(self, count: int) -> bytearray:
        """Returns the state of each of so many rows: 0 for one that was never sent."""
        found = bytearray(count)
        with self._reading():
            for number, state in self._db.execute(tables.STATES, (count,)):
                found[number] = state
        return found

    def answers(self, start: int = 0, limit: int | None = None) -> Iterator[Answer]:
        """Yields the answers and errors in the order of the rows, beginning with the row `start`."""
        return islice(map(tables.read, self._ended_rows(start)), limit)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yields the numbers of the rows that have ended, and their lines of the output."""
        return ((found[0], tables.line_of(found)) for found in self._ended_rows(0))

    def _ended_rows(self, start: int) -> Iterator[tuple[Any, ...]]:
        while found := self.select(tables.ANSWERS, (start, _PAGE)):
            yield from found
            start = found[-1][0] + 1

    def counts(self) -> dict[str, int]:
        """Returns how many rows are `sent`, `done` and `error`."""
        return dict(zip(("sent", "done", "error"), map(int, self.select(tables.COUNTS)[0]), strict=True))

    def summary(self, rows: int) -> JobSummary:
        """Returns what all runs together have done, of so many rows."""
        counts = self.counts()
        ((read, written),), ((unpriced,),) = self.select(tables.TOKENS), self.select(tables.UNPRICED)
        found = JobSummary(rows, counts["done"], counts["error"], usage=Usage(read or 0, written or 0))
        found.recorded, found.unpriced = found.done + found.errors, unpriced
        with self._reading():
            costs = Counter(self._db.execute(tables.COSTS))
        for (amount, currency, estimated), count in costs.items():
            found.add_cost(Cost(Decimal(amount) * count, currency, estimated=bool(estimated)))
        return found

    def select(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows that a statement finds."""
        with self._reading():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._using:
            try:
                yield
            except sqlite3.Error as error:
                raise ConfigError(f"{self.path}: the ledger can't be read: {error}") from None

    def settings(self) -> dict[str, str]:
        """Returns what `begin` noted."""
        return dict(self.select("SELECT key, value FROM meta"))

    @property
    def shard(self) -> tuple[int, int]:
        """The shard whose rows it has: the first of them, and how many rows on the next is."""
        first, step = self.settings().get("shard", "0/1").split("/")
        return int(first), int(step)

    def sent(self, number: int, name: str) -> None:
        """Marks a row as sent."""
        self.note(tables.MARK, tables.mark(number, name))

    def not_sent(self, number: int) -> None:
        """Takes the mark back: the server refused to look at the request, and it was no try."""
        self.note(tables.UNMARK, (number,))

    def ended(self, answer: Answer, then: Callable[[Answer], None] | None = None) -> None:
        """Notes the answer of a row.

        Args:
            then: is called with the answer when it is on disk.
        """
        self.note(tables.END, tables.end(answer))
        self.note(tables.KEEP, tables.keep(answer))
        if then is not None:
            self._commits.tell(partial(then, answer))

    def note(self, statement: str, values: tuple[Any, ...]) -> None:
        """Notes a statement. What is noted without an `await` in between is committed in one transaction."""
        self._commits.note(statement, values)

    async def written(self) -> None:
        """Waits until all that was noted is on disk.

        Raises:
            JobPausedError: it can't be written.
        """
        await self._commits.written()

    async def commit(self) -> None:
        """Commits what is noted, in groups, until it is cancelled or fails; what waits then is committed."""
        await self._commits.commit()

    def close(self) -> None:
        """Closes the file."""
        with self._using:
            if self._writer is not None:
                self._writer.close()
            self._kept_open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    place = str(path)
    if readonly and not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        place = f"{path.absolute().as_uri()}?immutable=1"  # otherwise SQLite makes files beside it, to read it
    try:
        database = sqlite3.connect(place, check_same_thread=False, uri=place.startswith("file:"))
    except sqlite3.OperationalError as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        if readonly:
            database.execute("PRAGMA query_only = ON")
        else:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.executescript(tables.TABLES)
        found = dict(database.execute("SELECT key, value FROM meta WHERE key = 'format'"))
        if found.get("format", tables.FORMAT) != tables.FORMAT:
            raise ConfigError(f"{path}: this ledger was written by another version of streamfold")
    except sqlite3.DatabaseError as error:
        database.close()
        raise ConfigError(f"{path}: not a ledger that can be used: {error}") from None
    except BaseException:
        database.close()
        raise
    return database


def _lock(path: Path) -> IO[bytes]:
    """Returns an open file that keeps other jobs away until it is closed, also by the end of the process.

    It and the ledger are files that only this user may read, and no links that somebody else may have put there.
    """
    file = lock = path.with_name(f"{path.name}.lock")
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        with ExitStack() as stack:
            os.close(os.open(lock, flags, 0o600))
            held = stack.enter_context(locked_file(lock, "a+b"))
            file = path  # not before it is ours: to close a file drops the locks that SQLite has on it in this process
            os.close(os.open(path, flags, 0o600))
            stack.pop_all()
            return held
    except BlockingIOError:
        raise ConfigError(f"{path}: another job is using this ledger") from None
    except OSError as error:
        why = "it is a link; name the file that it leads to" if file.is_symlink() else error.strerror
        raise ConfigError(f"{file}: {why}") from None


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 60 else f"{text[:57]}..."
