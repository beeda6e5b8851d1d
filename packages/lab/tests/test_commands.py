"""The commands of the lab inside `streamfold`: mounted by entry point, and as careful with what they print."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

import scale
from commands import run, start
from folding import DONE, call, chunk, entry, event, fin, text
from terminals import on_terminal

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "swap_agent"
COMMANDS = ["conformance", "diff", "doctor", "inspect", "models", "swap-check"]


def saved(folder: Path, *events: bytes) -> Path:
    (folder / "answer.sse").write_bytes(b"".join(events))
    return folder / "answer.sse"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "inspect fixtures/demo/reasoning_text.sse",
        "diff fixtures/demo/reasoning_text.sse fixtures/demo/reasoning_text.sse",
        "doctor http://127.0.0.1:9/v1 --model m --dry-run",
    ],
)
def test_each_command_starts(words: str) -> None:
    """In a process of its own, whose standard output can't carry every character."""
    done = start(ROOT, *shlex.split(words), PYTHONIOENCODING="ascii:strict")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


@pytest.mark.parametrize("columns", scale.pick(["40", "200"], ["40"]))
def test_help_lists_them(tmp_path: Path, columns: str) -> None:
    """Among the commands of streamfold itself, each with a page of its own."""
    told = run(tmp_path, "--help", COLUMNS=columns, PYTHONIOENCODING="ascii").stdout
    assert [name for name in [*COMMANDS, "demo"] if f"\n  {name} " not in told] == []
    for command in COMMANDS:
        done = run(tmp_path, command, "--help", COLUMNS=columns, PYTHONIOENCODING="ascii")
        assert (done.returncode, f"streamfold {command}" in done.stdout) == (0, True)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii:strict"])
@pytest.mark.parametrize(
    "words",
    [
        "inspect answer.sse",
        "inspect answer.sse --json",
        "inspect answer.sse --html -",
        "diff answer.sse answer.sse",
    ],
)
def test_no_encoding_is_a_traceback(tmp_path: Path, words: str, encoding: str) -> None:
    """Every command ends well where standard output can't carry every character."""
    saved(tmp_path, text("\x1b[31m ✈️ 東京"), call(entry(0, "a", "f", '{"a": "東京 \\ud83d"}')), fin("tool_calls"), DONE)
    done = run(tmp_path, *words.split(), PYTHONIOENCODING=encoding)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """What an inspected stream contains is shown harmless."""
    hostile = "\x1b]52;c;ZXZpbA==\x1b\\ \x1b]0;pwned\x07 \x9b2J \u202e"
    name = call(entry(0, "i\x1b[2J", "f\x1b[2J", '{"a": "\x9b2J"}'))
    failed = event({"error": {"message": hostile}})
    file = saved(tmp_path, chunk({"reasoning_content": hostile}), text(hostile), name, failed)
    shown = on_terminal(tmp_path, "inspect", str(file), TERM="xterm-256color")
    for escape in (b"\x1b]", b"\x1b[2J", b"\x1b\\", b"\x07", "\x9b".encode(), "\u202e".encode()):
        assert escape not in shown
    assert b"\\x1b]52;c;ZXZpbA==\\x1b\\" in shown


@pytest.mark.parametrize("words", ["inspect nowhere --json", "swap-check bad.json -p kimi --json"])
def test_mistakes_are_lines_of_json_too(tmp_path: Path, words: str) -> None:
    """A program that reads the lines of any command finds out why there are no others."""
    (tmp_path / "bad.json").write_text("{", "utf-8")
    done = run(tmp_path, *words.split())
    assert done.returncode == 2
    assert json.loads(done.stdout.splitlines()[-1])["error"]["type"] == "ConfigError"


def test_a_list_of_names_is_no_conversation(tmp_path: Path) -> None:
    """The message says which entry is wrong, and how it is written."""
    (tmp_path / "names.json").write_text(json.dumps(["look_up"]), "utf-8")
    done = run(tmp_path, "swap-check", "-p", "ollama", "names.json", COLUMNS="1000")
    assert done.returncode == 2
    assert "messages[0] is a string without a role: write user('look_up')" in done.stderr


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="the examples are not part of what is installed")
def test_swap_check_of_the_example(tmp_path: Path) -> None:
    """The command in its README: nothing is lost without a warning, and OpenAI's APIs take no reasoning back."""
    words = ["-p", "openai:gpt-5-mini", "-p", "openai-responses:gpt-5-mini", "-p", "kimi:kimi-k2.6", "--json"]
    done = run(tmp_path, "swap-check", *words, str(EXAMPLE / "conversation.json"))
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [outcome["error"] for outcome in outcomes]) == (1, [None, None, None])
    warnings = [[warning["code"] for warning in outcome["warnings"]] for outcome in outcomes]
    assert [sorted(codes) for codes in warnings] == [
        ["option_dropped", "reasoning_dropped"],
        ["option_dropped", "reasoning_dropped"],
        ["ids_renumbered", "option_dropped"],
    ]
