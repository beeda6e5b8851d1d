"""The arguments of a call: bugs that real servers and clients have shown, each with its bytes.

The ids at the beginning of a test's name, or of a row, are those of its entries in docs/bugs.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import (
    DONE,
    assert_any_cut,
    call,
    calls,
    chunk,
    codes,
    entry,
    fin,
    fold,
    fragments,
)
from streamfold import Reply, ToolCall
from streamfold.jsontext.tool_arguments import read_arguments
from tables import each_row

END = fin("tool_calls") + DONE
REPAIRED, INVALID = ["repaired_arguments"], ["invalid_arguments"]


def with_arguments(*pieces: Any) -> Reply:
    """The reply to one call whose arguments come in these pieces."""
    head, *rest = pieces
    body = call(entry(0, "call_a", "f", head)) + b"".join(call(entry(0, arguments=piece)) for piece in rest) + END
    return assert_any_cut(body)


@each_row("arguments", ["", " ", "\n", None])
def test_b1_no_arguments(arguments: str | None):
    """No text at all is a call without arguments (QwenLM/qwen-code#6249, langchain-ai/langchain#27602)."""
    reply = assert_any_cut(call(entry(0, "call_a", "ping", arguments)) + END)
    assert reply.tool_calls == [ToolCall("call_a", "ping", {}, arguments or "")]
    assert reply.tool_calls[0].error is None
    assert codes(reply) == []


# Pieces of arguments; the object that they are, or None if they can't be run; its text, if it is not what was sent; and
# the codes of the warnings.
PIECES: dict[str, tuple[list[tuple[str, ...]], dict[str, Any] | None, str | None, list[str]]] = {
    "B1: Pieces that are empty add up to no arguments (Claude on Bedrock, Kilo-Org/cloud#4753)": (
        [("", "", "")], {}, None, [],
    ),
    "B3: An empty object before the real one is dropped, with a warning (Bedrock, openai/openai-agents-js#712)": (
        [
            ("{}", '{"city":"Paris"}'),
            ("{}", '{"city"', ':"Paris"}'),
            ("{}", "", "{", '"city":"Paris"}'),
            ('{}{"city":"Paris"}',),
            ("{", '}{"city"', ':"Paris"}'),
            ("{}\n", '{"city":"Paris"}'),
        ],
        {"city": "Paris"}, '{"city":"Paris"}', REPAIRED,
    ),
    "B3: An empty object with nothing after it is what the model said": (
        [("{}",), ("{", "}"), ("{}", "")], {}, None, [],
    ),
    "B4: An empty object that is repeated whole is still an empty object": (
        [("{}", "{}"), ("{", "}", "{}")], {}, "{}", REPAIRED,
    ),
    "B4: An empty object first and a summary at the end are dropped together": (
        [("{}", '{"x":1}', '{"x":1}')], {"x": 1}, '{"x":1}', REPAIRED,
    ),
    "B4: Two objects that differ are no repetition: nothing is guessed": (
        [('{"x":1}{"x":2}',), ('{"x":1}{"y":1}',), ('{"x":1}{"x":true}',), ('{"x":1}{"x":1}{"x":2}',)],
        None, None, INVALID,
    ),
    "B5: Pieces that begin alike and fit together are pieces": (
        [('{"x":"', "1", "11", "111", '"}')], {"x": "111111"}, None, [],
    ),
    "B7: An object that was encoded twice is unwrapped once, with a warning (vllm-project/vllm#54964)": (
        [(json.dumps('{"city":"Paris"}'),)], {"city": "Paris"}, '{"city":"Paris"}', REPAIRED,
    ),
    "B7: So is an empty one": ([(json.dumps("{}"),)], {}, "{}", REPAIRED),
    "B7: So is one with escapes of its own": (
        [(json.dumps('{"a":"\\"\\\\\\n"}'),)], {"a": '"\\\n'}, '{"a":"\\"\\\\\\n"}', REPAIRED,
    ),
    "B7: Twice encoded text may be cut between a backslash and what it escapes": (
        [('"{\\', '"x\\', '":', "1}", '"')], {"x": 1}, '{"x":1}', REPAIRED,
    ),
    "B7: One unwrapping is a repair, two are a guess": (
        [(json.dumps(json.dumps('{"x":1}')),)], None, None, INVALID,
    ),
    "B11: The text `null` means no arguments (1jehuang/jcode#225)": ([("null",), (" null\n",)], {}, None, []),
    "B11: JSON that is no object is as invalid as no JSON (1jehuang/jcode#225)": (
        [("[]",), ('[{"x":1}]',), ('"x"',), ('""',), ("5",), ("-0.5",), ("true",), ("false",)], None, None, INVALID,
    ),
    "B12: White space around the object is fine, and stays in the raw text": (
        [('{"a":1}\n\n',), (' \r\n\t{"a":1} ',)], {"a": 1}, None, [],
    ),
    "B12: Anything else around the object makes the whole text invalid": (
        [
            *(('{"a":1}</tool_call>',), ('{"a":1}}',), ('{"a":1},',), ('{"a":1}null',), ('x{"a":1}',)),
            ('```json\n{"a":1}\n```',),
        ],
        None, None, INVALID,
    ),
    "B13: Of a key that comes twice the last value counts, as everywhere in Python": (
        [('{"a":1,"a":2}',)], {"a": 2}, None, [],
    ),
    "B13: NaN and Infinity are not JSON": (
        [('{"a":NaN}',), ('{"a":Infinity}',), ('{"a":[-Infinity]}',)], None, None, INVALID,
    ),
    "B13: Half a surrogate pair in the arguments becomes U+FFFD, so that they can always be encoded": (
        [('{"a":"\\ud800"}',)], {"a": "\ufffd"}, None, [],
    ),
    "B14: Escaped and plain characters are the same value, and the raw text keeps the model's spelling": (
        [('{"a":"\\u80a9\\u90e8"}',), ('{"a":"肩部"}',)], {"a": "肩部"}, None, [],
    ),
    "B14: Plain characters, also those beyond 16 bits, arrive one by one and unharmed": (
        [tuple('{"a":"肩部👋é"}')], {"a": "肩部👋é"}, None, [],
    ),
}  # fmt: skip


@each_row("case", PIECES)
def test_b1_b3_b4_b5_b7_b11_b12_b13_b14_pieces(case: str):
    """What the pieces of a call's arguments are, together; its text goes back into the history as it came."""
    rows, arguments, raw, warned = PIECES[case]
    for pieces in rows:
        reply, sent = with_arguments(*pieces), "".join(pieces)
        wanted = {"_raw": sent, "_error": "invalid_json"} if arguments is None else arguments
        assert reply.tool_calls == [ToolCall("call_a", "f", wanted, sent if raw is None else raw)]
        assert reply.tool_calls[0].error == (None if arguments is not None else "invalid_json")
        assert reply.message.tool_calls[0].raw_arguments == reply.tool_calls[0].raw_arguments
        assert codes(reply) == warned


def test_b2_null_arguments_first():
    """Null arguments add nothing to what follows (ogx-ai/ogx#5462)."""
    reply = assert_any_cut(
        call({"index": 0, "id": "call_a", "function": {"name": "f", "arguments": None}})
        + call(entry(0, arguments='{"x"'))
        + call({"index": 0, "function": {"arguments": None}})
        + call(entry(0, arguments=":1}"))
        + END
    )
    assert reply.tool_calls == [ToolCall("call_a", "f", {"x": 1}, '{"x":1}')]
    assert codes(reply) == []


def test_b3_empty_object_first_without_index():
    """An empty object in a head without an index is dropped as well (unslothai/unsloth#10275)."""
    reply = assert_any_cut(fragments("- call_a f {}", '- - - {"x":1}', "- call_b g {}", '- - - {"y":2}') + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ["repaired_arguments", "repaired_arguments"]


@each_row(
    "summary",
    [
        entry(0, "call_a", "f", '{"x":1}'),
        entry(0, "call_a", None, '{"x":1}'),
        entry(0, None, "f", '{"x":1}'),
        entry(None, "call_a", "f", '{"x":1}'),
        entry(0, "call_a", "f", '{"x": 1}'),
    ],
)
def test_b4_summary_of_the_whole_call(summary: dict[str, Any]):
    """A closing chunk that repeats the whole call adds nothing to it (BerriAI/litellm#20480)."""
    reply = assert_any_cut(fragments('0 call_a f {"x"', "0 - - :1}") + call(summary) + END)
    assert reply.tool_calls == [ToolCall("call_a", "f", {"x": 1}, '{"x":1}')]
    assert codes(reply) == ["repaired_arguments"]


@pytest.mark.parametrize("index", [0, None])
def test_b4_summary_of_two_calls(index: int | None):
    """A closing chunk that repeats all calls repeats each of them, where only their ids tell them apart too."""
    first, second = entry(index, "call_a", "f", '{"x":1}'), entry(index, "call_b", "g", '{"y":2}')
    reply = assert_any_cut(call(first) + call(second) + call(first, second) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]
    assert codes(reply) == ["repaired_arguments", "repaired_arguments"]


@each_row("head", [entry(0), entry(0, "call_a"), entry(0, "call_a", "f"), entry(None, "call_a", "f")])
def test_b5_cumulative_snapshots(head: dict[str, Any]):
    """Pieces that each repeat the ones before are snapshots, and the last one counts (lobehub/lobehub#13506)."""

    def snapshot(arguments: str) -> bytes:
        return call({**head, "function": {**head.get("function", {}), "arguments": arguments}})

    reply = assert_any_cut(
        call(entry(head.get("index"), "call_a", "f"))
        + snapshot('{"x"')
        + snapshot('{"x":[1,')
        + snapshot('{"x":[1,2]}')
        + snapshot('{"x":[1,2]}')
        + END
    )
    assert reply.tool_calls == [ToolCall("call_a", "f", {"x": [1, 2]}, '{"x":[1,2]}')]
    assert codes(reply) == ["repaired_arguments"]


def test_b6_arguments_as_an_object():
    """Arguments that came as an object are that object (unslothai/unsloth#10275, agno-agi/agno#10260)."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", {"city": "肩部", "n": [1, None]})) + END)
    [made] = reply.tool_calls
    assert (made.id, made.name, made.arguments) == ("call_a", "f", {"city": "肩部", "n": [1, None]})
    assert json.loads(made.raw_arguments) == made.arguments
    assert codes(reply) == ["repaired_arguments"]


def test_b6_an_empty_object_and_then_an_object():
    """An empty object in the head and the real one later are the real one, as with text."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", {})) + call(entry(0, arguments={"x": 1})) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1})]
    assert set(codes(reply)) == {"repaired_arguments"}


