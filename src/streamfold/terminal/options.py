"""Options that several commands have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..values import ConfigError

File = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="The configuration file; by default the one that `config path` shows."),
]
AdapterName = Annotated[str | None, typer.Option(help="The wire format; by default that of FILE.toml, else chat.")]
DialectNames = Annotated[
    str | None, typer.Option(help="How the model writes calls in its text; by default as in FILE.toml.")
]


def read_json(path: Path) -> Any:
    """Returns the JSON value in a file, with or without a byte-order mark. Raises ConfigError for anything else."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{path}: not JSON: {exc}") from exc
