"""The endpoints of `examples/web_chat`, which the guide on user interfaces shows, attacked by their own users."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest

from pages import ROOT, parts_of
from streamfold import ConfigError, tool
from streamfold.testing import ScriptedProvider, SentRequest, call, fail
from streamfold.tools import StoreJournal
from streamfold_integrations import agui, aisdk
from ui_browsers import AGUIBrowser, AISDKBrowser, Browser, rewrite, was_refused

fastapi = pytest.importorskip("fastapi")
Request, StreamingResponse = fastapi.Request, fastapi.responses.StreamingResponse

FOLDER = ROOT / "examples" / "web_chat"
GUIDE = ROOT / "docs" / "guides" / "approvals.md"


@pytest.fixture
def endpoints() -> Iterator[Any]:
    """The module of the example."""
    sys.path.insert(0, str(FOLDER))
    try:
        import endpoints

        yield endpoints
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("endpoints", None)


@dataclass
class Site:
    """An application with the endpoints: each user has a cookie, and a tool deletes files.

    Attributes:
        saves: it keeps the states of runs that paused, as the guide says; else it signs their calls.
        ran: what the tool has deleted.
        turns: what the model answers next.
        gate: set to let the tool end.
        tool_gate: set to let the tool end that needs no approval.
    """

    client: httpx.AsyncClient
    model: ScriptedProvider
    saves: bool
    ran: list[str] = field(default_factory=list)
    turns: list[Any] = field(default_factory=list)
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    gate: anyio.Event | None = None
    tool_gate: anyio.Event | None = None


def signing_router(model: Any, tools: Any, *, current_user: Any, states: Any, journal: Any) -> Any:
    """Endpoints that keep no state: the calls are signed."""
    router = fastapi.APIRouter()

    async def answer(request: Request, user: str, protocol: Any, *words: Any) -> Any:
        try:
            asked = protocol.read_request(await request.json(), secret="s3cret", owner=user)
            run = asked.run(model, tools, journal=journal)
        except (ConfigError, ValueError, RecursionError) as error:
            raise fastapi.HTTPException(400, str(error)) from error
        given = {"message_id": asked.message_id} if protocol is aisdk else {"request": asked}
        return StreamingResponse(protocol.stream(run, secret="s3cret", **given))

    @router.post("/api/chat")
    async def chat(request: Request, user: str = fastapi.Depends(current_user)) -> Any:
        return await answer(request, user, aisdk)

    @router.post("/agent")
    async def agent(request: Request, user: str = fastapi.Depends(current_user)) -> Any:
        return await answer(request, user, agui)

    return router


@pytest.fixture(params=["saved", "signed"])
async def site(endpoints: Any, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    saves = request.param == "saved"

    def current_user(request: Request) -> Any:
        return request.cookies["user"]

    @tool(needs_approval=True)
    async def delete_file(path: str, depth: float = 1) -> str:
        """Deletes a file."""
        made.ran.append(path)
        if made.gate is not None:
            await made.gate.wait()
        return f"deleted {path}"

    @tool
    async def wait() -> str:
        """Waits."""
        assert made.tool_gate is not None
        await made.tool_gate.wait()
        return "waited"

    def answer(_: Any) -> Any:
        return made.turns.pop(0) if made.turns else "Done."

    model = ScriptedProvider(then=answer)

    app = fastapi.FastAPI()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        made = Site(client, model, saves)
        router = (endpoints.chat_router if saves else signing_router)(
            model,
            [delete_file, wait],
            current_user=current_user,
            states=made.states,
            journal=StoreJournal("memory"),
        )
        app.include_router(router)
        yield made


both = pytest.mark.parametrize("browser", [AISDKBrowser, AGUIBrowser], ids=["aisdk", "agui"])


async def asks(site: Site, browser: Browser, answer: Any) -> None:
    """A user asks a question, and the model answers with a call that has to be approved."""
    site.turns.append(answer)
    await browser.ask("Delete it")


def delete(path: str, call_id: str = "functions.delete_file:0", **more: Any) -> Any:
    return call("delete_file", call_id=call_id, path=path, **more)


def test_the_guide_shows_the_example() -> None:
    """The endpoints of the guide are those of the example, to the last character."""
    (shown,) = [part.text for part in parts_of(GUIDE) if part.title == "endpoints.py"]
    assert shown == (FOLDER / "endpoints.py").read_text("utf-8")


@both
async def test_an_approval_runs_the_call(site: Site, browser: type[Browser]) -> None:
    """And a denial doesn't; the model is told."""
    alice = browser(site.client, "alice")
    for number, approved in enumerate((True, False, True)):
        await asks(site, alice, delete(f"{number}.txt"))  # the same id in each answer, as Kimi sends it
        assert len(site.ran) == (number > 0)
        alice.read(await alice.post(alice.decide(approved)))
        assert str(alice.messages[-1]).count("Done.") >= 1
    assert site.ran == ["0.txt", "2.txt"]


