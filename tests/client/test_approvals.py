"""Calls that wait for somebody: an approval, a denial or a result, here or in another process; each call runs once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import streamfold.sync
from streamfold import (
    ConfigError,
    StreamChunk,
    StreamfoldError,
    Tool,
    ToolCall,
    ToolResult,
    ToolRun,
    TurnLimitError,
    run_tools,
    tool,
    user,
)
from streamfold.testing import ScriptedProvider, call, fail
from streamfold.tools import CallInDoubtError, FileJournal, PendingCall, resume_tools
from streamfold.types import ImagePart
from tables import each_row

PAINT = Tool("paint", "Paints in the browser.")


class Desk:
    """Tools that remember what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self, **options: Any) -> list[Tool]:
        def delete(path: str) -> dict[str, str]:
            self.done.append(f"delete {path}")
            return {"deleted": path}

        def look(path: str) -> str:
            self.done.append(f"look {path}")
            return f"{path} is old"

        return [tool(delete, needs_approval=True, **options), tool(look)]


async def read(run: ToolRun) -> str:
    return "".join([chunk.delta async for chunk in run])


def results(run: ToolRun) -> list[Any]:
    return [message.content for message in run.messages if message.role == "tool"]


def ids(run: ToolRun) -> list[str]:
    return [waiting.call.id for waiting in run.pending]


async def test_the_run_pauses_before_a_call_that_needs_an_approval() -> None:
    """The iteration ends; other calls of the turn have run; the history can be sent and says what is missing."""
    desk, model = Desk(), ScriptedProvider([call("delete", path="a"), call("look", path="b")], "Done.")
    run = run_tools(model, "Tidy up", desk.tools())
    assert await read(run) == ""
    assert [(waiting.call.name, waiting.waits_for) for waiting in run.pending] == [("delete", "approval")]
    assert desk.done == ["look b"]
    assert results(run) == ["not run: the tool call waits for an approval", "b is old"]
    assert await read(run) == ""  # still paused: nothing was sent
    assert len(model.requests) == 1

    run.approve(*ids(run))
    assert await read(run) == "Done."
    assert desk.done == ["look b", "delete a"]
    assert results(run) == ['{"deleted": "a"}', "b is old"]
    assert run.pending == ()
    model.assert_done()


async def test_a_denied_call_is_never_run_and_the_model_is_told_why() -> None:
    """A denial is a result."""
    desk, model = Desk(), ScriptedProvider(call("delete", path="a"), "Then not.")
    run = run_tools(model, "Tidy up", desk.tools())
    await read(run)
    run.deny(*ids(run), reason="not on Fridays")
    assert await read(run) == "Then not."
    assert desk.done == []
    assert results(run) == ["not run: the call was denied: not on Fridays"]
    with pytest.raises(ConfigError, match="no call 'nope'"):
        run.approve("nope")


async def test_a_function_decides_about_each_call() -> None:
    """`needs_approval` may be a function of the call, plain or async."""
    seen: list[str] = []

    async def outside(found: ToolCall) -> bool:
        return not found.arguments["path"].startswith("tmp/")

    def delete(path: str) -> str:
        seen.append(path)
        return "ok"

    turns = [call("delete", path="tmp/a"), call("delete", path="home/b")]
    run = run_tools(ScriptedProvider(turns, "Done."), "x", [tool(delete, needs_approval=outside)])
    await read(run)
    assert seen == ["tmp/a"]
    assert [waiting.call.arguments for waiting in run.pending] == [{"path": "home/b"}]


async def test_every_way_to_make_a_tool_can_ask_for_an_approval() -> None:
    """Also those from a pydantic model and from the description of an MCP tool."""

    class Erase(BaseModel):
        path: str

    described = {"name": "wipe", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}
    made = [
        Tool.from_model(Erase, function=lambda found: found.path, needs_approval=True),
        Tool.from_mcp(described, function=lambda path: path, needs_approval=True),
    ]
    run = run_tools(ScriptedProvider([call("Erase", path="a"), call("wipe", path="b")]), "x", made)
    await read(run)
    assert [waiting.call.name for waiting in run.pending] == ["Erase", "wipe"]
    with pytest.raises(ConfigError, match="needs_approval must be a bool or a function"):
        Tool("f", needs_approval="yes")  # type: ignore[arg-type]


