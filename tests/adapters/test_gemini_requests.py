"""Requests of Gemini's own API, compared as JSON with what is written here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import corpus
from streamfold import (
    AllowedTools,
    ConfigError,
    Message,
    NamedTool,
    Provider,
    StreamDecoder,
    StreamError,
    Tool,
    ToolCall,
    assistant,
    image,
    system,
    tool_result,
    user,
)
from streamfold.requests.schema import openapi_subset
from tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
A = ToolCall("call_a", "get_weather", {"city": "Paris"}, '{"city":"Paris"}')
B = ToolCall("call_b", "get_time", {}, "")
WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
TIME = Tool("get_time", "The time.")
OLD = {"signatures": "optional", "thinking": "budget", "result_images": False, "json_with_tools": False}


def preview(messages: Any, tools: Any = None, *, quirks: dict[str, Any] | None = None, **options: Any) -> Any:
    provider = Provider.from_config(
        {"adapter": "gemini", "base_url": "http://127.0.0.1/v1beta", "model": "gemini-3-pro", "quirks": quirks or {}}
    )
    return provider.preview(messages, tools, **options)


def sent(messages: Any, tools: Any = None, **options: Any) -> dict[str, Any]:
    return json.loads(preview(messages, tools, **options).body)  # type: ignore[no-any-return]


def codes(messages: Any, tools: Any = None, **options: Any) -> list[str]:
    return [warning.code for warning in preview(messages, tools, **options).warnings]


def test_the_model_stands_in_the_path() -> None:
    """A place that the caller wrote out is taken as it is; anything else can't leave its segment."""
    assert preview("Hi").url == "http://127.0.0.1/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert preview("Hi", model="tunedModels/x-1").url.endswith("/v1beta/tunedModels/x-1:streamGenerateContent?alt=sse")
    assert preview("Hi", model="../x?y").url.endswith("/models/..%2Fx%3Fy:streamGenerateContent?alt=sse")
    assert sent("Hi") == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def test_system_messages() -> None:
    """All of them are the system instruction; one that came late is said to have lost its place."""
    talk = [system("One."), user("Hi"), assistant("Hello."), Message("developer", "Two."), user("Go on.")]
    body = sent(talk)
    assert body["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert codes(talk) == ["history_mismatch"]
    gemma = sent([system("One."), user("Hi")], quirks={"system_instruction": False})
    assert gemma["contents"][0]["parts"] == [{"text": "One."}, {"text": "Hi"}]


@each_row(
    ("result", "error", "wanted"),
    [
        ({"a": 1}, False, {"a": 1}),
        ([1, 2], False, {"output": [1, 2]}),
        ("text", False, {"output": "text"}),
        ("", False, {"output": ""}),
        ("no such city", True, {"error": "no such city"}),
    ],
)
def test_a_result_is_an_object(result: Any, error: bool, wanted: Any) -> None:
    """Gemini takes nothing else."""
    talk = [user("Hi"), assistant(tool_calls=[B]), tool_result(B, result, error=error)]
    part = sent(talk, [TIME])["contents"][2]["parts"][0]
    assert part["functionResponse"]["response"] == wanted


def test_images_in_results() -> None:
    """Inside the result for Gemini 3; before that in a user content behind it, with a warning."""
    talk = [user("Hi"), assistant(tool_calls=[B]), tool_result(B, ["Here:", image(PNG)])]
    response = sent(talk, [TIME])["contents"][2]["parts"][0]["functionResponse"]
    assert response["parts"][0]["inlineData"]["mimeType"] == "image/png"
    old = sent(talk, [TIME], quirks=OLD)["contents"]
    assert ["inlineData" in part for part in old[3]["parts"]] == [False, True]
    assert codes(talk, [TIME], quirks=OLD) == ["tool_images_moved"]


def test_the_ends_of_a_history_are_repaired() -> None:
    """A message of the user is added before an assistant that begins, and behind one that ends."""
    made = preview([assistant("Hello."), user("Hi"), assistant("Hel")])
    assert json.loads(made.body)["contents"] == [
        {"role": "user", "parts": [{"text": "Continue."}]},
        {"role": "model", "parts": [{"text": "Hello."}]},
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Hel"}]},
        {"role": "user", "parts": [{"text": "Continue."}]},
    ]
    assert [warning.code for warning in made.warnings] == ["history_repaired", "history_repaired"]
    talk = [assistant(None, tool_calls=[A]), tool_result(A, "sunny"), user("Hi")]
    assert [content["role"] for content in sent(talk, [WEATHER])["contents"]] == ["user", "model", "user", "user"]


def test_strict_tools() -> None:
    """Where any of them is strict, Google holds arguments to the schemas; a forced call is held to them anyway."""
    strict = [replace(WEATHER, strict=True), TIME]
    assert sent("Hi", strict)["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert sent("Hi", strict, tool_choice="required")["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"
    old = {"validated": False}
    assert "toolConfig" not in sent("Hi", strict, quirks=old)
    assert codes("Hi", strict, quirks=old) == ["option_dropped"]
    assert codes("Hi", strict, quirks=old, tool_choice="required") == []


@each_row(
    ("choice", "wanted"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NamedTool("get_time"), {"mode": "ANY", "allowedFunctionNames": ["get_time"]}),
        (AllowedTools(("get_time",), "required"), {"mode": "ANY", "allowedFunctionNames": ["get_time"]}),
    ],
)
def test_tool_choice(choice: Any, wanted: Any) -> None:
    """Each choice in its form; one declaration entry holds all tools."""
    body = sent("Hi", [WEATHER, TIME], tool_choice=choice)
    assert body.get("toolConfig") == (None if wanted is None else {"functionCallingConfig": wanted})
    assert body["tools"] == [{"functionDeclarations": [
        {"name": "get_weather", "description": "The weather.", "parametersJsonSchema": WEATHER.parameters},
        {"name": "get_time", "description": "The time."},
    ]}]  # fmt: skip


@pytest.mark.parametrize(
    "parameters", [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}]
)
def test_parameters_without_names(parameters: dict[str, Any]) -> None:
    """A schema of members that it does not list is sent too: without one there would be none."""
    (declared,) = sent("Hi", [Tool("f", "F.", parameters)])["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == parameters


@each_row(
    ("effort", "quirks", "wanted", "warned"),
    [
        ("high", {}, {"thinkingLevel": "HIGH", "includeThoughts": True}, []),
        ("none", {}, {"thinkingLevel": "LOW", "includeThoughts": True}, ["option_changed"]),
        ("minimal", {}, {"thinkingLevel": "LOW", "includeThoughts": True}, ["option_changed"]),
        ("xhigh", {}, {"thinkingLevel": "HIGH", "includeThoughts": True}, ["option_changed"]),
        ("medium", {"thinking": "budget"}, {"thinkingBudget": 8192, "includeThoughts": True}, []),
        ("none", {"thinking": "budget", "can_stop_thinking": True}, {"thinkingBudget": 0}, []),
        ("none", {"thinking": "budget"}, {"thinkingBudget": 128, "includeThoughts": True}, ["option_changed"]),
        ("none", {"budget": (0, 1000)}, {"thinkingBudget": 0, "includeThoughts": True}, ["option_changed"]),
        ("high", {"thinking": "never"}, None, ["option_dropped"]),
    ],
)
def test_effort(effort: Any, quirks: dict[str, Any], wanted: Any, warned: list[str]) -> None:
    """As a level or as a budget; what the model does not know is changed with a warning."""
    body = sent("Hi", quirks=quirks, reasoning_effort=effort)
    assert body.get("generationConfig", {}).get("thinkingConfig") == wanted
    assert codes("Hi", quirks=quirks, reasoning_effort=effort) == warned


class Person(BaseModel):
    name: str


def test_options() -> None:
    """They stand in the generation config."""
    config = sent(
        "Hi", temperature=1, top_p=0.5, seed=7, max_output_tokens=9, stop="x", response_format=Person
    )["generationConfig"]  # fmt: skip
    assert {name: config[name] for name in ("temperature", "topP", "seed", "maxOutputTokens", "stopSequences")} == {
        "temperature": 1, "topP": 0.5, "seed": 7, "maxOutputTokens": 9, "stopSequences": ["x"],
    }  # fmt: skip
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"] == {"name": {"title": "Name", "type": "string"}}
    assert "responseJsonSchema" not in sent("Hi", response_format="json")["generationConfig"]


def test_what_has_no_place() -> None:
    """It is left out or emulated, with a warning; or refused, by name."""
    assert "parallel_tool_calls" not in sent("Hi", [TIME], parallel_tool_calls=False)
    assert sent("Hi", stop=list("abcdef"))["generationConfig"]["stopSequences"] == list("abcde")
    with pytest.raises(ConfigError, match=r"extra_body\.cachedContent can\'t be combined with tools"):
        sent("Hi", [TIME], extra_body={"cachedContent": "cachedContents/x"})


def test_extra_body_is_merged() -> None:
    """A member beside ours does not replace it."""
    body = sent("Hi", temperature=1, extra_body={"generationConfig": {"topK": 3}, "safetySettings": []})
    assert body["generationConfig"] == {"temperature": 1, "topK": 3}


# --- signatures -------------------------------------------------------------------------------------------------------


@each_row("name", corpus.names("corpus/gemini/*.sse"))
def test_signatures_go_back_on_their_parts(name: str) -> None:
    """Byte for byte, on a part of the same kind, once, in order; ids go back if and only if the server sent them."""
    expected = corpus.expected(name)
    decoder = StreamDecoder("gemini")
    try:
        decoder.feed(corpus.body(name))
        decoder.close()
    except StreamError:
        return
    message = decoder.reply.message
    if not message.content and not message.tool_calls:
        return
    results = [tool_result(call, "done") for call in message.tool_calls] or [user("Go on.")]
    contents = sent([user("Hi"), message, *results])["contents"]
    came = [part["thoughtSignature"] for part in message.extras["blocks"] if part.get("thoughtSignature")]
    went = [part["thoughtSignature"] for part in contents[1]["parts"] if part.get("thoughtSignature")]
    assert [signature for signature in went if not signature.startswith("skip_")] == came
    if message.tool_calls:
        ids = [call["id"] for call in expected["tool_calls"] if call["id"]]
        sent_ids = [part["functionResponse"].get("id") for part in contents[2]["parts"]]
        assert [found for found in sent_ids if found] == ids


def test_one_id_for_two_calls() -> None:
    """In one turn or in two: our own ids are never sent; a result has the id that its call goes back with."""

    def turn(*numbers: int) -> Message:
        parts = [
            {"functionCall": {"name": "f", "id": "x", "args": {"n": at}}, "thoughtSignature": f"s{at}"}
            for at in numbers
        ]
        decoder = StreamDecoder("gemini")
        decoder.feed(json.dumps({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}).encode())
        decoder.close()
        return decoder.reply.message

    def ids(*turns: Message) -> list[tuple[str, Any]]:
        results = [[tool_result(call, "done") for call in message.tool_calls] for message in turns]
        history = [one for message, answers in zip(turns, results, strict=True) for one in (message, *answers)]
        parts = [
            part
            for content in sent([user("Hi"), *history], repair_history=True)["contents"]
            for part in content["parts"]
        ]
        return [(kind, part[kind].get("id")) for part in parts for kind in part if kind.startswith("function")]

    call, result = ("functionCall", "x"), ("functionResponse", "x")
    assert ids(turn(1), turn(2)) == [call, result, call, result]
    assert ids(turn(1, 2)) == [call, call, result, result]
    changed = replace(turn(1), content="Another text.")  # it is written anew, without the ids of the server
    assert ids(changed) == [("functionCall", None), ("functionResponse", None)]


@each_row("empty", [{}, {"text": None}, {"functionCall": None}])
def test_a_part_that_says_nothing(empty: dict[str, Any]) -> None:
    """A proxy may send one. It does not go back, and the parts beside it do, as they came."""
    signed = {"functionCall": {"name": "f", "args": {}, "id": "1"}, "thoughtSignature": "s"}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "t"}
    decoder = StreamDecoder("gemini")
    decoder.feed(json.dumps({"candidates": [{"content": {"parts": [{"text": "a"}, empty, {"text": "b"}, code, signed]},
                                             "finishReason": "STOP"}]}).encode())  # fmt: skip
    decoder.close()
    message = decoder.reply.message
    went = sent([user("Hi"), message, tool_result(message.tool_calls[0], "done")])["contents"][1]["parts"]
    assert went == [{"text": "ab"}, code, signed]


