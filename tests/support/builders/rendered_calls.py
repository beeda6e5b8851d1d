"""Calls written as the chat templates of the models write them, at random: a few lines for each format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from streamfold import Reply, Tool
from streamfold.deltas import Finish, Meta, TextDelta
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.engine.dialects import DialectContext, find_dialect

Value = Any
Calls = list[tuple[str, dict[str, Value]]]

# What strings are made of: quotes, brackets, white space, several-byte characters, and markup of every kind.
PIECES = [
    *("a", "Oslo", " ", "\n", "\t", '"', "'", "\\", "\\n", "{", "}", "[", "]", "(", ")", ",", ":", "=", "<", ">", "/"),
    *("é", "漢字", "🌍", "｜DSML｜", "<|", "|>", "null", "true", "7", "1e3", "&quot;", "&", "--", "```json", "</"),
    *("<tool_call>", "</tool_call>", "<|call|>", "<|start|>assistant", "<|close|>", "<|sep|>", "<|open|>call "),
    *("<invoke name=", "</minimax:tool_call>", "]<]", "<tool_call|>", "<|tool_call>call:x{", "<end_function_call>"),
    *("<|tool_call_end|>", "<|tool_call_start|>[f(", "<seed:tool_call>", "<function=f>", "<|END_ACTION|>", "<think>"),
]
NAMES = ("search", "get_weather", "a.b-c", "f2")
KEYS = ("q", "city", "from", "x1", "n")


def quoted(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)


def harmony(calls: Calls) -> str:
    head = "<|start|>assistant<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"
    return "".join(head.format(name, quoted(arguments)) for name, arguments in calls)


def dsml(calls: Calls) -> str:
    def value(key: str, value: Value) -> str:
        is_text = isinstance(value, str)
        flag, text = ("true", value) if is_text else ("false", quoted(value))
        return f'<｜DSML｜parameter name="{key}" string="{flag}">{text}</｜DSML｜parameter>\n'

    made = "".join(
        f'<｜DSML｜invoke name="{name}">\n{"".join(value(*item) for item in arguments.items())}</｜DSML｜invoke>\n'
        for name, arguments in calls
    )
    return f"<｜DSML｜tool_calls>\n{made}</｜DSML｜tool_calls>"


KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def kind(value: Value) -> str:
    return KINDS.get(type(value), "null")


def kimi3(calls: Calls) -> str:
    def tag(head: str, inside: str) -> str:
        return f"<|open|>{head}<|sep|>{inside}<|close|>{head.split()[0]}<|sep|>"

    def argument(key: str, value: Value) -> str:
        text = value if isinstance(value, str) else quoted(value)
        return tag(f'argument key="{key}" type="{kind(value)}"', text)

    made = [
        tag(f'call tool="{name}" index="{number}"', "".join(argument(*item) for item in arguments.items()))
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return tag("tools", "".join(made))


def plain(value: Value) -> str:
    return value if isinstance(value, str) else quoted(value)


def minimax(calls: Calls) -> str:
    parameter = '<parameter name="{}">{}</parameter>\n'
    made = "".join(
        f'<invoke name="{name}">\n{"".join(parameter.format(key, plain(v)) for key, v in arguments.items())}</invoke>\n'
        for name, arguments in calls
    )
    return f"<minimax:tool_call>\n{made}</minimax:tool_call>"


MARK = "]<]minimax[>["


def minimax3(calls: Calls) -> str:
    def element(name: str, value: Value) -> str:
        if isinstance(value, dict):
            inside = "".join(element(*item) for item in value.items())
        elif isinstance(value, list):
            inside = "".join(element("item", item) for item in value)
        else:
            inside = plain(value)
        return f"{MARK}<{name}>{inside}{MARK}</{name}>"

    made = [
        f'{MARK}<invoke name="{name}">{"".join(element(*item) for item in arguments.items())}{MARK}</invoke>'
        for name, arguments in calls
    ]
    return f"{MARK}<tool_call>{''.join(made)}{MARK}</tool_call>"


def gemma(begin: str, end: str, quote: str) -> Callable[[Calls], str]:
    def value(value: Value) -> str:
        if isinstance(value, str):
            return quote + value + quote
        if isinstance(value, list):
            return f"[{','.join(map(written, value))}]"
        if isinstance(value, dict):
            return "{" + ",".join(f"{key}:{written(item)}" for key, item in value.items()) + "}"
        return quoted(value)

    written = value
    return lambda calls: "".join(f"{begin}call:{name}{value(arguments)}{end}" for name, arguments in calls)


def lfm2(calls: Calls) -> str:
    made = (f"{name}({', '.join(f'{key}={v!r}' for key, v in arguments.items())})" for name, arguments in calls)
    return f"<|tool_call_start|>[{', '.join(made)}]<|tool_call_end|>"


def seed(calls: Calls) -> str:
    def parameter(key: str, value: Value) -> str:
        text = value if isinstance(value, str) else repr(value) if isinstance(value, list | dict) else quoted(value)
        return f"<parameter={key}>\n{text}\n</parameter>\n"

    return "\n".join(
        f"<seed:tool_call>\n<function={name}>\n{''.join(parameter(*item) for item in arguments.items())}</function>\n"
        "</seed:tool_call>"
        for name, arguments in calls
    )


def cohere(calls: Calls) -> str:
    made = [
        {"tool_call_id": str(number), "tool_name": name, "parameters": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    return f"<|START_ACTION|>{json.dumps(made, indent=4, ensure_ascii=False)}<|END_ACTION|>"


class Format(NamedTuple):
    """A way to write calls.

    Attributes:
        unsayable: what a string can't contain, because nothing escapes it.
        names: names of tools that can't be written.
        think: what opens and closes reasoning.
        values: values that can't be written anywhere: None where null is left out.
    """

    render: Callable[[Calls], str]
    unsayable: str = "(?!)"
    think: tuple[str, str] | None = ("<think>", "</think>")
    names: tuple[str, ...] = NAMES
    whole: bool = True  # null, and lists and objects that are empty


CHANNEL = ("<|channel|>analysis<|message|>", "<|end|>")
FORMATS = {
    "harmony": Format(harmony, think=CHANNEL),
    "dsml": Format(dsml, r"</?｜DSML｜"),
    "kimi3": Format(kimi3, r"<\|close\|>", ("<|open|>think<|sep|>", "<|close|>think<|sep|>")),
    "minimax": Format(minimax, "</parameter>|<parameter name=|</invoke>"),
    "minimax3": Format(minimax3, re.escape(MARK), ("<mm:think>", "</mm:think>"), whole=False),
    "gemma4": Format(gemma("<|tool_call>", "<tool_call|>", '<|"|>'), r'<\|"\|>', ("<|channel>thought\n", "<channel|>")),
    "functiongemma": Format(gemma("<start_function_call>", "<end_function_call>", "<escape>"), "<escape>", None),
    "lfm2": Format(lfm2, names=("search", "get_weather", "a.b", "f2")),
    "seed": Format(seed, "</parameter>|<parameter=|</function>", ("<seed:think>", "</seed:think>")),
    "cohere": Format(cohere, think=("<|START_THINKING|>", "<|END_THINKING|>")),
}

texts = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def values(form: Format) -> st.SearchStrategy[Value]:
    strings = texts.filter(lambda text: not re.search(form.unsayable, text))
    numbers = st.one_of(st.integers(-(10**12), 10**12), st.sampled_from([0.5, -3.25, 1e21, 1.5e-7]))
    nothing = [st.none()] if form.whole else []
    leaves = st.one_of(strings, numbers, st.booleans(), *nothing)
    least = 0 if form.whole else 1
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=least, max_size=3),
            st.dictionaries(st.sampled_from(KEYS), inner, min_size=least, max_size=3),
        ),
        max_leaves=5,
    )


def calls_of(form: Format) -> st.SearchStrategy[Calls]:
    arguments = st.dictionaries(st.sampled_from(KEYS), values(form), max_size=3)
    return st.lists(st.tuples(st.sampled_from(form.names), arguments), min_size=1, max_size=3)


def schema(value: Value) -> dict[str, Any]:
    """A schema that a value fits."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema(item) for key, item in value.items()}}
    if isinstance(value, list):
        kinds = [schema(item) for item in value]
        same = kinds and all(kind == kinds[0] for kind in kinds)
        return {"type": "array"} | ({"items": kinds[0]} if same else {})
    return {"type": kind(value)}


def read(name: str, pieces: list[str], tools: tuple[Tool, ...]) -> Reply:
    dialect, folded = find_dialect(name, DialectContext(tools)), StreamAccumulator()
    folded.feed(Meta())
    for piece in pieces:
        for made in dialect.feed(TextDelta(piece)):
            folded.feed(made)
    for made in dialect.finish():
        folded.feed(made)
    folded.feed(Finish("stop", "stop"))
    folded.finish()
    return folded.reply


WORDS = ["Let me see: ", "a < b.\n\n", "It's {x} [1] ", "äöü 🌍 ", "1 | 2 "]


def declared(calls: Calls) -> tuple[Tool, ...]:
    """The tools of these calls."""
    return tuple(Tool(name, parameters=schema(arguments)) for name, arguments in dict(calls).items())


def sayable(value: Value) -> bool:
    """Whether elements can say it: items of several types have no schema, and are texts then."""
    if isinstance(value, dict):
        return all(map(sayable, value.values()))
    if isinstance(value, list):
        return len({quoted(schema(item)) for item in value}) == 1 and all(map(sayable, value))
    return True
