"""What a command prints: the model's bytes on a pipe, harmless text on a terminal, JSON lines that tell everything."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scale
from commands import COMMAND, Done, environment, run
from folding import DONE, call, chunk, entry, event, fin, text
from streamfold import Reply, StreamChunk
from streamfold.cli.rendering import renderer_for
from streamfold.terminal import escape_control_characters, prepare_streams
from terminals import on_terminal

ODD = "all:\n\techo hi\r\nx\fy\x08\x07\x1b[31m ✈️ 東京"


def saved(folder: Path, *events: bytes, name: str = "answer.sse") -> Path:
    (folder / name).write_bytes(b"".join(events))
    return folder / name


# --- On a pipe -------------------------------------------------------------------------------------------------------


@contextmanager
def redirected(encoding: str) -> Iterator[io.BytesIO]:
    """Standard output as a pipe of this encoding that would translate newlines, as on Windows."""
    raw, before = io.BytesIO(), sys.stdout
    sys.stdout = io.TextIOWrapper(raw, encoding=encoding, newline="\r\n")
    try:
        prepare_streams()
        yield raw
        sys.stdout.flush()
    finally:
        sys.stdout.detach()
        sys.stdout = before


@given(
    pieces=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1),
    encoding=st.sampled_from(["cp1252", "ascii", "utf-8", "utf-16", "shift_jis"]),
)
def test_a_pipe_gets_the_text_of_the_model_byte_for_byte(pieces: list[str], encoding: str) -> None:
    """Whatever the text and the encoding of the system: UTF-8, every character as it came, and a last line end."""
    with redirected(encoding) as out:
        screen = renderer_for(as_json=False)
        for piece in pieces:
            screen.chunk(StreamChunk(piece))
        screen.chunk(StreamChunk(finished=True, finish_reason="stop"))
        screen.end(Reply(text="".join(pieces), finish_reason="stop"))
        sys.stdout.flush()
        whole = "".join(pieces)
        assert out.getvalue() == (whole + "\n" * (not whole.endswith("\n"))).encode()


def test_replay_keeps_control_characters_on_a_pipe(tmp_path: Path) -> None:
    """Tabs, CR, form feeds and escapes are the model's, so they arrive: `replay > Makefile` works."""
    file = saved(tmp_path, text(ODD), fin("stop"), DONE)
    assert run(tmp_path, "replay", str(file)).out == ODD.encode() + b"\n"


def test_reasoning_leaves_nothing_on_standard_output(tmp_path: Path) -> None:
    """The answer begins with its own first byte; reasoning goes to standard error beside a pipe."""
    file = saved(tmp_path, chunk({"reasoning_content": "Hm."}), text("Yes"), fin("stop"), DONE)
    done = run(tmp_path, "replay", str(file))
    assert (done.out, done.err) == (b"Yes\n", b"Hm.\nfinished: stop\n")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii:strict"])
@pytest.mark.parametrize(
    "words",
    [
        ["replay", "answer.sse"],
        ["replay", "answer.sse", "--json"],
        ["providers"],
        ["demo", "--speed", "5000"],
    ],
    ids=" ".join,
)
def test_no_encoding_is_a_traceback(tmp_path: Path, words: list[str], encoding: str) -> None:
    """Every command ends well where standard output can't carry every character."""
    saved(tmp_path, text(ODD), call(entry(0, "a", "f", '{"a": "東京 \\ud83d"}')), fin("tool_calls"), DONE)
    done = run(tmp_path, *words, PYTHONIOENCODING=encoding)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


def test_names_are_never_cut_on_a_pipe(tmp_path: Path) -> None:
    """`providers | grep` finds every name, however narrow the window was."""
    done = run(tmp_path, "providers", COLUMNS="40")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"openai-responses", "kimi"} <= set(names)
    assert "…" not in done.stdout + run(tmp_path, "providers", "kimi", COLUMNS="40").stdout


def test_a_tool_call_is_a_line_on_a_pipe(tmp_path: Path) -> None:
    """Name, arguments and id in one line, for programs that read lines."""
    file = saved(tmp_path, call(entry(0, "id_1", "look_up", '{"city": "Łódź"}')), fin("tool_calls"), DONE)
    assert run(tmp_path, "replay", str(file)).stdout == 'tool call: look_up {"city": "Łódź"} id_1\n'


# --- On a terminal ---------------------------------------------------------------------------------------------------


posix = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")


