"""Requests of Gemini's API, read: what our encoder wrote comes back, and a mistake is told with the path to it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_strategies import conversation
from scale import examples, pick
from streamfold import AllowedTools, ConfigError, NamedTool
from streamfold.adapters import EncodingReport
from streamfold.adapters.gemini import GeminiAdapter, GeminiQuirks
from streamfold.requests import Request, ResponseFormat
from streamfold.requests.schema import from_openapi, openapi_subset
from streamfold.serving.gemini import parse_gemini_request
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart
from tables import each_row

HI = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
TOOLS = {"tools": [{"functionDeclarations": [{"name": "f", "description": "d"}, {"name": "g"}]}]}
SIGNED = {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"}


def read(*contents: dict[str, Any], **members: Any) -> Request:
    return parse_gemini_request({"contents": [*contents]} | members if contents else HI | members, "m")


def said(*parts: dict[str, Any], role: str = "model") -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def result(**members: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "f", "response": {"output": "sun"}, **members}}


@each_row("schemas", ["json", "openapi"])
@each_row("number", range(pick(400, 40)))
def test_what_is_written_is_read(number: int, schemas: Any) -> None:
    """A body that we wrote is written the same again after it was read: messages, calls, results, images, tools."""
    given = conversation(number, plain=True)
    adapter = GeminiAdapter(GeminiQuirks(schemas=schemas, signatures="optional"))
    asked = Request.read("m", given["messages"], given["tools"], given["tool_choice"], {})
    once = json.loads(adapter.prepare(asked, repair_history=True).body)
    read = parse_gemini_request(once, "m")
    again = json.loads(adapter.prepare(read, repair_history=True).body)
    for body in (once, again):  # ids come back where the client has sent them
        for part in (part for content in body["contents"] for part in content["parts"]):
            for name in ("functionCall", "functionResponse"):
                part.get(name, {}).pop("id", None)
    assert again == once


def test_both_spellings() -> None:
    """Members in snake case are read as those in camel case, and what the application named stays."""
    body = {
        "system_instruction": {"parts": [{"text": "Be short."}]},
        "contents": [
            said({"text": "Look"}, {"inline_data": {"mime_type": "image/png", "data": "aGk="}}, role="user"),
            said({"function_call": {"name": "f", "args": {"snake_case": 1}}, "thought_signature": "c2ln"}),
            said({"function_response": {"name": "f", "response": {"snake_case": 2}}}, role="user"),
        ],
        "tools": [{"function_declarations": [
            {"name": "f", "parameters_json_schema": {"type": "object", "properties": {"snake_case": {}}}}]}],
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
        "generation_config": {"max_output_tokens": 7, "thinking_config": {"thinking_level": "LOW"}},
    }  # fmt: skip
    request = parse_gemini_request(body, "m")
    system, user, assistant, tool = request.messages
    assert system.content == "Be short."
    assert user.content == (TextPart("Look"), ImagePart(b"hi", media_type="image/png"))
    assert assistant.tool_calls[0].arguments == {"snake_case": 1}
    assert assistant.extras["blocks"][0]["thoughtSignature"] == "c2ln"
    assert (tool.content, tool.tool_call_id) == ('{"snake_case":2}', assistant.tool_calls[0].id)
    assert request.tools[0].parameters["properties"] == {"snake_case": {}}
    assert request.tool_choice == NamedTool("f")
    assert (request.options.max_output_tokens, request.options.reasoning_effort) == (7, "low")
    assert request.options.extra_body == {}


def test_signatures_go_back_as_they_came() -> None:
    """On their parts and in their places, also if a client wrote them in the alphabet of URLs."""
    signature = bytes([251, 255, 254])
    sent = urlsafe_b64encode(signature).decode()
    assert "_" in sent
    turn = said({"text": "Hm", "thought": True}, {"text": ""}, SIGNED | {"thoughtSignature": sent}, {"text": "b"})
    request = read(*HI["contents"], turn, said(result(id="a"), role="user"))
    body = GeminiAdapter().encode(request, EncodingReport())
    assert body["contents"][1]["parts"] == [SIGNED | {"thoughtSignature": "+//+"}, {"text": "b"}]
    assert body["contents"][2]["parts"] == [result(id="a")]


def test_contents_of_the_model_in_a_row_are_one_turn() -> None:
    """Google's automatic calling sends one content for each chunk; their results stand behind all of them."""
    request = read(
        *HI["contents"], said(SIGNED), said({"functionCall": {"name": "g"}}), said(result(), role="function")
    )
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    assert [call.name for call in request.messages[1].tool_calls] == ["f", "g"]


def test_an_empty_turn_is_none() -> None:
    """Clients keep the empty text that stands with a finish reason as a content of its own."""
    request = read(*HI["contents"], said({"text": ""}), said({"text": "More"}, role="user"))
    assert [message.role for message in request.messages] == ["user", "user"]


