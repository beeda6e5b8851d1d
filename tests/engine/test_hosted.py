"""Calls that are no functions, and what tools of the provider did: literals in, values out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import HostedPart, Message, PartialToolCall, Reply, StreamDecoder, ToolCall, Usage
from streamfold.adapters import EncodingReport, find_adapter
from streamfold.requests import Request
from streamfold.types import CallKind
from tables import each_row

CLIENTS = [
    ({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
     "custom", "sql", {"input": "select 1"}),
    ({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
     "apply_patch", "apply_patch", {"type": "delete_file", "path": "a"}),
    ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "shell", "shell", {"commands": ["ls"]}),
    ({"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
     "shell", "local_shell", {"command": ["ls"]}),
    ({"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
     "computer", "computer", {"type": "screenshot"}),
    ({"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"goal": "x"}},
     "tool_search", "tool_search", {"goal": "x"}),
    ({"type": "mcp_approval_request", "id": "c", "name": "f", "server_label": "s", "arguments": '{"a":1}'},
     "approval", "f", {"a": 1}),
]  # fmt: skip
SERVERS: list[dict[str, Any]] = [
    {"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "x_keyword_search", "input": "{}"},  # xAI's own
    {"type": "shell_call", "id": "c", "call_id": "c", "action": {}, "environment": {"type": "container_reference"}},
    {"type": "tool_search_call", "id": "c", "call_id": "c", "execution": "server", "arguments": {}},
    {"type": "web_search_call", "id": "c", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "acme:search_call", "id": "c", "status": "completed"},
]


def events(*items: dict[str, Any], status: str = "completed", **members: Any) -> bytes:
    said: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r", "model": "m"}}]
    for at, item in enumerate(items):
        said += [
            {"type": f"response.output_item.{when}", "output_index": at, "item": item} for when in ("added", "done")
        ]
    response = {"id": "r", "object": "response", "status": status, "model": "m", "output": list(items), **members}
    said.append({"type": f"response.{status}", "response": response})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in said).encode()


def read(body: bytes, **decoder: Any) -> Reply:
    reader = StreamDecoder("responses", **decoder)
    reader.feed(body)
    reader.close()
    return reader.reply


@each_row(("item", "kind", "name", "arguments"), CLIENTS, ids=[item[0]["type"] for item in CLIENTS])
def test_a_call_that_the_program_has_to_run_is_handed_out(
    item: dict[str, Any], kind: CallKind, name: str, arguments: dict[str, Any]
) -> None:
    """It is a call with its kind; the answer did not just stop."""
    reply = read(events(item))
    (call,) = reply.tool_calls
    assert (call.kind, call.id, call.name, call.arguments, call.error) == (kind, "c", name, arguments, None)
    assert reply.finish_reason == "tool_calls"
    assert [part.runs for part in reply.hosted] == [part.runs for part in reply.message.hosted] == ["client"]
    assert Message.from_json(reply.message.to_json()).tool_calls == (call,)


@each_row("item", SERVERS, ids=lambda item: item["type"])
def test_what_the_provider_runs_is_no_call(item: dict[str, Any]) -> None:
    """It is a part of the answer, which has ended."""
    reply = read(events(item))
    assert (reply.tool_calls, reply.finish_reason) == ([], "stop")
    assert [part.runs for part in reply.hosted] == ["server"]


def test_calls_come_in_the_order_of_the_model() -> None:
    """Those of functions and of other tools are one list."""
    function = {"type": "function_call", "call_id": "f", "name": "f", "arguments": "{}", "status": "completed"}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
    assert [call.id for call in read(events(custom, function)).tool_calls] == ["c", "f"]
    assert [call.id for call in read(events(function, custom)).tool_calls] == ["f", "c"]


@each_row("item", [item for item, *_ in CLIENTS], ids=lambda item: item["type"])
def test_a_cut_answer_hands_out_no_calls(item: dict[str, Any]) -> None:
    """Neither does one whose request forbade them. A warning names the call."""
    cut = read(events(item, status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    forbidden = read(events(item), tool_choice="none")
    for reply in (cut, forbidden):
        assert reply.tool_calls == []
        assert [warning.code for warning in reply.warnings] == ["calls_dropped"]


def test_a_custom_tool_is_the_clients_only_if_it_was_declared() -> None:
    """Providers send what their own tools do as calls of custom tools, too."""
    call = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
    assert [c.name for c in read(events(call), tools=[{"type": "function", "name": "sql"}]).tool_calls] == ["sql"]
    assert read(events(call), tools=[{"type": "function", "name": "other"}]).tool_calls == []


def test_what_tools_do_is_shown_as_it_comes() -> None:
    """When a tool begins and when it is done, each once; and counted."""
    begun = {"type": "web_search_call", "id": "ws", "status": "in_progress"}
    done = {**begun, "status": "completed", "action": {"type": "search", "query": "x"}}
    body = events(done, usage={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2})
    body = body.replace(json.dumps(done).encode(), json.dumps(begun).encode(), 1)
    decoder = StreamDecoder("responses")
    shown = [part for chunk in decoder.feed(body) for part in chunk.hosted]
    decoder.close()
    assert [(part.kind, part.status) for part in shown] == [("web_search", "in_progress"), ("web_search", "completed")]
    assert decoder.reply.hosted == (
        HostedPart("web_search", "both", "server", "ws", status="completed", input=done["action"], raw=done),
    )
    assert decoder.reply.usage is not None
    assert decoder.reply.usage.tools == {"web_search": 1}


def test_counts_of_tools_add_up() -> None:
    """By their kind."""
    total = Usage(tools={"web_search": 1}) + Usage(tools={"web_search": 2, "web_fetch": 1})
    assert total.tools == {"web_search": 3, "web_fetch": 1}


def test_a_custom_call_is_text() -> None:
    """Its arguments are its input, and no JSON is asked of it."""
    call = ToolCall("c", "sql", {"input": "{"}, "{", kind="custom")
    assert call.error is None


def test_the_model_that_answered_is_named() -> None:
    """A server may let another model go on, in the middle of an answer."""
    block = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-sonnet-5"}}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg", "model": "claude-fable-5", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    decoder = StreamDecoder("anthropic")
    decoder.feed("".join(f"data: {json.dumps(event)}\n\n" for event in said).encode())
    decoder.close()
    assert decoder.reply.model == "claude-sonnet-5"
    assert [part.kind for part in decoder.reply.hosted] == ["fallback"]


def chat_piece(*entries: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": list(entries)} if entries else {}, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [choice]})}\n\n".encode()


FUNCTION = {"type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_custom_call_of_chat_completions(place: int, cut: int) -> None:
    """Its text comes in pieces; it stands where its number says, and goes back as it came."""
    functions = [{"index": at, "id": f"f{at}", **FUNCTION} for at in range(3) if at != place]
    first = {"index": place, "id": "x", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    body = chat_piece(*functions) + chat_piece(first) + chat_piece({"index": place, "custom": {"input": "ect 1"}})
    body += chat_piece(finish="tool_calls") + b"data: [DONE]\n\n"
    reader = StreamDecoder("chat")
    for at in range(0, len(body), cut):
        reader.feed(body[at : at + cut])
    reader.close()
    reply = reader.reply
    assert (reply.tool_calls[place], len(reply.tool_calls)) == (CUSTOM, 3)
    assert (reply.warnings, reply.extras, reply.finish_reason) == ([], {}, "tool_calls")
    request = Request("m", (Message("user", "Hi"), reply.message))
    sent = find_adapter("chat")().encode(request, EncodingReport())["messages"][1]["tool_calls"]
    assert sent[place] == {"id": "x", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}


CUSTOM = ToolCall("x", "sql", {"input": "select 1"}, "select 1", kind="custom")


def test_a_custom_call_of_chat_completions_that_is_cut() -> None:
    """It is not handed out, whatever of its text has come."""
    head = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    reader = StreamDecoder("chat")
    reader.feed(chat_piece(head) + chat_piece(finish="length") + b"data: [DONE]\n\n")
    reader.close()
    assert (reader.reply.tool_calls, [one.code for one in reader.reply.warnings]) == ([], ["calls_dropped"])


def test_a_custom_call_of_chat_completions_is_shown_as_it_is_written() -> None:
    """It is among the calls that the model is writing, and what comes behind its beginning knows so."""
    head = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    text = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    reader = StreamDecoder("chat", partial_tool_calls=True)
    chunks = reader.feed(chat_piece(head) + chat_piece({"index": 0, "custom": {"input": "ect 1"}}))
    assert reader.partial_tool_calls == (PartialToolCall("sql", "select 1", "custom"),)
    assert (reader.partial_tool_calls[0].value, reader.calls_begun) == ({"input": "select 1"}, 1)
    grown = [one.details.call for one in chunks if one.details and one.details.call]
    assert [(call.number, call.tool, call.text) for call in grown] == [(0, "sql", "sel"), (0, "sql", "ect 1")]
    [behind] = reader.feed(f"data: {json.dumps(text)}\n\n".encode())
    assert (behind.delta, behind.preceding_calls) == ("Hi", 1)
    reader.feed(chat_piece(finish="tool_calls") + b"data: [DONE]\n\n")
    reader.close()
    assert (reader.partial_tool_calls, reader.reply.tool_calls) == ((), [CUSTOM])


def test_a_custom_call_without_an_end_is_not_run() -> None:
    """Free text never shows that it is complete, so that a finish reason has to say it."""
    head = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "sql", "input": "{}"}}
    reader = StreamDecoder("chat")
    reader.feed(chat_piece(head) + b"data: [DONE]\n\n")
    reader.close()
    codes = [one.code for one in reader.reply.warnings]
    assert (reader.reply.tool_calls, codes) == ([], ["missing_finish_reason", "calls_dropped"])


def test_a_custom_call_of_responses_is_shown_as_it_is_written() -> None:
    """So is one that comes as an item, until the answer has ended."""
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "x", "name": "sql", "input": ""}
    said = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ct", "delta": piece}
          for piece in ("sel", "ect 1")),
    ]  # fmt: skip
    reader = StreamDecoder("responses")
    reader.feed("".join(f"data: {json.dumps(event)}\n\n" for event in said).encode())
    assert reader.partial_tool_calls == (PartialToolCall("sql", "select 1", "custom"),)
    done = {**item, "input": "select 1", "status": "completed"}
    reader.feed(b"\n\n".join(events(done).split(b"\n\n")[2:]))  # the item as it is done, and the end
    reader.close()
    assert (reader.partial_tool_calls, [call.raw_arguments for call in reader.reply.tool_calls]) == ((), ["select 1"])