# --- the older schema -------------------------------------------------------------------------------------------------


@each_row(
    ("schema", "wanted"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "INTEGER", "nullable": True}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        ({"const": "a", "type": "string"}, {"type": "STRING", "enum": ["a"]}),
        ({"type": "string", "enum": ["a", "", None]}, {"type": "STRING", "enum": ["a"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER"}),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({}, {"type": "OBJECT"}),
        ({"type": "object", "properties": {}}, {"type": "OBJECT"}),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
         {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
        ({"$defs": {"P": {"type": "string"}}, "type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}},
         {"type": "OBJECT", "properties": {"p": {"type": "STRING"}}}),
        ({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}},
                    {"properties": {"b": {"type": "string"}}}]},
         {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}}}),
    ],
)  # fmt: skip
def test_the_openapi_subset(schema: Any, wanted: Any) -> None:
    """Each rule, one input and its output."""
    assert openapi_subset(schema)[0] == wanted


KNOWN = {"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties",
         "propertyOrdering", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
         "minimum", "maximum", "anyOf", "default", "example"}  # fmt: skip
NODES = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "object", "array", "null", ["string", "null"]]),
            "enum": st.lists(st.sampled_from(["a", 1, None, ""])),
            "const": st.sampled_from(["a", 1]),
            "multipleOf": st.just(2),
            "additionalProperties": st.booleans(),
            "format": st.sampled_from(["uri", "int32"]),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array"]),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner),
            "required": st.just(["a"]),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=8,
)


def unknown(node: Any) -> set[str]:
    found = set(node) - KNOWN
    inner = [*node.get("properties", {}).values(), *node.get("anyOf", ())] + (
        [node["items"]] if "items" in node else []
    )
    return found.union(*(unknown(one) for one in inner))


@given(NODES)
def test_no_other_member_is_ever_sent(schema: Any) -> None:
    """One unknown member fails every request with it."""
    made, _ = openapi_subset(schema)
    assert unknown(made) == set()
