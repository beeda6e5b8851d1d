"""Merges the settings of one provider from the catalogue, `streamfold.toml` and function arguments.

A layer consists of the settings from one source. All layers are merged, and the result is validated. Error messages and
the command `config show` say in which source each value is set.
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
    """A parsed TOML file.

    Attributes:
        origin: the file's name in error messages.
        is_foreign: True if the file is in the working directory and the user hasn't trusted it. Such a file may belong
            to someone else's repository, so streamfold sends no environment variable to a host that the file chooses.
    """

    origin: str
    text: str = field(repr=False)  # may hold keys
    data: Mapping[str, Any] = field(repr=False)
    is_foreign: bool = False

    @classmethod
    def parse(cls, origin: str, content: bytes) -> TomlFile:
        """Parses the content of a file. If the content isn't TOML, raises ConfigError with the line number."""
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
    """The settings of one provider from one source, such as a file or a function's arguments.

    Attributes:
        origin: the name of the source in error messages, if the source isn't a file.
        file: the file that contains the settings, or None.
        table: the path of the provider's table in the file.
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
        """Creates a layer from a table in a file. Without a table's path, the layer contains the entire file."""
        values: Any = file.data
        for part in table:
            values = values[part]
        return cls(values, file.origin, file, table)

    def has(self, path: KeyPath) -> bool:
        """Returns True if this layer sets a key. An item of a list counts as set if the layer sets the list."""
        values: Any = self.values
        for part in path:
            if not isinstance(values, Mapping):
                return True
            if part not in values:
                return False
            values = values[part]
        return True

    def place(self, path: KeyPath) -> str:
        """Returns the source of a setting: `file:line`, or the name of the function that was called with the
        setting.
        """
        return self.file.place((*self.table, *path)) if self.file else self.origin

    def mistake(self, path: KeyPath, text: str) -> tuple[int, str]:
        """Describes a mistake: returns the setting's line number, and a message that consists of the setting's source,
        its key and `text`. The setting may be missing in this layer.
        """
        key = (*self.table, *path)
        line = self.file.line(key) if self.file else 0
        return line, ": ".join(filter(None, (self.place(path), toml_path(key), text)))


@dataclass(frozen=True, slots=True)
class MergedSettings:
    """The merged settings of all layers before validation, and the source of each setting.

    Attributes:
        layers: the layers that were merged. Later layers take precedence.
        origins: for each key's path, the layer that sets the key, and the key's path in this layer.
    """

    layers: Sequence[Layer]
    values: dict[str, Any] = field(default_factory=dict, repr=False)  # may hold keys
    origins: dict[KeyPath, tuple[Layer, KeyPath]] = field(default_factory=dict, repr=False)

    def origin(self, path: KeyPath) -> tuple[Layer, KeyPath] | None:
        """Returns the layer that sets a key, and the key's path in this layer, or None if no layer sets the key."""
        if path[:1] == ("api_key",) and "api_key" not in self.values:
            path = ("api_key_env",)
        for end in range(len(path), 0, -1) if path[0] in self.values else ():
            if path[:end] in self.origins:
                layer, own = self.origins[path[:end]]
                own = (*own, *path[end:])
                return (layer, own) if layer.has(own) else None
        return None

    def locate(self, path: KeyPath, text: str) -> tuple[int, str]:
        """Describes a mistake: returns the setting's line number, and a message with the setting's source, its key and
        `text`."""
        top = next((layer for layer in reversed(self.layers) if layer.file), self.layers[-1])
        layer, own = self.origin(path) or (top, path)
        return layer.mistake(own, text)


def merge(layers: Sequence[Layer]) -> MergedSettings:
    """Merges settings from layers. Later layers take precedence. The keys of tables such as `quirks` and `headers` are
    merged one by one.

    The `models` of a layer are added after the `models` of earlier layers. A layer's `capabilities`, `quirks` and
    `prices` take precedence over the `models` of earlier layers.
    """
    merged = MergedSettings(layers)
    for layer in layers:
        _add(merged, layer)
    return merged


def _add(merged: MergedSettings, layer: Layer) -> None:
    values, above = merged.values, layer.values
    if above.get("adapter", values.get("adapter", "chat")) != values.get("adapter", "chat"):
        values.pop("quirks", None)  # the quirks belong to the other adapter
        if isinstance(tables := values.get("models"), list):
            values["models"] = [
                {key: value for key, value in table.items() if key != "quirks"} if isinstance(table, Mapping) else table
                for table in tables
            ]
    if "adapter" in above and "api" not in above:
        values.pop("api", None)  # the adapter decides the API
    if "api_key_env" in above:
        values.pop("api_key", None)  # it would take precedence over the variable
    models = _add_models(merged, layer)
    for key, value in above.items():
        below = values.get(key)
        values[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        merged.origins[(key,)] = layer, (key,)
        for part in value if isinstance(value, Mapping) else ():
            merged.origins[key, part] = layer, (key, part)
    if models:
        values["models"] = models


_MODEL_TABLES = ("quirks", "prices")  # tables that apply to all models or to some models


def _add_models(merged: MergedSettings, layer: Layer) -> list[Any]:
    above = layer.values
    below, own = merged.values.get("models", []), above.get("models", [])
    if not isinstance(below, list | tuple) or not isinstance(own, list | tuple):
        return []  # validation reports the wrong type
    everywhere = above.get("capabilities")
    table = asdict(everywhere) if isinstance(everywhere, Capabilities) else everywhere
    for_all = dict(table) if isinstance(table, Mapping) else {}
    for name in _MODEL_TABLES:
        if isinstance(above.get(name), Mapping):
            for_all[name] = above[name]
    if not below:  # only "unknown" must take precedence over the facts of families
        for_all = {name: value for name, value in for_all.items() if value == "unknown"}
    tables = [*below, *([{"pattern": "*", **for_all}] if for_all else []), *own]
    for name in for_all:
        path = (name,) if name in _MODEL_TABLES else ("capabilities", name)
        merged.origins["models", len(below), name] = layer, path
    for index in range(len(own)):
        merged.origins["models", len(tables) - len(own) + index] = layer, ("models", index)
    return tables


def locate_errors(error: ValidationError, merged: MergedSettings) -> list[tuple[int, str]]:
    """Returns each validation error as its line number and a message, sorted by line."""
    found = [merged.locate(path, text) for path, text in validation_errors(error)]
    return sorted(dict.fromkeys(found), key=lambda mistake: mistake[0])
