"""Recording and replaying on the command line."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

from commands import environment, run_beside, start
from commands import run as run_in
from folding import DONE, fin, text
from streamfold import ConfigError
from streamfold.faults import Fault, drop, read_fault, reset, stall, status
from streamfold.recording import Recording
from streamfold.testing.replay_server import serve_replay
from tables import each_row

pytestmark = pytest.mark.one_loop  # One is enough here: the command has an event loop of its own


ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-0123456789abcdef"
HELLO = Recording("case/hello", text("Hel") + text(f"lo {KEY}") + fin("stop") + DONE)


async def run(folder: Path, *words: str) -> tuple[int, str, str]:
    done = await run_beside(folder, *words, ACME_KEY=KEY, STREAMFOLD_CONFIG="streamfold.toml")
    return done.returncode, done.stdout, done.stderr


def configure(folder: Path, base_url: str) -> None:
    config = f'[providers.acme]\nbase_url = "{base_url}"\nmodel = "m"\napi_key_env = "ACME_KEY"\n'
    folder.joinpath("streamfold.toml").write_text(config, "utf-8")


async def test_record_and_replay(tmp_path: Path) -> None:
    """`record` streams and keeps the answer without the key; `replay` shows it again."""
    async with serve_replay([HELLO] * 2) as base_url:
        configure(tmp_path, base_url)
        code, out, err = await run(tmp_path, "record", "acme/hello", "Say it.", "-p", "acme", "--system", "Be brief.")
    assert (code, out.strip()) == (0, f"Hello {KEY}")
    assert f"recorded: {Path('fixtures/acme/hello')}.sse" in err
    recording = Recording.load(tmp_path / "fixtures/acme/hello")
    assert (recording.expect["text"], recording.complete, recording.adapter) == ("Hello ***", True, "chat")
    assert recording.sent is not None
    assert [message["content"] for message in json.loads(recording.sent.body)["messages"]] == ["Be brief.", "Say it."]
    assert b"canary" not in b"".join(file.read_bytes() for file in tmp_path.joinpath("fixtures/acme").iterdir())
    again = await run(tmp_path, "replay", "fixtures/acme/hello.sse", "--speed", "500", "--cuts", "bytes:9")
    assert again[:2] == (0, "Hello ***\n")


@pytest.mark.slow
async def test_the_commands_in_processes_of_their_own(tmp_path: Path) -> None:
    """`record` and `chat` end as they do here."""
    async with serve_replay([HELLO] * 2) as base_url:
        configure(tmp_path, base_url)
        for words in (["record", "hello"], ["chat"]):
            named = {"ACME_KEY": KEY, "STREAMFOLD_CONFIG": "streamfold.toml"}
            command = partial(start, tmp_path, *words, "Say it.", "-p", "acme", **named)
            done = await anyio.to_thread.run_sync(command)
            assert (done.returncode, done.stdout) == (0, f"Hello {KEY}\n"), done.stderr
    assert Recording.load(tmp_path / "fixtures/hello").complete


async def test_a_failure_takes_no_recording_s_place(tmp_path: Path) -> None:
    """`record` asks once. What fails is kept where nothing was, and says so; a good answer takes its place."""
    told = []
    async with serve_replay([HELLO], faults=[reset(after_events=1, times=1)]) as base_url:
        configure(tmp_path, base_url)
        for _ in range(3):
            code, _, err = await run(tmp_path, "record", "hello", "Say it.", "-p", "acme")
            told.append((code, err.splitlines()[0]))
            kept = Recording.load(tmp_path / "fixtures/hello")
            assert (kept.complete, kept.status) == (len(told) > 1, 200)
    code, _, err = await run(tmp_path, "record", "hello", "Say it.", "-p", "acme")  # nobody is there any more
    told.append((code, err.splitlines()[0]))
    file = Path("fixtures/hello.sse")
    assert told[0][1].startswith(f"recorded: {file} (the response hello is not complete (ReadError")
    assert told[1:] == [
        (0, "finished: stop"),
        (1, f"not recorded: the response hello has the status 404; {file} is unchanged"),
        (1, f"not recorded: there was no response, or it is still open; {file} is unchanged"),
    ]
    assert sorted(file.name for file in tmp_path.joinpath("fixtures").iterdir()) == ["hello.sse", "hello.toml"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
async def test_serve_replay(tmp_path: Path) -> None:
    """It answers whoever asks, with the faults that were named, until Ctrl-C."""
    HELLO.save(tmp_path / "hello")
    interruptible = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = f"{interruptible}import streamfold.cli as cli; cli.main()"
    command = [sys.executable, "-c", program, "serve-replay", str(tmp_path), "--match", "any"]
    with anyio.fail_after(60):
        faults = ["--fault", "status(503, times=1)", "--fault", "drop(2)"]
        async with await anyio.open_process([*command, *faults], env=environment(tmp_path)) as process:
            assert process.stdout is not None
            told = (await process.stdout.receive()).decode()
            base_url = told.split()[0]
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                answers = [await client.post(f"{base_url}/chat/completions", json={}) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
    assert told == f"{base_url} answers with {tmp_path.name}/hello\n"
    assert [answer.status_code for answer in answers] == [503, 200]
    assert answers[1].content == text("Hel") + fin("stop") + DONE


@each_row(
    ("words", "message"),
    [
        (["serve-replay", "fixtures/demo", "--fault", "rest()"], "unknown fault 'rest' (did you mean 'reset'?)"),
        (
            ["serve-replay", "fixtures/demo", "--speed", "fast"],
            "--speed: 'fast' is not instant, recorded or",
        ),
        (["serve-replay", "fixtures/demo", "--match", "all"], "unknown match 'all'"),
        (["replay", "fixtures/demo/parallel_calls.sse", "--cuts", "x"], "cuts must be "),
        (["record", "../x", "Hello", "-p", "ollama:x"], "a recording can't be called '../x'"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    """A mistake is one line on standard error and exit code 2."""
    done = run_in(ROOT, *words, STREAMFOLD_CONFIG=os.devnull)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@each_row(
    ("written", "fault"),
    [
        ("reset", reset()),
        (" reset(after_events=3) ", reset(after_events=3)),
        ("stall(2.5, times=1)", stall(2.5, times=1)),
        ("drop([1, 2])", drop([1, 2])),
        ("status(429, retry_after=1, message='no')", status(429, retry_after=1, message="no")),
    ],
)
def test_faults_as_text(written: str, fault: Fault) -> None:
    """A fault is written as in Python."""
    assert read_fault(written) == fault == read_fault(repr(fault))


@each_row(
    ("written", "says"),
    [
        ("", "a fault must look like"),
        ("reset(", "a fault must look like"),
        ("reset(after_events=len('x'))", "a fault must look like"),
        ("__import__('os').getcwd()", "a fault must look like"),
        ("1 + 1", "a fault must look like"),
        ("Fault()", "unknown fault 'Fault'"),
        ("print('x')", "unknown fault 'print'. Allowed: corrupt, cut_after"),
        ("reset(after=1)", "unknown option 'after'"),
        ("status()", "missing 1 required positional argument: 'code'"),
        ("reset(after_events=-1)", "reset: after_events: must not be less than 0"),
        ("stall('x')", "stall: seconds: must be a number"),
        ("garbage(5)", "garbage: data: must be a string"),
        ("keepalive(comment=5)", "keepalive: comment: must be a string"),
        ("drop('x')", "drop: events are whole numbers from 1, not 'x'"),
        ("reset(**{'times': 1})", "a fault must look like"),
    ],
)
def test_what_is_no_fault(written: str, says: str) -> None:
    """Nothing is run, and the message says what is allowed."""
    with pytest.raises(ConfigError, match=says):
        read_fault(written)
