"""What goes wrong between clients and Kimi models: requests that Moonshot refuses, ids that the model must see again.

The beginning of a test's name is the id of its entry in docs/bugs.md.
"""

from __future__ import annotations

import copy
import json
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, event, fin, fold_chunks, text
from servers import END, STREAM, Connection, answer, framed, serving
from streamfold import (
    BadRequestError,
    ConfigError,
    Message,
    Provider,
    Reply,
    Tool,
    ToolCall,
    UpstreamError,
    Usage,
    assistant,
    tool_result,
    user,
)
from streamfold.adapters import Adapter, find_adapter
from streamfold.adapters.kimi import KimiAdapter, KimiQuirks
from streamfold.requests.request import Request
from tables import each_row

ENGINE = KimiAdapter(KimiQuirks("max_tokens", hosted=False))
FINISH = fin("tool_calls") + DONE


def write(
    messages: Any = "Hello", tools: Any = None, *, model: str = "kimi-k2.6", adapter: Adapter | None = None, **rest: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body of a request, for the hosted Kimi unless another adapter is given, and the codes of what was changed."""
    adapter = adapter or KimiAdapter()
    ready = adapter.prepare(Request.read(model, messages, tools, "auto", rest))
    return json.loads(ready.body), [warning.code for warning in ready.warnings]


def turns(*messages: Any, adapter: Adapter | None = None) -> list[dict[str, Any]]:
    """The messages of a request."""
    sent: list[dict[str, Any]] = write(list(messages), adapter=adapter)[0]["messages"]
    return sent


def read(*events: bytes, **decoder: Any) -> Reply:
    """The reply, the same for every cut of the bytes."""
    return assert_any_cut(b"".join(events), adapter="kimi", **decoder)


def ids(messages: list[dict[str, Any]]) -> list[str]:
    """The ids of calls and results, in the order in which the model sees them."""
    return [
        name
        for message in messages
        for name in [
            *(made["id"] for made in message.get("tool_calls", ())),
            *([message["tool_call_id"]] if "tool_call_id" in message else []),
        ]
    ]


# --- H1: reasoning goes back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_h1_reasoning_goes_back_with_every_turn(name: str) -> None:
    """The reasoning of each turn, with calls and without, is sent again byte for byte (mastra-ai/mastra#13635)."""
    first = read(
        chunk({name: " Let me\n"}),
        chunk({name: "look: 世界 "}),
        call(entry(0, "functions.search:0", "search", '{"q":"x"}')),
        FINISH,
    )
    second = read(chunk({name: "\tDone."}), text("Found."), fin("stop"), DONE)
    result = tool_result(first.tool_calls[0], "y")
    assert turns(user("x"), first.message, result, second.message, user("?")) == [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": " Let me\nlook: 世界 ",
            "tool_calls": [
                {
                    "id": "functions.search:0",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q":"x"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "functions.search:0", "content": "y"},
        {"role": "assistant", "content": "Found.", "reasoning_content": "\tDone."},
        {"role": "user", "content": "?"},
    ]


@each_row(
    ("delta", "sent"),
    [
        ({"reasoning_content": ""}, ""),
        ({"reasoning_content": " "}, " "),
        ({"reasoning_content": None}, ""),
        ({}, ""),
    ],
)
def test_h1_a_turn_with_calls_always_has_reasoning(delta: dict[str, Any], sent: str) -> None:
    """While the model thinks, a turn with calls has `reasoning_content`, if only an empty one (crmne/ruby_llm#749)."""
    reply = read(chunk(delta), call(entry(0, "functions.search:0", "search", "{}")), FINISH)
    result = tool_result(reply.tool_calls[0], "y")
    assert turns(user("x"), reply.message, result)[1]["reasoning_content"] == sent


@pytest.mark.parametrize(("reasoning", "sent"), [("", {"reasoning_content": ""}), (None, {})])
def test_h1_empty_and_absent_reasoning_differ(reasoning: str | None, sent: dict[str, str]) -> None:
    """Nothing is made up for a turn without calls, and for none at all where an engine serves the model."""
    message = assistant("Hi", reasoning=reasoning)
    assert turns(user("x"), message, user("?"))[1] == {"role": "assistant", "content": "Hi", **sent}
    made = ToolCall("functions.search:0", "search", {}, "{}")
    turn = turns(user("x"), assistant(tool_calls=[made], reasoning=reasoning), tool_result(made, "y"), adapter=ENGINE)
    assert {name: turn[1][name] for name in turn[1] if name.startswith("reasoning")} == sent


def test_h1_dicts_keep_their_reasoning() -> None:
    """Messages in the shape of the API go as they are; only what Moonshot would refuse is added."""
    function = {"id": "functions.search:0", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    given = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [function]},
        {"role": "tool", "tool_call_id": "functions.search:0", "content": "y"},
        {"role": "assistant", "content": "z", "reasoning_content": ""},
        {"role": "assistant", "content": None, "tool_calls": [{**function, "id": "functions.search:1"}]},
        {"role": "tool", "tool_call_id": "functions.search:1", "content": "y"},
    ]
    before = copy.deepcopy(given)
    assert turns(*given) == [*given[:4], {**given[4], "reasoning_content": ""}, given[5]]
    assert given == before


# --- H2, H3: ids ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapter", [None, ENGINE, find_adapter("chat")()], ids=["hosted", "engine", "chat"])
def test_h2_ids_go_round_byte_for_byte(adapter: Adapter | None) -> None:
    """Ids count the calls of the whole conversation, and are sent as they came (vybestack/llxprt-code#712)."""
    first = read(
        call(entry(0, "functions.search:0", "search", "{}")),
        call(entry(1, "functions.get_time:1", "get_time", "{}")),
        FINISH,
    )
    second = read(call(entry(0, "functions.search:2", "search", "{}")), FINISH)
    third = read(call(entry(0, "functions.get_time:3", "get_time", "{}")), FINISH)
    conversation: list[Any] = [user("x")]
    for reply in (first, second, third):
        conversation += [reply.message, *(tool_result(made, "y") for made in reply.tool_calls)]
    assert ids(turns(*conversation, adapter=adapter)) == [
        "functions.search:0", "functions.get_time:1", "functions.search:0", "functions.get_time:1",
        "functions.search:2", "functions.search:2",
        "functions.get_time:3", "functions.get_time:3",
    ]  # fmt: skip


@each_row("call_id", ["functionsexec5", "call00003", "search:0", "3", "toolu_01A", "functions.search:9"])
def test_h3_variant_ids_are_opaque(call_id: str) -> None:
    """An id of any style is the call's id, unchanged, and the result goes by it (sgl-project/sglang#21377)."""
    reply = read(call(entry(0, call_id, "search", '{"q":')), call(entry(0, arguments='"x"}')), FINISH)
    assert calls(reply) == [(call_id, "search", {"q": "x"})]
    assert codes(reply) == []
    result = tool_result(reply.tool_calls[0], "y")
    assert ids(turns(user("x"), reply.message, result, adapter=find_adapter("chat")())) == [call_id, call_id]


@each_row("call_id", ["functionsexec5", "call00003", "search:0", "3", "toolu_01A", "functions.search:9"])
def test_h3_the_model_sees_its_own_style(call_id: str) -> None:
    """What is sent to a Kimi model has the ids that it would have written; the caller's objects keep theirs."""
    reply = read(call(entry(0, call_id, "search", "{}")), FINISH)
    result = tool_result(reply.tool_calls[0], "y")
    for adapter in (None, ENGINE):
        assert ids(turns(user("x"), reply.message, result, adapter=adapter)) == ["functions.search:0"] * 2
    assert (reply.tool_calls[0].id, result.tool_call_id) == (call_id, call_id)


# --- H4: empty texts --------------------------------------------------------------------------------------------------

EMPTY = {"type": "text", "text": ""}
SAID = {"type": "text", "text": "Hi"}


@each_row(
    ("content", "sent"),
    [
        ([EMPTY], None),
        ([EMPTY, EMPTY], None),
        ([EMPTY, SAID, EMPTY], [SAID]),
        ([], None),
        ("", None),
        (None, None),
        (" ", " "),
    ],
)
def test_h4_no_empty_text_beside_calls(content: Any, sent: Any) -> None:
    """Moonshot refuses an empty text beside calls ("text content is empty"): it is left out, on a copy."""
    made = ToolCall("functions.search:0", "search", {}, "{}")
    api = {"id": made.id, "type": "function", "function": {"name": "search", "arguments": "{}"}}
    before = copy.deepcopy(content)
    for message in (
        Message("assistant", content, (made,)),
        {"role": "assistant", "content": content, "tool_calls": [api]},
    ):
        turn = turns(user("x"), message, tool_result(made, "y"))[1]
        assert turn == {"role": "assistant", "content": sent, "reasoning_content": "", "tool_calls": [api]}
    assert content == before


# --- H5, H6, H7: tools ------------------------------------------------------------------------------------------------


class Unit(Enum):
    CELSIUS = "C"
    KELVIN = "K"


class Place(BaseModel):
    city: str


class Query(BaseModel):
    """Searches."""

    q: str = Field(description="What for.")
    limit: int | None = None
    unit: Unit
    near: Place
    others: list[Place] = []
    mode: Literal["fast", "slow"] = "fast"


def test_h5_schemas_of_models_are_taken() -> None:
    """Optional, nested, repeated and enumerated fields of a model are in Moonshot's flavour, and sent as they are."""
    body, changes = write(tools=[Tool.from_model(Query)])
    assert changes == []
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "Query",
                "description": "Searches.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "q": {"type": "string", "title": "Q", "description": "What for."},
                        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Limit"},
                        "unit": {"$ref": "#/$defs/Unit"},
                        "near": {"$ref": "#/$defs/Place"},
                        "others": {
                            "type": "array", "items": {"$ref": "#/$defs/Place"}, "default": [], "title": "Others",
                        },
                        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast", "title": "Mode"},
                    },
                    "required": ["q", "unit", "near"],
                    "$defs": {
                        "Place": {
                            "type": "object", "title": "Place", "required": ["city"],
                            "properties": {"city": {"type": "string", "title": "City"}},
                        },
                        "Unit": {"type": "string", "enum": ["C", "K"], "title": "Unit"},
                    },
                },
            },
        },
    ]  # fmt: skip


