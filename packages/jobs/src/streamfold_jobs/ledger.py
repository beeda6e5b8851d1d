"""The ledger: an SQLite file in which a job records the sent rows and the answers.

The job marks a row as sent before it sends the row's request, and delivers an answer after it has committed the answer
to the file. So only rows that were in flight when the process died may be sent a second time. The file must be on a
local disk, and only one job may write to it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import time
from typing import IO, Any, Self

import anyio
import anyio.to_thread

from streamfold import ConfigError, Usage
from streamfold.stores import locked_file

from .answers import Answer, JobSummary, cost_members, encoded, read_cost
from .settings import JobPausedError

SENT, DONE, ERROR = 1, 2, 3  # the states of a row in memory; 0: never sent
_PAGE = 100  # number of answers in each read
_GROUP = 0.005  # seconds between two commits
_MANY = 1000  # number of statements above which they would block the event loop
_FORMAT = "3"
# A continued job reads the table `row`, but not `answer`, so it starts fast even if the answers are large.
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS row (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, tries INTEGER NOT NULL, seconds REAL, at REAL,
    input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER,
    cache_write_tokens INTEGER, cost TEXT, currency TEXT, source TEXT, date TEXT, estimated INTEGER, batch TEXT
);
CREATE TABLE IF NOT EXISTS answer (n INTEGER PRIMARY KEY, line TEXT NOT NULL);
"""
_MARK = (
    "INSERT INTO row (n, id, state, tries, at) VALUES (?, ?, 'sent', 1, ?)"
    " ON CONFLICT (n) DO UPDATE SET state = 'sent', tries = tries + 1, at = excluded.at"
)
_UNMARK = "UPDATE row SET state = '', tries = tries - 1 WHERE n = ?"
_END = (
    "INSERT INTO row (n, id, state, tries, seconds, at, input_tokens, output_tokens, total_tokens, cached_tokens,"
    " reasoning_tokens, cache_write_tokens, cost, currency, source, date, estimated)"
    " VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (n) DO UPDATE SET state = excluded.state,"
    " seconds = excluded.seconds, at = excluded.at, input_tokens = excluded.input_tokens,"
    " output_tokens = excluded.output_tokens, total_tokens = excluded.total_tokens,"
    " cached_tokens = excluded.cached_tokens, reasoning_tokens = excluded.reasoning_tokens,"
    " cache_write_tokens = excluded.cache_write_tokens, cost = excluded.cost, currency = excluded.currency,"
    " source = excluded.source, date = excluded.date, estimated = excluded.estimated"
)
_KEEP = "INSERT OR REPLACE INTO answer (n, line) VALUES (?, ?)"
_STATES = (
    "SELECT n, CASE state WHEN 'sent' THEN 1 WHEN 'done' THEN 2 WHEN 'error' THEN 3 ELSE 0 END FROM row WHERE n < ?"
)
_COUNTS = "SELECT total(state = 'sent'), total(state = 'done'), total(state = 'error') FROM row"
_TOKENS = (
    "SELECT sum(input_tokens), sum(output_tokens), sum(total_tokens), sum(cached_tokens), sum(reasoning_tokens),"
    " sum(cache_write_tokens) FROM row"
)
_COSTS = "SELECT cost, currency, source, date, estimated FROM row WHERE cost IS NOT NULL"
_UNPRICED = "SELECT count(*) FROM row WHERE state = 'done' AND cost IS NULL"
_ANSWERS = (
    "SELECT n, id, state, tries, seconds, line FROM row JOIN answer USING (n)"
    " WHERE n >= ? AND state IN ('done', 'error') ORDER BY n LIMIT ?"
)


