"""Opens a store by its URL, and buffers writes in memory while the store is down (write-behind)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from time import monotonic
from typing import NoReturn

import anyio

from ..config import store_place
from ..net import Interrupted, run_within
from .memory import MemoryStore
from .sqlite import SQLiteStore
from .store import Retention, Store, StoreError, joined_key
from .threaded import PATIENCE, RETRY_SECONDS
from .valkey import ValkeyStore

_LONGEST_PAUSE = 8.0  # seconds until a record that the store didn't take is tried again

_logger = logging.getLogger("streamfold.stores")


class WriteBehindStore:
    """A `Store` that buffers values in memory while the real store is down, and writes them later.

    `keep_trying` or the next successful `put` writes the buffered values to the real store. A `put` with `new=True` is
    never buffered, because only the real store knows which keys exist.

    Args:
        store: the real store.
        retention: the limits for the buffered values.
    """

    def __init__(self, store: Store, retention: Retention | None = None) -> None:
        self.store = store
        self.name = store.name
        self._waiting = MemoryStore(retention)
        self._waits = self._moving = False
        self._next = 0.0  # when waiting records are written at the earliest
        self._paused: dict[tuple[str, str], tuple[float, float]] = {}  # by record: the end and the length of the pause

    async def get(self, owner: str, keys: Collection[str]) -> Mapping[str, bytes]:
        waiting = await self._waiting.get(owner, keys) if self._waits else {}
        missing = [key for key in keys if key not in waiting]
        if not missing:
            return waiting
        try:
            return {**await self.store.get(owner, missing), **waiting}
        except StoreError as error:
            raise StoreError(error.message, waiting) from error

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        if new:
            return await self.store.put(owner, values, new=True, ahead=ahead)
        if not self._moving:  # otherwise an older value could overwrite this one
            try:
                kept = await self.store.put(owner, values, ahead=ahead)
            except StoreError as error:
                if not self._waits:
                    _logger.warning("%s; values wait in this process until the store works again", error.message)
            else:
                if self._waits:
                    self._waiting.forget(owner, values)
                    await self._move_soon()
                return kept
        self._waits = True
        return await self._waiting.put(owner, values, ahead=ahead)

    async def parts(self, owner: str, key: str, after: str = "") -> Mapping[str, bytes]:
        waiting = await self._waiting.parts(owner, key, after) if self._waits else {}
        return dict(sorted({**await self.store.parts(owner, key, after), **waiting}.items()))

    async def delete(self, owner: str, key: str) -> bool:
        waited = await self._waiting.delete(owner, key)
        return await self.store.delete(owner, key) or waited

    async def runs(self, name: str) -> bool:
        return await self.store.runs(name)

    async def move(self) -> None:
        """Writes the buffered values to the real store, in ascending order of the records' sizes. Raises StoreError if
        the store is still down.
        """
        if self._moving or not self._waits:
            return
        self._moving = True
        try:
            for owner, name in self._waiting.names():
                parts = self._waiting.record(owner, name)
                if parts is not None and monotonic() >= self._paused.get((owner, name), (0.0, 0.0))[0]:
                    await self._move_record(owner, name, parts)
            self._waits = bool(self._waiting.names())
            if not self._waits:
                self._paused.clear()
                _logger.warning("%r can be used again", self.store)
        finally:
            self._moving = False

    async def _move_record(self, owner: str, name: str, parts: Mapping[str, bytes]) -> None:
        values = {joined_key(name, part): value for part, value in parts.items()}
        try:
            await self.store.put(owner, values)
        except StoreError:  # the error may be about this record only, so others are written first
            pause = min(_LONGEST_PAUSE, 2 * self._paused.get((owner, name), (0.0, RETRY_SECONDS / 2))[1])
            self._paused[owner, name] = monotonic() + pause, pause
            raise
        self._paused.clear()  # the store is back: others failed because it was down
        self._waiting.forget(owner, values, unless_newer=True)

    async def keep_trying(self) -> NoReturn:
        """Waits until the real store works again, then writes the buffered values to it. Runs until it is cancelled."""
        while True:
            await anyio.sleep(RETRY_SECONDS)
            with suppress(StoreError):  # logged when the store failed
                await self.move()

    async def aclose(self) -> None:
        """Closes the real store. Logs the number of buffered records that can't be written and are lost."""
        self._paused.clear()
        try:
            with anyio.CancelScope(shield=True), suppress(Interrupted):
                await run_within(self.move, PATIENCE)
        except StoreError as error:
            _logger.error("%d records could not be written: %s", len(self._waiting.names()), error.message)
        finally:
            await self.store.aclose()

    async def _move_soon(self) -> None:
        """Writes the buffered values if the last try was at least a second ago. Programs that don't run `keep_trying`
        need this method.
        """
        if monotonic() >= self._next:
            self._next = monotonic() + RETRY_SECONDS
            with suppress(StoreError, Interrupted):
                await run_within(self.move, PATIENCE)

    def __repr__(self) -> str:
        return repr(self.store)


def open_store(where: str, retention: Retention | None = None, *, table: str = "kept", present: bool = False) -> Store:
    """Opens a store by its URL.

    Args:
        where: the URL of the store: "memory", `sqlite:///PATH`, or `valkey://HOST:PORT/DATABASE` for a Valkey or Redis
            server. `valkeys://` uses TLS. PATH is relative to the working directory, or absolute after a fourth slash.
        retention: the limits of the store.
        table: a name for this kind of data, such as "calls". Stores with different names share no records, even in the
            same database.
        present: True if other processes can find out with `Store.runs` whether this process is still running.

    Raises:
        ConfigError: `where` isn't the URL of a store.
    """
    scheme, rest = store_place(where, f"the store of {table}")
    if scheme == "memory":
        return MemoryStore(retention)
    if scheme == "sqlite":
        return SQLiteStore(rest[1:], retention, table=table, present=present)
    return ValkeyStore(where, retention, table=table, present=present)


def persistent_store(where: str, retention: Retention | None = None, *, table: str, present: bool = False) -> Store:
    """Opens a store like `open_store`. While the store is down, values are buffered in memory."""
    store = open_store(where, retention, table=table, present=present)
    return store if isinstance(store, MemoryStore) else WriteBehindStore(store, retention)
