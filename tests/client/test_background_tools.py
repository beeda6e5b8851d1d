"""Tools whose calls run while the model continues (`async` of OpenAI's Responses API): each result is sent once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import anyio
import httpx
import pytest

from scale import pick
from streamfold import (
    Message,
    Provider,
    Tool,
    ToolCall,
    run_tools,
    tool,
    tool_result,
    user,
)
from streamfold.tools import ToolResult, resume_tools
from tables import each_row

Turn = Iterable[Any]


def call(call_id: str, name: str, *, late: bool = True, **arguments: Any) -> dict[str, Any]:
    more = {"async": True} if late else {}
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "status": "completed"}
    return {**item, "arguments": json.dumps(arguments), **more}


def text(said: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


class Server:
    """A server that says a script, and refuses what the guide of async tool calling doesn't allow.

    https://developers.openai.com/api/docs/guides/async-tool-calling: a call with `async: true` may be without an
    output, any other may not; an output belongs to a call before it, and comes once.
    """

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        waiting: dict[str, bool] = {}
        for item in body["input"]:
            if item["type"] == "function_call":
                waiting[item["call_id"]] = item.get("async", False)
            elif item["type"] == "function_call_output" and waiting.pop(item["call_id"], None) is None:
                return httpx.Response(400, json={"error": {"message": f"no call for {item['call_id']}, or twice"}})
        if sync := [call_id for call_id, late in waiting.items() if not late]:
            return httpx.Response(400, json={"error": {"message": f"No tool output found for {sync}"}})
        output = list(self.turns.pop(0))
        return httpx.Response(200, json={"id": "r", "object": "response", "status": "completed", "output": output})

    def provider(self, spec: str = "openai:gpt-6-luna", **settings: Any) -> Provider:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Provider.from_config(spec, api_key="k", http_client=client, max_retries=0, **settings)

    def outputs(self) -> list[list[tuple[str, str]]]:
        """The new outputs of each request, as (call_id, output)."""
        found, seen = [], 0
        for body in self.bodies:
            sent = [(item["call_id"], item["output"]) for item in body["input"] if "output" in item]
            found.append(sent[seen:])
            seen = len(sent)
        return found


class Slow:
    """Tools that end when they are told to."""

    def __init__(self, *names: str) -> None:
        self.may_end = {name: anyio.Event() for name in names}
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.tools = [self._tool(name) for name in names]

    def _tool(self, name: str) -> Tool:
        async def run() -> str:
            self.began.append(name)
            try:
                await self.may_end[name].wait()
            except BaseException:
                self.cancelled.append(name)
                raise
            return f"{name} is done"

        return tool(run, name=name, background=True)


def look() -> str:
    return "sunny"


async def test_the_model_continues_and_gets_the_result_once() -> None:
    """Another call is answered at once, while the slow one runs; its result comes with the request after it."""
    slow = Slow("slow")
    server = Server([call("c1", "slow"), call("c2", "look", late=False)], [text("Sunny.")], [text("And done.")])
    seen: list[Any] = []
    async with server.provider() as provider, run_tools(provider, "Hi", [*slow.tools, look]) as run:
        async for event in run.events():
            seen.append(event.value if isinstance(event, ToolResult) else event.delta)
            if seen[-1] == "Sunny.":
                slow.may_end["slow"].set()
    assert [each for each in seen if each] == ["sunny", "Sunny.", "slow is done", "And done."]
    assert server.outputs() == [[], [("c2", "sunny")], [("c1", "slow is done")]]
    assert slow.began == ["slow"]
    assert server.bodies[0]["tools"][0]["async"] is True
    assert "async" not in server.bodies[0]["tools"][1]
    sent = [item for item in server.bodies[2]["input"] if item.get("call_id") == "c1"]
    assert [item["type"] for item in sent] == ["function_call", "function_call_output"]
    assert sent[0]["async"] is True
    assert run.reply.text == "And done."
    assert [message.tool_call_id for message in run.messages if message.role == "tool"] == ["c2", "c1"]


async def test_nothing_is_sent_before_there_is_something_new() -> None:
    """After a turn of slow calls alone, the next request waits for the first of them that ends."""
    slow = Slow("one", "two")
    server = Server([call("c1", "one"), call("c2", "two"), text("Wait.")], [text("Two.")], [text("One.")])
    async with server.provider() as provider, run_tools(provider, "Hi", slow.tools) as run:
        slow.may_end["two"].set()
        async for chunk in run:
            if chunk.delta == "Two.":
                slow.may_end["one"].set()
    assert server.outputs() == [[], [("c2", "two is done")], [("c1", "one is done")]]
    assert run.finished


@each_row("calls", [1, 2, 5])
async def test_results_that_are_there_together_are_sent_together(calls: int) -> None:
    """In the order in which the calls began."""
    slow = Slow(*(f"t{number}" for number in range(calls)))
    server = Server([call(f"c{number}", f"t{number}") for number in range(calls)], [text("Done.")])
    for event in slow.may_end.values():
        event.set()
    async with server.provider() as provider:
        await run_tools(provider, "Hi", slow.tools)
    assert server.outputs() == [[], [(f"c{number}", f"t{number} is done") for number in range(calls)]]


async def test_a_tool_that_raises_and_one_that_ends_the_run() -> None:
    """An error is a result, as that of any call; what `on_tool_error` raises ends the run."""

    def fail() -> str:
        raise ValueError("secret")

    failing = tool(fail, background=True)
    server = Server([call("c1", "fail")], [text("Sorry.")])
    async with server.provider() as provider:
        assert (await run_tools(provider, "Hi", [failing])).text == "Sorry."
    assert "ValueError" in server.outputs()[1][0][1]

    def give_up(call: ToolCall, error: Exception) -> str:
        raise error

    async with Server([call("c1", "fail")]).provider() as provider:
        with pytest.raises(ValueError, match="secret"):
            await run_tools(provider, "Hi", [failing], on_tool_error=give_up)


async def test_a_run_that_is_left_stops_its_calls() -> None:
    """The conversation says that they haven't finished, and can be sent again, here and elsewhere."""
    slow = Slow("slow")
    server = Server([call("c1", "slow"), call("c2", "look", late=False)], [text("Sunny.")], [text("Again.")])
    async with server.provider() as provider:
        async with run_tools(provider, "Hi", [*slow.tools, look]) as run:
            async for chunk in run:
                if chunk.delta == "Sunny.":
                    break
        with anyio.fail_after(5):
            while not slow.cancelled:
                await anyio.sleep(0)
        results = {message.tool_call_id: message for message in run.messages if message.role == "tool"}
        assert results["c1"].error
        assert "not finished" in str(results["c1"].content)
        assert (await provider.chat([*run.messages, user("Go on")])).text == "Again."


