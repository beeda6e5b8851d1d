"""The function `ask`, which adds answers to a Ray Dataset, with safe settings for large jobs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from streamfold import ConfigError

from .ask import Ask

if TYPE_CHECKING:
    from ray.data import ActorPoolStrategy, Dataset


def ask(
    ds: Dataset,
    provider: str | Mapping[str, Any] | None = None,
    *,
    checkpoint: str | None = None,
    workers: int | tuple[int, int] = 2,
    concurrency: int = 50,
    rows_per_block: int = 200,
    blocks_in_flight: int = 8,
    check_ids: bool = True,
    resources: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Dataset:
    """Returns a Dataset with the same rows and additional columns for the answers.

        ds = ask(ray.data.read_parquet("rows/"), "main", checkpoint="/mnt/jobs/translate")
        ds.write_parquet("answers/")

    To continue a killed job, start it again with the same checkpoint and output. Rows whose answers were written to the
    output aren't sent again. Answers in blocks that weren't written yet are lost unless `answers` names a store.

    Args:
        ds: the Dataset that contains the rows. With a checkpoint, it must come from files, because Ray skips finished
            rows when it reads files.
        provider: see `Ask`.
        checkpoint: a folder that all machines can access, as a path or a URL such as `s3://...`. Rows need unique ids.
        workers: the number of worker processes, or the minimum and maximum number.
        concurrency: maximum number of rows in flight in each worker.
        rows_per_block: the number of rows in a block. If a worker dies, the answers to all rows in its blocks are lost,
            and Ray's default blocks may have thousands of rows.
        blocks_in_flight: the number of blocks that each worker processes at the same time. A slow row delays only its
            own block.
        check_ids: with a checkpoint, read all ids first, and raise an error if an id is missing or repeated. Without
            this check, one of two rows with the same id would be lost.
        resources: the Ray resources that each worker reserves; see `map_batches`. By default, workers reserve no CPU,
            because they mostly wait. With a checkpoint, Ray itself needs two CPUs.
        settings: the other arguments of `Ask`: `columns`, `answers`, `schema`, model options and so on.

    Raises:
        ConfigError: a setting is invalid, or ids aren't unique.
    """
    pool = _pool((workers, workers) if isinstance(workers, int) else workers, blocks_in_flight)
    settings = {"provider": provider, "concurrency": concurrency, **settings}
    if checkpoint is not None:
        settings.setdefault("job", checkpoint)
    Ask(**settings)  # raises mistakes in the settings before workers start
    if checkpoint is not None:
        _set_checkpoint(ds, checkpoint, (settings.get("columns") or {}).get("id", "id"), check_ids)
    return ds.repartition(target_num_rows_per_block=rows_per_block).map_batches(
        Ask,
        batch_format="pyarrow",
        compute=pool,
        fn_constructor_kwargs=settings,
        udf_modifying_row_count=False,
        **({"num_cpus": 0} if resources is None else resources),
    )


def _pool(size: tuple[int, int], blocks: int) -> ActorPoolStrategy:
    try:
        from ray.data import ActorPoolStrategy
    except ModuleNotFoundError:
        raise ConfigError('Ray is not installed: pip install "streamfold-jobs[ray]"') from None
    return ActorPoolStrategy(
        min_size=size[0],
        max_size=size[1],
        max_tasks_in_flight_per_actor=blocks,
        max_concurrent_calls_per_actor=blocks,
    )


def _set_checkpoint(ds: Dataset, path: str, column: str, check_ids: bool) -> None:
    from ray.data.checkpoint import CheckpointConfig

    if check_ids:
        _check_ids(ds, column)
    # Keeps the checkpoint at the end, so that a finished job sends and writes nothing if it is started again.
    ds.context.checkpoint_config = CheckpointConfig(
        id_column=column, checkpoint_path=path, delete_checkpoint_on_success=False
    )


def _check_ids(ds: Dataset, column: str) -> None:
    """Raises ConfigError if a row has no id, or two rows have the same id. Needs eight bytes of memory for each id."""
    import pyarrow
    from pyarrow import compute

    if column not in (names := ds.columns() or []):
        raise ConfigError(f"checkpoint: there is no column {column!r} with ids among {', '.join(names)}")
    ids, seen = ds.select_columns([column]), array("Q")
    tables: Iterable[Any] = ids.iter_batches(batch_size=None, batch_format="pyarrow")
    for batch in tables:
        if batch[column].null_count:
            raise ConfigError(f"checkpoint: a row has no id in the column {column!r}")
        seen.extend(map(_short, batch[column].to_pylist()))
    counts = pyarrow.Array.from_buffers(pyarrow.uint64(), len(seen), [None, pyarrow.py_buffer(seen)]).value_counts()
    twice = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(twice):
        of = twice.field("values")[0].as_py()
        found = next(row[column] for row in ids.iter_rows() if _short(row[column]) == of)
        raise ConfigError(f"checkpoint: two rows have the id {found!r} in the column {column!r}: one would be lost")


def _short(value: Any) -> int:
    return int.from_bytes(blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest())
