"""The contract of journals: of all that resume a state, one runs a call, and the others get its result."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from streamfold.stores import MemoryStore, Retention, StoreError
from streamfold.tools import CallJournal, FileJournal, StoreJournal
from valkeys import valkey_server


async def check(first: CallJournal, second: CallJournal) -> None:
    claimed: list[int] = []

    async def claim(number: int) -> None:
        if await (first, second)[number % 2].claim("a key\n\ud800/x"):
            claimed.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(claim, number)
    assert len(claimed) == 1
    assert await second.result("a key\n\ud800/x") is None
    await first.finish("a key\n\ud800/x", "42 \ud800")
    assert await second.result("a key\n\ud800/x") == "42 \ud800"
    assert not await second.claim("a key\n\ud800/x")
    await first.finish("stored before it is claimed", "")
    assert await second.result("stored before it is claimed") == ""
    assert await second.claim("stored before it is claimed")


async def test_stores(tmp_path: Path) -> None:
    """In a file, in memory, or in a store of one's own."""
    where = f"sqlite:///{tmp_path}/calls.db"
    journals = [StoreJournal(where), StoreJournal(where)]
    await check(*journals)
    for journal in journals:
        await journal.store.aclose()
    store = MemoryStore()
    await check(StoreJournal(store), StoreJournal(store))
    assert await StoreJournal(store, owner="somebody else").claim("stored before it is claimed")


@pytest.mark.slow
async def test_a_server(tmp_path: Path) -> None:
    """On several machines; one that is away does not say that a call may run."""
    with valkey_server(tmp_path) as server:
        from streamfold.stores import ValkeyStore

        journals = [StoreJournal(ValkeyStore(server.url)) for _ in range(2)]
        await check(*journals)
        server.kill()
        with pytest.raises(StoreError):
            await journals[0].claim("another")
        for journal in journals:
            await journal.store.aclose()
        server.start()


@pytest.mark.slow
async def test_a_server_that_is_full(tmp_path: Path) -> None:
    """It refuses the claim, and nothing of it is written; what was claimed before can still be read."""
    with valkey_server(tmp_path) as server:
        import valkey

        from streamfold.stores import ValkeyStore

        def opened() -> StoreJournal:  # a store that was refused waits before it asks again
            return StoreJournal(ValkeyStore(server.url, Retention(evicts=False)))

        client = valkey.Valkey.from_url(server.url)
        journals = [opened() for _ in range(4)]
        assert await journals[0].claim("before")
        await journals[0].finish("before", "42")
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        known = client.keys("*")
        for journal in journals[:2]:
            with pytest.raises(StoreError):
                await journal.claim("another")
        assert sorted(client.keys("*")) == sorted(known)
        assert await journals[2].result("before") == "42"
        client.config_set("maxmemory", "0")
        assert await journals[3].claim("another")
        for journal in journals:
            await journal.store.aclose()
        client.close()


async def test_files(tmp_path: Path) -> None:
    """In a folder, which the first of them makes, whatever it does first."""
    await check(FileJournal(tmp_path / "calls"), FileJournal(tmp_path / "calls"))
    await FileJournal(tmp_path / "of" / "approvals").finish("a key", "a nonce")
    assert await FileJournal(tmp_path / "of" / "approvals").result("a key") == "a nonce"
