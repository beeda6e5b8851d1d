"""`streamfold providers NAME`: what its models can do, as far as it is written down, and where."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..config import Config, capability_values
from ..requests import CAPABILITIES

__all__ = ["show"]

_STYLES = {"yes": "green", "no": "red", "unknown": "dim"}


def show(config: Config, spec: str, *, as_json: bool) -> None:
    """A row for each model: of `"name:model"` this one, with the sources; of `"name"` the configured or named ones.

    Raises:
        ConfigError: there is no such provider.
    """
    profile = config.profile(spec)
    one = profile.model is not None
    models = [None] if one else [None, *dict.fromkeys(name for table in profile.models for name in table.examples)]
    found = {profile.model if one else model: capability_values(config, spec, model) for model in models}
    console = Console()
    if as_json:
        for model, values in found.items():
            known = {name: support for name, support, _ in values}
            console.file.write(json.dumps({"name": profile.name, "model": model, "capabilities": known}) + "\n")
    elif one:
        table = Table("capability", "", "written in", title=f"{profile.name}:{profile.model}", title_justify="left")
        for name, support, source in found[profile.model]:
            table.add_row(name, Text(support, _STYLES[support]), Text(source))
        console.print(table)
    else:
        table = Table("model", *CAPABILITIES, title=profile.name, title_justify="left")
        for model, values in found.items():
            table.add_row(model or "(any)", *(Text(support, _STYLES[support]) for _, support, _ in values))
        console.print(table)
