"""Requests of the Interactions API, compared as JSON with what is written here."""

from __future__ import annotations

from typing import Any

import pytest

from interaction_streams import answer, call, delta, start, stop
from streamfold import (
    AllowedTools,
    CodeExecution,
    ConfigError,
    FileSearch,
    HostedMcpServer,
    HostedTool,
    Message,
    NamedTool,
    Provider,
    StreamDecoder,
    Tool,
    ToolCall,
    UrlContext,
    WebSearch,
    assistant,
    file,
    image,
    system,
    tool_result,
    user,
)
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
A = ToolCall("call_a", "get_weather", {"city": "Paris"}, '{"city":"Paris"}')
B = ToolCall("call_b", "get_weather", {"_raw": "{", "_error": "invalid_json"}, "{")
WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
FUNCTION = {
    "type": "function", "name": "get_weather", "description": "The weather.", "parameters": dict(WEATHER.parameters),
}  # fmt: skip
HI = {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}


def preview(messages: Any, tools: Any = None, *, model: str = "gemini-3-flash-preview", **options: Any) -> Any:
    provider = Provider.from_config(f"gemini-interactions:{model}", api_key="k")
    return provider.preview(messages, tools, **options)


def sent(messages: Any, tools: Any = None, **options: Any) -> dict[str, Any]:
    return preview(messages, tools, **options).json()  # type: ignore[no-any-return]


def codes(messages: Any, tools: Any = None, **options: Any) -> list[str]:
    return [warning.code for warning in preview(messages, tools, **options).warnings]


def test_the_smallest_request() -> None:
    """Nothing is stored unless that is asked for, thoughts are summed up, and the revision of the API is named."""
    found = preview("Hi")
    assert found.url == "https://generativelanguage.googleapis.com/v1beta/interactions"
    assert found.headers["Api-Revision"] == "2026-05-20"
    assert found.json() == {
        "model": "gemini-3-flash-preview",
        "input": [HI],
        "generation_config": {"thinking_summaries": "auto"},
        "stream": True,
        "store": False,
    }


def test_instructions() -> None:
    """Those at the front are one text; one in the middle is said by the user, with a warning."""
    talk = [system("One."), Message("developer", "Two."), user("Hi")]
    assert (sent(talk)["system_instruction"], sent(talk)["input"], codes(talk)) == ("One.\n\nTwo.", [HI], [])
    late = [user("Hi"), system("Later."), user("Hi")]
    assert sent(late)["input"] == [HI, {"type": "user_input", "content": [{"type": "text", "text": "Later."}]}, HI]
    assert codes(late) == ["history_repaired"]


def test_contents() -> None:
    """Media are base64 or a URI, with their type; a name has no place."""
    parts = ["Look:", image(PNG, detail="low"), image("https://a.test/b.png"), file(b"%PDF-1.7", name="a.pdf")]
    [step] = sent([user(parts)])["input"]
    assert step["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAA", "mime_type": "image/png", "resolution": "low"},
        {"type": "image", "uri": "https://a.test/b.png"},
        {"type": "document", "data": "JVBERi0xLjc=", "mime_type": "application/pdf"},
    ]
    assert codes([user(parts)]) == ["provider_data_dropped"]


def test_turns_of_another_provider() -> None:
    """Text, then calls; results behind them in their order; reasoning of others is left out."""
    talk = [user("Hi"), assistant("So.", tool_calls=[A, B], reasoning="Hm."), tool_result(A, "18 °C"),
            tool_result(B, [image(PNG)], error=True)]  # fmt: skip
    assert sent(talk)["input"][1:] == [
        {"type": "model_output", "content": [{"type": "text", "text": "So."}]},
        {"type": "function_call", "id": "call_a", "name": "get_weather", "arguments": {"city": "Paris"}},
        {"type": "function_call", "id": "call_b", "name": "get_weather", "arguments": {"_raw": "{"}},
        {"type": "function_result", "call_id": "call_a", "name": "get_weather", "result": "18 °C"},
        {
            "type": "function_result",
            "call_id": "call_b",
            "name": "get_weather",
            "result": [{"type": "image", "data": "iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAA", "mime_type": "image/png"}],
            "is_error": True,
        },
    ]
    assert codes(talk) == ["history_repaired", "reasoning_dropped"]


