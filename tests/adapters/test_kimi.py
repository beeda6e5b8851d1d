"""Kimi's own rules for requests: what is written, what is changed and said, and what is refused before it is sent."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

import corpus
from folding import DONE, chunk, entry, fold
from streamfold import ConfigError, NamedTool, Tool, ToolCall, assistant, tool_result, user
from streamfold.adapters import EncodingReport
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.config.file import read_profile
from streamfold.engine import ToolNameMap
from streamfold.requests.request import Request
from tables import each_row

WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
CLOCK = Tool("get_time", "The time.")
ENGINE = KimiQuirks("max_tokens", hosted=False)
HISTORIES = corpus.cases("vectors/kimi-history.json")


def encode(
    messages: Any = "Hello",
    tools: Any = None,
    tool_choice: Any = "auto",
    *,
    model: str = "kimi-k2.6",
    quirks: KimiQuirks | None = None,
    **options: Any,
) -> tuple[dict[str, Any], list[str]]:
    """The body of a request without what is the same in each, and the codes of the warnings."""
    adapter = adapter_for(model, quirks)
    request, warnings = adapter.rewrite(Request.read(model, messages, tools, tool_choice, options))
    report = EncodingReport()
    body = adapter.encode(request, report)
    warnings += report.warnings()
    assert (body.pop("model"), body.pop("stream"), body.pop("stream_options")) == (model, True, {"include_usage": True})
    if messages == "Hello":
        assert body.pop("messages") == [{"role": "user", "content": "Hello"}]
    return body, [warning.code for warning in warnings]


def adapter_for(model: str, quirks: KimiQuirks | None = None) -> KimiAdapter:
    """The adapter as a provider uses it for a model."""
    own = asdict(quirks) if quirks else {}
    changed = {name: value for name, value in own.items() if value != getattr(KimiQuirks(), name)}
    adapter = read_profile({"adapter": "kimi", "base_url": "http://test/v1", "quirks": changed}).make_adapter(model)
    assert isinstance(adapter, KimiAdapter)
    return adapter


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


@pytest.mark.parametrize("temperature", [-0.1, 1.1])
def test_temperature_has_another_range(temperature: float) -> None:
    """One outside of it is sent as the nearest one in it."""
    model, options = "kimi-k2-0905-preview", {"temperature": temperature}
    ready = adapter_for(model).prepare(Request.read(model, "Hello", None, "auto", options))
    assert json.loads(ready.body)["temperature"] == float(temperature > 0)
    assert [warning.code for warning in ready.warnings] == ["option_changed"]


@pytest.mark.parametrize("choice", ["required", NamedTool("get_weather")])
def test_forced_choice_while_thinking_is_dropped_and_said(choice: Any) -> None:
    """The hosted API refuses a forced choice while the model thinks: auto is sent."""
    body, warnings = encode(tools=[WEATHER, CLOCK], tool_choice=choice)
    assert (body["tool_choice"], warnings) == ("auto", ["forced_choice_dropped"])
    assert "thinking" not in body


def test_forced_choice_by_disabling_thinking() -> None:
    """With the caller's leave, thinking is switched off for the one request, and the force is sent."""
    body, warnings = encode(tools=[WEATHER], tool_choice="required", disable_thinking_for_forced_tools=True)
    assert (body["tool_choice"], body["thinking"], warnings) == ("required", {"type": "disabled"}, [])
    body, warnings = encode(
        tools=[WEATHER], tool_choice="required", disable_thinking_for_forced_tools=True, model="kimi-k2.7-code"
    )
    assert (body["tool_choice"], warnings) == ("auto", ["forced_choice_dropped"])


@pytest.mark.parametrize(
    "options",
    [{"reasoning_effort": "none"}, {"extra_body": {"thinking": {"type": "disabled"}}}],
    ids=["option", "body"],
)
def test_forced_choice_without_thinking(options: dict[str, Any]) -> None:
    """With thinking off both forced choices work."""
    body, warnings = encode(tools=[WEATHER], tool_choice=NamedTool("get_weather"), **options)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert (body["thinking"], warnings) == ({"type": "disabled"}, [])


def test_k3_takes_required_and_no_name() -> None:
    """A named choice becomes `required` with only that tool."""
    body, warnings = encode(tools=[WEATHER, CLOCK], tool_choice=NamedTool("get_time"), model="kimi-k3")
    assert (body["tool_choice"], names(body), warnings) == ("required", ["get_time"], ["tool_choice_changed"])
    body, warnings = encode(tools=[WEATHER, CLOCK], tool_choice="required", model="kimi-k3")
    assert (body["tool_choice"], names(body), warnings) == ("required", ["get_weather", "get_time"], [])


@each_row(
    ("model", "quirks", "effort", "written"),
    [
        ("kimi-k2.6", None, "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k2.6", None, "high", {"thinking": {"type": "enabled"}}),
        ("kimi-k3", None, "low", {"reasoning_effort": "low"}),
        ("kimi-k2-thinking", None, "high", {"thinking": {"type": "enabled"}}),
        ("moonshotai/Kimi-K2.5", ENGINE, "none", {"chat_template_kwargs": {"thinking": False}}),
        ("moonshotai/Kimi-K2.5", ENGINE, "high", {"chat_template_kwargs": {"thinking": True}}),
    ],
)
def test_thinking_switch(model: str, quirks: KimiQuirks | None, effort: str, written: dict[str, Any]) -> None:
    """One option, written as the model and the endpoint take it; never two knobs at once."""
    changed = [] if effort == "none" or model == "kimi-k3" else ["option_changed"]  # a switch knows no grades
    assert encode(model=model, quirks=quirks, reasoning_effort=effort) == (written, changed)


