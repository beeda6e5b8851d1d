"""Tool calls that a server left in the text: the warning names a dialect, and that dialect reads them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from folding import text
from streamfold import Reply, StreamDecoder, Tool

TOOLS = [Tool("click", "", {"type": "object", "properties": {"point": {"type": "string"}, "n": {"type": "integer"}}})]
JSON = '{"name": "click", "parameters": {"point": "x"}}'
SEED = "<seed:tool_call>\n<function=click>\n<parameter=point>{}</parameter>\n</function>\n</seed:tool_call>"
DOUBAO = '<function name="click"><parameter name="point" string="true"><point>5</point></parameter></function>'
LEAKED: dict[str, str] = {
    JSON: "llama3",
    f"\n{JSON}; {JSON}": "llama3",
    '[click(point="x"), click(point="y")]': "llama3",
    f"Sure. <|python_tag|>{JSON}": "llama3",
    f"<|python_start|>{JSON}<|python_end|>": "llama3",
    f"[{JSON}]": "required",
    'Sure.\n<invoke name="click">\n<parameter name="point">x</parameter>\n</invoke>': "minimax",
    SEED.format("x"): "seed",
    f"<seed:tool_call>{DOUBAO}</seed:tool_call>": "seed",
    '<function=click><parameter=point>x</parameter></function>': "qwen3coder",
    f"[TOOL_CALLS][{JSON.replace('parameters', 'arguments')}]": "mistral",
}  # fmt: skip


def read(said: str, dialect: str | None = None, tool_choice: Any = "auto") -> Reply:
    decoder = StreamDecoder("chat", tools=TOOLS, dialect=dialect, tool_choice=tool_choice)
    decoder.feed(text(said) + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    decoder.close()
    return decoder.reply


def named(reply: Reply) -> list[str]:
    details = [warning.detail for warning in reply.warnings if warning.code == "leaked_markup"]
    return [found[1] if (found := re.search(r"dialect '(\w+)'", detail)) else "" for detail in details]


@pytest.mark.parametrize(("said", "dialect"), LEAKED.items())
def test_the_dialect_that_is_named_reads_the_calls(said: str, dialect: str) -> None:
    """Every form that a dialect reads is named, also JSON and Python without a mark."""
    assert named(read(said)) == [dialect]
    assert read(said, dialect).tool_calls
    assert read(said, dialect).warnings == []


def test_the_arguments_of_a_tool_that_was_demanded() -> None:
    """Where one tool was named, its arguments alone are its call."""
    said = '{"point": "x"}'
    assert named(read(said, tool_choice={"type": "function", "function": {"name": "click"}})) == ["named"]
    assert named(read(said)) == []


@pytest.mark.parametrize("said", [JSON.replace("click", "ls"), "[ls(x=1)]", '{"name": "Ann"}', '<invoke name="ls">'])
def test_json_and_python_of_no_tool_are_an_answer(said: str) -> None:
    """Without a mark, only a call of a declared tool is one."""
    assert read(said).warnings == []


def test_a_form_that_no_dialect_reads_names_none() -> None:
    """A mark of a dialect around a form that it doesn't read is not an advice to use it."""
    said = "<tool_call>\n{'name': 'click'}\n</tool_call>"
    [warning] = read(said).warnings
    assert warning.detail == "the text contains tool calls in the format of hermes, which no dialect reads"
    assert not read(said, "hermes").tool_calls


@pytest.mark.parametrize("value", ["\nfirst line is empty", "ends so\n", " blank ", "\n\ntwo", "", "\n"])
def test_seed_keeps_the_line_feeds_of_a_value(value: str) -> None:
    """Seed-OSS's template prints a value right behind its tag; only a pair of line feeds around it is layout."""
    for written in (value, f"\n{value}\n"):
        [call] = read(SEED.format(written), "seed").tool_calls
        assert call.arguments == {"point": value}


def test_seed_with_attributes() -> None:
    """Doubao Seed 2 says in the tag whether a value is a string; else the schema does."""
    body = '<parameter name="point" string="true">7</parameter><parameter name=\'n\'>7</parameter>'
    [call] = read(f'<seed:tool_call>\n<function name="click">{body}</function></seed:tool_call>', "seed").tool_calls
    assert json.loads(call.raw_arguments) == {"point": "7", "n": 7}
