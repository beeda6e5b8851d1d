"""Tools of the Responses API that a client runs and that are not functions: offered as functions, and given back."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror import check_response_events, emit, openai_response, payloads, serializer
from scale import examples
from streamfold import ConfigError, NamedTool
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter
from streamfold.deltas import Finish, TextDelta, ToolCallDelta
from streamfold.serving.responses import (
    BUILT_IN,
    ClientTool,
    FunctionRequest,
    parse_responses_as_functions,
    parse_responses_request,
)
from streamfold.serving.responses.tools_as_functions import OTHER_ITEMS
from tables import each_row

PATCH = '*** Begin Patch\n*** Update File: a.txt\n@@\n-"blue"\n+grün\n*** End Patch'
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}
RUN = {"type": "function", "name": "run", "strict": False, "parameters": {"type": "object", "properties": {}}}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Sub-agents.",
    "tools": [{**RUN, "name": "close", "description": "Closes one.", "defer_loading": True}, CUSTOM],
}


def parsed(*tools: Any, **members: Any) -> FunctionRequest:
    return parse_responses_as_functions({"model": "m", "input": "Hi", "tools": list(tools), **members})


def conversation(*items: Any, tools: Any = ()) -> list[dict[str, Any]]:
    """The messages that another provider gets, after the question."""
    asked = parsed(*tools, input=[{"role": "user", "content": "Hi"}, *items])
    messages: list[dict[str, Any]] = ChatAdapter().encode(asked.request, EncodingReport())["messages"]
    return messages[1:]


def answered(asked: FunctionRequest, name: str, arguments: str, **rest: Any) -> dict[str, Any]:
    """The one item of an answer that calls a function, after every check of its events."""
    call = ToolCallDelta(0, "c-1", name, arguments, True)
    body = emit("responses", [call, Finish("tool_calls", "tool_calls")], tools=asked.tools, **rest)
    openai_response(body)
    (item,) = check_response_events(body)["output"]
    return {key: value for key, value in item.items() if key not in ("id", "status")}


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_custom_tool_becomes_a_function_with_one_string() -> None:
    """Its grammar can't be enforced, so the description says it."""
    (tool,) = parsed(CUSTOM).request.tools
    assert (tool.name, tool.parameters["required"]) == ("apply_patch", ["input"])
    assert tool.parameters["properties"]["input"]["type"] == "string"
    assert tool.description.startswith("Edits files.\n\n")
    assert tool.description.endswith("It must match this lark grammar:\nstart: /.+/")


def test_a_namespace_is_flattened() -> None:
    """The first of its tools says what the namespace is for; members that only defer a tool are left out."""
    asked = parsed(RUN, AGENTS)
    assert [tool.name for tool in asked.request.tools] == ["run", "agents__close", "agents__apply_patch"]
    assert asked.request.tools[1].description == "Sub-agents.\n\nCloses one."
    assert asked.tools == {
        "agents__close": ClientTool("close", "function", "agents"),
        "agents__apply_patch": ClientTool("apply_patch", "custom", "agents"),
    }


def test_two_tools_never_share_a_name() -> None:
    """A plain function keeps its name, whatever else is called so."""
    inner = {"type": "namespace", "name": "a", "tools": [{**RUN, "name": "b"}]}
    asked = parsed(CUSTOM, inner, {**RUN, "name": "a__b"}, {**RUN, "name": "apply_patch"})
    assert [tool.name for tool in asked.request.tools] == ["apply_patch_2", "a__b_2", "a__b", "apply_patch"]
    assert asked.tools.keys() == {"apply_patch_2", "a__b_2"}


def test_the_namespace_of_functions_adds_nothing_to_a_name() -> None:
    """OpenAI's models have their plain functions there, and Codex declares it by name."""
    asked = parsed({"type": "namespace", "name": "functions", "tools": [RUN]})
    assert [tool.name for tool in asked.request.tools] == ["run"]
    assert answered(asked, "run", "{}") == {
        "type": "function_call", "call_id": "c-1", "name": "run", "namespace": "functions", "arguments": "{}",
    }  # fmt: skip


def test_tools_of_a_providers_servers_are_left_out() -> None:
    """They are named in one warning, and everything else is offered."""
    hosted: list[Any] = [{"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {"type": "web_search"}]
    hosted += [{"type": "tool_search"}, {"type": "shell", "environment": {"type": "container_auto"}}]
    asked = parsed(*hosted, RUN)
    assert [tool.name for tool in asked.request.tools] == ["run"]
    assert [(warning.code, warning.detail.partition(":")[0]) for warning in asked.warnings] == [
        ("tool_dropped", "web_search, mcp, tool_search, shell")
    ]


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "close", "namespace": "agents"}, "agents__close"),
        ({"type": "local_shell"}, "local_shell"),
    ],
)
def test_a_choice_of_such_a_tool(choice: dict[str, Any], name: str) -> None:
    """It names the function."""
    asked = parsed(CUSTOM, AGENTS, {"type": "local_shell"}, tool_choice=choice)
    assert asked.request.tool_choice == NamedTool(name)


