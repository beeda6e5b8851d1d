"""Requests of both APIs, read: what our encoders wrote comes back equal, and a mistake is told with the path to it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold import (
    AllowedTools,
    ConfigError,
    Message,
    NamedTool,
    Tool,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.responses import ResponsesAdapter, ResponsesQuirks
from streamfold.requests import Options, Request, ResponseFormat
from streamfold.serving.chat.request import parse_chat_request as parse_chat
from streamfold.serving.chat.request import wants_usage
from streamfold.serving.request_parsing import wants_stream
from streamfold.serving.responses.request import parse_responses_request as parse_responses
from streamfold.types import AudioPart, FilePart, ImagePart, TextPart
from tables import each_row

PARSE = {"chat": parse_chat, "responses": parse_responses}
ADAPTER: dict[str, Any] = {
    "chat": ChatAdapter(ChatQuirks(reasoning_field="reasoning_content", result_images=True)),
    "responses": ResponsesAdapter(ResponsesQuirks(store=None, encrypted_reasoning=False)),
}
WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}, False)
CALL = ToolCall("functions.get_weather:0", "get_weather", {"city": "Oslo"}, '{"city": "Oslo"}')
HI: dict[str, Any] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "m", "input": "Hi"},
}

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=9)
names = st.from_regex(r"[a-z_]{1,9}", fullmatch=True)
data = st.binary(max_size=9)
numbers = st.floats(0, 2) | st.integers(0, 2)
schemas = st.sampled_from([WEATHER.parameters, {"type": "object", "properties": {}, "default": None}])


@st.composite
def tool_calls(draw: st.DrawFn) -> ToolCall:
    raw = draw(st.sampled_from(['{"x": 1}', "{}", '{"x":', "[1]", '{"a":"\u2028"}', "null"]))
    try:
        value = json.loads(raw)
    except ValueError:
        value = raw
    value = {} if value is None else value if isinstance(value, dict) else {"_raw": raw, "_error": "invalid_json"}
    return ToolCall(draw(words), draw(names), value, raw)


def parts(api: str) -> st.SearchStrategy[Any]:
    urls = st.just("https://example.com/a.png")
    detail: Any = st.sampled_from([None, "low", "high"] if api == "responses" else [None, "auto", "low"])
    kinds: list[Any] = [
        st.builds(TextPart, words),
        st.builds(ImagePart, url=urls, detail=detail),
        st.builds(ImagePart, data=data, media_type=st.just("image/png"), detail=detail),
        st.builds(FilePart, file_id=words),
        st.builds(FilePart, data=data, media_type=st.just("application/pdf"), name=words),
    ]
    if api == "chat":
        kinds.append(
            st.builds(AudioPart, data=data, media_type=st.sampled_from(["audio/wav", "audio/mpeg", "audio/flac"]))
        )
    else:
        kinds += [st.builds(ImagePart, file_id=words, detail=detail), st.builds(FilePart, url=urls)]
    return st.one_of(kinds)


@st.composite
def messages(draw: st.DrawFn, api: str) -> Message:
    role: Any = draw(st.sampled_from(["system", "developer", "user", "assistant", "tool"]))
    if role in ("system", "developer"):
        return Message(role, draw(words))
    if role == "assistant":
        calls, content = draw(st.lists(tool_calls(), max_size=2)), draw(st.none() | words)
        refusal = draw(st.none() | words)
        reasoning = draw(st.none() | words | st.just("")) if api == "chat" else None
        if not (content or calls or refusal):
            content = "-"
        return Message(role, content, tuple(calls), reasoning=reasoning, refusal=refusal)
    content = draw(words | st.lists(parts(api), min_size=1, max_size=3).map(tuple))
    named = role == "user" and api == "chat" and draw(st.booleans())
    return Message(role, content, tool_call_id=draw(words) if role == "tool" else None, name="Ada" if named else None)


def in_turns(conversation: list[Message]) -> tuple[Message, ...]:
    """Without two turns of the model in a row, which are one on the wire that has items."""
    kept: list[Message] = []
    for message in conversation:
        if not (kept and kept[-1].role == message.role == "assistant"):
            kept.append(message)
    return tuple(kept)


@st.composite
def requests(draw: st.DrawFn, api: str) -> Request:
    conversation = draw(st.lists(messages(api), min_size=1, max_size=5).map(in_turns))
    strict = st.booleans() if api == "responses" else st.none() | st.booleans()
    tools = draw(
        st.lists(st.builds(Tool, names, words | st.just(""), schemas, strict), max_size=3, unique_by=lambda t: t.name)
    )
    choice: Any = "auto"
    if tools:
        choice = draw(
            st.sampled_from(
                ["auto", "none", "required", NamedTool(tools[0].name), AllowedTools((tools[-1].name,), "required")]
            )
        )
    chat = api == "chat"
    options = Options(
        temperature=draw(st.none() | numbers),
        top_p=draw(st.none() | numbers),
        max_output_tokens=draw(st.none() | st.integers(1, 9)),
        stop=draw(st.none() | words | st.lists(words, min_size=1, max_size=2)) if chat else None,
        seed=draw(st.none() | st.integers()) if chat else None,
        parallel_tool_calls=draw(st.none() | st.booleans()),
        reasoning_effort=draw(st.sampled_from([None, "low", "high"])),
        response_format=draw(
            st.none()
            | st.just(ResponseFormat())
            | st.builds(ResponseFormat, schemas, names, st.none() | st.booleans(), description=st.none() | words)
        ),
        extra_body=draw(st.sampled_from([{}, {"user": "u"}, {"metadata": {"a": "b"}, "top_k": 3}])),
    )
    return Request("m", conversation, tuple(tools), choice, options)


@pytest.mark.parametrize("api", ["chat", "responses"])
@settings(deadline=None, max_examples=examples(80))
@given(st.data())
def test_what_was_encoded_is_parsed(api: str, data: st.DataObject) -> None:
    """Messages, images, files, results, tools, choice and options, equal to what they were."""
    request = data.draw(requests(api))
    body = json.loads(json.dumps(ADAPTER[api].encode(request, EncodingReport())))
    assert PARSE[api](body) == request
    assert wants_stream(body)


@pytest.mark.parametrize("api", ["chat", "responses"])
@settings(deadline=None, max_examples=examples(50))
@given(st.data())
def test_what_was_parsed_is_encoded(api: str, data: st.DataObject) -> None:
    """The other way round: a body that was read is written as it was."""
    body = json.loads(json.dumps(ADAPTER[api].encode(data.draw(requests(api)), EncodingReport())))
    assert json.loads(json.dumps(ADAPTER[api].encode(PARSE[api](body), EncodingReport()))) == body


# --- Chat Completions -------------------------------------------------------------------------------------------------


def test_a_chat_request() -> None:
    """What we know becomes ours; what we do not know goes on in `extra_body`; how the answer travels is not in it."""
    body = {
        "model": "main",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "https://x/y"}],
            },
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "",
                "tool_calls": [
                    {
                        "id": CALL.id,
                        "type": "function",
                        "function": {"name": CALL.name, "arguments": CALL.raw_arguments},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": CALL.id, "content": "18"},
        ],
        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "max_completion_tokens": 5,
        "n": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "u1",
        "top_k": 4,
        "frequency_penalty": None,
    }
    request = parse_chat(body)
    assert request == Request(
        "main",
        (
            system("Be brief."),
            user("See", ImagePart(url="https://x/y")),
            assistant(tool_calls=[CALL], reasoning=""),
            tool_result(CALL, "18"),
        ),
        (Tool("get_weather"),),
        NamedTool("get_weather"),
        Options(max_output_tokens=5, extra_body={"user": "u1", "top_k": 4}),
    )
    assert request.messages[2].tool_calls[0].extra == {"extra_content": {"google": {"thought_signature": "s"}}}  # type: ignore[union-attr]
    assert (wants_stream(body), wants_usage(body), wants_stream({}), wants_usage({})) == (True, True, False, False)


def test_what_clients_leave_in_their_history() -> None:
    """Nulls, empty lists and the number of a streamed call say nothing, and make no message another one."""
    function = {"name": CALL.name, "arguments": CALL.raw_arguments, "parsed_arguments": None}
    message = {
        "role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None, "function_call": None,
        "tool_calls": [{"id": CALL.id, "index": 0, "type": "function", "function": function}],
    }  # fmt: skip
    assert parse_chat({"model": "m", "messages": [message]}).messages == (assistant(tool_calls=[CALL]),)


def test_what_has_no_place_in_ours_is_kept() -> None:
    """Unknown members of a message are its extras, and a part with unknown members stays a dict; both are sent."""
    cached = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    spoken = {"role": "assistant", "content": "x", "audio": {"id": "audio_1"}}
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    request = parse_chat({"model": "m", "messages": [cached, spoken, legacy]})
    assert request.messages == (
        Message("user", (cached["content"][0],)),  # type: ignore[arg-type]
        Message("assistant", "x", extras={"audio": {"id": "audio_1"}}),
        Message("assistant", extras={"function_call": {"name": "f", "arguments": "{}"}}),
    )
    assert ChatAdapter().encode(request, EncodingReport())["messages"] == [cached, spoken, legacy]


@each_row(
    ("members", "message"),
    [
        ({"model": None}, "model is missing: it must be a string"),
        ({"model": 5}, "model must be a string, not a number"),
        ({"messages": None}, "messages is missing"),
        ({"messages": []}, "messages is empty"),
        ({"messages": "Hi"}, "messages must be a list, not a string"),
        ({"messages": ["Hi"]}, "messages[0] is a string without a role: write user('Hi')"),
        ({"messages": [{"content": "x"}]}, "messages[0].role is missing"),
        ({"messages": [{"role": "usr"}]}, "messages[0].role: unknown role 'usr' (did you mean 'user'?)"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content must be a string, a list of parts or null",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].image_url.url is missing",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]},
            "messages[0].content[0].image_url.url: a data URL has the form",
        ),
        ({"n": 2}, "n must be 1, not 2"),
        ({"logprobs": True}, "logprobs can't be requested"),
        ({"temperature": "0.5"}, "temperature must be a number, not a string"),
        ({"max_tokens": 5.5}, "max_tokens must be a whole number, not a number"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens and max_completion_tokens differ"),
        ({"stop": [1]}, "stop must be a string or a list of strings, not a list"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls must be true or false, not a number"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type is 'custom'. Allowed: function"),
        ({"tools": [{"type": "function"}]}, "tools[0].function is missing"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name is missing"),
        ({"tool_choice": "required"}, "tool_choice requires a tool call, but there are no tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice requires a tool call"),
        ({"tool_choice": "any"}, "tool_choice must be 'auto', 'none', 'required'"),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type must be text, json_object or json_schema, not 'xml'",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema is missing",
        ),
        ({"stream": "yes"}, "stream must be true or false, not a string"),
    ],
)
def test_a_mistake_in_a_chat_request(members: dict[str, Any], message: str) -> None:
    """It is a ConfigError that begins with the path to it."""
    body = {**HI["chat"], **members}
    with pytest.raises(ConfigError) as caught:
        parse_chat(body), wants_stream(body)
    assert str(caught.value).startswith(message)


@each_row("api", ["chat", "responses"])
@each_row("body", [None, [], "x", 5])
def test_no_object(api: str, body: Any) -> None:
    """A body that is no object is told so."""
    with pytest.raises(ConfigError, match="the body must be an object, not"):
        PARSE[api](body)


# --- Responses --------------------------------------------------------------------------------------------------------


def test_a_request_of_the_responses_api() -> None:
    """Items become turns: what the model said in a row is one message."""
    body = {
        "model": "main",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "content": [{"type": "output_text", "text": "One moment."}],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": CALL.id,
                "name": CALL.name,
                "arguments": CALL.raw_arguments,
            },
            {"type": "function_call_output", "call_id": CALL.id, "output": "18"},
        ],
        "tools": [{"type": "function", "name": "get_weather", "parameters": None, "strict": None}],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "get_weather"}],
        },
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "max_output_tokens": 5,
        "store": False,
        "previous_response_id": None,
        "stream": True,
    }
    assert parse_responses(body) == Request(
        "main",
        (
            system("Be brief."),
            user(TextPart("Hi")),
            Message("assistant", "One moment.", (CALL,), extras={"output": body["input"][1:3]}),  # type: ignore[index]
            tool_result(CALL, "18"),
        ),
        (Tool("get_weather"),),
        AllowedTools(("get_weather",), "required"),
        Options(
            max_output_tokens=5,
            reasoning_effort="low",
            response_format=ResponseFormat(),
            extra_body={"store": False, "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}},
        ),
    )


def test_a_turn_that_no_message_holds_keeps_its_items() -> None:
    """Encrypted reasoning, several messages and text after a call go back as they came; elsewhere they are one turn."""
    items = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "E",
        },
        {"type": "function_call", "id": "fc_1", "call_id": CALL.id, "name": CALL.name, "arguments": CALL.raw_arguments},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "After."}]},
    ]
    result = {"type": "function_call_output", "call_id": CALL.id, "output": "18"}
    request = parse_responses({"model": "m", "input": [{"role": "user", "content": "Hi"}, *items, result]})
    turn = request.messages[1]
    assert turn == replace(assistant("After.", tool_calls=[CALL], reasoning="Hm."), extras={"output": items})
    assert ADAPTER["responses"].encode(request, EncodingReport())["input"][1:] == [*items, result]
    written = ADAPTER["chat"].encode(request, EncodingReport())["messages"][1]
    assert (written["content"], written["reasoning_content"], len(written["tool_calls"])) == ("After.", "Hm.", 1)


def test_items_of_other_kinds_stay_what_they_are() -> None:
    """An item of an unknown type goes on as it is, and is left out for an API that has no place for it."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    request = parse_responses({"model": "m", "input": [{"role": "user", "content": "Hi"}, search]})
    assert request.messages == (user("Hi"), Message("assistant", extras={"output": [search]}))
    assert ADAPTER["responses"].encode(request, EncodingReport())["input"][1] == search
    (warning,) = ChatAdapter().prepare(request).warnings
    assert "only items of the Responses API (web_search_call) was left out" in warning.detail


