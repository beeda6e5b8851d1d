"""The same conversations on every API: what is sent, and that an answer of one is a turn of any other.

`CONVERSATIONS` is the one table. A row has a request in our own words, and its body as each API writes it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from answers_by_api import APIS as ANSWERS
from answers_by_api import Answer, told
from folding import fold
from sdks import TypeOf, openai
from streamfold import (
    BadRequestError,
    ConfigError,
    Message,
    NamedTool,
    Provider,
    Tool,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from streamfold.adapters import Adapter, EncodingReport
from streamfold.config import read_profile
from streamfold.requests.request import Request
from tables import each_row

APIS = ("chat", "responses", "kimi")
EVERY_API = ("anthropic", "chat", "gemini", "kimi", "responses")
MODELS = {"chat": "m", "responses": "m", "kimi": "kimi-k2.6"}
CHAT_BODY = TypeOf(lambda: openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)
RESPONSES_BODY = TypeOf(lambda: openai.types.responses.response_create_params.ResponseCreateParamsStreaming)


# --- what every body of an API has ------------------------------------------------------------------------------------


def chat(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body of Chat Completions."""
    common = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    return {**common, "messages": list(messages), **members}


def responses(*items: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body of the Responses API: nothing is stored, so that reasoning is wanted in a form that can be sent again."""
    common = {"model": "m", "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
    return {**common, "input": list(items), **members}


def kimi(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A body for Kimi."""
    return {**chat(*messages, **members), "model": "kimi-k2.6"}


# --- how each API writes the same turn -------------------------------------------------------------------------------


def called(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call in a turn of Chat Completions."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(text: str) -> dict[str, Any]:
    """What a user says, as an item."""
    return {"type": "message", "role": "user", "content": text}


def said(*parts: dict[str, Any], at: int) -> dict[str, Any]:
    """What the model says, as an item."""
    return {"type": "message", "role": "assistant", "id": f"msg_{at}", "status": "completed", "content": list(parts)}


def spoken(text: str) -> dict[str, Any]:
    """A text in such an item."""
    return {"type": "output_text", "text": text, "annotations": []}


# --- the tools --------------------------------------------------------------------------------------------------------

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "The weather.", CITY)
CLOCK = Tool("get_time", "The time.")
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": CITY}},
    {
        "type": "function",
        "function": {
            "name": "get_time", "description": "The time.", "parameters": {"type": "object", "properties": {}},
        },
    },
]  # fmt: skip
RESPONSES_TOOLS = [
    {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": CITY, "strict": False},
    {
        "type": "function", "name": "get_time", "description": "The time.",
        "parameters": {"type": "object", "properties": {}}, "strict": False,
    },
]  # fmt: skip
OSLO = ToolCall("call_1", "get_weather", {"city": "Oslo"}, '{"city": "Oslo"}')
LAGOS = ToolCall("call_2", "get_weather", {"city": "Lagos"}, '{"city":"Lagos"}')
NOW = ToolCall("call_3", "get_time", {}, "")


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversation:
    """A request and its body on each API. A word in place of a body is in the error: the API has no such thing.

    Attributes:
        changes: what the reply of each API will say that was not sent as asked.
    """

    name: str
    messages: list[Any]
    chat: dict[str, Any]
    responses: dict[str, Any]
    kimi: dict[str, Any] | str
    tools: tuple[Tool, ...] = ()
    tool_choice: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)


