"""Which call does a fragment belong to? Bugs that real servers and clients have shown, each with its bytes.

The beginning of a test's name is the id of its entry in docs/bugs.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, assert_any_cut, call, calls, chunk, codes, entry, fin, fragments, text
from tables import each_row

END = fin("tool_calls") + DONE


def tools(*names: str) -> list[dict[str, Any]]:
    """Declared tools with these names."""
    return [{"type": "function", "function": {"name": name}} for name in names]


def test_a1_missing_index_one_call():
    """A call whose entries have no index is one call (Gemini's compatible endpoint, openai/openai-python#2806)."""
    reply = assert_any_cut(
        call(entry(id="call_a", name="f", arguments='{"city":', type="function"))
        + call(entry(arguments='"Paris"}'))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"city": "Paris"})]
    assert codes(reply) == []


def test_a1_index_null():
    """An index of null is a missing one (chenyme/grok2api#239)."""
    reply = assert_any_cut(
        call({"index": None, "id": "call_a", "function": {"name": "f", "arguments": '{"x"'}})
        + call({"index": None, "id": None, "function": {"name": None, "arguments": ":1}"}})
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]


def test_a2_missing_index_parallel_calls():
    """Without an index an id or a name opens a call, and bare arguments go to the one before (jin-bo/agentao#117)."""
    reply = assert_any_cut(fragments('- call_a f {"x":1}', '- call_b g {"y"', "- - - :2}") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == []


def test_a2_missing_index_ids_on_every_interleaved_fragment():
    """Without an index an id that is known leads back to its call."""
    reply = assert_any_cut(fragments('- call_a f {"x"', '- call_b f {"y"', "- call_a - :1}", "- call_b - :2}") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "f", {"y": 2})]


def test_a2_missing_index_names_only():
    """Without an index and without an id a second name is a second call, even of the same tool."""
    reply = assert_any_cut(fragments('- - f {"x":1}', '- - f {"x":1}') + END)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {"x": 1}), ("f", {"x": 1})]
    assert reply.tool_calls[0].id != reply.tool_calls[1].id
    assert codes(reply) == ["missing_id"]


def test_a2_missing_index_two_calls_in_one_delta():
    """Two entries without an index in one delta are two calls if each has an id (Mistral)."""
    reply = assert_any_cut(
        call(entry(id="call_a", name="f", arguments='{"x":1}'), entry(id="call_b", name="g", arguments='{"y":2}')) + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_a3_same_index_different_ids():
    """A new id on an index that is in use opens a new call (huggingface/smolagents#1569, ai-dynamo/dynamo#4723)."""
    reply = assert_any_cut(fragments('0 call_a f {"x":1}', '0 call_b g {"y":2}') + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == []


def test_a3_same_index_tails_without_id():
    """A bare tail on an index that two calls share belongs to the newer one (langchain-ai/langchain#34807)."""
    reply = assert_any_cut(
        fragments("0 call_a f ''", '0 - - {"x"', "0 - - :1}", "0 call_b f ''", '0 - - {"y"', "0 - - :2}") + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "f", {"y": 2})]


def test_a3_same_index_interleaved_with_ids_on_every_fragment():
    """Where every index is 0 and every fragment has its id, the ids alone sort interleaved fragments."""
    reply = assert_any_cut(fragments('0 call_a f {"x"', '0 call_b g {"y"', "0 call_a f :1}", "0 call_b g :2}") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_a3_same_index_no_ids_different_names():
    """Another name on an index whose call has arguments opens a call, even where no id tells the two apart."""
    reply = assert_any_cut(fragments('0 - f {"x":1}', "0 - g {}") + END)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {"x": 1}), ("g", {})]
    assert codes(reply) == ["missing_id", "missing_id", "guessed_call"]


def test_a4_head_under_index_0_tail_under_index_1():
    """A bare tail on an index that nobody opened goes to the call that still lacks arguments (agno-agi/agno#8879)."""
    reply = assert_any_cut(
        fragments("0 call_a f ''", '0 - - {"x"', "0 - - :1}", "0 call_b g ''", '1 - - {"y"', "1 - - :2}") + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ["guessed_call"]


def test_a4_three_calls():
    """With three calls each tail finds its own head (deepseek-v4-flash, agno-agi/agno#8879)."""
    reply = assert_any_cut(
        fragments('0 call_a f {"x":1}', "0 call_b g ''", '1 - - {"y":2}', "0 call_c h ''", '2 - - {"z"', "2 - - :3}")
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2}), ("call_c", "h", {"z": 3})]