@each_row(
    ("tools", "choice", "entries", "written"),
    [
        ([WEATHER], "auto", [FUNCTION], None),
        ([WEATHER], "required", [FUNCTION], "any"),
        ([WEATHER], "none", [FUNCTION], "none"),
        ([WEATHER, WebSearch()], "none", [FUNCTION], "none"),
        ([WEATHER], NamedTool("get_weather"), [FUNCTION], {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}),
        ([WEATHER], AllowedTools(("get_weather",)), [FUNCTION],
         {"allowed_tools": {"mode": "validated", "tools": ["get_weather"]}}),
        ([WEATHER], AllowedTools(("get_weather",), "required"), [FUNCTION],
         {"allowed_tools": {"mode": "any", "tools": ["get_weather"]}}),
        ([WEATHER, WebSearch(), UrlContext(), CodeExecution()], "auto",
         [FUNCTION, {"type": "google_search"}, {"type": "url_context"}, {"type": "code_execution"}], None),
        ([FileSearch(["stores/a"], 4, "a = 1")], "auto",
         [{"type": "file_search", "file_search_store_names": ["stores/a"], "top_k": 4, "metadata_filter": "a = 1"}],
         None),
        ([HostedMcpServer("w", "https://w.test", headers={"X": "1"}, allowed_tools=["a"])], "auto",
         [{"type": "mcp_server", "name": "w", "url": "https://w.test", "headers": {"X": "1"},
           "allowed_tools": [{"tools": ["a"]}]}], None),
        ([HostedTool({"type": "google_maps", "latitude": 60})], "auto", [{"type": "google_maps", "latitude": 60}],
         None),
    ],
)  # fmt: skip
def test_tools_and_choices(tools: list[Any], choice: Any, entries: list[Any], written: Any) -> None:
    """Tools are one flat list, and the choice among functions is said as this API says it."""
    body = sent("Hi", tools, tool_choice=choice)
    assert (body["tools"], body["generation_config"].get("tool_choice")) == (entries, written)


def test_a_tool_of_google_can_not_be_chosen() -> None:
    """A choice names functions only."""
    with pytest.raises(ConfigError, match="only functions can be chosen"):
        sent("Hi", [WEATHER, WebSearch()], tool_choice=NamedTool("web_search"))
    assert "tools" not in sent("Hi", [WebSearch()], tool_choice="none")


def test_options() -> None:
    """They stand in the generation config; a caller's own members of it are added to them."""
    body = sent("Hi", temperature=0.5, top_p=0.9, seed=1, stop="x", max_output_tokens=9, reasoning_effort="low",
                extra_body={"generation_config": {"speech_config": {"voice": "a"}}, "labels": {"a": "b"}})  # fmt: skip
    assert body["generation_config"] == {
        "temperature": 0.5, "top_p": 0.9, "seed": 1, "stop_sequences": ["x"], "max_output_tokens": 9,
        "thinking_level": "low", "thinking_summaries": "auto", "speech_config": {"voice": "a"},
    }  # fmt: skip
    assert body["labels"] == {"a": "b"}
    assert codes("Hi", [WEATHER], parallel_tool_calls=False) == ["option_dropped"]


@each_row(
    ("model", "effort", "level", "warnings"),
    [
        ("gemini-3-flash-preview", "max", "xhigh", ["option_changed"]),
        ("gemini-3-flash-preview", "none", "minimal", ["option_changed"]),
        ("gemini-3-flash-preview", "xhigh", "xhigh", []),
        ("gemini-3-pro-preview", "medium", "high", ["option_changed"]),  # it has no medium
        ("gemini-2.5-flash", "medium", "medium", []),  # a budget, on the other API
        ("unheard-of", "minimal", "minimal", []),
    ],
)
def test_efforts(model: str, effort: Any, level: str, warnings: list[str]) -> None:
    """Thinking is asked for as a level, for each model."""
    body = sent("Hi", model=model, reasoning_effort=effort)
    assert body["generation_config"]["thinking_level"] == level
    assert codes("Hi", model=model, reasoning_effort=effort) == warnings