@pytest.mark.slow
@posix
def test_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """A model can't write the clipboard, the title or the screen: control characters are shown as escapes."""
    hostile = "\x1b]52;c;ZXZpbA==\x1b\\ \x1b]0;pwned\x07 \x9b2J \u202e"
    name = call(entry(0, "i\x1b[2J", "f\x1b[2J", '{"a": "\x9b2J"}'))
    file = saved(
        tmp_path, chunk({"reasoning_content": hostile}), text(hostile), name, event({"error": {"message": hostile}})
    )
    shown = on_terminal(tmp_path, "replay", str(file), TERM="xterm-256color")
    for escape in (b"\x1b]", b"\x1b[2J", b"\x1b\\", b"\x07", "\x9b".encode(), "\u202e".encode()):
        assert escape not in shown
    assert b"\\x1b]52;c;ZXZpbA==\\x1b\\" in shown


@pytest.mark.slow
@posix
@pytest.mark.parametrize("columns", scale.pick([40, 50, 80], [40]))
def test_providers_are_readable_in_a_narrow_window(tmp_path: Path, columns: int) -> None:
    """No name is cut: what does not fit beside each other stands below each other."""
    for words, names in (
        (["providers"], ["openai-responses", "https://api.moonshot.ai/v1"]),
        (["providers", "kimi"], ["kimi-k2-0905-preview", "structured_output"]),
    ):
        shown = on_terminal(tmp_path, *words, columns=columns, NO_COLOR="1").decode()
        assert "…" not in shown
        for name in names:
            assert name in shown


@given(st.text())
def test_what_is_shown_steers_nothing(shown: str) -> None:
    """Only line ends and tabs are left of the control characters, and everything else stays as it is."""
    made = escape_control_characters(shown)
    assert not {ord(char) for char in made} & {*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x202E}
    assert made == shown or len(made) > len(shown)


# --- JSON lines ------------------------------------------------------------------------------------------------------


def lines(done: Done) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_has_id_model_and_warnings(tmp_path: Path) -> None:
    """The line of the finished chunk also says which answer it was, and what was wrong with it."""
    head = event({"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]})
    first, last = lines(run(tmp_path, "replay", str(saved(tmp_path, head, DONE)), "--json"))
    assert first == {"delta": "Hi", "finished": False}
    assert (last["id"], last["model"], last["finished"], last["finish_reason"]) == ("c1", "m-1", True, "unknown")
    assert [warning["code"] for warning in last["warnings"]] == ["missing_finish_reason"]
    assert all(warning["detail"] for warning in last["warnings"])


def test_json_has_the_error(tmp_path: Path) -> None:
    """An error is a line too, after the chunks before it; the message on standard error and the exit code stay."""
    done = run(tmp_path, "replay", str(saved(tmp_path, text("Hi"))), "--json")
    assert done.returncode == 1
    first, last = lines(done)
    assert first == {"delta": "Hi", "finished": False}
    assert (last["delta"], last["finished"], last["error"]["type"]) == ("", False, "IncompleteStreamError")
    assert last["error"]["retryable"] is True
    assert done.stderr.splitlines()[0] == f"error: {last['error']['message']}"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["chat", "Hi", "-p", "kimmi", "--json"], "ConfigError"),
        (["providers", "kimmi", "--json"], "ConfigError"),
        (["config", "show", "kimmi", "--json"], "ConfigError"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_mistakes_are_lines_of_json_too(tmp_path: Path, words: list[str], kind: str) -> None:
    """A program that reads the lines of any command finds out why there are no others."""
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert lines(done)[-1]["error"]["type"] == kind
    assert done.stderr.startswith("error: ")


# --- The command itself ----------------------------------------------------------------------------------------------


def test_importing_the_module_runs_nothing() -> None:
    """Tools that import every module, such as Sphinx, don't start the command."""
    done = subprocess.run([sys.executable, "-c", "import streamfold.__main__"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("columns", scale.pick(["30", "80"], ["30"]))
def test_help_is_plain(tmp_path: Path, columns: str) -> None:
    """In a narrow window and in any encoding, with every command and option by its whole name."""
    done = run(tmp_path, "--help", COLUMNS=columns, PYTHONIOENCODING="ascii")
    commands = ["demo", "chat", "providers", "record", "replay", "serve-replay", "serve"]
    assert [name for name in commands if f"\n  {name} " not in done.stdout] == []
    for command in scale.pick(commands, ["chat"]):
        told = run(tmp_path, command, "--help", COLUMNS=columns, PYTHONIOENCODING="ascii").stdout
        assert "--help" in told
        assert told.isascii()
    assert "--max-output-tokens" in run(tmp_path, "chat", "--help", COLUMNS=columns).stdout


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """What can't be written ends the command with a reason, not with a traceback."""
    file = saved(tmp_path, text("Hi"), fin("stop"), DONE)
    with Path("/dev/full").open("wb") as full:
        words, env = [*COMMAND, "replay", str(file)], environment(tmp_path)
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=env, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr
