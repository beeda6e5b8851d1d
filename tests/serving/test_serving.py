"""Messages and replies in the JSON of each API, and back."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfold import (
    ConfigError,
    IncompleteStreamError,
    Message,
    ProtocolError,
    Reply,
    StreamDecoder,
    StreamfoldError,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from streamfold.adapters import ExtraPart, Finish, TextDelta
from streamfold.serving import (
    ApiFormat,
    parse_messages,
    parse_reply,
    serialize_messages,
    serialize_reply,
    serialize_stream,
)
from streamfold.serving.interactions import InteractionsSerializer
from streamfold.testing import ScriptedProvider, Step, call, fail, say, think, usage
from streamfold.types import ImagePart, TextPart
from tables import each_row

APIS: list[ApiFormat] = ["chat", "responses", "anthropic", "gemini", "interactions"]
each_api = pytest.mark.parametrize("api", APIS)

# --- conversations ----------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=3)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
IDS = st.from_regex(r"[a-zA-Z0-9_.:-]{1,12}", fullmatch=True)
RESULTS = TEXTS | st.dictionaries(st.sampled_from(["output", "error", "a"]), VALUES, max_size=2)
PICTURES = st.binary(min_size=1, max_size=4).map(lambda data: ImagePart(data=data, media_type="image/png"))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A conversation as programs have them: questions, turns with calls and their results, perhaps open calls."""
    found = [system(text) for text in draw(st.lists(TEXTS, max_size=2))]
    ids = draw(st.lists(IDS, min_size=12, max_size=12, unique=True))
    for _ in range(draw(st.integers(1, 3))):
        found.append(user(*draw(st.lists(TEXTS | PICTURES, min_size=1, max_size=3))))
        for _ in range(draw(st.integers(0, 2))):
            calls = [_call(ids.pop(), draw(NAMES), draw(ARGUMENTS)) for _ in range(draw(st.integers(1, 2)))]
            found.append(_turn(draw, calls))
            found += [tool_result(each, draw(RESULTS), error=draw(st.booleans())) for each in calls]
        if draw(st.booleans()):
            found.append(_turn(draw, []))
    if found[-1].role != "assistant" and draw(st.booleans()):
        found.append(_turn(draw, [_call("open", "f", draw(ARGUMENTS))]))
    return found


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(call_id, name, arguments, json.dumps(arguments))


def _turn(draw: st.DrawFn, calls: list[ToolCall]) -> Message:
    text, refusal = draw(st.none() | TEXTS), draw(st.none() | TEXTS)
    said = text or ("" if calls or refusal else "Yes.")
    return Message("assistant", said or None, tuple(calls), reasoning=draw(st.none() | TEXTS), refusal=refusal)


def facts(messages: Iterable[Message], api: ApiFormat, lost: Collection[str]) -> list[Any]:
    """Returns what a conversation says, one fact after the other: not every API keeps where a message ends.

    Args:
        lost: the codes of the warnings about what the API can't hold.
    """
    found = list[Any]()
    numbers: dict[str, int] = {}
    for message in messages:
        content = message.content
        parts = (TextPart(content or ""),) if isinstance(content, str | None) else content
        texts: list[Any] = [
            (message.role, part.text) if isinstance(part, TextPart) else (message.role, part) for part in parts
        ]
        if message.refusal is not None:
            texts.append((message.role if "history_repaired" in lost else "refusal", message.refusal))
        if message.role == "tool":
            text, failed = texts[0][1], message.error
            if failed and api in ("chat", "responses"):  # which say it in the text
                text, failed = text if text.lstrip().lower().startswith("error") else f"Error: {text}", False
            number = numbers[message.tool_call_id or ""]
            text = _parsed(text)  # Gemini has objects there
            found.append(("result", number if "ids_renumbered" in lost else message.tool_call_id, text, failed))
            continue
        if message.reasoning and "reasoning_dropped" not in lost:
            found.append(("reasoning", message.reasoning))
        found += texts
        for each in message.tool_calls:
            numbers[each.id] = len(numbers)
            call_id = numbers[each.id] if "ids_renumbered" in lost else each.id
            found.append(("call", call_id, each.name, each.arguments))
    return _joined(found)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _joined(found: list[Any]) -> list[Any]:
    """Makes one text of neighbouring texts of a role, without line ends: two texts of a role are joined by some."""
    joined = list[Any]()
    for fact in found:
        if len(fact) == 2 and isinstance(fact[1], str):
            role, text = fact[0], fact[1].replace("\n", "")
            if role != "reasoning" and joined and joined[-1][0] == role and isinstance(joined[-1][1], str):
                text = joined.pop()[1] + text
            if text:
                joined.append((role, text))
            continue
        joined.append(fact)
    return joined


