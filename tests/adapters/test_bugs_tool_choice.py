"""What goes wrong round a tool choice, in servers and in clients: bytes or a request in, whole values out.

`j1` and so on are entries of docs/bugs.md. `001`, `002` and `004` are the rows of three changes to vLLM (a named
choice, deltas that hold several things, and `tool_choice="none"`), as far as a client has to do with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, event, fin, fold_chunks, text
from streamfold import (
    AllowedTools,
    ConfigError,
    NamedTool,
    Reply,
    StreamDecoder,
    Tool,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from streamfold.adapters import Adapter, find_adapter
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.requests.request import Request
from tables import each_row

WIRES = ("chat", "responses", "kimi")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("get_weather", "The weather.", SCHEMA)
CLOCK = Tool("get_time", "The time.")
BOTH = [WEATHER, CLOCK]
NAMED = NamedTool("get_weather")
ENGINE = KimiAdapter(KimiQuirks("max_tokens", hosted=False))
OSLO = '{"city":"Oslo"}'


def write(
    messages: Any, tools: Any = None, choice: Any = "auto", *, adapter: str | Adapter = "chat", **options: Any
) -> dict[str, Any]:
    """The body of a request."""
    adapter = find_adapter(adapter)() if isinstance(adapter, str) else adapter
    request, _ = adapter.rewrite(Request.read("kimi-k2.6", messages, tools, choice, options))
    return adapter.encode(request)


def read(*events: bytes, choice: Any = "auto", tools: Any = (), **decoder: Any) -> Reply:
    """The reply, the same for every cut of the bytes."""
    return assert_any_cut(b"".join(events), tools=tools or BOTH, tool_choice=choice, **decoder)


def say(kind: str, **members: Any) -> bytes:
    """One event of the Responses API."""
    return event({"type": f"response.{kind}", **members})


def item(at: int, arguments: str, name: str = "get_weather", **members: Any) -> dict[str, Any]:
    """A function call as an item."""
    made = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": name, "status": "completed"}
    return {**made, "arguments": arguments, **members}


def message(said: str | None, at: int = 9) -> dict[str, Any]:
    """A message as an item; None: it has no content at all."""
    content = [] if said is None else [{"type": "output_text", "text": said, "annotations": []}]
    return {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed", "content": content}


def completed(*items: dict[str, Any]) -> bytes:
    """The end of a response that has these items."""
    return say("completed", response={"id": "resp_1", "status": "completed", "output": list(items)})


def body(wire: str, said: str, *arguments: str, finish: str = "stop") -> bytes:
    """An answer on this wire: a text, in two pieces, and calls of `get_weather` with these arguments."""
    half = len(said) // 2
    if wire == "responses":
        first, second = (
            say("output_text.delta", output_index=9, item_id="msg_9", delta=piece)
            for piece in (said[:half], said[half:])
        )
        items = [item(at, raw) for at, raw in enumerate(arguments)]
        return first + second + completed(*items, *([message(said)] if said else []))
    made = [call(entry(at, f"call_{at}", "get_weather", raw, type="function")) for at, raw in enumerate(arguments)]
    return text(said[:half]) + text(said[half:]) + b"".join(made) + fin(finish) + DONE


def ids(sent: dict[str, Any]) -> list[str]:
    """The ids of the calls and of the results in a chat body."""
    found = [made["id"] for turn in sent["messages"] for made in turn.get("tool_calls", ())]
    return found + [turn["tool_call_id"] for turn in sent["messages"] if turn["role"] == "tool"]


def facts(reply: Reply) -> tuple[str, list[tuple[str, Any]], str]:
    """Text, calls and finish reason, which no wire and no raw word may change."""
    return reply.text, [(made.name, made.arguments) for made in reply.tool_calls], reply.finish_reason


# --- J1: none ---------------------------------------------------------------------------------------------------------


@each_row("finish", ["stop", "tool_calls"])
@each_row("wire", WIRES)
def test_j1_calls_that_were_forbidden(wire: str, finish: str) -> None:
    """After "none" no call is handed out, the text stays, and the reply says what was dropped (vllm#42747)."""
    reply = read(body(wire, "Hello", OSLO, "{}", finish=finish), choice="none", adapter=wire)
    assert facts(reply) == ("Hello", [], "stop")
    assert reply.raw_finish_reason == ("completed" if wire == "responses" else finish)
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("calls_dropped", "the request forbade tool calls: get_weather, get_weather")
    ]
    made = write([user("x"), reply.message, user("y")], adapter=wire)
    assert "get_weather" not in json.dumps(made)


# --- J2, J3: a named choice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_j2_a_named_choice_in_pieces(finish: str) -> None:
    """The first chunk has all members, the others only arguments, and either end is one (vllm#25054)."""
    reply = read(
        call(entry(0, "chatcmpl-tool-1", "get_weather", '{"', type="function")),
        call(entry(0, arguments='city":"')),
        call(entry(0, arguments='Oslo"}')),
        fin(finish),
        DONE,
        choice=NAMED,
    )
    assert reply.tool_calls == [ToolCall("chatcmpl-tool-1", "get_weather", {"city": "Oslo"}, OSLO)]
    assert (reply.finish_reason, reply.raw_finish_reason, codes(reply)) == ("tool_calls", finish, [])