def test_tools_of_extra_body_are_added() -> None:
    """Tools in `extra_body` are sent behind the request's own tools."""
    raw = {"type": "builtin_function", "function": {"name": "$web_search"}}
    body, warnings = encode(tools=[CLOCK], extra_body={"tools": [raw]})
    assert (names(body), warnings) == (["get_time", "$web_search"], [])


def test_effort_does_not_drop_the_switch_for_earlier_reasoning() -> None:
    """If the server has to use the reasoning of earlier turns, the thinking switch says so, too."""
    adapter = adapter_for("kimi-k2.6")
    history = [user("Hi"), assistant("Hello", reasoning="Hm."), user("Bye")]
    request, _ = adapter.rewrite(Request.read("kimi-k2.6", history, None, "auto", {"reasoning_effort": "high"}))
    request = replace(request, family=replace(request.family, reasoning_back="all"))
    assert adapter.encode(request, EncodingReport())["thinking"] == {"type": "enabled", "keep": "all"}


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("kimi-k2.7-code", "none", ({}, ["option_dropped"])),
        ("kimi-k3", "none", ({"reasoning_effort": "low"}, ["option_changed"])),
        ("kimi-k2-0905-preview", "high", ({}, ["option_dropped"])),
    ],
)
def test_thinking_that_can_not_be_had(model: str, effort: str, sent: Any) -> None:
    assert encode(model=model, reasoning_effort=effort) == sent


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([Tool(f"tool_{n}") for n in range(129)], "at most 128 tools, not 129"),
        ([Tool("pick", parameters={"type": "string"})], 'root has "type": "object"'),
    ],
    ids=["many", "schema"],
)
def test_tools_that_would_be_refused(tools: list[Tool], message: str) -> None:
    """What the hosted API answers with a 400 is said before anything is sent; an engine has no such rules."""
    with pytest.raises(ConfigError, match=message):
        encode(tools=tools)
    assert "tools" in encode(tools=tools, quirks=ENGINE)[0]


@each_row(
    ("name", "sent"),
    [
        ("go", "tool_go"),
        ("-tool", "tool_-tool"),
        ("get weather", "get_weather"),
        ("1st_tool", "tool_1st_tool"),
        ("a.b.c", "a_b_c"),
        ("x" * 65, "x" * 50 + "_9537c5fd"),
        ("天气", "tool___"),
    ],
)
def test_h6_names_that_would_be_refused(name: str, sent: str) -> None:
    """They are sent under names that the hosted API takes, and the calls come back under their own."""
    request, warnings = adapter_for("kimi-k2").rewrite(
        Request.read("kimi-k2", [user("x"), assistant(tool_calls=[ToolCall("i", name, {}, "")]), tool_result(
            ToolCall("i", name, {}, ""), "y")], [Tool(name), CLOCK], NamedTool(name), {})
    )  # fmt: skip
    report = EncodingReport()
    body = adapter_for("kimi-k2").encode(request, report)
    assert (names(body), body["tool_choice"]["function"]["name"]) == ([sent, "get_time"], sent)
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == sent
    assert body["messages"][1]["tool_calls"][0]["id"] == f"functions.{sent}:0"
    assert [warning.code for warning in (*warnings, *report.warnings())] == ["tool_renamed", "ids_renumbered"]
    stream = chunk({"tool_calls": [entry(0, "i", sent, "{}"), entry(1, "j", "get_time", "{}")]}) + chunk({}, "stop")
    reply = fold(stream + DONE, tools=request.tools, tool_choice=request.tool_choice, names=ToolNameMap(request.names))
    assert ([call.name for call in reply.tool_calls], reply.warnings) == ([name, "get_time"], [])


def test_partial_mode() -> None:
    """The model continues the last message; other providers refuse such a message."""
    messages = [user("A limerick."), assistant("There once was", partial=True)]
    body, _ = encode(messages)
    assert body["messages"][1] == {"role": "assistant", "content": "There once was", "partial": True}
    with pytest.raises(ConfigError, match="json"):
        encode(messages, response_format="json")


CALL = ToolCall("call_x", "get_time", {}, "")


def test_assistant_turns() -> None:
    """No empty content beside calls; reasoning goes back, and `""` is not the same as none."""
    messages = [
        user("Time?"),
        assistant("", tool_calls=[CALL], reasoning=""),
        tool_result(CALL, "noon"),
    ]
    body, _ = encode(messages)
    assert body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "",
        "tool_calls": [
            {"id": "functions.get_time:0", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
        ],
    }
    assert body["messages"][2]["tool_call_id"] == "functions.get_time:0"


@each_row("history", HISTORIES, ids=corpus.label)
def test_histories_of_the_corpus(history: dict[str, Any]) -> None:
    """Ids are renumbered in the model's own style, on a copy."""
    before = json.dumps(history["messages"])
    body, _ = encode(history["messages"], quirks=ENGINE)
    assert body["messages"] == history["expect_messages"]
    assert json.dumps(history["messages"]) == before


def test_response_format_without_its_schema_declaration() -> None:
    """`$schema` at the top is refused."""
    wanted = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    body, _ = encode(response_format=wanted)
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_stop_strings() -> None:
    assert encode(stop=["END"])[0] == {"stop": ["END"]}
    assert encode(stop=list("abcdef")) == ({"stop": list("abcde")}, ["option_emulated"])
    assert encode(stop=["é" * 17]) == ({}, ["option_emulated"])
