"""What three earlier changes of an inference server promised of the streams that it writes, kept by ours.

The numbers in the names are the rows of those changes: 001 is a named tool choice on both wires, 002 an event with
several facts and the states between them, 004 a tool choice of "none". Each goes in as bytes or deltas and comes out
as the events of a wire.
"""

from __future__ import annotations

from typing import Any

import pytest

from folding import DONE, call, chunk, entry, event, fin, text
from mirror import check_response_events, emit, emit_chunks, payloads, read, sorted_deltas, types
from mirror import whole as whole_body
from streamfold import ConfigError, NamedTool, StreamDecoder, Tool
from streamfold.adapters.chat.parse import parse_request as parse_chat
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.adapters.responses.parse import parse_request as parse_responses
from streamfold.values.deltas import Call, Delta, Finish, Reasoning, Text
from tables import each_row

NAMED = NamedTool("get_weather")
CALLED = Finish("tool_calls", "stop")
IDS = ["9aBcD3fGh", "functions.get_weather:0", "chatcmpl-tool-0123456789abcdef", "call_1"]
TOOLS = [Tool("get_weather"), Tool("get_time")]
ON_BOTH = pytest.mark.parametrize("wire", ["chat", "responses"])


def entries(body: bytes) -> list[list[dict[str, Any]]]:
    """The `tool_calls` entries of each chunk that has some."""
    deltas = [choice["delta"] for payload in payloads(body) for choice in payload["choices"]]
    return [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]


def through(body: bytes, wire: str, **decoder: Any) -> bytes:
    """A chat stream, read by the engine and written on a wire as its chunks and its reply."""
    decode = StreamDecoder("chat", **decoder)
    chunks = [*decode.feed(body), *decode.close()]
    return emit_chunks(wire, chunks, decode.reply, tool_choice=decoder.get("tool_choice", "auto"))


# --- 001: a named choice ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["", '{"city":"\\'])
def test_001_1_the_first_delta_of_a_named_choice(first: str) -> None:
    """Id, type, name and the first argument text are in one entry, even if that text is empty or ends in an escape."""
    body = emit("chat", [Call(0, "call_1", "get_weather", first), Call(0, arguments='"'), CALLED], tool_choice=NAMED)
    assert entries(body)[0] == [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": first}}
    ]


def test_001_2_later_deltas_have_index_and_arguments_alone() -> None:
    """Also where the text is empty: then it is an entry with empty arguments."""
    said: list[Delta] = [
        Call(0, "a", "get_weather", ""),
        Call(0, arguments="{"),
        Call(0),
        Call(0, arguments="}"),
        CALLED,
    ]
    assert entries(emit("chat", said, tool_choice=NAMED))[1:] == [
        [{"index": 0, "function": {"arguments": piece}}] for piece in ("{", "", "}")
    ]


@ON_BOTH
def test_001_3_the_output_is_the_argument_text(wire: str) -> None:
    """Guided output without any markup is the arguments, to the byte."""
    raw = '{"city": "a}\\"{\\\\"}'
    body = text(raw[:9]) + text(raw[9:]) + fin("stop") + DONE
    again = read(wire, through(body, wire, dialect="named", tools=TOOLS, tool_choice=NAMED))
    assert [(made.name, made.raw_arguments) for made in again.tool_calls] == [("get_weather", raw)]
    assert again.text == ""


@ON_BOTH
@each_row("call_id", IDS)
def test_001_4_any_id_comes_through(call_id: str, wire: str) -> None:
    """To the byte, whole and in pieces."""
    body = call(entry(0, call_id, "get_weather", "{}")) + fin("tool_calls") + DONE
    assert read(wire, through(body, wire)).tool_calls[0].id == call_id
    assert read(wire, emit(wire, sorted_deltas(body, "chat"))).tool_calls[0].id == call_id


def test_001_5_calls_are_counted_from_0() -> None:
    """Whatever number the engine that made them gave them."""
    body = emit("chat", [Call(1, "a", "f", "{}"), Call(3, "b", "g", "{}"), CALLED])
    assert [made[0]["index"] for made in entries(body)] == [0, 1]


@pytest.mark.parametrize("parse", [parse_chat, parse_responses])
def test_001_6_both_spellings_of_a_named_choice(parse: Any) -> None:
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
    messages = KimiAdapter(KimiQuirks(hosted=False)).encode(parse_responses({"model": "kimi-k2", "input": given}))[
        "messages"
    ]
    return [made["id"] for message in messages for made in message.get("tool_calls") or ()]


