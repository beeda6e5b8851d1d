"""The endpoints of `examples/web_chat`, which the guide on user interfaces shows, attacked by their own users."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest

from pages import ROOT, parts_of
from streamfold import tool
from streamfold.testing import ScriptedProvider, call
from streamfold.tools import StoreJournal

fastapi = pytest.importorskip("fastapi")
Request = fastapi.Request

FOLDER = ROOT / "examples" / "web_chat"
GUIDE = ROOT / "docs" / "guides" / "user-interfaces.md"


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
        ran: what the tool has deleted, with the user for whom its run was.
        turns: what the model answers next.
        gate: set to let the tool end.
    """

    client: httpx.AsyncClient
    ran: list[str] = field(default_factory=list)
    turns: list[Any] = field(default_factory=list)
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    gate: anyio.Event | None = None


@pytest.fixture
async def site(endpoints: Any) -> AsyncIterator[Site]:
    def current_user(request: Request) -> Any:
        return request.cookies["user"]

    @tool(needs_approval=True)
    async def delete_file(path: str, depth: float = 1) -> str:
        """Deletes a file."""
        made.ran.append(path)
        if made.gate is not None:
            await made.gate.wait()
        return f"deleted {path}"

    def answer(_: Any) -> Any:
        return made.turns.pop(0) if made.turns else "Done."

    app = fastapi.FastAPI()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        made = Site(client)
        router = endpoints.chat_router(
            ScriptedProvider(then=answer),
            [delete_file],
            current_user=current_user,
            states=made.states,
            journal=StoreJournal("memory"),
        )
        app.include_router(router)
        yield made


class Browser:
    """A client of one protocol, with which a user may send whatever they like."""

    path = ""

    def __init__(self, site: Site, user: str, chat: str = "chat-1") -> None:
        self.site, self.user, self.chat = site, user, chat
        self.messages: list[dict[str, Any]] = []

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def say(self, text: str) -> None:
        raise NotImplementedError

    def read(self, events: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def decide(self, approved: bool) -> dict[str, Any]:
        """Returns the request that decides about the call that waits."""
        raise NotImplementedError

    async def post(self, body: dict[str, Any], user: str | None = None) -> list[dict[str, Any]]:
        """Sends a request, and returns the events of the answer; an error without its words if it was refused."""
        headers = {"cookie": f"user={user or self.user}"}
        answer = await self.site.client.post(self.path, json=body, headers=headers)
        if answer.status_code == 400:
            return [{"type": "refused"}]
        answer.raise_for_status()
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]

    async def ask(self, text: str, *turns: Any) -> None:
        """Asks a question in the chat; the model answers with a call that has to be approved."""
        self.site.turns += turns
        self.say(text)
        self.read(await self.post(self.body()))


class AISDKBrowser(Browser):
    path = "/api/chat"

    def body(self) -> dict[str, Any]:
        return copy.deepcopy({"id": self.chat, "messages": self.messages})

    def say(self, text: str) -> None:
        self.messages.append(
            {"id": f"u{len(self.messages)}", "role": "user", "parts": [{"type": "text", "text": text}]}
        )

    def read(self, events: list[dict[str, Any]]) -> None:
        if self.messages[-1]["role"] != "assistant":
            self.messages.append({"id": f"a{len(self.messages)}", "role": "assistant", "parts": []})
        parts = self.messages[-1]["parts"]
        for event in events:
            found = next((part for part in reversed(parts) if part.get("toolCallId") == event.get("toolCallId")), None)
            match event["type"]:
                case "start-step":
                    parts.append({"type": "step-start"})
                case "text-start":
                    parts.append({"type": "text", "text": ""})
                case "text-delta":
                    parts[-1]["text"] += event["delta"]
                case "tool-input-available":
                    kind, call_id = f"tool-{event['toolName']}", event["toolCallId"]
                    parts.append(
                        {"type": kind, "toolCallId": call_id, "state": "input-available", "input": event["input"]}
                    )
                case "tool-approval-request":
                    found |= {"state": "approval-requested", "approval": {"id": event["approvalId"]}}
                case "tool-output-available":
                    found |= {"state": "output-available", "output": event["output"]}
                case "tool-output-denied":
                    found |= {"state": "output-denied"}

    def decide(self, approved: bool) -> dict[str, Any]:
        body = self.body()
        for part in body["messages"][-1]["parts"]:
            if part.get("state") == "approval-requested":
                part["state"], part["approval"]["approved"] = "approval-responded", approved
        return body


