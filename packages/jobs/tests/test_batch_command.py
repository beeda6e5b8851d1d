"""`streamfold batch`, also in processes that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest

import scale
from commands import COMMAND, Done, environment, run_beside
from folding import DONE, event, fin, text
from servers import END, STREAM, Connection, answer, framed, serving
from streamfold import Cost, Usage
from streamfold_jobs import JobSummary, cli
from streamfold_jobs.cli import SpeedMeter

pytestmark = pytest.mark.one_loop  # The command has an event loop of its own: one for the server that it asks is enough


class Upstream:
    """A provider that answers a prompt with itself, counts what it is asked, and fails now and then."""

    def __init__(self, faults: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self.streams: set[bool] = set()
        self.answered: Counter[str] = Counter()
        self.rng = random.Random(7)
        self.faults = faults
        self.key: bytes | None = None
        self.held: anyio.Event | None = None  # answers wait for it

    async def __call__(self, peer: Connection) -> None:
        while True:
            body = json.loads(await peer.request())
            prompt = body["messages"][-1]["content"]
            self.streams.add(body["stream"])
            if self.key is not None and self.key not in peer.server.requests[-1]:
                await peer.send(answer("401 Unauthorized", b'{"error": {"message": "Incorrect API key"}}'))
                continue
            self.asked[prompt] += 1
            if self.rng.random() < self.faults:
                status = self.rng.choice(["500 Oops", "429 Too Many Requests"])
                await peer.send(answer(status, b"{}", "Retry-After: 0.01"))
                continue
            self.answered[prompt] += 1
            if self.held is not None:
                await self.held.wait()
            usage = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}})
            await peer.send(STREAM, framed(text(f"{prompt}!"), fin("stop"), usage, DONE), END)


def prepared(folder: Path, count: int, base_url: str, **more: Any) -> list[str]:
    lines = [json.dumps({"id": f"r{number}", "prompt": f"p{number}"}) for number in range(count)]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    table = {"base_url": base_url, "model": "m", **more}
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in table.items())
    (folder / "streamfold.toml").write_text(f"[providers.main]\n{settings}\n[providers.two]\n{settings}\n", "utf-8")
    return ["rows.jsonl", "-o", "out.jsonl", "-p", "main"]


async def ran(words: list[str], folder: Path) -> Done:
    return await run_beside(folder, "batch", *words)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.slow
async def test_rows_become_answers(tmp_path: Path) -> None:
    """In their order, with a summary; a second start asks nothing, in whatever form."""
    upstream = Upstream()
    async with serving(upstream) as server:
        words = [*prepared(tmp_path, 30, server.base_url), "--no-stream"]
        for _ in range(2):
            done = await ran(words, tmp_path)
            assert (done.returncode, done.stdout) == (0, "30 answers, 0 errors, 30 rows; 300 + 60 tokens\n"), (
                done.stderr
            )
    assert [(line["id"], line["text"]) for line in lines(tmp_path)] == [(f"r{at}", f"p{at}!") for at in range(30)]
    assert set(upstream.asked.values()) == {1}
    assert upstream.streams == {False}
    status = await ran(["status", "out.jsonl.ledger"], tmp_path)
    assert status.stdout.startswith("30 answers, 0 errors, 0 in flight, 30 rows\n")


@pytest.mark.slow
async def test_one_row(tmp_path: Path) -> None:
    """One answer is one answer, and numbers in the JSON of `status` are numbers."""
    async with serving(Upstream()) as server:
        done = await ran(prepared(tmp_path, 1, server.base_url), tmp_path)
    assert done.stdout == "1 answer, 0 errors, 1 row; 10 + 2 tokens\n"
    found = json.loads((await ran(["status", "out.jsonl.ledger", "--json"], tmp_path)).stdout)
    assert {name: found[name] for name in ("count", "done", "error", "run_tools")} == {
        "count": 1, "done": 1, "error": 0, "run_tools": False,
    }  # fmt: skip


async def test_two_providers(tmp_path: Path) -> None:
    """A job has one provider: none of several is left out in silence."""
    words = prepared(tmp_path, 1, "http://127.0.0.1:9/v1")
    done = await ran([*words, "-p", "two"], tmp_path)
    assert done.returncode == 2
    assert "-p: this command accepts only one provider, not 2: main, two" in done.stderr


@pytest.mark.parametrize(("keys", "library"), [({}, "aiohttp"), ({"http2": True}, "httpx: http2 = true")])
async def test_which_library_sends(keys: dict[str, Any], library: str, tmp_path: Path) -> None:
    """The command says it on standard error, once; not where `transport` has chosen it."""
    if "http2" in keys:
        pytest.importorskip("h2")
    async with serving(Upstream()) as server:
        done = await ran([*prepared(tmp_path, 2, server.base_url, **keys), "--json"], tmp_path)
        assert done.stderr == f"main: requests are sent with {library}\n"
        chosen = await ran([*prepared(tmp_path, 2, server.base_url, transport="httpx"), "--ledger", "other"], tmp_path)
        assert "requests are sent" not in chosen.stderr


async def test_a_key_that_is_refused(tmp_path: Path) -> None:
    """The job pauses with an exit code of its own, and goes on with the right key."""
    upstream = Upstream()
    upstream.key = b"sk-right"
    async with serving(upstream) as server:
        paused = await ran(prepared(tmp_path, 5, server.base_url, api_key="sk-wrong"), tmp_path)
        assert paused.returncode == 3
        assert "Incorrect API key" in paused.stderr
        assert "Start the same command again to continue." in paused.stderr
        assert not (tmp_path / "out.jsonl").exists()
        done = await ran(prepared(tmp_path, 5, server.base_url, api_key="sk-right"), tmp_path)
    assert (done.returncode, len(lines(tmp_path))) == (0, 5), done.stderr


async def test_answers_must_fit_a_schema(tmp_path: Path) -> None:
    """Those that don't are errors, and the exit code says so."""
    pytest.importorskip("jsonschema")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    async with serving(Upstream()) as server:
        done = await ran([*prepared(tmp_path, 1, server.base_url), "--schema", "schema.json"], tmp_path)
    assert done.returncode == 1, done.stderr
    assert lines(tmp_path)[0]["error"]["message"].startswith("the answer is not JSON")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["rows.jsonl", "-o", "out.csv"], "answers are written to .jsonl"),
        (["nowhere.jsonl", "-o", "out.jsonl"], "nowhere.jsonl: No such file"),
        (["rows.jsonl", "-o", "out.jsonl", "--shard", "3"], "--shard must look like 3/16"),
        (["status", "nothing.ledger"], "this ledger doesn't exist"),
    ],
)
async def test_mistakes_in_the_command(tmp_path: Path, words: list[str], problem: str) -> None:
    """They end it with 2 before anything is asked."""
    prepared(tmp_path, 1, "http://127.0.0.1:9/v1")
    done = await ran([*words, *(["-p", "main"] if words[0] != "status" else [])], tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr


async def test_rows_from_standard_input(tmp_path: Path) -> None:
    """They are rows like others; the same ones go on with the same job."""
    async with serving(Upstream()) as server:
        words = ["-", *prepared(tmp_path, 3, server.base_url)[1:], "--json"]
        given = (tmp_path / "rows.jsonl").read_bytes()
        for recorded in (0, 3):
            done = await run_beside(tmp_path, "batch", *words, stdin=given)
            assert done.returncode == 0, done.stderr
            job = json.loads(done.stdout)
            assert (job["provider"], job["done"], job["recorded"]) == ("main", 3, recorded)
        done = await run_beside(tmp_path, "batch", *words, stdin=given + b'\n{"prompt": "more"}\n')
    assert "belongs to another job: rows was" in done.stderr


async def test_functions_that_are_run(tmp_path: Path) -> None:
    """They are named as Python names them; what has changed in them is another job."""
    (tmp_path / "own_tools.py").write_text('def now() -> str:\n    """The time."""\n    return "noon"\n')
    upstream = Upstream()
    async with serving(upstream) as server:
        words = prepared(tmp_path, 1, server.base_url)
        done = await ran([*words, "--tools", "own_tools.py:now", "--run-tools"], tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(server.requests[0].partition(b"\r\n\r\n")[2])["tools"][0]["function"]["name"] == "now"
        done = await ran([*words, "--tools", "own_tools.py"], tmp_path)
        assert "run_tools was true and is false" in done.stderr
        done = await ran(words, tmp_path)
        assert "tools was now (" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tools", "own.py:later"], "own.py has no 'later' (did you mean 'late'?)"),
        (["--tools", "broken.py"], "--tools: broken.py: ZeroDivisionError: division by zero"),
        (["--tools", "empty.py"], "--tools: empty.py defines no functions"),
        (["--tools", "nowhere.py"], "nowhere.py: No such file"),
        (["--tools", "no_such_module:x"], "No module named 'no_such_module'"),
        (["--tools", "tools.json", "--run-tools"], "--run-tools: tools.json describes tools, but has no functions"),
        (["--tools", "object.json"], "object.json: must be a list of tools, not dict"),
        (["--run-tools"], "--run-tools needs functions: name them with --tools"),
        (["--ledger", "rows.jsonl"], "rows.jsonl: the rows and the ledger must be different files"),
        (["--output", "rows.jsonl"], "rows.jsonl: the rows and the output must be different files"),
    ],
)
async def test_tools_and_files_that_can_not_be(tmp_path: Path, words: list[str], problem: str) -> None:
    """They are said before anything is asked."""
    for name, text_of in {
        "own.py": "def late() -> str:\n    return ''\n",
        "broken.py": "1 / 0\n",
        "empty.py": "from json import loads\n_hidden = loads\n",
        "tools.json": "[]",
        "object.json": "{}",
    }.items():
        (tmp_path / name).write_text(text_of)
    done = await ran([*prepared(tmp_path, 1, "http://127.0.0.1:9/v1"), *words], tmp_path)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


