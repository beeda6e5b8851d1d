"""The dialects: deltas with markup in, text, reasoning and whole calls out, however the text is cut."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import EntryPoint
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import corpus
import scale
from markup import (
    ARGUMENTS,
    BEGIN,
    CALL,
    CALL_END,
    CALLS,
    DEEPSEEK,
    END,
    GLM,
    HERMES,
    KIMI,
    LIST,
    LLAMA,
    MISTRAL,
    QWEN,
    X,
)
from scale import examples
from streamfold import ConfigError, NamedTool, Reply, Tool
from streamfold.deltas import CallSummary, Delta, Finish, Meta, ReasoningDelta, TextDelta, ToolCallDelta, Warn
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.engine.dialects import Dialect, DialectContext, find_dialect, leaked_markup
from streamfold.types.tools import AllowedTools, ReadToolChoice
from tables import each_row

TOOLS = (Tool("search"), Tool("get_weather"))
NEW = ["harmony", "dsml", "kimi3", "minimax", "minimax3", "gemma4", "functiongemma", "lfm2", "seed", "cohere"]
NAMES = ["deepseek", "glm", "hermes", "kimi", "llama3", "mistral", "named", "qwen3coder", "required", "think", *NEW]

# What opens and closes reasoning, where it is not <think>.
THOUGHTS = {
    "harmony": ("<|channel|>analysis<|message|>", "<|end|>"),
    "kimi3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    "minimax3": ("<mm:think>", "</mm:think>"),
    "gemma4": ("<|channel>thought\n", "<channel|>"),
    "seed": ("<seed:think>", "</seed:think>"),
    "cohere": ("<|START_THINKING|>", "<|END_THINKING|>"),
}
VALUE = re.compile(r"""(?<=["'>\n])x""")
THINKING = [name for name in CALLS if name not in ("llama3", "functiongemma")]
FORCED: dict[str, ReadToolChoice] = {"required": "required", "named": NamedTool("search")}
ANYWHERE = [name for name in CALLS if name not in ("llama3", "required", "named")]


def read(
    name: str,
    pieces: str | Iterable[str],
    choice: ReadToolChoice | None = None,
    tools: tuple[Tool, ...] = TOOLS,
    *,
    inside: bool = False,
) -> Reply:
    """Folds a text that comes in these pieces, in a dialect."""
    context = DialectContext(tools, choice or FORCED.get(name, "auto"), inside)
    return fold(
        find_dialect(name, context), [TextDelta(piece) for piece in ([pieces] if isinstance(pieces, str) else pieces)]
    )


def fold(dialect: Dialect, deltas: Iterable[Delta]) -> Reply:
    folded = StreamAccumulator()
    folded.feed(Meta())
    for delta in deltas:
        for made in dialect.feed(delta):
            folded.feed(made)
    for made in dialect.finish():
        folded.feed(made)
    folded.feed(Finish("stop", "stop"))
    folded.finish()
    return folded.reply


def any_cut(name: str, text: str, *arguments: Any, **options: Any) -> Reply:
    """The reply to a text, which is the same however the text is cut."""
    whole = read(name, [text], *arguments, **options)
    for pieces in cuts(text):
        assert read(name, pieces, *arguments, **options) == whole
    return whole


def cuts(text: str) -> Iterator[list[str]]:
    """Character by character, in two pieces in every way (if it is short), and at random."""
    rng = random.Random(text)
    yield list(text)
    places = range(1, len(text)) if len(text) < 400 else sorted(rng.sample(range(1, len(text)), 60))
    for at in scale.some(places, 12):
        yield [text[:at], text[at:]]
    for _ in range(scale.pick(3, 1)):
        at = sorted(rng.randrange(len(text) + 1) for _ in range(12))
        yield [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]


def thought(name: str, text: str) -> str:
    """Reasoning, as a dialect writes it."""
    opener, closer = THOUGHTS.get(name, ("<think>", "</think>"))
    return opener + text + closer


def got(reply: Reply) -> tuple[str, str, list[tuple[str, Any]]]:
    return reply.text, reply.reasoning, [(call.name, call.arguments) for call in reply.tool_calls]


def unfinished(reply: Reply) -> bool:
    return any(warning.code == "unfinished_markup" for warning in reply.warnings)


# The optional conformance corpus.

VECTORS = corpus.cases(*(f"vectors/{name}.json" for name in NAMES))


def _context(vector: dict[str, Any]) -> DialectContext:
    schemas, choice = vector.get("schemas", {}), vector["tool_choice"]
    tools = tuple(
        Tool(name, parameters={"properties": {key: _schema(kind) for key, kind in schemas.get(name, {}).items()}})
        for name in vector["tools"]
    )
    choice = NamedTool(choice["name"]) if isinstance(choice, dict) else choice
    return DialectContext(tools, choice, vector.get("start_in_reasoning", False))


def _schema(kind: Any) -> dict[str, Any]:
    """A type of a vector, which is a name or nearly a schema, as a schema."""
    if isinstance(kind, str):
        return {"type": kind}
    inner = {key: _schema(value) for key, value in kind.get("properties", {}).items()}
    return {**kind, "properties": inner} | ({"items": _schema(kind["items"])} if "items" in kind else {})


def _read_vector(vector: dict[str, Any], pieces: Iterable[str]) -> Reply:
    return fold(find_dialect(vector["dialect"], _context(vector)), map(TextDelta, pieces))


def _check(reply: Reply, expected: dict[str, Any]) -> None:
    wanted = expected["tool_calls"]
    assert got(reply) == (
        expected["text"],
        expected["reasoning"],
        [(call["name"], call["arguments"]) for call in wanted],
    )
    assert unfinished(reply) != expected["complete"]
    ids = [call.id for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(call["id"] in ("*", made) for call, made in zip(wanted, ids, strict=True))


def test_vectors_are_complete(folded: Counter[str]) -> None:
    """A corpus that is named has texts for every dialect."""
    assert corpus.folder()
    assert {vector["dialect"] for vector in VECTORS} == set(NAMES)
    folded["texts in dialects"] = len(VECTORS)


def _of(name: str) -> list[dict[str, Any]]:
    return [vector for vector in VECTORS if isinstance(vector, dict) and vector["dialect"] == name]


@each_row("name", NAMES)
def test_vectors(name: str) -> None:
    """Whole and under every cut: what was derived by another reader."""
    assert corpus.folder()
    for vector in scale.some(_of(name), 16):
        for pieces in [[vector["text"]], *cuts(vector["text"])]:
            try:
                _check(_read_vector(vector, pieces), vector["expect"])
            except AssertionError as exc:
                raise AssertionError(f"{vector['name']} in {len(pieces)} pieces: {exc}") from exc


# What may be held back: a beginning of one of these markers, or an opening of which it is not yet known what it opens.
MARKERS: dict[str, list[str]] = {
    "kimi": [BEGIN, END, BEGIN.replace("calls", "call"), END.replace("calls", "call"), CALL, ARGUMENTS, CALL_END],
    "hermes": ["<tool_call>", "</tool_call>"],
    "qwen3coder": ["<tool_call>", "</tool_call>", "<function="],
    "glm": ["<tool_call>"],
    "deepseek": re.findall("<.*?>", DEEPSEEK),
    "llama3": ["<|python_tag|>"],
    "mistral": ["[TOOL_CALLS]"],
    "harmony": ["<|start|>", "<|end|>", "<|call|>", "<|return|>", "assistant", "commentary", "to=", "<|channel|>"],
    "minimax3": ["]<]minimax[>[", "<mm:think>", "</mm:think>"],
    "gemma4": ["<|tool_call>", "<tool_call|>", "<|tool_response>", "<|channel>thought\n", "<channel|>"],
    "functiongemma": ["<start_function_call>", "<end_function_call>", "<start_function_response>"],
    **{name: re.findall("<[^<>]+>", CALLS[name]) for name in ("dsml", "kimi3", "minimax", "lfm2", "seed", "cohere")},
}
THINK = ["<think>", "</think>", "◁think▷", "◁/think▷"]
OPENINGS: dict[str, str] = {
    "hermes": r"<tool_call>\s*\{.*",
    "qwen3coder": r"<tool_call>\s*(<(f(u(n(c(t(io?n?)?)?)?)?)?)?)?",
    "glm": r"<tool_call>\s*",
    "llama3": r'(<\|python_tag\|>)?\s*(\{\s*("[a-z]*"?\s*)?|\[\s*[\w.]*\s*)',
}


def check_held_back(name: str, context: DialectContext, text: str, final: Reply, ended: Callable[[str], Reply]) -> None:
    """Nothing is shown that is not in the final reply, and nothing is missing that could not become markup.

    What is missing is what the reply has if the text ends here (`ended`), and has in the end too.
    """
    dialect = find_dialect(name, context)
    beginnings = {""} | {marker[:size] for marker in MARKERS.get(name, []) + THINK for size in range(len(marker))}
    shown = {TextDelta: "", ReasoningDelta: ""}
    for at, char in enumerate(text, 1):
        for delta in dialect.feed(TextDelta(char)):
            assert isinstance(delta, TextDelta | ReasoningDelta)
            shown[type(delta)] += delta.text
        assert final.text.startswith(shown[TextDelta])
        assert final.reasoning.startswith(shown[ReasoningDelta])
        if len(text) > 400 and at % 97:
            continue
        here = ended(text[:at])
        missing = _common(here.text, final.text)[len(shown[TextDelta]) :].lstrip()
        assert missing in beginnings or re.fullmatch(OPENINGS.get(name, "(?!)"), missing, re.DOTALL)
        assert _common(here.reasoning, final.reasoning)[len(shown[ReasoningDelta]) :] in beginnings


def _common(one: str, other: str) -> str:
    """The beginning that two texts have in common."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(char for char, _ in pairs)


@each_row("name", [name for name in NAMES if name not in NEW])
def test_vectors_are_shown_early(name: str) -> None:
    """After every character, all is shown that can't become markup any more."""
    assert corpus.folder()
    for vector in scale.some(_of(name), 10):
        final = _read_vector(vector, [vector["text"]])
        ended = partial(_ended, vector)
        check_held_back(name, _context(vector), vector["text"], final, ended)


def _ended(vector: dict[str, Any], begun: str) -> Reply:
    return _read_vector(vector, [begun])


# Every dialect.


@each_row("name", CALLS)
def test_a_call_cut_anywhere(name: str) -> None:
    """A call is read whole, wherever its markers are cut."""
    assert got(any_cut(name, CALLS[name])) == ("", "", [("search", {"q": "x"})])


@each_row("name", ANYWHERE)
def test_text_round_two_calls(name: str) -> None:
    """Text before, between and after calls is text, byte for byte."""
    reply = any_cut(name, f"One: {CALLS[name]} two: {CALLS[name]} done.\n")
    assert got(reply) == ("One:  two:  done.\n", "", [("search", {"q": "x"})] * 2)


@each_row("name", ANYWHERE)
def test_blanks_between_calls(name: str) -> None:
    """White space between structures, and at the end behind one, is dropped."""
    reply = any_cut(name, f"\n{CALLS[name]}\n\n{CALLS[name]}\n")
    assert got(reply) == ("", "", [("search", {"q": "x"})] * 2)


@each_row("name", CALLS)
@each_row("context", [DialectContext(TOOLS, "none"), DialectContext()], ids=["none", "no tools"])
def test_no_calls_allowed(name: str, context: DialectContext) -> None:
    """Where the model may make no calls, their markup is ordinary text; reasoning is split off all the same."""
    for size in (1, 1000):
        text = thought(name, "hm") * (name in THINKING) + CALLS[name]
        pieces = [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]
        assert got(fold(find_dialect(name, context), pieces)) == (CALLS[name], "hm" * (name in THINKING), [])


@each_row("name", THINKING)
def test_reasoning_in_front_of_a_call(name: str) -> None:
    """Reasoning is split off, and the white space between it and the call is nothing."""
    assert got(any_cut(name, f"{thought(name, 'hm' + chr(10))}\n\n{CALLS[name]}")) == (
        "",
        "hm\n",
        [("search", {"q": "x"})],
    )


@each_row("name", [name for name in CALLS if name != "llama3"])
def test_call_broken_off(name: str) -> None:
    """A call that is cut off is not given out, and the reply says so; what was text before it stays."""
    text = "Ok. " * (name in ANYWHERE)
    value = VALUE.search(CALLS[name])
    assert value
    reply = any_cut(name, text + CALLS[name][: value.end()])
    assert got(reply) == (text, "", [])
    assert unfinished(reply)


@each_row(
    ("name", "text"),
    [
        ("kimi", "a <| b <|tool_ <|tool_calls_section_begin| > <|tool_calls_sec"),
        ("hermes", "The <tool_call> tag, <tool_cal, </tool_call> and <tool_call>{oops}</tool_call>."),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("qwen3coder", "Write <function>, <tool_call> or <function=\n> and <function=a>b</function>"),
        ("glm", "Use <tool_call> and a name, <tool_call>as follows</tool_call> or <tool_call>a<b>"),
        ("deepseek", "<｜tool▁calls and <|tool▁calls▁begin|>"),
        ("llama3", '{"city": "Oslo", "name": "search", "parameters": {}}'),
        ("llama3", '{"name": "Oslo", "population": 700000}'),
        ("llama3", "[1, 2, 3]"),
        ("llama3", '[search(q="x"), "and more"]'),
        ("llama3", 'Result: {"name": "search", "parameters": {}}'),
        ("mistral", "see [TOOL_CALL], [TOOL_CALLS] in general, and [TOOL_"),
        ("mistral", '[TOOL_CALLS][{"name": "search", "arguments": {bad}}]'),
        ("required", 'Sure: [{"name": "search", "parameters": {}}]'),
        ("required", '[{"name": "search", "parameters": {bad}}]'),
        ("named", "I would rather talk."),
        ("think", "<thinking>x <think> y <"),
    ],
)
def test_a_marker_that_turns_out_to_be_text(name: str, text: str) -> None:
    """What looks like markup and can't be any is text, all of it."""
    reply = any_cut(name, text)
    assert got(reply) == (text, "", [])
    assert not unfinished(reply)


@each_row(
    ("name", "quoted"),
    [
        ("kimi", f"{CALL_END}{END}{CALL}functions.a:0"),
        ("hermes", "</tool_call><tool_call>{"),
        ("deepseek", "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        ("mistral", "[TOOL_CALLS]a{"),
        ("llama3", "}; {"),
        ("required", "}]"),
        ("named", "}"),
    ],
)
def test_a_quoted_marker(name: str, quoted: str) -> None:
    """A marker inside a string of the arguments is data."""
    assert got(any_cut(name, VALUE.sub(lambda _: quoted, CALLS[name]))) == ("", "", [("search", {"q": quoted})])


@each_row(
    ("name", "end"),
    [
        ("kimi", CALL_END),
        ("hermes", "</tool_call>"),
        ("deepseek", "<｜tool▁call▁end｜>"),
        ("harmony", "<|call|>"),
        ("cohere", "<|END_ACTION|>"),
        ("named", "}"),
    ],
)
def test_white_space_round_arguments(name: str, end: str) -> None:
    """White space round arguments is none of JSON's business, whatever it is: they are read as those without it."""
    text = re.sub(
        r"[\[{].*[]}]", lambda json: f"\u2028\x0b{json.group()}\x85\xa0", CALLS[name].replace('"x"', f'"{end}"')
    )
    assert got(any_cut(name, text)) == ("", "", [("search", {"q": end})])


@pytest.mark.parametrize("name", ["kimi", "hermes", "deepseek"])
def test_a_string_without_its_end(name: str) -> None:
    """A string that never closes does not swallow the next call."""
    first, second = (CALLS[name].replace('"q": "x', f'"q": "{city}') for city in ("Oslo", "Rome"))
    reply = any_cut(name, first.replace('Oslo"', "Oslo") + second)
    broken, whole = reply.tool_calls
    assert broken.error == "invalid_json"
    assert (whole.name, whole.arguments) == ("search", {"q": "Rome"})


@pytest.mark.parametrize("name", ["kimi", "hermes", "deepseek"])
def test_many_strings_without_an_end(name: str) -> None:
    """Strings that each reach to the end of the text are many broken calls, and then a whole one."""
    broken = re.sub(r'"q": "x".*?}', '"\\\\" ', CALLS[name])
    reply = any_cut(name, broken * 30 + '"' + CALLS[name])
    assert [call.error for call in reply.tool_calls] == ["invalid_json"] * 30 + [None]


@each_row("name", CALLS)
def test_deep_nesting(name: str) -> None:
    """Arguments nested deeper than any parser goes are invalid, or the call is text; nothing is raised."""
    deep = "[" * 100_000 + "]" * 100_000  # deeper than any limit that a tool of other tests sets for a while
    text = VALUE.sub(deep, CALLS[name].replace('"x"', deep) if '"x"' in CALLS[name] else CALLS[name])
    reply = read(name, text, tools=(Tool("search", parameters={"properties": {"q": {"type": "array"}}}),))
    assert reply.text == text or reply.tool_calls[0].error or reply.tool_calls[0].arguments == {"q": deep}


@each_row("name", CALLS)
def test_half_a_surrogate_pair(name: str) -> None:
    """A character that a server has cut in two is whole again in the arguments."""
    reply = read(name, list(VALUE.sub("\ud83d\udc4b", CALLS[name])))
    assert reply.tool_calls[0].arguments == {"q": "\U0001f44b"}


@each_row("name", CALLS)
def test_a_structured_call_wins(name: str) -> None:
    """If the server sends calls of its own, those in the text are removed and not given out, with a warning."""
    dialect = find_dialect(name, DialectContext(TOOLS, FORCED.get(name, "auto")))
    reply = fold(dialect, [TextDelta(CALLS[name]), ToolCallDelta(0, "a", "get_weather", "{}")])
    assert (reply.text, [call.name for call in reply.tool_calls]) == ("", ["get_weather"])
    assert "markup_dropped" in [warning.code for warning in reply.warnings]


@each_row("name", NAMES)
def test_other_deltas_pass(name: str) -> None:
    """What is neither text nor reasoning passes unchanged, and so does reasoning without a text."""
    dialect = find_dialect(name, DialectContext(TOOLS))
    for delta in (
        Meta("id"),
        ReasoningDelta(""),
        TextDelta(""),
        ToolCallDelta(0, "a", "f"),
        CallSummary([]),
        Finish("stop", "stop"),
    ):
        assert list(dialect.feed(delta)) == [delta]
    assert list(dialect.finish()) == []


@each_row("name", [name for name in NAMES if name not in ("kimi", *NEW)])
def test_reasoning_of_the_server_passes(name: str) -> None:
    """Reasoning that the server has split off is not looked into."""
    dialect = find_dialect(name, DialectContext(TOOLS))
    reply = fold(dialect, [ReasoningDelta("<think>" + HERMES), TextDelta("so")])
    assert got(reply) == ("so", "<think>" + HERMES, [])


# Reasoning.


@each_row(
    ("text", "shown", "reasoning"),
    [
        ("<think>one</think>two", "two", "one"),
        ("\n <think>a</think>\n\nb", "\n\nb", "a"),
        ("<think>a <think> b</think>c", "c", "a <think> b"),
        ("<think>never closed</thin", "", "never closed</thin"),
        ("<think>a</think></think>b", "b", "a"),
        ("<think>a</think>The </think> tag", "The </think> tag", "a"),
        ("oops</think>answer", "oopsanswer", ""),
        ("Use <think> to start.", "Use <think> to start.", ""),
        ("<think>a</think>b <think>c</think>", "b <think>c</think>", "a"),
        ("◁think▷alpha</think>◁/think▷beta", "beta", "alpha</think>"),
        ("<think>1 < 2 << 3</think>4 < 5 <", "4 < 5 <", "1 < 2 << 3"),
    ],
)
def test_reasoning(text: str, shown: str, reasoning: str) -> None:
    """Reasoning is opened at the head, closed by its own closer, and is never text; a stray closer is nothing."""
    assert got(any_cut("think", text)) == (shown, reasoning, [])


@pytest.mark.parametrize(
    "text", ["hidden</think>shown", "<think>hidden</think>shown", "<think>hidden</think>\u2028shown"]
)
def test_g5_the_prompt_has_opened_reasoning(text: str) -> None:
    """With `start_in_reasoning` the output begins inside, whether or not the model repeats the opener."""
    reply = any_cut("think", text, inside=True)
    assert (reply.text.strip(), reply.reasoning) == ("shown", "hidden")


def test_g4_think_tag_in_pieces() -> None:
    """Tags in pieces are tags, and what only looks like the beginning of one is text."""
    assert got(read("think", ["<thi", "nk>abc</thi", "nk>ok, a <"])) == ("ok, a <", "abc", [])


def test_g6_reasoning_never_closed() -> None:
    """Reasoning without an end is all there is: the answer is empty, and that is a warning."""
    reply = read("think", ["<think>still", " going"])
    assert got(reply) == ("", "still going", [])
    assert [warning.code for warning in reply.warnings] == ["empty_answer"]


@each_row("name", ["hermes", "glm", "qwen3coder", "deepseek", "mistral"])
def test_calls_in_reasoning_are_thoughts(name: str) -> None:
    """A model that reasons about a call does not make it."""
    assert got(any_cut(name, f"<think>try {CALLS[name]}</think>no")) == ("no", f"try {CALLS[name]}", [])


@each_row("name", ["hermes", "glm", "qwen3coder", "deepseek", "mistral"])
def test_a_call_in_reasoning_that_is_all_there_is(name: str) -> None:
    """A call in reasoning counts if the model says nothing else, also where the server has split the reasoning off."""
    thoughts = f"try {CALLS[name]}"

    def reply(*deltas: Delta) -> Reply:
        return fold(find_dialect(name, DialectContext(TOOLS)), deltas)

    split = [ReasoningDelta(piece) for piece in thoughts]
    for made in (read(name, f"<think>{thoughts}"), reply(*split), reply(*split, TextDelta(""), TextDelta("\n"))):
        assert (made.text.strip(), made.reasoning) == ("", thoughts)
        assert [(call.name, call.arguments) for call in made.tool_calls] == [("search", {"q": "x"})]
    assert got(reply(*split, TextDelta("no"))) == ("no", thoughts, [])
    own = reply(*split, ToolCallDelta(0, "a", "get_weather", "{}"))
    assert got(own) == ("", thoughts, [("get_weather", {})])
    assert own.warnings == []


@each_row("name", CALLS)
def test_shown_early(name: str) -> None:
    """After every character, all is shown that can't become markup any more."""
    context = DialectContext(TOOLS, FORCED.get(name, "auto"))
    for text in (CALLS[name], f"{thought(name, 'a < b')}\n{CALLS[name]}\n a < b", f"a <tool_b [x] {CALLS[name]} <b"):
        check_held_back(name, context, text, read(name, text), lambda begun: read(name, begun))


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["Hi ", "\n", "a<", "|tool_", "x", " <", "think>"], ["Hi ", "\n", "a", "", "<|tool_x", " ", "<think>"]),
        (["<think>a</think>", "\n", "b", "</thi"], ["", "", "\nb", "</thi"]),
        ([KIMI, " ", "\n", "<", "<|tool_call", "s "], ["", "", "", "", " \n<", "<|tool_calls "]),
    ],
)
def test_text_is_shown_at_once(pieces: list[str], shown: list[str]) -> None:
    """Held back is only what may be the beginning of a marker, while it may, and white space behind structure."""
    dialect = find_dialect("kimi", DialectContext(TOOLS))
    given = [
        [delta.text for delta in dialect.feed(TextDelta(piece)) if isinstance(delta, TextDelta)] for piece in pieces
    ]
    assert given == [[text] if text else [] for text in shown]


# Kimi.


@each_row(
    ("header", "tools", "name", "call_id"),
    [
        ("functions.search:7", ("search", "get"), "search", "functions.search:7"),
        (" search:0\n", ("search", "get"), "search", "search:0"),
        ("functions.fs.read.v2:3", ("fs.read.v2", "v2"), "fs.read.v2", "functions.fs.read.v2:3"),
        ("functions.srv:tool:4", ("srv:tool",), "srv:tool", "functions.srv:tool:4"),
        ("default_api.search:0", ("search", "get"), "search", "default_api.search:0"),
        ("functions.launch:0", ("search", "get"), "launch", "functions.launch:0"),
        ("functions.search", ("search", "get"), "search", None),
        ("search", ("search", "get"), "search", None),
        ("0", ("search",), "search", None),
        ("call_9f2c", ("search",), "search", None),
        ("0", ("search", "get"), None, None),
        ("functions.launch", ("search",), None, None),
        ("toolu_01", ("search", "get"), None, None),
    ],
)
def test_kimi_header(header: str, tools: tuple[str, ...], name: str | None, call_id: str | None) -> None:
    """The name is found in the header, which is also the id; where it is lost, only a single tool may be meant."""
    dialect = find_dialect("kimi", DialectContext(tuple(map(Tool, tools))))
    assert list(dialect.feed(TextDelta(f"{BEGIN}{CALL}{header}{ARGUMENTS} {X}\n{CALL_END}{END}"))) == []
    made = list(dialect.finish())
    if name is None:
        assert [delta.code for delta in made if isinstance(delta, Warn)] == ["markup_dropped"]
    else:
        assert made == [ToolCallDelta(0, call_id, name, X, whole=True, markup=True)]


def test_kimi_damaged_section() -> None:
    """Noise in a section is dropped, a missing end is read as one, and a call without its own end needs to be JSON."""
    calls = [
        f"{CALL}functions.search:0{ARGUMENTS}{X}",
        f'{CALL}functions.search:1{ARGUMENTS}{{"q": ',
        f"{CALL}functions.sea",
        f"{CALL}functions.search:3{CALL_END} and ",
        f"{CALL}functions.search:4{ARGUMENTS}[1]{END}",
    ]
    reply = any_cut("kimi", f"a{BEGIN} let me see {''.join(calls)}b{CALL_END}{END}c{ARGUMENTS}d")
    assert reply.text == "abcd"
    assert [(call.id, call.raw_arguments) for call in reply.tool_calls] == [
        ("functions.search:0", X),
        ("functions.search:3", ""),
        ("functions.search:4", "[1]"),
    ]
    assert [warning.code for warning in reply.warnings] == ["markup_dropped"] * 2 + ["invalid_arguments"]


@each_row(
    ("text", "calls", "complete"),
    [
        (f"{BEGIN}{CALL}functions.search:0{ARGUMENTS}{X}", 1, True),
        (f"{BEGIN}{CALL}functions.search:0{ARGUMENTS}{X}{CALL_END}", 1, True),
        (f"{BEGIN}{CALL}functions.search:0{ARGUMENTS}{X}{CALL_END}<|tool_call_b", 1, False),
        (f"{BEGIN}{CALL}functions.search:0{ARGUMENTS}{X}<|tool_cal", 0, False),
        (f"{CALL}functions.search:0{ARGUMENTS}[1]", 0, False),
        (f"{BEGIN}{CALL}functions.sea", 0, False),
        (f"{BEGIN}", 0, False),
    ],
)
def test_kimi_cut_off(text: str, calls: int, complete: bool) -> None:
    """At the end of the input a whole object is a call, and nothing less is; the end of the section may be missing."""
    reply = any_cut("kimi", text)
    assert (reply.text, len(reply.tool_calls), unfinished(reply)) == ("", calls, not complete)


def test_kimi_calls_while_it_thinks() -> None:
    """A section ends reasoning; the closer that comes late is nothing."""
    reply = any_cut("kimi", f"<think>look{KIMI}</think>There.")
    assert got(reply) == ("There.", "look", [("search", {"q": "x"})])


def test_kimi_calls_in_the_servers_reasoning() -> None:
    """Calls in reasoning that the server has split off are made, first; the rest of it stays reasoning."""
    dialect = find_dialect("kimi", DialectContext(TOOLS))
    thoughts = f"I </think> look{KIMI} on<|tool_call"
    reply = fold(dialect, [*map(ReasoningDelta, thoughts), TextDelta(KIMI.replace(":0", ":1"))])
    assert (reply.text, reply.reasoning) == ("", "I </think> look on<|tool_call")
    assert [call.id for call in reply.tool_calls] == ["functions.search:0", "functions.search:1"]


def test_kimi_none_ends_reasoning() -> None:
    """Where no calls are read, a section still ends reasoning, and is then text."""
    assert got(any_cut("kimi", f"<think>hm{KIMI}", "none")) == (KIMI, "hm", [])


# The others.


def test_hermes_bodies() -> None:
    """The keys may come in any order; arguments may be missing, null, encoded twice, or no object."""
    bodies = ['{"arguments": {"name": "Bo"}, "name": "search"}', '{"name": "search"}']
    bodies += ['{"name": "search", "parameters": null}', '{"name": "search", "arguments": "{\\"q\\": \\"x\\"}"}']
    bodies += ['{"name": "search", "arguments": [1,  2]}', '{"name": "search", "arguments": {"q": }}']
    reply = any_cut("hermes", "".join(f"<tool_call>{body}</tool_call>\n</tool_call>" for body in bodies))
    assert [call.arguments for call in reply.tool_calls] == [
        {"name": "Bo"},
        {},
        {},
        {"q": "x"},
        {"_raw": "[1,  2]", "_error": "invalid_json"},
        {"_raw": bodies[-1], "_error": "invalid_json"},
    ]


def test_hermes_calls_without_ends() -> None:
    """A call may lack its end in front of the next one or at the end, if it is whole."""
    reply = any_cut("hermes", f'{HERMES[:-12]}<tool_call>{{"name": "get_weather", "argum{HERMES[:-12]}')
    assert [call.name for call in reply.tool_calls] == ["search", "search"]
    assert [warning.code for warning in reply.warnings if warning.code != "missing_id"] == ["markup_dropped"]
    assert unfinished(any_cut("hermes", "<tool_call>\n"))


class Place(BaseModel):
    city: str


class Query(BaseModel):
    count: int
    limit: int | None
    ratio: float
    exact: bool
    near: Place
    words: list[str]
    text: str
    note: str | None


VALUES = {
    "count": ("5", 5),
    "limit": ("null", None),
    "ratio": ("1", 1),
    "exact": ("True", True),
    "near": ('{"city": "Oslo"}', {"city": "Oslo"}),
    "words": ("[1]", [1]),
    "text": ("7", "7"),
    "note": ("null", "null"),
    "unknown": ("8", "8"),
}


@pytest.mark.parametrize(
    ("name", "pattern", "frame"),
    [
        ("qwen3coder", "<parameter={0}>\n{1}\n</parameter>\n", "<function=search>\n{}</function>"),
        ("glm", "<arg_key>{0}</arg_key><arg_value>{1}</arg_value>", "<tool_call>search{}</tool_call>"),
    ],
)
def test_values_have_their_declared_types(name: str, pattern: str, frame: str) -> None:
    """Values between tags are JSON where the schema says so and they are, else text; without a schema they are text."""
    text = frame.format("".join(pattern.format(key, written) for key, (written, _) in VALUES.items()))
    assert read(name, text, tools=(Tool.from_model(Query, name="search"),)).tool_calls[0].arguments == {
        key: value for key, (_, value) in VALUES.items()
    }
    assert read(name, text).tool_calls[0].arguments == {key: written for key, (written, _) in VALUES.items()}
    wrong = read(name, frame.format(pattern.format("count", "five")), tools=(Tool.from_model(Query, name="search"),))
    assert wrong.tool_calls[0].arguments == {"count": "five"}


@each_row(
    ("schema", "written", "value"),
    [
        ({}, "5", 5),
        ({}, "Oslo", "Oslo"),
        ({"description": "any value"}, "null", None),
        ({"type": "string"}, "007", "007"),
        ({"type": "string"}, "null", "null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "5", "5"),
        ({"type": ["integer", "string"]}, "5", 5),
        ({"type": ["integer", "string"]}, '<|"|>5<|"|>', "5"),
        ({"$ref": "#/$defs/count"}, "5", 5),
        ({"$ref": "#/definitions/text"}, "5", "5"),
        ({"$ref": "#/$defs/count~1day"}, "5", "5"),
    ],
)
def test_gemma_values_without_quotes(schema: dict[str, Any], written: str, value: Any) -> None:
    """Strings have quotes there, so a bare value is JSON, unless the schema says that it must be a string."""
    parameters = {
        "properties": {"q": schema},
        "$defs": {"count": {"type": "integer"}, "count/day": {"type": "string"}},
        "definitions": {"text": {"type": "string"}},
    }
    text = "<|tool_call>call:search{q:" + written + "}<tool_call|>"
    reply = read("gemma4", text, tools=(Tool("search", parameters=parameters),))
    assert got(reply) == ("", "", [("search", {"q": value})])


@each_row(
    ("invoke", "parameter", "calls"),
    [
        (' name="search"', ' name="q" string="true"', [("search", {"q": "5"})]),
        ("\nname='search' ", "\n  name='q'\n  string='true'\n", [("search", {"q": "5"})]),
        (" name=search", " name=q string=true", [("search", {"q": "5"})]),
        (' name="search"', ' name="q" string="false"', [("search", {"q": 5})]),
        (' name="search"', ' string="true" name="q"', []),  # never a call without what it was written with
        (' name="search"', " name='q", []),
    ],
)
def test_dsml_tags(invoke: str, parameter: str, calls: list[tuple[str, Any]]) -> None:
    """The attributes of a tag stand in any white space and quotes; if a tag can't be read, its call is dropped."""
    dash, end = "<｜DSML｜", "</｜DSML｜"
    text = (
        f"{dash}tool_calls>{dash}invoke{invoke}>{dash}parameter{parameter}>5{end}parameter>{end}invoke>{end}tool_calls>"
    )
    reply = any_cut("dsml", text)
    assert got(reply) == ("", "", calls)
    assert [warning.code for warning in reply.warnings] == ([] if calls else ["markup_dropped", "empty_answer"])


def test_values_keep_their_white_space() -> None:
    """Qwen takes one newline off each end of a value, GLM nothing."""
    qwen = any_cut("qwen3coder", "<function=search><parameter=q>\n  a\n\n<parameter=r>b</function></tool_call> ok")
    assert got(qwen) == (" ok", "", [("search", {"q": "  a\n", "r": "b"})])
    glm = any_cut("glm", GLM.replace(">x<", "> x\n</arg_valu <"))
    assert got(glm)[2] == [("search", {"q": " x\n</arg_valu "})]


def test_deepseek_v3() -> None:
    """V3 puts the name behind the header and the arguments in a fence; V3.1 may call a tool `function`."""
    for close in ("\n```", ""):
        fenced = DEEPSEEK.replace("search", "function").replace(X, f'search\n```json\n{{"q": "```"}}{close}')
        assert got(any_cut("deepseek", fenced)) == ("", "", [("search", {"q": "```"})])
    plain = DEEPSEEK.replace("search", "function")
    assert got(any_cut("deepseek", plain)) == ("", "", [("function", {"q": "x"})])


def test_llama3_objects_in_a_row() -> None:
    """Objects follow each other with white space or a semicolon between; what comes behind the last one is text."""
    typed = '{"type": "function", "name": "search", "arguments": {"q": ";"}}'
    reply = any_cut("llama3", f"<|python_tag|>{LLAMA}; {LLAMA}\n{typed}; done {LLAMA}")
    assert got(reply) == (f"; done {LLAMA}", "", [("search", {"q": "x"})] * 2 + [("search", {"q": ";"})])
    assert got(any_cut("llama3", LLAMA + '; {"a": 1}')) == ('; {"a": 1}', "", [("search", {"q": "x"})])


def test_llama3_python() -> None:
    """Calls in Python's notation are read by their literals, and never evaluated."""
    text = "[search(q=\")], (\", n=-2.5, t=True, e=['x', {'k': None}], p='\\d'), a.b(),] ok"
    arguments = {"q": ")], (", "n": -2.5, "t": True, "e": ["x", {"k": None}], "p": "\\d"}
    assert got(any_cut("llama3", text)) == (" ok", "", [("search", arguments), ("a.b", {})])
    assert got(any_cut("llama3", f"[search()]; {LLAMA}")) == (f"; {LLAMA}", "", [("search", {})])
    for other in ("[f(x=g())]", "[f(1)]", "[f(**{})]", "[f(x=1e999)]", "[f(x={1, 2})]", "[f(x=b'')]", "[f().g()]"):
        assert got(read("llama3", other)) == (other, "", [])
    assert read("llama3", f"[f(x={'-' * 50_000}1)]").tool_calls == []
    assert unfinished(any_cut("llama3", '[search(q="x'))


def test_llama3_json_answer_is_shown_early() -> None:
    """An answer in JSON is held back only while it may be a call, and is text even if it is cut off."""
    dialect = find_dialect("llama3", DialectContext(TOOLS))
    shown = [list(dialect.feed(TextDelta(piece))) for piece in ("{", '"c', 'ity": "Os')]
    assert shown == [[], [TextDelta('{"c')], [TextDelta('ity": "Os')]]
    assert got(any_cut("llama3", '{"type": "answer", "v')) == ('{"type": "answer", "v', "", [])
    assert unfinished(any_cut("llama3", '{"name": "search", "par'))


def test_mistral_forms() -> None:
    """An array, a name with an id, broken arguments, and an array of which only the first entry is whole."""
    text = '[TOOL_CALLS] [{"name": "search", "arguments": {"q": 1}, "id": "aB3dE6gH9"}]\n'
    text += "[TOOL_CALLS]search[CALL_ID]cD3dE6gH9[ARGS]{'q': '}'} and "
    text += '[TOOL_CALLS][{"name": "get_weather", "arguments": {}}, {"na'
    reply = any_cut("mistral", text)
    assert (reply.text, unfinished(reply)) == (" and ", True)
    assert [(call.name, call.raw_arguments) for call in reply.tool_calls] == [
        ("search", '{"q": 1}'),
        ("search", "{'q': '}'}"),
        ("get_weather", "{}"),
    ]
    assert [call.id for call in reply.tool_calls][:2] == ["aB3dE6gH9", "cD3dE6gH9"]


@each_row("name", ["required", "kimi", "hermes"])
@each_row("choice", ["required", AllowedTools(("search",), "required"), NamedTool("search")])
def test_forced_forms(name: str, choice: ReadToolChoice) -> None:
    """A demanded call may come as an array; Kimi and Hermes read it beside their markup."""
    assert got(any_cut(name, f"<think>a</think>\n{LIST}\nok", choice)) == ("\nok", "a", [("search", {"q": "x"})])
    assert got(any_cut(name, "[] ", choice)) == ("", "", [])
    assert got(any_cut(name, "No tool fits.", choice)) == ("No tool fits.", "", [])
    cut = any_cut(name, LIST[:-1] + ', {"name": "get', choice)
    assert (got(cut)[2], unfinished(cut)) == ([("search", {"q": "x"})], True)
    if name in CALLS and name != "required":
        assert got(any_cut(name, CALLS[name], choice))[2] == [("search", {"q": "x"})]


def test_required_single_object() -> None:
    """A single object in place of the array is one call."""
    assert got(any_cut("required", LIST[1:-1])) == ("", "", [("search", {"q": "x"})])


@pytest.mark.parametrize("name", ["named", "kimi", "hermes"])
def test_named_arguments(name: str) -> None:
    """The arguments of a named tool come bare, or wrapped with its name; what follows them makes them invalid."""
    choice = NamedTool("search")
    for text in (f"\n{X} \n", LIST[1:-1], f"{LIST[1:-1]}\xa0"):
        assert got(any_cut(name, text, choice)) == ("", "", [("search", {"q": "x"})])
    other = '{"name": "Bo", "parameters": {"q": 1}}'
    assert got(any_cut(name, other, choice)) == ("", "", [("search", json.loads(other))])
    broken = any_cut(name, X + " done", choice)
    assert [(call.error, call.raw_arguments) for call in broken.tool_calls] == [("invalid_json", X + " done")]
    assert unfinished(any_cut(name, X[:-1], choice))


# Finding one.


def test_several_dialects() -> None:
    """Several are joined by `+`: here reasoning in front of Llama's calls, and two families in one text."""
    assert got(any_cut("think+llama3", f"<think>a</think>{LLAMA}")) == ("", "a", [("search", {"q": "x"})])
    both = any_cut("hermes + qwen3coder", f"<tool_call> no {HERMES} and {QWEN}")
    assert got(both) == ("<tool_call> no  and ", "", [("search", {"q": "x"})] * 2)
    both = any_cut("mistral+required", f"{LIST} then {MISTRAL}", "required")
    assert got(both) == (" then ", "", [("search", {"q": "x"})] * 2)


def test_unknown_dialect() -> None:
    """An unknown name is refused with the nearest one, alone or among others."""
    with pytest.raises(ConfigError, match=r"unknown dialect 'hermez' \(did you mean 'hermes'\?\).*qwen3coder"):
        find_dialect("think+hermez", DialectContext())


class Shouting:
    """A dialect of another package."""

    def __init__(self, context: DialectContext) -> None:
        self.tools = context.tools

    def feed(self, delta: Delta) -> Iterable[Delta]:
        yield TextDelta(delta.text.upper()) if isinstance(delta, TextDelta) else delta

    def finish(self) -> Iterable[Delta]:
        yield TextDelta(f"! {len(self.tools)} TOOLS")


def test_dialect_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package's dialect is found by its entry point, made with the context, and can be joined with ours."""
    entry = EntryPoint("shouting", f"{__name__}:Shouting", "streamfold.engine.dialects")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    assert read("shouting", "hi").text == "HI! 2 TOOLS"
    assert got(read("hermes+shouting", ["hi <", "tool", "s", "<"])) == ("HI <TOOLS<! 2 TOOLS", "", [])


@each_row(
    ("text", "name"),
    [
        *((f"Sure. {CALLS[name]}", name) for name in ANYWHERE),
        ("<｜tool▁call▁begin｜>search", "deepseek"),
        (CALL, "kimi"),
        ("<|python_tag|>" + LLAMA, "llama3"),
        ("<|open|>tools<|sep|>", "kimi3"),
        ("<｜DSML｜function_calls>", "dsml"),
        ("<minimax:tool_call> as a word", None),
        (f"<think>a</think>{HERMES}", "hermes"),
        ("\n<think>a</think>b", "think"),
        ("Use <tool_call>, <think> or [1] and a[TOOL_].", None),
        ("plain", None),
    ],
)
def test_leaked_markup(text: str, name: str | None) -> None:
    """Markup that nobody has read is recognised by its openings."""
    assert leaked_markup(text) == name


# Whatever comes.

WORDS = ["a", " ", "\n", "<", "{", "}", "[", "]", '"', "\\", "'", "x", X, "<think>", "</think>", "◁think▷", "🤔"]
PIECES = {
    "kimi": [BEGIN, END, CALL, CALL_END, ARGUMENTS, "functions.search:0", '{"q": "'],
    "hermes": ["<tool_call>", "</tool_call>", '{"name": "search", "arguments": ', '{"name"'],
    "qwen3coder": re.findall(r"<[^>]*>|<function=", QWEN),
    "glm": [*re.findall("<[^>]*>", GLM), "search"],
    "deepseek": [*re.findall("<[^>]*>", DEEPSEEK), "function", "search\n```json\n", "```"],
    "llama3": ["<|python_tag|>", LLAMA, '{"name":', '"parameters":', "[search(", "q=", ")", ";"],
    "mistral": ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "search", LIST],
    "required": [LIST, '{"name":', "[", ","],
    "named": [LIST, '{"name":', '{"q":'],
    "think": ["<think>", "</think>", "◁/think▷"],
    **{name: [*re.findall(r"<[^<>]+>|\]<\]minimax\[>\[|\w+|.", CALLS[name]), *THOUGHTS.get(name, ())] for name in NEW},
}
texts = st.sampled_from(sorted(PIECES)).flatmap(
    lambda name: st.tuples(
        st.just(name), st.lists(st.sampled_from(PIECES[name] * 2 + WORDS), max_size=16).map("".join), st.randoms()
    )
)


@settings(deadline=None, max_examples=examples(300))
@given(texts, st.booleans(), st.booleans())
def test_any_text_under_any_cut(drawn: tuple[str, str, random.Random], inside: bool, forced: bool) -> None:
    """Any text gives the same result under any cut, is shown as early as may be, and raises nothing."""
    name, text, rng = drawn
    choice = FORCED.get(name, "required" if forced else "auto")
    whole = read(name, text, choice, inside=inside)
    at = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(8)))
    for pieces in ([text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)], list(text)):
        assert read(name, pieces, choice, inside=inside) == whole
