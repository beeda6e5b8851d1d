"""Batches of a data engine: their rows, and the same batch with columns for the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamfold import ConfigError

from ..answers import Answer
from ..columns import ANSWER_COLUMNS, answer_cells, answer_schema


def column_names(batch: Any) -> list[str]:
    """Returns the names of the columns of a batch: a table of pyarrow, a data frame, or a mapping of arrays."""
    if hasattr(batch, "column_names"):
        return list(batch.column_names)
    return [str(name) for name in (batch if isinstance(batch, Mapping) else batch.columns)]


def rows_of(batch: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the rows of a batch with the columns that are named, as plain Python values."""
    if hasattr(batch, "column_names"):
        return list(batch.select(list(names)).to_pylist())
    columns = {name: [_plain(value) for value in _values(batch[name])] for name in names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def with_answers(batch: Any, answers: Sequence[Answer], prefix: str = "") -> Any:
    """Returns a batch with the columns of its answers, in the kind of batch that it is."""
    rows = [answer_cells(answer) for answer in answers]
    if hasattr(batch, "column_names"):
        import pyarrow

        for field in answer_schema():
            values = pyarrow.array([row[field.name] for row in rows], field.type)
            batch = batch.append_column(field.with_name(prefix + field.name), values)
        return batch
    columns = {prefix + name: [row[name] for row in rows] for name in ANSWER_COLUMNS}
    return {**batch, **columns} if isinstance(batch, Mapping) else batch.assign(**columns)


def check_columns(names: Sequence[str], prefix: str) -> None:
    """Raises ConfigError if there is a column where an answer would be written."""
    taken = [prefix + name for name in ANSWER_COLUMNS if prefix + name in names]
    if taken:
        raise ConfigError(
            f"the rows have a column {taken[0]!r} already: rename it, or give the columns of the answers other names,"
            ' as in prefix="answer_"'
        )


def _values(column: Any) -> Any:
    """Returns the values of a column; those that pandas says are absent are None."""
    return column.astype(object).where(column.notna(), None) if hasattr(column, "notna") else column


def _plain(value: Any) -> Any:
    """Returns a value without the types of numpy, which pandas and numpy batches have in all depths."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value