async def test_what_a_job_has_so_far(tmp_path: Path) -> None:
    """It is exported with the number of rows that there are; shards that are put together must have all."""
    async with serving(Upstream()) as server:
        for shard in ("1/2", "0/2"):
            words = [*prepared(tmp_path, 5, server.base_url), "--shard", shard, "--ledger", f"{shard[0]}.ledger"]
            assert (await ran(words, tmp_path)).returncode == 0
    for verb, ledgers, code, said in (
        ("export", ["1.ledger"], 0, "all.jsonl: 2 of 5 rows\n"),
        ("merge", ["1.ledger"], 2, ""),
        ("merge", ["1.ledger", "0.ledger"], 0, "all.jsonl: 5 rows\n"),
    ):
        done = await ran([verb, *ledgers, "-o", "all.jsonl"], tmp_path)
        assert (done.returncode, done.stdout) == (code, said), done.stderr


def test_the_progress_of_a_job() -> None:
    """Its speed is that of the last seconds, not of what earlier runs have done."""
    summary = JobSummary(1000, done=400, usage=Usage(4000, 0))
    job, meter = SimpleNamespace(summary=summary, status_text=""), SpeedMeter()
    assert meter.said(0.0, job) == "0.0 rows/s, 0 errors, 0 tokens/s"  # type: ignore[arg-type]
    for second in range(1, 101):
        summary.done += 5
        summary.usage += Usage(20, 30)
        summary.errors = 1
        summary.costs = {"USD": Cost(Decimal("0.01234"), "USD")}
        said = meter.said(float(second), job)  # type: ignore[arg-type]
        if second == 10:
            assert said == "5.1 rows/s, 0:01:48 left, 1 error, 0.0123 USD, 50 tokens/s"
    assert said == "5.0 rows/s, 0:00:20 left, 1 error, 0.0123 USD, 50 tokens/s"
    assert meter.said(100.0, job, room=40) == "5.0 rows/s, 0:00:20 left, 1 error"  # type: ignore[arg-type]


