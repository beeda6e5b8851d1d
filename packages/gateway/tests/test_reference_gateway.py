"""What a tool choice means for the streams that the gateway writes, and for the requests that it reads."""

from __future__ import annotations

from typing import Any

import pytest

from folding import DONE, call, chunk, entry, fin
from mirror import check_response_events, emit, emit_chunks, payloads, read, types
from mirror import whole as whole_body
from streamfold import ConfigError, NamedTool, StreamDecoder, Tool
from streamfold.adapters import EncodingReport
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.deltas import Delta, Finish, TextDelta, ToolCallDelta
from streamfold.serving.chat.request import parse_chat_request as parse_chat
from streamfold.serving.responses.request import parse_responses_request as parse_responses

NAMED = NamedTool("get_weather")
CALLED = Finish("tool_calls", "stop")
TOOLS = [Tool("get_weather"), Tool("get_time")]
ON_BOTH = pytest.mark.parametrize("api", ["chat", "responses"])


def entries(body: bytes) -> list[list[dict[str, Any]]]:
    """The `tool_calls` entries of each chunk that has some."""
    deltas = [choice["delta"] for payload in payloads(body) for choice in payload["choices"]]
    return [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]


def through(body: bytes, api: str, **decoder: Any) -> bytes:
    """A chat stream, read by the engine and written on an API as its chunks and its reply."""
    decode = StreamDecoder("chat", **decoder)
    chunks = [*decode.feed(body), *decode.close()]
    return emit_chunks(api, chunks, decode.reply, tool_choice=decoder.get("tool_choice", "auto"))


# --- a named choice ---------------------------------------------------------------------------------------------------


def test_calls_are_counted_from_0() -> None:
    """Whatever number the engine that made them gave them."""
    body = emit("chat", [ToolCallDelta(1, "a", "f", "{}"), ToolCallDelta(3, "b", "g", "{}"), CALLED])
    assert [made[0]["index"] for made in entries(body)] == [0, 1]


@pytest.mark.parametrize("parse", [parse_chat, parse_responses])
def test_both_spellings_of_a_named_choice(parse: Any) -> None:
    """Nested as in Chat Completions and flat as in Responses; what is neither is refused."""
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    tools: list[Any] = [{"type": "function", "function": {"name": "get_weather"}}]
    if parse is parse_responses:
        body, tools = {"model": "m", "input": "?"}, [{"type": "function", "name": "get_weather"}]
    for choice in (
        {"type": "function", "name": "get_weather"},
        {"type": "function", "function": {"name": "get_weather"}},
    ):
        assert parse({**body, "tools": tools, "tool_choice": choice}).tool_choice == NAMED
    with pytest.raises(ConfigError, match="tool_choice"):
        parse({**body, "tools": tools, "tool_choice": {"type": "function"}})


def items(*ids: str) -> list[dict[str, Any]]:
    """Calls and their results as items."""
    made = [{"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": "{}"} for call_id in ids]
    return [*made, *({"type": "function_call_output", "call_id": call_id, "output": "18"} for call_id in ids)]


def kimi_ids(given: Any) -> list[str]:
    """The ids of the calls of a Responses request, as an engine that serves Kimi gets them."""
    messages = KimiAdapter(KimiQuirks(hosted=False)).encode(
        parse_responses({"model": "kimi-k2", "input": given}), EncodingReport()
    )["messages"]
    return [made["id"] for message in messages for made in message.get("tool_calls") or ()]


def test_calls_of_the_history_are_counted() -> None:
    """In a conversation of items as in one of messages; a bare string has none."""
    asked = {"role": "user", "content": "?"}
    assert kimi_ids([asked, *items("x"), *items("y"), asked]) == [
        "functions.get_weather:0",
        "functions.get_weather:1",
    ]
    assert kimi_ids("?") == []


def test_two_calls_of_one_turn_count_twice() -> None:
    """So that no id is given again to a call after them."""
    assert kimi_ids([{"role": "user", "content": "?"}, *items("x", "y"), *items("z")]) == [
        f"functions.get_weather:{number}" for number in range(3)
    ]
    body = call(entry(0, "a", "get_weather", "{}"), entry(1, "b", "get_time", "{}")) + fin("tool_calls") + DONE
    assert [made[0]["id"] for made in entries(through(body, "chat"))] == ["a", "b"]


def test_a_call_without_arguments() -> None:
    """It is done with what it has, although there was no piece of it."""
    body = emit("responses", [ToolCallDelta(0, "a", "get_weather", ""), CALLED])
    assert types(body)[2:] == ["output_item.added", "function_call_arguments.done", "output_item.done", "completed"]


# --- no calls ---------------------------------------------------------------------------------------------------------

CALLS = chunk({"content": "Hi"}) + call(entry(0, "a", "get_weather", "{}")) + fin("tool_calls") + DONE


@pytest.mark.parametrize(("choice", "read_as"), [("none", "none"), (None, "auto"), ("auto", "auto")])
def test_none_is_the_word_and_null_is_not(choice: Any, read_as: str) -> None:
    """Null means that nothing was said."""
    tools = [{"type": "function", "name": "f"}]
    body = {"model": "m", "input": "?", "tools": tools, "tool_choice": choice}
    assert parse_responses(body).tool_choice == read_as


@ON_BOTH
def test_no_text_is_no_message(api: str) -> None:
    """An answer that was only calls is one with nothing in it."""
    body = through(call(entry(0, "a", "f", "{}")) + fin("stop") + DONE, api, tools=TOOLS, tool_choice="none")
    assert (read(api, body).text, read(api, body).tool_calls) == ("", [])
    if api == "responses":
        assert check_response_events(body)["output"] == []


@ON_BOTH
def test_the_end_is_stop(api: str) -> None:
    """Streamed or not, whatever the engine said."""
    again = read(api, through(CALLS, api, tools=TOOLS, tool_choice="none"))
    assert (again.text, again.tool_calls, again.finish_reason) == ("Hi", [], "stop")
    decode = StreamDecoder("chat")
    decode.feed(CALLS)
    whole = whole_body("chat", decode.reply, id="c", model="m", tool_choice="none")["choices"][0]
    assert (whole["message"].get("tool_calls"), whole["finish_reason"]) == (None, "stop")


@ON_BOTH
def test_one_guard_for_every_way_in(api: str) -> None:
    """Calls in pieces, whole ones and those of a reply are all kept back by the serializer itself."""
    pieces: list[Delta] = [TextDelta("Hi"), ToolCallDelta(0, "a", "f", "{"), ToolCallDelta(0, arguments="}"), CALLED]
    whole: list[Delta] = [TextDelta("Hi"), ToolCallDelta(0, "a", "f", "{}", whole=True), CALLED]
    decode = StreamDecoder("chat")  # which was not told
    chunks = [*decode.feed(CALLS), *decode.close()]
    bodies = [emit(api, said, tool_choice="none") for said in (pieces, whole)]
    bodies.append(emit_chunks(api, chunks, decode.reply, tool_choice="none"))
    for body in bodies:
        again = read(api, body)
        assert (again.text, again.tool_calls, again.finish_reason) == ("Hi", [], "stop")
