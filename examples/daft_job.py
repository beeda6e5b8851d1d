"""Asks a model about every row of a Parquet file with Daft, on one machine or on a Ray cluster.

    pip install "streamfold-jobs[parquet]" "daft"
    python daft_job.py rows.parquet answers/ --provider main --answers sqlite:////mnt/jobs/answers.db

Daft does not remember which rows are done. With a store, a job that is started again within an hour asks only what was
not answered.
"""

from __future__ import annotations

import argparse

import daft
from daft import DataType

from streamfold_jobs.ray import Ask  # it needs no Ray

ANSWER = DataType.struct({"text": DataType.string(), "tool_calls": DataType.string(), "error": DataType.string()})


@daft.cls
class Answers:
    """Asks for one row at a time. `Ask` limits how many are under way; Daft starts thousands."""

    def __init__(self, provider: str | None, answers: str | None) -> None:
        self.ask = Ask(provider, answers=answers, concurrency=50)

    @daft.method(return_dtype=ANSWER)
    async def of(self, name: str, prompt: str) -> dict[str, str | None]:
        made = await self.ask({"id": [name], "prompt": [prompt]})
        return {column: made[column][0] for column in ("text", "tool_calls", "error")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="Parquet files with the columns id and prompt")
    parser.add_argument("output", help="the folder for the answers")
    parser.add_argument("--provider", help="its name in streamfold.toml, or in the catalogue")
    parser.add_argument("--answers", help="a store for answers, so that none is paid twice")
    given = parser.parse_args()

    answers = Answers(given.provider, given.answers)
    rows = daft.read_parquet(given.rows)
    answered = rows.with_column("answer", answers.of(rows["id"], rows["prompt"]))
    names = ("text", "tool_calls", "error")
    columns = [answered["answer"][name].alias(name) for name in names]
    answered.select("id", *columns).write_parquet(given.output, write_mode="overwrite")


if __name__ == "__main__":
    main()
