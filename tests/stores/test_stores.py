"""The contract of every store: it keeps what it is given, apart for each owner, within its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamfold import ConfigError
from streamfold.stores import MemoryStore, Retention, SQLiteStore, Store, StoreError, ValkeyStore, open_store
from tables import each_row
from valkeys import valkey_server


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kind:
    """Makes stores of one kind in one place, which is empty, and lets time pass for them."""

    def __init__(self, kind: str, place: Any) -> None:
        self.kind, self.place = kind, place
        self.clock = Clock()
        self.open: list[Store] = []

    def __call__(self, *, age: float = 1000.0, **given: Any) -> Store:
        bounds = {name: given.pop(name) for name in ("entries", "size", "evicts") if name in given}
        retention = Retention(age=age, **bounds)
        store: Store
        if self.kind == "memory":
            store = MemoryStore(retention, clock=self.clock)
        elif self.kind == "sqlite":
            store = SQLiteStore(self.place / "kept.db", retention, clock=self.clock, **given)
        else:
            store = ValkeyStore(self.place, retention, **given)
        self.open.append(store)
        return store

    async def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        if self.kind == "valkey":
            await anyio.sleep(0.004)  # by the clock of the server, in milliseconds


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey_server(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture(params=["memory", "sqlite", "valkey"])
async def kind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kind]:
    place: Any = tmp_path
    if request.param == "valkey":
        place = request.getfixturevalue("valkey_url")
        import valkey

        with valkey.Valkey.from_url(place) as client:
            client.flushall()
    made = Kind(request.param, place)
    yield made
    for store in made.open:
        await store.aclose()


async def there(store: Store, keys: str, owner: str = "me") -> str:
    return "".join(sorted(await store.get(owner, keys)))


async def test_what_was_put_is_there(kind: Kind) -> None:
    """Any bytes under any key; a key that is known gets the new value; others are not known."""
    store = kind()
    assert await store.put("me", {"a": b"1", "b": b"\x00\xff", "c": b""})
    assert await store.put("me", {"a": b"2"})
    assert await store.get("me", ["a", "b", "c", "d", "a/x"]) == {"a": b"2", "b": b"\x00\xff", "c": b""}
    many = {f"key {number}": b"%d" % number for number in range(1200)}
    await store.put("me", many)
    assert await store.get("me", list(many)) == many
    assert await store.get("me", []) == {}


async def test_owners(kind: Kind) -> None:
    """Nobody finds, changes or deletes what is somebody else's, whatever the names are."""
    store = kind()
    owners = ["", "a", "a:b", "*", "ä\n"]
    for owner in owners:
        await store.put(owner, {"b": owner.encode(), "b:b": b"", "b/1": owner.encode()})
    assert not await store.delete("b", "b")
    assert await store.delete("a", "b")
    for owner in owners:
        known = owner != "a"
        assert await store.get(owner, ["b"]) == ({"b": owner.encode()} if known else {})
        assert await store.parts(owner, "b") == ({"1": owner.encode()} if known else {})
        assert await store.get(owner, ["b:b"]) == {"b:b": b""}


async def test_parts(kind: Kind) -> None:
    """The parts of a record are read in the order of their names, and go with it."""
    store = kind()
    await store.put("me", {"r": b"head", "r/b": b"2", "r/a": b"1", "s/z": b"9"})
    await store.put("me", {"r/c": b"3", "r/a": b"one"})
    assert list((await store.parts("me", "r")).items()) == [("a", b"one"), ("b", b"2"), ("c", b"3")]
    assert await store.parts("me", "r", after="a") == {"b": b"2", "c": b"3"}
    assert await store.get("me", ["r", "r/b", "s"]) == {"r": b"head", "r/b": b"2"}
    assert await store.delete("me", "r")
    assert await store.get("me", ["r", "r/b"]) == await store.parts("me", "r") == {}
    assert not await store.delete("me", "r")


async def test_a_new_record(kind: Kind) -> None:
    """Of several that ask at once, through whatever opening, one makes it."""
    stores = [kind()] * 2 if kind.kind == "memory" else [kind(), kind()]
    made: list[int] = []

    async def make(number: int) -> None:
        if await stores[number % 2].put("me", {"a": b"%d" % number}, new=True):
            made.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(make, number)
    assert await stores[0].get("me", ["a"]) == {"a": b"%d" % made[0]}
    assert len(made) == 1
    await stores[1].delete("me", "a")
    assert await stores[0].put("me", {"a": b""}, new=True)


async def test_a_new_part(kind: Kind) -> None:
    """`new` is about the values: a record that is there takes another part, and one of several at once succeeds."""
    store = kind()
    await store.put("me", {"a/x": b"1"})
    assert not await store.put("me", {"a/x": b"2"}, new=True)
    assert not await store.put("me", {"a/z": b"2", "a/x": b"2"}, new=True)
    assert await store.put("me", {"a/y": b"2"}, new=True)
    assert await store.parts("me", "a") == {"x": b"1", "y": b"2"}