class AGUIBrowser(Browser):
    path = "/agent"
    interrupts: list[dict[str, Any]]

    def body(self) -> dict[str, Any]:
        return copy.deepcopy({"threadId": self.chat, "runId": f"r{len(self.messages)}", "messages": self.messages})

    def say(self, text: str) -> None:
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})

    def read(self, events: list[dict[str, Any]]) -> None:
        called: dict[str, Any] = {}
        for event in events:
            match event["type"]:
                case "TOOL_CALL_START":
                    function = {"name": event["toolCallName"], "arguments": ""}
                    called = {"id": event["toolCallId"], "type": "function", "function": function}
                    self.messages.append({"id": event["parentMessageId"], "role": "assistant", "toolCalls": [called]})
                case "TOOL_CALL_ARGS":
                    called["function"]["arguments"] += event["delta"]
                case "TOOL_CALL_RESULT":
                    self.messages.append({"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"],
                                          "content": event["content"]})  # fmt: skip
                case "TEXT_MESSAGE_START":
                    self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
                case "TEXT_MESSAGE_CONTENT":
                    self.messages[-1]["content"] += event["delta"]
                case "RUN_FINISHED":
                    self.interrupts = event["outcome"].get("interrupts", [])

    def decide(self, approved: bool) -> dict[str, Any]:
        answer = {"status": "resolved", "payload": {"approved": approved}}
        return self.body() | {"resume": [{"interruptId": one["id"], **answer} for one in self.interrupts]}


BROWSERS = [AISDKBrowser, AGUIBrowser]
both = pytest.mark.parametrize("browser", BROWSERS, ids=["aisdk", "agui"])
REFUSED = [{"type": "refused"}]


def delete(path: str, call_id: str = "functions.delete_file:0", **more: Any) -> Any:
    return call("delete_file", call_id=call_id, path=path, **more)


