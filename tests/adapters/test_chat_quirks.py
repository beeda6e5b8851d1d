"""What a quirk of the chat API changes in a request, each beside the request without it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import AllowedTools, Message, NamedTool, Provider, Tool, ToolCall, assistant, tool_result
from streamfold import user as user_says
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.recording import ReplayTransport
from streamfold.requests import Family
from streamfold.requests.request import Request
from tables import each_row

FIXTURES = Path(__file__).parents[2] / "fixtures"
WEATHER, CLOCK = Tool("get_weather"), Tool("get_time")


def sent(
    quirks: ChatQuirks, messages: Any = "x", tools: Any = None, choice: Any = "auto", **options: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The body, without what is always the same, and the warnings."""
    adapter = ChatAdapter(quirks)
    ready = adapter.prepare(Request.read("m", messages, tools, choice, options))
    body = json.loads(ready.body)
    for name in ("model", "stream", "stream_options"):
        body.pop(name, None)
    if isinstance(messages, str):
        del body["messages"]
    return body, [(warning.code, warning.detail) for warning in ready.warnings]


# --- reasoning effort ------------------------------------------------------------------------------------------------


@each_row(
    ("quirks", "effort", "members"),
    [
        (ChatQuirks(), "low", {"reasoning_effort": "low"}),
        (ChatQuirks(), "none", {"reasoning_effort": "none"}),
        (
            ChatQuirks(thinking_switch="thinking"),
            "high",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ),
        (ChatQuirks(thinking_switch="thinking"), "none", {"thinking": {"type": "disabled"}}),
        (ChatQuirks(thinking_switch="thinking", effort_grades=False), "none", {"thinking": {"type": "disabled"}}),
        (ChatQuirks(thinking_switch="enable_thinking", effort_grades=False), "none", {"enable_thinking": False}),
        (
            ChatQuirks(thinking_switch="reasoning"),
            "low",
            {"reasoning": {"enabled": True}, "reasoning_effort": "low"},
        ),
    ],
)
def test_effort(quirks: ChatQuirks, effort: str, members: dict[str, Any]) -> None:
    """One vocabulary becomes the members that the server has for it; nothing is sent unasked."""
    assert sent(quirks, reasoning_effort=effort) == (members, [])
    assert sent(quirks) == ({}, [])


@pytest.mark.parametrize(
    ("switch", "members", "instead"),
    [
        ("enable_thinking", {"enable_thinking": True}, "thinking was turned on for reasoning_effort='low'"),
        (None, {}, "reasoning_effort='low' was not sent"),
    ],
)
def test_effort_without_grades(switch: Any, members: dict[str, Any], instead: str) -> None:
    """A grade that can't be said is told; a switch is turned on even so."""
    detail = f"m doesn't support effort levels: {instead}"
    quirks = ChatQuirks(thinking_switch=switch, effort_grades=False)
    code = "option_changed" if switch else "option_dropped"
    assert sent(quirks, reasoning_effort="low") == (members, [(code, detail)])


def test_extra_body_wins_over_the_switch() -> None:
    quirks = ChatQuirks(thinking_switch="thinking")
    body, _ = sent(quirks, reasoning_effort="none", extra_body={"thinking": {"type": "enabled", "keep": "all"}})
    assert body == {"thinking": {"type": "enabled", "keep": "all"}}