def outside_the_flavour(schema: Any, path: str = "", *, root: bool = True) -> list[str]:
    """Where Moonshot's own validator (MoonshotAI/walle, and what its users were answered) refuses a schema."""
    found = []
    kinds = {"type", "anyOf", "oneOf", "allOf", "$ref"} & set(schema)
    if root and schema.get("type") != "object":
        found.append(f"{path}: the root is an object")
    if not kinds and not (path.endswith("additionalProperties") and not schema):
        found.append(f"{path}: type is not defined")
    if "type" in kinds and len(kinds) > 1:
        found.append(f"{path}: type beside {sorted(kinds - {'type'})}")
    if "$ref" in kinds and not schema["$ref"].startswith("#/$defs/"):
        found.append(f"{path}: references must start with #/$defs/")
    if "$ref" in kinds and not set(schema) <= {"$ref", "description"}:
        found.append(f"{path}: more beside $ref")
    if not isinstance(schema.get("items", {}), dict):
        found.append(f"{path}: items must be an object")
    for keyword in ("properties", "$defs"):
        for name, inside in schema.get(keyword, {}).items():
            found += outside_the_flavour(inside, f"{path}.{keyword}.{name}", root=False)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            found += outside_the_flavour(schema[keyword], f"{path}.{keyword}", root=False)
    for number, inside in enumerate(schema.get("anyOf", ())):
        found += outside_the_flavour(inside, f"{path}.anyOf{number}", root=False)
    return found


