"""What the tests of engines share: the rows of a job, its environment, and a server that notes what it was asked."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

# Ray and Daft report their use to their makers unless they are told not to; Ray also prints its progress line by line.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "DO_NOT_TRACK": "true",
}


class Server:
    """What the server of a job was asked."""

    def __init__(self, port: int, notes: Path) -> None:
        self.port, self.notes = port, notes

    def lines(self) -> list[tuple[str, float, str]]:
        """Each time that a prompt was `asked` or `answered`, and when."""
        text = self.notes.read_text("utf-8").rpartition("\n")[0]  # the last line may be under way
        found = [line.split(" ", 2) for line in text.splitlines()]
        return [(word, float(moment), prompt) for word, moment, prompt in found]

    def count(self) -> Counter[str]:
        """How often each prompt was asked."""
        return Counter(prompt for word, _, prompt in self.lines() if word == "asked")

    def rate(self) -> float:
        """How many prompts were asked in a second, from the first to the last."""
        moments = [moment for word, moment, _ in self.lines() if word == "asked"]
        return (len(moments) - 1) / (moments[-1] - moments[0])

    @property
    def most(self) -> int:
        """How many requests were under way at once, at most."""
        running = most = 0
        for word, *_ in self.lines():
            running += 1 if word == "asked" else -1
            most = max(most, running)
        return most

    def wait(self, rows: int, job: subprocess.Popen[str]) -> None:
        """Waits until so many rows were asked."""
        deadline = time.monotonic() + 180
        while len(self.count()) < rows:
            assert job.poll() is None, f"the job has ended: {job.communicate()[0]}"
            assert time.monotonic() < deadline, f"only {len(self.count())} rows were asked"
            time.sleep(0.05)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a job: its key is in one of them."""
    return {**os.environ, **QUIET, "STREAMFOLD_CONFIG": str(folder / "streamfold.toml"), "JOB_KEY": "sk-job-secret"}


def write_rows(folder: Path, prompts: list[str]) -> None:
    """Writes the rows of a job as Parquet."""
    from pyarrow import parquet, table

    (folder / "rows").mkdir(exist_ok=True)
    ids = [f"r{number}" for number in range(len(prompts))]
    parquet.write_table(table({"id": ids, "prompt": prompts}), folder / "rows" / "0.parquet")


def answers(folder: Path) -> list[dict[str, Any]]:
    """The answers of a job, which are Parquet too."""
    from pyarrow import dataset

    return list(dataset.dataset(folder / "answers", format="parquet").to_table().to_pylist())
