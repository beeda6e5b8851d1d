"""The stores of turns: each keeps what it is given within its bounds, what was used last longest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamfold import ConfigError, Provider
from streamfold.turns import (
    InMemoryTurnStore,
    Retention,
    SQLiteTurnStore,
    TurnCache,
    TurnStore,
    ValkeyTurnStore,
    open_store,
)
from valkeys import valkey_server


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


Make = Callable[..., TurnStore]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def made(limits: Retention | None = None, clock: Clock | None = None) -> TurnStore:
        if request.param == "memory":
            return InMemoryTurnStore(limits, clock=clock or Clock())
        return SQLiteTurnStore(tmp_path / "turns.db", limits, clock=clock or Clock())

    return made


async def closing(store: TurnStore, check: Callable[[TurnStore], Awaitable[None]]) -> None:
    try:
        await check(store)
    finally:
        await store.aclose()


async def test_what_was_put_is_there(make: Make) -> None:
    """Any bytes under any key; a key that is known gets the new value."""

    async def check(store: TurnStore) -> None:
        await store.put({"a": b"1", "b": b"\x00\xff"})
        await store.put({"a": b"2"})
        assert await store.get(["a", "b", "c"]) == {"a": b"2", "b": b"\x00\xff"}
        many = {f"key {number}": b"%d" % number for number in range(1200)}
        await store.put(many)
        assert await store.get(list(many)) == many

    await closing(make(), check)


async def test_number(make: Make) -> None:
    """A turn has two entries, so that a store of two turns keeps four; those that were used last stay."""

    async def check(store: TurnStore) -> None:
        for name in "abcd":
            await store.put({name: b""})
            clock.now += 100
        await store.get(["a"])
        await store.put({"e": b""})
        assert set(await store.get("abcde")) == set("acde")

    clock = Clock()
    await closing(make(Retention(entries=2, age=1000), clock), check)


async def test_bytes(make: Make) -> None:
    """Keys and values together; what is larger than the whole store is not kept at all."""

    async def check(store: TurnStore) -> None:
        await store.put({"a": b"x" * 40})
        clock.now += 1
        await store.put({"b": b"x" * 40})
        assert set(await store.get("ab")) == {"a", "b"}
        clock.now += 100
        await store.get(["b"])
        await store.put({"c": b"x" * 40})
        assert set(await store.get("abc")) == {"b", "c"}
        await store.put({"c": b"x" * 101})
        assert "c" not in await store.get("abc")

    clock = Clock()
    await closing(make(Retention(size=100, age=500), clock), check)


async def test_age(make: Make) -> None:
    """It counts from the last use."""

    async def check(store: TurnStore) -> None:
        await store.put({"a": b"", "b": b""})
        clock.now += 40
        assert set(await store.get(["a"])) == {"a"}
        clock.now += 40
        assert set(await store.get("ab")) == {"a"}
        clock.now += 61
        assert await store.get("ab") == {}

    clock = Clock()
    await closing(make(Retention(age=60), clock), check)


async def test_two_processes_share_a_file(tmp_path: Path) -> None:
    """Two stores of one file find what the other has kept, also after one of them was closed."""
    first, second = SQLiteTurnStore(tmp_path / "a.db"), SQLiteTurnStore(tmp_path / "a.db")
    await first.put({"a": b"1"})
    assert await second.get(["a"]) == {"a": b"1"}
    await first.aclose()
    await second.put({"b": b"2"})
    assert await first.get(["a", "b"]) == {"a": b"1", "b": b"2"}
    await first.aclose()
    await second.aclose()


async def test_many_tasks_at_once(tmp_path: Path) -> None:
    """Threads take their turns at one file."""
    store = SQLiteTurnStore(tmp_path / "a.db")
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(store.put, {f"{number}": b"x"})
    assert len(await store.get([str(number) for number in range(50)])) == 50
    await store.aclose()


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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


async def test_one_file_for_several_things(tmp_path: Path) -> None:
    """A store forgets by its own limits, and leaves alone what another one has under the same keys."""
    where, clock = tmp_path / "all.db", Clock()
    turns, answers = SQLiteTurnStore(where), SQLiteTurnStore(where, Retention(age=10), clock=clock, name="answers")
    await turns.put({"a": b"turn"})
    await answers.put({"a": b"answer"})
    clock.now += 11
    await answers.put({"b": b"answer"})
    assert (await turns.get("ab"), await answers.get("ab")) == ({"a": b"turn"}, {"b": b"answer"})
    await turns.aclose()
    await answers.aclose()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "x.db").write_bytes(b"no database at all, and long enough to be one" * 100)
    store = SQLiteTurnStore(tmp_path / "x.db")
    with pytest.raises(ConfigError, match=r"x\.db"):
        await store.get(["a"])


def test_limits_are_positive() -> None:
    """A store that keeps nothing is no store."""
    with pytest.raises(ConfigError, match="'age' of a store must be greater than 0"):
        Retention(age=0)


@pytest.mark.parametrize("given", [3, {}, b"memory", object()])
def test_what_is_no_memory(given: Any) -> None:
    """A mistake in the argument is a ConfigError."""
    with pytest.raises(ConfigError, match="memory must be a TurnCache"):
        Provider.from_config({"base_url": "http://x/v1"}, memory=given)


async def test_whose_a_store_is(tmp_path: Path) -> None:
    """A provider closes the store that it made, and no other."""
    store = InMemoryTurnStore()
    await store.put({"a": b"1"})
    async with Provider.from_config({"base_url": "http://x/v1"}, memory=TurnCache(store)):
        pass
    assert await store.get(["a"]) == {"a": b"1"}
    async with Provider.from_config({"base_url": "http://x/v1", "memory": f"sqlite:///{tmp_path}/a.db"}) as provider:
        assert isinstance(provider.memory and provider.memory.store, SQLiteTurnStore)


# --- Valkey -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey_server(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture
async def shared(valkey_url: str) -> Any:
    import valkey

    client = valkey.Valkey.from_url(valkey_url)
    client.flushall()
    client.close()
    return lambda **limits: ValkeyTurnStore(valkey_url, Retention(**limits))


async def test_valkey_shares(shared: Any) -> None:
    """What one gateway has put another finds."""
    first, second = shared(), shared()
    await first.put({"a": b"1", "b": b"\x00\xff"})
    await second.put({"a": b"2"})
    assert await first.get(["x", "a", "b"]) == {"a": b"2", "b": b"\x00\xff"}
    await first.aclose()
    await second.aclose()


async def test_valkey_is_bounded(shared: Any) -> None:
    """By number and by bytes: what was not used for longest goes first, and leaves nothing."""
    store = shared(entries=2)
    for name in "abcd":
        await store.put({name: b"x"})
        await anyio.sleep(0.005)
    await store.get(["a"])
    await anyio.sleep(0.005)
    await store.put({"e": b"x"})
    assert set(await store.get("abcde")) == set("acde")
    await store.aclose()
    small = shared(size=5)
    await small.put({"f": b"123"})
    assert await small.get("acdef") == {"f": b"123"}
    await small.aclose()


async def test_valkey_forgets(shared: Any) -> None:
    """Age counts from the last use."""
    store = shared(age=0.2)
    await store.put({"a": b"1"})
    await anyio.sleep(0.3)
    assert await store.get(["a"]) == {}
    await store.put({"b": b"1"})
    assert set(await store.get("ab")) == {"b"}
    await store.aclose()


async def test_one_database_for_several_things(shared: Any, valkey_url: str) -> None:
    """A store forgets by its own limits, and leaves alone what another one has under the same keys."""
    turns, answers = shared(), ValkeyTurnStore(valkey_url, Retention(entries=1), name="answers")
    await turns.put(dict.fromkeys("abcd", b"turn"))
    await answers.put(dict.fromkeys("abc", b"answer"))
    assert len(await turns.get("abcd")) == 4
    assert len(await answers.get("abcd")) == 2
    await turns.aclose()
    await answers.aclose()


def test_valkey_hides_its_password() -> None:
    """The password is in no repr, and certificates are always verified."""
    pytest.importorskip("valkey")
    assert "geheim" not in repr(ValkeyTurnStore("valkey://me:geheim@127.0.0.1:1/0"))
    with pytest.raises(ConfigError, match="certificates are verified"):
        ValkeyTurnStore("valkeys://127.0.0.1:1/0?ssl_cert_reqs=none")


async def test_valkey_that_is_not_there() -> None:
    """The memory fails, with a warning; what the client library raises is no reason to fail."""
    pytest.importorskip("valkey")
    recalled = await TurnCache("valkey://127.0.0.1:1/0").recall([*_conversation()])
    assert [warning.code for warning in recalled.warnings] == ["memory_failed"]


def _conversation() -> Any:
    from streamfold import assistant, user

    return user("Hi"), assistant("Hello"), user("Well?")
