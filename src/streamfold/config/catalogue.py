"""The catalogue, `providers/*.toml`, and what a caller puts on top of it.

The catalogue is data. A new endpoint is a new file and no code; a difference that needs code is a step of an adapter,
switched by a typed quirk.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from ..requests import Capabilities
from ..values import ConfigError, nearest
from .profile import Profile, validated

__all__ = ["catalogue_folder", "catalogue_values", "layered", "provider_files", "read_profile"]


def catalogue_folder() -> Path:
    """Where the provider files are: inside the package when installed, beside `src` in a checkout."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "providers", here.parent.parent / "providers"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"the provider files are missing: neither beside {here} nor inside it; install the package again")


@cache
def provider_files() -> dict[str, Path]:
    """The provider files by name."""
    files = {path.stem: path for path in catalogue_folder().glob("*.toml")}
    return dict(sorted(files.items()))


def catalogue_values(name: str) -> dict[str, Any]:
    """What the catalogue's file says, and the name. Raises ConfigError with the names there are."""
    files = provider_files()
    if name not in files:
        raise ConfigError(f"unknown provider {name!r}{nearest(name, files)}: the catalogue has {', '.join(files)}")
    path = files[name]
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path}: not TOML: {exc}") from exc
    validated(values, str(path))
    return {"name": name, **values}


def read_profile(spec: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Profile:
    """The effective profile of `"name"`, `"name:model"` or a mapping, with `overrides` on top.

    A mapping may start from the catalogue with the key `profile`.

    Raises:
        ConfigError: an unknown name or key, or a value that does not fit; the message says what is allowed.
    """
    if isinstance(spec, str):
        name, _, model = spec.partition(":")
        written: dict[str, Any] = {"model": model} if model else {}
        base, where = catalogue_values(name), f"provider {name!r}"
    else:
        written = dict(spec)
        name = written.pop("profile", None)
        base = catalogue_values(name) if name else {}
        where = f"provider {written.get('name') or name or 'custom'!r}"
    said = {key: value for key, value in (overrides or {}).items() if value is not None}
    return validated(layered(layered(base, written), said), where)


def layered(base: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """What is written on top of a base. Tables (quirks, headers, timeouts, limits, capabilities) are joined key by key.

    The tables in `models` come after those of the base. What is written as `capabilities` is above these too: it is
    the word of somebody who knows which model is used.
    """
    values = dict(base)
    if written.get("adapter", base.get("adapter", "chat")) != base.get("adapter", "chat"):
        values.pop("quirks", None)  # they are of the adapter below
    if "api_key_env" in written:
        values.pop("api_key", None)  # it would win over the variable
    for key, value in {**written, **_models(base, written)}.items():
        below = values.get(key)
        values[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return values


def _models(base: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    below, own, all_of_them = base.get("models"), written.get("models", ()), written.get("capabilities")
    if not isinstance(below, list | tuple) or not isinstance(own, list | tuple):
        return {}  # there is nothing to join, or it is told elsewhere
    if isinstance(all_of_them, Capabilities):
        all_of_them = asdict(all_of_them)
    above = [{"pattern": "*", **all_of_them}] if isinstance(all_of_them, Mapping) else []
    return {"models": [*below, *above, *own]}