def test_a_choice_among_tools() -> None:
    """Those that are not offered are left out of it."""
    tools = [{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}]
    asked = parsed(CUSTOM, RUN, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": tools})
    assert asked.request.tool_choice.names == ("apply_patch",)  # type: ignore[union-attr]


def test_a_choice_that_demands_a_tool_of_the_providers_servers() -> None:
    """It is refused: the answer would be another than the one that was demanded."""
    with pytest.raises(
        ConfigError, match=r"^tool_choice requires 'web_search', a hosted tool that this provider doesn't have"
    ):
        parsed(RUN, {"type": "web_search"}, tool_choice={"type": "web_search"})


@each_row(
    ("tool", "message"),
    [
        ({"type": "custom"}, "tools[1].name is missing"),
        ({"name": "f"}, "tools[1].type is missing"),
        ("f", "tools[1] must be an object, not a string"),
        ({"type": "namespace", "name": "n", "tools": [RUN, {"type": "function"}]}, "tools[1].tools[1].name is missing"),
        ({"type": "namespace", "tools": []}, "tools[1].name is missing"),
    ],
)
def test_a_mistake_in_a_tool(tool: Any, message: str) -> None:
    """The error begins with the path, whatever was flattened or left out before it."""
    with pytest.raises(ConfigError) as caught:
        parsed({"type": "web_search"}, tool)
    assert str(caught.value).startswith(message)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "client", "function", "custom", "namespace", "f"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "tools"]), inner),
    max_leaves=6,
)
KINDS = st.sampled_from(
    [*OTHER_ITEMS, *BUILT_IN, "function", "custom", "namespace", "web_search", "allowed_tools", "function_call"]
)
NAMES = ["name", "namespace", "tools", "input", "output", "arguments", "action", "call_id", "id", "execution"]
NAMES += ["environment", "description", "parameters", "format", "operation", "status", "caller"]
ENTRIES = st.builds(
    lambda kind, rest: {"type": kind, **rest}, KINDS | VALUES, st.dictionaries(st.sampled_from(NAMES), VALUES)
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(ENTRIES | VALUES, max_size=3), st.lists(ENTRIES | VALUES, max_size=3), ENTRIES | VALUES)
def test_any_tools_are_a_request_or_a_config_error(tools: list[Any], items: list[Any], choice: Any) -> None:
    """Whatever is sent, in either reading, the answer is a request or says what is wrong; nothing else is raised."""
    body = {"model": "m", "input": [{"role": "user", "content": "Hi"}, *items], "tools": tools, "tool_choice": choice}
    for parse in (parse_responses_request, parse_responses_as_functions):
        with suppress(ConfigError):
            parse(body)


# --- conversations ----------------------------------------------------------------------------------------------------

