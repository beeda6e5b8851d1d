"""What a key is charged: by the provider's counts where they come, else by the best count at hand, whoever leaves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio
import httpx
import pytest

from folding import DONE, event, fin, text
from gateways import CHAT, MESSAGES, RESPONSES, asking, client_of
from streamfold import APIConnectionError, APITimeoutError, Provider, Reply, Usage
from streamfold.errors import UpstreamError
from streamfold.requests import Request
from streamfold.testing import ScriptedProvider
from streamfold.types import Cost, Message, StreamChunk
from streamfold_gateway import gateway, handler
from streamfold_gateway.rate_limits import UsageMeter
from tables import each_row

pytestmark = pytest.mark.anyio

USAGE = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1000, "total_tokens": 1010}})
PRICES = {"input": 1000, "output": 1000}  # 1.01 for an answer
GEMINI = "/v1beta/models/main:streamGenerateContent"
KEY = [(b"authorization", b"Bearer a"), (b"content-type", b"application/json")]


class Upstream:
    """Says all of its text, and some time later what it used."""

    def __init__(self) -> None:
        self.asked, self.said, self.go_on = 0, anyio.Event(), anyio.Event()

    def app(self, **key: Any) -> Any:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0, "prices": PRICES}
        provider = Provider.from_config(config, http_client=client)
        return gateway({"main": provider}, keys={"alice": {"key": "a", **key}}, responses="memory")

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(200, content=self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield text("the whole answer")
        self.said.set()
        await self.go_on.wait()
        yield fin("stop") + USAGE + DONE


async def ask_and_leave(app: Any, path: str, body: dict[str, Any], leave: anyio.Event) -> None:
    """A request whose client leaves at some moment."""
    sent = iter([{"type": "http.request", "body": json.dumps(body).encode()}])

    async def receive() -> Any:
        for message in sent:
            return message
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    scope: Any = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": KEY}
    scope |= {"raw_path": path.encode(), "root_path": ""}
    await app({**scope, "server": ("t", 80), "client": ("t", 1)}, receive, send)


@each_row(
    ("path", "body"),
    [
        (CHAT, asking(CHAT, stream=True)),
        (CHAT, asking(CHAT)),
        (RESPONSES, asking(RESPONSES, stream=True)),
        (MESSAGES, {**asking(CHAT), "max_tokens": 9, "stream": True}),
        (GEMINI, {"contents": [{"parts": [{"text": "Hi"}]}]}),
    ],
)
async def test_who_leaves_is_charged_what_the_answer_used(path: str, body: dict[str, Any]) -> None:
    """The answer is read on for a while, because its end says so; meanwhile what is left of the budget is reserved."""
    upstream, leave = Upstream(), anyio.Event()
    app = upstream.app(max_cost_per_day=0.5)
    async with client_of(app) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(ask_and_leave, app, path, body, leave)
        await upstream.said.wait()
        leave.set()
        await anyio.wait_all_tasks_blocked()
        early = await client.post(CHAT, json=asking(CHAT), headers=dict(KEY))
        assert (early.status_code, early.headers["retry-after"]) == (429, "1")
        upstream.go_on.set()
    async with client_of(app) as client:
        late = await client.post(CHAT, json=asking(CHAT), headers=dict(KEY))
    assert (late.status_code, "is spent (1.01 of it)" in late.text) == (429, True)
    assert upstream.asked == 1
    await app.aclose()


@each_row("limits", [{"max_concurrent": 1}, {"rpm": 1000}])
async def test_whose_use_is_not_counted_leaves_at_once(limits: dict[str, Any]) -> None:
    """With neither tokens nor money limited nobody reads on: the provider's connection is closed, the place is free."""
    upstream, leave = Upstream(), anyio.Event()
    app = upstream.app(**limits)
    async with client_of(app) as client:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_and_leave, app, CHAT, asking(CHAT, stream=True), leave)
                await upstream.said.wait()
                leave.set()
        upstream.go_on.set()
        assert (await client.post(CHAT, json=asking(CHAT), headers=dict(KEY))).status_code == 200
    await app.aclose()