@each_row(
    ("members", "message"),
    [
        ({"model": ""}, "model is empty: it must be a string"),
        ({"input": None}, "input is missing"),
        ({"input": []}, "input is empty"),
        ({"input": {"role": "user"}}, "input must be a string or a list of items, not an object"),
        ({"input": [5]}, "input[0] must be an object, not a number"),
        ({"input": [{"role": "usr", "content": "x"}]}, "input[0].role: unknown role 'usr' (did you mean 'user'?)"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": None}]},
            "input[0].content must be a string or a list of parts, not null",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text is missing"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].image_url is missing",
        ),
        (
            {"input": [{"role": "assistant", "content": [{"type": "input_image"}]}]},
            "input[0].content[0] must be an output_text or a refusal",
        ),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id is missing"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id is missing"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0] refers to an item by its id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id can't be used, because nothing is stored here"),
        ({"conversation": "conv_1"}, "conversation can't be used, because nothing is stored here"),
        ({"background": True}, "background can't be used"),
        ({"n": 3}, "n must be 1, not 3"),
        ({"tools": [{"name": "f"}, "f"]}, "tools[0].type is missing"),
        ({"tools": [{"type": "custom"}, "f"]}, "tools[1] must be an object, not a string"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name is missing"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice requires a tool call"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema is missing"),
        ({"reasoning": "low"}, "reasoning must be an object, not a string"),
    ],
)
def test_a_mistake_in_a_request_of_the_responses_api(members: dict[str, Any], message: str) -> None:
    """It is a ConfigError that begins with the path to it."""
    with pytest.raises(ConfigError) as caught:
        parse_responses({**HI["responses"], **members})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("api", ["chat", "responses"])
@settings(deadline=None, max_examples=examples(100))
@given(st.data())
def test_any_json_is_a_request_or_a_config_error(api: str, data: st.DataObject) -> None:
    """Whatever is sent, the answer is a request or says what is wrong; nothing else is raised."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
        max_leaves=8,
    )
    body = {**HI[api], **data.draw(st.dictionaries(_KEYS, values, max_size=4))}
    with suppress(ConfigError):
        assert isinstance(PARSE[api](body), Request)


_KEYS = st.sampled_from(
    [
        "model",
        "messages",
        "input",
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "detail",
        "tools",
        "function",
        "name",
        "parameters",
        "tool_choice",
        "tool_calls",
        "id",
        "call_id",
        "arguments",
        "output",
        "summary",
        "reasoning",
        "effort",
        "response_format",
        "json_schema",
        "schema",
        "strict",
        "stop",
        "file",
        "file_data",
        "file_id",
        "input_audio",
        "data",
        "format",
        "instructions",
        "n",
        "stream",
        "mode",
        "refusal",
    ]
)
