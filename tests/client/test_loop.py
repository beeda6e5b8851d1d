"""The loop over tools: what is asked, what is run, what is sent back, and how it ends; on asyncio and on trio."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from pydantic import BaseModel

from servers import STREAM, falls_silent, framed, serving
from streamfold import (
    ConfigError,
    NamedTool,
    Provider,
    StreamfoldError,
    Tool,
    ToolCall,
    TurnLimitError,
    UpstreamError,
    Usage,
    run_tools,
    tool,
    user,
)
from streamfold.tools import in_thread
from streamfold.types import ImagePart
from tables import each_row

Turn = dict[str, Any] | Callable[[], Any]


def says(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}


def asks(*calls: tuple[str, dict[str, Any] | str], text: str = "") -> dict[str, Any]:
    entries = [
        {
            "index": at,
            "id": f"call_{at}",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for at, (name, given) in enumerate(calls)
    ]
    return {"choices": [{"delta": {"content": text, "tool_calls": entries}, "finish_reason": "tool_calls"}]}


class Script:
    """A provider that answers with these turns, and remembers what it was asked."""

    def __init__(self, *turns: dict[str, Any]) -> None:
        self.turns = list(turns)
        self.bodies: list[dict[str, Any]] = []

    def provider(self, **config: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        config = {"base_url": "http://test/v1", "model": "m", "max_retries": 0, **config}
        return Provider.from_config(config, http_client=client)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return httpx.Response(200, content=f"data: {json.dumps(self.turns.pop(0))}\n\ndata: [DONE]\n\n")

    def results(self, body: int = -1) -> list[str]:
        return [message["content"] for message in self.bodies[body]["messages"] if message["role"] == "tool"]


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


async def test_two_turns() -> None:
    """Chunks of both turns come, the result goes back under the call's id, and all of it is on the run."""
    script = Script(asks(("add", {"a": 1, "b": 2}), text="Let me see. "), says("It is 3."))
    async with run_tools(script.provider(), "1 + 2?", [add], temperature=0.5) as run:
        with pytest.raises(StreamfoldError, match="no reply yet"):
            assert run.reply
        chunks = [chunk async for chunk in run]
    assert "".join(chunk.delta for chunk in chunks) == "Let me see. It is 3."
    assert [[call.name for call in chunk.tool_calls or ()] for chunk in chunks if chunk.finished] == [["add"], []]
    assert run.reply.text == "It is 3."
    assert [reply.finish_reason for reply in run.replies] == ["tool_calls", "stop"]
    assert [body["temperature"] for body in script.bodies] == [0.5, 0.5]
    assert script.bodies[1]["messages"][2] == {"role": "tool", "tool_call_id": "call_0", "content": "3"}
    assert [message.role for message in run.messages] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


async def test_calls_run_at_the_same_time_and_results_keep_their_order() -> None:
    """Each call waits for the one after it: one after the other they would wait for ever."""
    events = [anyio.Event() for _ in range(3)]

    async def wait(number: int) -> str:
        if number < 2:
            await events[number + 1].wait()
        events[number].set()
        return f"done {number}"

    script = Script(asks(*(("wait", {"number": number}) for number in range(3))), says("ok"))
    with anyio.fail_after(5):
        async with run_tools(script.provider(), "x", [wait]) as run:
            async for _ in run:
                pass
    assert script.results() == ["done 0", "done 1", "done 2"]


async def test_calls_run_one_by_one_where_that_was_asked_for() -> None:
    """Gemini can't be told: the calls that come all the same run in their order, and the reply says so."""
    running, began = 0, list[int]()

    async def wait(number: int) -> str:
        nonlocal running
        running += 1
        assert running == 1
        began.append(number)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return f"done {number}"

    calls = asks(*(("wait", {"number": number}) for number in range(3)))
    models = [{"pattern": "*", "parallel_calls": "no"}]
    script = Script(calls, says("ok"))
    async with run_tools(script.provider(models=models), "x", [wait], parallel_tool_calls=False) as run:
        async for _ in run:
            pass
    assert (began, script.results()) == ([0, 1, 2], ["done 0", "done 1", "done 2"])
    assert [[warning.code for warning in reply.warnings] for reply in run.replies] == [
        ["option_dropped", "parallel_calls_unmet"], ["option_dropped"],
    ]  # fmt: skip


async def test_one_by_one_no_call_runs_behind_one_that_failed() -> None:
    """What a program raises on purpose ends the run there."""
    ran = list[int]()

    def work(number: int) -> str:
        ran.append(number)
        raise ValueError("no")

    def give_up(call: ToolCall, error: Exception) -> str:
        raise error

    script = Script(asks(("work", {"number": 0}), ("work", {"number": 1})))
    with pytest.raises(ValueError, match="no"):
        await run_tools(script.provider(), "x", [work], on_tool_error=give_up, parallel_tool_calls=False)
    assert ran == [0]