CALLS: list[tuple[Any, dict[str, Any], str, dict[str, Any]]] = [
    (
        CUSTOM,
        {"type": "custom_tool_call", "call_id": "c-1", "name": "apply_patch", "input": PATCH},
        "apply_patch",
        {"input": PATCH},
    ),
    (
        AGENTS,
        {"type": "custom_tool_call", "call_id": "c-1", "name": "apply_patch", "input": "x", "namespace": "agents"},
        "agents__apply_patch",
        {"input": "x"},
    ),
    (
        AGENTS,
        {"type": "function_call", "call_id": "c-1", "name": "close", "arguments": '{"id": 1}', "namespace": "agents"},
        "agents__close",
        {"id": 1},
    ),
    (
        {"type": "local_shell"},
        {"type": "local_shell_call", "call_id": "c-1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        "local_shell",
        {"command": ["ls"]},
    ),
    (
        {"type": "shell", "environment": {"type": "local"}},
        {
            "type": "shell_call",
            "call_id": "c-1",
            "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None},
        },
        "shell",
        {"commands": ["ls"], "timeout_ms": 5},
    ),
    (
        {"type": "apply_patch"},
        {
            "type": "apply_patch_call",
            "call_id": "c-1",
            "operation": {"type": "update_file", "path": "a", "diff": "+x"},
        },
        "apply_patch",
        {"type": "update_file", "path": "a", "diff": "+x"},
    ),
    (
        {"type": "tool_search", "execution": "client"},
        {"type": "tool_search_call", "call_id": "c-1", "arguments": {"query": "mail"}, "execution": "client"},
        "tool_search",
        {"query": "mail"},
    ),
]
IDS = ["custom", "custom_in_namespace", "namespace", "local_shell", "shell", "apply_patch", "tool_search"]


@each_row(("tool", "item", "name", "arguments"), CALLS, ids=IDS)
def test_a_call_is_given_back_as_it_was_declared(
    tool: Any, item: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    """The item has the form of the tool, and OpenAI's own reader takes every event of it."""
    asked = parsed(tool)
    assert name in [one.name for one in asked.request.tools]
    assert answered(asked, name, json.dumps(arguments)) == item


@each_row(("tool", "item", "name", "arguments"), CALLS, ids=IDS)
def test_a_call_of_an_earlier_turn(tool: Any, item: dict[str, Any], name: str, arguments: dict[str, Any]) -> None:
    """Another provider reads it as the call of the function, whether or not the tool is still declared."""
    for tools in ([tool], []):
        (turn,) = conversation({**item, "id": "i-1", "status": "completed"}, tools=tools)
        (call,) = turn["tool_calls"]
        assert (call["id"], call["function"]["name"]) == ("c-1", name)
        assert json.loads(call["function"]["arguments"]) == arguments


@each_row(
    ("result", "content"),
    [
        ({"type": "custom_tool_call_output", "call_id": "c-1", "output": "done", "name": "apply_patch"}, "done"),
        ({"type": "function_call_output", "call_id": "c-1", "output": "done", "namespace": "agents"}, "done"),
        ({"type": "local_shell_call_output", "id": "c-1", "output": "a.txt"}, "a.txt"),
        (
            {"type": "shell_call_output", "call_id": "c-1", "output": [{"stdout": "a", "outcome": {"type": "exit"}}]},
            '[{"stdout": "a", "outcome": {"type": "exit"}}]',
        ),
        ({"type": "apply_patch_call_output", "call_id": "c-1", "status": "completed"}, "completed"),
        (
            {"type": "apply_patch_call_output", "call_id": "c-1", "status": "failed", "output": "no such file"},
            "Error: no such file",
        ),
        ({"type": "tool_search_output", "call_id": "c-1", "tools": [RUN], "execution": "client"}, '{"found": ["run"]}'),
    ],
)
def test_a_result_of_an_earlier_turn(result: dict[str, Any], content: str) -> None:
    """Another provider reads it as the result of the call, as a text."""
    item = {"type": "custom_tool_call", "call_id": "c-1", "name": "apply_patch", "input": "x"}
    assert conversation(item, result)[1] == {"role": "tool", "tool_call_id": "c-1", "content": content}


def test_what_a_search_found_is_offered() -> None:
    """And so are the tools that an item of the conversation adds; one that was there already is not offered twice."""
    found = {"type": "tool_search_output", "call_id": "c-1", "tools": [RUN, AGENTS], "execution": "client"}
    search = {"type": "tool_search_call", "call_id": "c-1", "arguments": {}, "execution": "client"}
    added = {"type": "additional_tools", "role": "developer", "tools": [CUSTOM]}
    asked = parsed(RUN, input=[added, {"role": "user", "content": "Hi"}, search, found])
    names = ["run", "apply_patch", "agents__close", "agents__apply_patch"]
    assert [tool.name for tool in asked.request.tools] == names
    assert [message.role for message in asked.request.messages] == ["user", "assistant", "tool"]


def test_items_of_a_providers_servers_are_left_out() -> None:
    """The answers that they led to are still there."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]}
    asked = parsed(input=[{"role": "user", "content": "Hi"}, search, said])
    assert [message.content for message in asked.request.messages] == ["Hi", "Sunny."]
    assert [(warning.code, "web_search_call" in warning.detail) for warning in asked.warnings] == [
        ("provider_data_dropped", True)
    ]


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_custom_call_to_the_event() -> None:
    """It has the events that the API documents for it: the text, without the JSON round it."""
    body = emit(
        "responses",
        [ToolCallDelta(0, "c-1", "apply_patch", json.dumps({"input": "é\n"}), True), Finish("tool_calls", "")],
        tools=parsed(CUSTOM).tools,
    )
    at = {"item_id": "ctc_0_0", "output_index": 0}
    item = {
        "id": "ctc_0_0", "type": "custom_tool_call", "status": "completed", "call_id": "c-1", "name": "apply_patch",
        "input": "é\n",
    }  # fmt: skip
    assert payloads(body)[2:-1] == [
        {
            "type": "response.output_item.added", "sequence_number": 2, "output_index": 0,
            "item": {**item, "status": "in_progress", "input": ""},
        },
        {"type": "response.custom_tool_call_input.delta", "sequence_number": 3, **at, "delta": "é\n"},
        {"type": "response.custom_tool_call_input.done", "sequence_number": 4, **at, "input": "é\n"},
        {"type": "response.output_item.done", "sequence_number": 5, "output_index": 0, "item": item},
    ]  # fmt: skip


@settings(deadline=None, max_examples=examples(200))
@given(st.text(max_size=40), st.lists(st.integers(0, 60)), st.booleans())
def test_a_custom_call_that_comes_in_pieces(text: str, cuts: list[int], escaped: bool) -> None:
    """The text is written as it grows, whatever the cuts and the escapes, and its pieces are the whole."""
    text = text.encode("utf-8", "replace").decode()
    arguments = json.dumps({"input": text}, ensure_ascii=escaped)
    ends = sorted({min(cut, len(arguments)) for cut in cuts} | {0, len(arguments)})
    pieces = [ToolCallDelta(0, arguments=arguments[at:end]) for at, end in pairwise(ends)]
    deltas = [
        ToolCallDelta(0, "c-1", "apply_patch"),
        *pieces,
        ToolCallDelta(0, arguments=arguments, whole=True),
        Finish("tool_calls", ""),
    ]
    body = emit("responses", deltas, tools=parsed(CUSTOM).tools)
    assert check_response_events(body)["output"][0]["input"] == text
    assert "".join(event["delta"] for event in payloads(body) if event["type"].endswith(".delta")) == text


def test_a_patch_shows_while_it_is_written() -> None:
    """The first line is out before the last one has come."""
    made = serializer("responses", tools=parsed(CUSTOM).tools)
    begun = made.feed(ToolCallDelta(0, "c-1", "apply_patch", '{"input":"*** Begin Patch\\n*** Upd'))
    assert payloads(begun)[-1]["delta"] == "*** Begin Patch\n*** Upd"


@each_row(
    ("arguments", "text"),
    [
        ("*** Begin Patch", "*** Begin Patch"),
        ('"*** Begin Patch"', "*** Begin Patch"),
        ('{"input": "x", "why": "y"}', "x"),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": ["x"]}', '{"input": ["x"]}'),
        ("", ""),
        ("{}", ""),
    ],
)
def test_arguments_that_are_not_the_one_string(arguments: str, text: str) -> None:
    """A model that writes plain text is understood; anything else is the model's own text, for the tool to refuse."""
    assert answered(parsed(CUSTOM), "apply_patch", arguments)["input"] == text


@pytest.mark.parametrize("arguments", ["ls", "[]", '{"command": ["ls"'])
def test_a_built_in_tool_without_an_object(arguments: str) -> None:
    """No object is invented: it stays the call of a function, which the client refuses."""
    item = answered(parsed({"type": "local_shell"}), "local_shell", arguments)
    assert item == {"type": "function_call", "call_id": "c-1", "name": "local_shell", "arguments": arguments}


@pytest.mark.parametrize("tool", [CUSTOM, {"type": "local_shell"}])
def test_a_call_that_was_cut(tool: Any) -> None:
    """Nothing of it can be run: of a text not even the half, and of an object nothing is written."""
    asked = parsed(tool)
    name = asked.request.tools[0].name
    deltas = [TextDelta("Hi"), ToolCallDelta(0, "c-1", name, '{"input": "rm'), Finish("length", "length")]
    response = check_response_events(emit("responses", deltas, tools=asked.tools))
    assert response["status"] == "incomplete"
    assert all(item["status"] == "incomplete" and not item.get("input") for item in response["output"][1:])
    assert [item["type"] for item in response["output"][1:]] == (["custom_tool_call"] if tool is CUSTOM else [])


# --- the API's own providers ------------------------------------------------------------------------------------------


def test_a_request_for_a_provider_of_this_api() -> None:
    """Tools, choice and items are as the client sent them."""
    tools, choice = [RUN, CUSTOM, AGENTS, {"type": "web_search"}], {"type": "custom", "name": "apply_patch"}
    request = parse_responses_request({"model": "m", "input": "Hi", "tools": tools, "tool_choice": choice})
    assert request.options.extra_body == {"tools": tools, "tool_choice": choice}


def test_a_request_with_functions_alone() -> None:
    """Both readings are the same."""
    asked = parsed(RUN, tool_choice="required")
    assert (asked.tools, asked.warnings) == ({}, ())
    assert asked.request == parse_responses_request(
        {"model": "m", "input": "Hi", "tools": [RUN], "tool_choice": "required"}
    )
