"""A store that is away: what it could not take waits, is found, and is put there when it is back."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamfold.stores import MemoryStore, Retention, SQLiteStore, StoreError, WriteBehindStore, threaded

LONGEST = 2.5  # seconds: a second and a half, and what a busy machine adds


class Away(MemoryStore):
    """A store that fails while it is told to."""

    away = False
    puts = 0

    def _check(self) -> None:
        if self.away:
            raise StoreError("it is away")

    async def get(self, owner: str, keys: Any) -> Any:
        self._check()
        return await super().get(owner, keys)

    async def put(self, owner: str, values: Any, *, new: bool = False, ahead: float = 0.0) -> bool:
        self._check()
        self.puts += 1
        return await super().put(owner, values, new=new, ahead=ahead)

    async def parts(self, owner: str, key: str, after: str = "") -> Any:
        self._check()
        return await super().parts(owner, key, after)

    async def delete(self, owner: str, key: str, *, unless_changed: Any = None) -> bool:
        self._check()
        return await super().delete(owner, key, unless_changed=unless_changed)


async def test_what_waits_is_there_and_moves() -> None:
    """In the order in which it was put; what is newer wins."""
    away = Away()
    store = WriteBehindStore(away)
    await store.put("me", {"a": b"1", "b": b"1"})
    away.away = True
    assert await store.put("me", {"a": b"2", "c": b"2", "c/1": b"part"})
    assert await store.get("me", ["a", "c", "c/1"]) == {"a": b"2", "c": b"2", "c/1": b"part"}
    with pytest.raises(StoreError) as caught:
        await store.get("me", ["a", "b"])
    assert caught.value.found == {"a": b"2"}
    away.away = False
    assert await store.parts("me", "c") == {"1": b"part"}
    await store.put("me", {"a": b"3"})
    assert await away.get("me", ["a", "b", "c", "c/1"]) == {"a": b"3", "b": b"1", "c": b"2", "c/1": b"part"}
    puts = away.puts
    await store.put("me", {"a": b"4"})
    assert away.puts == puts + 1
    assert await away.get("me", ["a"]) == {"a": b"4"}


@pytest.mark.slow
async def test_it_is_tried_again() -> None:
    """Without anybody who asks for something; and at the end."""
    away = Away()
    store = WriteBehindStore(away)
    away.away = True
    await store.put("me", {"a": b"1"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.keep_trying)
        away.away = False
        with anyio.fail_after(5):
            while not await away.get("me", ["a"]):
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    away.away = True
    await store.put("me", {"b": b"1"})
    away.away = False
    before = away.puts
    await store.move()
    assert away.puts == before + 1
    await store.aclose()


async def test_all_that_waited_goes_when_one_went() -> None:
    """A record that was tried while the store was away is tried again as soon as that has taken another."""
    away = Away()
    store = WriteBehindStore(away)
    away.away = True
    for name in "abc":
        await store.put("me", {name: b"1"})
    for _ in "ab":
        with pytest.raises(StoreError):
            await store.move()
    away.away = False
    for _ in range(2):
        await store.move()
    assert set(await away.get("me", "abc")) == set("abc")


async def test_what_is_lost_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A store that does not come back before the program ends."""
    away = Away()
    store = WriteBehindStore(away)
    away.away = True
    await store.put("me", {"a": b"1"})
    await store.aclose()
    assert "1 records could not be written: it is away" in caplog.text


async def test_what_only_the_store_can_tell() -> None:
    """A claim is not made while it is away, and a record that may be there is not said to be deleted."""
    away = Away()
    store = WriteBehindStore(away)
    away.away = True
    with pytest.raises(StoreError):
        await store.put("me", {"a": b"1"}, new=True)
    with pytest.raises(StoreError):
        await store.delete("me", "a")


async def test_what_waits_is_bounded() -> None:
    """By the same bounds as what is kept."""
    away = Away()
    store = WriteBehindStore(away, Retention(entries=2))
    away.away = True
    for name in "abc":
        await store.put("me", {name: b""})
    with pytest.raises(StoreError) as caught:
        await store.get("me", "abcd")
    assert set(caught.value.found) == set("bc")