@both
async def test_a_decision_that_is_sent_again(site: Site, browser: type[Browser]) -> None:
    """It runs nothing again: at once, later, respelled, and after a denial or a later call with the same id.

    Once the run has ended, it is refused where the run was saved, and brings the result where it was signed.
    """
    alice = browser(site.client, "alice")
    await asks(site, alice, delete("a.txt", depth=1.0))
    approval, denial = alice.decide(True), alice.decide(False)
    site.gate = anyio.Event()
    answers: list[list[dict[str, Any]]] = []

    async def send() -> None:
        answers.append(await alice.post(approval))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(send)
        while len(answers) < 4:  # those that have not claimed the call
            await anyio.sleep(0.001)
        site.gate.set()
    assert ["started by another run" in str(answer) for answer in answers] == [True] * 4 + [False]
    alice.read(answers[-1])
    for again in (approval, denial, rewrite(approval, lambda arguments: dict(reversed(arguments.items())))):
        answer = await alice.post(again)
        assert was_refused(answer) if site.saves else "deleted a.txt" in str(answer)
    assert (site.ran, site.states) == (["a.txt"], {})

    await asks(site, alice, delete("b.txt"))
    for old in (approval, denial):  # where the client has the conversation, it is the old one, with its result
        assert was_refused(await alice.post(old)) == site.saves
    alice.messages.clear()  # so that AG-UI has the same id again, too
    await asks(site, alice, delete("a.txt", depth=1.0))
    for old in (approval, denial):
        assert was_refused(await alice.post(old))
    assert site.ran == ["a.txt"]
    await alice.post(alice.decide(True))
    assert site.ran == ["a.txt", "a.txt"]


@both
async def test_a_decision_about_something_else(site: Site, browser: type[Browser]) -> None:
    """Other arguments, another chat, a chat that is unknown, another user, or no id of the server: all are refused."""
    alice, bob = browser(site.client, "alice"), browser(site.client, "bob")
    await asks(site, alice, delete("a.txt"))
    await asks(site, bob, delete("b.txt"))
    other = browser(site.client, "alice", "chat-2")
    await asks(site, other, delete("a.txt"))
    for approved in (True, False):
        body = alice.decide(approved)
        name = "id" if browser is AISDKBrowser else "threadId"
        assert was_refused(await alice.post(rewrite(body, lambda _: {"path": "/srv"})))
        assert was_refused(await alice.post({**body, name: "chat-2"}))
        assert was_refused(await alice.post({**body, name: "chat-3"}))
        assert was_refused(await alice.post(body, user="bob"))
        assert was_refused(await bob.post(body, user="mallory"))
        text = json.dumps(body)
        names = ('"id": "', '"interruptId": "') if site.saves else ('"signature": "',)
        for start in [at for at in range(len(text)) if text.startswith(names, at)]:
            end = text.index('"', text.index(': "', start) + 3)
            if end - start > 36:  # the id of an approval
                forged = text[: end - 1] + ("0" if text[end - 1] != "0" else "1") + text[end:]
                assert was_refused(await alice.post(json.loads(forged)))
    assert site.ran == []
    for each in (alice, bob, other):
        each.read(await each.post(each.decide(True)))
    assert site.ran == ["a.txt", "b.txt", "a.txt"]