async def test_nobody_is_asked_about_a_call_that_can_not_run() -> None:
    """Arguments that do not fit go back to the model without an approval."""
    desk = Desk()
    run = run_tools(ScriptedProvider(call("delete", wrong=1), "Sorry."), "x", desk.tools())
    assert await read(run) == "Sorry."
    assert "invalid arguments for delete" in results(run)[0]
    assert desk.done == []


async def test_a_run_goes_on_in_another_run_from_its_state() -> None:
    """State is text; decisions that were made before are part of it."""
    desk = Desk()
    first = run_tools(ScriptedProvider([call("delete", path="a"), call("delete", path="b")]), "x", desk.tools())
    await read(first)
    one, two = ids(first)
    first.approve(one)
    second = resume_tools(ScriptedProvider("Done."), first.dump(), desk.tools())
    assert ids(second) == [two]
    assert await read(second) == ""
    assert desk.done == ["delete a"]
    third = resume_tools(ScriptedProvider("Done."), second.dump(), desk.tools())
    third.deny(two)
    assert await read(third) == "Done."
    assert desk.done == ["delete a"]
    assert third.id == first.id
    assert third.reply.text == "Done."


async def test_an_approval_that_is_given_again_runs_nothing_again() -> None:
    """The state records what has run: a call with a result, an answered run, and a decision that was made before."""
    desk = Desk()
    first = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools())
    await read(first)
    (found,) = ids(first)
    second = resume_tools(ScriptedProvider(fail(500), "Done."), first.dump(), desk.tools())
    second.approve(found)
    second.approve(found)
    with pytest.raises(Exception, match="500"):
        await read(second)
    third = resume_tools(ScriptedProvider("Done."), second.dump(), desk.tools())
    third.approve(found)
    assert await read(third) == "Done."
    fourth = resume_tools(ScriptedProvider(), third.dump(), desk.tools())
    fourth.approve(found)
    assert await read(fourth) == ""
    assert desk.done == ["delete a"]
    with pytest.raises(ConfigError, match="it was approved"):
        second.deny(found)


async def test_a_decision_about_a_closed_run() -> None:
    """Nothing would run the call: the error says so, and the state has the decision for the run that continues it."""
    desk = Desk()
    async with run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools()) as run:
        await read(run)
    (found,) = ids(run)
    with pytest.raises(StreamfoldError, match=r"this run was closed.*resume_tools\(provider, run\.dump\(\), tools\)"):
        run.approve(found)
    assert await read(resume_tools(ScriptedProvider("Done."), run.dump(), desk.tools())) == "Done."
    assert desk.done == ["delete a"]


async def test_a_call_that_was_started_is_not_started_again() -> None:
    """A run that was cancelled while a tool ran has a state in which that call counts as not finished."""
    started: list[str] = []

    async def slow(path: str) -> str:
        started.append(path)
        await anyio.sleep_forever()
        raise AssertionError

    run = run_tools(ScriptedProvider(call("slow", path="a")), "x", [slow])
    async with anyio.create_task_group() as group:
        group.start_soon(read, run)
        while not started:
            await anyio.sleep(0)
        group.cancel_scope.cancel()
    again = resume_tools(ScriptedProvider("Oh."), run.dump(), [slow])
    assert await read(again) == "Oh."
    assert started == ["a"]
    assert results(again) == ["not finished: the run was stopped before the tool had answered"]


async def test_two_copies_of_a_state_run_a_call_once(tmp_path: Path) -> None:
    """With a journal, whoever claims a call first runs it; the other gets its result."""
    desk = Desk()
    first = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools())
    await read(first)
    state, (found,) = first.dump(), ids(first)
    for _ in range(2):
        copy = resume_tools(ScriptedProvider("Done."), state, desk.tools(), journal=FileJournal(tmp_path / "calls"))
        copy.approve(found)
        assert await read(copy) == "Done."
        assert results(copy) == ['{"deleted": "a"}']
    assert desk.done == ["delete a"]