async def test_a_saved_run_does_not_run_the_call_again() -> None:
    """It belongs to the process that started it: elsewhere the model is told that it hasn't finished."""
    slow = Slow("slow")
    server = Server([call("c1", "slow"), call("c2", "look", late=False)], [text("Sunny.")], [text("Resumed.")])
    async with server.provider() as provider:
        async with run_tools(provider, "Hi", [*slow.tools, look]) as run:
            async for chunk in run:
                if chunk.delta == "Sunny.":
                    state = run.dump()
                    break
        resumed = resume_tools(provider, state, [*slow.tools, look])
        assert (await resumed).text == "Resumed."
    assert slow.began == ["slow"]
    saved = [Message.from_dict(each) for each in json.loads(state)["messages"]]
    assert "not finished" in str(next(each for each in saved if each.tool_call_id == "c1").content)


async def test_the_last_turn_waits_without_another_request() -> None:
    """`max_turns` counts requests: a result that comes after the last one is in the conversation, and not sent."""
    slow = Slow("slow")
    server = Server([call("c1", "slow"), call("c2", "look", late=False)], [text("Sunny.")])
    async with server.provider() as provider, run_tools(provider, "Hi", [*slow.tools, look], max_turns=2) as run:
        async for chunk in run:
            if chunk.delta == "Sunny.":
                slow.may_end["slow"].set()
    assert len(server.bodies) == 2
    assert run.messages[-1].content == "slow is done"


