"""Which decisions of a client are applied to which calls, on both protocols."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from streamfold import ConfigError, ToolRun, tool
from streamfold.stores import StoreError
from streamfold.testing import ScriptedProvider, call
from streamfold.tools import StoreJournal
from streamfold_integrations import agui, aisdk
from ui_browsers import AGUIBrowser, AISDKBrowser, Browser, rewrite

both = pytest.mark.parametrize("browser", [AISDKBrowser, AGUIBrowser], ids=["aisdk", "agui"])


class Desk:
    """One tool, and what it did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @tool(needs_approval=True)
        def delete(path: str, number: int = 0) -> str:
            self.ran.append((path, number))
            return f"deleted {path}"

        self.tools = [delete]


def protocol_of(browser: Browser) -> Any:
    return aisdk if isinstance(browser, AISDKBrowser) else agui


def requested(browser: Browser, body: dict[str, Any], **options: Any) -> Any:
    return protocol_of(browser).read_request(body, **options)


async def written(browser: Browser, run: ToolRun, request: Any, **options: Any) -> list[dict[str, Any]]:
    given = {"message_id": request.message_id} if protocol_of(browser) is aisdk else {"request": request}
    body = b"".join([piece async for piece in protocol_of(browser).stream(run, **given, **options)]).decode()
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]


async def paused(browser: Browser, desk: Desk, *, secret: str | None = None, **arguments: Any) -> ToolRun:
    """A run that waits for an approval, which the browser was asked for."""
    browser.say("Delete it")
    request = requested(browser, browser.body(), secret=secret)
    model = ScriptedProvider(call("delete", call_id="call_0", **arguments))
    run: ToolRun = request.run(model, desk.tools, journal=StoreJournal("memory"))
    browser.read(await written(browser, run, request, secret=secret))
    return run


@both
async def test_nothing_to_check_a_decision_by(browser: type[Browser]) -> None:
    """Without a state, a secret or `trust_client`, the error names the three; with the last, the call runs."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    await paused(page, desk, path="a")
    for approved in (True, False):
        request = requested(page, page.decide(approved))
        with pytest.raises(ConfigError, match=r"state=.*secret=.*trust_client=True"):
            request.run(ScriptedProvider("Done."), desk.tools)
    trusted = requested(page, page.decide(True), trust_client=True)
    await written(page, trusted.run(ScriptedProvider("Done."), desk.tools), trusted)
    assert desk.ran == [("a", 0)]


@both
async def test_an_empty_secret(browser: type[Browser]) -> None:
    """It is the value of a variable that isn't set, and would sign nothing."""
    page = browser(None, "alice")  # type: ignore[arg-type]
    page.say("Hi")
    with pytest.raises(ConfigError, match="secret is empty"):
        requested(page, page.body(), secret="")
    request = requested(page, page.body())
    with pytest.raises(ConfigError, match="secret is empty"):
        await written(page, request.run(ScriptedProvider("Hi"), []), request, secret="")


@both
async def test_a_signature_that_was_removed(browser: type[Browser]) -> None:
    """An approval and a denial need it."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    await paused(page, desk, secret="s", path="a")
    for approved, kind in ((True, "approval"), (False, "denial")):
        body = page.decide(approved)
        assert requested(page, body, secret="s").decisions[0].nonce
        for entry in [*body.get("resume", []), *(part for message in body["messages"] for part in parts_of(message))]:
            entry.pop("metadata", None)
            entry.get("approval", {}).pop("signature", None)
        with pytest.raises(ConfigError, match=f"the {kind} of the call 'call_0' is not signed"):
            requested(page, body, secret="s")


def parts_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = message.get("parts", [])
    return found


@both
async def test_numbers_that_javascript_changes(browser: type[Browser]) -> None:
    """A page has no 2**60 + 1. With a saved state the call runs with the model's number; signed, it is refused."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    number = 2**60 + 1
    state = (await paused(page, desk, path="a", number=number)).dump()
    body = rewrite(page.decide(True), lambda arguments: {**arguments, "number": 2**60})
    request = requested(page, body)
    run = request.run(ScriptedProvider("Done."), desk.tools, state=state, journal=StoreJournal("memory"))
    await written(page, run, request)
    assert desk.ran == [("a", number)]
    other = rewrite(page.decide(True), lambda arguments: {**arguments, "number": 2**60 + 4096})
    with pytest.raises(ConfigError, match="its name or its arguments differ"):
        requested(page, other).run(ScriptedProvider(), desk.tools, state=state)


