"""Which call does a fragment belong to? Bugs that real servers and clients have shown, each with its bytes.

The ids of a test's name, and those in front of a row, are entries of docs/bugs.md. The rows are in the notation of
`folding.fragments`: the chunks, then the calls as `id name arguments`, and the codes of the warnings. `?` is an id that
had to be made up.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, fin, fragments, text
from streamfold import Reply
from tables import each_row

END = fin("tool_calls") + DONE
Chunks = tuple[str | tuple[str, ...], ...]


def tools(*names: str) -> list[dict[str, Any]]:
    """Declared tools with these names."""
    return [{"type": "function", "function": {"name": name}} for name in names]


def told(reply: Reply, chunks: Chunks) -> tuple[str, ...]:
    """The calls of a reply and the codes of its warnings, as the rows have them."""
    ids = [made.id for made in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    made = [
        f"{made.id if made.id in str(chunks) else '?'} {made.name} {json.dumps(made.arguments, separators=(',', ':'))}"
        for made in reply.tool_calls
    ]
    return (*made, *codes(reply))


# --- one call, whether or not its fragments have an index (`#`) -------------------------------------------------------

ONE_CALL: dict[str, tuple[Chunks, tuple[str, ...]]] = {
    "A1: Fragments without an index are one call (Gemini's compatible endpoint, openai/openai-python#2806)": (
        ('# call_a f {"city":', '# - - "Paris"}'),
        ('call_a f {"city":"Paris"}',),
    ),
    "A6: An id that is sent with every fragment is one id (BerriAI/litellm#20480)": (
        ('# call_a f {"x"', "# call_a - :", "# call_a - 1}"),
        ('call_a f {"x":1}',),
    ),
    "A9: An empty id or name overwrites nothing and opens nothing (oracle/langchain-oracle#150)": (
        ('# call_a f {"x"', "# '' '' :1}", "# '' '' ''"),
        ('call_a f {"x":1}',),
    ),
    "A10: A call without an id is handed out under a made-up one, with a warning": (
        ('# - f {"x"', "# - - :1}"),
        ('? f {"x":1}', "missing_id"),
    ),
    "A10: An empty id is none": (
        ("# '' f {\"x\"", "# '' - :1}"),
        ('? f {"x":1}', "missing_id"),
    ),
    "A11: An id that comes after the name is the call's id": (
        ('# - f {"x"', "# call_a - :1}"),
        ('call_a f {"x":1}',),
    ),
    "A11: A name may come after the id, and after the first arguments": (
        ("# call_a", '# - - {"x"', "# - f :1}"),
        ('call_a f {"x":1}',),
    ),
    "A12: Every entry of a delta is read, in order (vllm-project/vllm#42683, where calls lost their first brace)": (
        (("# functions.f:0 f", '# - - {"x"'), "# - - :1}"),
        ('functions.f:0 f {"x":1}',),
    ),
}


@each_row("index", ["0", "-"])
@each_row("case", ONE_CALL)
def test_a1_a6_a9_a10_a11_a12_one_call(case: str, index: str):
    """What a server says oddly of one call is one call, with an index and without."""
    chunks, wanted = ONE_CALL[case]
    given = [tuple(made.replace("#", index) for made in ((one,) if isinstance(one, str) else one)) for one in chunks]
    assert told(assert_any_cut(fragments(*given) + END), tuple(given)) == wanted


# --- several calls ----------------------------------------------------------------------------------------------------

SEVERAL: dict[str, tuple[Chunks, tuple[str, ...]]] = {
    "A2: Without an index an id or a name opens a call; bare arguments go to the one before (jin-bo/agentao#117)": (
        ('- call_a f {"x":1}', '- call_b g {"y"', "- - - :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A2: Without an index an id that is known leads back to its call": (
        ('- call_a f {"x"', '- call_b f {"y"', "- call_a - :1}", "- call_b - :2}"),
        ('call_a f {"x":1}', 'call_b f {"y":2}'),
    ),
    "A2: Without an index and without an id a second name is a second call, even of the same tool": (
        ('- - f {"x":1}', '- - f {"x":1}'),
        ('? f {"x":1}', '? f {"x":1}', "missing_id"),
    ),
    "A2: Two entries without an index in one delta are two calls if each has an id (Mistral)": (
        (('- call_a f {"x":1}', '- call_b g {"y":2}'),),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A3: A new id on an index in use opens a new call (huggingface/smolagents#1569, ai-dynamo/dynamo#4723)": (
        ('0 call_a f {"x":1}', '0 call_b g {"y":2}'),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A3: A bare tail on an index that two calls share belongs to the newer one (langchain-ai/langchain#34807)": (
        ("0 call_a f ''", '0 - - {"x"', "0 - - :1}", "0 call_b f ''", '0 - - {"y"', "0 - - :2}"),
        ('call_a f {"x":1}', 'call_b f {"y":2}'),
    ),
    "A3: Where every index is 0 and every fragment has its id, the ids alone sort interleaved fragments": (
        ('0 call_a f {"x"', '0 call_b g {"y"', "0 call_a f :1}", "0 call_b g :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A3: Another name on an index whose call has arguments opens a call, even where no id tells the two apart": (
        ('0 - f {"x":1}', "0 - g {}"),
        ('? f {"x":1}', "? g {}", "missing_id", "missing_id", "guessed_call"),
    ),
    "A4: A bare tail on an index nobody opened goes to the call that lacks arguments (agno-agi/agno#8879)": (
        ("0 call_a f ''", '0 - - {"x"', "0 - - :1}", "0 call_b g ''", '1 - - {"y"', "1 - - :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}', "guessed_call"),
    ),
    "A4: With three calls each tail finds its own head (deepseek-v4-flash, agno-agi/agno#8879)": (
        ('0 call_a f {"x":1}', "0 call_b g ''", '1 - - {"y":2}', "0 call_c h ''", '2 - - {"z"', "2 - - :3}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}', 'call_c h {"z":3}', "guessed_call", "guessed_call"),
    ),
    "A4: An empty object in a head is no arguments yet: the tail under the next index still belongs to it": (
        ('0 call_a f {"x":1}', "0 call_b g {}", '1 - - {"y":2}'),
        ('call_a f {"x":1}', 'call_b g {"y":2}', "repaired_arguments", "guessed_call"),
    ),
    "A5: Fragments of parallel calls may come in turns (QwenLM/Qwen-Agent#943, maximhq/bifrost#1829)": (
        ("0 call_a f ''", "1 call_b g ''", '0 - - {"x"', '1 - - {"y"', "0 - - :1}", "1 - - :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A5: One delta may go on with several calls at once, in any order": (
        (('0 call_a f {"x"', '1 call_b g {"y"'), ("1 - - :2}", "0 - - :1}")),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A6: Two indices are never one call, also not with one id: what may lack arguments can't be run by accident": (
        ("0 call_a f ''", '1 call_a - {"x":1}'),
        ('call_a f {"_raw":"","_error":"invalid_json"}', "calls_dropped", "invalid_arguments"),
    ),
    "A6: A call whose head had no index is continued by its id and name under whatever index they come next": (
        ("- call_a f ''", '0 call_a f {"x":1}'),
        ('call_a f {"x":1}',),
    ),
    "A6: Also by several fragments": (
        ("- call_a f ''", '0 call_a f {"x"', "0 call_a f :1}"),
        ('call_a f {"x":1}',),
    ),
    "A6: Arguments under a second id and without a name go on with the call of the head (poolsideai/pool#9)": (
        ("0 call_a f ''", '0 call_x - {"city"', '0 call_x - :"Paris"}'),
        ('call_a f {"city":"Paris"}', "changed_id"),
    ),
    "A6: Also where the head has the first of them": (
        ('0 call_a f {"city"', '0 call_x - :"Paris"', "0 call_x - }"),
        ('call_a f {"city":"Paris"}', "changed_id"),
    ),
    "A7: A name that is sent with every fragment is one name (ggml-org/llama.cpp#13774)": (
        ('0 call_a final_result {"x"', "0 - final_result :", "0 - final_result 1}"),
        ('call_a final_result {"x":1}',),
    ),
    "A7: So are a name and an id that are sent with every fragment": (
        ('0 call_a final_result {"x"', "0 call_a final_result :", "0 call_a final_result 1}"),
        ('call_a final_result {"x":1}',),
    ),
    "A7: Without an index an id that is sent again keeps the fragments of a call together, name or no name": (
        ('- call_a f {"x"', "- call_a f :1}", '- call_b f {"y"', "- call_b f :2}"),
        ('call_a f {"x":1}', 'call_b f {"y":2}'),
    ),
    "A10: Two calls without an id get two different ids": (
        ('0 - f {"x":1}', '1 - f {"x":1}'),
        ('? f {"x":1}', '? f {"x":1}', "missing_id"),
    ),
    "A11: Late ids go to the calls before them": (
        ('0 - f {"x":1}', "0 call_a", '0 - g {"y":2}', "0 call_b"),
        ('call_a f {"x":1}', 'call_b g {"y":2}', "guessed_call"),
    ),
    "A11: Late ids go to the calls before them, even where no index tells the calls apart": (
        ('- - f {"x":1}', "- call_a", '- - g {"y":2}', "- call_b"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A11: Late ids find their calls by index, in any order": (
        ('0 - f {"x":1}', '1 - g {"y":2}', "1 call_b", "0 call_a"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A11: A call whose id is late is not taken for the arguments of one before it that has its `{}`": (
        ("0 call_a f {}", '1 - f {"x"', "1 call_b - :1}"),
        ("call_a f {}", 'call_b f {"x":1}'),
    ),
    "A11: Nor is one whose id never comes": (
        ("0 call_a f {}", '1 - f {"x"', "1 - - :1}"),
        ("call_a f {}", '? f {"x":1}', "missing_id"),
    ),
    "A12: The entries of two calls in one delta need not be adjacent": (
        (("0 call_a f", "1 call_b g", '0 - - {"x":1}', '1 - - {"y":2}'),),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A12: Two pieces of the same arguments in one delta are both kept": (
        ("0 call_a f", ('0 - - {"x"', "0 - - :1}")),
        ('call_a f {"x":1}',),
    ),
    "A13: The first index need not be 0 (Anthropic's compatible endpoint starts at 1)": (
        ('1 call_a f {"x"', '2 call_b g {"y":2}', "1 - - :1}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A13: It may be any": (
        ('7 call_a f {"x"', '8 call_b g {"y":2}', "7 - - :1}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A13: Calls are ordered by index, whatever gaps there are and whichever came first": (
        ('3 call_b g {"y"', '0 call_a f {"x":1}', "3 - - :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A16: Of two calls with one id the later one gets a fresh id, with a warning (Kimi's ids on vLLM)": (
        ('0 f:0 f {"x":1}', "1 f:1 f ''", "2 f:1 f ''", '1 - - {"y":2}', '2 - - {"z":3}'),
        ('f:0 f {"x":1}', 'f:1 f {"y":2}', '? f {"z":3}', "duplicate_id"),
    ),
    "A16: The index decides where both calls use the same id with every fragment": (
        ('0 call_0 f {"x"', '1 call_0 g {"y"', "0 call_0 - :1}", "1 call_0 - :2}"),
        ('call_0 f {"x":1}', '? g {"y":2}', "duplicate_id"),
    ),
    "A16: Without an index another tool, or another whole object, tells two calls with one id apart": (
        ('- call_0 f {"x":1}', '- call_0 g {"y":2}', '- call_0 g {"z":3}'),
        ('call_0 f {"x":1}', '? g {"y":2}', '? g {"z":3}', "duplicate_id"),
    ),
    "A name finds its call by index, however late it comes, and whatever waits beside it": (
        ('0 call_a - {"a"', '1 call_b - {"b"', "0 - f :1}", "1 - g :2}"),
        ('call_a f {"a":1}', 'call_b g {"b":2}'),
    ),
    "So it does beside a call that has only its name": (
        ("0 call_a f ''", '1 call_b - {"b"', "0 - f ''", "1 - g :2}"),
        ("call_a f {}", 'call_b g {"b":2}'),
    ),
    "An id that comes twice joins nothing, also where the names come after it": (
        ("0 call_a", '0 - f {"a":1}', "1 call_a", '1 - g {"a":1}'),
        ('call_a f {"a":1}', '? g {"a":1}', "duplicate_id"),
    ),
    "Nor does it where there are no arguments": (
        ("0 call_a", "0 - f ''", "1 call_a", "1 - g ''"),
        ("call_a f {}", "? g {}", "duplicate_id"),
    ),
    "Where an id without a name may have been a changed one, and turns out to be another call's, neither is run": (
        ("0 call_a f ''", '0 call_b - {"y":2}', "0 call_b g ''"),
        (
            'call_a f {"_raw":"{\\"y\\":2}","_error":"invalid_json"}',
            'call_b g {"_raw":"","_error":"invalid_json"}',
            *("changed_id", "invalid_arguments", "invalid_arguments"),
        ),
    ),
    "A name that may be another call's is not run, although its arguments are a whole object": (
        ('0 call_b - {"y":', "0 call_a f ''", "0 call_b g 2}"),
        ('call_b fg {"_raw":"{\\"y\\":2}","_error":"invalid_json"}', "changed_id", "invalid_arguments"),
    ),
    "Under one index and without ids another name opens a call, and so does another whole object of the same tool": (
        ('0 - f {"x":1}', '0 - g {"y":', "0 - - 2}", '0 - g {"z":3}'),
        ('? f {"x":1}', '? g {"y":2}', '? g {"z":3}', "missing_id", "missing_id", "guessed_call"),
    ),
    "Without an index a name behind an id belongs to the call that has none": (
        ("- call_a", '- - f {"x":1}', "- call_b", '- - g {"y":2}'),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A tail without an index goes to the call that was opened last": (
        ('0 call_a f {"x"', "- - - :1}", '1 call_b g {"y"', "- - - :2}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A call without an index and one with index 0 are two calls": (
        ('- call_a f {"x"', '0 call_b g {"y"', "0 - - :2}", "- call_a - :1}"),
        ('call_a f {"x":1}', 'call_b g {"y":2}'),
    ),
    "A tail whose index is nobody's turn is kept apart, whatever looks unfinished": (
        ('0 call_a f {"x":1}', '0 call_b g {"y"', "7 - - :2}"),
        (
            'call_a f {"x":1}',
            'call_b g {"_raw":"{\\"y\\"","_error":"invalid_json"}',
            "calls_dropped",
            "invalid_arguments",
        ),
    ),
    "A tail for which there is no call is kept as a call without a name: nothing is mixed up": (
        ('0 call_a f {"x":1}', '1 - - {"y":2}'),
        ('call_a f {"x":1}', "calls_dropped"),
    ),
    "A head whose index came with a tail before it is the head of that call": (
        ('0 - - {"x"', "0 call_a f :1}"),
        ('call_a f {"x":1}',),
    ),
    "Where an index is missing, the order is that of appearance": (
        ("1 call_a f", "- call_b g", "0 call_c h"),
        ("call_a f {}", "call_b g {}", "call_c h {}"),
    ),
    "So it is where an index is used twice": (
        ("1 call_a f", "0 call_b g", "1 call_c h"),
        ("call_a f {}", "call_b g {}", "call_c h {}"),
    ),
    "A head under an index of its own waits; a call of the same tool, whose id is late, keeps its arguments": (
        ("0 a f ''", '1 - f {"b":', '0 - - {"a":1}', "1 b - 2}"),
        ('a f {"a":1}', 'b f {"b":2}'),
    ),
    "So it does where the head never gets any": (
        ("0 a f ''", '1 - f {"x":', "1 b - 1}"),
        ("a f {}", 'b f {"x":1}'),
    ),
    "The name with every fragment and two objects under one id: the API said one call, which can't be run": (
        ('0 a f {"a":1}', '0 - f {"b":2}'),
        ('a f {"_raw":"{\\"a\\":1}{\\"b\\":2}","_error":"invalid_json"}', "invalid_arguments"),
    ),
}


@each_row("case", SEVERAL)
def test_a2_a3_a4_a5_a6_a7_a10_a11_a12_a13_a16_several_calls(case: str):
    """Each fragment goes to its call, or nothing of what is in doubt is run."""
    chunks, wanted = SEVERAL[case]
    assert told(assert_any_cut(fragments(*chunks) + END), chunks) == wanted


@each_row("nulls", [{"index": None, "id": None}, {"index": 0, "id": None, "type": None}, {"index": 0, "type": ""}])
def test_a1_a9_null_says_nothing(nulls: dict[str, Any]):
    """Null says as little as "" (liquidos-ai/AutoAgents#99); as an index it is a missing one (chenyme/grok2api#239)."""
    head = {"index": nulls["index"], "id": "call_a", "function": {"name": "f", "arguments": '{"x"'}}
    tail = {**nulls, "function": {"name": None, "arguments": ":1}"}}
    assert calls(assert_any_cut(call(head) + call(tail) + END)) == [("call_a", "f", {"x": 1})]


# --- entries, deltas and older forms -------------------------------------------------------------------------------


@each_row(
    ("pieces", "declared", "name"),
    [
        (["f", "f", "f"], [], "f"),
        (["get_", "weather"], [], "get_weather"),
        (["get_", "weather"], ["get_weather"], "get_weather"),
        (["g", "et_", "weather"], ["get_weather", "get_time"], "get_weather"),
        (["get_", "get_wea", "get_weather"], [], "get_weather"),
        (["get", "_weather"], ["get", "get_weather"], "get_weather"),
        (["get", "get"], ["get", "get_weather"], "get"),
        (["bye", "bye"], ["byebye"], "byebye"),
        (["bye", "bye"], ["bye"], "bye"),
        (["bye", "bye"], [], "bye"),
    ],
)
def test_a8_name_in_pieces(pieces: list[str], declared: list[str], name: str):
    """A name may really come in pieces, or grow, or come again: the declared tools tell."""
    body = b"".join(call(entry(0, "call_a", piece)) for piece in pieces)
    reply = assert_any_cut(body + call(entry(0, arguments="{}")) + END, tools=tools(*declared))
    assert calls(reply) == [("call_a", name, {})]


def test_a8_name_in_pieces_without_index():
    """Without an index two pieces that only together begin a declared name are one name."""
    reply = assert_any_cut(
        fragments("- call_a get_", '- - weather {"x":1}') + END,
        tools=tools("get_weather"),
    )
    assert calls(reply) == [("call_a", "get_weather", {"x": 1})]


def test_a9_empty_entries_open_no_call():
    """Entries that say nothing are no calls."""
    reply = assert_any_cut(call({}) + fragments("5", "0 '' '' ''") + text("hi") + fin("stop") + DONE)
    assert reply.text == "hi"
    assert reply.tool_calls == []
    assert codes(reply) == []


def test_a12_one_entry_instead_of_a_list():
    """An entry that came without its list is the only one."""
    reply = assert_any_cut(chunk({"tool_calls": entry(0, "call_a", "f", '{"x":1}')}) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@each_row("function", [None, {}, "", []])
def test_a14_function_null_between_two_fragments(function: Any):
    """An entry without a function says nothing (endolith/open-interpreter#254)."""
    reply = assert_any_cut(
        call(entry(0, "call_a", "f", '{"x"'))
        + call({"index": 0, "function": function})
        + call(entry(0, arguments=":1}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


def test_entries_that_nest_nothing():
    """Name and arguments may stand in the entry itself; a call without them would be lost, or run as `f({})`."""
    reply = assert_any_cut(
        call({"index": 0, "id": "call_a", "name": "f", "arguments": '{"x":'})
        + call({"index": 0, "function": None, "arguments": "1}"})
        + call({"index": 1, "id": "call_b", "function": "g", "name": "g", "arguments": {"y": 2}})
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ["repaired_arguments"]


def test_a14_null_entries():
    """A null among the entries says nothing, and neither does a null instead of them."""
    reply = assert_any_cut(
        chunk({"tool_calls": None})
        + call(None, entry(0, "call_a", "f", '{"x":1}'), None)
        + chunk({"tool_calls": []})
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@pytest.mark.parametrize(("first", "second"), [("0", "1"), (0.0, 1.0), ("0", 1)])
def test_a15_index_as_text_or_float(first: Any, second: Any):
    """An index that is written as a text or a float is that number, and meets the plain one."""
    reply = assert_any_cut(
        call(entry(first, "call_a", "f", '{"x"'))
        + call(entry(second, "call_b", "g", '{"y"'))
        + fragments("0 - - :1}", "1 - - :2}")
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


@each_row("index", [-1, "-1", -1.0, 0.5, "", "first", True, [], {}])
def test_a15_useless_index(index: Any):
    """An index that is no number of a call is as good as none (Z.ai sends -1)."""
    reply = assert_any_cut(
        call(entry(index, "call_a", "f", '{"x"'))
        + call(entry(index, arguments=":1}"))
        + call(entry(index, "call_b", "g", '{"y"'))
        + call(entry(index, arguments=":2}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


@pytest.mark.parametrize("first", ['{"x":1}', ""])
def test_a16_one_id_and_one_index_for_two_tools(first: str):
    """Another declared tool is another call, even under the same index and the same id."""
    reply = assert_any_cut(
        call(entry(0, "call_0", "f", first)) + call(entry(0, "call_0", "g", '{"y":2}')) + END, tools=tools("f", "g")
    )
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [
        ("f", json.loads(first or "{}")),
        ("g", {"y": 2}),
    ]
    assert codes(reply) == ["duplicate_id"]


def test_a17_a_tool_that_was_never_declared():
    """A call of a tool that nobody declared is handed out as it is (multi_tool_use.parallel, vercel/ai#2786)."""
    arguments = '{"tool_uses":[{"recipient_name":"functions.f","parameters":{"x":1}}]}'
    reply = assert_any_cut(call(entry(0, "call_a", "multi_tool_use.parallel", arguments)) + END, tools=tools("f"))
    [made] = reply.tool_calls
    assert made.name == "multi_tool_use.parallel"
    assert made.raw_arguments == arguments
    assert made.arguments == {"tool_uses": [{"recipient_name": "functions.f", "parameters": {"x": 1}}]}


def test_a18_legacy_function_call():
    """The form before `tool_calls` is one call, with a made-up id because that form had none."""
    reply = assert_any_cut(
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}})
        + chunk({"function_call": {"arguments": '{"x"'}})
        + chunk({"function_call": {"arguments": ":1}"}})
        + fin("function_call")
        + DONE
    )
    [made] = reply.tool_calls
    assert (made.name, made.arguments) == ("f", {"x": 1})
    assert made.id
    assert (reply.finish_reason, reply.raw_finish_reason) == ("tool_calls", "function_call")
    assert codes(reply) == ["missing_id"]


def test_a18_legacy_function_call_beside_null_and_empty_lists():
    """A null of the older form beside a call of the newer one, or the reverse, is nothing."""
    newer = assert_any_cut(chunk({"function_call": None, "tool_calls": [entry(0, "call_a", "f", "{}")]}) + END)
    assert calls(newer) == [("call_a", "f", {})]
    older = assert_any_cut(
        chunk({"tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}}) + fin("function_call") + DONE
    )
    assert [(made.name, made.arguments) for made in older.tool_calls] == [("f", {})]


@pytest.mark.parametrize("index", [0, None])
def test_a19_fragments_resume_after_text(index: int | None):
    """Text between two fragments is text, and the call goes on after it (cf. pydantic/pydantic-ai#8208)."""
    reply = assert_any_cut(
        text("Let me see.")
        + call(entry(index, "call_a", "f", '{"x"'))
        + text("\n")
        + chunk({"reasoning_content": "hm"})
        + call(entry(index, arguments=":1}"))
        + text("Done.")
        + END
    )
    assert reply.text == "Let me see.\nDone."
    assert reply.reasoning == "hm"
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


def test_a19_text_and_call_in_one_delta():
    """Text beside a call in one delta is kept, and so is the call."""
    reply = assert_any_cut(chunk({"content": "One moment.", "tool_calls": [entry(0, "call_a", "f", '{"x":1}')]}) + END)
    assert reply.text == "One moment."
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@each_row(
    ("named", "pieces"),
    [
        (0, ('{"a"', "", ":1}")),
        (0, ("", "", '{"a":1}')),
        (0, ('{"a":1}', "", "")),
        (0, ('{"a":', "1", "}\n")),
        (2, ('{"a"', "", ":1}")),
        (2, ('{"a":1}', "", "")),
    ],
)
def test_a_new_id_with_every_fragment(named: int, pieces: tuple[str, ...]):
    """Ids that change make no second call of an index, and none that is said to be dropped."""
    body = b"".join(
        call(entry(0, f"call_{number}", "f" if number == named else None, piece)) for number, piece in enumerate(pieces)
    )
    reply = assert_any_cut(body + END)
    assert calls(reply) == [("call_0", "f", {"a": 1})]
    assert codes(reply) == ["changed_id"]


def test_a_head_alone_before_done():
    """A call of which only the head came, closed by `[DONE]` without a reason, is not run."""
    reply = assert_any_cut(call(entry(0, "call_a", "delete_all", "")) + DONE)
    assert (reply.tool_calls, codes(reply)) == ([], ["missing_finish_reason", "calls_dropped"])


def test_a_nameless_call_is_not_handed_out():
    """A call that never gets a name can't be run: it is left out with a warning, and the others are unharmed."""
    reply = assert_any_cut(fragments("0 call_a - {}", '1 call_b g {"y":2}', '2 - - {"z":3}') + END)
    assert calls(reply) == [("call_b", "g", {"y": 2})]
    assert codes(reply) == ["calls_dropped"]
    assert reply.warnings[0].detail.endswith('call_a, {"z":3}')


def test_a_call_without_arguments_before_one_of_the_same_tool_without_id():
    """A head that waits never takes the arguments of a call with an index of its own, whatever they have in common."""
    reply = assert_any_cut(fragments("0 call_a f ''", '1 - f {"x":1}') + END, tools=tools("f"))
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {}), ("f", {"x": 1})]
    assert codes(reply) == ["missing_id"]
