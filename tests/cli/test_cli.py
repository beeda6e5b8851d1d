"""The command line: what the commands print, and how they end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import streamfold
from commands import COMMAND, Done, environment, run_beside, start
from commands import run as run_in
from folding import DONE, call, entry, fin, text
from servers import END, STREAM, Connection, framed, sends, serving
from streamfold.config.catalogue import provider_files
from tables import each_row

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG\r\n\x1a\n"
CALL = call(entry(0, "a", "get_weather", "{}"))
# Whoever is started in the background ignores SIGINT, and so do the processes that it starts.
INTERRUPTIBLE = [
    *(sys.executable, "-c"),
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import streamfold.cli as cli; cli.main()",
]


def run(*words: str, **variables: str) -> Done:
    return run_in(ROOT, *words, STREAMFOLD_CONFIG=os.devnull, **variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "demo --speed 5000",
        "replay fixtures/demo/reasoning_text.sse",
        "providers",
        "config path",
        "--version",
    ],
)
def test_each_command_starts(words: str) -> None:
    """In a process of its own, whose standard output can't carry every character."""
    done = start(ROOT, *shlex.split(words), PYTHONIOENCODING="ascii:strict")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


def test_demo_streams_text_and_shows_whole_calls() -> None:
    """The demo needs no key and no network, and ends with the calls."""
    done = run("demo", "--speed", "2000")
    assert done.returncode == 0, done.stderr
    assert "So fragments are only collected" in done.stdout
    assert done.stdout.rindex("functions.search_flights:2") > done.stdout.rindex("at the same time")
    assert '{"city": "Lisbon", "unit": "celsius"}' in done.stdout
    assert done.stdout.count("finished: ") == 2


def test_demo_as_json_lines() -> None:
    """With --json each chunk is one line; the deltas add up, and only the two last ones are finished."""
    done = run("demo", "--json", "--speed", "2000")
    chunks = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(chunk["finished"] for chunk in chunks) == 2
    assert [call["name"] for call in chunks[-1]["tool_calls"]] == ["get_weather", "get_weather", "search_flights"]
    assert "".join(chunk["delta"] for chunk in chunks).endswith("✈️")


def test_replay_folds_a_file() -> None:
    """`replay` shows what a recording folds to."""
    done = run("replay", "fixtures/kimi/parallel_calls.sse")
    assert done.returncode == 0, done.stderr
    assert "functions.get_time:1" in done.stdout
    assert "finished: tool_calls" in done.stderr


def test_replay_of_a_broken_recording_fails() -> None:
    """A recording that was cut off is an error on standard error and in the exit code."""
    done = run("replay", "fixtures/aimock/truncate_tool.sse")
    assert done.returncode == 1
    assert "broke off before the response was complete" in done.stderr
    assert "save_note" not in done.stdout


def test_version() -> None:
    """The version is the package's own."""
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"streamfold {streamfold.__version__}\n")