class Described(BaseModel):
    near: Place = Field(description="Where.")
    unit: Unit = Unit.CELSIUS
    units: dict[str, Unit] = {}
    far: Place | None = Field(None, description="Or there.")
    anything: Any = None


class Tree(BaseModel):
    name: str
    parent: Tree | None = None
    children: list[Tree] = Field([], description="Below.")


TEXT = {"A": {"type": "string"}}
ODD = {
    "values of one type": {"properties": {"a": {"enum": ["x", "y"]}, "b": {"const": 1}}},
    "values of two types": {"properties": {"a": {"enum": ["x", None]}, "b": {"enum": ["x", 1]}}},
    "anything": {"properties": {"a": {}, "b": {"description": "What you like."}}},
    "type beside anyOf": {"properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "x"}]}}},
    "deep": {"properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"enum": [1]}}}}}},
    "other properties": {"additionalProperties": {"enum": ["x"]}},
    "any other properties": {"properties": {}, "additionalProperties": {}},
    "in an alternative": {"properties": {"a": {"anyOf": [{"type": "null"}, {"const": "x"}]}}},
    "old definitions": {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"enum": ["x"]}}},
    "a sibling": {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
    "demand beside $ref": {"properties": {"a": {"$ref": "#/$defs/A", "minLength": 1}}, "$defs": TEXT},
    "type beside $ref": {"properties": {"a": {"$ref": "#/$defs/A", "type": "string"}}, "$defs": TEXT},
    "positions": {"properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}}},
    "a model": Described.model_json_schema(),
    "a recursive model": Tree.model_json_schema(),
}  # fmt: skip


@each_row("name", ODD)
def test_h5_what_is_sent_is_in_the_flavour(name: str) -> None:
    """Schemas that Moonshot would refuse are sent in its flavour, which is said, and the caller's own is left alone."""
    given = {"type": "object", **ODD[name]}
    before = copy.deepcopy(given)
    body, changes = write(tools=[Tool("search", parameters=given)])
    sent = body["tools"][0]["function"]["parameters"]
    assert outside_the_flavour(sent) == []
    assert changes == (["schema_changed"] if sent != before else [])
    assert given == before


def test_h5_schemas_in_the_flavour() -> None:
    """Types are said where the values tell them or beside the alternatives, and references stand alone."""
    place = {"type": "object", "title": "Place", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    given = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["fast", "slow"], "description": "How."},
            "count": {"const": 3},
            "code": {"type": "string", "anyOf": [{"minLength": 3}, {"type": "string", "pattern": "^x"}]},
            "near": {"$ref": "#/$defs/Place"},
            "far": {"$ref": "#/$defs/Place", "description": "Or there.", "minProperties": 1},
        },
        "$defs": {"Place": place},
    }
    body, changes = write(tools=[Tool("search", parameters=given)])
    assert changes == ["schema_changed"]
    assert body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": ["fast", "slow"], "description": "How."},
            "count": {"type": "integer", "const": 3},
            "code": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "pattern": "^x"}]},
            "near": {"$ref": "#/$defs/Place"},
            "far": {**place, "description": "Or there.", "minProperties": 1},
        },
        "$defs": {"Place": place},
    }