# --- an SQLite file that can't be used --------------------------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes, and does not end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.slow
async def test_a_locked_file(tmp_path: Path) -> None:
    """Writing fails after a second, and then at once; reading goes on; when it is free again nothing is missing."""
    file = SQLiteStore(tmp_path / "a.db")
    store = WriteBehindStore(file)
    await store.put("me", {"a": b"1"})
    began = time.monotonic()
    with locked(tmp_path / "a.db"):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(store.put, "me", {f"{number}": b"2"})
        assert time.monotonic() - began < LONGEST
        assert await store.get("me", ["a", "7"]) == {"a": b"1", "7": b"2"}
    with anyio.fail_after(5):
        while len(await file.get("me", [f"{number}" for number in range(20)])) < 20:
            await anyio.sleep(0.1)
            with pytest.MonkeyPatch.context():
                await store.put("me", {"b": b"3"})
    await store.aclose()


async def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large value on its way keeps nobody from reading."""
    store, go_on = SQLiteStore(tmp_path / "a.db"), threading.Event()
    await store.put("me", {"a": b"1"})
    put = store.put_now

    def slow(*args: Any) -> bool:
        go_on.wait(10)
        return put(*args)

    monkeypatch.setattr(store, "put_now", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.put, "me", {"b": b"2"})
        await anyio.sleep(0.05)
        assert await store.get("me", ["a", "b"]) == {"a": b"1"}
        go_on.set()
    assert await store.get("me", ["b"]) == {"b": b"2"}
    await store.aclose()


async def test_a_file_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that does not return is given up; nobody else begins one before it has returned."""
    store, begun = SQLiteStore(tmp_path / "a.db"), 0
    go_on = False

    def hangs(*_: Any) -> Any:
        nonlocal begun
        begun += 1
        while not go_on:
            time.sleep(0.01)
        return {}

    monkeypatch.setattr(store, "get_now", hangs)
    monkeypatch.setattr(threaded, "PATIENCE", 0.2)
    monkeypatch.setattr(threaded, "RETRY_SECONDS", 0.0)
    try:
        with pytest.raises(StoreError, match="did not answer within"):
            await store.get("me", ["a"])
        for _ in range(3):
            with pytest.raises(StoreError, match="does not answer"):
                await store.get("me", ["a"])
        assert begun == 1
    finally:
        go_on = True
    with anyio.fail_after(5):
        while True:
            try:
                await store.get("me", ["a"])
                break
            except StoreError:
                await anyio.sleep(0.02)
    await store.aclose()


async def test_a_file_that_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was broken may be replaced while the program runs."""
    monkeypatch.setattr(threaded, "RETRY_SECONDS", 0.0)
    path = tmp_path / "a.db"
    store = SQLiteStore(path)
    await store.put("me", {"a": b"x" * 20_000})
    await store.aclose()
    path.write_bytes(b"not a database, and long enough to be one" * 500)
    with pytest.raises(StoreError, match="not a database"):
        await store.get("me", ["a"])
    path.unlink()
    assert await store.put("me", {"a": b"1"})
    assert await store.get("me", ["a"]) == {"a": b"1"}
    await store.aclose()


async def test_a_full_disk_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing to write does not keep others from reading, also what is due to be marked as used."""

    class Clock:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()
    store = SQLiteStore(tmp_path / "a.db", Retention(age=1000), clock=clock)
    await store.put("me", {"a": b"1"})
    with store._database.transaction() as database:
        pages = database.execute("PRAGMA page_count").fetchone()[0]
    store._database._open.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[union-attr]
    with pytest.raises(StoreError, match="full"):
        await store.put("me", {"b": b"x" * 100_000})
    clock.now += 500
    assert await store.get("me", ["a"]) == {"a": b"1"}
    await store.aclose()