async def test_whatever_fails_is_told_to_the_model() -> None:
    """Unknown tools, arguments that do not fit or are no JSON, and exceptions become results; the others count."""

    def fail() -> None:
        raise ValueError("no such thing")

    script = Script(
        asks(("add", {"a": 1, "b": 2}), ("sub", {}), ("add", {"a": "x", "b": 1}), ("add", '{"a": 1'), ("fail", {})),
        says("ok"),
    )
    async with run_tools(script.provider(), "x", [add, fail]) as run:
        async for _ in run:
            pass
    three, unknown, unfit, broken, failed = script.results()
    assert three == "3"
    assert unknown == "Error: unknown tool 'sub'. Available: add, fail"
    assert unfit.startswith("Error: invalid arguments for add: a: Input should be a valid integer")
    assert broken.startswith("Error: invalid arguments for add: arguments: Invalid JSON")
    assert failed == "Error: the tool fail failed: ValueError"
    flags = [message.error for message in run.messages if message.role == "tool"]
    assert flags == [False, True, True, True, True]


CANARY = "postgresql://app:hunter2@db"


async def test_a_tool_that_raises_is_logged_and_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback; the model gets the names of tool and exception, not the text, which may be secret."""

    def query() -> None:
        raise RuntimeError(CANARY)

    script = Script(asks(("query", {})), says("ok"))
    await run_tools(script.provider(), "x", [query])
    assert script.results() == ["Error: the tool query failed: RuntimeError"]
    assert CANARY not in json.dumps(script.bodies)
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == "the tool query failed"
    assert f"RuntimeError: {CANARY}" in caplog.text


async def test_an_error_of_another_provider_inside_a_tool_is_not_quoted() -> None:
    """Errors of this library are errors of the tool as well, unless they are about the call's own arguments."""
    other = Script({"error": {"message": CANARY}})

    async def ask_another() -> str:
        return (await other.provider().chat("x")).text

    script = Script(asks(("ask_another", {})), says("ok"))
    await run_tools(script.provider(), "x", [ask_another])
    assert script.results() == ["Error: the tool ask_another failed: UpstreamError"]


async def test_on_tool_error_may_say_more() -> None:
    """The text that it returns goes to the model; None stands for the default text. It may be async."""

    def fail(how: str) -> None:
        raise LookupError(how)

    def explain(call: ToolCall, error: Exception) -> str | None:
        return f"{call.name}: {error}" if "name" in str(error) else None

    async def explain_later(call: ToolCall, error: Exception) -> str | None:
        return explain(call, error)

    for function in (explain, explain_later):
        script = Script(asks(("fail", {"how": "no such name"}), ("fail", {"how": CANARY})), says("ok"))
        await run_tools(script.provider(), "x", [fail], on_tool_error=function)
        assert script.results() == ["Error: fail: no such name", "Error: the tool fail failed: LookupError"]


async def test_on_tool_error_may_raise() -> None:
    """What it raises ends the run as it is, not in a group; the history can still be sent."""

    async def slow() -> None:
        await anyio.sleep_forever()

    def fail() -> None:
        raise LookupError("mine")

    def reraise(_: ToolCall, error: Exception) -> None:
        raise error

    script = Script(asks(("slow", {}), ("fail", {})), says("ok"))
    run = run_tools(script.provider(), "x", [slow, fail], on_tool_error=reraise)
    with pytest.raises(LookupError, match="mine"):
        await run
    contents = [message.content for message in run.messages if message.role == "tool"]
    assert contents == ["not finished: the run was stopped before the tool had answered"] * 2
    assert [chunk async for chunk in run] == []


class Thing:
    def __repr__(self) -> str:
        return CANARY


async def test_a_tool_that_waits_for_something_cancelled() -> None:
    """That is the tool's failure; nobody has cancelled the run, and the call beside it ends."""

    async def fetch() -> str:
        raise asyncio.CancelledError  # as from a task of its own that was cancelled

    async def pay() -> str:
        await anyio.sleep(0.01)
        return "paid"

    script = Script(asks(("fetch", {}), ("pay", {})), says("ok"))
    await run_tools(script.provider(), "x", [fetch, pay])
    assert script.results() == ["Error: the tool fetch failed: an awaited operation was cancelled", "paid"]


async def test_results_without_an_end_are_told_to_the_model() -> None:
    """Those that contain themselves, and those that are nested too deeply to be written."""

    def itself() -> list[Any]:
        found: list[Any] = []
        found.append({"of": found})
        return found

    def deep() -> list[Any]:
        found: list[Any] = []
        for _ in range(100_000):
            found = [found]
        return found

    script = Script(asks(("itself", {}), ("deep", {})), says("ok"))
    await run_tools(script.provider(), "x", [itself, deep])
    failed = "Error: the tool {} failed: the result contains itself, or is nested too deeply"
    assert script.results() == [failed.format("itself"), failed.format("deep")]