async def test_a_line_of_progress_is_of_one_moment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no terminal: its speed, time left and costs belong to the rows that it counts."""
    summary, seconds = JobSummary(2000), 0.0

    async def wait(pause: float) -> None:
        nonlocal seconds
        if summary.done == 600:
            raise InterruptedError
        seconds += pause
        summary.done += 300
        summary.usage += Usage(600, 300)
        summary.add_cost(Cost(Decimal("0.5"), "USD"))

    monkeypatch.setattr(cli, "monotonic", lambda: seconds)
    monkeypatch.setattr(cli, "anyio", SimpleNamespace(sleep=wait))
    with pytest.raises(InterruptedError):
        await cli.show_progress("main", SimpleNamespace(summary=summary, status_text=""))  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        "main: 300 of 2,000 rows, 10 rows/s, 0:02:50 left, 0 errors, 0.5000 USD, 30 tokens/s",
        "main: 600 of 2,000 rows, 10 rows/s, 0:02:20 left, 0 errors, 1.0000 USD, 30 tokens/s",
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="processes get no signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_job_that_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    """Rows under way get their answers, nothing more is asked, and the user hears how to go on."""
    upstream = Upstream()
    async with serving(upstream) as server:
        upstream.held = anyio.Event()
        words = [*prepared(tmp_path, 50, server.base_url), "--concurrency", "5"]
        with subprocess.Popen(
            [*COMMAND, "batch", *words], cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            while len(upstream.answered) < 5:
                await anyio.sleep(0.01)
            process.send_signal(number)
            said = b""
            while b"rows in flight" not in said:
                line = await anyio.to_thread.run_sync(process.stderr.readline)
                assert line, said  # the command has ended without the message
                said += line
            upstream.held.set()
            assert await anyio.to_thread.run_sync(process.wait) == 130
            assert process.stderr.read().decode().splitlines()[-1] == "Start the same command again to continue."
        assert (await ran(words, tmp_path)).returncode == 0
    assert upstream.answered == Counter({f"p{at}": 1 for at in range(50)})


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_a_job_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Each row comes out once and in order; asked twice is only what was marked as sent at a kill."""
    rows, kills, concurrency = scale.pick(5000, 200), scale.pick(8, 2), 20
    upstream, rng = Upstream(faults=0.05), random.Random(3)
    sent: set[str] = set()
    async with serving(upstream) as server:
        words = [*prepared(tmp_path, rows, server.base_url), "--concurrency", str(concurrency)]
        for _ in range(kills):
            wanted = sum(upstream.asked.values()) + rng.randrange(1, max(2, rows // (kills + 2)))
            with subprocess.Popen(
                [*COMMAND, "batch", *words],
                cwd=tmp_path,
                env=environment(tmp_path),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as process:
                while sum(upstream.asked.values()) < wanted and process.poll() is None:
                    await anyio.sleep(0.005)
                process.send_signal(signal.SIGKILL)
                assert await anyio.to_thread.run_sync(process.wait) == -signal.SIGKILL
            with closing(sqlite3.connect(tmp_path / "out.jsonl.ledger")) as ledger:
                sent |= {f"p{number}" for (number,) in ledger.execute("SELECT n FROM row WHERE state = 'sent'")}
        done = await ran(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(line["id"], line["text"]) for line in lines(tmp_path)] == [(f"r{at}", f"p{at}!") for at in range(rows)]
    assert {prompt for prompt, times in upstream.answered.items() if times > 1} <= sent
    assert sum(upstream.answered.values()) - rows <= kills * concurrency