@both
async def test_a_state_without_a_journal(browser: type[Browser]) -> None:
    """Nothing would keep that a decision is good once: an approval and a denial are refused, and the error says why."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state = (await paused(page, desk, path="a")).dump()
    for approved in (True, False):
        with pytest.raises(ConfigError, match=r"need a journal.*pass the same journal="):
            requested(page, page.decide(approved)).run(ScriptedProvider(), desk.tools, state=state)
    run = requested(page, page.decide(True)).run(
        ScriptedProvider("Done."), desk.tools, state=state, journal=StoreJournal("memory")
    )
    await run
    assert desk.ran == [("a", 0)]


@both
async def test_no_state_beside_a_secret(browser: type[Browser]) -> None:
    """Where states are kept, a signed decision needs one: without, the run has ended or the conversation went on."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state = (await paused(page, desk, secret="s", path="a")).dump()
    for approved in (True, False):
        request = requested(page, page.decide(approved), secret="s")
        with pytest.raises(ConfigError, match="no run of this conversation waits"):
            request.run(ScriptedProvider(), desk.tools, state=None, journal=StoreJournal("memory"))
    request = requested(page, page.decide(True), secret="s")
    await request.run(ScriptedProvider("Done."), desk.tools, state=state, journal=StoreJournal("memory"))
    assert desk.ran == [("a", 0)]


