"""Merges the settings of one provider from several places: the catalogue, `streamfold.toml` and arguments.

Each place in which settings are written is a layer. The values of all layers are first merged and then validated
together. Error messages and the command `config show` name the place of each value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigError
from ..requests import Capabilities
from .tables import validation_errors
from .toml_positions import KeyPath, key_lines, line_of, toml_path


@dataclass(frozen=True)
class TomlFile:
    """A TOML file that has been read.

    Attributes:
        origin: the file's name in error messages.
        is_foreign: True if the file is in the working directory and isn't trusted, because it may belong to someone
            else's repository. No environment variable is then sent to a host that this file chooses.
    """

    origin: str
    text: str = field(repr=False)  # may hold keys
    data: Mapping[str, Any] = field(repr=False)
    is_foreign: bool = False

    @classmethod
    def parse(cls, origin: str, content: bytes) -> TomlFile:
        """Parses the content of a file. Raises ConfigError, which contains the line, if the content isn't TOML."""
        try:
            text = content.decode("utf-8-sig")  # editors on Windows may write a byte-order mark
            return cls(origin, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as exc:
            raise ConfigError(_not_toml(origin, text, str(exc))) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{origin}: not TOML: the text is not UTF-8") from None
        except RecursionError:
            raise ConfigError(f"{origin}: not TOML: nested too deeply") from None
        except ValueError as exc:  # a number with thousands of digits
            raise ConfigError(f"{origin}: not TOML: {exc}") from None

    def place(self, path: KeyPath) -> str:
        line = line_of(self._lines, path)
        return f"{self.origin}:{line}" if line else self.origin

    def line(self, path: KeyPath) -> int:
        return line_of(self._lines, path) or 0

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return key_lines(self.text)


def _not_toml(origin: str, text: str, problem: str) -> str:
    where = re.search(r"\s*\(at line (\d+), column (\d+)\)$", problem)
    if where:
        return f"{origin}:{where[1]}: not TOML: {problem[: where.start()]} in column {where[2]}"
    at_end = problem.replace("(at end of document)", "at the end of the file")
    return f"{origin}:{len(text.splitlines()) or 1}: not TOML: {at_end}"


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings from one place.

    Attributes:
        origin: the name of the place in error messages, if it isn't a file.
        file: the file that contains the settings, or None.
        table: the path of the table in the file.
    """

    values: Mapping[str, Any] = field(repr=False)  # may hold keys
    origin: str
    file: TomlFile | None = None
    table: KeyPath = ()

    @property
    def is_catalogue(self) -> bool:
        return self.file is not None and not self.table

    @classmethod
    def of_file(cls, file: TomlFile, *table: str) -> Layer:
        """Creates a layer from a table in a file, or from the entire file if `table` is empty."""
        values: Any = file.data
        for part in table:
            values = values[part]
        return cls(values, file.origin, file, table)

    def has(self, path: KeyPath) -> bool:
        """Returns True if this layer contains a setting. For an item of a list, it must contain the list."""
        values: Any = self.values
        for part in path:
            if not isinstance(values, Mapping):
                return True
            if part not in values:
                return False
            values = values[part]
        return True

    def place(self, path: KeyPath) -> str:
        """Returns `file:line` for a setting, or the name of the function that got the setting as an argument."""
        return self.file.place((*self.table, *path)) if self.file else self.origin

    def describe(self, path: KeyPath, text: str) -> str:
        """Returns a line about a setting in this layer, which may be missing. The line has the place, the key and the
        text.
        """
        key = toml_path((*self.table, *path))
        return ": ".join(filter(None, (self.place(path), key, text)))

    def line(self, path: KeyPath) -> int:
        return self.file.line((*self.table, *path)) if self.file else 0


@dataclass(frozen=True, slots=True)
class MergedSettings:
    """The merged settings from all layers before validation, and the place of each setting.

    Attributes:
        layers: the layers. Later layers take precedence.
        origins: for each key, the layer that sets it, and the key's path in this layer. A key may also be in a table,
            or be a table in the list `models`.
    """

    layers: Sequence[Layer]
    values: dict[str, Any] = field(default_factory=dict, repr=False)  # may hold keys
    origins: dict[KeyPath, tuple[Layer, KeyPath]] = field(default_factory=dict, repr=False)

    def origin(self, path: KeyPath) -> tuple[Layer, KeyPath] | None:
        """Returns the layer that sets a key, and the key's path in this layer. Returns None for a default value."""
        if path[:1] == ("api_key",) and "api_key" not in self.values:
            path = ("api_key_env",)
        for end in range(len(path), 0, -1) if path[0] in self.values else ():
            if path[:end] in self.origins:
                layer, own = self.origins[path[:end]]
                own = (*own, *path[end:])
                return (layer, own) if layer.has(own) else None
        return None

    def locate(self, path: KeyPath, text: str) -> tuple[int, str]:
        """Returns the line number of a setting, and a text about the setting."""
        top = next((layer for layer in reversed(self.layers) if layer.file), self.layers[-1])
        layer, own = self.origin(path) or (top, path)
        return layer.line(own), layer.describe(own, text)


def merge(layers: Sequence[Layer]) -> MergedSettings:
    """Merges settings from layers. Later layers take precedence. Tables such as quirks and headers are merged key by
    key.

    In the list `models`, the tables from a layer come after the tables from earlier layers. `capabilities`, `quirks`
    and `prices` take precedence over the `models` of earlier layers.
    """
    merged = MergedSettings(layers)
    for layer in layers:
        _add(merged, layer)
    return merged


def _add(merged: MergedSettings, layer: Layer) -> None:
    values, above = merged.values, layer.values
    if above.get("adapter", values.get("adapter", "chat")) != values.get("adapter", "chat"):
        values.pop("quirks", None)  # they belong to the other adapter
        if isinstance(tables := values.get("models"), list):
            values["models"] = [
                {key: value for key, value in table.items() if key != "quirks"} if isinstance(table, Mapping) else table
                for table in tables
            ]
    if "adapter" in above and "api" not in above:
        values.pop("api", None)  # the adapter decides the API
    if "api_key_env" in above:
        values.pop("api_key", None)  # it would win over the variable
    models = _add_models(merged, layer)
    for key, value in above.items():
        below = values.get(key)
        values[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        merged.origins[(key,)] = layer, (key,)
        for part in value if isinstance(value, Mapping) else ():
            merged.origins[key, part] = layer, (key, part)
    if models:
        values["models"] = models


_MODEL_TABLES = ("quirks", "prices")  # may be of all models, or of some


def _add_models(merged: MergedSettings, layer: Layer) -> list[Any]:
    above = layer.values
    below, own = merged.values.get("models", []), above.get("models", [])
    if not isinstance(below, list | tuple) or not isinstance(own, list | tuple):
        return []  # a wrong type, which is reported by the validation
    everywhere = above.get("capabilities")
    table = asdict(everywhere) if isinstance(everywhere, Capabilities) else everywhere
    for_all = dict(table) if isinstance(table, Mapping) else {}
    for name in _MODEL_TABLES:
        if isinstance(above.get(name), Mapping):
            for_all[name] = above[name]
    if not below:  # what is unknown of all of them must still win over what is known of their families
        for_all = {name: value for name, value in for_all.items() if value == "unknown"}
    tables = [*below, *([{"pattern": "*", **for_all}] if for_all else []), *own]
    for name in for_all:
        path = (name,) if name in _MODEL_TABLES else ("capabilities", name)
        merged.origins["models", len(below), name] = layer, path
    for index in range(len(own)):
        merged.origins["models", len(tables) - len(own) + index] = layer, ("models", index)
    return tables


def locate_errors(error: ValidationError, merged: MergedSettings) -> list[tuple[int, str]]:
    """Returns each validation error as a text with its line, sorted by line."""
    found = [merged.locate(path, text) for path, text in validation_errors(error)]
    return sorted(dict.fromkeys(found), key=lambda mistake: mistake[0])