@each_row(
    "choice",
    [
        NAMED,
        {"type": "function", "function": {"name": "get_weather"}},
        {"type": "function", "name": "get_weather"},
    ],
)
@each_row(
    ("adapter", "sent"),
    [
        ("chat", {"type": "function", "function": {"name": "get_weather"}}),
        ("responses", {"type": "function", "name": "get_weather"}),
        (ENGINE, {"type": "function", "function": {"name": "get_weather"}}),
    ],
    ids=WIRES,
)
def test_j3_each_wire_has_its_own_spelling(adapter: Any, sent: dict[str, Any], choice: Any) -> None:
    """One spelling of a named choice becomes that of the wire, which takes no other, and the decoder reads them all."""
    assert write("x", BOTH, choice, adapter=adapter)["tool_choice"] == sent
    reply = read(body("chat", "", OSLO), choice=choice)
    assert (facts(reply), codes(reply)) == (("", [("get_weather", {"city": "Oslo"})], "tool_calls"), [])


@each_row("choice", [NAMED, {"type": "function", "name": "get_weather"}])
@each_row("wire", WIRES)
def test_j3_arguments_that_the_server_left_in_the_text(wire: str, choice: Any) -> None:
    """A server that does not parse a named choice sends its arguments as text: with the dialect they are a call."""
    reply = read(body(wire, OSLO), choice=choice, adapter=wire, dialect="named")
    assert (facts(reply), codes(reply)) == (("", [("get_weather", {"city": "Oslo"})], "tool_calls"), [])
    assert reply.tool_calls[0].raw_arguments == OSLO


# --- J4: ids that count -----------------------------------------------------------------------------------------------


def test_j4_ids_that_grow_too_fast() -> None:
    """A server that counts chunks instead of calls gives ids with gaps: they are opaque, and renumbered for Kimi."""
    reply = read(
        call(entry(0, "functions.get_weather:3", "get_weather", '{"city":', type="function")),
        call(entry(0, arguments='"Oslo"}')),
        call(entry(1, "functions.get_time:17", "get_time", "{}", type="function")),
        fin("tool_calls"),
        DONE,
    )
    assert calls(reply) == [
        ("functions.get_weather:3", "get_weather", {"city": "Oslo"}),
        ("functions.get_time:17", "get_time", {}),
    ]
    assert codes(reply) == []
    results = [tool_result(made, made.name) for made in reply.tool_calls]
    conversation = [user("x"), reply.message, *results]
    first, second = "functions.get_weather:3", "functions.get_time:17"
    assert ids(write(conversation)) == [first, second, first, second]
    first, second = "functions.get_weather:0", "functions.get_time:1"
    assert ids(write(conversation, adapter=ENGINE)) == [first, second, first, second]


def test_j4_the_id_grows_with_every_chunk() -> None:
    """An id that has grown on the pieces of a call is still that call: the first one counts."""
    reply = read(
        call(entry(0, "functions.get_weather:0", "get_weather", '{"city"', type="function")),
        call(entry(0, "functions.get_weather:1", arguments=":")),
        call(entry(0, "functions.get_weather:2", arguments='"Oslo"}')),
        fin("tool_calls"),
        DONE,
    )
    assert calls(reply) == [("functions.get_weather:0", "get_weather", {"city": "Oslo"})]


# --- J5: required -----------------------------------------------------------------------------------------------------

TRICKY = {
    "city": 'a "quoted\\" }]{[ name \\',
    "parameters": {"name": "get_time", "deep": [[{"}": "{"}], "]"]},
    "é": "\n",
}


@each_row("dialect", ["required", "kimi", "hermes"])
@each_row("wire", WIRES)
def test_j5_an_array_of_calls_in_any_pieces(wire: str, dialect: str) -> None:
    """Braces, brackets, quotes and escapes inside strings do not end anything, wherever the array is cut."""
    called = [
        {"name": "get_weather", "parameters": TRICKY},
        {"parameters": {}, "name": "get_time"},
        {"name": "get_weather", "parameters": {"city": "\\"}},
    ]
    said = json.dumps(called, indent=1, ensure_ascii=False)
    reply = read(body(wire, said), choice="required", adapter=wire, dialect=dialect)
    assert facts(reply) == (
        "",
        [("get_weather", TRICKY), ("get_time", {}), ("get_weather", {"city": "\\"})],
        "tool_calls",
    )
    assert len({made.id for made in reply.tool_calls}) == 3
    assert codes(reply) == []


def test_j5_kimi_ids_of_parsed_calls() -> None:
    """Calls that a server has parsed from such an array come with Kimi's ids, several in one delta (vllm#46344)."""
    reply = read(
        call(
            entry(0, "functions.get_weather:0", "get_weather", '{"city":"}]', type="function"),
            entry(1, "functions.get_time:1", "get_time", "{", type="function"),
        ),
        call(entry(0, arguments='"}'), entry(1, arguments="}")),
        fin("tool_calls"),
        DONE,
        choice="required",
        adapter="kimi",
        dialect="kimi",
    )
    assert calls(reply) == [
        ("functions.get_weather:0", "get_weather", {"city": "}]"}),
        ("functions.get_time:1", "get_time", {}),
    ]


