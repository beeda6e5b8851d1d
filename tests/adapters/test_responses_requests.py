"""Requests of the Responses API: what was asked for is what is written, and what can't be written is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from folding import event, fold
from sdks import TypeOf, openai
from streamfold import ConfigError, Message, NamedTool, Provider, Tool, ToolCall, assistant, system, tool_result, user
from streamfold.adapters import EncodingReport
from streamfold.adapters.responses import ResponsesAdapter, ResponsesQuirks
from streamfold.requests.request import Request
from streamfold.types.tools import AllowedTools
from tables import each_row

BODY = TypeOf(lambda: openai.types.responses.response_create_params.ResponseCreateParamsStreaming)
WEATHER = Tool("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
WEATHER_API = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
ENCRYPTED = ["reasoning.encrypted_content"]


def plain(value: Any) -> Any:
    """A validated value as it was; pydantic checks what is iterable only when it is iterated over."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | Iterator) else value


def write(
    messages: Any,
    tools: Any = None,
    tool_choice: Any = "auto",
    quirks: ResponsesQuirks | None = None,
    *,
    documented: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """The body of a request. `documented`: OpenAI's own types know all of it and miss nothing."""
    body = ResponsesAdapter(quirks).encode(Request.read("m", messages, tools, tool_choice, options), EncodingReport())
    assert json.loads(json.dumps(body)) == body
    if documented:
        assert plain(BODY.validate_python(body)) == body
    return body


def items(messages: Any, **options: Any) -> Any:
    """The input items of a request."""
    return write(messages, **options)["input"]


def answered(*output: dict[str, Any], **members: Any) -> Message:
    """The assistant's turn as an answer with these items gives it."""
    body = event({"type": "response.completed", "response": {"status": "completed", "output": output, **members}})
    return fold(body, adapter="responses").message


def test_a_bare_string():
    """One user message, and nothing kept by the provider."""
    assert write("Hi") == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "include": ENCRYPTED,
    }


def test_a_conversation():
    """Each role, calls and results by the call's id, and the model's own argument text."""
    call = ToolCall("functions.get_weather:0", "get_weather", {"city": "Oslo"}, '{"city": "Oslo"}')
    assert items([
        system("Be brief."), Message("developer", "No jokes."), user("Oslo?"),
        assistant("Let me see.", tool_calls=[call], reasoning="Hm."), tool_result(call, {"celsius": -3}),
        Message("assistant", "Cold.", refusal="No more."),
    ]) == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"type": "message", "role": "developer", "content": "No jokes."},
        {"type": "message", "role": "user", "content": "Oslo?"},
        {
            "type": "message", "role": "assistant", "id": "msg_3", "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {
            "type": "function_call", "call_id": "functions.get_weather:0", "name": "get_weather",
            "arguments": '{"city": "Oslo"}',
        },
        {"type": "function_call_output", "call_id": "functions.get_weather:0", "output": '{"celsius": -3}'},
        {
            "type": "message", "role": "assistant", "id": "msg_5", "status": "completed",
            "content": [
                {"type": "output_text", "text": "Cold.", "annotations": []},
                {"type": "refusal", "refusal": "No more."},
            ],
        },
    ]  # fmt: skip


def test_dicts_of_chat_completions():
    """They are read as messages are, whatever their spelling leaves null."""
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Oslo?", "name": None},
        {
            "role": "assistant", "content": None, "refusal": None, "annotations": [], "function_call": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": [{"type": "text", "text": "42"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 42."}]},
    ]  # fmt: skip
    messages = [
        system("Be brief."), user("Oslo?"), assistant(tool_calls=[ToolCall("c", "f", {"x": 1}, '{"x": 1}')]),
        Message("tool", [{"type": "text", "text": "42"}], tool_call_id="c"), assistant("It is 42."),
    ]  # fmt: skip
    assert items(chat) == items(messages)
    assert items(chat)[2:4] == [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "42"}]},
    ]


