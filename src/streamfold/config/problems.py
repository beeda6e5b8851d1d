"""Everything that is wrong with a configuration, for `streamfold config check`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..text import variable_names
from .environment import variable_is_set
from .file import Config, check_layers
from .layers import Layer, find_layer
from .profile import Profile
from .search_path import PROVIDER_VARIABLE
from .toml_positions import KeyPath


def config_problems(config: Config) -> list[str]:
    """Returns every problem of a file and of the environment, a line each, in the order of the file."""
    found = [*config.checked[1], *_file_problems(config)]
    for name in config.tables:
        found += _provider_problems(config, name)
    explored: set[str] = set()
    for name in config.tables:
        if name not in explored:
            found += _fallback_problems(config, name, explored)
    lines = [text for _, text in sorted(dict.fromkeys(found), key=lambda problem: problem[0])]
    if chosen := os.environ.get(PROVIDER_VARIABLE, "").strip():
        lines += [f"{PROVIDER_VARIABLE}: {text}" for text in [config.unknown(chosen)] if text]
    return lines


def _file_problems(config: Config) -> Iterator[tuple[int, str]]:
    """Yields a name in `default` that no provider has, and what is wrong in tables of other packages."""
    if config.file is None:
        return
    layer, file = Layer.of_file(config.file), config.checked[0]
    default = config.file.data.get("default")
    if isinstance(default, str) and (text := config.unknown(default)):
        yield layer.line(("default",)), layer.describe(("default",), text)
    for name, table in file.package_tables():
        for path, text in table.problems(config.unknown):
            yield layer.line((name, *path)), layer.describe((name, *path), text)


def _provider_problems(config: Config, name: str) -> Iterator[tuple[int, str]]:
    layers = config.file_layers(name)
    profile, mistakes = check_layers(layers)
    yield from mistakes
    if profile is None:
        return
    missing = list(_missing(profile))
    if not missing and profile.untrusted_file is not None and (problem := profile.problem()) is not None:
        missing.append((("base_url",), problem))
    for path, text in missing:
        layer, own_path = find_layer(layers, path, {}) or (layers[-1], path)
        yield layer.line(own_path), layer.describe(own_path, text)


def _missing(profile: Profile) -> Iterator[tuple[KeyPath, str]]:
    """Yields the environment variables that a provider needs and that are not set."""
    keys = profile.keys_set()
    if keys and not any(keys.values()) and profile.auth == "key":
        yield ("api_key",), f"no API key: set {' or '.join(keys)}"
    texts: dict[KeyPath, str] = {("headers", header): text for header, text in profile.headers.items()}
    for path, text in {("base_url",): profile.base_url, ("model",): profile.model or "", **texts}.items():
        for variable in variable_names(text):
            if not variable_is_set(variable):
                yield path, f"{variable} is not set"


def _fallback_problems(config: Config, name: str, explored: set[str]) -> Iterator[tuple[int, str]]:
    for owner, index, _, problem in config.fallbacks(name, explored=explored):
        if problem is not None and config.file is not None:
            layer = Layer.of_file(config.file, "providers", owner)
            yield layer.line(("fallback", index)), layer.describe(("fallback", index), problem)
