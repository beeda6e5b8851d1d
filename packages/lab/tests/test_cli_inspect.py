"""`streamfold inspect` and `streamfold diff`, run inside this process: tests/test_cli.py shows that commands start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from folding import DONE, event, fin, text
from streamfold.cli.app import app

ROOT = Path(__file__).resolve().parents[3]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*words: str) -> Done:
    words = tuple(str(ROOT / word) if word.startswith("fixtures/") else word for word in words)
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def test_inspect_in_the_terminal():
    """Each event has a line with its reason, runs are joined, and the answer stands at the end."""
    done = run("inspect", "fixtures/kimi/parallel_calls.sse")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "kimi/parallel_calls chat · 34 events · 8,727 bytes · no times recorded"
    assert "2-18 reasoning 'Weather and clock do not depend on each other, so I can ask for both at once.'" in lines
    assert "20 call 1 name 'get_time', id 'functions.get_time:1' index 1 is new: opens call 1 (get_time)" in lines
    assert "22 call 1 '{\"time' index 1 is in use: continues call 1 (get_time)" in lines
    assert lines[-1] == "finished: tool_calls"


@pytest.mark.parametrize("source", ["fixtures/kimi/parallel_calls", "demo/parallel_calls"])
def test_inspect_without_a_suffix(source: str):
    """A path may leave it out; what is no path may be the name of a recording that comes with streamfold."""
    done = run("inspect", source)
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stdout.split()).startswith(f"{source.removeprefix('fixtures/')} chat · ")


def test_inspect_all_events():
    """With --all nothing is joined; times and gaps are those of the recording."""
    done = run("inspect", "fixtures/demo/reasoning_text.sse", "--all")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "2 0.030 +0.030 reasoning 'a streame'" in lines
    assert sum(" reasoning " in line for line in lines) >= 29


def test_inspect_a_stream_that_broke_off():
    """An error is explained like anything else: the command did what it was asked for."""
    done = run("inspect", "fixtures/aimock/truncate_tool.sse")
    assert done.returncode == 0, done.stderr
    assert "IncompleteStreamError: the connection broke off before the response was complete" in done.stdout
    assert "not called" in done.stdout


def test_inspect_as_json():
    """One object with every event."""
    done = run("inspect", "fixtures/aimock/unicode.sse", "--json")
    made = json.loads(done.stdout)
    assert made["format"] == "streamfold.inspection/1"
    assert [one["number"] for one in made["events"] if one["number"]] == list(range(1, len(made["events"]) + 1))
    assert made["failed"] is None


def test_inspect_as_a_page(tmp_path: Path):
    """The page is written where it was asked for, or printed."""
    page = tmp_path / "page.html"
    assert run("inspect", "fixtures/kimi/parallel_calls.sse", "--html", str(page)).returncode == 0
    printed = run("inspect", "fixtures/kimi/parallel_calls.sse", "--html", "-").stdout
    assert page.read_text("utf-8") == printed
    assert printed.startswith("<!doctype html>")


def test_inspect_a_raw_body(tmp_path: Path):
    """A body without a description is read as what the options say; a dialect wants the tools."""
    body = tmp_path / "answer.txt"
    body.write_bytes(text('<tool_call>{"name": "get_time", "arguments": {}}</tool_call>') + fin("stop") + DONE)
    done = run("inspect", str(body), "--dialect", "hermes", "--tool", "get_time")
    assert "tool call  get_time {}" in done.stdout
    assert done.stderr == ""
    forgotten = run("inspect", str(body), "--dialect", "hermes")
    assert "name the request's tools with --tool" in forgotten.stderr
    assert "leaked_markup" in forgotten.stdout


def test_inspect_what_is_piped_in():
    """A dash is standard input."""
    body = (ROOT / "fixtures/kimi/parallel_calls.sse").read_bytes()
    done = CliRunner().invoke(app, ["inspect", "-"], input=body, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert done.stdout.startswith("standard input  chat · 34 events · 8,727 bytes")


def test_hostile_text_does_not_steer_the_terminal(tmp_path: Path):
    """Escape sequences and control characters of a stream are shown, not sent."""
    body = tmp_path / "answer.sse"
    hostile = "\x1b]0;owned\x07\x1b[31m[bold]\r\u202e"
    error = event({"error": {"message": hostile}})
    body.write_bytes(text(hostile) + b": \x1b[2J\n\n" + b"event: \x1b[2J\ndata: {}\n\n" + error)
    for words in (["inspect", str(body)], ["diff", str(body), "fixtures/kimi/parallel_calls.sse"]):
        done = run(*words)
        assert not set(done.stdout) & set("\x1b\x07\r\u202e"), words
        assert "[bold]" in done.stdout


def test_diff_exits_with_0_for_the_same_answer():
    """The same recording twice, and two that differ in nothing that counts."""
    done = run("diff", "fixtures/kimi/parallel_calls.sse", "fixtures/kimi/parallel_calls.sse")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "the replies are the same")
    words = ["fixtures/aimock/note.sse", "fixtures/litellm/note.sse"]
    assert run("diff", *words).returncode == 1
    assert run("diff", *words, "--ignore", "ids", "--ignore", "usage", "--ignore", "model").returncode == 0


def test_diff_as_json():
    """One object that says what differs."""
    done = run("diff", "fixtures/aimock/note.sse", "fixtures/litellm/note.sse", "--json")
    made = json.loads(done.stdout)
    assert (done.returncode, made["same"]) == (1, False)
    assert [one["field"] for one in made["answer"] if not one["same"]] == ["usage", "ids", "model"]
    assert made["meaning"]["number"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["inspect", "fixtures/aimock/note.sse", "--adapter", "chatt"],
            "unknown adapter 'chatt' (did you mean 'chat'?)",
        ),
        (["inspect", "fixtures/aimock/note.sse", "--json", "--html", "x"], "choose one"),
        (["inspect", "fixtures/aimock/note.sse", "--html", "no/such/folder/x"], "can't be written"),
        (["inspect", "fixtures/kimi/paralel_calls"], "(did you mean 'parallel_calls'?)"),
        (["inspect", "fixtures/demo"], "is a folder, not a recording. Available: parallel_calls, reasoning_text"),
        (["inspect", "demo/paralel_calls"], "there is no recording"),
        (["diff", "fixtures/aimock/note.sse", "fixtures/aimock/note.sse", "--ignore", "x"], "Allowed: outcome, text"),
    ],
)
def test_mistakes(words: list[str], message: str):
    """A mistake is one line on standard error and exit code 2."""
    done = run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
