"""The catalogue of providers: `providers/*.toml`, with one file for each endpoint.

The catalogue is data: a new endpoint needs a new file, but no code. If an endpoint differs from the documented API, the
adapter contains the code for this difference, and a quirk (a setting) in the endpoint's file turns it on.
`families.toml` contains facts about models that are the same at all endpoints.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..catalogue_path import catalogue_folder
from ..errors import ConfigError
from .layers import Layer, TomlFile, merge

FAMILIES_FILE = "families.toml"


@cache
def provider_files() -> dict[str, Path]:
    """Returns the path of each catalogue file. The key is the provider's name. Raises ConfigError if the installation
    has no provider files.
    """
    try:
        folder = catalogue_folder()
    except FileNotFoundError as error:
        raise ConfigError(str(error)) from error
    files = {path.stem: path for path in folder.glob("*.toml") if path.name != FAMILIES_FILE}
    return dict(sorted(files.items()))


def catalogue_layers(name: str) -> list[Layer]:
    """Returns the settings of a provider in the catalogue, as layers. Raises KeyError if the catalogue has no such
    provider.
    """
    layer = Layer.of_file(_read(provider_files()[name]))
    base = layer.values.get("profile")
    if not base:  # the endpoint runs only the tools in its file
        layer = replace(layer, values={"hosted": [], "evidence": "documented", **layer.values})
    return [*(catalogue_layers(base) if base else []), layer]


def catalogue_values(name: str) -> dict[str, Any]:
    return {"name": name, **merge(catalogue_layers(name)).values}


@cache
def _read(path: Path) -> TomlFile:
    return TomlFile.parse(f"catalogue {path.name}", path.read_bytes())
