"""`streamfold batch --via provider-batch`, also in processes that are killed between any two calls."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batch_servers import ANSWER, KEY, BatchServer, FilesServer, GeminiServer, MessagesServer
from commands import environment, run
from streamfold_jobs.provider_batches import runner

# The command, with shorter waits: nothing is on its way for long on loopback.
QUICK = """
from streamfold_jobs.provider_batches import runner, submit
runner._FIRST_POLL = 0.01
submit._UNDER_WAY = submit._SEARCH = 0.1
from streamfold.cli import main
main()
"""
WORDS = ["batch", "rows.jsonl", "-o", "out.jsonl", "-p", "main", "--via", "provider-batch"]


def prepared(folder: Path, url: str, rows: int = 3, most: int = 1000, **more: Any) -> None:
    lines = [json.dumps({"id": f"r{number}", "prompt": f"p{number}"}) for number in range(rows)]
    (folder / "rows.jsonl").write_text("\n".join(lines), "utf-8")
    table = {"base_url": url, "model": "m", "api_key": KEY, **more}
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
    text = f"[providers.main]\n{settings}batches = {{rows = {most}}}\n"
    (folder / "streamfold.toml").write_text(text, "utf-8")


def started(folder: Path) -> subprocess.Popen[bytes]:
    env = environment(folder, STREAMFOLD_CONFIG=str(folder / "streamfold.toml"))
    command = [sys.executable, "-c", QUICK, *WORDS]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def texts(folder: Path) -> list[str]:
    return [json.loads(line)["text"] for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]


# Servers, adapters, and how many calls a job makes.
APIS = [
    (FilesServer, "chat", "/v1", 5),
    (FilesServer, "kimi", "/v1", 5),
    (MessagesServer, "anthropic", "/v1", 4),
    (GeminiServer, "gemini", "/v1beta", 4),
]
EXPECTED = [ANSWER.format(f"p{number}") for number in range(3)]


def test_a_job_by_batches_of_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--no-wait` hands the rows over, `status` tells of the batch, and the same command fetches the answers."""
    monkeypatch.setattr(runner, "_FIRST_POLL", 0.01)
    status = ["batch", "status", "out.jsonl.ledger"]
    with FilesServer(looks=1).serving() as url:
        prepared(tmp_path, f"{url}/v1")
        handed = run(tmp_path, *WORDS, "--no-wait")
        assert handed.returncode == 3
        assert "1 batch at the provider, 0 of 3 requests done (batch_0)" in handed.stderr
        assert "Start the same command again to continue." in handed.stderr
        assert "batch batch_0: created, 0 of 3 requests done" in run(tmp_path, *status).stdout
        done = run(tmp_path, *WORDS)
        assert done.returncode == 0, done.stderr
        assert texts(tmp_path) == EXPECTED
        assert "batch_0: done, 3 of 3" in run(tmp_path, *status).stdout


def killed(server: BatchServer, side: str, at: int, folder: Path, adapter: str, version: str) -> None:
    """Kills a job at one of its calls, and starts it again."""
    processes: list[subprocess.Popen[bytes]] = []

    def kill(number: int) -> None:
        if number == at:
            os.kill(processes[0].pid, signal.SIGKILL)
            processes[0].wait()

    setattr(server, side, kill)
    with server.serving() as url:
        prepared(folder, f"{url}{version}", adapter=adapter)
        processes.append(started(folder))
        processes[0].communicate(timeout=60)
        assert processes[0].returncode == -signal.SIGKILL
        assert len(server.calls) == at + 1
        again = started(folder)
        said = again.communicate(timeout=60)
    assert (again.returncode, texts(folder)) == (0, EXPECTED), said
    assert len(server.created) == 1, f"{side} call {at}: {server.calls}"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_process_that_is_killed_creates_no_second_batch(tmp_path: Path) -> None:
    """The provider has created the batch, and the process is killed before it hears of it."""
    killed(FilesServer(looks=1), "after", 1, tmp_path, "chat", "/v1")


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("kind", "adapter", "version", "calls"), APIS)
def test_a_batch_is_created_once_whatever_call_the_process_is_killed_in(
    tmp_path: Path, side: str, kind: type[BatchServer], adapter: str, version: str, calls: int
) -> None:
    """SIGKILL before and after the server has carried out any call: one batch, every answer."""
    for at in range(calls):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        killed(kind(looks=1), side, at, folder, adapter, version)


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_many_batches_through_many_kills(tmp_path: Path) -> None:
    """A job of eight batches that is killed at any moment, thirty times: eight batches, and each row once."""
    chance = random.Random(5)
    server = FilesServer(looks=40, page=3)
    kills = 0
    with server.serving() as url:
        prepared(tmp_path, f"{url}/v1", rows=400, most=50)
        while kills < 30:
            process = started(tmp_path)
            try:
                process.communicate(timeout=chance.uniform(0.4, 2.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            else:
                break
        last = started(tmp_path)
        said = last.communicate(timeout=120)
    assert last.returncode == 0, said
    assert texts(tmp_path) == [ANSWER.format(f"p{number}") for number in range(400)]
    assert len(server.created) == 8, f"{kills} kills: {server.calls}"
    assert kills