@each_row(
    ("words", "message"),
    [
        (
            ["replay", "fixtures/demo/reasoning_text.sse", "--adapter", "chatt"],
            "unknown adapter 'chatt' (did you mean 'chat'?)",
        ),
        (["chat", "Hello", "-p", "kimi:kimi-k2.6"], 'no API key for "kimi": set MOONSHOT_API_KEY'),
        (["chat", "Hello", "-p", "kimmi"], "unknown provider 'kimmi' (did you mean 'kimi'?)"),
        (["chat", "Hello", "-p", "http://127.0.0.1:1/v1"], "A URL goes into base_url"),
        (["replay", "tests/nothing"], "there is no recording"),
        (["replay", "n" * 300], "nnn.sse: "),
        (
            ["serve-replay", "demo/reasoning_text", "--fault", "reset(after_event=1)"],
            "unknown option 'after_event' (did you mean 'after_events'?); reset takes ",
        ),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    """A mistake is one line on standard error and exit code 2, never a traceback."""
    done = run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_providers_lists_the_catalogue() -> None:
    """Every provider is listed with its keys; the value of a key is never shown."""
    done = run("providers", MOONSHOT_API_KEY="sk-canary")
    assert all(name in done.stdout for name in provider_files())
    assert "set (MOONSHOT_API_KEY)" in done.stdout
    assert "canary" not in done.stdout
    rows = [json.loads(line) for line in run("providers", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == list(provider_files())
    known = {row["name"]: row for row in rows}
    assert [known[name]["evidence"] for name in ("llamacpp", "openai", "github-copilot")] == [
        "recorded",
        "documented",
        "reported",
    ]
    assert known["deepseek"]["can"] == ["tools", "no structured output"]
    assert known["perplexity"]["can"][-3:] == ["runs code execution", "runs mcp", "says its cost"]
    assert known["bedrock"]["auth"] == "sigv4"
    assert "reported" in done.stdout


async def _chat(script, *words: str, stdin: bytes = b"") -> tuple[Done, list[bytes]]:
    async with serving(script) as server:
        arguments = ["chat", *words, "-p", "vllm:any", "--base-url", server.base_url]
        done = await run_beside(ROOT, *arguments, stdin=stdin, STREAMFOLD_CONFIG=os.devnull)
        return done, server.requests


async def test_chat_sends_what_was_said(tmp_path: Path) -> None:
    """System prompt, tools and tool choice reach the server; the answer reaches standard output alone."""
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools), "utf-8")

    done, (request,) = await _chat(
        sends(STREAM, framed(text("Let me see."), call(entry(0, "a", "get_weather", "{}")), fin("stop"), DONE), END),
        "Weather?",
        "--system",
        "Be brief.",
        "--tool-file",
        str(tmp_path / "tools.json"),
        "--tool-choice",
        "get_weather",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Let me see.\n")
    assert "get_weather" in done.stdout
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert body["model"] == "any"


async def test_chat_sends_its_options(tmp_path: Path) -> None:
    """Model, temperature, limit and images of the command line are in the request."""
    (tmp_path / "dot.png").write_bytes(PNG)

    script = sends(STREAM, framed(text("A dot."), fin("stop"), DONE), END)
    words = ["--model", "other", "--temperature", "0.5", "--max-output-tokens", "7"]
    images = ["--image", str(tmp_path / "dot.png"), "--image", "https://x.test/a.png"]
    done, (request,) = await _chat(script, "Weather?", *words, *images)
    assert (done.returncode, done.stdout) == (0, "A dot.\n"), done.stderr
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    assert (body["model"], body["temperature"]) == ("other", 0.5)
    assert 7 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    question, *sent = body["messages"][-1]["content"]
    assert question == {"type": "text", "text": "Weather?"}
    assert [part["image_url"]["url"].partition(",")[0] for part in sent] == [
        "data:image/png;base64", "https://x.test/a.png",
    ]  # fmt: skip


@each_row(
    ("words", "stdin", "message"),
    [
        (["chat", ""], b"", "no question: the text is empty"),
        (["chat", " \n"], b"", "no question: the text is empty"),
        (["chat", "-"], b"", "no question: standard input is empty"),
        (["chat"], b"", "no question: standard input is empty"),
        (["record", "x", "-"], b"\n", "no question: standard input is empty"),
        (["chat", "-"], b"\xff\xfe", "standard input is not UTF-8"),
        (["chat", "Hi", "--image", "nowhere.png"], b"", "nowhere.png"),
    ],
)
def test_there_must_be_a_question(words: list[str], stdin: bytes, message: str) -> None:
    """An empty text or an empty file asks nobody."""
    provider = ["-p", "vllm:any", "--base-url", "http://127.0.0.1:9/v1"]
    done = run_in(ROOT, *words, *provider, stdin=stdin, STREAMFOLD_CONFIG=os.devnull)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


async def test_a_question_may_be_piped_in() -> None:
    """Without an argument, standard input is the question; a byte order mark is no part of it."""
    script = sends(STREAM, framed(text("Yes."), fin("stop"), DONE), END)
    done, (request,) = await _chat(script, stdin="\ufeffWhy?\r\n".encode())
    assert (done.returncode, done.stdout) == (0, "Yes.\n"), done.stderr
    assert json.loads(request.partition(b"\r\n\r\n")[2])["messages"][-1]["content"] == "Why?\r\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
async def test_ctrl_c_ends_cleanly() -> None:
    """Ctrl-C closes the connection, says so, and leaves no traceback."""
    closed = anyio.Event()

    async def script(peer: Connection) -> None:
        try:
            await peer.request()
            await peer.send(STREAM, framed(text("one")))
            await peer.gone()
        finally:
            closed.set()

    async with serving(script) as server:
        words = ["chat", "Hello", "-p", "vllm:any", "--base-url", server.base_url]
        with anyio.fail_after(30):
            async with await anyio.open_process([*INTERRUPTIBLE, *words], env=environment(ROOT)) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                assert await process.stdout.receive() == b"one"
                process.send_signal(signal.SIGINT)
                errors = b"".join([piece async for piece in process.stderr])
                assert await process.wait() == 130
            assert errors.strip() == b"interrupted"
            await closed.wait()


@pytest.mark.slow
def test_reader_that_leaves_is_no_error() -> None:
    """`streamfold ... | head` ends quietly."""
    words = ["bash", "-c", f"{shlex.join(COMMAND)} demo --json --speed 5000 | head -n 1"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environment(ROOT), timeout=60)
    assert json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