def test_content_parts():
    """Text, images and files of Chat Completions in this API's spelling; parts that have it stay as they are."""
    breakpoint_ = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    parts = [
        ({"type": "text", "text": "a", **breakpoint_}, {"type": "input_text", "text": "a", **breakpoint_}),
        (
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
            {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "low"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE="}},
            {"type": "input_image", "image_url": "data:image/png;base64,AAE=", "detail": "auto"},
        ),
        (
            {"type": "image_url", "image_url": "https://x.test/a.png"},
            {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAE="}},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAE="},
        ),
        ({"type": "file", "file": {"file_id": "file_1"}}, {"type": "input_file", "file_id": "file_1"}),
        ({"type": "input_text", "text": "b"}, {"type": "input_text", "text": "b"}),
    ]
    wanted = [{"type": "message", "role": "user", "content": [api for _, api in parts]}]
    assert items([user([chat for chat, _ in parts])]) == wanted
    assert items([{"role": "user", "content": [chat for chat, _ in parts]}]) == wanted


def test_items_pass():
    """What is an item already goes as it is, ids and all."""
    given = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
        {"type": "item_reference", "id": "msg_1"},
    ]
    assert items(given) == given
    assert items([{"role": "assistant", "content": "Hi", "phase": "commentary"}]) == [
        {"type": "message", "role": "assistant", "content": "Hi", "phase": "commentary"}
    ]


# --- an answer that goes back ----------------------------------------------------------------------------------------

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
CALL = {
    "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"x":1}',
    "status": "completed",
}  # fmt: skip
TEXT = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}  # fmt: skip
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}


def test_an_answer_goes_back_as_it_came():
    """Reasoning, hosted items, messages and calls in their order, with their ids."""
    output = [REASONING, SEARCH, TEXT, {**REASONING, "id": "rs_2"}, CALL, {**CALL, "id": "fc_2", "call_id": "call_2"}]
    assert items([answered(*output)]) == output


def test_members_that_are_refused_stay_here():
    """OpenAI sends a status with reasoning and refuses it in the input (BerriAI/litellm#13420)."""
    output = [{**REASONING, "status": "completed"}, {**CALL, "created_by": "me"}]
    assert items([answered(*output)]) == [REASONING, CALL]


def test_program_calls_go_back_with_their_caller():
    """What a call has beside its name and arguments is part of it, also where the items are not there any more."""
    call = {**CALL, "namespace": "crm", "caller": {"type": "program", "caller_id": "p"}}
    message = answered(call)
    assert items([message]) == [call]
    made = {name: value for name, value in call.items() if name not in ("id", "status")}
    assert items([replace(message, extras={})]) == [made]


def test_arguments_that_were_never_sent_go_back_as_an_object():
    """Servers parse the text of the arguments, and no text at all does not parse."""
    assert items([answered({**CALL, "arguments": ""})]) == [{**CALL, "arguments": "{}"}]
    sent = items([Message("assistant", tool_calls=(ToolCall("a", "ping", {}, ""),))])
    assert sent == [{"type": "function_call", "call_id": "a", "name": "ping", "arguments": "{}"}]


def test_calls_count_as_the_message_has_them():
    """A call whose arguments were repaired, or changed, goes back with them."""
    message = answered(REASONING, CALL)
    call = replace(message.tool_calls[0], raw_arguments='{"x":2}')
    assert items([replace(message, tool_calls=(call,))]) == [REASONING, {**CALL, "arguments": '{"x":2}'}]


@pytest.mark.parametrize(
    "changed", [{"content": "Bye"}, {"tool_calls": ()}, {"tool_calls": (ToolCall("other", "f", {"x": 1}, '{"x":1}'),)}]
)
def test_a_message_that_was_changed_is_what_it_says(changed: dict[str, Any]):
    """The items of an answer are not sent in place of what a caller made of it."""
    message = replace(answered(REASONING, TEXT, CALL), **changed)
    assert items([message]) == items([replace(message, extras={})])
    assert all(item["type"] != "reasoning" for item in items([message]))