@each_api
@settings(max_examples=40, deadline=None)
@given(messages=histories())
def test_what_an_api_can_hold_comes_back_and_the_rest_is_a_warning(api: ApiFormat, messages: list[Message]) -> None:
    """Written and read again, a conversation says the same, but for what a warning names."""
    written = serialize_messages(messages, api)
    lost = {warning.code for warning in written.warnings}
    assert lost <= {"reasoning_dropped", "ids_renumbered", "history_repaired"}
    assert ("reasoning_dropped" in lost) == (api != "chat" and any(message.reasoning for message in messages))
    again = parse_messages(json.loads(json.dumps(written.body)), api)
    assert facts(again, api, lost) == facts(messages, api, lost)


WEATHER = ToolCall("call_1", "get_weather", {"city": "Paris"}, '{"city": "Paris"}')
TALK = [system("Be brief."), user("Weather?"), assistant(None, tool_calls=[WEATHER]), tool_result(WEATHER, "18 C")]


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (
            "chat",
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Weather?"},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
                            }
                        ],
                    },
                    {"role": "tool", "content": "18 C", "tool_call_id": "call_1"},
                ]
            },
        ),
        (
            "responses",
            {
                "input": [
                    {"type": "message", "role": "system", "content": "Be brief."},
                    {"type": "message", "role": "user", "content": "Weather?"},
                    {
                        "type": "function_call",
                        "call_id": "call_1",
                        "name": "get_weather",
                        "arguments": '{"city": "Paris"}',
                    },
                    {"type": "function_call_output", "call_id": "call_1", "output": "18 C"},
                ]
            },
        ),
        (
            "anthropic",
            {
                "system": [{"type": "text", "text": "Be brief."}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}}
                        ],
                    },
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "18 C"}],
                    },
                ],
            },
        ),
        (
            "gemini",
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "Weather?"}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}]},
                    {
                        "role": "user",
                        "parts": [{"functionResponse": {"name": "get_weather", "response": {"output": "18 C"}}}],
                    },
                ],
            },
        ),
    ],
)
def test_a_conversation_in_each_api(api: ApiFormat, body: dict[str, Any]) -> None:
    """The members are those of a request of the API."""
    assert serialize_messages(TALK, api).body == body


@each_api
def test_the_end_of_a_conversation_is_the_assistants_own(api: ApiFormat) -> None:
    """A turn that ends with white space, or with calls that nothing has answered, is written as it is."""
    turns = [assistant("Let me see. "), assistant("Now: ", tool_calls=[WEATHER])]
    for turn in turns:
        [read] = parse_messages(serialize_messages([turn], api).body, api)
        assert (read.role, read.content) == ("assistant", turn.content)
        assert [each.arguments for each in read.tool_calls] == [each.arguments for each in turn.tool_calls]