@pytest.mark.parametrize("arguments", [[1], 5, True])
def test_b6_arguments_as_another_value(arguments: Any):
    """Arguments that came as a value which is no object can't be run."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", arguments)) + END)
    assert reply.tool_calls[0].error == "invalid_json"


@each_row(
    "arguments",
    [
        '{"a":1,}',
        "{'a':1}",
        '{"a":1',
        '{"a":"b\nc"}',
        '{"a":"b\tc"}',
        "{a:1}",
        '{"a":01}',
        '{"a":"\\x"}',
        "Paris",
        '{"a" 1}',
    ],
)
def test_b10_invalid_json(arguments: str):
    """Text that is not JSON is kept as it is, as a value that can't be run; the other calls are unharmed."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", arguments)) + call(entry(1, "call_b", "g", '{"y":2}')) + END)
    assert reply.tool_calls == [
        ToolCall("call_a", "f", {"_raw": arguments, "_error": "invalid_json"}, arguments),
        ToolCall("call_b", "g", {"y": 2}, '{"y":2}'),
    ]
    assert [made.error for made in reply.tool_calls] == ["invalid_json", None]
    assert codes(reply) == ["invalid_arguments"]


def test_b13_large_numbers():
    """A large integer is exact; one that is larger than Python reads is invalid rather than an exception."""
    assert calls(fold(call(entry(0, "call_a", "f", '{"a":1' + "0" * 400 + "}")) + END)) == [
        ("call_a", "f", {"a": 10**400})
    ]
    reply = fold(call(entry(0, "call_a", "f", '{"a":1' + "0" * 100_000 + "}")) + END)
    assert reply.tool_calls[0].error == "invalid_json"