@each_row(
    "schema",
    [
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {}},
        {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]}}},
        {"type": "object", "properties": {"a": {"$ref": "https://x.test/a.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nowhere"}}},
    ],
    ids=["alternatives at the root", "contradiction", "elsewhere", "nowhere"],
)
def test_h5_what_has_no_form_in_the_flavour(schema: dict[str, Any]) -> None:
    """What can't be said in the flavour is said in the description, or left open; a warning says so."""
    body, changes = write(tools=[Tool("search", parameters=schema)])
    assert outside_the_flavour(body["tools"][0]["function"]["parameters"]) == []
    assert changes == ["schema_changed"]
    with pytest.raises(ConfigError, match="search"):
        write(tools=[Tool("search", parameters={"type": "string"})])


def test_h5_an_engine_takes_any_schema() -> None:
    """The flavour is that of the hosted API: an engine gets the schema as it is."""
    odd = {"properties": {"a": {"enum": [1]}, "b": {"type": "string", "anyOf": [{"type": "string"}]}}}
    body, changes = write(tools=[Tool("search", parameters=odd)], adapter=ENGINE)
    assert (body["tools"][0]["function"]["parameters"], changes) == (odd, [])


@each_row("name", ["abc", "_tool", "get-weather_2", "T" * 64])
def test_h6_names_that_are_taken(name: str) -> None:
    """Names that fit are sent unchanged."""
    body, changes = write(tools=[Tool(name)])
    assert (body["tools"][0]["function"]["name"], changes) == (name, [])