def test_the_calls_of_a_cut_answer_do_not_go_back():
    """They were not handed out, so that nobody can answer them."""
    message = answered(TEXT, CALL, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert [item["type"] for item in items([message])] == ["message"]


def test_reasoning_that_nobody_keeps():
    """Without encrypted or full text its id would be looked up, in vain; a summary can be read without it."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    summary = {**bare, "summary": [{"type": "summary_text", "text": "Hm."}]}
    full = {**bare, "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": ""}
    nameless = {name: value for name, value in summary.items() if name != "id"}
    assert items([answered(bare, TEXT)]) == [TEXT]
    assert items([answered(summary, TEXT)], documented=False) == [nameless, TEXT]
    assert items([answered(full, TEXT)]) == [full, TEXT]
    assert items([answered(bare, summary, TEXT)], extra_body={"store": True}) == [bare, summary, TEXT]


# --- what is kept by the provider ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_going_on_from_what_is_kept(name: str):
    """Then `store` is left alone, and made-up ids would be looked up."""
    body = write([user("And?"), assistant("Hm.")], extra_body={name: "resp_1"}, documented=False)
    assert body[name] == "resp_1"
    assert not {"store", "include"} & set(body)
    assert "id" not in body["input"][1]


@each_row(
    ("quirks", "extra_body", "said"),
    [
        (ResponsesQuirks(), {}, {"store": False, "include": ENCRYPTED}),
        (ResponsesQuirks(encrypted_reasoning=False), {}, {"store": False}),
        (ResponsesQuirks(store=None), {}, {}),
        (ResponsesQuirks(store=True), {}, {"store": True}),
        (ResponsesQuirks(), {"store": True}, {"store": True}),
        (ResponsesQuirks(store=None), {"store": False}, {"store": False, "include": ENCRYPTED}),
        (ResponsesQuirks(), {"include": []}, {"store": False, "include": []}),
        (ResponsesQuirks(), {"background": True}, {"background": True}),
    ],
)
def test_store(quirks: ResponsesQuirks, extra_body: dict[str, Any], said: dict[str, Any]):
    """Nothing is kept unless it is asked for, and encrypted reasoning is wanted where nothing is kept."""
    body = write("x", quirks=quirks, extra_body=extra_body)
    assert {name: body[name] for name in ("store", "include", "background") if name in body} == said


# --- tools and options -----------------------------------------------------------------------------------------------


@each_row(
    ("choice", "api"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (None, "auto"),
        *[
            (spelling, {"type": "function", "name": "get_weather"})
            for spelling in (
                NamedTool("get_weather"),
                {"type": "function", "function": {"name": "get_weather"}},
                {"type": "function", "name": "get_weather"},
            )
        ],
        (
            AllowedTools(("get_weather",), "required"),
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
        ),
    ],
)
def test_tool_choice(choice: Any, api: Any):
    """Every accepted spelling becomes the one of this API, in which names are not nested."""
    body = write("x", [WEATHER], choice)
    assert (body["tool_choice"], body["tools"]) == (api, [WEATHER_API])


def test_tools_in_either_spelling():
    """Tools are read in the shape of both OpenAI APIs; strict is what the tool says, and false otherwise."""
    function = {**{name: value for name, value in WEATHER_API.items() if name != "type"}, "name": "other"}
    nested = {"type": "function", "function": {**function, "strict": True}}
    wanted = [{**WEATHER_API, "name": "other", "strict": True}, WEATHER_API]
    assert write("x", [nested, WEATHER_API])["tools"] == wanted


def test_no_tools():
    """No tools, no tool choice."""
    assert not {"tools", "tool_choice"} & set(write("x", []))


def test_options():
    """What is said is sent under the API's names."""
    body = write("x", temperature=0.0, top_p=0.9, max_output_tokens=10, parallel_tool_calls=False,
                 reasoning_effort="low", extra_body={"metadata": {"a": "b"}, "top_p": 0.5})  # fmt: skip
    del body["input"]
    assert body == {
        "model": "m", "stream": True, "store": False, "include": ENCRYPTED, "temperature": 0.0, "top_p": 0.5,
        "max_output_tokens": 10, "parallel_tool_calls": False, "reasoning": {"effort": "low"}, "metadata": {"a": "b"},
    }  # fmt: skip


@each_row(
    ("asked", "code"),
    [
        ({"stop": "END"}, "option_emulated"),
        ({"stop": ["a"]}, "option_emulated"),
        ({"seed": 1}, "option_dropped"),
        ({"max_output_tokens": 9}, "option_changed"),
    ],
)
def test_options_that_the_api_can_not_carry(asked: dict[str, Any], code: str) -> None:
    """They are left out, emulated or clamped, each with a warning; or refused by name, if that is wanted."""
    ready = ResponsesAdapter().prepare(Request.read("m", "x", [], "auto", asked))
    assert [warning.code for warning in ready.warnings] == [code]
    assert not {"stop", "seed"} & json.loads(ready.body).keys()
    with pytest.raises(ConfigError, match="strict"):
        ResponsesAdapter().prepare(Request.read("m", "x", [], "auto", {**asked, "unsupported_options": "strict"}))


class Answer(BaseModel):
    value: int


@pytest.mark.parametrize(
    ("wanted", "api"),
    [
        ("json", {"type": "json_object"}),
        ({"type": "object"}, {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}),
        (Answer, {"type": "json_schema", "name": "Answer", "schema": Answer.model_json_schema()}),
    ],
)
def test_response_format(wanted: Any, api: dict[str, Any]):
    """It is the format of the text."""
    assert write("x", response_format=wanted)["text"] == {"format": api}


def test_extra_body_adds_to_what_is_there():
    """Other members of `text` and `reasoning` do not take back what an option says; the same ones win."""
    extra = {"text": {"verbosity": "low"}, "reasoning": {"summary": "auto"}}
    body = write("x", response_format="json", reasoning_effort="low", extra_body=extra)
    assert body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert write("x", reasoning_effort="low", extra_body={"reasoning": {"effort": "high"}})["reasoning"] == {
        "effort": "high"
    }
    assert write("x", extra_body=extra)["text"] == {"verbosity": "low"}


def test_system_as_instructions():
    """Only the system messages that open the conversation, and only for servers that want them there."""
    messages = [system("One."), {"role": "developer", "content": "Two."}, user("Hi"), system("Three.")]
    body = write(messages, quirks=ResponsesQuirks(system_as_instructions=True))
    assert body["instructions"] == "One.\n\nTwo."
    assert [item["role"] for item in body["input"]] == ["user", "system"]
    assert "instructions" not in write([user("Hi")], quirks=ResponsesQuirks(system_as_instructions=True))


@each_row(
    ("message", "words"),
    [
        ({"role": "function", "name": "f", "content": "42"}, "the role 'function'"),
        ({"role": "tool", "content": "42"}, "no tool_call_id"),
        ({"role": "user", "content": ["Hi"]}, "a content part"),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, "a function_call"),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, "a tool call"),
        ({"role": "assistant", "tool_calls": 5}, "tool_calls"),
        ({"role": "user", "content": 5}, "content"),
    ],
)
def test_messages_that_can_not_be_sent(message: dict[str, Any], words: str):
    """They are refused with their position and the reason."""
    with pytest.raises(ConfigError, match=words) as caught:
        write([user("Hi"), message])
    assert "messages[1]" in str(caught.value)