@each_row("decisions", [("approve", "deny"), ("deny", "approve")])
async def test_the_first_decision_about_a_call_counts(tmp_path: Path, decisions: tuple[str, str]) -> None:
    """With a journal: a copy of the state that decides otherwise, later, gets the result of the first."""
    desk = Desk()
    first = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools())
    await read(first)
    told = []
    for decision in decisions:
        copy = resume_tools(ScriptedProvider("Oh."), first.dump(), desk.tools(), journal=FileJournal(tmp_path / "c"))
        getattr(copy, decision)(*ids(first))
        await read(copy)
        told.append(results(copy))
    approved = decisions[0] == "approve"
    assert told == [['{"deleted": "a"}' if approved else "not run: the call was denied"]] * 2
    assert desk.done == (["delete a"] if approved else [])


async def test_a_call_that_another_run_has_started_is_in_doubt(tmp_path: Path) -> None:
    """Without a result in the journal the call is not run again, and the run says so."""
    desk = Desk()
    run = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools())
    await read(run)

    class Busy(FileJournal):
        async def claim(self, key: str, nonce: str | None = None) -> bool:
            return False

    copy = resume_tools(ScriptedProvider("Done."), run.dump(), desk.tools(), journal=Busy(tmp_path))
    copy.approve(*ids(run))
    with pytest.raises(CallInDoubtError, match="started by another run") as caught:
        await read(copy)
    assert caught.value.call.name == "delete"
    assert desk.done == []


async def test_results_in_a_journal_keep_their_parts(tmp_path: Path) -> None:
    """Images are results too."""
    picture = ImagePart(data=b"\x89PNG", media_type="image/png")
    shoot = tool(lambda: [picture, "a cat"], name="shoot", needs_approval=True)
    first = run_tools(ScriptedProvider(call("shoot")), "x", [shoot], journal=FileJournal(tmp_path))
    await read(first)
    seen = []
    for _ in range(2):
        copy = resume_tools(ScriptedProvider("Nice."), first.dump(), [shoot], journal=FileJournal(tmp_path))
        copy.approve(*ids(first))
        seen.append([event async for event in copy.events() if isinstance(event, ToolResult)])
    assert seen[0][0].message == seen[1][0].message
    assert seen[0][0].value[0] == picture


async def test_external_tools_are_answered_from_outside() -> None:
    """A call of a tool that somebody else runs waits for its result."""
    desk = Desk()
    model = ScriptedProvider([call("paint", colour="red"), call("look", path="b")], "Pretty.")
    run = run_tools(model, "x", desk.tools(), external=[PAINT])
    await read(run)
    assert [waiting.waits_for for waiting in run.pending] == ["result"]
    assert results(run)[0] == "not finished: the result has not arrived"
    again = resume_tools(model, run.dump(), desk.tools(), external=[PAINT])
    (found,) = ids(again)
    with pytest.raises(ConfigError, match="the call waits for a result"):
        again.approve(found)
    again.answer(found, {"painted": True})
    again.answer(found, "ignored")
    assert await read(again) == "Pretty."
    assert results(again) == ['{"painted": true}', "b is old"]
    with pytest.raises(ConfigError, match="external="):
        run_tools(model, "x", [PAINT])


async def test_a_conversation_that_ends_with_calls_can_be_resumed() -> None:
    """What a user interface sends back is a conversation; only calls that somebody approved are run."""
    desk = Desk()
    first = run_tools(ScriptedProvider([call("delete", path="a"), call("look", path="b")]), "x", desk.tools())
    await read(first)
    turn = [*first.messages[:2]]  # neither call has a result
    again = resume_tools(ScriptedProvider("Done."), turn, desk.tools())
    assert again.id != first.id
    assert [waiting.call.name for waiting in again.pending] == ["delete"]
    again.approve(*ids(again))
    assert await read(again) == "Done."
    assert desk.done == ["look b", "delete a"]  # `look` may have run before: not again
    assert results(again)[1].startswith("not finished")
    with pytest.raises(ConfigError, match="nothing to resume"):
        resume_tools(ScriptedProvider(), [user("Hello")], desk.tools())


