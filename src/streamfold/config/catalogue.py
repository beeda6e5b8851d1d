"""The catalogue: `providers/*.toml`, one file for each endpoint.

The catalogue is data. A new endpoint is a new file and no code; a difference that needs code is a step of an adapter,
switched by a typed quirk. Facts about models that hold at every endpoint of an adapter are in `providers/models`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..values import ConfigError, catalogue_folder, nearest
from .layers import Layer, TomlFile, merge

__all__ = ["adapter_layers", "catalogue_folder", "catalogue_layers", "catalogue_values", "provider_files"]


@cache
def provider_files() -> dict[str, Path]:
    """Returns the provider files by name."""
    files = {path.stem: path for path in catalogue_folder().glob("*.toml")}
    return dict(sorted(files.items()))


def catalogue_layers(name: str) -> list[Layer]:
    """Returns the settings of a provider of the catalogue: one layer, above that of the provider that it starts from.

    Raises:
        ConfigError: the catalogue has no such provider. The message lists those that it has.
    """
    files = provider_files()
    if name not in files:
        raise ConfigError(f"unknown provider {name!r}{nearest(name, files)}. The catalogue has: {', '.join(files)}")
    layer = Layer.of_file(_read(files[name]))
    base = layer.values.get("profile")
    return [*(catalogue_layers(base) if base else []), layer]


def adapter_layers(adapter: object) -> list[Layer]:
    """Returns the facts about models that hold at every endpoint of an adapter, if the catalogue has any."""
    path = _model_files().get(adapter) if isinstance(adapter, str) else None
    return [Layer.of_file(_read(path))] if path else []


@cache
def _model_files() -> dict[str, Path]:
    return {path.stem: path for path in (catalogue_folder() / "models").glob("*.toml")}


def catalogue_values(name: str) -> dict[str, Any]:
    """Returns the settings of a provider of the catalogue, with its name. Raises ConfigError as `catalogue_layers`."""
    return {"name": name, **merge(catalogue_layers(name))}


@cache
def _read(path: Path) -> TomlFile:
    folder = "models/" if path.parent.name == "models" else ""
    return TomlFile.parse(f"catalogue {folder}{path.name}", path.read_bytes())
