"""Writes the answers of all shards of a job to a .jsonl or .parquet file. The file gets its name only when it is
complete.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from secrets import token_hex

from streamfold import ConfigError

from .answers import Answer, answer_cells, answer_schema
from .ledger import Ledger
from .rows import check_file_type

_SHOWN = 5  # maximum number of missing shards in an error message


def check_output(path: str | os.PathLike[str]) -> None:
    """Raises ConfigError if answers can't be written to this path. A job calls this before its first request."""
    target = Path(path)
    check_file_type(target, "answers are written to")
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ConfigError(f"{path}: can't be written")


def export(ledgers: Iterable[Ledger], path: str | os.PathLike[str], *, whole: bool = False) -> int:
    """Writes the answers and errors of a job's shards to a file, in the order of the rows. Returns how many answers and
    errors it has written.

    The file has a temporary name until it is complete, so that other programs never read an incomplete file.

    Args:
        whole: raise ConfigError, and write nothing, if a row of the job has neither an answer nor an error.

    Raises:
        ConfigError: the ledgers belong to different jobs, two ledgers contain the same rows, or rows are missing.
    """
    shards = list(ledgers)
    _check_shards(shards)
    if whole:
        _check_whole(shards)
    target = Path(path)
    check_output(target)
    if target.suffix == ".parquet":
        answers = heapq.merge(*(ledger.answers() for ledger in shards), key=lambda answer: answer.number)
        return _replace(target, lambda draft: _write_parquet(draft, answers))
    lines = heapq.merge(*(ledger.lines() for ledger in shards))
    return _replace(target, lambda draft: _write_lines(draft, (line for _, line in lines)))


def _replace(target: Path, write: Callable[[Path], int]) -> int:
    """Calls `write` with a temporary path, and renames the written file to `target`."""
    draft = target.with_name(
        f".{target.name}.{token_hex(8)}.part"
    )  # other users can't guess the name, to put a link there
    try:
        count = write(draft)
        draft.replace(target)
    except OSError as error:  # when the disk is full, the error has no file name
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _check_shards(ledgers: list[Ledger]) -> None:
    if not ledgers:
        raise ConfigError("there is no ledger to export")
    settings = [ledger.settings() for ledger in ledgers]
    for ledger, own in zip(ledgers, settings, strict=True):
        if not own:
            raise ConfigError(f"{ledger.path}: this ledger contains no job")
        for name in ("rows", "count", "model", "options", "tools", "run_tools"):
            if own.get(name) != settings[0].get(name):
                raise ConfigError(
                    f"{ledger.path} and {ledgers[0].path} belong to different jobs: they differ in {name}"
                )
    shards = [ledger.shard for ledger in ledgers]
    names = ", ".join(f"{first}/{step}" for first, step in shards)
    if len({step for _, step in shards}) > 1:
        raise ConfigError(f"the ledgers split the job into different numbers of shards, so they share rows: {names}")
    if len(set(shards)) < len(shards):
        raise ConfigError(f"two of the ledgers belong to the same shard: {names}")


def _check_whole(ledgers: list[Ledger]) -> None:
    (_, step), count = ledgers[0].shard, int(ledgers[0].settings()["count"])
    found = {ledger.shard[0]: ledger for ledger in ledgers}
    missing = [
        f"shard {first}/{step}, {len(range(first, count, step))} rows"
        for first in range(min(step, count))
        if first not in found
    ]
    for first, ledger in sorted(found.items()):
        counts, rows = ledger.counts(), len(range(first, count, step))
        if (ended := counts["done"] + counts["error"]) < rows:
            missing.append(f"{ledger.path} has {ended} of its {rows} rows")
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise ConfigError(
            f"missing rows: {'; '.join(missing[:_SHOWN])}{more}. `streamfold batch export` writes the answers so far"
        )


def _write_lines(path: Path, lines: Iterable[str]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _write_parquet(path: Path, answers: Iterator[Answer]) -> int:
    import pyarrow
    from pyarrow import parquet

    schema = answer_schema("id")
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(answers, 1000)):
            rows = [{"id": answer.id, **answer_cells(answer)} for answer in group]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
            count += len(group)
    return count