class Ledger:
    """The ledger of one job. Use it as a context manager, or call `close`.

    Args:
        path: the path of the ledger file. The class creates the file if it doesn't exist, except with `readonly`.
        readonly: open the file only for reading, which also works while a job is running.

    Attributes:
        transactions: the object that writes to the ledger file.

    Raises:
        ConfigError: the file isn't a ledger, or another job is writing to it.
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = Path(path)
        if readonly and not self.path.exists():
            raise ConfigError(f"{path}: this ledger doesn't exist")
        self._lock = None if readonly else _lock(self.path)
        with ExitStack() as opened:
            if self._lock is not None:
                opened.callback(self._lock.close)
            self._db = _connect(self.path, readonly=readonly)
            opened.callback(self._db.close)
            # A separate connection for reading doesn't block writing.
            self._writer = None if readonly else _connect(self.path, readonly=False)
            self._kept_open = opened.pop_all()
        self.transactions = GroupCommit(self.path, self._writer or self._db)
        self._using = threading.Lock()  # the connection for reading is used by one thread at a time

    def begin(self, settings: Mapping[str, str]) -> None:
        """Records the settings of the job, or checks that the ledger belongs to the same job.

        Raises:
            ConfigError: the ledger belongs to a job with different rows or settings; the message names the differences.
        """
        with self._using, self._db:
            before = dict(self._db.execute("SELECT key, value FROM meta"))
            if not before:
                wanted = {"format": _FORMAT, **settings}
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", wanted.items())
                return
        changed = [
            f"{name} was {_short(before.get(name))} and is {_short(value)}"
            for name, value in settings.items()
            if before.get(name) != value
        ]
        if changed:
            raise ConfigError(
                f"{self.path}: this ledger belongs to another job: {'; '.join(changed)}. To continue, use the original"
                " settings; to start again, use another ledger"
            )

    def states(self, count: int) -> bytearray:
        """Returns one byte for each of the first `count` rows: its state, or 0 if the row was never marked as sent."""
        found = bytearray(count)
        with self._reading():
            for number, state in self._db.execute(_STATES, (count,)):
                found[number] = state
        return found

    def answers(self, start: int = 0, limit: int | None = None) -> Iterator[Answer]:
        """Yields the recorded answers and errors in the order of the rows, beginning with row `start`."""
        for number, name, state, tries, seconds, line in islice(self._ended_rows(start), limit):
            members = json.loads(line)
            reply, error = (members, None) if state == "done" else (None, members["error"])
            yield Answer(name, number, reply, error, tries, seconds or 0.0)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yields the lines of the output file, each with the number of its row."""
        for number, name, _, tries, seconds, line in self._ended_rows(0):  # the JSON of an answer isn't parsed
            members = f'"id":{encoded(name)},{line[1:-1]},"tries":{tries},"seconds":{round(seconds or 0.0, 3)}'
            yield number, f"{{{members}}}"

    def _ended_rows(self, start: int) -> Iterator[tuple[Any, ...]]:
        while found := self.select(_ANSWERS, (start, _PAGE)):
            yield from found
            start = found[-1][0] + 1

    def counts(self) -> dict[str, int]:
        """Returns the number of rows in each state: "sent", "done" and "error"."""
        return dict(zip(("sent", "done", "error"), map(int, self.select(_COUNTS)[0]), strict=True))

    def summary(self, rows: int) -> JobSummary:
        """Returns the totals of all runs of the job. `rows` is the number of rows in the job."""
        counts = self.counts()
        ((read, written, *parts),), ((unpriced,),) = self.select(_TOKENS), self.select(_UNPRICED)
        found = JobSummary(rows, counts["done"], counts["error"], usage=Usage(read or 0, written or 0, *parts))
        found.recorded, found.unpriced = found.done + found.errors, unpriced
        with self._reading():
            costs = Counter(self._db.execute(_COSTS))
        for values, count in costs.items():
            cost = read_cost(*values)
            found.add_cost(replace(cost, amount=cost.amount * count))
        return found

    def select(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Returns the result rows of an SQL statement."""
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
        """Returns the job settings that `begin` recorded."""
        return dict(self.select("SELECT key, value FROM meta"))

    @property
    def shard(self) -> tuple[int, int]:
        """The shard of the job: its first row, and the step between its rows."""
        first, step = self.settings().get("shard", "0/1").split("/")
        return int(first), int(step)

    def mark_sent(self, number: int, name: str) -> None:
        """Marks a row as sent."""
        self.transactions.note(_MARK, (number, name, time()))

    def unmark(self, number: int) -> None:
        """Marks a row as not sent, because the server rejected its request without processing it. The request doesn't
        count as a try.
        """
        self.transactions.note(_UNMARK, (number,))

    def ended(self, answer: Answer, then: Callable[[Answer], None] | None = None) -> None:
        """Records the answer or the error of a row.

        Args:
            then: called with `answer` when the answer is on disk.
        """
        usage, cost = answer.usage, answer.cost
        state = "done" if answer.error is None else "error"
        tokens = (
            usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cached_tokens, usage.reasoning_tokens,
            usage.cache_write_tokens,
        )  # fmt: skip
        costs = (None,) * 5 if cost is None else tuple(cost_members(cost).values())
        self.transactions.note(_END, (answer.number, answer.id, state, answer.seconds, time(), *tokens, *costs))
        members = answer.members if answer.error is None else {"error": answer.error}
        self.transactions.note(_KEEP, (answer.number, encoded(members or {})))
        if then is not None:
            self.transactions.tell(partial(then, answer))

    def close(self) -> None:
        """Closes the ledger file."""
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
        place = f"{path.absolute().as_uri()}?immutable=1"  # otherwise SQLite would create files in the folder
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
            database.executescript(_TABLES)
        found = dict(database.execute("SELECT key, value FROM meta WHERE key = 'format'"))
        if found.get("format", _FORMAT) != _FORMAT:
            raise ConfigError(f"{path}: this ledger was written by another version of streamfold")
    except sqlite3.DatabaseError as error:
        database.close()
        raise ConfigError(f"{path}: the ledger can't be used: {error}") from None
    except BaseException:
        database.close()
        raise
    return database


def _lock(path: Path) -> IO[bytes]:
    """Locks the ledger and returns the open lock file. The ledger stays locked until this file is closed or the process
    ends.

    Only the current user can read the lock file and the ledger file. Neither may be a symbolic link, because another
    user could have created the link.
    """
    file = lock = path.with_name(f"{path.name}.lock")
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        with ExitStack() as stack:
            os.close(os.open(lock, flags, 0o600))
            held = stack.enter_context(locked_file(lock, "a+b"))
            file = path  # only after locking, because closing the file would drop SQLite's locks of this process
            os.close(os.open(path, flags, 0o600))
            stack.pop_all()
            return held
    except BlockingIOError:
        raise ConfigError(f"{path}: another job is using this ledger") from None
    except OSError as error:
        why = "it is a symbolic link; name the target file" if file.is_symlink() else error.strerror
        raise ConfigError(f"{file}: {why}") from None


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 60 else f"{text[:57]}..."


class GroupCommit:
    """Writes to an SQLite database. It commits at most once every few milliseconds, so that many rows share one disk
    sync.

    Only one task may run `commit`.
    """

    # The event loop's thread executes the statements of a group, in a few microseconds each. Only the commit runs in
    # another thread, where each statement would wait for Python's lock, up to five milliseconds while the event loop is
    # busy.

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path = path
        self._db = database
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._failure: Exception | None = None
        self._storing: anyio.Event | None = None  # set when the current group is on disk
        self._committed = anyio.Event()
        self._wanted = anyio.Event()

    def note(self, statement: str, values: tuple[Any, ...]) -> None:
        """Adds an SQL statement to the next transaction. Statements that a task adds without an `await` in between
        share a transaction.
        """
        if not self._waiting:
            self._wanted.set()
        self._waiting.append((statement, values))

    def tell(self, then: Callable[[], None]) -> None:
        """Calls a function after all statements that were added so far are on disk."""
        self._callbacks.append(then)

    async def written(self) -> None:
        """Waits until all statements that were added so far are on disk.

        Raises:
            JobPausedError: the statements can't be written to the database. `commit` tries to write them once more
                before it returns.
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
        """Commits the added statements in groups, until the task is cancelled or a commit fails. Then commits the
        remaining statements.
        """
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
        callbacks, self._callbacks = self._callbacks, []
        committed, self._committed, self._wanted = self._committed, anyio.Event(), anyio.Event()
        self._storing = committed
        try:
            await self._store(group)
        except Exception as error:  # the statements are written later, or their rows are sent again
            self._failure = error
            self._waiting, self._callbacks = [*group, *self._waiting], [*callbacks, *self._callbacks]
        else:
            for then in callbacks:
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