# --- J6, J7: several things in one delta ------------------------------------------------------------------------------


def test_j6_nothing_of_a_compound_delta_is_lost() -> None:
    """Reasoning, text and a call in one chunk are all there, shown in this order."""
    compound = {
        "tool_calls": [entry(0, "a", "get_weather", '{"city":')],
        "content": "Let me look.",
        "reasoning_content": "hm",
    }
    stream = chunk(compound) + call(entry(0, arguments='"Oslo"}')) + fin("tool_calls") + DONE
    reply = read(stream)
    assert (reply.reasoning, *facts(reply)) == (
        "hm", "Let me look.", [("get_weather", {"city": "Oslo"})], "tool_calls",
    )  # fmt: skip
    shown = [(made.reasoning, made.delta) for made in fold_chunks(stream, None)[0]]
    assert shown == [("hm", ""), ("", "Let me look."), ("", "")]


@pytest.mark.parametrize("pieces", [('{"ci', 'ty":"', 'Oslo"}'), ("{", '"city":"Oslo"', "", "}"), tuple(OSLO)])
def test_j7_all_pieces_of_one_call_in_one_delta(pieces: tuple[str, ...]) -> None:
    """However many entries of one index a delta has, all of their arguments are joined."""
    head = entry(0, "a", "get_weather", type="function")
    tails = [entry(0, arguments=piece) for piece in pieces]
    for deltas in ([[head, *tails]], [[head], tails], [[head, *tails[:1]], tails[1:]]):
        reply = read(*(call(*entries) for entries in deltas), fin("tool_calls"), DONE)
        assert reply.tool_calls == [ToolCall("a", "get_weather", {"city": "Oslo"}, OSLO)]
        assert codes(reply) == []


# --- J8: a choice that is not obeyed ----------------------------------------------------------------------------------

FORCED = [
    "required",
    NAMED,
    {"type": "function", "name": "get_weather"},
    AllowedTools(("get_weather", "get_time"), "required"),
]


@each_row("choice", FORCED, ids=["required", "named", "named dict", "allowed"])
@each_row("wire", WIRES)
def test_j8_text_where_a_call_was_demanded(wire: str, choice: Any) -> None:
    """A model that talks instead of calling is heard, and the reply says that the choice was not met."""
    reply = read(body(wire, "I would rather talk."), choice=choice, adapter=wire)
    assert facts(reply) == ("I would rather talk.", [], "stop")
    assert codes(reply) == ["tool_choice_unmet"]


@pytest.mark.parametrize("wire", WIRES)
def test_j8_another_tool_than_the_named_one(wire: str) -> None:
    """A call of another tool is handed out, with the warning."""
    reply = read(body(wire, "", OSLO), choice=NamedTool("get_time"), adapter=wire)
    assert facts(reply) == ("", [("get_weather", {"city": "Oslo"})], "tool_calls")
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("tool_choice_unmet", "the request demanded a call of get_time, and none came")
    ]


@pytest.mark.parametrize("choice", ["auto", None, AllowedTools(("get_weather",))])
def test_j8_nothing_was_demanded(choice: Any) -> None:
    """Where the model may choose to talk, there is nothing to warn of."""
    assert codes(read(body("chat", "I would rather talk."), choice=choice)) == []


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_j8_an_answer_that_was_cut_off(finish: str) -> None:
    """An answer that did not get so far as to call has not disobeyed."""
    assert codes(read(body("chat", "Let me", finish=finish), choice="required")) == []


# --- J9, J10: what goes with a tool choice ----------------------------------------------------------------------------


@each_row("asked", [False, True, None])
@each_row("adapter", ["chat", "responses", "kimi", ENGINE], ids=[*WIRES, "engine"])
def test_j9_parallel_calls_are_allowed_or_not(adapter: Any, asked: bool | None) -> None:
    """False is said as well as true, and nothing is said for a caller who has said nothing (langchain#29704)."""
    made = write("x", BOTH, adapter=adapter, parallel_tool_calls=asked)
    assert ("parallel_tool_calls" in made) is (asked is not None)
    assert made.get("parallel_tool_calls") is asked


def test_j9_parallel_calls_that_come_all_the_same() -> None:
    """Two calls of a server that ignores the option are two calls: none of them is lost."""
    reply = read(body("chat", "", OSLO, "{}", finish="tool_calls"))
    assert facts(reply)[1] == [("get_weather", {"city": "Oslo"}), ("get_weather", {})]


