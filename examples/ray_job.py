"""Asks a model about every row of some Parquet files, with as many workers as a Ray cluster can have.

    pip install "streamfold-jobs[ray]" "streamfold[valkey]"
    python ray_job.py rows/ answers/ --provider main --checkpoint /mnt/jobs/translate --answers valkey://store:6379

Each row has an `id` and a `prompt`. Start the same command again after anything died: it goes on where it was.
"""

from __future__ import annotations

import argparse

import ray

from streamfold_jobs.ray import ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="a Parquet file, or a folder or bucket of them")
    parser.add_argument("output", help="the folder or bucket for the answers, as Parquet files")
    parser.add_argument("--provider", help="its name in the streamfold.toml of the workers, or in the catalogue")
    parser.add_argument("--checkpoint", required=True, help="a folder that all machines see")
    parser.add_argument("--answers", help="a store that all machines reach: no answer is paid twice")
    parser.add_argument("--workers", type=int, default=2, help="processes that ask")
    parser.add_argument("--concurrency", type=int, default=50, help="rows that each of them asks at once")
    given = parser.parse_args()

    ds = ask(
        ray.data.read_parquet(given.rows),
        given.provider,
        checkpoint=given.checkpoint,
        answers=given.answers,
        workers=given.workers,
        concurrency=given.concurrency,
    )
    ds.write_parquet(given.output)  # it adds to what is there: never `mode="overwrite"`, which would lose finished rows


if __name__ == "__main__":
    main()
