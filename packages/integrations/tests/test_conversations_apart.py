"""No value that was written for one owner is read for another, whatever their conversations have in common."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from scale import examples
from streamfold import ConfigError, Tool, tool
from streamfold.stores import MemoryStore, Retention, ValkeyStore
from streamfold.testing import ScriptedProvider, call
from streamfold.tools import CallJournal, FileJournal, StoreJournal
from streamfold_integrations import agui, aisdk
from ui_browsers import AGUIBrowser, AISDKBrowser, Browser, rewrite, was_refused
from valkeys import valkey_server


@dataclass(frozen=True)
class Talk:
    """What a conversation is made of."""

    owner: str = "alice"
    chat: str = "chat-1"
    instructions: str = "Be brief."
    question: str = "My balance?"
    call_id: str = "functions.read_balance:0"
    account: str = "main"
    balance: int = 100


VARIANTS = [
    {"owner": "bob"},
    {"chat": "chat-2"},
    {"instructions": "Be polite."},
    {"question": "My balance, please?"},
    {"call_id": "call_0"},
    {"account": "savings"},
    {"balance": 7},
]


@dataclass
class Answer:
    status_code: int
    text: str = ""

    def raise_for_status(self) -> None:
        assert self.status_code == 200


@dataclass
class Server:
    """An application: its journal is opened again when it is restarted.

    Attributes:
        signs: it signs calls, and keeps no state; else it keeps the states of runs that paused.
        ran: which balance was read, for which owner.
    """

    opened: Callable[[], CallJournal]
    signs: bool
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    journal: CallJournal | None = None

    async def restart(self) -> None:
        if isinstance(self.journal, StoreJournal) and not isinstance(self.journal.store, MemoryStore):
            await self.journal.store.aclose()
        self.journal = None

    def client(self, talk: Talk) -> Any:
        return Client(self, talk)


@dataclass
class Client:
    server: Server
    talk: Talk

    async def post(self, path: str, json: Any, headers: dict[str, str]) -> Answer:
        server, talk = self.server, self.talk
        server.journal = server.journal or server.opened()
        protocol: Any = aisdk if path == AISDKBrowser.path else agui
        secret = "s3cret" if server.signs else None
        asked_of = [call("read_balance", call_id=talk.call_id, account=talk.account), "Done."]
        owner = headers["cookie"].removeprefix("user=")
        try:
            asked = protocol.read_request(json, owner=owner, secret=secret)
            model = ScriptedProvider(*(["Done."] if asked.resumes else asked_of))
            key = (owner, asked.id)
            run = asked.run(
                model,
                [self.tool(owner)],
                **({} if server.signs else {"state": server.states.get(key)}),
                journal=server.journal,
                instructions=talk.instructions,
            )
        except ConfigError:
            return Answer(400)

        def save(run: Any) -> None:
            server.states[key] = run.dump()

        given: dict[str, Any] = {"message_id": asked.message_id} if protocol is aisdk else {"request": asked}
        events = protocol.stream(run, secret=secret, on_pause=save, **given)
        return Answer(200, b"".join([piece async for piece in events]).decode())

    def tool(self, owner: str) -> Tool:
        @tool(needs_approval=True)
        def read_balance(account: str) -> str:
            value = f"{owner} {self.talk.account} {self.talk.balance} #{len(self.server.ran)}"
            self.server.ran.append(value)
            return value

        return read_balance


@dataclass
class Conversation:
    """A conversation of one owner, step by step, and what it has read."""

    browser: Browser
    talk: Talk
    server: Server
    pending: bool = False
    value: str | None = None

    async def ask(self) -> None:
        self.browser.messages.clear()  # the same again: another run
        await self.browser.ask(self.talk.question)
        self.pending, self.value = True, None

    async def decide(self, approved: bool) -> None:
        before = len(self.server.ran)
        answer = await self.browser.post(self.browser.decide(approved))
        assert not was_refused(answer)
        shown = result_in(answer)
        if approved:
            (self.value,) = self.server.ran[before:]  # it ran, once, for this conversation
            assert self.value.startswith(f"{self.talk.owner} {self.talk.account} {self.talk.balance} ")
            assert self.value in shown
        else:
            assert len(self.server.ran) == before
            assert "#" not in shown
        self.pending = False

    async def attack(self, other: Conversation) -> None:
        """The decision of this one, sent by the owner of another, in its chat, or with its arguments, does nothing."""
        body, before = self.browser.decide(True), list(self.server.ran)
        chat = "id" if "id" in body else "threadId"
        tries = []
        if other.talk.owner != self.talk.owner:
            tries += [(body, other.talk.owner), (self.browser.decide(False), other.talk.owner)]
        if other.talk.chat != self.talk.chat:
            tries.append(({**body, chat: other.talk.chat}, self.talk.owner))
        if other.talk.account != self.talk.account:
            tries.append((rewrite(body, lambda _: {"account": other.talk.account}), self.talk.owner))
        for sent, owner in tries:
            assert was_refused(await self.browser.post(sent, user=owner))
        assert self.server.ran == before


def result_in(events: list[dict[str, Any]]) -> str:
    """The result that a client is shown."""
    return json.dumps([event for event in events if "output" in event["type"] or "RESULT" in event["type"]])


@pytest.fixture(params=["memory", "files", "sqlite", "valkey"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], CallJournal]]:
    """Opens the journal of one place, again and again."""
    store = MemoryStore()
    if request.param == "valkey":
        with valkey_server(tmp_path) as server:
            lasting = Retention(entries=10**6, size=10**9, age=10**9, evicts=False)
            yield lambda: StoreJournal(ValkeyStore(server.url, lasting, table="calls"))
        return
    yield {
        "memory": lambda: StoreJournal(store),
        "files": lambda: FileJournal(tmp_path / "calls"),
        "sqlite": lambda: StoreJournal(f"sqlite:///{tmp_path}/calls.db"),
    }[request.param]


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("signs", [False, True], ids=["saved", "signed"])
async def test_conversations_that_are_equal_but_for_one_field(opened: Callable[[], CallJournal], signs: bool) -> None:
    """Asked, decided, sent again and attacked in any order, with restarts: each reads what was read for itself."""
    for seed in range(examples(200)):
        dice = random.Random(seed)
        server = Server(opened, signs)
        base = Talk(chat=f"chat-{seed}")
        kind = dice.choice([AISDKBrowser, AGUIBrowser])
        change = dict(VARIANTS[seed % len(VARIANTS)])
        if "chat" in change:
            change["chat"] = f"chat-{seed}-2"
        both = [
            Conversation(kind(server.client(talk), talk.owner, talk.chat), talk, server)
            for talk in (base, replace(base, **change))
        ]
        same_chat = (both[0].talk.owner, both[0].talk.chat) == (both[1].talk.owner, both[1].talk.chat)
        for _ in range(8):
            one, other = dice.sample(both, 2)
            if dice.random() < 0.2:
                await server.restart()
            if not one.pending:
                await one.ask()
                if same_chat:
                    other.pending = False  # one user, one chat: what was asked there before is void
            elif dice.random() < 0.3:
                await one.attack(other)
            else:
                await one.decide(dice.random() < 0.7)
        await server.restart()
