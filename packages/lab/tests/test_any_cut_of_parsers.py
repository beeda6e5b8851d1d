"""Parsers of tool calls at any cut: what differs from the whole text is named, with the shortest example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from streamfold.cli.app import app
from streamfold.engine import StreamDecoder
from streamfold.errors import ConfigError
from streamfold_lab.any_cut import (
    as_markdown,
    as_piece_parser,
    check_parser,
    cuts_of,
    dialects,
    find_parser,
    load_vectors,
)

OPEN, CLOSE = "<tool_call>\n", "\n</tool_call>"


def parsed(text: str) -> list[dict[str, Any]]:
    blocks = [block.partition(CLOSE)[0] for block in text.split(OPEN)[1:]]
    return [json.loads(block) for block in blocks]


@dataclass
class Careful:
    """A parser with the methods of SGLang, that waits for the end of each call."""

    text: str = ""
    sent: int = 0
    given: str = ""
    lost: int = -1  # the call that it loses
    pieces: int = 0

    def detect_and_parse(self, text: str, tools: list[Any]) -> Any:
        calls = [
            SimpleNamespace(tool_index=number, name=call["name"], parameters=json.dumps(call["arguments"]))
            for number, call in enumerate(parsed(text))
        ]
        return SimpleNamespace(normal_text=text.partition(OPEN)[0], calls=calls)

    def parse_streaming_increment(self, text: str, tools: list[Any]) -> Any:
        self.text += text
        self.pieces += 1
        return SimpleNamespace(normal_text="", calls=[])

    def finish(self, tools: list[Any]) -> Any:
        return self.detect_and_parse(self.text, tools)


class Hasty(Careful):
    """Forgets the first piece if a marker is cut in two."""

    def parse_streaming_increment(self, text: str, tools: list[Any]) -> Any:
        if self.text and not self.text.startswith(OPEN) and self.text in OPEN:
            self.text = ""
        return super().parse_streaming_increment(text, tools)


@dataclass
class Remembering:
    """A parser with the methods of vLLM."""

    tokenizer: Any = None
    seen: list[tuple[str, str, str]] = field(default_factory=list)

    def extract_tool_calls(self, text: str, request: Any) -> Any:
        calls = [
            SimpleNamespace(function=SimpleNamespace(name=call["name"], arguments=json.dumps(call["arguments"])))
            for call in parsed(text)
        ]
        return SimpleNamespace(content=text.partition(OPEN)[0], tool_calls=calls)

    def extract_tool_calls_streaming(
        self, before: str, now: str, piece: str, ids: Any, all_ids: Any, new_ids: Any, request: Any
    ) -> Any:
        assert before + piece == now
        assert (*ids, *new_ids) == tuple(all_ids)
        done, had = now.count(CLOSE), before.count(CLOSE)
        calls = [
            SimpleNamespace(
                index=number, function=SimpleNamespace(name=call["name"], arguments=json.dumps(call["arguments"]))
            )
            for number, call in enumerate(parsed(now[: now.rindex(CLOSE) + len(CLOSE)]) if done > had else [])
            if had <= number < done
        ]
        text = piece if "<" not in now else ""
        return SimpleNamespace(content=text, tool_calls=calls) if calls or text else None


VECTORS = [
    {"name": "two", "tools": ["a", "b"],
     "calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}],
     "text": f'{OPEN}{{"name": "a", "arguments": {{"x": 1}}}}{CLOSE}\n{OPEN}{{"name": "b", "arguments": {{}}}}{CLOSE}'},
]  # fmt: skip


@pytest.fixture
def texts(tmp_path: Path) -> str:
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(VECTORS), "utf-8")
    return str(file)


@pytest.mark.parametrize("parser", [Careful, Remembering])
def test_a_parser_that_is_right_at_any_cut_passes(parser: Any, texts: str) -> None:
    """With the interface of SGLang and with that of vLLM."""
    assert check_parser(as_piece_parser(parser), load_vectors(texts), cut_tokens=parser is Careful) == []


def test_the_shortest_example_is_shown(texts: str) -> None:
    """A parser that loses a marker in two pieces: how many cuts show it, and the first with the fewest pieces."""
    (failure,) = check_parser(as_piece_parser(Hasty), load_vectors(texts), cut_tokens=True)
    assert (failure.mode, failure.kind, failure.pieces[0]) == ("in pieces", "calls lost", "<")
    assert 0 < failure.cuts < failure.tried
    assert failure.found.endswith('"calls": [["b", {}]]}')
    report = as_markdown("mine:Hasty", ["mine 1.0"], [failure], 1)
    assert "## Hasty loses calls for a text in pieces" in report
    assert f"pieces = {list(failure.pieces)!r}" in report


def test_special_tokens_are_not_cut() -> None:
    """Unless that is requested: a model has one token for them."""
    text = "<|tool_calls_section_begin|>x</tool_call>[TOOL_CALLS]"
    pieces = {piece for cut in cuts_of(text) for piece in cut}
    assert all("<|" not in piece or "|>" in piece for piece in pieces)
    assert ("<", text[1:]) in set(cuts_of(text, cut_tokens=True))
    assert all("".join(cut) == text for cut in cuts_of(text, cut_tokens=True))


@pytest.mark.parametrize("dialect", dialects())
def test_our_reader_reads_the_vectors(dialect: str) -> None:
    """Each text says what stands beside it, by our own decoder."""
    for vector in load_vectors(dialect):
        decoder = StreamDecoder("chat", dialect=dialect, tools=vector.declared())
        event = {"choices": [{"index": 0, "delta": {"content": vector.text}, "finish_reason": None}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        decoder.feed(b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in (event, end)))
        decoder.close()
        found = [(call.name, call.arguments) for call in decoder.reply.tool_calls]
        assert found == [(call.name, call.arguments) for call in vector.calls], vector.name


def test_mistakes_are_named(texts: str) -> None:
    """A class that isn't there, one without the methods, and texts that aren't there."""
    with pytest.raises(ConfigError, match="can't be imported"):
        find_parser("no_such_module:Parser")
    with pytest.raises(ConfigError, match="write module:Class"):
        find_parser("json")
    with pytest.raises(ConfigError, match="the methods of neither SGLang"):
        as_piece_parser(dict)
    with pytest.raises(ConfigError, match="no test texts 'hermess'"):
        load_vectors("hermess")


def test_the_command(texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0: nothing differs; 3: something does, and the report is written; 2: a mistake."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    run = ["lab", "any-cut", "--vectors", texts, "--cut-tokens"]
    done = CliRunner().invoke(app, [*run, "test_any_cut_of_parsers:Careful"])
    assert done.exit_code == 0, done.output
    report = tmp_path / "report.md"
    done = CliRunner().invoke(app, [*run, "test_any_cut_of_parsers:Hasty", "--report", str(report)])
    assert done.exit_code == 3
    assert report.read_text("utf-8").startswith("# test_any_cut_of_parsers:Hasty")
    assert CliRunner().invoke(app, ["lab", "any-cut", "test_any_cut_of_parsers:Hasty"]).exit_code == 2


@pytest.mark.slow
def test_the_pytest_plugin(texts: str, tmp_path: Path) -> None:
    """A suite with a test for each text, and a fixture for one's own tests."""
    tests = tmp_path / "test_mine.py"
    tests.write_text(
        "from test_any_cut_of_parsers import Careful, Hasty\n"
        f"def test_right(assert_any_cut): assert_any_cut(Careful, {texts!r}, cut_tokens=True)\n"
        f"def test_wrong(assert_any_cut): assert_any_cut(Hasty, {texts!r}, cut_tokens=True)\n",
        "utf-8",
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    folder = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    done = subprocess.run(
        [*words, str(tests)], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **folder}
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    suite = [
        *words,
        "--pyargs",
        "streamfold_lab.any_cut.suite",
        "--streamfold-parser",
        "test_any_cut_of_parsers:Careful",
    ]
    done = subprocess.run(
        [*suite, "--streamfold-vectors", texts],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, **folder},
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