def test_b13_surrogate_pair_cut_in_two():
    """A pair that is cut between two pieces, as escapes or as the halves themselves, is one character."""
    escaped = with_arguments('{"a":"\\ud83d', '\\udc4b"}')
    assert calls(escaped) == [("call_a", "f", {"a": "\U0001f44b"})]
    halves = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]}}]}\n\n'
    plain = assert_any_cut(call(entry(0, "call_a", "f")) + halves % rb"{\"a\":\"\ud83d" + halves % rb"\udc4b\"}" + END)
    assert plain.tool_calls == [ToolCall("call_a", "f", {"a": "\U0001f44b"}, '{"a":"\U0001f44b"}')]


def test_b13_deep_nesting():
    """Nesting that no parser follows is invalid, not a RecursionError."""
    arguments = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    reply = fold(call(entry(0, "call_a", "f", arguments)) + call(entry(1, "call_b", "g", "{}")) + END)
    assert [made.error for made in reply.tool_calls] == ["invalid_json", None]
    assert reply.tool_calls[0].raw_arguments == arguments


def test_b15_each_call_is_parsed_once(monkeypatch: pytest.MonkeyPatch):
    """Nothing is parsed before the end and each call once after it, however many fragments it had (vercel/ai#15670)."""
    parsed: list[str] = []
    seen_before_the_end: list[int] = []

    def spy(original: Any) -> Any:
        def parse_object(argument: str) -> Any:
            parsed.append(argument)
            return original(argument)

        return parse_object

    for module in ("streamfold.jsontext.tool_arguments", "streamfold.jsontext.parsing"):
        monkeypatch.setattr(f"{module}.parse_object", spy(json.loads))
    first, second = json.dumps({"x": "a" * 2000}), json.dumps({"y": [{"z": 1}] * 200})

    def pieces():
        yield call(entry(0, "call_a", "f"), entry(1, "call_b", "g"))
        for at in range(0, 3000, 4):
            yield call(entry(0, arguments=first[at : at + 4]), entry(1, arguments=second[at : at + 4]))
        seen_before_the_end.append(len(parsed))
        yield END

    reply = fold(b"", pieces())
    assert [made.raw_arguments for made in reply.tool_calls] == [first, second]
    assert seen_before_the_end == [0]
    assert parsed == [first, second]


