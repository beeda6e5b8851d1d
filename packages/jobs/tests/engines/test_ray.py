"""Ray Data asks many rows while its processes are killed: every row comes out once, and nearly none is asked twice.

These tests need Ray (600 MB, and two gigabytes of memory while they run): `nox -s engines`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from engine_jobs import Server, answers, environment, write_rows

from pages import ROOT

pytest.importorskip("pyarrow")
from pyarrow import parquet, table

pytestmark = [pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"), pytest.mark.slow]
CONCURRENCY, WORKERS = 25, 2


@contextmanager
def started(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The example, as a program in a folder, and its whole family killed behind the block."""
    command = [sys.executable, ROOT / "examples" / "ray_job.py", "rows", "answers", "--provider", "main"]
    command += [
        "--checkpoint",
        str(folder / "checkpoint"),
        "--workers",
        str(WORKERS),
        "--concurrency",
        str(CONCURRENCY),
    ]
    job = subprocess.Popen(
        [*command, *more],
        cwd=folder,
        env=environment(folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield job
    finally:
        kill(job)
        job.communicate()


def kill(job: subprocess.Popen[str]) -> None:
    """Kills a job with all processes that it has started."""
    for pid in [job.pid, *family(job.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def family(pid: int) -> dict[int, str]:
    """The processes below a process, with what they call themselves."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text("utf-8")
                names[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    layer = {pid}
    while layer := {child for child, parent in parents.items() if parent in layer}:
        found |= {child: names.get(child, "") for child in layer}
    return found


def kill_worker(job: subprocess.Popen[str]) -> bool:
    """Kills one of the processes that ask."""
    asking = sorted(pid for pid, name in family(job.pid).items() if name.startswith("ray::") and "Ask" in name)
    for pid in asking[:1]:
        os.kill(pid, signal.SIGKILL)
    return bool(asking)


def finished(job: subprocess.Popen[str]) -> str:
    output = job.communicate(timeout=240)[0]
    assert job.returncode == 0, output
    return output


def assert_each_row_once(folder: Path, prompts: list[str]) -> None:
    found = {row["id"]: (row["text"], row["error"]) for row in answers(folder)}
    assert len(answers(folder)) == len(found) == len(prompts)
    for number, prompt in enumerate(prompts):
        text, error = found[f"r{number}"]
        assert (text, error is None) == ((None, False) if "bad" in prompt else (f"{prompt}!", True))


def test_workers_and_the_driver_are_killed(folder: Path, server: Server) -> None:
    """Each row comes out once, and each kill costs at most the requests that were under way in what it killed."""
    prompts = [f"p{number}{' bad' if number % 50 == 0 else ''}" for number in range(3000)]
    write_rows(folder, prompts)
    store = ("--answers", f"sqlite:///{folder / 'answers.db'}")
    under_way = 0
    with started(folder, *store) as job:
        server.wait(400, job)
        assert kill_worker(job)
        under_way += CONCURRENCY
        server.wait(1200, job)
        kill(job)
        under_way += WORKERS * CONCURRENCY
    assert not any("Ask" in name for name in family(1).values() if name.startswith("ray::"))
    with started(folder, *store) as job:
        server.wait(2000, job)
        assert kill_worker(job)
        under_way += CONCURRENCY
        output = finished(job)
    assert_each_row_once(folder, prompts)
    again = server.count().total() - len(prompts)
    print(f"asked again: {again} of {len(prompts)} rows, at most {under_way} were under way")  # noqa: T201
    assert again <= under_way
    assert "sk-job-secret" not in output
    with started(folder, *store) as job:
        finished(job)
    assert_each_row_once(folder, prompts)
    assert server.count().total() == len(prompts) + again


def test_a_refused_key_ends_the_job(folder: Path, server: Server) -> None:
    """It says why; rows that were answered before are kept, and the job goes on when the key is good."""
    write_rows(folder, [f"p{number}" for number in range(300)] + ["key"])
    with started(folder) as job:
        output = job.communicate(timeout=240)[0]
    assert job.returncode not in (0, None)
    assert "no further row can be answered" in output
    assert "Incorrect API key provided" in output
    assert "sk-job-secret" not in output
    assert server.count()["key"] < 5


def test_ids_that_are_not_unique(folder: Path) -> None:
    """Ray would take the second row for done, so the job stops before it asks."""
    (folder / "rows").mkdir()
    parquet.write_table(table({"id": ["a", "b", "a"], "prompt": ["x", "y", "z"]}), folder / "rows" / "0.parquet")
    with started(folder) as job:
        output = job.communicate(timeout=240)[0]
    assert "two rows have the id 'a' in the column 'id': one would be lost" in output


def test_workers_share_a_limit(folder: Path, server: Server) -> None:
    """What the configuration allows a key is for all workers together."""
    write_rows(folder, [f"p{number}" for number in range(300)])
    config = folder / "streamfold.toml"
    limits = f'[rate_limits]\nstore = "sqlite:///{folder / "limits.db"}"\n'
    config.write_text(f"{limits}{config.read_text('utf-8')}rpm = 1500\n", "utf-8")
    with started(folder) as job:
        finished(job)
    assert server.count().total() == 300
    assert 15 < server.rate() < 26
