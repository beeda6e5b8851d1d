"""AG-UI: the events of a run, and a `RunAgentInput` read as a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamfold import (
    APIConnectionError,
    ConfigError,
    IncompleteStreamError,
    ToolCall,
    ToolResult,
    run_tools,
    tool,
    tool_result,
)
from streamfold.testing import ScriptedProvider, call, fail, finish, refuse, say, think, usage
from streamfold.tools import FileJournal, StoreJournal, ToolRun
from streamfold.types import ImagePart, TextPart
from streamfold_integrations import agui
from streamfold_integrations.agui import AgentRequest
from tables import each_row

QUESTION = {"id": "u1", "role": "user", "content": "Tidy up"}
PAINT = {"name": "paint", "description": "Paints.", "parameters": {"type": "object", "properties": {}}}


def asked(*messages: dict[str, Any], **rest: Any) -> agui.AgentRequest:
    body = {"threadId": "t1", "runId": "r1", "messages": [QUESTION, *messages], "tools": [], "context": [], **rest}
    return agui.read_request(body)


async def written(source: Any, request: agui.AgentRequest | None = None, **options: Any) -> list[dict[str, Any]]:
    """The events of a run."""
    body = b"".join([piece async for piece in agui.stream(source, request or asked(), **options)]).decode()
    *events, rest = body.split("\n\n")
    assert rest == ""
    return [json.loads(event.removeprefix("data: ")) for event in events]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def get_weather(city: str) -> dict[str, Any]:
    """The weather."""
    return {"celsius": 18}


@tool(needs_approval=True)
def delete(path: str) -> str:
    """Deletes."""
    return f"deleted {path}"


def thread(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that an AG-UI client keeps of these events; `tests/clients` shows that it really does."""
    kept: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, Any]] = {}
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                kept[event["messageId"]] = {"id": event["messageId"], "role": event["role"], "content": ""}
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                kept[event["messageId"]]["content"] += event["delta"]
            case "TOOL_CALL_START":
                parent = event["parentMessageId"]
                message = kept.setdefault(parent, {"id": parent, "role": "assistant"})
                entry = {"id": event["toolCallId"], "type": "function"}
                calls[event["toolCallId"]] = entry | {"function": {"name": event["toolCallName"], "arguments": ""}}
                message.setdefault("toolCalls", []).append(calls[event["toolCallId"]])
            case "TOOL_CALL_ARGS":
                calls[event["toolCallId"]]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                kept[event["messageId"]] = {key: event[key] for key in ("role", "content", "toolCallId")}
            case "REASONING_ENCRYPTED_VALUE":
                entity = calls if event["subtype"] == "tool-call" else kept
                entity[event["entityId"]]["encryptedValue"] = event["encryptedValue"]
    return list(kept.values())


