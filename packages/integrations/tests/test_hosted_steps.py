"""What tools of a provider did, what was cited and which files there are, in the words of four frameworks."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import scale
from folding import random_cut
from made_hosted import MAKERS
from streamfold import HostedPart, Message, StreamDecoder
from streamfold.recording import Recording
from streamfold.testing import ReplayProvider
from streamfold_integrations import agui, aisdk
from streamfold_integrations.hosted_tools import HostedCall, HostedSteps

FIXTURES = Path(__file__).parents[3] / "fixtures"
PAGE = {"type": "web_search_result", "url": "https://rivers.example/length", "title": "How long rivers are"}
PAGE |= {"encrypted_content": "ZG9jIG9uZQ==", "page_age": "3 days ago"}
SEARCHED = [("web_search", {"query": "length of the Amazon"}, [PAGE], None)]
COMPUTED = [("code_execution", {"code": "print(sum(range(1, 11)))"}, {"outcome": "OUTCOME_OK", "output": "55\n"}, None)]

ITEMS: list[dict[str, Any]] = [
    {"id": "ws", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"id": "mcp", "type": "mcp_call", "server_label": "s", "name": "f", "arguments": '{"a":1}', "output": None,
     "error": "no such row", "status": "failed"},
    {"id": "img", "type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo=",
     "output_format": "png"},
    {"id": "ct", "type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
    {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "Né.", "annotations": [
            {"type": "url_citation", "url": "https://a.b", "title": "T", "start_index": 0, "end_index": 2},
            {"type": "container_file_citation", "container_id": "cn", "file_id": "f1", "filename": "a.csv",
             "start_index": 0, "end_index": 1}]}]},
]  # fmt: skip
MIXED = [
    ("web_search", {"type": "search", "query": "x"}, {"status": "completed"}, None),
    ("f", {"a": 1}, {"error": "no such row", "status": "failed"}, "no such row"),
    ("image_generation", {}, {"status": "completed", "output_format": "png"}, None),
]


def mixed() -> Recording:
    """An answer of the Responses API whose items begin before they are whole, as OpenAI sends them."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "model": "m"}}]
    for at, item in enumerate(ITEMS):
        begun = {**item, "status": "in_progress", "content": [], "action": None}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    response = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": ITEMS}
    events.append({"type": "response.completed", "response": response})
    return Recording("mixed", b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in events), "responses")


CASES = [
    (str(FIXTURES / "anthropic/web_search"), SEARCHED),
    (str(FIXTURES / "gemini/code_execution"), COMPUTED),
    (mixed(), MIXED),
]
EACH = pytest.mark.parametrize(("recording", "steps"), CASES, ids=["anthropic", "gemini", "openai"])


async def events(protocol: Any, recording: Any) -> list[dict[str, Any]]:
    request = agui.read_request({"threadId": "t", "runId": "r", "messages": []})
    stream = ReplayProvider(recording).chat_stream("x")
    source = protocol.stream(stream, request) if protocol is agui else protocol.stream(stream)
    body = b"".join([piece async for piece in source]).decode()
    return [json.loads(event[6:]) for event in body.split("\n\n") if event and event != "data: [DONE]"]


@EACH
async def test_ai_sdk(recording: Any, steps: list[Any]) -> None:
    """Tools of the provider are dynamic tools that it has executed; they come back as what it wants of them."""
    found = await events(aisdk, recording)
    begun = {one["toolCallId"]: one for one in found if one.get("providerExecuted") and "toolName" in one}
    ended = [one for one in found if one.get("providerExecuted") and "toolName" not in one]
    assert all(one["dynamic"] for one in [*begun.values(), *ended])
    assert [
        (
            begun[one["toolCallId"]]["toolName"],
            begun[one["toolCallId"]]["input"],
            one.get("output"),
            one.get("errorText"),
        )
        for one in ended
    ] == [(name, given, None if error else output, error) for name, given, output, error in steps]
    parts: list[dict[str, Any]] = []
    for one in found:
        if one["type"] == "data-streamfold":
            parts.append(one)
        elif one["type"] == "text-delta":
            parts.append({"type": "text", "text": one["delta"]})
        elif one["type"] == "tool-input-available":
            about = {name: one[name] for name in ("toolCallId", "toolName", "input", "providerExecuted") if name in one}
            kept = {"callProviderMetadata": one["providerMetadata"]} if "providerMetadata" in one else {}
            parts.append({"type": "dynamic-tool", "state": "output-available", "output": 1, **about, **kept})
    back = aisdk.read_messages([{"role": "assistant", "parts": parts}])[0]
    assert same(back, await whole(recording))


async def whole(recording: Any) -> Message:
    return (await ReplayProvider(recording).chat("x")).message