async def test_number(kind: Kind) -> None:
    """Those that were used last stay; a record counts once, with all of its parts."""
    store = kind(entries=4)
    for name in "abcd":
        await store.put("me", {name: b"", f"{name}/x": b""})
        await kind.passes(100)
    await store.get("me", ["a"])
    await kind.passes(1)
    await store.put("me", {"e": b""})
    assert await there(store, "abcde") == "acde"
    assert await store.parts("me", "b") == {}


async def test_bytes(kind: Kind) -> None:
    """Names and values together; what is larger than the whole store is not kept, and said to be so."""
    store = kind(size=100)
    assert await store.put("me", {"a": b"x" * 40})
    await kind.passes(100)
    assert await store.put("me", {"b": b"x" * 20, "b/1": b"x" * 19})
    await kind.passes(100)
    assert await there(store, "ab") == "ab"
    await kind.passes(100)
    await store.get("me", ["b"])
    await kind.passes(1)
    assert await store.put("me", {"c": b"x" * 40})
    assert await there(store, "abc") == "bc"
    assert not await store.put("me", {"c/more": b"x" * 101})
    assert "c" not in await there(store, "abc")
    for _ in range(50):  # what is replaced is not counted twice
        assert await store.put("me", {"d": b"x" * 30})
    assert await there(store, "d") == "d"


async def test_age(kind: Kind) -> None:
    """It counts from the last use."""
    if kind.kind == "valkey":
        store = kind(age=0.3)
        await store.put("me", {"a": b"", "b": b""})
        await anyio.sleep(0.4)
        assert await there(store, "ab") == ""
        assert await store.put("me", {"a": b""}, new=True)
        return
    store = kind(age=60)
    await store.put("me", {"a": b"", "b": b""})
    await kind.passes(40)
    assert await there(store, "a") == "a"
    await kind.passes(40)
    assert await there(store, "ab") == "a"
    await kind.passes(65)
    assert await there(store, "ab") == ""
    assert await store.put("me", {"a": b""}, new=True)


async def test_each_owner_has_a_share(kind: Kind) -> None:
    """Who keeps most gives up first; nobody pushes out what another keeps within its share."""
    store = kind(entries=10)
    await store.put("ann", {"a": b"", "b": b""})
    await kind.passes(1)
    for number in range(30):
        await store.put("bob", {f"{number}": b""})
        await kind.passes(1)
    assert await there(store, "ab", "ann") == "ab"
    assert len(await store.get("bob", [str(number) for number in range(30)])) == 8
    large = kind(size=1000, **({} if kind.kind == "memory" else {"table": "large"}))
    await large.put("ann", {"a": b"x" * 300})
    for number in range(9):
        await kind.passes(1)
        await large.put("bob", {f"{number}": b"x" * 200})
    assert not await large.put("bob", {"all": b"x" * 900})
    assert await there(large, "a", "ann") == "a"


async def test_owners_with_equally_much(kind: Kind) -> None:
    """Of many owners with one record each, the newest are kept."""
    store = kind(entries=5)
    for owner in "abcdefgh":
        await store.put(owner, {"x": b""})
        await kind.passes(10)
    assert [owner for owner in "abcdefgh" if await store.get(owner, "x")] == list("defgh")


async def test_ahead(kind: Kind) -> None:
    """What is under way counts as used from now on: everything else of its owner goes before it."""
    store = kind(entries=3)
    await store.put("me", {"a": b""}, ahead=500)
    for name in "bcdef":
        await kind.passes(10)
        await store.put("me", {name: b""})
        await store.get("me", ["a"])
    assert await there(store, "abcdef") == "aef"
    await kind.passes(10)
    await store.put("me", {"a": b""})
    for name in "gh":
        await kind.passes(10)
        await store.put("me", {name: b""})
    assert await there(store, "aefgh") == "agh"


async def test_several_openings(kind: Kind) -> None:
    """They find what the others have kept, also after one was closed, and know which of them are in use."""
    if kind.kind == "memory":
        store = kind()
        assert await store.runs(store.name)
        assert not await store.runs("another")
        return
    first, second = kind(present=True), kind(present=True)
    await first.put("me", {"a": b"1"})
    assert await second.get("me", ["a"]) == {"a": b"1"}
    assert await second.runs(first.name)
    assert not await second.runs("never")
    await first.aclose()
    if kind.kind == "sqlite":
        assert not await second.runs(first.name)
    await second.put("me", {"b": b"2"})
    assert await first.get("me", ["a", "b"]) == {"a": b"1", "b": b"2"}