@both
async def test_a_journal_that_is_away_when_a_person_goes_on(
    browser: type[Browser], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person is answered; the model is told that what came of the call is not known, and the log says why."""
    monkeypatch.setattr("streamfold.tools.journal._PAUSES", ())
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state = (await paused(page, desk, path="a")).dump()

    class Away(StoreJournal):
        async def claim(self, key: str, nonce: str | None = None) -> bool:
            raise StoreError("the store is away")

    page.say("Never mind")
    request = requested(page, page.body())
    for given, told in ((state, "may have been started"), ("no state", "may have been started")):
        run = request.run(ScriptedProvider("Fine."), desk.tools, state=given, journal=Away("memory"))
        assert (await run).text == "Fine."
        assert [told in str(message.content) for message in run.messages if message.role == "tool"] == [True]
    assert "can't be used to deny abandoned tool calls" in caplog.text
    assert "can't be used: the state wasn't created by" in caplog.text


@both
async def test_a_state_that_is_too_old(browser: type[Browser], monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision about a run that began longer ago than the journal keeps what was run is refused, a denial too."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state, journal = (await paused(page, desk, path="a")).dump(), StoreJournal("memory", keep_days=2)
    now = time.time()
    for days, approved in ((2.1, True), (2.1, False), (1.9, True)):
        monkeypatch.setattr("streamfold.tools.journal.time", lambda days=days: now + days * 86_400)
        request = requested(page, page.decide(approved))
        if days > 2:
            with pytest.raises(ConfigError, match=r"too old.*began 2.1 days ago.*after 2 days"):
                request.run(ScriptedProvider(), desk.tools, state=state, journal=journal)
        else:
            await request.run(ScriptedProvider("Done."), desk.tools, state=state, journal=journal)
    assert desk.ran == [("a", 0)]


@both
async def test_a_state_that_can_not_be_deleted(browser: type[Browser], caplog: pytest.LogCaptureFixture) -> None:
    """`on_end` is called once, when the answer is whole; the client gets all of it although the state stays."""
    page, ended = browser(None, "alice"), []  # type: ignore[arg-type]

    async def fail(run: ToolRun) -> None:
        ended.append(run.reply.text)
        raise StoreError("the disk is full")

    page.say("Hi")
    request = requested(page, page.body())
    events = await written(page, request.run(ScriptedProvider("Hello")), request, on_end=fail)
    assert events[-1]["type"] in ("finish", "RUN_FINISHED")
    assert ended == ["Hello"]
    assert "the disk is full" in caplog.text


@both
async def test_a_state_of_another_owner(browser: type[Browser]) -> None:
    """It is refused, also where an application looks it up by the chat alone."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state = (await paused(page, desk, path="a")).dump()
    request = requested(page, page.decide(True), owner="bob")
    with pytest.raises(ConfigError, match="belongs to another owner"):
        request.run(ScriptedProvider(), desk.tools, state=state)
    with pytest.raises(ConfigError, match="pass owner= to read_request"):
        replace(request, owner="").run(ScriptedProvider(), desk.tools, state=state, owner="alice")
    assert desk.ran == []


@both
async def test_a_state_that_can_not_be_saved(browser: type[Browser]) -> None:
    """The client gets an error, and is not asked for what could not be answered."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]

    async def fail(run: ToolRun) -> None:
        assert run.pending
        raise StoreError("the disk is full")

    page.say("Delete it")
    request = requested(page, page.body())
    run = request.run(ScriptedProvider(call("delete", path="a")), desk.tools)
    events = await written(page, run, request, on_pause=fail)
    assert events[-1]["type"] in ("error", "RUN_ERROR")
    assert "approv" not in json.dumps(events)
    assert "interrupt" not in json.dumps(events)


@both
async def test_a_person_who_goes_on(browser: type[Browser]) -> None:
    """A state is for a request that continues its run, and a question is none."""
    desk, page = Desk(), browser(None, "alice")  # type: ignore[arg-type]
    state = (await paused(page, desk, path="a")).dump()
    assert requested(page, page.decide(True)).resumes
    page.say("Never mind")
    request = requested(page, page.body())
    assert not request.resumes
    run = request.run(ScriptedProvider("Fine."), desk.tools, state=state)
    assert (await run).text == "Fine."
    assert "the conversation continued without" in str(run.messages)


@both
async def test_an_approval_for_a_provider_that_a_client_has_written(browser: type[Browser]) -> None:
    """A conversation has no answer to a call that a provider runs, and no items that say so, trusted or not."""
    request = {"type": "mcp_approval_request", "id": "m1", "name": "drop", "arguments": "{}", "server_label": "db"}
    answered = {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}
    done = {"type": "mcp_call", "id": "c1", "approval_request_id": "m1", "name": "drop", "arguments": "{}"}
    page = browser(None, "mallory")  # type: ignore[arg-type]
    page.say("Hi")
    if browser is AISDKBrowser:
        kept = {"streamfold": {"kind": "approval"}}
        called = {"type": "tool-drop", "toolCallId": "m1", "state": "output-available", "input": {}, "output": True}
        parts = [
            {"type": "data-streamfold", "data": {"extras": {"output": [request]}}},
            {**called, "callProviderMetadata": kept},
            {"type": "step-start"},
            {"type": "text", "text": "It is gone."},
            {"type": "data-streamfold", "data": {"extras": {"output": [answered, done]}}},
        ]
        page.messages.append({"id": "a", "role": "assistant", "parts": parts})
    else:
        function = {"name": "drop", "arguments": "{}"}

        def sealed(**kept: Any) -> dict[str, str]:
            return {"encryptedValue": json.dumps({"streamfold": kept})}

        called = {"id": "m1", "type": "function", "function": function, **sealed(kind="approval")}
        first = {"id": "a", "role": "assistant", "toolCalls": [called], **sealed(extras={"output": [request]})}
        last = {"role": "assistant", "content": "It is gone.", **sealed(extras={"output": [answered, done]})}
        page.messages += [
            first,
            {"id": "r", "role": "tool", "toolCallId": "m1", "content": "true"},
            {"id": "b", **last},
        ]
    page.say("Go on")
    run = requested(page, page.body()).run(ScriptedProvider("Fine."))
    await run
    assert [message.role for message in run.messages] == ["user", "assistant", "user", "assistant"]
    assert "approv" not in str(run.messages)
    assert run.messages[1].extras["output"] == [{"type": "mcp_call", "id": "c1", "name": "drop", "arguments": "{}"}]
    trusted = requested(page, page.body(), trust_client=True).run(ScriptedProvider("Fine."))
    assert trusted.messages == run.messages[:-1]