@each_row("choice", ["auto", "required", NAMED])
@each_row("adapter", ["chat", "responses", ENGINE], ids=WIRES)
def test_j10_a_format_beside_a_forced_call(adapter: Any, choice: Any) -> None:
    """The format of the text is sent with the tools and the choice; none of the three pushes out another."""
    made = write("x", BOTH, choice, adapter=adapter, response_format=SCHEMA)
    if adapter == "responses":
        assert made["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}
    else:
        wanted = {"name": "answer", "schema": SCHEMA}
        assert made["response_format"] == {"type": "json_schema", "json_schema": wanted}
    assert len(made["tools"]) == 2
    assert (made["tool_choice"] == choice) is isinstance(choice, str)


def test_j10_a_formatted_text_beside_a_call() -> None:
    """JSON in the text is text, and no call is made of it, whatever the dialect reads."""
    said = '{"name": "get_weather", "parameters": {"city": "Rome"}}'
    for dialect in (None, "hermes", "kimi"):
        reply = read(body("chat", said, OSLO, finish="tool_calls"), dialect=dialect)
        assert facts(reply) == (said, [("get_weather", {"city": "Oslo"})], "tool_calls")


# --- 001: a named choice, as vLLM streams it --------------------------------------------------------------------------

ID_SHAPES = [
    "aB3dE6gH9",  # Mistral
    "functions.get_weather:0",  # Kimi
    "chatcmpl-tool-8f14e45fceea167a5a36dedd4bea2543",  # the others
    "call_3f2504e04f8941d39a0c0305e82c3301",  # on the Responses wire, and by SGLang
]


def named(call_id: str, first: str, *later: str, finish: str = "stop") -> bytes:
    """The stream of a named choice: all members and the first text in one entry, then only index and arguments."""
    head = {"index": 0, "id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": first}}
    tails = [{"index": 0, "function": {"arguments": piece}} for piece in later]
    return b"".join(call(made) for made in [head, *tails]) + fin(finish) + DONE


@each_row("finish", ["stop", "tool_calls"])
@each_row(
    "pieces",
    [
        ("", '{"city":', '"Oslo"}'),
        ('{"city":"Oslo"}',),
        ("{", '"city":"Oslo"}', ""),
        ("", "", OSLO[:5], "", OSLO[5:], ""),
        ('{"city":"Os\\', 'u006co"}'),
        ('{"city":"Os\\u0', '06co"}'),
        ('{"city"', ':"Oslo', '"', "}"),
    ],
)
def test_001_1_and_2_the_deltas_of_a_named_choice(pieces: tuple[str, ...], finish: str) -> None:
    """An empty first text, empty pieces, and cuts inside an escape give the one call, byte for byte."""
    reply = read(named("functions.get_weather:0", *pieces, finish=finish), choice=NAMED)
    assert reply.tool_calls == [
        ToolCall("functions.get_weather:0", "get_weather", {"city": "Oslo"}, "".join(pieces)),
    ]
    assert (reply.finish_reason, codes(reply)) == ("tool_calls", [])


@each_row("pieces", [("",), ("", ""), ("", "{}"), ("{", "}")])
def test_001_1_a_named_tool_without_arguments(pieces: tuple[str, ...]) -> None:
    """No text at all is an empty object."""
    [made] = read(named("a", *pieces), choice=NAMED).tool_calls
    assert (made.arguments, made.raw_arguments) == ({}, "".join(pieces))


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        (OSLO, {"city": "Oslo"}),
        ('{"city": "<|tool_call_end|>\\"}</tool_call>[ARGS]"}', {"city": '<|tool_call_end|>"}</tool_call>[ARGS]'}),
        ("\n{}\n", {}),
    ],
)
def test_001_3_the_text_is_the_arguments(said: str, arguments: dict[str, Any]) -> None:
    """Where a named choice is guided and not parsed, all of the text is arguments, without any marker to strip."""
    reply = read(body("chat", said), choice=NAMED, dialect="named")
    assert facts(reply) == ("", [("get_weather", arguments)], "tool_calls")