@pytest.mark.asyncio
async def test_reasoning_that_is_required() -> None:
    """A turn with calls has at least an empty one, a dict too; that it is lost is told while the model thinks."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        user_says("x"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "y"},
        assistant(tool_calls=[ToolCall("b", "f", {}, "{}")], reasoning="Hm."),
        tool_result(ToolCall("b", "f", {}, "{}"), "z"),
        assistant("Done.", reasoning="Well."),
        user_says("Thanks."),
    ]
    for effort, codes in (("high", ["lost_reasoning"]), ("none", [])):
        transport = ReplayTransport(FIXTURES / "demo/reasoning_text")
        async with httpx.AsyncClient(transport=transport) as client:
            provider = Provider.from_config("deepseek:deepseek-v4-pro", api_key="k-1", http_client=client)
            reply = await provider.chat(history, reasoning_effort=effort)
        sent_back = httpx.Response(200, content=transport.requests[0].content).json()["messages"]
        assert [message.get("reasoning_content") for message in sent_back] == [
            None,
            "",
            None,
            "Hm.",
            None,
            "Well.",
            None,
        ]
        assert [warning.code for warning in reply.warnings] == codes
    assert "reasoning_content" not in history[1]


# --- tool choice -----------------------------------------------------------------------------------------------------

CHOICES = ["required", NamedTool("get_weather"), AllowedTools(("get_weather",), "required")]
NOT_THINKING = ChatQuirks(forced_while_thinking=False, thinking_switch="thinking")


@pytest.mark.parametrize("choice", CHOICES, ids=["required", "named", "allowed"])
def test_no_forced_choice_while_thinking(choice: Any) -> None:
    """It is dropped, and said; it is sent where the request turns thinking off, and thinking off where it may be."""
    body, warnings = sent(NOT_THINKING, tools=[WEATHER], choice=choice)
    assert (body["tool_choice"], [code for code, _ in warnings]) == ("auto", ["forced_choice_dropped"])
    assert warnings[0][1] == (
        "m doesn't accept a forced tool choice while thinking"
        " (reasoning_effort='none', or disable_thinking_for_forced_tools=True):"
        " tool_choice='auto' was sent"
    )
    forced = sent(ChatQuirks(), tools=[WEATHER], choice=choice)[0]["tool_choice"]
    for options in (
        {"reasoning_effort": "none"},
        {"disable_thinking_for_forced_tools": True},
        {"extra_body": {"thinking": {"type": "disabled"}}},
    ):
        body, warnings = sent(NOT_THINKING, tools=[WEATHER], choice=choice, **options)
        assert (body["thinking"], warnings, body["tool_choice"]) == ({"type": "disabled"}, [], forced)


def test_thinking_that_cannot_be_disabled() -> None:
    """A model that always thinks gets no forced choice, even if the caller allows that thinking is disabled."""
    options = {"disable_thinking_for_forced_tools": True}
    request = Request.read("m", "x", [WEATHER], "required", options)
    ready = ChatAdapter(NOT_THINKING).prepare(replace(request, family=Family(thinking="always")))
    body = json.loads(ready.body)
    assert (body["tool_choice"], "thinking" in body) == ("auto", False)
    assert [(warning.code, warning.detail) for warning in ready.warnings] == [
        (
            "forced_choice_dropped",
            "m doesn't accept a forced tool choice while thinking: tool_choice='auto' was sent",
        )
    ]


@each_row(
    ("extra_body", "choice"),
    [
        ({"enable_thinking": False}, "required"),
        ({"enable_thinking": True}, "auto"),
        ({"reasoning": {"enabled": False}}, "required"),
        ({"reasoning": {"enabled": True}}, "auto"),
        ({"thinking": {"type": "enabled"}}, "auto"),
    ],
)
def test_thinking_that_extra_body_turns_on_or_off(extra_body: dict[str, Any], choice: str) -> None:
    """The server's own members count, whatever the option says."""
    body, _ = sent(NOT_THINKING, tools=[WEATHER], choice="required", extra_body=extra_body)
    assert body["tool_choice"] == choice