def test_response_formats() -> None:
    """JSON is a format of text, with a schema or without one."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = {"type": "text", "mime_type": "application/json"}
    assert sent("Hi", response_format="json")["response_format"] == form
    assert sent("Hi", response_format=schema)["response_format"] == {**form, "schema": schema}


def test_agents() -> None:
    """An agent stands in the place of the model, runs in the background, and has no generation config."""
    body = sent("Hi", model="agents/deep-research-preview-04-2026", temperature=0.5)
    assert body == {
        "agent": "deep-research-preview-04-2026",
        "input": [HI],
        "background": True,
        "agent_config": {"type": "deep-research", "thinking_summaries": "auto"},
        "stream": True,
        "store": True,
    }
    assert codes("Hi", model="agents/deep-research-preview-04-2026", temperature=0.5) == ["option_dropped"]
    own = sent("Hi", model="agents/antigravity-preview-09-2026", extra_body={"environment": "e"})
    assert (own["agent"], own["environment"], "agent_config" in own) == ("antigravity-preview-09-2026", "e", False)
    with pytest.raises(ConfigError, match="max_output_tokens: the agent"):
        sent("Hi", model="agents/deep-research-preview-04-2026", max_output_tokens=9)


def test_a_stored_interaction() -> None:
    """What the server has is not sent again; instructions and tools are, which it does not keep."""
    turn = Message("assistant", "Hello.", extras={"interaction_id": ["v1_a"]})
    talk = [system("Be brief."), user("Hi"), turn, user("Hi")]
    body = sent(talk, [WEATHER], extra_body={"previous_interaction_id": "v1_a"})
    assert (body["input"], body["store"], body["system_instruction"], body["tools"]) == (
        [HI], True, "Be brief.", [FUNCTION],
    )  # fmt: skip
    assert len(sent(talk, extra_body={"store": True})["input"]) == 3
    result = Message("tool", "18 °C", tool_call_id="call_a", name="get_weather")
    assert sent([result], extra_body={"previous_interaction_id": "v1_a"})["input"] == [
        {"type": "function_result", "call_id": "call_a", "name": "get_weather", "result": "18 °C"}
    ]
    with pytest.raises(ConfigError, match="previous_interaction_id: available only for stored interactions"):
        sent("Hi", extra_body={"previous_interaction_id": "v1_a", "store": False})


def test_a_run_in_the_background_is_streamed() -> None:
    """Whole, it would be an answer that has only begun."""
    body = preview("Hi", extra_body={"background": True}).json()
    assert (body["background"], body["store"], body["stream"]) == (True, True, True)


SIGNED = start(0, "thought") + delta(0, "thought_signature", signature="c2ln") + stop(0)


def test_a_turn_of_its_own_goes_back_as_it_came() -> None:
    """With its signature, in order, unless its text or its calls have been changed; then what is said of it goes."""
    decoder = StreamDecoder("interactions")
    decoder.feed(answer(SIGNED, call(1, "a1", "get_weather", '{"city":"Paris"}'), status="requires_action"))
    decoder.close()
    turn = decoder.reply.message
    [called] = turn.tool_calls
    thought = {"type": "thought", "signature": "c2ln"}
    made = {"type": "function_call", "id": "a1", "name": "get_weather", "arguments": {"city": "Paris"}}
    talk = [user("Hi"), turn, tool_result(called, "18 °C")]
    assert sent(talk)["input"][1:3] == [thought, made]
    assert codes(talk) == []
    changed = [user("Hi"), Message("assistant", "Wait.", turn.tool_calls, extras=turn.extras), tool_result(called, "x")]
    assert sent(changed)["input"][1]["type"] == "model_output"
    assert codes(changed) == ["provider_data_dropped"]