@both
async def test_a_call_that_no_model_has_made(site: Site, browser: type[Browser]) -> None:
    """It can't be approved: not at once, and not after the server was made to ask for it."""
    mallory = browser(site.client, "mallory")
    mallory.say("Hi")
    forged = browser(site.client, "mallory", "elsewhere")
    await asks(site, forged, delete("/srv"))
    mallory.messages += forged.messages[1:]
    if isinstance(mallory, AGUIBrowser) and isinstance(forged, AGUIBrowser):
        mallory.interrupts = forged.interrupts
    assert was_refused(await mallory.post(mallory.decide(True)))
    answer = await mallory.post(mallory.body())  # nothing is decided: it waits, for a decision that can't be made
    mallory.read(answer)
    assert was_refused(await mallory.post(mallory.decide(True)))
    for state in site.states.values():
        assert "/srv" in state
    assert site.ran == []


@both
async def test_two_decisions_in_one_request(site: Site, browser: type[Browser]) -> None:
    """A second call with the same id, or a second decision about one, is refused."""
    alice = browser(site.client, "alice")
    await asks(site, alice, delete("a.txt"))
    for second in (True, False):
        body = alice.decide(True)
        if "resume" in body:
            again = copy.deepcopy(body["resume"][0])
            again["payload"]["approved"] = second
            body["resume"].append(again)
        else:
            parts = body["messages"][-1]["parts"]
            again = copy.deepcopy(parts[-1])
            again["approval"]["approved"], again["input"] = second, {"path": "b.txt"}
            parts.append(again)
        assert was_refused(await alice.post(body))
    assert site.ran == []


@both
async def test_a_person_who_goes_on(site: Site, browser: type[Browser]) -> None:
    """The call that waited is denied: an approval that comes later is refused, or brings the denial if it is signed."""
    alice = browser(site.client, "alice")
    await asks(site, alice, delete("a.txt"))
    approval = alice.decide(True)
    await alice.ask("Never mind")
    assert results_in(site.model.requests[-1]) == ["not run: the conversation continued without it"]
    answer = await alice.post(approval)
    assert was_refused(answer) == site.saves
    assert "deleted" not in str(answer)
    await alice.ask("And now?")
    assert results_in(site.model.requests[-1]) == ["not run: the conversation continued without it"]
    assert (site.ran, site.states) == ([], {})


@both
async def test_a_person_who_goes_on_while_the_tool_runs(site: Site, browser: type[Browser]) -> None:
    """The model is told that the call was started; the run that was left behind neither pauses nor is saved again."""
    alice = browser(site.client, "alice")
    await asks(site, alice, delete("a.txt"))
    site.gate = anyio.Event()
    answers: list[list[dict[str, Any]]] = []
    approval = alice.decide(True)

    async def send() -> None:
        answers.append(await alice.post(approval))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while not site.ran:
            await anyio.sleep(0.001)
        site.turns += ["Fine.", delete("b.txt", "functions.delete_file:1")]
        await alice.ask("Never mind")
        (told,) = results_in(site.model.requests[-1])
        assert told == "result unknown: the tool was started, and the conversation continued without the result"
        site.gate.set()
    assert "deleted a.txt" in str(answers[0])
    assert was_refused(answers[0]) == site.saves  # its next call is not asked about
    assert (site.ran, site.states) == (["a.txt"], {})
    await alice.ask("And now?")
    (told,) = results_in(site.model.requests[-1])
    assert told == "result unknown: the tool was started, and the conversation continued without the result"