def test_001_7_calls_of_the_history_are_counted() -> None:
    """In a conversation of items as in one of messages; a bare string has none."""
    asked = {"role": "user", "content": "?"}
    assert kimi_ids([asked, *items("x"), *items("y"), asked]) == [
        "functions.get_weather:0",
        "functions.get_weather:1",
    ]
    assert kimi_ids("?") == []


def test_001_8_and_9_two_calls_of_one_turn_count_twice() -> None:
    """So that no id is given again to a call after them."""
    assert kimi_ids([{"role": "user", "content": "?"}, *items("x", "y"), *items("z")]) == [
        f"functions.get_weather:{number}" for number in range(3)
    ]
    body = call(entry(0, "a", "get_weather", "{}"), entry(1, "b", "get_time", "{}")) + fin("tool_calls") + DONE
    assert [made[0]["id"] for made in entries(through(body, "chat"))] == ["a", "b"]


@ON_BOTH
def test_001_10_a_required_choice(wire: str) -> None:
    """Several calls in one list, in any cut, with braces in their strings and keys in any order."""
    raw = '[{"name":"get_weather","parameters":{"city":"}]{\\""}},{"parameters":{"zone":"[{"},"name":"get_time"}]'
    for size in (1, 7, len(raw)):
        body = b"".join(text(raw[at : at + size]) for at in range(0, len(raw), size)) + fin("stop") + DONE
        again = read(wire, through(body, wire, dialect="required", tools=TOOLS, tool_choice="required"))
        assert [(made.name, made.arguments) for made in again.tool_calls] == [
            ("get_weather", {"city": '}]{"'}),
            ("get_time", {"zone": "[{"}),
        ]
        assert again.text == ""


@ON_BOTH
@each_row(("choice", "said"), [(NAMED, " \n"), ("required", "[{oops"), ("required", "Sorry.")])
def test_001_11_no_call_where_there_is_none(choice: Any, said: str, wire: str) -> None:
    """Blank or damaged guided output makes no call, and the client is not told that there is one."""
    dialect = "named" if choice is NAMED else "required"
    again = read(wire, through(text(said) + fin("stop") + DONE, wire, dialect=dialect, tools=TOOLS, tool_choice=choice))
    assert (again.tool_calls, again.finish_reason) == ([], "stop")


@each_row(("choice", "word"), [(NAMED, "stop"), ("required", "tool_calls"), ("auto", "tool_calls")])
@each_row("sent", ["stop", "tool_calls"])
def test_001_12_the_word_for_the_end(choice: Any, word: str, sent: str) -> None:
    """As OpenAI has it, streamed or not, whatever the engine said: `stop` after a named choice."""
    body = call(entry(0, "a", "get_weather", "{}")) + fin(sent) + DONE
    decode = StreamDecoder("chat", tools=TOOLS, tool_choice=choice)
    chunks = [*decode.feed(body), *decode.close()]
    streamed = emit_chunks("chat", chunks, decode.reply, tool_choice=choice, include_usage=False)
    assert payloads(streamed)[-1]["choices"][0]["finish_reason"] == word
    whole = whole_body("chat", decode.reply, id="c", model="m", tool_choice=choice)
    assert whole["choices"][0]["finish_reason"] == word


# --- 002: events with several facts -----------------------------------------------------------------------------------

COMPOUND = {
    "reasoning_content": "Hm.",
    "content": "Hi",
    "tool_calls": [entry(1, "b", "get_time", "{"), entry(0, "a", "get_weather", "{}"), entry(1, None, None, "}")],
}


def responses_of(body: bytes) -> bytes:
    return emit("responses", sorted_deltas(body, "chat"))


@each_row(
    "members",
    [("reasoning_content",), ("content",), ("tool_calls",), ("reasoning_content", "content"), ("content", "tool_calls"),
     ("reasoning_content", "tool_calls"), ("reasoning_content", "content", "tool_calls")],
)  # fmt: skip
def test_002_1_and_5_an_event_with_several_facts(members: tuple[str, ...]) -> None:
    """None is lost: reasoning, then text, then the calls in the order in which they appeared."""
    body = responses_of(chunk({name: COMPOUND[name] for name in members}) + fin("stop") + DONE)
    kinds = {"reasoning_content": ["reasoning"], "content": ["message"], "tool_calls": ["function_call"] * 2}
    output = check_response_events(body)["output"]
    assert [item["type"] for item in output] == [kind for name in members for kind in kinds[name]]
    assert [(item["call_id"], item["arguments"]) for item in output if item["type"] == "function_call"] == (
        [("b", "{}"), ("a", "{}")] if "tool_calls" in members else []
    )


