"""Rows and answers in columns, as Parquet files and data frames have them: what is no single value is JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamfold import ConfigError

from .answers import Answer

# A column has values of one type; members of a row that have several may be JSON text.
_JSON_MEMBERS = ("messages", "options", "tools", "body")

ANSWER_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("text", "reasoning", "refusal", "tool_calls", "finish_reason", "model", "request_id"), str),
    **dict.fromkeys(("usage", "cost", "warnings", "error"), str),
    "tries": int,
    "seconds": float,
}
"""The columns of an answer, and the type of their values. Objects and lists are JSON text, an absent value is null."""


def answer_cells(answer: Answer) -> dict[str, Any]:
    """Returns the values of an answer for `ANSWER_COLUMNS`."""
    line = answer.as_line()
    return {name: _text(line.get(name)) for name in ANSWER_COLUMNS}


def answer_schema(*names: str) -> Any:
    """Returns the schema that pyarrow needs for some text columns and those of an answer."""
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    columns = {**dict.fromkeys(names, str), **ANSWER_COLUMNS}
    return pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])


def row_members(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of a row: without null values, and with `messages`, `options` and `tools` read from JSON.

    Raises:
        ConfigError: one of them is text, but not JSON.
    """
    found = {name: value for name, value in cells.items() if value is not None}
    for name in _JSON_MEMBERS:
        if isinstance(text := found.get(name), str):
            try:
                found[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{name}: not JSON: {error}") from None
    return found


def _text(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value  # half a surrogate pair