@each_row("call_id", ID_SHAPES)
def test_001_4_ids_of_every_shape_go_round(call_id: str) -> None:
    """What the server calls the call is what it is told again, byte for byte, on both of OpenAI's wires."""
    reply = read(named(call_id, "", OSLO[:9], OSLO[9:]), choice=NAMED)
    assert reply.tool_calls == [ToolCall(call_id, "get_weather", {"city": "Oslo"}, OSLO)]
    assert codes(reply) == []
    conversation = [user("x"), reply.message, tool_result(reply.tool_calls[0], "-3")]
    assert write(conversation)["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": OSLO}},
            ],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "-3"},
    ]
    assert write(conversation, adapter="responses")["input"][1:] == [
        {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": OSLO},
        {"type": "function_call_output", "call_id": call_id, "output": "-3"},
    ]


def test_001_5_the_number_of_a_choice_is_not_that_of_a_call() -> None:
    """A call of choice 1 that comes under index 1 is not mixed into the answer; one of choice 0 there is whole."""

    def choice(number: int, made: dict[str, Any], finish: str | None = None) -> bytes:
        one = {"index": number, "delta": {"tool_calls": [made]}, "finish_reason": finish}
        return event({"id": "c1", "model": "m", "choices": [one]})

    reply = read(
        choice(0, entry(0, "a", "get_weather", "")),
        choice(1, entry(1, "b", "get_weather", '{"city":"Rome"}')),
        choice(0, entry(0, arguments=OSLO), "stop"),
        choice(1, entry(1, arguments=""), "stop"),
        DONE,
        choice=NAMED,
    )
    assert (calls(reply), codes(reply)) == ([("a", "get_weather", {"city": "Oslo"})], ["extra_choice"])
    reply = read(
        choice(0, entry(1, "a", "get_weather", "")), choice(0, entry(1, arguments=OSLO), "stop"), DONE, choice=NAMED
    )
    assert (calls(reply), codes(reply)) == ([("a", "get_weather", {"city": "Oslo"})], [])


@each_row(
    ("choice", "words"),
    [
        ("sometimes", "tool_choice is 'auto', 'none', 'required'"),
        ("", "tool_choice is"),
        (5, "tool_choice is"),
        (["auto"], "tool_choice is"),
        ({}, "tool_choice is"),
        ({"name": "get_weather"}, "tool_choice is"),
        ({"type": "function"}, "tool_choice is"),
        ({"type": "function", "function": {}}, "tool_choice is"),
        ({"type": "function", "function": {"name": None}}, "tool_choice is"),
        ({"type": "tool", "name": "get_weather"}, "tool_choice is"),
        (
            NamedTool("get_wether"),
            "names 'get_wether' .did you mean 'get_weather'.., which is not among the tools: get_weather, get_time",
        ),
        ({"type": "function", "name": "get_wether"}, "names 'get_wether'"),
        ({"type": "function", "function": {"name": "get_wether"}}, "names 'get_wether'"),
    ],
)
def test_001_6_other_spellings_are_refused(choice: Any, words: str) -> None:
    """What is no tool choice, or names a tool that was not declared, is refused before anything is sent or read."""
    with pytest.raises(ConfigError, match=words):
        Request.read("m", "x", BOTH, choice, {})
    with pytest.raises(ConfigError, match=words):
        StreamDecoder("chat", tools=BOTH, tool_choice=choice)


def test_001_7_calls_of_the_history_are_counted() -> None:
    """For Kimi every call of the conversation counts, in whatever form it is given; a bare string has none."""
    made = [ToolCall(f"id_{number}", "get_time", {}, "{}") for number in range(3)]
    wire = {"id": "id_9", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}

    def conversation() -> Iterator[Any]:
        yield user("x")
        yield assistant(tool_calls=(each for each in made[:2]))
        yield from (tool_result(each, "y") for each in made[:2])
        yield {"role": "assistant", "content": None, "tool_calls": [wire]}
        yield {"role": "tool", "tool_call_id": "id_9", "content": "y"}
        yield assistant("z", tool_calls=made[2:])
        yield tool_result(made[2], "y")

    numbered = ["functions.get_time:0", "functions.get_time:1", "functions.get_weather:2", "functions.get_time:3"]
    for adapter in (ENGINE, "kimi"):
        assert ids(write(conversation(), adapter=adapter)) == numbered * 2
        assert ids(write("x", adapter=adapter)) == []


def test_001_8_pieces_do_not_count_as_calls() -> None:
    """Only what has a name opens a call: many pieces, empty ones among them, are still two calls."""
    tails = [call(entry(0, arguments=piece)) for piece in ["", *OSLO, ""]]
    reply = read(
        call(entry(0, "functions.get_weather:0", "get_weather", "", type="function")),
        *tails,
        call(entry(1, "functions.get_time:1", "get_time", "", type="function")),
        call(entry(1, arguments="")),
        fin("tool_calls"),
        DONE,
    )
    assert calls(reply) == [
        ("functions.get_weather:0", "get_weather", {"city": "Oslo"}),
        ("functions.get_time:1", "get_time", {}),
    ]


def test_001_9_an_id_that_is_used_again() -> None:
    """A third call under the id of the second one has an id of its own, so that each gets its own result."""
    reply = read(
        call(
            entry(0, "functions.get_time:0", "get_time", "{}", type="function"),
            entry(1, "functions.get_time:1", "get_time", "{}", type="function"),
        ),
        call(entry(2, "functions.get_time:1", "get_time", '{"zone":"UTC"}', type="function")),
        fin("tool_calls"),
        DONE,
    )
    first, second, third = reply.tool_calls
    assert (first.id, second.id) == ("functions.get_time:0", "functions.get_time:1")
    assert third.id not in (first.id, second.id)
    assert codes(reply) == ["duplicate_id"]
    results = [tool_result(made, made.raw_arguments) for made in (third, first, second)]
    sent = write([user("x"), reply.message, *results], adapter=ENGINE)["messages"]
    assert [(turn["tool_call_id"], turn["content"]) for turn in sent[2:]] == [
        ("functions.get_time:2", '{"zone":"UTC"}'),
        ("functions.get_time:0", "{}"),
        ("functions.get_time:1", "{}"),
    ]


@each_row(
    ("said", "called"),
    [
        ('[{"parameters":{"name":"x"},"name":"get_weather"}]', [("get_weather", {"name": "x"})]),
        ('[{"name":"get_time","parameters":{}},{"name":"get_time","parameters":{}}]', [("get_time", {})] * 2),
        ('\n[ { "name" : "get_time" , "parameters" : { } } ]\n', [("get_time", {})]),
        ("[]", []),
    ],
)
def test_001_10_a_required_array(said: str, called: list[tuple[str, Any]]) -> None:
    """The array of a demanded call is read with its keys in any order, and is never shown as text."""
    reply = read(body("chat", said), choice="required", dialect="required")
    assert (reply.text, [(made.name, made.arguments) for made in reply.tool_calls]) == ("", called)


@each_row("said", ["I can't.", '"get_weather"', "42", 'Sure: [{"name":"get_time","parameters":{}}]'])
def test_001_10_a_text_that_is_no_array(said: str) -> None:
    """What is no array is the model's text, and makes no call."""
    reply = read(body("chat", said), choice="required", dialect="required")
    assert (facts(reply), codes(reply)) == ((said, [], "stop"), ["tool_choice_unmet"])


def whole(content: str) -> bytes:
    """An answer that came as plain JSON, although a stream was asked for."""
    said = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"id": "c1", "model": "m", "choices": [said]}).encode()