def test_002_2_one_fact_is_one_event() -> None:
    """Nothing is split, joined or held back that need not be."""
    body = responses_of(b"".join(text(piece) for piece in "abc") + fin("stop") + DONE)
    assert types(body).count("output_text.delta") == 3


def test_002_3_what_is_there_and_empty() -> None:
    """Empty text is none; empty reasoning is a fact."""
    body = responses_of(chunk({"content": ""}) + chunk({"reasoning_content": ""}) + fin("stop") + DONE)
    assert [item["type"] for item in check_response_events(body)["output"]] == ["reasoning"]


def test_002_4_name_and_arguments_as_two_entries() -> None:
    """They are one item."""
    body = responses_of(call(entry(0, "a", "get_weather"), entry(0, None, None, '{"x":1}')) + fin("stop") + DONE)
    assert [item["arguments"] for item in check_response_events(body)["output"]] == ['{"x":1}']


def test_002_6_where_one_call_ends() -> None:
    """Another index is another item; an entry without an index goes on with the open call."""
    body = call(entry(0, "a", "get_weather", "{"), entry(None, None, None, "}"), entry(1, "b", "get_time", "{}"))
    output = check_response_events(responses_of(body + fin("stop") + DONE))["output"]
    assert [(item["call_id"], item["arguments"]) for item in output] == [("a", "{}"), ("b", "{}")]


def test_002_7_no_id_is_drawn_anew() -> None:
    """Kimi's own ids are the call ids of the items."""
    body = call(entry(0, "functions.get_weather:0", "get_weather", "{}")) + fin("tool_calls") + DONE
    for made in (through(body, "responses"), responses_of(body)):
        assert [item["call_id"] for item in check_response_events(made)["output"]] == ["functions.get_weather:0"]


def test_002_8_all_arguments_of_an_event_count() -> None:
    """Not only those of its first entry."""
    pieces = [entry(0, "a", "get_weather", "{"), entry(0, None, None, '"x"'), entry(0, None, None, ":1}")]
    body = responses_of(call(*pieces) + fin("tool_calls") + DONE)
    assert [item["arguments"] for item in check_response_events(body)["output"]] == ['{"x":1}']


def test_002_9_how_items_close() -> None:
    """The whole of what was told in pieces, then the part, then the item; then the next one has the next position."""
    said: list[Delta] = [Reasoning("Hm."), Text("Hi"), Call(0, "a", "get_weather", "{}", whole=True), CALLED]
    body = emit("responses", said)
    assert [kind for kind in types(body) if kind.endswith("done")] == [
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_text.done", "content_part.done", "output_item.done",
        "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    added = [payload["output_index"] for payload in payloads(body) if payload["type"].endswith("item.added")]
    assert added == [0, 1, 2]


def test_002_9_a_call_without_arguments() -> None:
    """It is done with what it has, although there was no piece of it."""
    body = emit("responses", [Call(0, "a", "get_weather", ""), CALLED])
    assert types(body)[2:] == ["output_item.added", "function_call_arguments.done", "output_item.done", "completed"]


@ON_BOTH
def test_002_10_text_round_a_call(wire: str) -> None:
    """Text after a call is not suppressed, nor is white space before one that belongs to text."""
    said: list[Delta] = [Text("\n"), Text("Hi\n"), Call(0, "a", "get_weather", "{}"), Text("\n"), Text("Bye"), CALLED]
    assert read(wire, emit(wire, said)).text == "\nHi\n\nBye"


@pytest.mark.parametrize("last", [True, False])
def test_002_11_a_lost_brace_is_not_handed_on(last: bool) -> None:
    """Pieces without their first brace: the right whole counts if there is one, else nobody can run the call."""
    at: dict[str, Any] = {"output_index": 0, "item_id": "fc_1"}
    item = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "get_weather", "arguments": ""}
    broken = '"city":"Oslo"}'
    whole = "{" + broken if last else broken
    response = {"id": "r", "object": "response", "status": "completed", "output": [{**item, "arguments": whole}]}
    body = (
        event({"type": "response.output_item.added", "output_index": 0, "item": item})
        + event({"type": "response.function_call_arguments.delta", **at, "delta": broken})
        + event({"type": "response.function_call_arguments.done", **at, "arguments": whole})
        + event({"type": "response.completed", "response": response})
    )
    decode = StreamDecoder("responses")
    chunks = [*decode.feed(body), *decode.close()]
    for wire in ("chat", "responses"):
        [made] = read(wire, emit_chunks(wire, chunks, decode.reply)).tool_calls
        assert made.arguments == ({"city": "Oslo"} if last else {"_raw": broken, "_error": "invalid_json"})
    written = emit_chunks("responses", chunks, decode.reply)
    pieces = [payload["delta"] for payload in payloads(written) if payload["type"].endswith("arguments.delta")]
    assert "".join(pieces) == check_response_events(written)["output"][0]["arguments"] == whole