def same(back: Message, message: Message) -> bool:
    found = [(one.kind, one.id, one.name, one.raw_arguments) for one in back.tool_calls]
    wanted = [(one.kind, one.id, one.name, one.raw_arguments) for one in message.tool_calls]
    return (back.content, found, back.extras) == (message.content, wanted, message.extras)


@EACH
async def test_ag_ui(recording: Any, steps: list[Any]) -> None:
    """They are activities, which no client sends to a model."""
    found = [one for one in await events(agui, recording) if one["type"] == "ACTIVITY_SNAPSHOT"]
    last = {one["messageId"]: one["content"] for one in found if one["activityType"] not in ("citations", "files")}
    assert [(one["name"], one["input"], one.get("output"), one.get("error")) for one in last.values()] == [
        (name, given, None if error else output, error) for name, given, output, error in steps
    ]
    activities = [{"id": one["messageId"], "role": "activity", "content": one["content"]} for one in found]
    assert agui.read_messages(activities) == []


async def test_ai_sdk_sources_files_and_calls() -> None:
    """What was cited, what can be shown, and a call of a custom tool, which the program runs."""
    found = await events(aisdk, mixed())
    assert [one for one in found if one["type"] in ("source-url", "source-document", "file")] == [
        {"type": "source-url", "sourceId": "source-1", "url": "https://a.b", "title": "T"},
        {"type": "source-document", "sourceId": "source-2", "mediaType": "application/octet-stream", "title": "a.csv",
         "filename": "a.csv"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="},
    ]  # fmt: skip
    (call,) = [one for one in found if one["type"] == "tool-input-available" and not one.get("providerExecuted")]
    assert (call["toolCallId"], call["toolName"], call["input"]) == ("c1", "sql", {"input": "select 1"})


async def test_ag_ui_sources_files_and_calls() -> None:
    """Citations with their places, files with their bytes, and a call of a custom tool that comes back as one."""
    found = await events(agui, mixed())
    shown = {one["activityType"]: one["content"] for one in found if one["type"] == "ACTIVITY_SNAPSHOT"}
    cited = shown["citations"]["citations"]
    assert [(one["kind"], one["title"], one["start"], one["end"]) for one in cited] == [
        ("url", "T", 0, 2), ("file", "a.csv", 0, 1),
    ]  # fmt: skip
    assert [(one.get("data"), one.get("file_id")) for one in shown["files"]["files"]] == [
        ("iVBORw0KGgo=", None), (None, "f1"),
    ]  # fmt: skip
    pieces = "".join(one["delta"] for one in found if one["type"] == "TOOL_CALL_ARGS")
    kept = {one["subtype"]: one["encryptedValue"] for one in found if one["type"] == "REASONING_ENCRYPTED_VALUE"}
    call = {"id": "c1", "function": {"name": "sql", "arguments": pieces}, "encryptedValue": kept["tool-call"]}
    said = {"role": "assistant", "content": "Né.", "toolCalls": [call], "encryptedValue": kept["message"]}
    assert same(agui.read_messages([said])[0], await whole(mixed()))


@pytest.mark.one_loop
@pytest.mark.parametrize("stream", [False, True])
@EACH
async def test_langchain(recording: Any, steps: list[Any], stream: bool) -> None:
    """They are standard content blocks, beside the text; the message goes back as it came."""
    pytest.importorskip("langchain_core")
    from streamfold_integrations.langchain import ChatStreamfold

    model = ReplayProvider(recording, recording)
    chat = ChatStreamfold(client=model)
    if stream:
        pieces = [piece async for piece in chat.astream("x")]
        message: Any = pieces[0]
        for piece in pieces[1:]:
            message += piece
    else:
        message = await chat.ainvoke("x")
    blocks = [block for block in message.content if isinstance(block, dict)]
    begun = {block["id"]: block for block in blocks if block["type"] == "server_tool_call"}
    ended = [block for block in blocks if block["type"] == "server_tool_result"]
    assert [
        (begun[one["tool_call_id"]]["name"], begun[one["tool_call_id"]]["args"], one["output"], one["status"])
        for one in ended
    ] == [(name, given, output, "error" if error else "success") for name, given, output, error in steps]
    expected = await whole(recording)
    assert message.text == expected.content
    kinds = {block["type"] for block in message.content_blocks}
    assert kinds <= {"text", "server_tool_call", "server_tool_result", "image", "file", "tool_call"}
    await chat.ainvoke([("user", "x"), message, ("user", "y")])
    assert same(model.requests[-1].messages[1], expected)


@pytest.mark.one_loop
async def test_langchain_citations_and_files() -> None:
    """Positions are those of the text; a file that is elsewhere is a reference."""
    pytest.importorskip("langchain_core")
    from streamfold_integrations.langchain import ChatStreamfold

    message = await ChatStreamfold(client=ReplayProvider(mixed())).ainvoke("x")
    text, image, file = message.content[-3:]
    assert text["annotations"] == [
        {"type": "citation", "url": "https://a.b", "title": "T", "start_index": 0, "end_index": 2},
        {"type": "citation", "title": "a.csv", "start_index": 0, "end_index": 1},
    ]
    assert image == {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    assert file == {"type": "file", "file_id": "f1", "extras": {"filename": "a.csv", "container_id": "cn"}}
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("sql", {"input": "select 1"})]


@pytest.mark.parametrize("stream", [False, True])
@EACH
async def test_pydantic_ai(recording: Any, steps: list[Any], stream: bool) -> None:
    """They are native tool parts; the message goes back as it came, also from a stored history."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart
    from pydantic_ai.messages import NativeToolCallPart as Call
    from pydantic_ai.messages import NativeToolReturnPart as Return
    from pydantic_ai.models import ModelRequestParameters

    from streamfold_integrations.pydantic_ai import StreamfoldModel

    replay = ReplayProvider(recording, recording)
    model, asked = StreamfoldModel(replay), ModelRequest(parts=[UserPromptPart("x")])
    if stream:
        async with model.request_stream([asked], None, ModelRequestParameters()) as running:
            async for _ in running:
                pass
            answer = running.get()
    else:
        answer = await model.request([asked], None, ModelRequestParameters())
    begun = {part.tool_call_id: part for part in answer.parts if isinstance(part, Call)}
    ended = [part for part in answer.parts if isinstance(part, Return)]
    names = {"f": "mcp_server:s"}
    given = {"f": {"action": "call_tool", "tool_name": "f", "tool_args": {"a": 1}}}
    assert [
        (begun[part.tool_call_id].tool_name, begun[part.tool_call_id].args, part.content, part.outcome)
        for part in ended
    ] == [
        (names.get(name, name), given.get(name, said), output, "failed" if error else "success")
        for name, said, output, error in steps
    ]
    stored = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([asked, answer]))
    await model.request([*stored, asked], None, ModelRequestParameters())
    assert same(replay.requests[-1].messages[1], await whole(recording))


async def test_pydantic_ai_files_citations_and_calls() -> None:
    """A file that is here is a part; what has no part of its own is in the details."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import FilePart, ModelRequest, ToolCallPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters

    from streamfold_integrations.pydantic_ai import StreamfoldModel

    asked = ModelRequest(parts=[UserPromptPart("x")])
    answer = await StreamfoldModel(ReplayProvider(mixed())).request([asked], None, ModelRequestParameters())
    (file,) = [part for part in answer.parts if isinstance(part, FilePart)]
    assert (file.content.media_type, file.content.data) == ("image/png", b"\x89PNG\r\n\x1a\n")
    details = answer.provider_details
    assert details is not None
    assert [(one["url"], one["start"], one["end"]) for one in details["citations"]] == [
        ("https://a.b", 0, 2), (None, 0, 1),
    ]  # fmt: skip
    assert [one["file_id"] for one in details["files"]] == ["f1"]
    (call,) = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert (call.tool_name, call.args_as_dict()) == ("sql", {"input": "select 1"})


def test_steps_without_ids() -> None:
    """Gemini's first code execution had none: a result belongs to the oldest call of its kind that has none."""
    code, ran = {"executableCode": {"code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    parts = [
        part
        for number in (1, 2)
        for part in (
            HostedPart("code_execution", "call", input="1", raw={**code, "number": number}),
            HostedPart("code_execution", "result", raw={**ran, "number": number}),
        )
    ]
    steps = HostedSteps()
    told = [*steps.feed(parts[:1]), *steps.feed(parts[1:3]), *steps.feed(parts, last=True)]
    calls = [step if isinstance(step, HostedCall) else step.call for step in told]
    assert [call.id for call in calls] == ["code_execution_1"] * 2 + ["code_execution_2"] * 2


@pytest.mark.parametrize("api", MAKERS)
def test_each_step_is_told_once(api: str) -> None:
    """While an answer is written and at its end, the same steps as from the whole of it."""
    for seed in range(scale.pick(2000, 50)):
        rng = Random(seed)
        body = MAKERS[api](rng).body
        decoder, live = StreamDecoder(api), HostedSteps()
        chunks = [chunk for piece in random_cut(body, rng) for chunk in decoder.feed(piece)]
        decoder.close()
        told = [step for chunk in chunks for step in live.feed(chunk.hosted)]
        told += live.feed(decoder.reply.hosted, last=True)
        whole = list(HostedSteps().feed(decoder.reply.hosted, last=True))
        assert sorted(map(shown, told)) == sorted(map(shown, whole)), seed
        for at, step in enumerate(told):
            assert isinstance(step, HostedCall) or shown(step.call) in map(shown, told[:at]), seed


def shown(step: Any) -> str:
    call = step if isinstance(step, HostedCall) else step.call
    return repr((call.id, call.name, call.input, None if step is call else (step.output, step.error)))