@each_row("value", [Thing(), [1, Thing()], tool(add), b"\xff"], ids=["object", "inside a list", "function", "bytes"])
async def test_a_result_that_is_no_json_is_an_error_of_the_application(value: Any) -> None:
    """It is raised, and never sent as its repr."""
    script = Script(asks(("give", {})), says("ok"))
    with pytest.raises(
        ConfigError, match="the result of the tool 'give' is neither text, nor parts, nor JSON"
    ) as caught:
        await run_tools(script.provider(), "x", [Tool("give", function=lambda: value)])
    assert CANARY not in str(caught.value)
    assert len(script.bodies) == 1


async def test_usage_of_a_run() -> None:
    """The counts of all turns, added up; None where no turn has any."""
    used = {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}
    script = Script({**asks(("add", {"a": 1, "b": 2})), **used}, {**says("3"), **used})
    run = run_tools(script.provider(), "1 + 2?", [add])
    assert run.usage is None
    await run
    assert run.usage == Usage(input_tokens=10, output_tokens=4, total_tokens=14)


async def test_awaiting_a_run() -> None:
    """`await` reads to the end and returns the last reply."""
    script = Script(asks(("add", {"a": 1, "b": 2})), says("It is 3."))
    run = run_tools(script.provider(), "1 + 2?", [add])
    reply = await run
    assert (reply.text, reply is run.reply, len(run.replies)) == ("It is 3.", True, 2)


@dataclass
class Weather:
    city: str
    degrees: float


@each_row(
    ("value", "sent"),
    [
        ("text", "text"),
        (None, "null"),
        ({"a": [1, {2}]}, '{"a": [1, [2]]}'),
        (Weather("Oslo", 18.5), '{"city": "Oslo", "degrees": 18.5}'),
        (
            SimpleNamespace(content=[SimpleNamespace(type="text", text=text) for text in "ab"], isError=True),
            "Error: a\nb",
        ),
        ([ImagePart(url="https://example.com/a.png")], None),
    ],
    ids=["text", "none", "json", "dataclass", "mcp", "parts"],
)
async def test_results_of_every_kind(value: Any, sent: str | None) -> None:
    """Text goes as it is, parts as parts, what MCP servers answer as its text, and the rest as JSON."""
    script = Script(asks(("give", {})), says("ok"))
    async with run_tools(script.provider(), "x", [Tool("give", function=lambda: value)]) as run:
        async for _ in run:
            pass
    assert len(run.replies) == 2
    if sent is not None:
        assert script.results() == [sent]


async def test_no_turn_left() -> None:
    """The last turn's calls are not run, and the error says so; the history can be sent again."""
    ran: list[int] = []
    script = Script(asks(("note", {"n": 1})), asks(("note", {"n": 2})), says("ok"))
    tools = [Tool("note", function=lambda n: ran.append(n))]
    run = run_tools(script.provider(), "x", tools, max_turns=2)
    with pytest.raises(TurnLimitError, match="at max_turns=2: note"):
        async for _ in run:
            pass
    assert ran == [1]
    assert [chunk async for chunk in run] == []
    async with run_tools(script.provider(), run.messages, tools) as more:
        async for _ in more:
            pass
    assert script.results() == ["null", "Error: not run: the limit of turns was reached"]
    assert more.reply.text == "ok"


async def test_a_forced_choice_is_for_the_first_turn() -> None:
    """Else the model could never come to an end. A forbidden one stays."""
    script = Script(asks(("add", {"a": 1, "b": 1})), says("2"), says("no"))
    async with run_tools(script.provider(), "x", [add], tool_choice=NamedTool("add")) as run:
        async for _ in run:
            pass
    async with run_tools(script.provider(), "x", [add], tool_choice="none") as run:
        async for _ in run:
            pass
    forced, then, never = (body["tool_choice"] for body in script.bodies)
    assert (forced["function"]["name"], then, never) == ("add", "auto", "none")