# --- 004: no calls ----------------------------------------------------------------------------------------------------

CALLS = chunk({"content": "Hi"}) + call(entry(0, "a", "get_weather", "{}")) + fin("tool_calls") + DONE
MARKED = text('<tool_call>{"name":"get_weather","arguments":{}}</tool_call>') + fin("stop") + DONE


@pytest.mark.parametrize(("choice", "read_as"), [("none", "none"), (None, "auto"), ("auto", "auto")])
def test_004_1_none_is_the_word_and_null_is_not(choice: Any, read_as: str) -> None:
    """Null means that nothing was said."""
    tools = [{"type": "function", "name": "f"}]
    body = {"model": "m", "input": "?", "tools": tools, "tool_choice": choice}
    assert parse_responses(body).tool_choice == read_as


@ON_BOTH
def test_004_2_and_3_markers_stay_text(wire: str) -> None:
    """Whatever dialect the model speaks, what looks like a call is text, markers included."""
    again = read(wire, through(MARKED, wire, dialect="hermes", tools=TOOLS, tool_choice="none"))
    assert again.text == '<tool_call>{"name":"get_weather","arguments":{}}</tool_call>'
    assert again.tool_calls == []


@ON_BOTH
def test_004_2_no_text_is_no_message(wire: str) -> None:
    """An answer that was only calls is one with nothing in it."""
    body = through(call(entry(0, "a", "f", "{}")) + fin("stop") + DONE, wire, tools=TOOLS, tool_choice="none")
    assert (read(wire, body).text, read(wire, body).tool_calls) == ("", [])
    if wire == "responses":
        assert check_response_events(body)["output"] == []


@ON_BOTH
def test_004_4_reasoning_is_still_read(wire: str) -> None:
    """In the text as well as beside it."""
    body = text("<think>Hm.</think>Hi") + fin("stop") + DONE
    again = read(wire, through(body, wire, dialect="hermes", tools=TOOLS, tool_choice="none"))
    assert (again.reasoning, again.text) == ("Hm.", "Hi")


@ON_BOTH
def test_004_5_the_end_is_stop(wire: str) -> None:
    """Streamed or not, whatever the engine said."""
    again = read(wire, through(CALLS, wire, tools=TOOLS, tool_choice="none"))
    assert (again.text, again.tool_calls, again.finish_reason) == ("Hi", [], "stop")
    decode = StreamDecoder("chat")
    decode.feed(CALLS)
    whole = whole_body("chat", decode.reply, id="c", model="m", tool_choice="none")["choices"][0]
    assert (whole["message"].get("tool_calls"), whole["finish_reason"]) == (None, "stop")


@ON_BOTH
def test_004_6_one_guard_for_every_way_in(wire: str) -> None:
    """Calls in pieces, whole ones and those of a reply are all kept back by the emitter itself."""
    pieces: list[Delta] = [Text("Hi"), Call(0, "a", "f", "{"), Call(0, arguments="}"), CALLED]
    whole: list[Delta] = [Text("Hi"), Call(0, "a", "f", "{}", whole=True), CALLED]
    decode = StreamDecoder("chat")  # which was not told
    chunks = [*decode.feed(CALLS), *decode.close()]
    bodies = [emit(wire, said, tool_choice="none") for said in (pieces, whole)]
    bodies.append(emit_chunks(wire, chunks, decode.reply, tool_choice="none"))
    for body in bodies:
        again = read(wire, body)
        assert (again.text, again.tool_calls, again.finish_reason) == ("Hi", [], "stop")