async def test_many_at_once_can_not_spend_a_budget_many_times() -> None:
    """What an answer may cost is reserved until it is known: that of 16,384 tokens, or of those that were asked for."""
    upstream = Upstream()
    upstream.go_on.set()
    for body, answered in ((asking(CHAT), 1), (asking(CHAT, max_tokens=2000), 2)):
        upstream.asked, app = 0, upstream.app(max_cost_per_day=5)
        statuses: list[int] = []
        async with client_of(app) as client, anyio.create_task_group() as tasks:

            async def ask(body: Any = body, client: Any = client, statuses: Any = statuses) -> None:
                statuses.append((await client.post(CHAT, json=body, headers=dict(KEY))).status_code)

            for _ in range(20):
                tasks.start_soon(ask)
        assert (statuses.count(200), statuses.count(429), upstream.asked) == (answered, 20 - answered, answered)
        await app.aclose()


# --- the count --------------------------------------------------------------------------------------------------------


@dataclass
class Noted:
    """A reservation that writes down how it ended."""

    ends: list[Any] = field(default_factory=list)

    def charge(self, usage: Usage | None, cost: Cost | None, *, partial: bool) -> None:
        assert usage is not None
        self.ends.append((usage.input_tokens, usage.output_tokens, cost and float(cost.amount), partial))

    def failed(self) -> None:
        self.ends.append("failed")

    def cancel(self) -> None:
        self.ends.append("cancelled")


def cost(usage: Usage) -> Cost:
    return Cost(Decimal(usage.input_tokens or 0) + 2 * Decimal(usage.output_tokens or 0))


async def never() -> Any:
    raise AssertionError("one request has one reservation")


REQUEST = Request("m", (Message("user", "x" * 24),))  # 6 tokens and 4 around them
BROKE = APIConnectionError("gone")
USED = Usage(50, 60, 110)


@each_row(
    ("events", "end"),
    [
        ([], "cancelled"),
        (["begin", "not sent"], "cancelled"),
        (["begin", BROKE], "failed"),
        (["begin", APITimeoutError("slow", phase="first_event")], (10, 0, 10.0, True)),
        (["begin", UpstreamError("busy", partial=Reply())], "failed"),
        (["begin", "x" * 40, BROKE], (10, 10, 30.0, True)),
        (["begin", "x" * 40, UpstreamError("broke", partial=Reply(usage=Usage(50, 2, 52)))], (50, 10, 70.0, True)),
        (["begin", "x" * 40, Reply(usage=USED)], (50, 60, 170.0, False)),
        (["begin", "x" * 40, Reply()], (10, 10, 30.0, False)),
    ],
)
async def test_how_requests_end(events: list[Any], end: Any) -> None:
    """Whole answers by the provider's counts, others by what came; nothing for what a model can't have answered."""
    noted = Noted()
    charge = UsageMeter(noted, never, REQUEST, cost, reads_on=True)  # type: ignore[arg-type]
    for happened in events:
        match happened:
            case "begin":
                charge.begin(ScriptedProvider("Hi").chat_stream("Hi"))
            case "not sent":
                charge.not_sent()
            case str():
                charge.take(StreamChunk(happened))
            case Reply():
                charge.answered(happened)
            case _:
                charge.failed(happened)
    charge.settle()
    assert noted.ends == [end]


async def test_who_leaves_for_good_is_charged_for_what_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasoning may be: no more than a model can have written by then, and than was asked for."""
    now = 0.0
    monkeypatch.setattr("anyio.current_time", lambda: now)
    for seconds, limit, written in ((2.0, None, 1000), (2.0, 300, 300), (1000.0, None, 16_384), (0.0, None, 2)):
        noted, now = Noted(), 0.0
        request = Request("m", REQUEST.messages, options=type(REQUEST.options)(max_output_tokens=limit))
        charge = UsageMeter(noted, never, request, cost, reads_on=True)  # type: ignore[arg-type]
        charge.begin(ScriptedProvider("Hi").chat_stream("Hi"))
        charge.take(StreamChunk("12345678"))
        now = seconds
        charge.settle()
        assert noted.ends == [(10, written, 10.0 + 2 * written, True)]


async def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "_READ_ON_SECONDS", 0.05)
    upstream, leave = Upstream(), anyio.Event()
    app = upstream.app(max_cost_per_day=0.001)
    leave.set()
    with anyio.fail_after(10):
        await ask_and_leave(app, CHAT, asking(CHAT, stream=True), leave)
    async with client_of(app) as client:
        late = await client.post(CHAT, json=asking(CHAT), headers=dict(KEY))
    assert (late.status_code, "is spent" in late.text) == (429, True)
    await app.aclose()
