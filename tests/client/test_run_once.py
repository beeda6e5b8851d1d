"""Each call runs once: whatever answer of a journal is lost, whoever resumes what, and however long it waits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from streamfold import ConfigError, Tool, ToolCall, ToolRun, run_tools, tool
from streamfold.stores import MemoryStore, StoreError
from streamfold.testing import ScriptedProvider, call
from streamfold.tools import CallInDoubtError, CallJournal, FileJournal, StoreJournal, resume_tools
from streamfold.tools.journal import call_key
from valkeys import valkey_server

CALL = ToolCall("call_0", "pay", {"to": "zoe"}, "{}")


class Till:
    """A tool that remembers whom it paid."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def tools(self) -> list[Tool]:
        def pay(to: str) -> str:
            self.paid.append(to)
            return f"paid {to} ({len(self.paid)})"

        return [tool(pay, needs_approval=True)]


def results(run: ToolRun) -> list[Any]:
    return [message.content for message in run.messages if message.role == "tool"]


async def paused(till: Till, journal: CallJournal | None = None, **options: Any) -> ToolRun:
    """A run that waits for an approval."""
    model = ScriptedProvider(call("pay", call_id="call_0", to="zoe"), "Done.")
    run = run_tools(model, "Pay", till.tools(), journal=journal, **options)
    async for _ in run:
        pass
    return run


def resumed(state: str, till: Till, journal: CallJournal | None) -> ToolRun:
    """A run that goes on from a state, with its call approved."""
    run = resume_tools(ScriptedProvider("Done."), state, till.tools(), journal=journal)
    run.approve("call_0")
    return run


class Losing(MemoryStore):
    """A store that does what it is told, and loses its first answers."""

    def __init__(self, *, losses: int, about: str = ".claim") -> None:
        super().__init__()
        self.losses, self.about = losses, about

    async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
        kept = await super().put(owner, values, new=new, ahead=ahead)
        if self.losses and any(self.about in key for key in values):
            self.losses -= 1
            raise StoreError("the answer was lost")
        return kept


async def test_an_answer_to_a_claim_that_was_lost() -> None:
    """The claimant claims again with its nonce, and the tool runs; a copy of the state gets its result."""
    till, journal = Till(), StoreJournal(Losing(losses=1))
    state = (await paused(till)).dump()
    for _ in range(2):
        run = resumed(state, till, journal)
        await run
        assert results(run) == ["paid zoe (1)"]
    assert till.paid == ["zoe"]


@pytest.mark.slow
async def test_a_store_that_is_away_for_long() -> None:
    """The tool has not run, and the state says which claim may be there: one run that resumes it takes that over."""
    till, journal = Till(), StoreJournal(Losing(losses=4))
    before = (await paused(till)).dump()
    run = resumed(before, till, journal)
    with pytest.raises(StoreError):
        await run
    assert till.paid == []
    with pytest.raises(CallInDoubtError):  # what was saved before knows nothing of that claim
        await resumed(before, till, journal)
    after = run.dump()
    outcomes: list[Any] = []

    async def resume() -> None:
        again = resumed(after, till, journal)
        try:
            await again
        except CallInDoubtError as error:
            outcomes.append(error.call.id)
        else:
            outcomes.append(results(again))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(resume)
    assert till.paid == ["zoe"]
    assert all(found in ("call_0", ["paid zoe (1)"]) for found in outcomes)
    await resume()
    assert outcomes[-1] == ["paid zoe (1)"]


@pytest.mark.slow
async def test_a_result_that_can_not_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    """The tool has run: the run goes on with its result, and the log says so. Copies of the state are in doubt."""
    till, journal = Till(), StoreJournal(Losing(losses=4, about=".result"))
    state = (await paused(till)).dump()
    run = resumed(state, till, journal)
    assert (await run).text == "Done."
    assert results(run) == ["paid zoe (1)"]
    assert "the result of the call 'call_0' of pay can't be stored" in caplog.text


