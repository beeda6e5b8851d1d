"""Limits in an SQLite file: for the processes of one machine, and for budgets that outlive them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import TypeVar

from ..stores import BlockingCalls, PrivateDatabase, StoreError, close_in_thread
from ..values import ConfigError
from .algorithm import Ask, Grant, Settlement, alive, believe, read, settle, take
from .belief import Belief, State
from .errors import LimitStoreError

T = TypeVar("T")

_SHORTLY = 1.0  # seconds to wait for another process
_SCHEMA = "CREATE TABLE IF NOT EXISTS limits (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID"


class SQLiteLimitStore:
    """Counts in an SQLite file, which only this user may read. It is opened when it is first needed.

    Nobody waits for it longer than a second and a half.

    Args:
        path: the file.
        clock: seconds since 1970.

    Raises:
        ConfigError: there is no folder for the file.
    """

    lease = 0.02
    lifetime = 15.0

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._database = PrivateDatabase(path, _SCHEMA, patience=_SHORTLY)
        self._calls = BlockingCalls(self, lambda: (LimitStoreError,), rests=False)  # `GuardedStore` lets it rest
        self._clock = clock

    async def take(self, name: str, ask: Ask) -> Grant:
        """Reserves moments for requests. Raises LimitStoreError, ConfigError."""
        taking = _Taking(self, name, ask)
        try:
            return await self._ask(taking.run)
        except BaseException:
            taking.abandon()
            raise

    async def settle(self, name: str, settlement: Settlement) -> None:
        """Corrects what was reserved by what was used. Raises LimitStoreError, ConfigError."""
        given_up = list[bool]()
        try:
            await self._ask(partial(self.settle_now, name, settlement, given_up))
        except LimitStoreError:  # it may still be under way, and whoever asked will settle it again
            given_up.append(True)
            raise

    async def believe(self, name: str, rest: float, belief: Belief | None) -> None:
        """Sends nothing for a while, and changes the belief. Raises LimitStoreError, ConfigError."""
        await self._ask(partial(self.believe_now, name, rest, belief))

    def take_now(self, name: str, ask: Ask) -> Grant:
        """As `take`, blocking."""
        with self._state(name) as state:
            return take(state, self._clock(), ask)

    def settle_now(self, name: str, settlement: Settlement, given_up: Sequence[bool] = ()) -> None:
        """As `settle`, blocking. Does nothing if it has been given up."""
        with self._state(name, given_up) as state:
            settle(state, self._clock(), settlement)

    def believe_now(self, name: str, rest: float, belief: Belief | None) -> None:
        """As `believe`, blocking."""
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

    async def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return await self._calls.ask(ask)
        except StoreError as error:
            if isinstance(error.__cause__, LimitStoreError):
                raise error.__cause__ from None
            raise LimitStoreError(f"the limits can't be counted: {error.message}", retryable=True) from error

    @contextmanager
    def _state(self, name: str, given_up: Sequence[bool] = ()) -> Iterator[State]:
        import sqlite3

        try:
            with self._database.transaction() as database:
                row = database.execute("SELECT state FROM limits WHERE name = ?", (name,)).fetchone()
                state = read(_json(row[0]) if row else {}, self._clock())
                yield state
                if not given_up:
                    database.execute("REPLACE INTO limits VALUES (?, ?)", (name, json.dumps(state)))
        except (sqlite3.Error, ConfigError) as exc:  # a file that is locked, or no database, when it is opened
            raise LimitStoreError(
                f"the limits in {str(self._database.path)!r} can't be used: {exc}", retryable=True
            ) from exc


class _Taking:
    """A question that is asked in a thread. If nobody waits for the answer any more, what it grants is given back.

    A task that is cancelled by asyncio's own means does not wait for the thread.
    """

    def __init__(self, store: SQLiteLimitStore, name: str, ask: Ask) -> None:
        self._store, self._name, self._ask = store, name, ask
        self._grants: list[Grant] = []  # its `pop` is atomic: only one of the two threads gives back
        self._abandoned = False

    def run(self) -> Grant:
        grant = self._store.take_now(self._name, self._ask)
        self._grants.append(grant)
        if self._abandoned:
            self._give_back()
        return grant

    def abandon(self) -> None:
        self._abandoned = True
        if self._grants:
            Thread(target=self._give_back, name="streamfold-limits", daemon=True).start()

    def _give_back(self) -> None:
        try:
            grant = self._grants.pop()
        except IndexError:
            return
        if grant.requests:
            self._store.settle_now(self._name, grant.given_back(grant.requests))


def _json(text: object) -> object:
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):  # somebody else wrote it
        return {}