def test_what_is_given_is_not_changed():
    """Encoding makes new values."""
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    output = [REASONING, {**CALL, "arguments": ""}]
    turn = answered(*output)
    before = json.dumps([message, turn.extras])
    write([message, turn])
    assert json.dumps([message, turn.extras]) == before


def test_quirks_in_a_configuration():
    """They are written as every adapter's are."""
    spec = {"adapter": "responses", "base_url": "https://x.test/v1", "model": "m", "quirks": {"store": True}}
    assert Provider.from_config(spec).profile.quirks == {"store": True}
    with pytest.raises(ConfigError, match="stor"):
        Provider.from_config({**spec, "quirks": {"stor": True}})


# --- OpenAI's own types ----------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[2] / "fixtures"
EVENT = TypeOf(lambda: openai.types.responses.ResponseStreamEvent)


@pytest.mark.parametrize("name", ["openai/responses_parallel_calls", "transformers/responses_think_say_call"])
def test_fixtures_as_documented(name: str):
    """Each event is one by OpenAI's types: the other servers' streams miss members that these demand."""
    for line in (FIXTURES / f"{name}.sse").read_text("utf-8").splitlines():
        if line.startswith("data: {"):
            EVENT.validate_json(line.removeprefix("data: "))


def test_plain_text_with_members_of_a_server():
    """Servers that support only text get all texts of an assistant message, also of a part with unknown members."""
    part = {"type": "text", "text": "Hello", "annotations": []}
    written = items([user("Hi"), assistant([part]), user("Bye")], quirks=ResponsesQuirks(returned_items="plain"))
    assert written[1] == {"type": "message", "role": "assistant", "content": "Hello"}