CONVERSATIONS = [
    Conversation(
        "plain",
        [system("Be brief."), user("Hello?")],
        chat=chat({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}),
        responses=responses(
            {"type": "message", "role": "system", "content": "Be brief."},
            asked("Hello?"),
        ),
        kimi=kimi({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}),
    ),
    Conversation(
        "parallel calls",
        [
            user("Oslo or Lagos?"), assistant("Both.", tool_calls=[OSLO, LAGOS]), tool_result(LAGOS, "31 °C"),
            tool_result(OSLO, "-3 °C"), user("And now?"),
        ],
        tools=(WEATHER, CLOCK),
        changes={"chat": ("history_repaired",), "kimi": ("lost_reasoning", "history_repaired", "ids_renumbered")},
        chat=chat(
            {"role": "user", "content": "Oslo or Lagos?"},
            {
                "role": "assistant",
                "content": "Both.",
                "tool_calls": [
                    called("call_1", "get_weather", '{"city": "Oslo"}'),
                    called("call_2", "get_weather", '{"city":"Lagos"}'),
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "-3 °C"},
            {"role": "tool", "tool_call_id": "call_2", "content": "31 °C"},
            {"role": "user", "content": "And now?"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
        responses=responses(
            asked("Oslo or Lagos?"),
            said(spoken("Both."), at=1),
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call", "call_id": "call_2", "name": "get_weather", "arguments": '{"city":"Lagos"}'},
            {"type": "function_call_output", "call_id": "call_2", "output": "31 °C"},
            {"type": "function_call_output", "call_id": "call_1", "output": "-3 °C"},
            asked("And now?"),
            tools=RESPONSES_TOOLS,
            tool_choice="auto",
        ),
        # The ids that the model itself would have given, and the sign that the turn may have no reasoning.
        kimi=kimi(
            {"role": "user", "content": "Oslo or Lagos?"},
            {
                "role": "assistant",
                "content": "Both.",
                "reasoning_content": "",
                "tool_calls": [
                    called("functions.get_weather:0", "get_weather", '{"city": "Oslo"}'),
                    called("functions.get_weather:1", "get_weather", '{"city":"Lagos"}'),
                ],
            },
            {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "-3 °C"},
            {"role": "tool", "tool_call_id": "functions.get_weather:1", "content": "31 °C"},
            {"role": "user", "content": "And now?"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
    ),
    Conversation(
        "reasoning",
        [user("One and one?"), assistant("2", reasoning="Easy."), user("And one?")],
        # OpenAI's two APIs have no reasoning that a client could write: only their own items go back.
        changes={"chat": ("reasoning_dropped",), "responses": ("reasoning_dropped",)},
        chat=chat(
            {"role": "user", "content": "One and one?"},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "And one?"},
        ),
        responses=responses(
            asked("One and one?"),
            said(spoken("2"), at=1),
            asked("And one?"),
        ),
        kimi=kimi(
            {"role": "user", "content": "One and one?"},
            {"role": "assistant", "content": "2", "reasoning_content": "Easy."},
            {"role": "user", "content": "And one?"},
        ),
    ),
    Conversation(
        "results as JSON",
        [
            user("Oslo, and the time?"), assistant(tool_calls=[OSLO, NOW]),
            tool_result(OSLO, {"celsius": -3.5, "sky": "grau – weiß", "wind": None}), tool_result(NOW, [12, True]),
        ],
        tools=(WEATHER, CLOCK),
        changes={"kimi": ("lost_reasoning", "ids_renumbered")},
        chat=chat(
            {"role": "user", "content": "Oslo, and the time?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    called("call_1", "get_weather", '{"city": "Oslo"}'),
                    called("call_3", "get_time", "{}"),
                ],
            },
            {
                "role": "tool", "tool_call_id": "call_1",
                "content": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"role": "tool", "tool_call_id": "call_3", "content": "[12, true]"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
        responses=responses(
            asked("Oslo, and the time?"),
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call", "call_id": "call_3", "name": "get_time", "arguments": "{}"},
            {
                "type": "function_call_output", "call_id": "call_1",
                "output": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"type": "function_call_output", "call_id": "call_3", "output": "[12, true]"},
            tools=RESPONSES_TOOLS,
            tool_choice="auto",
        ),
        kimi=kimi(
            {"role": "user", "content": "Oslo, and the time?"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "",
                "tool_calls": [
                    called("functions.get_weather:0", "get_weather", '{"city": "Oslo"}'),
                    called("functions.get_time:1", "get_time", "{}"),
                ],
            },
            {
                "role": "tool", "tool_call_id": "functions.get_weather:0",
                "content": '{"celsius": -3.5, "sky": "grau – weiß", "wind": null}',
            },
            {"role": "tool", "tool_call_id": "functions.get_time:1", "content": "[12, true]"},
            tools=CHAT_TOOLS,
            tool_choice="auto",
        ),
    ),
    Conversation(
        "image",
        [
            user([
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]),
        ],
        chat=chat(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
        ),
        responses=responses(
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                ],
            },
        ),
        kimi=kimi(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
        ),
    ),
    Conversation(
        "refusal",
        [user("Do it."), Message("assistant", refusal="I won't."), user("Please.")],
        chat=chat(
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": "I won't."},
            {"role": "user", "content": "Please."},
        ),
        responses=responses(
            asked("Do it."),
            said({"type": "refusal", "refusal": "I won't."}, at=1),
            asked("Please."),
        ),
        kimi=kimi(
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": "I won't."},
            {"role": "user", "content": "Please."},
        ),
        changes={"chat": ("history_repaired",), "kimi": ("history_repaired",)},  # only some have a place for it
    ),
    Conversation(
        "forced",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice=NamedTool("get_weather"),
        options={"disable_thinking_for_forced_tools": True},
        chat=chat(
            {"role": "user", "content": "Oslo?"},
            tools=CHAT_TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
        ),
        responses=responses(
            asked("Oslo?"),
            tools=RESPONSES_TOOLS,
            tool_choice={"type": "function", "name": "get_weather"},
        ),
        kimi=kimi(
            {"role": "user", "content": "Oslo?"},
            tools=CHAT_TOOLS,
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            thinking={"type": "disabled"},
        ),
    ),
    Conversation(
        "required",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice="required",
        chat=chat({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="required"),
        responses=responses(
            asked("Oslo?"), tools=RESPONSES_TOOLS, tool_choice="required"
        ),
        # It thinks, and nobody has allowed to stop that: the force can't be had.
        kimi=kimi({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="auto"),
        changes={"kimi": ("forced_choice_dropped",)},
    ),
    Conversation(
        "forbidden",
        [user("Oslo?")],
        tools=(WEATHER, CLOCK),
        tool_choice="none",
        chat=chat({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="none"),
        responses=responses(
            asked("Oslo?"), tools=RESPONSES_TOOLS, tool_choice="none"
        ),
        kimi=kimi({"role": "user", "content": "Oslo?"}, tools=CHAT_TOOLS, tool_choice="none"),
    ),
]  # fmt: skip
ROWS = {row.name: row for row in CONVERSATIONS}


# --- requests ---------------------------------------------------------------------------------------------------------


def adapter_for(api: str) -> Adapter:
    """The adapter as a provider uses it for the model of these conversations."""
    return read_profile({"adapter": api, "base_url": "http://test/v1"}).make_adapter(MODELS.get(api, "m"))


def prepare(api: str, row: Conversation, messages: list[Any] | None = None) -> tuple[Request, list[str]]:
    """A row's request as the API's endpoint takes it, and the codes of what was changed for that."""
    asked = Request.read(MODELS[api], messages or row.messages, list(row.tools), row.tool_choice, row.options)
    ready = adapter_for(api).prepare(asked)
    return ready.request, [warning.code for warning in ready.warnings]


def encode(api: str, row: Conversation, messages: list[Any] | None = None) -> dict[str, Any]:
    """A row's body, or that of other messages under the same conditions."""
    return adapter_for(api).encode(prepare(api, row, messages)[0], EncodingReport())


def plain(value: Any) -> Any:
    """A validated value as it was; pydantic checks what is iterable only when it is iterated over."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list | Iterator) else value


@each_row("api", APIS)
@each_row("name", ROWS)
def test_a_conversation_is_written_as_each_api_wants_it(name: str, api: str) -> None:
    """One conversation in our words, the API's own JSON out; what an API does not have is refused in words."""
    row = ROWS[name]
    wanted = getattr(row, api)
    if isinstance(wanted, str):
        with pytest.raises(ConfigError, match=wanted):
            encode(api, row)
        return
    body = encode(api, row)
    assert body == wanted
    assert json.loads(json.dumps(body)) == body
    assert tuple(prepare(api, row)[1]) == row.changes.get(api, ())


@each_row("api", EVERY_API)
async def test_a_preview_is_what_is_sent(api: str) -> None:
    """`preview` shows method, URL, headers and body of each conversation exactly as they are sent, without secrets."""
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(400, json={"error": {"message": "enough"}})

    config = {
        "adapter": api, "base_url": "https://example.com/v1", "model": MODELS.get(api, "m"),
        "api_key": "sk-the-key-itself",
        "headers": {"X-Team": "a-configured-value"},
    }  # fmt: skip
    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        provider = Provider.from_config(config, http_client=client)
        for row in CONVERSATIONS:
            asked: dict[str, Any] = {"tool_choice": row.tool_choice, "extra_headers": {"X-Trace": "9"}, **row.options}
            try:
                shown = provider.preview(row.messages, row.tools, **asked)
            except ConfigError as refusal:
                with pytest.raises(ConfigError, match=re.escape(str(refusal))):
                    await provider.chat(row.messages, row.tools, **asked)
                continue
            with pytest.raises(BadRequestError):
                await provider.chat(row.messages, row.tools, **asked)
            request = sent.pop()
            assert (shown.method, shown.url, shown.body) == (request.method, str(request.url), request.content)
            secret = {"Authorization": "***", "X-Team": "***", "X-Trace": "***"}
            assert {**{name: request.headers[name] for name in shown.headers}, **secret} == shown.headers
            assert "sk-the-key" not in repr(shown)
            changes = row.changes.get(api, ())  # those of the history come first
            assert not changes or tuple(warning.code for warning in shown.warnings)[-len(changes) :] == changes


@each_row("name", ROWS)
def test_chat_bodies_are_openais(name: str) -> None:
    """OpenAI's own types know all of a chat body, and miss nothing in it."""
    body = encode("chat", ROWS[name])
    assert plain(CHAT_BODY.validate_python(body)) == body


@each_row("name", ROWS)
def test_responses_bodies_are_openais(name: str) -> None:
    """OpenAI's own types know all of a Responses body, and miss nothing in it."""
    body = encode("responses", ROWS[name])
    assert plain(RESPONSES_BODY.validate_python(body)) == body


# --- answers ----------------------------------------------------------------------------------------------------------

AGAIN = Answer(("Again.",), (("call_1", "get_weather", {"city": "Oslo"}), ("call_2", "get_time", {})))


@each_row("sent", APIS)
@each_row("came", ANSWERS)
def test_an_answer_goes_on_by_another_api(came: str, sent: str) -> None:
    """The turn of one provider, with the results of its calls, is a turn of any other: ids and arguments fit."""
    message = fold(told(came, AGAIN, Random(came)).body, adapter=came).message
    results = [tool_result(call, call.name) for call in message.tool_calls]
    body = encode(sent, ROWS["parallel calls"], [user("And now?"), message, *results])
    weather, clock = (call.raw_arguments for call in message.tool_calls)
    if sent == "responses":
        own = [{name: item[name] for name in item if name not in ("id", "status")} for item in body["input"]]
        assert own == [
            asked("And now?"),
            {"type": "message", "role": "assistant", "content": [spoken("Again.")]},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": weather},
            {"type": "function_call", "call_id": "call_2", "name": "get_time", "arguments": clock},
            {"type": "function_call_output", "call_id": "call_1", "output": "get_weather"},
            {"type": "function_call_output", "call_id": "call_2", "output": "get_time"},
        ]
        return
    one, two = ("functions.get_weather:0", "functions.get_time:1") if sent == "kimi" else ("call_1", "call_2")
    calls = [called(one, "get_weather", weather), called(two, "get_time", clock)]
    turn = {"role": "assistant", "content": "Again.", "tool_calls": calls}
    assert body["messages"] == [
        {"role": "user", "content": "And now?"},
        turn | ({"reasoning_content": ""} if sent == "kimi" else {}),
        {"role": "tool", "tool_call_id": one, "content": "get_weather"},
        {"role": "tool", "tool_call_id": two, "content": "get_time"},
    ]


# --- the fixtures -----------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[2] / "fixtures"
# What is no chunk by OpenAI's types, on purpose: how it fails to be one, and why the fixture is there all the same.
DEVIATIONS = {
    "aimock/note": ("json_invalid", "the server cuts a character into two lone surrogates, which strict JSON refuses"),
    "aimock/unicode": ("json_invalid", "the same, in text"),
    "aimock/one_char": ("json_invalid", "the same, with every character"),
    "litellm/error_frame": ("missing", "an error object takes the place of a chunk"),
    "litellm/error_after_text": ("missing", "the same"),
    "azure/async_filter": ("missing literal_error", "what the filter says has no delta, and an empty `object`"),
    "azure/deployment_call": ("literal_error", "what the filter says of the prompt has an empty `object`"),
    "azure/filtered": ("model_type literal_error", "the filter ends the answer with `delta: null`"),
    "azure/prompt_filter": ("literal_error", "what the filter says of the prompt has an empty `object`"),
    "databricks/thinking_in_parts": ("string_type", "content is a list of parts while the model thinks"),
    "deepseek/out_of_resources": ("literal_error", "a finish reason of its own"),
    "openrouter/error_in_stream": ("literal_error", "the same"),
    "together/text_beside_delta": ("literal_error", "the same"),
    "zai/network_error": ("literal_error", "the same"),
    "zai/sensitive": ("literal_error", "the same"),
    "gemini/signatures": ("missing", "calls have no index"),
    "kimi/web_search": ("literal_error", "the provider's own tools have a type of their own"),
    "minimax/base_resp_error": ("list_type", "an error beside `choices: null`"),
    "mistral/thinking": ("string_type", "content is a list of parts while the model thinks"),
}
ABOUT = {f"{file.parent.name}/{file.stem}": tomllib.loads(file.read_text("utf-8")) for file in FOLDER.glob("*/*.toml")}
CHAT_FIXTURES = sorted(
    name
    for name, about in ABOUT.items()
    if about["adapter"] == "chat"
    and about["source"] in ("recorded", "documented")
    and name not in ("aimock/malformed", "cloudflare/refused")
)


@each_row("name", CHAT_FIXTURES)
def test_chat_fixtures_are_openais(name: str) -> None:
    """Every event of a fixture is a chunk by OpenAI's types, but for those that deviate, and they do it as is said."""
    problems = set()
    lines = (FOLDER / f"{name}.sse").read_bytes().decode("utf-8", "replace").split("\n")
    said = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    assert said
    for payload in said:
        try:
            openai.types.chat.ChatCompletionChunk.model_validate_json(payload)
        except ValidationError as exc:
            problems |= {problem["type"] for problem in exc.errors()}
    assert problems == (set(DEVIATIONS[name][0].split()) if name in DEVIATIONS else set())


def test_deviations_are_of_fixtures_that_are_there() -> None:
    """A fixture that is gone is not excused any more."""
    assert set(DEVIATIONS) <= set(CHAT_FIXTURES)