def test_allowed_tools() -> None:
    """OpenAI's own choice among tools; for all others the other tools are left out."""
    choice = AllowedTools(("get_time",), "required")
    body, _ = sent(ChatQuirks(), tools=[WEATHER, CLOCK], choice=choice)
    assert ([tool["function"]["name"] for tool in body["tools"]], body["tool_choice"]) == (["get_time"], "required")
    body, _ = sent(ChatQuirks(allowed_tools=True), tools=[WEATHER, CLOCK], choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather", "get_time"]
    assert body["tool_choice"]["type"] == "allowed_tools"


# --- small differences -----------------------------------------------------------------------------------------------


def test_the_seeds_name() -> None:
    assert sent(ChatQuirks(seed_field="random_seed"), seed=7) == ({"random_seed": 7}, [])


def test_reasoning_split() -> None:
    assert sent(ChatQuirks(reasoning_split=True)) == ({"reasoning_split": True}, [])


def test_names_that_are_refused() -> None:
    """A participant's name is an error that says where it is; a tool's says nothing and is left out."""
    quirks, call = ChatQuirks(message_names=False), ToolCall("a", "f", {}, "{}")
    history = [
        user_says("x"),
        assistant(tool_calls=[call]),
        replace(tool_result(call, "y"), name="f"),
        {"role": "tool", "name": "f", "tool_call_id": "a", "content": "y"},
    ]
    body, _ = sent(quirks, history)
    assert not any("name" in message for message in body["messages"])
    for named in (Message("user", "x", name="ann"), {"role": "user", "content": "x", "name": "ann"}):
        assert "name" not in sent(quirks, [user_says("x"), named])[0]["messages"][1]
        assert sent(ChatQuirks(), [named])[0]["messages"][0]["name"] == "ann"


@pytest.mark.asyncio
async def test_the_developer() -> None:
    """A role that is not known is the system's, which says the same, and that is said."""
    history = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "x"}]
    for known, roles in ((True, ["developer", "user"]), (False, ["system", "user"])):
        transport = ReplayTransport(FIXTURES / "demo/reasoning_text")
        async with httpx.AsyncClient(transport=transport) as client:
            values = {"base_url": "http://test/v1", "model": "m", "quirks": {"developer_role": known}}
            provider = Provider.from_config(values, http_client=client)
            reply = await provider.chat(history)
        assert [warning.code for warning in reply.warnings] == ([] if known else ["history_repaired"])
        body = httpx.Response(200, content=transport.requests[0].content).json()
        assert [message["role"] for message in body["messages"]] == roles


def test_ids_of_nine_letters_and_digits() -> None:
    """Ids of another form are replaced, calls and results alike and the same in every request; fit ones stay."""
    calls = [ToolCall("functions.f:0", "f", {}, "{}"), ToolCall("abcDEF123", "f", {}, "{}")]
    history = [user_says("x"), assistant(tool_calls=calls), *(tool_result(call, "y") for call in calls)]
    quirks = ChatQuirks(call_ids="nine_alphanumeric")
    body, _ = sent(quirks, history)
    made = [call["id"] for call in body["messages"][1]["tool_calls"]]
    assert made == ["Be7H62uY3", "abcDEF123"]
    assert [message["tool_call_id"] for message in body["messages"][2:]] == made
    longer, _ = sent(quirks, [*history, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]}, {"role": "tool", "tool_call_id": "call_1", "content": "z"}])  # fmt: skip
    assert longer["messages"][:4] == body["messages"]
    assert longer["messages"][4]["tool_calls"][0]["id"] == longer["messages"][5]["tool_call_id"] != "call_1"
    assert [call.id for call in calls] == ["functions.f:0", "abcDEF123"]


def test_ids_where_the_text_of_mistrals_models_is_read() -> None:
    """With the dialect their chat template is the server's: it refuses other ids, on whichever server; a quirk wins."""
    call = ToolCall("call_1", "f", {}, "{}")
    history = [user_says("x"), assistant(tool_calls=[call]), tool_result(call, "y")]

    def ids(**settings: Any) -> tuple[str, list[str]]:
        provider = Provider.from_config("vllm", base_url="http://test/v1", model="m", **settings)
        shown = provider.preview(history)
        _, turn, result = json.loads(shown.body)["messages"]
        first = turn["tool_calls"][0]["id"]
        assert result["tool_call_id"] == first
        return first, [warning.code for warning in shown.warnings]

    made, codes = ids(dialect="think+mistral")
    assert re.fullmatch("[A-Za-z0-9]{9}", made)
    assert codes == ["ids_renumbered"]
    for settings in ({}, {"dialect": "hermes"}, {"dialect": "mistral", "quirks": {"call_ids": "any"}}):
        assert ids(**settings) == ("call_1", [])


