"""A Dataset with answers, with the settings that make a large job safe."""

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
    """Returns a Dataset with the answers to its rows.

        ds = ask(ray.data.read_parquet("rows/"), "main", checkpoint="/mnt/jobs/translate")
        ds.write_parquet("answers/")

    With a checkpoint, a job that was killed continues when it is started again with the same checkpoint and the same
    output: rows that were written are not sent again. The answers of blocks that were not written are lost, unless
    they are kept: give `answers`, a store.

    Args:
        ds: read from files, where a checkpoint is used: Ray leaves out finished rows while it reads.
        provider: see `Ask`.
        checkpoint: a folder that all machines see, a path or a URL such as `s3://...`. Rows need an id that is unique
            in the whole job.
        workers: how many processes ask, or the least and the most of them.
        concurrency: how many rows each of them has in flight.
        rows_per_block: how many rows are written and forgotten together. Blocks of Ray's own size would have thousands,
            and a worker that dies takes all of them along.
        blocks_in_flight: how many blocks each worker works on, so that none waits for the slowest row of another.
        check_ids: with a checkpoint, read the ids first, and stop if two are the same or one is missing: of two rows
            with one id, one would be lost. Without it, you know that they are unique.
        resources: what each worker takes, as for `map_batches`. Default: no CPU, since workers mostly wait. With a
            checkpoint, Ray itself needs two.
        settings: of `Ask`: `columns`, `answers`, `schema`, options of the model and so on.

    Raises:
        ConfigError: a setting is wrong, or ids are not unique.
    """
    pool = _pool((workers, workers) if isinstance(workers, int) else workers, blocks_in_flight)
    settings = {"provider": provider, "concurrency": concurrency, **settings}
    if checkpoint is not None:
        settings.setdefault("job", checkpoint)
    Ask(**settings)  # wrong settings are raised here, not by each worker
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
    """Returns a pool of workers: the fewest and the most of them, and the blocks that each works on."""
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
    """Lets Ray write down which rows are done."""
    from ray.data.checkpoint import CheckpointConfig

    if check_ids:
        _check_ids(ds, column)
    # The checkpoint stays at the end: a finished job that is started again sends and writes nothing.
    ds.context.checkpoint_config = CheckpointConfig(
        id_column=column, checkpoint_path=path, delete_checkpoint_on_success=False
    )


def _check_ids(ds: Dataset, column: str) -> None:
    """Raises ConfigError if a row has no id, or that of another row. Eight bytes of memory for each of them."""
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