def test_results_find_their_calls() -> None:
    """By id; without one by name, the first open call first. Calls without an id get one that nobody has."""
    calls = [
        {"functionCall": {"name": "f"}},
        {"functionCall": {"name": "f"}},
        {"functionCall": {"id": "call_1", "name": "g"}},
    ]
    results = [result(name="g", id="call_1"), result(response={"output": "1st"}), result(response={"output": "2nd"})]
    request = read(*HI["contents"], said(*calls), said(*results, role="user"))
    ids = [call.id for call in request.messages[1].tool_calls]
    assert len({*ids}) == 3
    assert [(message.tool_call_id, message.content) for message in request.messages[2:]] == [
        ("call_1", "sun"), (ids[0], "1st"), (ids[1], "2nd"),
    ]  # fmt: skip
    later = read(*HI["contents"], said(*calls[:1]), said(result(), role="user"), said(*calls[1:]))
    assert len({call.id for message in later.messages for call in message.tool_calls}) == 3


@each_row(
    ("response", "content", "error"),
    [
        ({"output": "sunny"}, "sunny", False),
        ({"output": {"sky": "blue"}}, '{"sky":"blue"}', False),
        ({"error": "no such city"}, "no such city", True),
        ({"result": "sunny"}, '{"result":"sunny"}', False),
        ({"error": "no", "code": 1}, '{"error":"no","code":1}', True),
        ({}, "{}", False),
    ],
)
def test_results(response: Any, content: str, error: bool) -> None:
    """`output` and `error` are Google's words for a result; any other object is the result itself."""
    message = read(*HI["contents"], said(SIGNED), said(result(response=response), role="user")).messages[-1]
    assert (message.content, message.error) == (content, error)
    back = GeminiAdapter().encode(
        read(*HI["contents"], said(SIGNED), said(result(response=response), role="user")), EncodingReport()
    )
    sent = back["contents"][-1]["parts"][0]["functionResponse"]["response"]
    output = response.get("output")
    assert sent == ({"error": content} if error else output if isinstance(output, dict) else response)


def test_media() -> None:
    """Images, audio and files, as bytes and by address, in messages and in results."""
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    parts = [
        image,
        {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk=", "displayName": "a.pdf"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/b"}},
        {"fileData": {"fileUri": "https://youtu.be/x"}},
    ]
    (user,) = read(said(*parts, role="user")).messages
    assert user.content == (
        ImagePart(b"hi", media_type="image/png"),
        AudioPart(b"hi", media_type="audio/wav"),
        FilePart(b"hi", media_type="application/pdf", name="a.pdf"),
        FilePart(url="gs://a/b", media_type="video/mp4"),
        FilePart(url="https://youtu.be/x"),
    )
    tool = read(*HI["contents"], said(SIGNED), said(result(parts=[image]), role="user")).messages[-1]
    assert tool.content == (TextPart("sun"), ImagePart(b"hi", media_type="image/png"))


@each_row(
    ("config", "choice"),
    [
        ({}, "auto"),
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "VALIDATED"}, "auto"),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, AllowedTools(("f",))),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, NamedTool("f")),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, AllowedTools(("f", "g"), "required")),
    ],
)
def test_tool_choice(config: Any, choice: Any) -> None:
    """Each mode is a choice of ours."""
    assert read(**TOOLS, toolConfig={"functionCallingConfig": config}).tool_choice == choice


@each_row(
    ("thinking", "effort"),
    [
        ({"thinkingLevel": "HIGH"}, "high"),
        ({"thinkingLevel": "minimal"}, "minimal"),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None),
        ({"thinkingBudget": 0}, "none"),
        ({"thinkingBudget": -1}, None),
        ({"thinkingBudget": 1000}, "low"),
        ({"thinkingBudget": 8000}, "medium"),
        ({"thinkingBudget": 32768}, "high"),
        ({"includeThoughts": True}, None),
    ],
)
def test_thinking(thinking: Any, effort: Any) -> None:
    """A level, or a budget as the nearest level."""
    assert read(generationConfig={"thinkingConfig": thinking}).options.reasoning_effort == effort


