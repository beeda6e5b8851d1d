"""The effective configuration of a provider, each value with where it comes from, and no secret among them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..requests import CAPABILITIES, ModelCapabilities, Support
from ..values import referenced, shown_url
from .catalogue import provider_files
from .config import Config
from .profile import Profile, variable_is_set
from .tomltext import KeyPath, key_lines, line_of, spelled

__all__ = ["Value", "capability_values", "effective_values", "key_state"]

_IN_CODE = "default of streamfold"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a configuration.

    Attributes:
        key: as it is written in the file.
        shown: the value as TOML would have it; for a secret whether it is set, and by which variable.
        source: a file and a line, or where else it comes from.
    """

    key: str
    shown: str
    source: str


def key_state(profile: Profile) -> str:
    """Whether the key is there, and which variables it may come from. Never the key."""
    if keys := profile.keys_set():
        found = [variable for variable, is_set in keys.items() if is_set]
        return f"set ({found[0]})" if found else f"not set ({' or '.join(keys)})"
    return "set" if profile.api_key is not None else "none needed"


def effective_values(config: Config, spec: str) -> list[Value]:
    """What `Provider.from_config(spec)` would use; capabilities are those of its model. Raises ConfigError likewise."""
    profile = config.profile(spec)
    name, _, model = spec.partition(":")
    layers = _layers(config, name, profile.adapter)
    found = []
    for path, value in _leaves(profile):
        source = next((layer.at(path) for layer in layers if layer.has(path)), _IN_CODE)
        if path == ("model",) and model:
            source = "the name asked for"
        found.append(Value(spelled(path), _shown(path, value, profile), source))
    known = capability_values(config, spec)
    return found + [Value(f"capabilities.{name}", f'"{support}"', source) for name, support, source in known]


def capability_values(config: Config, spec: str, model: str | None = None) -> list[tuple[str, Support, str]]:
    """What is known of a model: each capability by its name, with where it is written. Raises ConfigError.

    Args:
        model: another one than that of `spec`.
    """
    profile = config.profile(spec)
    if model is None and profile.model is not None and not _unset(profile.model):
        model = profile.sent_model()
    layers = _layers(config, spec.partition(":")[0], profile.adapter)
    known = profile.capabilities_of(model)
    return [(name, known.of(name), _written(layers, name, model or "")) for name in CAPABILITIES]


def _written(layers: list[_Layer], name: str, model: str) -> str:
    for layer in layers:
        tables = list(enumerate(layer.data.get("models", ())))
        for index, table in reversed(tables):
            if name in table and ModelCapabilities(table["pattern"]).fits(model):
                return layer.at(("models", index, name))
        if layer.has(("capabilities", name)):
            return layer.at(("capabilities", name))
    return "not written down"


@dataclass(frozen=True, slots=True)
class _Layer:
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    file: str
    place: KeyPath = ()

    def has(self, path: KeyPath) -> bool:
        data: Any = self.data
        for part in ("api_key_env",) if path == ("api_key",) and "api_key" not in self.data else path:
            if not isinstance(data, Mapping) or part not in data:
                return False
            data = data[part]
        return True

    def at(self, path: KeyPath) -> str:
        if path == ("api_key",) and "api_key" not in self.data:
            path = ("api_key_env",)
        line = line_of(self.lines, (*self.place, *path))
        return f"{self.file}:{line}" if line else self.file


def _layers(config: Config, name: str, adapter: str) -> list[_Layer]:
    """What is written about a provider, the upper layers first."""
    layers = []
    start: str | None = name
    if name in config.names:
        table = config.data["providers"][name]
        layers.append(_Layer(table, config.lines, str(config.path), ("providers", name)))
        start = table.get("profile")
    if start:
        path = Path(provider_files()[start])
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
        if data.get("adapter", "chat") != adapter:  # its quirks are of another adapter, and were left out
            data.pop("quirks", None)
        layers.append(_Layer(data, key_lines(text), f"catalogue {path.name}"))
    return layers


def _leaves(profile: Profile) -> Iterator[tuple[KeyPath, Any]]:
    hidden = ("name", "docs", "checked", "api_key_env", "capabilities", "models")
    for key in type(profile).model_fields:
        value = getattr(profile, key)
        if key in ("timeouts", "limits"):
            value = asdict(value)
        if isinstance(value, Mapping):
            yield from (((key, part), inner) for part, inner in value.items())
        elif key not in hidden:
            yield (key,), value


def _shown(path: KeyPath, value: Any, profile: Profile) -> str:
    if path == ("api_key",):
        return key_state(profile)
    if path[0] == "headers":  # any of them may be a secret
        return _state(value) or "set"
    if value is None:
        return "none"
    text = json.dumps(shown_url(value) if path == ("base_url",) else value, ensure_ascii=False)
    state = _state(value) if isinstance(value, str) and path[0] in ("base_url", "model") else ""
    return f"{text}, {state}" if state else text


def _state(text: str) -> str:
    """Whether the variables that a text refers to are set; empty if it refers to none."""
    if unset := _unset(text):
        return f"not set ({', '.join(unset)})"
    names = referenced(text)
    return f"set ({', '.join(names)})" if names else ""


def _unset(text: str) -> list[str]:
    return [name for name in referenced(text) if not variable_is_set(name)]
