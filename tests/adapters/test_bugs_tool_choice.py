"""What goes wrong round a tool choice, in servers and in clients: bytes or a request in, whole values out.

The beginning of a test's name is the id of its entry in docs/bugs.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, event, fin, fold_chunks, text
from streamfold import (
    AllowedTools,
    NamedTool,
    Reply,
    Tool,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from streamfold.adapters import Adapter, EncodingReport, find_adapter
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.requests.request import Request
from tables import each_row

APIS = ("chat", "responses", "kimi")
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
    return adapter.encode(request, EncodingReport())


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


def body(api: str, said: str, *arguments: str, finish: str = "stop") -> bytes:
    """An answer on this API: a text, in two pieces, and calls of `get_weather` with these arguments."""
    half = len(said) // 2
    if api == "responses":
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
    """Text, calls and finish reason, which no API and no raw word may change."""
    return reply.text, [(made.name, made.arguments) for made in reply.tool_calls], reply.finish_reason


# --- J1: none ---------------------------------------------------------------------------------------------------------


@each_row("finish", ["stop", "tool_calls"])
@each_row("api", APIS)
def test_j1_calls_that_were_forbidden(api: str, finish: str) -> None:
    """After "none" no call is handed out, the text stays, and the reply says what was dropped (vllm#42747)."""
    reply = read(body(api, "Hello", OSLO, "{}", finish=finish), choice="none", adapter=api)
    assert facts(reply) == ("Hello", [], "stop")
    assert reply.raw_finish_reason == ("completed" if api == "responses" else finish)
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("calls_dropped", "the request forbade tool calls: get_weather, get_weather")
    ]
    made = write([user("x"), reply.message, user("y")], adapter=api)
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
    ids=APIS,
)
def test_j3_each_api_has_its_own_spelling(adapter: Any, sent: dict[str, Any], choice: Any) -> None:
    """One spelling of a named choice becomes that of the API, which takes no other, and the decoder reads them all."""
    assert write("x", BOTH, choice, adapter=adapter)["tool_choice"] == sent
    reply = read(body("chat", "", OSLO), choice=choice)
    assert (facts(reply), codes(reply)) == (("", [("get_weather", {"city": "Oslo"})], "tool_calls"), [])


@each_row("choice", [NAMED, {"type": "function", "name": "get_weather"}])
@each_row("api", APIS)
def test_j3_arguments_that_the_server_left_in_the_text(api: str, choice: Any) -> None:
    """A server that does not parse a named choice sends its arguments as text: with the dialect they are a call."""
    reply = read(body(api, OSLO), choice=choice, adapter=api, dialect="named")
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
@each_row("api", APIS)
def test_j5_an_array_of_calls_in_any_pieces(api: str, dialect: str) -> None:
    """Braces, brackets, quotes and escapes inside strings do not end anything, wherever the array is cut."""
    called = [
        {"name": "get_weather", "parameters": TRICKY},
        {"parameters": {}, "name": "get_time"},
        {"name": "get_weather", "parameters": {"city": "\\"}},
    ]
    said = json.dumps(called, indent=1, ensure_ascii=False)
    reply = read(body(api, said), choice="required", adapter=api, dialect=dialect)
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
@each_row("api", APIS)
def test_j8_text_where_a_call_was_demanded(api: str, choice: Any) -> None:
    """A model that talks instead of calling is heard, and the reply says that the choice was not met."""
    reply = read(body(api, "I would rather talk."), choice=choice, adapter=api)
    assert facts(reply) == ("I would rather talk.", [], "stop")
    assert codes(reply) == ["tool_choice_unmet"]


@pytest.mark.parametrize("api", APIS)
def test_j8_another_tool_than_the_named_one(api: str) -> None:
    """A call of another tool is handed out, with the warning."""
    reply = read(body(api, "", OSLO), choice=NamedTool("get_time"), adapter=api)
    assert facts(reply) == ("", [("get_weather", {"city": "Oslo"})], "tool_calls")
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("tool_choice_unmet", "the request required a call of get_time, but the response has none")
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
@each_row("adapter", ["chat", "responses", "kimi", ENGINE], ids=[*APIS, "engine"])
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
@each_row("adapter", ["chat", "responses", ENGINE], ids=APIS)
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


# --- what is a choice, and what is none -------------------------------------------------------------------------------


def test_calls_of_the_history_are_counted() -> None:
    """For Kimi every call of the conversation counts, in whatever form it is given; a bare string has none."""
    made = [ToolCall(f"id_{number}", "get_time", {}, "{}") for number in range(3)]
    api = {"id": "id_9", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}

    def conversation() -> Iterator[Any]:
        yield user("x")
        yield assistant(tool_calls=(each for each in made[:2]))
        yield from (tool_result(each, "y") for each in made[:2])
        yield {"role": "assistant", "content": None, "tool_calls": [api]}
        yield {"role": "tool", "tool_call_id": "id_9", "content": "y"}
        yield assistant("z", tool_calls=made[2:])
        yield tool_result(made[2], "y")

    numbered = ["functions.get_time:0", "functions.get_time:1", "functions.get_weather:2", "functions.get_time:3"]
    for adapter in (ENGINE, "kimi"):
        assert ids(write(conversation(), adapter=adapter)) == numbered * 2
        assert ids(write("x", adapter=adapter)) == []


def whole(content: str) -> bytes:
    """An answer that came as plain JSON, although a stream was asked for."""
    said = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"id": "c1", "model": "m", "choices": [said]}).encode()


@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_a_named_choice_and_no_text(blank: str) -> None:
    """A blank text is no call with empty arguments, in a stream and in a whole answer."""
    for answered in (whole(blank), body("chat", blank)):
        reply = read(answered, choice=NAMED, dialect="named")
        assert reply.tool_calls == []
        assert "tool_choice_unmet" in codes(reply)