def test_h6_names_stay_apart() -> None:
    """A name that is changed does not become that of another tool."""
    given = ["a.b.c", "a_b_c", "a/b/c", "a b c"]
    body, _ = write(tools=[Tool(name) for name in given])
    sent = [made["function"]["name"] for made in body["tools"]]
    assert len(set(sent)) == 4
    assert sent[1] == "a_b_c"


@each_row("adapter", [None, ENGINE], ids=["hosted", "engine"])
@each_row("tools", [None, [], ()])
def test_h7_no_empty_list_of_tools(tools: Any, adapter: Adapter | None) -> None:
    """An empty list of tools is a 400 on vLLM: neither it nor a tool choice is sent (MoonshotAI/kimi-cli#2233)."""
    assert write(tools=tools, adapter=adapter)[0].keys() == {"model", "messages", "stream", "stream_options"}


def test_h8_arguments_of_a_builtin_tool_go_back_unchanged() -> None:
    """`$web_search` is answered with its own arguments' text, spaces, escapes and all."""
    declared = {"type": "builtin_function", "function": {"name": "$web_search"}}
    raw = '{ "search_result": {"search_id":"s\\u4e16"},\n "usage": {"total_tokens": 1e2} }'
    reply = read(
        call(entry(0, "functions.$web_search:0", "$web_search", "", type="builtin_function")),
        call(entry(0, arguments=raw[:9])),
        call(entry(0, arguments=raw[9:])),
        FINISH,
        tools=[declared],
    )
    [made] = reply.tool_calls
    assert made.raw_arguments == raw
    body, changes = write([user("x"), reply.message, tool_result(made, made.raw_arguments)], [declared])
    assert (body["tools"], changes) == ([declared], ["lost_reasoning"])
    assert body["messages"][1]["tool_calls"][0]["function"] == {"name": "$web_search", "arguments": raw}
    assert body["messages"][2] == {"role": "tool", "tool_call_id": "functions.$web_search:0", "content": raw}


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_h8_other_apis_have_no_builtin_tools(api: str) -> None:
    """A tool of the provider's own is refused where there is none, not sent as a function that nobody runs."""
    declared = {"type": "builtin_function", "function": {"name": "$web_search"}}
    with pytest.raises(ConfigError, match=r"'\$web_search' has the (unknown )?kind 'builtin_function'"):
        write(tools=[declared], adapter=find_adapter(api)())


# --- H9: limits and sampling ------------------------------------------------------------------------------------------


@each_row(
    ("provider", "sent"),
    [
        ("kimi", {"max_completion_tokens": 9}),
        ("kimi-cn", {"max_completion_tokens": 9}),
        ("kimi-code", {"max_completion_tokens": 9}),
        ("kimi-vllm", {"max_tokens": 9}),
        ("kimi-sglang", {"max_tokens": 9}),
        ("vllm", {"max_tokens": 9}),
        ("openai", {"max_completion_tokens": 9}),
    ],
)
def test_h9_one_name_for_the_output_limit(provider: str, sent: dict[str, int]) -> None:
    """Each endpoint is told the limit under the name that it reads, and never under both."""
    adapter = Provider.from_config(f"{provider}:kimi-k2.6").profile.make_adapter()
    body, _ = write(adapter=adapter, max_output_tokens=9)
    assert {name: value for name, value in body.items() if "tokens" in name} == sent


@each_row("model", ["kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code", "kimi-k3", "kimi-for-coding", "kimi-latest"])
@each_row("options", [{"temperature": 0.6}, {"top_p": 0.95}, {"temperature": 1, "top_p": 1}])
def test_h9_fixed_sampling_is_not_sent(model: str, options: dict[str, float]) -> None:
    """The hosted models of today fix their sampling, thinking or not: nothing is sent of it, and that is said."""
    for thinking in ({}, {"extra_body": {"thinking": {"type": "disabled"}}}):
        ready = KimiAdapter().prepare(Request.read(model, "Hello", None, "auto", {**options, **thinking}))
        assert not {"temperature", "top_p", "n"} & set(json.loads(ready.body))
        assert [warning.code for warning in ready.warnings] == ["option_dropped"]