def test_a4_head_with_an_empty_object():
    """An empty object in a head is no arguments yet: the tail under the next index still belongs to it."""
    reply = assert_any_cut(fragments('0 call_a f {"x":1}', "0 call_b g {}", '1 - - {"y":2}') + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ["repaired_arguments", "guessed_call"]


def test_a5_interleaved_fragments():
    """Fragments of parallel calls may come in turns (QwenLM/Qwen-Agent#943, maximhq/bifrost#1829)."""
    reply = assert_any_cut(
        fragments("0 call_a f ''", "1 call_b g ''", '0 - - {"x"', '1 - - {"y"', "0 - - :1}", "1 - - :2}") + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == []


def test_a5_interleaved_in_one_delta():
    """One delta may go on with several calls at once, in any order."""
    reply = assert_any_cut(fragments(('0 call_a f {"x"', '1 call_b g {"y"'), ("1 - - :2}", "0 - - :1}")) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


@pytest.mark.parametrize("index", [0, None])
def test_a6_id_on_every_chunk(index: int | None):
    """An id that is sent with every fragment is one id (BerriAI/litellm#20480)."""
    reply = assert_any_cut(
        call(entry(index, "call_a", "f", '{"x"'))
        + call(entry(index, "call_a", arguments=":"))
        + call(entry(index, "call_a", arguments="1}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


def test_a6_id_again_under_another_index():
    """Two indices are never one call, also not with one id: what may lack arguments can't be run by accident."""
    reply = assert_any_cut(fragments("0 call_a f ''", '1 call_a - {"x":1}') + END)
    assert [(made.id, made.name, made.error) for made in reply.tool_calls] == [("call_a", "f", "invalid_json")]
    assert codes(reply) == ["calls_dropped", "invalid_arguments"]


@pytest.mark.parametrize("pieces", [("", '{"x":1}'), ("", '{"x"', ":1}")])
def test_a6_index_missing_on_the_head_alone(pieces: tuple[str, ...]):
    """A call whose head had no index is continued by its own id and name under whatever index they come next."""
    reply = assert_any_cut(
        call(entry(None, "call_a", "f", pieces[0]))
        + b"".join(call(entry(0, "call_a", "f", piece)) for piece in pieces[1:])
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


@pytest.mark.parametrize("pieces", [("", '{"city"', ':"Paris"}'), ('{"city"', ':"Paris"', "}")])
def test_a6_id_changes_after_the_head(pieces: tuple[str, str, str]):
    """Arguments under a second id and without a name go on with the call: the id is the head's (poolsideai/pool#9)."""
    reply = assert_any_cut(
        call(entry(0, "call_a", "f", pieces[0]))
        + call(entry(0, "call_x", arguments=pieces[1]))
        + call(entry(0, "call_x", arguments=pieces[2]))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"city": "Paris"})]


@pytest.mark.parametrize("call_id", ["call_a", None])
def test_a7_name_on_every_chunk(call_id: str | None):
    """A name that is sent with every fragment is one name (ggml-org/llama.cpp#13774)."""
    reply = assert_any_cut(
        call(entry(0, "call_a", "final_result", '{"x"'))
        + call(entry(0, call_id, "final_result", ":"))
        + call(entry(0, call_id, "final_result", "1}"))
        + END
    )
    assert calls(reply) == [("call_a", "final_result", {"x": 1})]
    assert codes(reply) == []


def test_a7_id_and_name_on_every_chunk_without_index():
    """Without an index an id that is sent again keeps the fragments of a call together, name or no name."""
    reply = assert_any_cut(fragments('- call_a f {"x"', "- call_a f :1}", '- call_b f {"y"', "- call_b f :2}") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "f", {"y": 2})]


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


@pytest.mark.parametrize("index", [0, None])
def test_a9_empty_id_type_and_name_later(index: int | None):
    """An empty id, type or name overwrites nothing and opens nothing (oracle/langchain-oracle#150)."""
    reply = assert_any_cut(
        call(entry(index, "call_a", "f", '{"x"', type="function"))
        + call(entry(index, "", "", ":1}", type=""))
        + call(entry(index, "", "", "", type=""))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


def test_a9_null_id_type_and_name_later():
    """Null says as little as an empty string (liquidos-ai/AutoAgents#99)."""
    nulls = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": ":1}"}}
    reply = assert_any_cut(call(entry(0, "call_a", "f", '{"x"')) + call(nulls) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1})]


def test_a9_empty_entries_open_no_call():
    """Entries that say nothing are no calls."""
    reply = assert_any_cut(call({}) + fragments("5", "0 '' '' ''") + text("hi") + fin("stop") + DONE)
    assert reply.text == "hi"
    assert reply.tool_calls == []
    assert codes(reply) == []


@each_row("index", [0, None])
@each_row("call_id", [None, ""])
def test_a10_no_id_at_all(index: int | None, call_id: str | None):
    """A call without an id is handed out under a made-up one, with a warning."""
    reply = assert_any_cut(
        call(entry(index, call_id, "f", '{"x"')) + call(entry(index, call_id, arguments=":1}")) + END
    )
    [made] = reply.tool_calls
    assert (made.name, made.arguments) == ("f", {"x": 1})
    assert made.id
    assert codes(reply) == ["missing_id"]


def test_a10_no_ids_two_calls():
    """Two calls without an id get two different ids."""
    reply = assert_any_cut(fragments('0 - f {"x":1}', '1 - f {"x":1}') + END)
    first, second = reply.tool_calls
    assert (first.arguments, second.arguments) == ({"x": 1}, {"x": 1})
    assert first.id != second.id


@pytest.mark.parametrize("index", [0, None])
def test_a11_id_arrives_late(index: int | None):
    """An id that comes after the name is the call's id."""
    reply = assert_any_cut(
        call(entry(index, name="f", arguments='{"x"')) + call(entry(index, "call_a", arguments=":1}")) + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert codes(reply) == []


@pytest.mark.parametrize("index", [0, None])
def test_a11_late_ids_of_two_calls(index: int | None):
    """Late ids go to the calls before them, even where no index tells the calls apart."""
    reply = assert_any_cut(
        call(entry(index, name="f", arguments='{"x":1}'))
        + call(entry(index, "call_a"))
        + call(entry(index, name="g", arguments='{"y":2}'))
        + call(entry(index, "call_b"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ([] if index is None else ["guessed_call"])


def test_a11_late_ids_of_interleaved_calls():
    """Late ids find their calls by index, in any order."""
    reply = assert_any_cut(fragments('0 - f {"x":1}', '1 - g {"y":2}', "1 call_b", "0 call_a") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


@pytest.mark.parametrize("index", [0, None])
def test_a11_name_arrives_late(index: int | None):
    """A name may come after the id, and after the first arguments."""
    reply = assert_any_cut(
        call(entry(index, "call_a"))
        + call(entry(index, arguments='{"x"'))
        + call(entry(index, name="f", arguments=":1}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@pytest.mark.parametrize("index", [0, None])
def test_a12_name_and_arguments_as_two_entries_of_one_delta(index: int | None):
    """Every entry of a delta is read, in order (vllm-project/vllm#42683, where calls lost their first brace)."""
    reply = assert_any_cut(
        call(entry(index, "functions.f:0", "f"), entry(index, arguments='{"x"'))
        + call(entry(index, arguments=":1}"))
        + END
    )
    assert calls(reply) == [("functions.f:0", "f", {"x": 1})]
    assert codes(reply) == []


def test_a12_two_calls_in_four_entries_of_one_delta():
    """The entries of two calls in one delta need not be adjacent."""
    reply = assert_any_cut(fragments(("0 call_a f", "1 call_b g", '0 - - {"x":1}', '1 - - {"y":2}')) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_a12_two_pieces_of_one_call_in_one_delta():
    """Two pieces of the same arguments in one delta are both kept."""
    reply = assert_any_cut(fragments("0 call_a f", ('0 - - {"x"', "0 - - :1}")) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1})]


def test_a12_one_entry_instead_of_a_list():
    """An entry that came without its list is the only one."""
    reply = assert_any_cut(chunk({"tool_calls": entry(0, "call_a", "f", '{"x":1}')}) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@pytest.mark.parametrize("first", [1, 2, 7])
def test_a13_index_starts_late(first: int):
    """The first index need not be 0 (Anthropic's compatible endpoint starts at 1)."""
    reply = assert_any_cut(
        call(entry(first, "call_a", "f", '{"x"'))
        + call(entry(first + 1, "call_b", "g", '{"y":2}'))
        + call(entry(first, arguments=":1}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_a13_sparse_index_out_of_order():
    """Calls are ordered by index, whatever gaps there are and whichever came first."""
    reply = assert_any_cut(fragments('3 call_b g {"y"', '0 call_a f {"x":1}', "3 - - :2}") + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


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


@pytest.mark.parametrize("last", [{"id": "call_b"}, {}])
def test_a11_late_id_behind_a_call_of_the_same_tool_without_arguments(last: dict[str, str]):
    """A call whose id is late, or never comes, is not taken for the arguments of one before it that has its `{}`."""
    reply = assert_any_cut(
        fragments("0 call_a f {}", '1 - f {"x"') + call({"index": 1, "function": {"arguments": ":1}"}, **last}) + END
    )
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {}), ("f", {"x": 1})]
    assert reply.tool_calls[0].id == "call_a"
    assert codes(reply) == ([] if last else ["missing_id"])


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


def test_a16_one_id_for_two_calls():
    """Two calls with one id are both kept; the later one gets a fresh id, with a warning (Kimi's ids on vLLM)."""
    reply = assert_any_cut(
        fragments(
            '0 functions.f:0 f {"x":1}',
            "1 functions.f:1 f ''",
            "2 functions.f:1 f ''",
            '1 - - {"y":2}',
            '2 - - {"z":3}',
        )
        + END
    )
    first, second, third = reply.tool_calls
    assert (first.id, first.arguments) == ("functions.f:0", {"x": 1})
    assert (second.id, second.arguments) == ("functions.f:1", {"y": 2})
    assert third.arguments == {"z": 3}
    assert third.id not in ("", "functions.f:0", "functions.f:1")
    assert codes(reply) == ["duplicate_id"]


def test_a16_one_id_on_every_fragment_of_two_calls():
    """The index decides where both calls use the same id with every fragment."""
    reply = assert_any_cut(fragments('0 call_0 f {"x"', '1 call_0 g {"y"', "0 call_0 - :1}", "1 call_0 - :2}") + END)
    first, second = reply.tool_calls
    assert (first.id, first.name, first.arguments) == ("call_0", "f", {"x": 1})
    assert (second.name, second.arguments) == ("g", {"y": 2})
    assert second.id not in ("", "call_0")
    assert codes(reply) == ["duplicate_id"]


def test_a16_one_id_for_two_calls_without_index():
    """Without an index another tool, or another whole object, tells two calls with one id apart."""
    reply = assert_any_cut(fragments('- call_0 f {"x":1}', '- call_0 g {"y":2}', '- call_0 g {"z":3}') + END)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [
        ("f", {"x": 1}),
        ("g", {"y": 2}),
        ("g", {"z": 3}),
    ]
    assert reply.tool_calls[0].id == "call_0"
    assert len({made.id for made in reply.tool_calls}) == 3
    assert codes(reply) == ["duplicate_id"]


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


def test_a_nameless_call_is_not_handed_out():
    """A call that never gets a name can't be run: it is left out with a warning, and the others are unharmed."""
    reply = assert_any_cut(fragments("0 call_a - {}", '1 call_b g {"y":2}', '2 - - {"z":3}') + END)
    assert calls(reply) == [("call_b", "g", {"y": 2})]
    assert codes(reply) == ["calls_dropped"]
    assert reply.warnings[0].detail.endswith('call_a, {"z":3}')


# --- An index is the identity of a call ------------------------------------------------------------------------------


def test_a_call_without_arguments_before_one_of_the_same_tool_without_id():
    """A head that waits never takes the arguments of a call with an index of its own, whatever they have in common."""
    reply = assert_any_cut(fragments("0 call_a f ''", '1 - f {"x":1}') + END, tools=tools("f"))
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("f", {}), ("f", {"x": 1})]
    assert codes(reply) == ["missing_id"]


@pytest.mark.parametrize("first", ['{"a"', ""])
def test_names_that_come_after_the_arguments(first: str):
    """A name finds its call by index, however late it comes, and whatever waits beside it."""
    reply = assert_any_cut(
        call(entry(0, "call_a", "f" if not first else None, first))
        + call(entry(1, "call_b", arguments='{"b"'))
        + call(entry(0, name="f", arguments=":1}" if first else ""))
        + call(entry(1, name="g", arguments=":2}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"a": 1} if first else {}), ("call_b", "g", {"b": 2})]
    assert codes(reply) == []


@pytest.mark.parametrize("arguments", ['{"a":1}', ""])
def test_one_id_for_two_calls_that_are_named_late(arguments: str):
    """An id that comes twice joins nothing, also where the names come after it."""
    reply = assert_any_cut(
        call(entry(0, "call_a"))
        + call(entry(0, name="f", arguments=arguments))
        + call(entry(1, "call_a"))
        + call(entry(1, name="g", arguments=arguments))
        + END
    )
    assert [(made.name, made.raw_arguments) for made in reply.tool_calls] == [("f", arguments), ("g", arguments)]
    assert codes(reply) == ["duplicate_id"]


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


def test_one_index_for_two_calls_that_are_named_late():
    """Where an id without a name may have been a changed one, and turns out to be another call's, neither is run."""
    reply = assert_any_cut(fragments("0 call_a f ''", '0 call_b - {"y":2}', "0 call_b g ''") + END)
    assert [(made.name, made.error) for made in reply.tool_calls] == [("f", "invalid_json"), ("g", "invalid_json")]
    assert "invalid_arguments" in codes(reply)


def test_one_index_for_two_calls_with_a_name_for_each_id():
    """A name that may be another call's is not run, although its arguments are a whole object."""
    reply = assert_any_cut(fragments('0 call_b - {"y":', "0 call_a f ''", "0 call_b g 2}") + END)
    assert [made.error for made in reply.tool_calls] == ["invalid_json"]
    assert "invalid_arguments" in codes(reply)