@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_001_11_a_named_choice_and_no_text(blank: str) -> None:
    """A blank text is no call with empty arguments, in a stream and in a whole answer."""
    for answered in (whole(blank), body("chat", blank)):
        reply = read(answered, choice=NAMED, dialect="named")
        assert reply.tool_calls == []
        assert "tool_choice_unmet" in codes(reply)


@pytest.mark.parametrize("broken", ['[{"name": "get_time", "parameters": {bad}}]', '[{"name": get_time}]'])
def test_001_11_a_required_array_that_is_no_json(broken: str) -> None:
    """No call is made of broken JSON; it is shown, because nothing that the model has said is lost."""
    for answered in (whole(broken), body("chat", broken)):
        reply = read(answered, choice="required", dialect="required")
        assert (facts(reply), codes(reply)) == ((broken, [], "stop"), ["tool_choice_unmet"])


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_001_12_the_calls_decide_and_not_the_word(choice: Any) -> None:
    """ "stop" after a named choice and "tool_calls" after a demanded one are the same answer (vllm#25054)."""
    stop, tool_calls = (read(named("a", OSLO, finish=finish), choice=choice) for finish in ("stop", "tool_calls"))
    assert facts(stop) == facts(tool_calls) == ("", [("get_weather", {"city": "Oslo"})], "tool_calls")
    assert (stop.raw_finish_reason, tool_calls.raw_finish_reason) == ("stop", "tool_calls")


# --- 002: deltas that hold several things -----------------------------------------------------------------------------

COMBINATIONS = [
    ("reasoning_content",),
    ("content",),
    ("tool_calls",),
    ("reasoning_content", "content"),
    ("reasoning_content", "tool_calls"),
    ("content", "tool_calls"),
    ("reasoning_content", "content", "tool_calls"),
]
CITIES = ["Oslo", "Rome", "Bern"]