def test_a_list_is_read_without_its_request() -> None:
    """The items of a framework come without the members around them."""
    items = [{"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}]
    assert parse_messages(items, "responses") == [user("Hi"), assistant(tool_calls=[ToolCall("c", "f", {}, "")])]
    assert parse_messages("Hi", "responses") == [user("Hi")]


def test_what_is_wrong_is_said_with_its_path() -> None:
    """Unknown APIs, missing lists, and what is no message."""
    api: Any = "message"
    with pytest.raises(ConfigError, match=r"unknown API 'message'.*Allowed: chat, responses, anthropic, gemini"):
        serialize_messages(TALK, api)
    with pytest.raises(ConfigError, match="contents is missing: there is no conversation in an object with messages"):
        parse_messages({"messages": []}, "gemini")
    with pytest.raises(ConfigError, match=r"messages\[0\].content\[0\].type"):
        parse_messages([{"role": "user", "content": ["Hi"]}], "anthropic")


@each_row(
    "api, part, message",
    [
        ("anthropic", "Hi", "messages[0].content[0].content[0] must be an object, not a string"),
        ("anthropic", {"type": "text"}, "messages[0].content[0].content[0].text is missing: it must be a string"),
        ("anthropic", {"type": "image"}, "messages[0].content[0].content[0].source is missing: it must be an object"),
        (
            "anthropic",
            {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}},
            "messages[0].content[0].content[0].source.media_type is missing: it must be a string",
        ),
        (
            "anthropic",
            {"type": "document", "source": {"type": "file"}},
            "messages[0].content[0].content[0].source.type: 'file' can't be used here. Allowed: base64, url",
        ),
        ("gemini", {"text": 5}, "contents[0].parts[0].text is a number: it must be a string"),
        (
            "interactions",
            {"type": "image", "data": "iVBORw0KGgo="},
            "input[0].content[0].mime_type is missing: it must be a string",
        ),
        (
            "interactions",
            {"type": "image", "data": "?", "mime_type": "image/png"},
            "input[0].content[0].data is not base64: ",
        ),
    ],
)
def test_what_is_wrong_with_a_part_is_said_with_its_path(api: ApiFormat, part: Any, message: str) -> None:
    """A field that is missing, and one with another type than the API documents."""
    turns: dict[ApiFormat, Any] = {
        "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [part]}]},
        "gemini": {"parts": [part]},
        "interactions": {"type": "user_input", "content": [part]},
    }
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        parse_messages([turns[api]], api)


def test_steps_of_the_model_have_lists_of_contents() -> None:
    """The content of a step that the model has written is checked as well."""
    message = r"input\[0\].content must be a string or a list of contents, not a number"
    with pytest.raises(ConfigError, match=message):
        parse_messages([{"type": "model_output", "content": 5}], "interactions")
    with pytest.raises(ConfigError, match="input is empty: it must be a text"):
        parse_messages([], "interactions")


@each_row("content", [True, [True], [{"text": "Hi", "annotations": True}]])
def test_an_item_may_have_content_of_another_type(content: Any) -> None:
    """Citations are counted where a message has them as documented."""
    cited = {"type": "url_citation", "url": "http://a.test", "start_index": 0, "end_index": 2}
    items = [{"type": "message", "role": "assistant", "content": content}]
    reply = Reply("Hi", finish_reason="stop", extras={"output": items, "annotations": [cited]})
    message = serialize_reply(reply, "chat").body["choices"][0]["message"]
    assert (message["content"], message["annotations"][0]["url_citation"]["url"]) == ("Hi", "http://a.test")


def test_a_step_may_have_contents_of_another_type() -> None:
    """What Google's server sends in a step's content is written as far as it is documented."""
    serializer = InteractionsSerializer(id="v1_0", model="m")
    for content in (None, 5, [None, "x", {"type": ["image"]}, {"annotations": [{"type": "url_citation"}]}]):
        serializer.feed(ExtraPart("step", {"type": "model_output", "content": content}))
    assert b"url_citation" not in serializer.feed(TextDelta("Hi"))
    assert b"completed" in serializer.feed(Finish("stop", "completed")) + serializer.finish()


# --- replies ----------------------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[2] / "fixtures"


def as_event(payload: dict[str, Any]) -> bytes:
    """Returns the event with a payload, as a server sends it."""
    name = f"event: {payload['type']}\n" if "type" in payload else ""
    return f"{name}data: {json.dumps(payload)}\n\n".encode()


# JSON objects hold no broken text; and a blank text before a call is no message to clients of Responses.
CALLS_OF_FUNCTIONS = ("anthropic", "gemini", "interactions")


def recorded() -> list[tuple[str, Reply]]:
    """Returns the whole answers among the fixtures."""
    found = []
    for about in sorted(FIXTURES.rglob("*.toml")):
        if not (body := about.with_suffix(".sse")).exists():
            continue
        known = tomllib.loads(about.read_text("utf-8"))
        decoder = StreamDecoder(known.get("adapter", "chat"), dialect=known.get("dialect"))
        try:
            decoder.feed(body.read_bytes())
            decoder.close()
        except StreamfoldError:
            continue
        found.append((about.stem, decoder.reply))
    return found


@each_api
def test_recorded_answers_come_back(api: ApiFormat) -> None:
    """Text, reasoning, calls, token counts and the finish reason of an answer survive a whole answer of each API."""
    replies = recorded()
    assert len(replies) > 150
    for name, reply in replies:
        if api in CALLS_OF_FUNCTIONS and any(each.error for each in reply.tool_calls):
            with pytest.raises(ProtocolError, match="aren't a complete JSON object"):
                serialize_reply(reply, api)
            continue
        written = serialize_reply(reply, api)
        read = parse_reply(json.loads(json.dumps(written.body)), api)
        kinds = ("function",) if api in CALLS_OF_FUNCTIONS else ("function", "custom")
        kept = [each for each in reply.tool_calls if api == "responses" or each.kind in kinds]
        assert ("calls_dropped" in {warning.code for warning in written.warnings}) >= (kept != reply.tool_calls), name
        text = reply.text if api in ("chat", "responses") else reply.text + (reply.refusal or "")
        assert read.text.strip() == text.strip(), name
        assert "".join(read.reasoning.split()) == "".join(reply.reasoning.split()), name
        assert [(each.name, each.arguments, each.kind) for each in read.tool_calls] == [
            (each.name, each.arguments, each.kind) for each in kept
        ], name


@each_api
async def test_an_answer_is_written_while_it_arrives(api: ApiFormat, anyio_backend: str) -> None:
    """The payloads of the events are an answer of the API: read as its stream, they are the reply."""
    script: list[Step] = [think("Hm."), say("It is ", "18 C."), call("get_weather", city="Rome"), usage(7, 3)]
    model = ScriptedProvider(script)
    decoder = StreamDecoder(api)
    texts = list[str]()
    async with model.chat_stream("Weather?") as stream:
        async for payload in serialize_stream(stream, api, model="m"):
            texts += [chunk.delta for chunk in decoder.feed(as_event(payload)) if chunk.delta]
    decoder.close()
    read, reply = decoder.reply, stream.reply
    assert texts == ["It is ", "18 C."]
    assert (read.text, read.reasoning, read.model) == (reply.text, reply.reasoning, "m")
    assert [each.arguments for each in read.tool_calls] == [{"city": "Rome"}]
    assert read.usage is not None
    assert (read.usage.input_tokens, read.usage.output_tokens) == (7, 3)


@each_api
async def test_an_answer_that_breaks_off_has_no_end(api: ApiFormat, anyio_backend: str) -> None:
    """What had arrived is written, and the error is raised: the events are not those of a whole answer."""
    model = ScriptedProvider([say("Half"), fail(IncompleteStreamError)])
    decoder = StreamDecoder(api)

    async def read() -> None:
        async with model.chat_stream("Weather?") as stream:
            async for payload in serialize_stream(stream, api):
                decoder.feed(as_event(payload))

    with pytest.raises(IncompleteStreamError):
        await read()
    with pytest.raises(IncompleteStreamError) as caught:
        decoder.close()
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Half"