async def test_text_and_reasoning_are_messages() -> None:
    """Reasoning is closed before the text begins, and everything before the run is."""
    model = ScriptedProvider([think("Hmm."), say("Hello"), usage(3, 5)])
    events = await written(model.chat_stream("x"))
    counts = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
    assert events == [
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"},
        {"type": "REASONING_START", "messageId": "r1-message-1-reasoning-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "r1-message-1-reasoning-1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1-message-1-reasoning-1", "delta": "Hmm."},
        {"type": "REASONING_MESSAGE_END", "messageId": "r1-message-1-reasoning-1"},
        {"type": "REASONING_END", "messageId": "r1-message-1-reasoning-1"},
        {"type": "TEXT_MESSAGE_START", "messageId": "r1-message-1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r1-message-1", "delta": "Hello"},
        {"type": "TEXT_MESSAGE_END", "messageId": "r1-message-1"},
        {
            "type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "success"},
            "usage": [{"provider": "scripted", "model": "scripted", **counts}],
        },
    ]  # fmt: skip
    quiet = await written(ScriptedProvider([think("Hm"), "Hi"]).chat_stream("x"), reasoning=False)
    assert not [kind for kind in kinds(quiet) if kind.startswith("REASONING")]


async def test_calls_and_results_come_back_as_they_were() -> None:
    """The model's own text of the arguments survives the way through a client."""
    raw = '{ "city":  "Oslo" }'
    model = ScriptedProvider([think("Hm."), say("I look."), call("get_weather", raw), call("nope")], "Warm.")
    run = run_tools(model, "Tidy up", [get_weather])
    events = await written(run)
    assert kinds(events).count("TOOL_CALL_END") == 2
    found = asked(*thread(events)).messages
    assert [message.role for message in found] == ["user", "assistant", "tool", "tool", "assistant"]
    assert found[:3] == tuple(run.messages[:3])
    assert found[3].content == "Error: unknown tool 'nope'. Available: get_weather"
    assert found[4] == run.messages[4]


async def test_reasoning_belongs_to_its_turn_wherever_it_stands() -> None:
    """A model may say a word before it thinks; the reasoning of other agents stands before their message."""
    model = ScriptedProvider([say("Well. "), think("Hm."), call("get_weather", city="Oslo")], [think("So."), "Warm."])
    run = run_tools(model, "Tidy up", [get_weather])
    kept = thread(await written(run))
    assert [message["role"] for message in kept][:2] == ["assistant", "reasoning"]
    assert [found.reasoning for found in asked(*kept).messages if found.role == "assistant"] == ["Hm.", "So."]
    foreign = [{"id": "x", "role": "reasoning", "content": "Aha."}, {"id": "y", "role": "assistant", "content": "Hi"}]
    assert asked(*foreign).messages[1].reasoning == "Aha."


@each_row("failure", [fail(IncompleteStreamError), fail("oh"), fail(APIConnectionError), fail(429)])
async def test_a_run_that_fails_ends_with_an_error(failure: Any) -> None:
    """No call is closed, and the run is not finished."""
    model = ScriptedProvider(failure if failure == fail(429) else [say("Let "), call("get_weather", city="x"), failure])
    events = await written(run_tools(model, "x", [get_weather]))
    assert events[-1]["type"] == "RUN_ERROR"
    assert events[-1]["code"].endswith("Error")
    assert not {"TOOL_CALL_END", "RUN_FINISHED"} & set(kinds(events))


async def test_arguments_are_shown_while_they_are_written() -> None:
    """Pieces come before the end of the answer, and together they are the model's text."""
    model = ScriptedProvider([say("I look."), call("get_weather", city="Oslo, in the north")], "Warm.")
    run = run_tools(model, "Tidy up", [get_weather], partial_tool_calls=True)
    events = await written(run)
    pieces = [event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS"]
    assert len(pieces) > 2
    assert "".join(pieces) == run.messages[1].tool_calls[0].raw_arguments
    assert kinds(events).count("TOOL_CALL_START") == kinds(events).count("TOOL_CALL_END") == 1


@each_row("failure", [fail(IncompleteStreamError), fail("oh"), finish("length")])
async def test_a_call_that_was_shown_and_cut_off_is_not_closed(failure: Any) -> None:
    """The run ends with an error; what the client keeps of the call can't be run, and is not asked about."""
    steps = [call("delete", path="a long path", other="more"), failure]
    events = await written(run_tools(ScriptedProvider(steps), "x", [delete], partial_tool_calls=True))
    assert "TOOL_CALL_ARGS" in kinds(events)
    assert events[-1]["type"] == "RUN_ERROR"
    assert not {"TOOL_CALL_END", "RUN_FINISHED"} & set(kinds(events))
    request = asked(*thread(events))
    run = request.run(ScriptedProvider("Sorry."), [delete])
    assert run.pending == ()


async def test_an_approval_is_an_interrupt() -> None:
    """The run waits; `resume` answers; the call runs once."""
    first = asked().run(ScriptedProvider([call("delete", path="a"), call("delete", path="b")]), [delete])
    events = await written(first)
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    one, two = outcome["interrupts"]
    assert (one["reason"], one["toolCallId"]) == ("tool_call", events[1]["toolCallId"])
    assert one["responseSchema"]["required"] == ["approved"]
    resume = [
        {"interruptId": one["id"], "status": "resolved", "payload": {"approved": True}},
        {"interruptId": two["id"], "status": "cancelled"},
    ]
    for state in (None, first.dump()):
        request = replace(asked(*thread(events), resume=resume, runId="r2"), trust_client=state is None)
        run = request.run(ScriptedProvider("Done."), [delete], state=state, journal=StoreJournal("memory"))
        later = await written(run, request)
        contents = [event["content"] for event in later if event["type"] == "TOOL_CALL_RESULT"]
        assert contents == ["deleted a", "Error: not run: the call was denied: cancelled"]
        assert later[-1]["outcome"] == {"type": "success"}
        again = asked(*thread(events), *thread(later))
        assert [found.role for found in again.messages] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_only_signed_calls_can_be_approved() -> None:
    """The signature of an interrupt comes back in the metadata of its answer."""
    without = asked().run(ScriptedProvider(call("delete", path="a")), [delete])
    assert (await written(without, secret="s1"))[-1]["type"] == "RUN_ERROR"  # nothing would keep that it is good once
    first = asked().run(ScriptedProvider(call("delete", path="a")), [delete], journal=StoreJournal("memory"))
    events = await written(first, secret="s1")
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    body = {"threadId": "t1", "runId": "r2", "messages": [QUESTION, *thread(events)]}
    signed = {**body, "resume": [{**resume, "metadata": interrupt["metadata"]}]}
    assert agui.read_request(signed, secret="s1").decisions[0].approved
    for forged in ({**body, "resume": [resume]}, {**signed, "threadId": "t2"}):
        with pytest.raises(ConfigError, match="is not signed"):
            agui.read_request(forged, secret="s1")


async def test_a_signed_approval_is_good_once(tmp_path: Path) -> None:
    """However often it is sent, whatever stands before it, and however the page writes the arguments."""
    ran: list[float] = []

    @tool(needs_approval=True)
    def pay(amount: float, to: str) -> str:
        ran.append(amount)
        return "paid"

    journal = FileJournal(tmp_path)

    def running(request: AgentRequest, *answers: Any) -> ToolRun:
        return request.run(ScriptedProvider(*answers), [pay], journal=journal)

    first = asked()
    events = await written(running(first, call("pay", amount=1.0, to="Zoë")), first, secret="s1")
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    resume["metadata"] = interrupt["metadata"]

    async def play(text: str, before: int, **more: Any) -> list[Any]:
        called = {"id": interrupt["id"], "type": "function", "function": {"name": "pay", "arguments": text}}
        turn = {"id": "a1", "role": "assistant", "toolCalls": [called]}
        messages = [{**QUESTION, "id": f"q{at}"} for at in range(before + 1)]
        body = {"threadId": "t1", "runId": "r2", "messages": [*messages, turn], "resume": [resume], **more}
        request = agui.read_request(body, secret="s1")
        return await written(running(request, "Done."), request, secret="s1")

    for before, text in enumerate(
        [
            '{"amount": 1.0, "to": "Zoë"}',
            '{"amount":1,"to":"Zoë"}',
            '{"to":"Zo\\u00eb","amount":1e0}',
            '{"amount":10e-1,"to":"Zoë"}',
        ]
    ):
        found = await play(text, before)
        assert [event["content"] for event in found if event["type"] == "TOOL_CALL_RESULT"] == ["paid"]
    assert ran == [1.0]
    # A page may ask to be asked again: the call gets the same approval, and one that no model has made gets none.
    for text, signed in (('{"amount":1,"to":"Zoë"}', interrupt["metadata"]), ('{"amount":9,"to":"Zoë"}', None)):
        again = await play_without_decision(running, text, interrupt["id"])
        assert again.get("metadata") == signed
    # Another answer of the model with the same id and arguments is another call; the old approval is not for it.
    second = asked()
    events = await written(running(second, call("pay", amount=1.0, to="Zoë")), second, secret="s1")
    old, resume["metadata"] = resume["metadata"], events[-1]["outcome"]["interrupts"][0]["metadata"]
    await play('{"amount": 1.0, "to": "Zoë"}', 0)
    assert ran == [1.0, 1.0]
    resume["metadata"] = old
    assert (await play('{"amount": 1.0, "to": "Zoë"}', 0))[-1]["type"] == "RUN_ERROR"
    assert ran == [1.0, 1.0]


async def play_without_decision(running: Callable[..., ToolRun], text: str, call_id: str) -> dict[str, Any]:
    called = {"id": call_id, "type": "function", "function": {"name": "pay", "arguments": text}}
    body = {
        "threadId": "t1",
        "runId": "r3",
        "messages": [QUESTION, {"id": "a1", "role": "assistant", "toolCalls": [called]}],
    }
    request = agui.read_request(body, secret="s1")
    events = await written(running(request, "Done."), request, secret="s1")
    found: dict[str, Any] = events[-1]["outcome"]["interrupts"][0]
    return found


async def test_an_answer_without_a_decision_is_no_approval() -> None:
    """A payload of another form is an error, never a yes."""
    for payload in (None, {}, {"approved": "true"}, {"approved": 1}):
        with pytest.raises(ConfigError, match=r"resume\[0\].payload"):
            asked(resume=[{"interruptId": "c", "status": "resolved", "payload": payload}])


@pytest.mark.parametrize("status", ["denied", "RESOLVED", "CANCELLED", "", None, {}, [], True, ...])
def test_a_status_that_the_protocol_lacks_is_no_approval(status: Any) -> None:
    """Only "resolved" can approve a call; whatever is neither that nor "cancelled" is refused."""
    entry = {"interruptId": "c", "status": status, "payload": {"approved": True}}
    if status is ...:
        del entry["status"]
    with pytest.raises(ConfigError, match=r"resume\[0\].status"):
        asked(resume=[entry])


async def test_tools_of_the_client() -> None:
    """The run ends and names the calls; their results come with the next request."""
    request = asked(tools=[PAINT])
    run = request.run(ScriptedProvider(call("paint", colour="red")), external=request.tools)
    events = await written(run, request)
    (found,) = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [found]}
    request = asked(*thread(events), {"id": "x", "role": "tool", "toolCallId": found, "content": "painted"})
    for state in (None, run.dump()):
        again = request.run(ScriptedProvider("Pretty."), external=request.tools, state=state)
        assert kinds(await written(again, request))[-1] == "RUN_FINISHED"
        assert again.messages[2].content == "painted"


def test_ids_of_calls_are_unique_in_a_thread() -> None:
    """Some servers count from 0 in every answer; clients of AG-UI would put the second call into the first."""
    writer = agui.AGUIWriter("t", "r", known_calls=["c0"])
    found = ToolCall("c0", "f", {}, "{}")
    for expected in ("c0~2", "c0~3"):
        started, *_, ended = [*writer.turn(), *writer.call(found, "{}")]
        (answered,) = writer.result(ToolResult(found, tool_result(found, "x"), "x"))
        assert {event["toolCallId"] for event in (started, ended, answered)} == {expected}


async def test_images_go_both_ways() -> None:
    """Parts of a person, and of a tool."""
    source = {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}
    parts = [{"type": "text", "text": "Look"}, {"type": "image", "source": source}]
    (message,) = agui.read_messages([{"id": "1", "role": "user", "content": parts}])
    picture = ImagePart(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    assert message.content == (TextPart("Look"), picture)
    shoot = tool(lambda: ["a cat", picture], name="shoot")
    events = await written(run_tools(ScriptedProvider(call("shoot"), "Nice."), "x", [shoot]))
    (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert result["content"] == [{"type": "text", "text": "a cat"}, {"type": "image", "source": source}]
    assert asked(*thread(events)).messages[2].content == (TextPart("a cat"), picture)


async def test_what_only_the_provider_can_read_comes_back() -> None:
    """Signatures of a message and of a call are encrypted values; those of other programs are left alone."""
    for provider in ("anthropic:claude-fable-5-2", "gemini:gemini-x"):
        model = ScriptedProvider([think("Hm."), call("get_weather", city="Oslo")], "Warm.", provider=provider)
        run = run_tools(model, "Tidy up", [get_weather])
        found = asked(*thread(await written(run))).messages[1]
        assert (found.extras, found.prefix) == (run.messages[1].extras, run.messages[1].prefix)
        assert bool(found.prefix) is provider.startswith("anthropic")
        assert [one.extra for one in found.tool_calls] == [one.extra for one in run.messages[1].tool_calls]
    (foreign,) = agui.read_messages([{"role": "assistant", "content": "Hi", "encryptedValue": "gAAAA"}])
    assert foreign.extras == {}


async def test_a_refusal_is_shown() -> None:
    """It is the text of the message."""
    events = await written(ScriptedProvider(refuse("No.")).chat_stream("x"))
    assert [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["No."]


async def test_a_run_that_was_closed_is_cancelled() -> None:
    """Everything that is open is closed, and the run says that it was stopped."""
    run = run_tools(ScriptedProvider([think("Hm"), say("Hello "), say("there")]), "x", [get_weather])
    events = []
    async for piece in agui.stream(run, asked()):
        events.append(json.loads(piece.removeprefix(b"data: ")))
        if events[-1]["type"] == "TEXT_MESSAGE_CONTENT":
            await run.aclose()
    assert kinds(events)[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert events[-1]["outcome"] == {"type": "cancelled"}


async def test_what_else_a_request_carries() -> None:
    """Context, state and forwarded values are for the application; activities are not for the model."""
    activity = {"id": "a", "role": "activity", "activityType": "PLAN", "content": {}}
    request = asked(
        activity,
        context=[{"description": "page", "value": "/home"}],
        state={"x": 1},
        forwardedProps={"y": 2},
    )
    assert request.context == (("page", "/home"),)
    assert (request.state, request.forwarded) == ({"x": 1}, {"y": 2})
    assert [message.role for message in request.messages] == ["user"]
    run = request.run(ScriptedProvider("Hi"), instructions="Be kind.")
    assert [message.role for message in run.messages] == ["system", "user"]


@each_row(
    ("change", "place"),
    [
        ({"threadId": 1}, "the request.threadId is a number: it must be a string"),
        ({"messages": [{"role": "robot"}]}, r"messages\[0\].role is 'robot'"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            r"messages\[0\].content\[0\].type is 'video'",
        ),
        ({"tools": [{}]}, r"tools\[0\].name"),
        ({"messages": [{"id": []}]}, r"messages\[0\].role"),
    ],
)
def test_requests_of_another_form_are_refused(change: dict[str, Any], place: str) -> None:
    """The error names the place, for an answer with the status 400."""
    with pytest.raises(ConfigError, match=place):
        agui.read_request({"threadId": "t", "runId": "r", "messages": [QUESTION], **change})


@pytest.mark.parametrize("kept", ['{"streamfold":' + "[" * 50_000, "{", "[]", "1"])
def test_values_that_another_program_wrote_are_left_alone(kept: str) -> None:
    """An encrypted value that is not ours, however deeply nested, is ignored; so is an id that is no text."""
    answer = {"id": [], "role": "assistant", "content": "Hello", "encryptedValue": kept}
    assert [message.content for message in agui.read_messages([QUESTION, answer])] == [QUESTION["content"], "Hello"]