@each_row("count", [1, 2, 3])
@each_row("fields", COMBINATIONS, ids="+".join)
@each_row("grouped", [True, False], ids=["grouped", "mixed"])
def test_002_1_compound_deltas(fields: tuple[str, ...], count: int, grouped: bool) -> None:
    """Every field of a delta is read, reasoning first, then the text, then the entries of each index together."""
    heads = [entry(at, f"call_{at}", "get_weather", type="function") for at in range(count)]
    begun = [entry(at, arguments='{"city":"') for at in range(count)]
    ended = [entry(at, arguments=CITIES[at] + '"}') for at in range(count)]
    entries = (
        [one for call in zip(heads, begun, ended, strict=True) for one in call] if grouped else heads + begun + ended
    )
    values = {"tool_calls": entries, "content": "said", "reasoning_content": "thought"}
    stream = chunk({name: value for name, value in values.items() if name in fields}) + fin("stop") + DONE
    reply = read(stream)
    called = [(f"call_{at}", "get_weather", {"city": CITIES[at]}) for at in range(count)]
    assert reply.reasoning == ("thought" if "reasoning_content" in fields else "")
    assert reply.text == ("said" if "content" in fields else "")
    assert calls(reply) == (called if "tool_calls" in fields else [])
    shown = [(made.reasoning, made.delta) for made in fold_chunks(stream, None)[0]]
    assert shown == [
        *([("thought", "")] if "reasoning_content" in fields else []),
        *([("", "said")] if "content" in fields else []),
        ("", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", None])
def test_002_3_empty_content_is_no_step(content: str | None) -> None:
    """An empty text beside reasoning and calls makes no chunk and ends nothing."""
    begun = {"reasoning_content": "hm", "content": content, "tool_calls": [entry(0, "a", "get_weather", '{"city":')]}
    ended = {"content": content, "tool_calls": [entry(0, arguments='"Oslo"}')]}
    chunks, reply = fold_chunks(chunk(begun) + chunk(ended) + fin("tool_calls") + DONE)
    assert [(made.reasoning, made.delta, made.finished) for made in chunks] == [("hm", "", False), ("", "", True)]
    assert calls(reply) == [("a", "get_weather", {"city": "Oslo"})]


def test_002_4_entries_of_one_index_are_one_call() -> None:
    """Names and arguments of two calls, mixed over the entries of two deltas, find each other by the index."""
    reply = read(
        call(
            entry(1, "b", "get_time", type="function"),
            entry(0, "a", "get_weather", type="function"),
            entry(1, arguments="{"),
            entry(0, arguments='{"city"'),
        ),
        call(entry(0, arguments=":"), entry(1, arguments="}"), entry(0, arguments='"Oslo"}')),
        fin("tool_calls"),
        DONE,
    )
    assert calls(reply) == [("a", "get_weather", {"city": "Oslo"}), ("b", "get_time", {})]


def test_002_6_an_entry_without_index_stays_in_the_open_call() -> None:
    """Arguments without an index go to the call that was opened last, also inside one delta."""
    reply = read(
        call(entry(0, "a", "get_weather", type="function"), entry(arguments='{"city":')),
        call(entry(arguments='"Oslo"}')),
        call(entry(1, "b", "get_weather", type="function"), entry(arguments='{"city":"Ro')),
        call(entry(arguments='me"}')),
        fin("tool_calls"),
        DONE,
    )
    assert calls(reply) == [("a", "get_weather", {"city": "Oslo"}), ("b", "get_weather", {"city": "Rome"})]


def test_002_7_an_id_that_was_drawn_anew() -> None:
    """vLLM's Responses wire has ids of its own for a Kimi model's calls: Kimi is told the ids that it knows."""
    reply = read(completed(item(0, OSLO), item(1, "{}", "get_time")), adapter="responses")
    assert [made.id for made in reply.tool_calls] == ["call_0", "call_1"]
    sent = write([user("x"), reply.message, *(tool_result(made, "y") for made in reply.tool_calls)], adapter=ENGINE)
    assert ids(sent) == ["functions.get_weather:0", "functions.get_time:1"] * 2


def streamed(at: int, pieces: list[str], done: str | None, end: str) -> bytes:
    """A call as vLLM's Responses wire streams it: begun without arguments, in pieces, done, and done as an item."""
    place = {"output_index": at, "item_id": f"fc_{at}"}
    return b"".join([
        say("output_item.added", output_index=at, item=item(at, "", status="in_progress")),
        *(say("function_call_arguments.delta", **place, delta=piece) for piece in pieces),
        b"" if done is None else say("function_call_arguments.done", **place, arguments=done),
        say("output_item.done", output_index=at, item=item(at, end)),
    ])  # fmt: skip


def test_002_8_a_piece_that_was_left_out() -> None:
    """A server that passed on only the first entry of a delta has all of them in the end, which counts."""
    reply = read(streamed(0, ['{"city":'], OSLO, OSLO), completed(), adapter="responses")
    assert calls(reply) == [("call_0", "get_weather", {"city": "Oslo"})]
    assert codes(reply) == ["arguments_mismatch"]


def test_002_9_items_that_open_and_close_in_turn() -> None:
    """Reasoning, an empty message, calls with pieces and without, each closed before the next one opens."""
    thought = {"type": "reasoning", "id": "rs_0", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    reply = read(
        say("output_item.added", output_index=0, item={**thought, "content": []}),
        say("reasoning_text.delta", output_index=0, item_id="rs_0", content_index=0, delta="hm"),
        say("reasoning_text.done", output_index=0, item_id="rs_0", content_index=0, text="hm"),
        say("output_item.done", output_index=0, item=thought),
        say("output_item.added", output_index=1, item={**message(None, 1), "status": "in_progress"}),
        say("content_part.added", output_index=1, item_id="msg_1", content_index=0,
            part={"type": "output_text", "text": ""}),
        say("output_text.done", output_index=1, item_id="msg_1", content_index=0, text=""),
        say("content_part.done", output_index=1, item_id="msg_1", content_index=0,
            part={"type": "output_text", "text": ""}),
        say("output_item.done", output_index=1, item=message(None, 1)),
        streamed(2, ['{"city":', '"Oslo"}'], OSLO, OSLO),
        streamed(3, [], None, ""),
        streamed(4, [], None, "{}"),
        completed(thought, message(None, 1), item(2, OSLO), item(3, ""), item(4, "{}")),
        adapter="responses",
    )  # fmt: skip
    assert (reply.reasoning, reply.text, codes(reply)) == ("hm", "", [])
    assert calls(reply) == [
        ("call_2", "get_weather", {"city": "Oslo"}),
        ("call_3", "get_weather", {}),
        ("call_4", "get_weather", {}),
    ]


@each_row(("before", "after"), [("\n\n", ""), ("", "Done."), (" \n", "\n"), ("Let me look.", "Done.")])
@each_row("wire", WIRES)
def test_002_10_text_round_a_call_is_text(wire: str, before: str, after: str) -> None:
    """White space before a call and text after it are neither swallowed nor part of the call."""
    if wire == "responses":
        stream = b"".join([
            say("output_text.delta", output_index=0, item_id="msg_0", delta=before),
            say("output_item.done", output_index=0, item=message(before, 0)),
            streamed(1, [OSLO], OSLO, OSLO),
            say("output_text.delta", output_index=2, item_id="msg_2", delta=after),
            say("output_item.done", output_index=2, item=message(after, 2)),
            completed(message(before, 0), item(1, OSLO), message(after, 2)),
        ])  # fmt: skip
    else:
        begun, ended = call(entry(0, "call_1", "get_weather", '{"city":')), call(entry(0, arguments='"Oslo"}'))
        stream = text(before) + begun + text(after) + ended + fin("tool_calls") + DONE
    reply = read(stream, adapter=wire)
    assert (reply.text, calls(reply)) == (before + after, [("call_1", "get_weather", {"city": "Oslo"})])
    assert codes(reply) == []


BROKEN = OSLO[1:]  # the first brace is lost


@each_row("end", [OSLO, BROKEN])
@each_row("done", [OSLO, BROKEN, None])
@each_row("pieces", [OSLO, BROKEN])
def test_002_11_the_first_brace_is_lost(pieces: str, done: str | None, end: str) -> None:
    """Pieces, their end and the item agree, or the reply says so; a whole one of them is the call, never `f({})`."""
    told = {pieces, end, *([done] if done else [])}
    reply = read(streamed(0, [pieces[:4], pieces[4:]], done, end), completed(item(0, end)), adapter="responses")
    [made] = reply.tool_calls
    if OSLO in told:
        assert (made.arguments, made.raw_arguments) == ({"city": "Oslo"}, OSLO)
    else:
        assert (made.arguments, made.error) == ({"_raw": BROKEN, "_error": "invalid_json"}, "invalid_json")
    assert codes(reply) == ["arguments_mismatch"] * (len(told) > 1) + ["invalid_arguments"] * (OSLO not in told)


@pytest.mark.parametrize("lost", ["{", '{"'])
def test_002_11_the_same_on_the_chat_wire(lost: str) -> None:
    """Where nothing repeats the arguments, a call without its beginning can't be run, and says so."""
    rest = OSLO.removeprefix(lost)
    reply = read(named("a", "", rest[:3], rest[3:], finish="tool_calls"))
    assert calls(reply) == [("a", "get_weather", {"_raw": rest, "_error": "invalid_json"})]
    assert codes(reply) == ["invalid_arguments"]


# --- 004: no tools ----------------------------------------------------------------------------------------------------

MARKUP = {
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"city":"Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    "qwen3coder": "<tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n</function>\n</tool_call>",
    "mistral": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}',
}


def test_004_1_none_is_a_word_and_none_is_no_word() -> None:
    """Only the word "none" forbids; a choice of None is the default, after which calls are handed out."""
    stream = body("chat", "Hello", OSLO, finish="tool_calls")
    assert facts(read(stream, choice="none")) == ("Hello", [], "stop")
    assert facts(read(stream, choice=None)) == ("Hello", [("get_weather", {"city": "Oslo"})], "tool_calls")
    assert (write("x", BOTH, "none")["tool_choice"], write("x", BOTH, None)["tool_choice"]) == ("none", "auto")
    for odd in ("None", "NONE", " none", False):
        with pytest.raises(ConfigError, match="tool_choice is"):
            StreamDecoder("chat", tool_choice=odd)


@each_row("configured", [True, False], ids=["dialect", "no dialect"])
@each_row("name", MARKUP)
@each_row("wire", WIRES)
def test_004_2_and_3_markup_is_text(wire: str, name: str, configured: bool) -> None:
    """After "none" a call in the text stays there, byte for byte, and the reply says that it is there."""
    said = f"Sure. {MARKUP[name]} Done."
    reply = read(body(wire, said), choice="none", adapter=wire, dialect=name if configured else None)
    assert facts(reply) == (said, [], "stop")
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("leaked_markup", f"the text has tool calls in it that the dialect {name!r} would read")
    ]


@each_row("name", MARKUP)
def test_004_4_reasoning_is_still_split_off(name: str) -> None:
    """After "none" a dialect goes on to read reasoning, in the text and in a field of its own."""
    reply = read(body("chat", f"<think>hm</think>Sure. {MARKUP[name]}"), choice="none", dialect=name)
    assert (reply.reasoning, reply.text) == ("hm", f"Sure. {MARKUP[name]}")
    reply = read(chunk({"reasoning_content": "hm"}), body("chat", MARKUP[name]), choice="none", dialect=name)
    assert (reply.reasoning, reply.text) == ("hm", MARKUP[name])


@pytest.mark.parametrize("raw", ["stop", "tool_calls", "function_call"])
def test_004_5_the_finish_is_never_tool_calls(raw: str) -> None:
    """With calls, with markup, in a stream and in a whole answer: after "none" the model has stopped."""
    function = {"name": "get_weather", "arguments": OSLO}
    said = {"role": "assistant", "content": "Hi", "tool_calls": [{"id": "a", "type": "function", "function": function}]}
    plain = json.dumps({"id": "c1", "choices": [{"index": 0, "message": said, "finish_reason": raw}]}).encode()
    for answered in (plain, body("chat", "Hi", OSLO, finish=raw)):
        reply = read(answered, choice="none", dialect="hermes")
        assert (facts(reply), reply.raw_finish_reason) == (("Hi", [], "stop"), raw)
        assert codes(reply) == ["calls_dropped"]
    reply = read(body("chat", MARKUP["hermes"], finish=raw), choice="none", dialect="hermes")
    assert (reply.tool_calls, reply.raw_finish_reason) == ([], raw)


@each_row("dialect", ["required", "named", "kimi", "hermes", "llama3", "hermes+qwen3coder+mistral"])
def test_004_6_one_guard_for_every_form(dialect: str) -> None:
    """After "none" no form of a call is read out of the text, guided output included."""
    for said in ('[{"name": "get_weather", "parameters": {"city": "Oslo"}}]', OSLO, *MARKUP.values()):
        reply = read(body("chat", said), choice="none", dialect=dialect)
        assert (reply.text, reply.tool_calls, reply.finish_reason) == (said, [], "stop")