async def test_two_runs_that_share_the_calls_of_a_turn() -> None:
    """Each runs the calls that it has claimed to their end, though the other one has the rest."""
    ran: list[str] = []
    both = anyio.Event()

    @tool(needs_approval=True)
    async def pay(to: str) -> str:
        ran.append(f"began {to}")
        if len(ran) == 2:
            both.set()
        await both.wait()
        for _ in range(20):  # longer than the other run needs to see that a call is in doubt
            await anyio.sleep(0)
        ran.append(f"paid {to}")
        return f"paid {to}"

    class Shared(StoreJournal):
        """Lets the first run have the call that it claims first, and the second run the other one."""

        claims = 0
        first = ""

        async def claim(self, key: str, nonce: str | None = None) -> bool:
            self.claims += 1
            self.first = self.first or key
            if self.claims == 2 or (self.claims > 2 and key == self.first):
                await both.wait()
            return await super().claim(key, nonce)

    model = ScriptedProvider([call("pay", call_id="a", to="ann"), call("pay", call_id="b", to="bob")], "Done.")
    first = run_tools(model, "Pay", [pay])
    async for _ in first:
        pass
    journal, outcomes = Shared("memory"), list[str]()

    async def resume() -> None:
        run = resume_tools(ScriptedProvider("Done."), first.dump(), [pay], journal=journal)
        for name in ("a", "b"):
            run.approve(name)
        try:
            await run
        except CallInDoubtError as error:
            outcomes.append(error.call.id)
        else:
            outcomes.append(str(results(run)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(resume)
        while journal.claims < 2:
            await anyio.sleep(0)
        tasks.start_soon(resume)
    assert sorted(ran) == ["began ann", "began bob", "paid ann", "paid bob"]
    assert sorted(outcomes) == ["a", "b"]
    await resume()
    assert outcomes[-1] == "['paid ann', 'paid bob']"


async def test_a_store_that_keeps_nothing_runs_nothing() -> None:
    """A claim that is not there afterwards is no claim."""

    class Full(MemoryStore):
        async def put(self, owner: str, values: Mapping[str, bytes], *, new: bool = False, ahead: float = 0.0) -> bool:
            return False

    till = Till()
    with pytest.raises(StoreError, match="can't store the claim"):
        await StoreJournal(Full()).claim("run/call", "a nonce")
    assert till.paid == []


@pytest.mark.slow
async def test_a_connection_that_breaks_behind_a_claim(tmp_path: Path) -> None:
    """On a real server: its answer to the claim never arrives, the client sends the claim again, the tool runs once."""
    with valkey_server(tmp_path) as server:
        socket_path = server.url.removeprefix("unix://")
        async with cutting(socket_path, b".claim") as (port, cuts):
            till, journal = Till(), StoreJournal(f"valkey://127.0.0.1:{port}")
            state = (await paused(till)).dump()
            for _ in range(2):
                run = resumed(state, till, journal)
                await run
                assert results(run) == ["paid zoe (1)"]
            assert (till.paid, cuts) == (["zoe"], [1])
            await journal.store.aclose()


@asynccontextmanager
async def cutting(path: str, about: bytes) -> AsyncIterator[tuple[int, list[int]]]:
    """A proxy for a server, which cuts the first connection on which something is said, behind the server's answer."""
    cuts: list[int] = []

    async def serve(client: anyio.abc.SocketStream) -> None:
        async with client, await anyio.connect_unix(path) as server:
            asked = bytearray()

            async def up() -> None:
                async for data in client:
                    asked.extend(data)
                    await server.send(data)
                tasks.cancel_scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(up)
                async for data in server:
                    if about in asked and not cuts and not data.startswith(b"-NOSCRIPT"):
                        cuts.append(1)
                        break
                    await client.send(data)
                tasks.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), cuts
        tasks.cancel_scope.cancel()


async def test_a_claim_is_on_the_disk_before_the_tool_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a claim in a file its text and its name are synchronized."""
    events: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        events.append("synchronized")

    monkeypatch.setattr(os, "fsync", fsync)

    def look() -> str:
        events.append("tool")
        return "done"

    await run_tools(ScriptedProvider(call("look"), "Done."), "x", [look], journal=FileJournal(tmp_path))
    assert events.index("tool") >= (1 if os.name == "nt" else 2)


async def test_a_new_run_reads_nothing(tmp_path: Path) -> None:
    """The same question with the same call is another run: its tool runs, for each owner and each time."""
    till, journal = Till(), FileJournal(tmp_path)
    ids = set()
    for owner in ("", "alice", "bob", "alice"):
        run = await paused(till, journal, owner=owner)
        run.approve("call_0")
        await run
        assert results(run) == [f"paid zoe ({len(till.paid)})"]
        ids.add(run.id)
    assert len(till.paid) == len(ids) == 4


async def test_a_state_belongs_to_its_owner() -> None:
    """Another owner can't resume it; one who isn't named takes it from the state."""
    till = Till()
    run = await paused(till, owner="alice")
    for owner in ("bob", ""):
        with pytest.raises(ConfigError, match="belongs to another owner"):
            resume_tools(ScriptedProvider(), run.dump(), till.tools(), owner=owner)
    assert resume_tools(ScriptedProvider(), run.dump(), till.tools()).owner == "alice"
    assert resume_tools(ScriptedProvider(), run.dump(), till.tools(), owner="alice").id == run.id
    for wrong in (None, 7):
        with pytest.raises(ConfigError, match="owner must be text"):
            run_tools(ScriptedProvider(), "x", [], owner=wrong)  # type: ignore[arg-type]


async def test_the_id_of_a_run_is_made_here() -> None:
    """There is no keyword for it."""
    with pytest.raises(ConfigError, match="unknown option 'run_id'"):
        run_tools(ScriptedProvider(), "x", [], run_id="chosen")  # type: ignore[call-arg]


async def test_what_is_deleted_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has ended, a day after its state is refused; never one that waits, though its state is refused too."""
    now = time.time()
    for module in ("journal", "tool_loop"):
        monkeypatch.setattr(f"streamfold.tools.{module}.time", lambda: now)
    for journal in (FileJournal(tmp_path / "calls", keep_days=3), StoreJournal("memory", keep_days=3)):
        till = Till()
        ended, waiting = [(await paused(till, journal)).dump() for _ in range(2)]
        await resumed(ended, till, journal)
        failed = resume_tools(ScriptedProvider(), waiting, till.tools(), journal=journal)
        failed.approve("call_0")
        with pytest.raises(AssertionError):
            await failed  # its tool has run, and it has no answer yet
        for days, forgotten in ((2, False), (3, True)):
            now += days * 86_400
            if isinstance(journal, FileJournal):
                for file in (tmp_path / "calls").glob("*/ended"):
                    os.utime(file, (now - 5 * 86_400 * forgotten, now - 5 * 86_400 * forgotten))
            await run_tools(ScriptedProvider(call("nothing"), "Done."), "x", [], journal=journal)
            if not forgotten:
                await resumed(ended, till, journal)
            else:
                for state in (ended, waiting):
                    with pytest.raises(
                        ConfigError, match=r"began 5.0 days ago, and the journal deletes entries after 3 days"
                    ):
                        resumed(state, till, journal)
            keys = [call_key("", json.loads(state)["run_id"], 2, CALL) for state in (ended, waiting)]
            assert [await journal.result(key) is None for key in keys] == [forgotten, False]
        assert len(till.paid) == 2
    with pytest.raises(ConfigError, match="keep_days must be greater than 0"):
        FileJournal(tmp_path, keep_days=0)