@each_row("spec", ["openai:gpt-5.4", "openai-responses:gpt-5.4", "anthropic:claude-sonnet-5", "kimi:kimi-k2.6"])
def test_other_models_wait_for_the_result(spec: str) -> None:
    """Nothing is sent that they would refuse, and a warning says so."""
    (made,) = Slow("slow").tools
    sent = Provider.from_config(spec, api_key="k").preview("Hi", [made])
    assert "async" not in json.dumps(sent.json())
    assert [warning.code for warning in sent.warnings if "background" in warning.detail] == ["option_dropped"]


def test_a_history_with_late_results_elsewhere() -> None:
    """The call is sent with a result that says that it runs, and later with its own, in the same place."""
    late = ToolCall("c1", "slow", {}, "{}", {"async": True})
    begun = [user("Hi"), Message("assistant", tool_calls=(late,)), Message("assistant", "Wait."), user("And?")]
    claude = Provider.from_config("anthropic:claude-sonnet-5", api_key="k")
    for messages, content in ((begun, "still running"), ([*begun, tool_result(late, "Done.")], "Done.")):
        sent = claude.preview(messages)
        (result,) = sent.json()["messages"][2]["content"]
        assert (result["type"], result["tool_use_id"]) == ("tool_result", "c1")
        assert content in json.dumps(result["content"])
        assert any("background tool call" in warning.detail for warning in sent.warnings)
    here = Provider.from_config("openai:gpt-6-luna", api_key="k").preview(begun)
    assert [item["type"] for item in here.json()["input"]] == ["message", "function_call", "message", "message"]
    assert here.json()["input"][1]["async"] is True


def test_tools_are_read_in_the_words_of_the_api() -> None:
    """`async` of a tool as a dict, which a client of the gateway sends."""
    given = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "async": True}
    sent = Provider.from_config("openai:gpt-6-luna", api_key="k").preview("Hi", [given])
    assert sent.json()["tools"][0]["async"] is True


async def test_any_run_sends_each_result_once() -> None:
    """Whatever calls a turn has, and in whichever order the slow ones end; the strict server refuses nothing."""
    for seed in range(pick(500, 12)):
        rng = random.Random(seed)
        names = [f"t{number}" for number in range(rng.randint(1, 6))]
        slow, turns, left = Slow(*names), list[Turn](), [*names]
        while left:
            count = rng.randint(0, min(3, len(left)))
            items = [call(f"c-{left.pop()}", name) for name in left[len(left) - count :][::-1]]
            items += [call(f"s{len(turns)}", "look", late=False)] * rng.randint(0, 1)
            turns.append([*items, text(f"turn {len(turns)}")])
        # As many answers as there may be requests, one for each result.
        server = Server(*turns, *([text("so far")] for _ in range(2 * len(names) + len(turns))))
        ends = [*names]
        rng.shuffle(ends)

        async def end_them(pauses: list[int], ends: list[str] = ends, slow: Slow = slow) -> None:
            for name, pause in zip(ends, pauses, strict=True):
                for _ in range(pause):
                    await anyio.sleep(0)
                slow.may_end[name].set()

        with anyio.fail_after(20):
            async with server.provider() as provider, anyio.create_task_group() as group:
                group.start_soon(end_them, [rng.randint(0, 40) for _ in ends])
                await run_tools(provider, "Hi", [*slow.tools, look], max_turns=50)
        sent = [output for request in server.outputs() for output in request if output[0].startswith("c-")]
        called = {item["call_id"] for turn in turns for item in turn if item.get("async")}
        begun = {f"c-{name}" for name in slow.began}
        assert sorted(sent) == sorted((call_id, f"{call_id[2:]} is done") for call_id in begun), seed
        assert begun <= called