# --- H10: the id for the support --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_h10_trace_id() -> None:
    """`x-trace-id`, for which the support asks, is on replies, on refusals, and on errors inside a stream."""
    stream = STREAM.replace(b"x-request-id: req_1", b"x-trace-id: tr_1")
    failure = {"error": {"type": "server_error", "message": "broken"}}
    refusal = b'{"error":{"type":"invalid_request_error","message":"bad schema"}}'
    replies = [
        stream + framed(text("Hi"), fin("stop"), DONE) + END,
        stream + framed(text("Hi"), event(failure)) + END,
        answer("400 Bad Request", refusal, "Content-Type: application/json", "x-trace-id: tr_2"),
    ]

    async def script(peer: Connection) -> None:
        while replies:
            await peer.request()
            await peer.send(replies.pop(0))

    async with serving(script) as server, server.provider(adapter="kimi", model="kimi-k2.6") as provider:
        assert (await provider.chat("Hello")).request_id == "tr_1"
        with pytest.raises(UpstreamError, match="broken") as broken:
            await provider.chat("Hello")
        assert broken.value.request_id == "tr_1"
        with pytest.raises(BadRequestError, match="bad schema") as refused:
            await provider.chat("Hello")
        assert refused.value.request_id == "tr_2"


# --- H11, H12, H13: answers -------------------------------------------------------------------------------------------


def test_h11_usage_in_the_choice_and_again_after_it() -> None:
    """Counts inside the choice are read, those of a later chunk replace them, and nothing is added up."""
    in_choice = {"prompt_tokens": 8, "completion_tokens": 3, "total_tokens": 11, "cached_tokens": 4}
    last = {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13, "cached_tokens": 6}
    made = call(entry(0, "functions.search:0", "search", "{}"))
    finish = {"index": 0, "delta": {}, "finish_reason": "tool_calls", "usage": in_choice}
    with_finish = event({"id": "c1", "model": "m", "choices": [finish]})
    assert read(made, with_finish, DONE).usage == Usage(8, 3, 11, 4, raw=in_choice)
    after = event({"id": "c1", "model": "m", "choices": [], "usage": last})
    reply = read(made, with_finish, after, DONE)
    assert reply.usage == Usage(8, 5, 13, 6, raw=last)
    assert codes(reply) == []


def test_h12_the_prefix_is_not_in_the_answer() -> None:
    """In partial mode the answer goes on after the prefix: it is neither made up on it nor cut off it."""
    message = Message("assistant", "There once was", name="Poet", partial=True)
    assert turns(user("A limerick."), message)[1] == {
        "role": "assistant",
        "content": "There once was",
        "name": "Poet",
        "partial": True,
    }
    chunks, reply = fold_chunks(text(" a man") + text(" from Kent") + fin("stop") + DONE, adapter="kimi")
    assert [made.delta for made in chunks] == [" a man", " from Kent", ""]
    assert reply.message == assistant(" a man from Kent")
    assert f"{message.content}{reply.text}" == "There once was a man from Kent"


def test_h13_interleaved_fragments_with_names_on_all() -> None:
    """Fragments of two calls that alternate, name and id on each of them, are two whole calls."""
    reply = read(
        call(entry(0, "functions.search:0", "search", "")),
        call(entry(1, "functions.get_time:1", "get_time", "")),
        call(entry(0, "functions.search:0", "search", '{"q":')),
        call(entry(1, "functions.get_time:1", "get_time", '{"zone":')),
        call(entry(0, "functions.search:0", "search", '"x"}')),
        call(entry(1, "functions.get_time:1", "get_time", '"UTC"}')),
        FINISH,
    )
    assert calls(reply) == [
        ("functions.search:0", "search", {"q": "x"}),
        ("functions.get_time:1", "get_time", {"zone": "UTC"}),
    ]
    assert codes(reply) == []