def test_b15_a_name_with_every_fragment_costs_no_parsing(monkeypatch: pytest.MonkeyPatch):
    """Fragments that each look like the first one of a call are told from it by brackets, without parsing all again."""
    parsed: list[str] = []
    monkeypatch.setattr(
        "streamfold.jsontext.parsing.parse_object", lambda text: parsed.append(text) or json.loads(text)
    )
    inner = ["{}"] * 500
    pieces = (call(entry(0, name="f", arguments=piece)) for piece in ['{"code":"', *inner, '"}'])
    reply = fold(b"", [call(entry(0, "call_a")), *pieces, END])
    assert reply.tool_calls == [ToolCall("call_a", "f", {"code": "{}" * 500}, '{"code":"%s"}' % ("{}" * 500))]
    assert parsed == []


def test_b_arguments_of_parallel_calls_do_not_meet():
    """Every repair stays with its own call."""
    reply = assert_any_cut(
        chunk({"content": None, "tool_calls": [entry(0, "call_a", "f", "{}"), entry(1, "call_b", "g", "")]})
        + fragments(('1 - - "{}"', '0 - - {"x":1}'), "2 call_c h {")
        + END
    )
    assert calls(reply) == [
        ("call_a", "f", {"x": 1}),
        ("call_b", "g", {}),
        ("call_c", "h", {"_raw": "{", "_error": "invalid_json"}),
    ]
    assert codes(reply) == ["repaired_arguments", "repaired_arguments", "invalid_arguments"]


@each_row("text", ['{}{"a": 1}', '{"a": 1}{"a": 1}', '"{\\"a\\": 1}"'])
def test_arguments_are_repaired_only_where_that_is_wanted(text: str) -> None:
    """A history is sent back as the model wrote it: damage is repaired in answers alone."""
    assert read_arguments([text]).value == {"a": 1}
    assert read_arguments([text], repair=False).value == {"_raw": text, "_error": "invalid_json"}
    assert read_arguments([text], [text + " "], repair=False).value["_error"] == "invalid_json"