async def test_several_things_in_one_place(kind: Kind) -> None:
    """A store forgets by its own bounds, and leaves alone what another one has under the same keys."""
    if kind.kind == "memory":
        return
    turns, answers = kind(table="turns"), kind(table="answers", entries=2)
    await turns.put("", dict.fromkeys("abcd", b"turn"))
    for name in "abc":
        await answers.put("", {name: b"answer"})
        await kind.passes(1)
    await turns.delete("", "c")
    assert (await there(turns, "abcd", ""), await there(answers, "abcd", "")) == ("abd", "bc")


async def test_many_tasks_at_once(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take their turns, also in several event loops."""
    monkeypatch.setattr("streamfold.stores.threaded.PATIENCE", 60.0)  # seconds: on a busy machine the last ones wait
    store = kind()
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(store.put, "me", {f"{number}": b"x"})
    await anyio.to_thread.run_sync(anyio.run, store.put, "me", {"50": b"x"})
    assert len(await store.get("me", [str(number) for number in range(51)])) == 51


# --- names ------------------------------------------------------------------------------------------------------------


@each_row(
    ("where", "message"),
    [
        ("sqllite:///x.db", "did you mean 'sqlite'"),
        ("sqlite://x.db", "sqlite:/// and a path"),
        ("sqlite:///", "sqlite:/// and a path"),
        ("valkey://", "must name a server"),
        ("valkey://[", "must name a server"),
        ("memory://", "must be memory"),
        ("sqlite:////no/such/folder/x.db", "there is no folder '/no/such/folder'"),
        ("", "must be memory"),
    ],
)
def test_names_that_can_not_be_used(where: str, message: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(ConfigError, match=message):
        open_store(where)


@pytest.mark.parametrize("name", ["entries", "size", "age"])
def test_bounds_are_positive(name: str) -> None:
    """A store that keeps nothing is no store."""
    with pytest.raises(ConfigError, match=f"'{name}' of a store must be greater than 0"):
        Retention(**{name: 0})


def test_valkey_hides_its_password() -> None:
    """The password is in no repr, and certificates are always verified."""
    pytest.importorskip("valkey")
    assert "geheim" not in repr(ValkeyStore("valkey://me:geheim@127.0.0.1:1/0"))
    with pytest.raises(ConfigError, match="certificates are verified"):
        ValkeyStore("valkeys://127.0.0.1:1/0?ssl_cert_reqs=none")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """The error names the file; what was wrong with it may be mended meanwhile."""
    (tmp_path / "x.db").write_bytes(b"no database at all, and long enough to be one" * 100)
    store = SQLiteStore(tmp_path / "x.db")
    with pytest.raises(StoreError, match=r"x\.db"):
        await store.get("", ["a"])
    await store.aclose()


async def test_nothing_is_evicted_from_a_store_of_what_must_last(kind: Kind) -> None:
    """A write to a full store fails, whole, and what is there stays; what is too old makes room."""
    store = kind(evicts=False, entries=2, size=40)
    assert await store.put("me", {"a": b"1", "b": b"2"})
    for values in ({"c": b"3"}, {"a": b"x" * 50}, {"a/more": b"x" * 50}):
        with pytest.raises(StoreError, match="is full, and its records must not be removed"):
            await store.put("me", values)
    assert await store.get("me", ["a", "a/more", "b", "c"]) == {"a": b"1", "b": b"2"}
    assert await store.put("me", {"a": b"12"})
    aged = kind(evicts=False, entries=2, age=0.001, **({} if kind.kind == "memory" else {"table": "aged"}))
    for number in range(5):
        await kind.passes(0.1)
        assert await aged.put("me", {f"{number}": b"", f"{number}more": b""})


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "volatile-lru", "noeviction"])
async def test_a_server_that_evicts(tmp_path: Path, policy: str) -> None:
    """What must last isn't kept on a server that may evict any key; elsewhere it has no expiry, and is not evicted."""
    options = ["--maxmemory", "3mb", "--maxmemory-policy", policy]
    with valkey_server(tmp_path, *options) as server:
        store = ValkeyStore(server.url, Retention(evicts=False))
        if policy.startswith("allkeys"):
            with pytest.raises(ConfigError, match=f"evicts keys .*{policy}.*: set maxmemory-policy to"):
                await store.put("me", {"a": b"1"})
        else:
            assert await store.put("me", {"a": b"1"})
            import valkey

            with valkey.Valkey.from_url(server.url) as others, suppress(valkey.ResponseError):
                for number in range(6000):
                    others.set(f"cache {number}", "x" * 1000, ex=3600)
            assert await store.get("me", ["a"]) == {"a": b"1"}
        await store.aclose()


async def test_a_server_that_does_not_say_whether_it_evicts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is used, with a warning in the log that says what could not be checked."""
    with valkey_server(tmp_path) as server:
        import valkey

        with valkey.Valkey.from_url(server.url) as admin:
            admin.execute_command("ACL", "SETUSER", "default", "-info")
        store = ValkeyStore(server.url, Retention(evicts=False))
        assert await store.put("me", {"a": b"1"})
        await store.aclose()
    assert "doesn't say whether it evicts keys" in caplog.text