# --- reasoning details -----------------------------------------------------------------------------------------------

DETAILS = [
    {
        "type": "reasoning.text",
        "text": "The user asks for Oslo.",
        "signature": "c2lnbmF0dXJl",
        "format": "anthropic-claude-v1",
        "index": 0,
    },
    {
        "type": "reasoning.encrypted",
        "data": "ZW5jcnlwdGVk",
        "id": "toolu_1",
        "format": "anthropic-claude-v1",
        "index": 1,
    },
]


async def next_request(quirks: dict[str, Any], other_url: str = "http://test/v1") -> dict[str, Any]:
    """The assistant's message of a second request, after an answer with signed reasoning and a call."""
    transport = ReplayTransport([FIXTURES / "openrouter_shape/reasoning_details", FIXTURES / "demo/reasoning_text"])
    async with httpx.AsyncClient(transport=transport) as client:
        config = {"base_url": "http://test/v1", "model": "m", "quirks": quirks}
        reply = await Provider.from_config(config, http_client=client).chat("Oslo?", tools=[WEATHER])
        kept = Message.from_json(reply.message.to_json())
        history = [user_says("Oslo?"), kept, tool_result(reply.tool_calls[0], "-3")]
        await Provider.from_config({**config, "base_url": other_url}, http_client=client).chat(history, tools=[WEATHER])
    body = httpx.Response(200, content=transport.requests[1].content).json()
    message: dict[str, Any] = body["messages"][1]
    assert message.pop("tool_calls")[0]["id"] == "toolu_1"
    return message


@pytest.mark.asyncio
async def test_reasoning_details_go_back_where_they_came_from() -> None:
    """Whole and in their order, as an answer that is not streamed has them; a saved history loses nothing."""
    quirks = {"reasoning_details": True, "reasoning_field": "reasoning"}
    bare = {"role": "assistant", "content": None}
    assert await next_request(quirks) == {**bare, "reasoning_details": DETAILS}
    assert await next_request(quirks, "http://other/v1") == bare
    assert await next_request({"reasoning_details": True}, "http://other/v1") == bare
    assert await next_request({}) == bare


@each_row(
    ("pieces", "joined"),
    [
        (
            [{"type": "reasoning.text", "text": "a", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}],
            [{"type": "reasoning.text", "text": "a", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}],
        ),
        (
            [
                {"type": "reasoning.summary", "summary": "a", "id": "rs_1"},
                {"type": "reasoning.summary", "summary": "b", "id": None},
                {"type": "reasoning.summary", "summary": "c", "id": "rs_2"},
            ],
            [
                {"type": "reasoning.summary", "summary": "ab", "id": "rs_1"},
                {"type": "reasoning.summary", "summary": "c", "id": "rs_2"},
            ],
        ),
        (
            [
                {"type": "reasoning.text", "text": "a", "signature": "s"},
                {"type": "reasoning.text", "text": "b", "signature": None},
            ],
            [
                {"type": "reasoning.text", "text": "a", "signature": "s"},
                {"type": "reasoning.text", "text": "b", "signature": None},
            ],
        ),
        (
            [{"type": "reasoning.encrypted", "data": "a", "index": 0}] * 2 + [{"type": "new", "x": 1}] * 2 + ["?"],
            [{"type": "reasoning.encrypted", "data": "a", "index": 0}] * 2 + [{"type": "new", "x": 1}] * 2 + ["?"],
        ),
    ],
    ids=["index", "id", "signed", "others"],
)
def test_pieces_of_reasoning_details(pieces: list[Any], joined: list[Any]) -> None:
    """Only pieces of one detail are joined: not across an index, an id or a signature, and nothing that is unknown."""
    message = Message("assistant", "x", extras={"reasoning_details": pieces})
    body, _ = sent(ChatQuirks(reasoning_details=True), [message, user_says("y")])
    assert body["messages"][0]["reasoning_details"] == joined