async def test_renamed_tools_find_their_function() -> None:
    """A name that the provider does not take is renamed on the wire only."""
    script = Script(asks(("math_add", {"a": 1, "b": 1})), says("2"))
    async with run_tools(script.provider(), "x", [tool(add, name="math.add")]) as run:
        async for _ in run:
            pass
    assert script.results() == ["2"]
    assert run.replies[0].tool_calls[0].name == "math.add"
    assert script.bodies[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "math_add"


async def test_builtin_tools_get_their_arguments_back() -> None:
    """Moonshot's own search runs when its arguments come back unchanged."""
    search = {"type": "builtin_function", "function": {"name": "$web_search"}}
    script = Script(asks(("$web_search", '{"search_result": {"id": 1}}')), says("found"))
    async with run_tools(script.provider(adapter="kimi", model="kimi-k2"), "x", [search]) as run:
        async for _ in run:
            pass
    assert script.results() == ['{"search_result": {"id": 1}}']


async def test_an_error_of_the_provider_ends_the_run() -> None:
    """It is raised as it is; what was done before stays."""
    script = Script(asks(("add", {"a": 1, "b": 1})), {"error": {"message": "broken"}})
    run = run_tools(script.provider(), "x", [add])
    with pytest.raises(UpstreamError, match="broken"):
        async for _ in run:
            pass
    assert (len(run.messages), len(run.replies)) == (3, 1)
    assert [chunk async for chunk in run] == []


async def test_cancelled_while_tools_run() -> None:
    """The tools are cancelled, the cancellation goes on, and the history says which of them had answered."""
    started, cancelled = anyio.Event(), []

    async def slow() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append("slow")
            raise

    script = Script(asks(("add", {"a": 1, "b": 1}), ("slow", {})))
    run = run_tools(script.provider(), "x", [add, slow])

    async def read() -> None:
        async for _ in run:
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await started.wait()
        group.cancel_scope.cancel()
    assert cancelled == ["slow"]
    contents = [message.content for message in run.messages if message.role == "tool"]
    assert contents == ["2", "not finished: the run was stopped before the tool had answered"]
    assert [chunk async for chunk in run] == []


async def test_nothing_is_at_work_between_two_chunks() -> None:
    """The chunks may be read by different tasks, which no open cancel scope would survive."""
    script = Script(asks(("add", {"a": 1, "b": 2}), text="Hm. "), says("3"))
    run = run_tools(script.provider(), "x", [add])
    chunks = []

    async def one() -> None:
        chunks.append(await anext(run))

    while not (chunks and chunks[-1].finish_reason == "stop"):
        async with anyio.create_task_group() as group:
            group.start_soon(one)
    assert ("".join(chunk.delta for chunk in chunks), run.reply.text) == ("Hm. 3", "3")
    await run.aclose()


async def test_leaving_closes_the_connection() -> None:
    """After `break` nothing is open, whatever the server still has to say."""
    piece = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'

    async with serving(falls_silent(STREAM, framed(piece))) as server, server.provider() as provider:
        async with run_tools(provider, "x", [add]) as run:
            async for chunk in run:
                assert chunk.delta == "Hi"
                break
        await server.all_closed()
        assert [chunk async for chunk in run] == []


async def test_leaving_after_the_last_chunk() -> None:
    """A run that is left at the last chunk of its answer has ended: it can't be read again, and its state says so."""
    async with run_tools(Script(says("Hi.")).provider(), "x", [add]) as run:
        async for chunk in run:
            if chunk.finished:
                break
    assert run.finished
    assert json.loads(run.dump())["ended"]
    with pytest.raises(StreamfoldError, match="already read to its end"):
        aiter(run)


async def test_functions_that_block() -> None:
    """`in_thread` keeps signature and docstring, and runs the function elsewhere."""

    def where(city: str) -> str:
        """Blocks."""
        return f"{city} {threading.current_thread() is threading.main_thread()}"

    made = tool(in_thread(where))
    assert (made.name, made.description, list(made.parameters["properties"])) == ("where", "Blocks.", ["city"])
    script = Script(asks(("where", {"city": "a"}), ("where", {"city": "b"})), says("ok"))
    async with run_tools(script.provider(), "x", [made]) as run:
        async for _ in run:
            pass
    assert script.results() == ["a False", "b False"]


class Opaque(BaseModel):
    """A model says what the arguments are, and not what is to be done with them."""


async def test_what_can_not_run_is_said_before_anything_is_sent() -> None:
    provider = Script().provider()
    for tools, message in (
        ([Tool("ping")], "'ping' has no function"),
        ([{"type": "function", "function": {"name": "ping"}}], "'ping' has no function"),
        ([add, add], "two tools are called 'add'"),
        ([Opaque], "'Opaque' has no function"),
    ):
        with pytest.raises(ConfigError, match=message):
            run_tools(provider, "x", tools)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_turns must be at least 1"):
        run_tools(provider, "x", [add], max_turns=0)
    with pytest.raises(ConfigError, match="messages is empty"):
        run_tools(provider, [], [add])
    with pytest.raises(ConfigError, match="unknown option 'temprature'"):
        run_tools(provider, "x", [add], temprature=1)


async def test_the_given_conversation_stays_as_it_was() -> None:
    history = [user("x")]
    async with run_tools(Script(says("y")).provider(), history, [add]) as run:
        async for _ in run:
            pass
    assert (history, len(run.messages)) == ([user("x")], 2)
