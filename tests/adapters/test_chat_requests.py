"""Requests of the chat API: what was asked for is what is written, and what can't be written is said."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from streamfold import (
    ConfigError,
    NamedTool,
    Provider,
    Tool,
    ToolCall,
    assistant,
    image,
    system,
    tool,
    tool_result,
    user,
)
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.requests.request import Request
from tables import each_row

WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
WEATHER_API = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def encode(
    messages: Any, tools: Any = None, tool_choice: Any = "auto", quirks: ChatQuirks | None = None, **options: Any
):
    return ChatAdapter(quirks).encode(Request.read("m", messages, tools, tool_choice, options), EncodingReport())


def test_a_conversation() -> None:
    """Ids, the model's own argument text and null content go back as they came; reasoning stays out."""
    call = ToolCall("functions.get_weather:0", "get_weather", {"city": "Oslo"}, '{"city": "Oslo"}')
    turn = assistant(tool_calls=[call], reasoning="Let me look.")
    body = encode(
        [
            system("Be brief."),
            user("Oslo?"),
            turn,
            tool_result(call, {"celsius": -3}),
            {"role": "user", "content": "And?"},
        ]
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Oslo?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "functions.get_weather:0",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                }
            ],
        },
        {"role": "tool", "content": '{"celsius": -3}', "tool_call_id": "functions.get_weather:0"},
        {"role": "user", "content": "And?"},
    ]


@each_row(
    ("choice", "api"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (None, "auto"),
        *[
            (spelling, {"type": "function", "function": {"name": "get_weather"}})
            for spelling in (
                NamedTool("get_weather"),
                {"type": "function", "function": {"name": "get_weather"}},
                {"type": "function", "name": "get_weather"},
            )
        ],
    ],
)
def test_tool_choice(choice: Any, api: Any) -> None:
    """Every accepted spelling becomes the one of this API."""
    body = encode("x", [WEATHER], choice)
    assert body["tool_choice"] == api
    assert body["tools"] == [WEATHER_API]


def test_tools_in_either_spelling() -> None:
    """Tools are read in the shape of both OpenAI APIs."""
    function = {**WEATHER_API["function"], "name": "other", "strict": True}  # type: ignore[dict-item]
    flat = {"type": "function", **function}
    assert encode("x", [WEATHER_API, flat])["tools"] == [
        WEATHER_API,
        {"type": "function", "function": function},
    ]


def test_h7_empty_tools_are_left_out() -> None:
    """vLLM refuses an empty list of tools, and a tool choice without tools."""
    body = encode("x", [])
    assert "tools" not in body
    assert "tool_choice" not in body


def test_options() -> None:
    """What is said is sent under the API's names; what is not said is not sent; extra_body wins."""
    body = encode("x", temperature=0.0, top_p=0.9, max_output_tokens=10, stop=["a"], seed=1, parallel_tool_calls=False,
                  reasoning_effort="low", extra_body={"top_k": 5, "seed": 2})  # fmt: skip
    del body["messages"]
    assert body == {
        "model": "m", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0, "top_p": 0.9,
        "max_tokens": 10, "stop": ["a"], "seed": 2, "parallel_tool_calls": False, "reasoning_effort": "low", "top_k": 5,
    }  # fmt: skip


def test_quirks() -> None:
    body = encode("x", quirks=ChatQuirks("max_completion_tokens", stream_usage=False), max_output_tokens=10)
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "max_completion_tokens": 10,
    }


def test_a_server_that_refuses_the_choice_auto() -> None:
    """It is what a server does without a choice, so it may be left out; another choice is always sent."""
    quirks = ChatQuirks(tool_choice_auto=False)
    tools = [Tool("f", "", {"type": "object", "properties": {}})]
    assert "tool_choice" not in encode("x", tools, quirks=quirks)
    assert encode("x", tools, quirks=quirks, tool_choice="required")["tool_choice"] == "required"
    assert encode("x", tools)["tool_choice"] == "auto"


class City(BaseModel):
    """A city."""

    name: str


def test_response_format() -> None:
    """ "json", a schema and a model become the API's two forms."""
    assert encode("x", response_format="json")["response_format"] == {"type": "json_object"}
    schema = {"type": "object", "properties": {}}
    wanted = encode("x", response_format=schema)["response_format"]
    assert wanted == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    wanted = encode("x", response_format=City)["response_format"]
    assert wanted == {"type": "json_schema", "json_schema": {"name": "City", "schema": City.model_json_schema()}}
    with pytest.raises(ConfigError, match="response_format must be"):
        encode("x", response_format="yaml")


def test_tool_from_model() -> None:
    """The docstring is the description, the schema the parameters."""
    made = Tool.from_model(City)
    assert (made.name, made.description) == ("City", "A city.")
    assert made.parameters == {
        "type": "object", "properties": {"name": {"title": "Name", "type": "string"}}, "required": ["name"],
    }  # fmt: skip


def test_tool_from_function() -> None:
    """Types and defaults are the schema, the docstring is the description."""

    async def get_weather(city: str, days: int = 1, *, units: Literal["C", "F"] = "C") -> str:
        """The weather in a city.

        For some days.
        """
        return f"{city} {days} {units}"

    made = tool(get_weather)
    assert (made.name, made.description) == ("get_weather", "The weather in a city.\n\nFor some days.")
    assert made.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "city": {"title": "City", "type": "string"},
            "days": {"default": 1, "title": "Days", "type": "integer"},
            "units": {"default": "C", "enum": ["C", "F"], "title": "Units", "type": "string"},
        },
        "required": ["city"],
    }
    with pytest.raises(ConfigError, match="can't be passed by name"):
        tool(lambda *args: args)


def test_callers_objects_are_left_alone() -> None:
    """Nothing that was passed in is changed."""
    message, body_extra = {"role": "user", "content": "x"}, {"seed": 2}
    encode([message], extra_body=body_extra, temperature=1)["messages"][0]["content"] = "y"
    assert (message, body_extra) == ({"role": "user", "content": "x"}, {"seed": 2})


def test_an_image_in_a_result_does_not_end_the_turn_of_its_call() -> None:
    """Google wants the call of an open tool loop signed, also where an image of its result becomes a user message."""
    made = ToolCall("c1", "plot", {}, "{}")
    image_result = tool_result(made, ["The chart:", image("data:image/gif;base64,R0lGODlhAQABAAAAACw=")])
    for result in (tool_result(made, "done"), image_result):
        preview = Provider.from_config("gemini-openai:gemini-3-pro-preview").preview(
            [user("Plot it."), assistant(tool_calls=[made]), result]
        )
        (sent,) = preview.json()["messages"][1]["tool_calls"]
        assert sent["extra_content"] == {"google": {"thought_signature": "skip_thought_signature_validator"}}
        assert "lost_reasoning" in [warning.code for warning in preview.warnings]