def calls_of(body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a request that have the arguments of a call, with the names of their members."""
    for message in body["messages"]:
        for part in message.get("parts", ()):
            if "toolCallId" in part:
                yield part, "input"
        for called in message.get("toolCalls", ()):
            yield called["function"], "arguments"


def rewrite(body: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Returns a request with other arguments of its calls."""
    body = copy.deepcopy(body)
    for place, name in calls_of(body):
        if name == "input":
            place[name] = change(place[name])
        else:
            place[name] = json.dumps(change(json.loads(place[name])), indent=3)
    return body


def test_the_guide_shows_the_example() -> None:
    """The endpoints of the guide are those of the example, to the last character."""
    (shown,) = [part.text for part in parts_of(GUIDE) if part.title == "endpoints.py"]
    assert shown == (FOLDER / "endpoints.py").read_text("utf-8")


@both
async def test_an_approval_runs_the_call(site: Site, browser: type[Browser]) -> None:
    """And a denial doesn't; the model is told."""
    alice = browser(site, "alice")
    for number, approved in enumerate((True, False, True)):
        await alice.ask("Delete it", delete(f"{number}.txt"))  # the same id in each answer, as Kimi sends it
        assert len(site.ran) == (number > 0)
        alice.read(await alice.post(alice.decide(approved)))
        assert str(alice.messages[-1]).count("Done.") >= 1
    assert site.ran == ["0.txt", "2.txt"]


@both
async def test_a_decision_that_is_sent_again(site: Site, browser: type[Browser]) -> None:
    """It runs nothing again: at once, later, respelled, and after a denial or a later call with the same id."""
    alice = browser(site, "alice")
    await alice.ask("Delete it", delete("a.txt", depth=1.0))
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
        assert "deleted a.txt" in str(await alice.post(again))
    assert site.ran == ["a.txt"]

    await alice.ask("Delete another", delete("b.txt"))
    for old in (approval, denial):
        assert await alice.post(old) == REFUSED
    await alice.ask("No, the first one again", delete("a.txt", depth=1.0))
    for old in (approval, denial):
        assert await alice.post(old) == REFUSED
    assert site.ran == ["a.txt"]
    await alice.post(alice.decide(True))
    assert site.ran == ["a.txt", "a.txt"]


@both
async def test_a_decision_about_something_else(site: Site, browser: type[Browser]) -> None:
    """Other arguments, another chat, a chat that is unknown, another user, or no id of the server: all are refused."""
    alice, bob = browser(site, "alice"), browser(site, "bob")
    await alice.ask("Delete it", delete("a.txt"))
    await bob.ask("Delete it", delete("b.txt"))
    other = browser(site, "alice", "chat-2")
    await other.ask("Delete it", delete("a.txt"))
    for approved in (True, False):
        body = alice.decide(approved)
        name = "id" if browser is AISDKBrowser else "threadId"
        assert await alice.post(rewrite(body, lambda _: {"path": "/srv"})) == REFUSED
        assert await alice.post({**body, name: "chat-2"}) == REFUSED
        assert await alice.post({**body, name: "chat-3"}) == REFUSED
        assert await alice.post(body, user="bob") == REFUSED
        assert await bob.post(body, user="mallory") == REFUSED
        text = json.dumps(body)
        for start in [at for at in range(len(text)) if text.startswith(('"id": "', '"interruptId": "'), at)]:
            end = text.index('"', text.index(': "', start) + 3)
            if end - start > 36:  # the id of an approval
                forged = text[: end - 1] + ("0" if text[end - 1] != "0" else "1") + text[end:]
                assert await alice.post(json.loads(forged)) == REFUSED
    assert site.ran == []
    for each in (alice, bob, other):
        each.read(await each.post(each.decide(True)))
    assert site.ran == ["a.txt", "b.txt", "a.txt"]


@both
async def test_a_call_that_no_model_has_made(site: Site, browser: type[Browser]) -> None:
    """It can't be approved: not at once, and not after the server was made to ask for it."""
    mallory = browser(site, "mallory")
    mallory.say("Hi")
    forged = browser(site, "mallory", "elsewhere")
    await forged.ask("Delete it", delete("/srv"))
    mallory.messages += forged.messages[1:]
    if isinstance(mallory, AGUIBrowser) and isinstance(forged, AGUIBrowser):
        mallory.interrupts = forged.interrupts
    assert await mallory.post(mallory.decide(True)) == REFUSED
    answer = await mallory.post(mallory.body())  # nothing is decided: it waits, for a decision that can't be made
    mallory.read(answer)
    assert await mallory.post(mallory.decide(True)) == REFUSED
    for state in site.states.values():
        assert "/srv" in state
    assert site.ran == []


@both
async def test_two_decisions_in_one_request(site: Site, browser: type[Browser]) -> None:
    """A second call with the same id, or a second decision about one, is refused."""
    alice = browser(site, "alice")
    await alice.ask("Delete it", delete("a.txt"))
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
        assert await alice.post(body) == REFUSED
    assert site.ran == []


@both
async def test_a_person_who_goes_on(site: Site, browser: type[Browser]) -> None:
    """The call that waited is void: an approval that comes later is refused."""
    alice = browser(site, "alice")
    await alice.ask("Delete it", delete("a.txt"))
    approval = alice.decide(True)
    await alice.ask("Never mind")
    assert await alice.post(approval) == REFUSED
    assert (site.ran, site.states) == ([], {})


@both
@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b'{"messages": 1}'])
async def test_what_is_no_request(site: Site, browser: type[Browser], body: bytes) -> None:
    """It is refused with a 400."""
    headers = {"cookie": "user=alice", "content-type": "application/json"}
    assert (await site.client.post(browser.path, content=body, headers=headers)).status_code == 400
