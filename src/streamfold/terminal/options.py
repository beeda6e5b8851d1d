"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AdapterName", "DialectNames", "File"]

File = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="The configuration file; by default the one that `config path` shows."),
]
AdapterName = Annotated[str | None, typer.Option(help="The wire format; by default that of FILE.toml, else chat.")]
DialectNames = Annotated[
    str | None, typer.Option(help="How the model writes calls in its text; by default as in FILE.toml.")
]