def test_options() -> None:
    """Those of all APIs become ours; those of Gemini alone are kept for it."""
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}, "propertyOrdering": ["a"]}
    config = {"temperature": 1, "topP": 0.5, "topK": 9, "seed": 3, "stopSequences": ["x"], "candidateCount": 1,
              "responseModalities": ["TEXT"], "responseMimeType": "application/json",
              "responseSchema": schema}  # fmt: skip
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
    options = read(generationConfig=config, safetySettings=safety).options
    assert (options.temperature, options.top_p, options.seed, options.stop) == (1, 0.5, 3, ["x"])
    read_schema = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    assert options.response_format == ResponseFormat(read_schema)
    assert options.extra_body == {"safetySettings": safety, "generationConfig": {"topK": 9}}
    assert read(generationConfig={"responseMimeType": "application/json"}).options.response_format == ResponseFormat()
    assert read(generationConfig={"responseMimeType": "text/plain"}).options.response_format is None


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({}, "contents is missing"),
    ({"contents": []}, "contents is empty"),
    ({"contents": 1}, "contents must be a list, not a number"),
    ({"contents": [1]}, r"contents\[0\] must be an object"),
    ({"contents": [{"role": "bot", "parts": []}]}, r"contents\[0\].role: unknown role 'bot'. Allowed: user, model"),
    ({"contents": [{"role": "user"}]}, r"contents\[0\].parts is missing"),
    ({"contents": [said({"executableCode": {}}, role="user")]}, r"contents\[0\].parts\[0\] is executableCode"),
    ({"contents": [said({}, role="user")]}, r"contents\[0\].parts\[0\] is empty"),
    ({"contents": [said({"functionCall": {}})]}, r"contents\[0\].parts\[0\].functionCall.name is missing"),
    (
        {"contents": [said({"inlineData": {"mimeType": "image/png", "data": "?"}}, role="user")]},
        r"contents\[0\].parts\[0\].inlineData.data is",
    ),
    (HI | {"tools": [{"googleSearch": {}}]}, r"tools\[0\].googleSearch is a hosted tool of Google"),
    (HI | {"tools": [{"functionDeclarations": [{}]}]}, r"tools\[0\].functionDeclarations\[0\].name is missing"),
    (HI | {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "requires a tool call, but"),
    (HI | TOOLS | {"toolConfig": {"functionCallingConfig": {"mode": "MAY"}}}, "unknown mode 'MAY'. Allowed: AUTO, ANY"),
    (
        HI | TOOLS | {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["h"]}}},
        "there is no function 'h'",
    ),
    (HI | {"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount must be 1"),
    (HI | {"generationConfig": {"responseLogprobs": True}}, "generationConfig.responseLogprobs"),
    (HI | {"generationConfig": {"responseMimeType": "text/x.enum"}}, "Allowed: text/plain, application/json"),
    (HI | {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MAX"}}}, "unknown level 'MAX'"),
    (HI | {"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature must be a number"),
]  # fmt: skip


@each_row(("body", "message"), MISTAKES)
def test_mistakes(body: Any, message: str) -> None:
    """Each is told with its path, and with what is allowed."""
    with pytest.raises(ConfigError, match=message):
        parse_gemini_request(body, "m")


def test_schemas_of_openapi() -> None:
    """A schema in the older form means the same as real JSON Schema, and is written back in that form."""
    older = {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "STRING", "nullable": True, "description": "A"},
            "b": {"type": "ARRAY", "items": {"type": "INTEGER", "minimum": 1}, "minItems": "2"},
            "c": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
        },
        "required": ["a"],
        "propertyOrdering": ["a", "b", "c"],
    }
    schema = from_openapi(older)
    assert schema == {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "description": "A"},
            "b": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2},
            "c": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        },
        "required": ["a"],
    }
    del older["propertyOrdering"]
    older["properties"]["b"]["minItems"] = 2  # type: ignore[index]
    assert openapi_subset(schema) == (older, [])
    assert from_openapi(None) == {}


# --- anything ---------------------------------------------------------------------------------------------------------

PARTS = st.sampled_from([
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "name", "id", "args", "response",
    "parts", "inlineData", "inline_data", "mimeType", "data", "fileData", "fileUri", "error", "output",
])  # fmt: skip
CONFIG = st.sampled_from([
    "functionDeclarations", "name", "parameters", "parametersJsonSchema", "properties", "type", "nullable", "anyOf",
    "enum", "functionCallingConfig", "mode", "allowedFunctionNames", "thinkingConfig", "thinkingLevel",
    "responseSchema", "thinkingBudget", "responseMimeType", "temperature", "stopSequences", "seed",
    "candidateCount", "parts", "text",
])  # fmt: skip
MEMBERS = st.sampled_from(
    ["systemInstruction", "tools", "toolConfig", "generationConfig", "contents", "safetySettings"]
)
WORDS = st.sampled_from(["user", "model", "f", "ANY", "STRING", "application/json", "image/png", "aGk=", "-1", ""])


def anything(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=12,
    )


@settings(deadline=None, max_examples=examples(1000))
@given(
    st.dictionaries(MEMBERS, anything(CONFIG), max_size=3),
    st.lists(st.dictionaries(PARTS, anything(PARTS), max_size=3), max_size=3),
)
def test_any_json_is_a_request_or_a_config_error(body: dict[str, Any], parts: list[Any]) -> None:
    """Whatever is sent is read, or refused with what is wrong; nothing else is raised."""
    for role in ("user", "model"):
        asked = {"contents": [said(*parts, role="user"), said(*parts, role=role)], **body}
        with suppress(ConfigError):
            assert isinstance(parse_gemini_request(asked, "m"), Request)