async def test_events_are_chunks_and_results() -> None:
    """A user interface sees each result between the turns."""
    desk = Desk()
    run = run_tools(ScriptedProvider([call("look", path="b"), call("nope")], "Done."), "x", desk.tools())
    seen = [event async for event in run.events()]
    said = [event.value if isinstance(event, ToolResult) else event.finished for event in seen]
    assert said.count("b is old") == 1
    assert [type(event) for event in seen if not isinstance(event, StreamChunk)] == [ToolResult, ToolResult]
    failed = [event for event in seen if isinstance(event, ToolResult) and event.message.error]
    assert [event.value for event in failed] == ["unknown tool 'nope'. Available: delete, look"]


@each_row("state", ["", "{}", "[1]", '{"version": 1}', '{"version": 1, "messages": 3}'])
def test_a_state_that_is_none_is_refused(state: str) -> None:
    """The error says what was expected."""
    with pytest.raises(ConfigError, match="state"):
        resume_tools(ScriptedProvider(), state, [])


async def test_statuses_that_do_not_fit_are_refused() -> None:
    """A state names the calls of its last turn."""
    desk = Desk()
    run = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools())
    await read(run)
    with pytest.raises(ConfigError, match="does not match the tool calls"):
        resume_tools(ScriptedProvider(), run.dump().replace('"calls": [', '"calls": [{"id": "x"}, '), desk.tools())
    with pytest.raises(ConfigError, match="is not the status of a tool call"):
        resume_tools(ScriptedProvider(), run.dump().replace('"approval"', '"maybe"'), desk.tools())


async def test_turns_are_counted_across_a_pause() -> None:
    """The limit of turns is part of the state."""
    desk = Desk()
    run = run_tools(ScriptedProvider(call("delete", path="a")), "x", desk.tools(), max_turns=2)
    await read(run)
    again = resume_tools(ScriptedProvider(call("look", path="b")), run.dump(), desk.tools())
    again.approve(*ids(run))
    with pytest.raises(TurnLimitError):
        await read(again)


PROCESS = """
import sys
from pathlib import Path

import anyio

from streamfold import run_tools, tool
from streamfold.tools import FileJournal, resume_tools
from streamfold.testing import ScriptedProvider, call

folder, step = Path(sys.argv[1]), sys.argv[2]


@tool(needs_approval=True)
def delete(path: str) -> str:
    with (folder / "done").open("a") as file:
        file.write(path + "\\n")
    return "deleted"


async def main() -> None:
    journal = FileJournal(folder / "journal")
    if step == "ask":
        run = run_tools(ScriptedProvider(call("delete", path="a")), "x", [delete], journal=journal)
        async for _ in run:
            pass
        (folder / "state").write_text(run.dump())
    else:
        state = (folder / "state").read_text()
        run = resume_tools(ScriptedProvider("Done."), state, [delete], journal=journal)
        run.approve(run.pending[0].call.id)
        print("".join([chunk.delta async for chunk in run]))


anyio.run(main, backend=sys.argv[3])
"""


@pytest.mark.slow
async def test_an_approval_in_another_process_runs_the_call_once(tmp_path: Path, anyio_backend_name: str) -> None:
    """Three processes: one asks, two get the same approval."""
    for step in ("ask", "approve", "approve"):
        words = [sys.executable, "-W", "error", "-c", PROCESS, str(tmp_path), step, anyio_backend_name]
        done = await anyio.run_process(words, stderr=subprocess.PIPE)
        assert done.stdout.decode().strip() == ("" if step == "ask" else "Done.")
    assert (tmp_path / "done").read_text() == "a\n"


def test_synchronous_code_can_pause_too() -> None:
    """`streamfold.sync` has the same pause, decisions and state."""
    desk = Desk()
    with streamfold.sync.Provider(ScriptedProvider(call("delete", path="a"), "Done.").provider) as provider:
        run = streamfold.sync.run_tools(provider, "x", desk.tools())
        assert run.read().tool_calls
        assert isinstance(run.pending[0], PendingCall)
        again = streamfold.sync.resume_tools(provider, run.dump(), desk.tools())
        again.approve(again.pending[0].call.id)
        assert again.read().text == "Done."
    assert desk.done == ["delete a"]
