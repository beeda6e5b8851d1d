"""Daft asks many rows: each comes out once, and the number of requests under way is limited."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from engine_jobs import Server, answers, environment, write_rows

from pages import ROOT

pytest.importorskip("daft")
pytestmark = pytest.mark.slow


def test_the_example(folder: Path, server: Server) -> None:
    """A bad row is a row with an error, and a job that is started again asks nothing that is kept."""
    prompts = [f"p{number}{' bad' if number % 50 == 0 else ''}" for number in range(500)]
    write_rows(folder, prompts)
    command = [sys.executable, ROOT / "examples" / "daft_job.py", "rows/0.parquet", "answers", "--provider", "main"]
    command += ["--answers", f"sqlite:///{folder / 'answers.db'}"]
    for _ in range(2):
        subprocess.run(command, cwd=folder, env=environment(folder), check=True, timeout=120)
    found = {row["id"]: (row["text"], row["error"]) for row in answers(folder)}
    assert len(answers(folder)) == len(found) == len(prompts)
    for number, prompt in enumerate(prompts):
        text, error = found[f"r{number}"]
        if "bad" in prompt:
            assert json.loads(error)["status_code"] == 400
        else:
            assert (text, error) == (f"{prompt}!", None)
    assert server.count().total() == len(prompts)
    assert server.most <= 50
