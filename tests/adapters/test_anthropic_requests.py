"""Requests of the Messages API, compared as JSON with what is written here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from streamfold import (
    AllowedTools,
    ConfigError,
    Message,
    NamedTool,
    Provider,
    Tool,
    ToolCall,
    assistant,
    audio,
    file,
    image,
    system,
    tool_result,
    user,
)
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
A = ToolCall("toolu_a", "get_weather", {"city": "Paris"}, '{"city":"Paris"}')
B = ToolCall("toolu_b", "get_time", {}, "")
WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
TIME = Tool("get_time", "The time.")


def sent(messages: Any, tools: Any = None, *, quirks: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """The body of a request."""
    return json.loads(preview(messages, tools, quirks=quirks, **options).body)  # type: ignore[no-any-return]


def preview(messages: Any, tools: Any = None, *, quirks: dict[str, Any] | None = None, **options: Any) -> Any:
    provider = Provider.from_config(
        {"adapter": "anthropic", "base_url": "http://127.0.0.1/v1", "model": "m", "quirks": quirks or {}}
    )
    return provider.preview(messages, tools, **options)


def codes(messages: Any, tools: Any = None, **options: Any) -> list[str]:
    return [warning.code for warning in preview(messages, tools, **options).warnings]


def test_the_smallest_request() -> None:
    """`max_tokens` is required; text is a block; the answer is streamed."""
    assert sent("Hi") == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
    }
    found = preview("Hi")
    assert found.url == "http://127.0.0.1/v1/messages"
    assert found.headers["anthropic-version"] == "2023-06-01"


def test_system_messages_at_the_beginning_go_to_the_top() -> None:
    """One text block for each, in their order; an empty one is left out."""
    body = sent([system("One."), Message("developer", "Two."), user("Hi")])
    assert body["system"] == [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert [turn["role"] for turn in body["messages"]] == ["user"]


def test_a_late_system_message_keeps_its_place() -> None:
    """Where the model takes none there, it is text of the user, with a warning; it is never moved to the front."""
    talk = [user("Hi"), assistant("Hello."), system("Be brief."), user("Go on.")]
    body = sent(talk)
    assert "system" not in body
    assert body["messages"][2]["content"] == [{"type": "text", "text": text} for text in ("Be brief.", "Go on.")]
    assert codes(talk) == ["history_mismatch"]
    assert codes(talk, quirks={"inline_system": True}) == ["history_mismatch"]  # it would have to stand behind the user


@pytest.mark.parametrize("after", [[], [assistant("Hello."), user("Go on.")]])
def test_a_late_system_message_behind_the_user(after: list[Message]) -> None:
    """Newer models take it at its place, where nothing or the assistant follows."""
    talk = [user("Hi"), system("Be brief."), Message("developer", "Be kind."), *after]
    body = sent(talk, quirks={"inline_system": True})
    assert body["messages"][1:3] == [
        {"role": "system", "content": [{"type": "text", "text": text}]} for text in ("Be brief.", "Be kind.")
    ]
    assert codes(talk, quirks={"inline_system": True}) == []
    assert codes(talk) == ["history_mismatch"]


def test_results_that_failed_or_show_images() -> None:
    """An error has a flag, an image its block; an empty result has no content at all."""
    talk = [user("Hi"), assistant(tool_calls=[A, B]), tool_result(A, "no such city", error=True), tool_result(B, "")]
    results = sent(talk, [WEATHER, TIME])["messages"][2]["content"]
    assert results[0] == {"type": "tool_result", "tool_use_id": "toolu_a", "is_error": True, "content": "no such city"}
    assert results[1] == {"type": "tool_result", "tool_use_id": "toolu_b"}
    shown = sent([user("Hi"), assistant(tool_calls=[A]), tool_result(A, ["Here:", image(PNG)])], [WEATHER])
    blocks = shown["messages"][2]["content"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image"]
    assert blocks[1]["source"]["media_type"] == "image/png"


def test_media() -> None:
    """Images and documents by bytes, URL or id; audio has no place."""
    files = file(b"%PDF-1.4 x", name="a.pdf"), file(b"plain", media_type="text/plain")
    url, pdf, text = sent([user(image("https://x.test/a.png"), *files)])["messages"][0]["content"]
    assert url == {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
    assert (pdf["source"]["media_type"], pdf["title"]) == ("application/pdf", "a.pdf")
    assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "plain"}
    with pytest.raises(
        ConfigError, match=r"messages\[0\]\.content\[0\] is audio, which the Messages API doesn't support"
    ):
        sent([user(audio(b"RIFF....WAVEfmt "))])


@each_row(
    ("choice", "wanted"),
    [
        ("auto", None),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        (NamedTool("get_time"), {"type": "tool", "name": "get_time"}),
    ],
)
def test_tool_choice(choice: Any, wanted: Any) -> None:
    """Each choice in its form; `none` keeps the tools, because a history with calls needs them."""
    body = sent("Hi", [WEATHER, TIME], tool_choice=choice)
    assert body.get("tool_choice") == wanted
    assert body["tools"][0] == {
        "name": "get_weather",
        "description": "The weather.",
        "input_schema": WEATHER.parameters,
    }


def test_one_call_at_a_time() -> None:
    """It is part of the choice, which is then written out."""
    body = sent("Hi", [TIME], parallel_tool_calls=False)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in sent("Hi", [TIME], parallel_tool_calls=True)


def test_a_choice_among_some_tools() -> None:
    """The others are left out, with a warning."""
    body = sent("Hi", [WEATHER, TIME], tool_choice=AllowedTools(("get_time",), "required"))
    assert [tool["name"] for tool in body["tools"]] == ["get_time"]
    assert body["tool_choice"] == {"type": "any"}
    assert codes("Hi", [WEATHER, TIME], tool_choice=AllowedTools(("get_time",))) == ["tool_choice_changed"]


def test_arguments_that_are_no_object() -> None:
    """They are wrapped; the result behind them says what was wrong."""
    call = ToolCall("toolu_a", "get_time", {"_raw": '{"x', "_error": "invalid_json"}, '{"x')
    talk = [user("Hi"), assistant(tool_calls=[call]), tool_result(call, "not JSON", error=True)]
    assert sent(talk, [TIME])["messages"][1]["content"][0]["input"] == {"_raw": '{"x'}


def test_a_text_that_is_continued() -> None:
    """A text that the model continues has no space at its end."""
    turns = sent([user("Hi"), assistant("Hel ")], quirks={"prefill": True})["messages"]
    assert turns[1]["content"] == [{"type": "text", "text": "Hel"}]


def test_the_ends_of_a_history_are_repaired() -> None:
    """A message of the user is added before an assistant that begins, and behind one that ends."""
    made = preview([assistant("Hello."), user("Hi"), assistant("Hel")])
    assert [(turn["role"], turn["content"][0]["text"]) for turn in json.loads(made.body)["messages"]] == [
        ("user", "Continue."), ("assistant", "Hello."), ("user", "Hi"), ("assistant", "Hel"), ("user", "Continue."),
    ]  # fmt: skip
    assert [warning.code for warning in made.warnings] == ["history_repaired", "history_repaired"]
    assert len(sent([user("Hi"), assistant("Hel")], quirks={"prefill": True})["messages"]) == 2


def strict_tool(name: str, optional: int = 0, unions: int = 0) -> Tool:
    members: dict[str, Any] = {f"o{at}": {"type": "string"} for at in range(optional)}
    members |= {f"u{at}": {"type": ["string", "null"]} for at in range(unions)}
    needed = [member for member in members if member.startswith("u")]
    return Tool(name, "", {"type": "object", "properties": members, "required": needed}, True)


@each_row(
    ("tools", "loose"),
    [
        ([strict_tool(f"t{at}") for at in range(22)], ["t20", "t21"]),
        ([strict_tool("a", optional=20), strict_tool("b", optional=5), strict_tool("c", optional=4)], ["b"]),
        ([strict_tool("a", unions=16), strict_tool("b", unions=1), strict_tool("c")], ["b"]),
        ([strict_tool("a", optional=24, unions=16)], []),
    ],
)
def test_an24_strict_tools(tools: list[Tool], loose: list[str]) -> None:
    """Strict schemas are closed; tools beyond what the API takes of them are sent without, with one warning."""
    body, warned = sent("Hi", tools), codes("Hi", tools)
    assert [tool["name"] for tool in body["tools"] if "strict" not in tool] == loose
    assert all(tool["input_schema"]["additionalProperties"] is False for tool in body["tools"] if "strict" in tool)
    closed = ["schema_changed"] * (len(tools) - len(loose))
    assert warned == [*closed, *(["option_dropped"] if loose else [])]


def test_a_text_that_can_not_be_continued() -> None:
    """The API refuses to continue a text in a form, or while it thinks, when the user is asked to go on."""
    form = {"type": "object", "properties": {}}
    with pytest.raises(ConfigError, match="can't be continued"):
        sent([user("Hi"), assistant("Hel")], quirks={"prefill": True}, response_format=form)
    turns = sent([user("Hi"), assistant("Hel")], quirks={"prefill": True}, reasoning_effort="high")["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]


# --- thinking ---------------------------------------------------------------------------------------------------------


@each_row(
    ("effort", "quirks", "wanted", "warned"),
    [
        ("high", {}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, []),
        ("xhigh", {}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, ["option_changed"]),
        ("minimal", {}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, ["option_changed"]),
        ("low", {"efforts": ()}, {"thinking": {"type": "adaptive"}}, ["option_changed"]),
        ("none", {}, {"thinking": {"type": "disabled"}}, []),
        ("medium", {"thinking": "manual", "max_tokens": 64000},
         {"thinking": {"type": "enabled", "budget_tokens": 8192}}, []),
        ("high", {"thinking": "manual"}, {"thinking": {"type": "enabled", "budget_tokens": 4095}}, []),
        ("none", {"thinking": "always"},
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, ["option_changed"]),
        ("high", {"thinking": "never"}, {}, ["option_dropped"]),
    ],
)  # fmt: skip
def test_effort(effort: Any, quirks: dict[str, Any], wanted: dict[str, Any], warned: list[str]) -> None:
    """Each kind of model is told in its own way; what it does not know is changed with a warning."""
    body = sent("Hi", quirks=quirks, reasoning_effort=effort)
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == wanted
    assert codes("Hi", quirks=quirks, reasoning_effort=effort) == warned


def test_no_room_for_thinking() -> None:
    """A budget must be below the limit of the answer: manual thinking is off where that leaves too little."""
    asked: dict[str, Any] = {"quirks": {"thinking": "manual"}, "reasoning_effort": "low", "max_output_tokens": 1024}
    assert sent("Hi", **asked)["thinking"] == {"type": "disabled"}
    assert codes("Hi", **asked) == ["option_changed"]
    assert sent("Hi", **{**asked, "max_output_tokens": 1025})["thinking"]["budget_tokens"] == 1024


def test_forced_choice_and_manual_thinking() -> None:
    """They do not go together: the force is dropped, or thinking is, if the caller allows it."""
    given: dict[str, Any] = {"quirks": {"thinking": "manual"}, "reasoning_effort": "high", "tool_choice": "required"}
    assert "tool_choice" not in sent("Hi", [TIME], **given)
    assert codes("Hi", [TIME], **given) == ["forced_choice_dropped"]
    body = sent("Hi", [TIME], disable_thinking_for_forced_tools=True, **given)
    assert (body["thinking"], body["tool_choice"]) == ({"type": "disabled"}, {"type": "any"})


def test_sampling() -> None:
    """It goes with neither manual thinking nor the newest version of the API."""
    assert sent("Hi", temperature=0.5, top_p=0.9)["temperature"] == 0.5
    assert codes("Hi", temperature=0.5, quirks={"version": "2026-10-21"}) == ["option_dropped"]
    given: dict[str, Any] = {"quirks": {"thinking": "manual"}, "reasoning_effort": "low", "temperature": 0.5}
    assert "temperature" not in sent("Hi", **given)


# --- the rest ---------------------------------------------------------------------------------------------------------


class Person(BaseModel):
    name: str
    age: int | None = None


def test_structured_output() -> None:
    """A schema is `output_config.format`, with every object closed; the effort stays beside it."""
    body = sent("Hi", response_format=Person, reasoning_effort="low")
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["output_config"]["format"]["schema"]["additionalProperties"] is False
    body = sent("Hi", response_format="json")
    assert ("JSON" in body["system"][0]["text"], "output_config" in body) == (True, False)


def test_options_without_a_place() -> None:
    """They are left out or emulated."""
    assert "seed" not in sent("Hi", seed=1)
    assert sent("Hi", stop=["a", " "])["stop_sequences"] == ["a"]
    assert sent("Hi", extra_body={"top_k": 5, "output_config": {"effort": "max"}})["output_config"] == {"effort": "max"}


def test_betas() -> None:
    """Words for the header come from the configuration, each once."""
    assert preview("Hi", quirks={"betas": ["a", "b", "a"]}).headers["anthropic-beta"] == "a,b"