@both
async def test_a_run_that_was_never_saved_and_is_left_behind(site: Site, browser: type[Browser]) -> None:
    """A run that a newer one has overtaken is not saved over it, though it pauses later."""
    if not site.saves:
        pytest.skip("nothing is saved")
    first, second = browser(site.client, "alice"), browser(site.client, "alice")
    site.tool_gate = anyio.Event()
    answers: list[list[dict[str, Any]]] = []

    async def send() -> None:
        first.say("Delete a")
        answers.append(await first.post(first.body()))

    site.turns += [call("wait"), delete("b.txt"), delete("a.txt")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while len(site.turns) > 2:
            await anyio.sleep(0.001)
        await second.ask("Delete b")
        site.tool_gate.set()
    assert was_refused(answers[0])
    await second.post(second.decide(True))
    assert (site.ran, site.states) == (["b.txt"], {})


@both
async def test_a_tool_that_ended_after_the_page_was_left(site: Site, browser: type[Browser]) -> None:
    """The model is told its result where the run was saved, and otherwise that it was started."""
    alice = browser(site.client, "alice")
    await asks(site, alice, delete("a.txt"))
    site.turns.append(fail(500))
    assert was_refused(await alice.post(alice.decide(True)))  # the tool has run; the page has seen no result
    site.turns.clear()
    await alice.ask("And now?")
    started = "result unknown: the tool was started, and the conversation continued without the result"
    assert results_in(site.model.requests[-1]) == ["deleted a.txt" if site.saves else started]
    assert (site.ran, site.states) == (["a.txt"], {})


@both
async def test_a_request_that_goes_on_after_an_error(site: Site, browser: type[Browser]) -> None:
    """A run that has not paused is not continued from its state: its tools would run again."""
    alice = browser(site.client, "alice")
    site.tool_gate = anyio.Event()
    site.tool_gate.set()
    site.turns += [call("wait"), fail(500)]
    alice.say("Wait")
    answer = await alice.post(alice.body())
    assert was_refused(answer)
    alice.read(answer)
    asked = len(site.model.requests)
    assert not was_refused(await alice.post(alice.body()))  # ends with the result of the tool
    assert len(site.model.requests) == asked + 1
    assert results_in(site.model.requests[-1]) == ["waited"]
    assert site.states == {}


def results_in(request: SentRequest) -> list[Any]:
    """What a model is told of calls."""
    return [message.content for message in request.messages if message.role == "tool"]


@both
@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b'{"messages": 1}', b"[" * 100_000])
async def test_what_is_no_request(site: Site, browser: type[Browser], body: bytes) -> None:
    """It is refused with a 400."""
    headers = {"cookie": "user=alice", "content-type": "application/json"}
    assert (await site.client.post(browser.path, content=body, headers=headers)).status_code == 400


# The client in this process leaves its own generator of a body that was refused unread to the garbage collection.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <async_generator object ByteStream.__aiter__")
@pytest.mark.parametrize("site", ["saved"], indirect=True)
@both
async def test_a_form_of_another_site(site: Site, browser: type[Browser]) -> None:
    """It is refused, though it has the cookie of the user; so are a body that is too long, and a user without an id."""
    alice = browser(site.client, "alice")
    alice.say("Hello")
    body = json.dumps(alice.body()).encode()

    async def status(user: str, kind: str, sent: bytes) -> int:
        headers = {"cookie": f"user={user}", "content-type": kind, "origin": "https://evil.example"}
        return (await site.client.post(browser.path, content=sent, headers=headers)).status_code

    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert await status("alice", kind, body) == 415
    assert await status("alice", "application/json", body + b" " * 10_000_000) == 413
    assert await status("", "application/json", body) == 401
    assert site.model.requests == []
    site.turns += ["Hi."]
    assert await status("alice", "application/json; charset=utf-8", body) == 200
