"""Settings of one provider, written in several places: the catalogue, `streamfold.toml`, arguments.

Each place is a layer. The values of all layers are merged first and validated once; an error, and `config show`, then
ask the layers where a value was written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
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
        origin: what errors call the file.
        is_foreign: whether it was found in a working directory, and the user has not said to trust it. It may have come
            with a checkout, so that no variable of the environment goes to a host that it chooses.
    """

    origin: str
    text: str = field(repr=False)  # may hold keys
    data: Mapping[str, Any] = field(repr=False)
    is_foreign: bool = False

    @classmethod
    def parse(cls, origin: str, content: bytes) -> TomlFile:
        """Reads the content of a file. Raises ConfigError with the line if it is not TOML."""
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
        """Returns `file:line` of a key, or the file alone if the line was not found."""
        line = line_of(self._lines, path)
        return f"{self.origin}:{line}" if line else self.origin

    def line(self, path: KeyPath) -> int:
        """Returns the line of a key; 0 if it was not found."""
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
    """Settings as they were written in one place.

    Attributes:
        origin: what errors call the place, if it is not a file.
        file: the file that they come from.
        table: the path of their table in the file.
    """

    values: Mapping[str, Any] = field(repr=False)  # may hold keys
    origin: str
    file: TomlFile | None = None
    table: KeyPath = ()

    @property
    def catalogue(self) -> bool:
        """Whether these are settings of the catalogue."""
        return self.file is not None and not self.table

    @classmethod
    def of_file(cls, file: TomlFile, *table: str) -> Layer:
        """A table of a file; without a path, the whole file."""
        values: Any = file.data
        for part in table:
            values = values[part]
        return cls(values, file.origin, file, table)

    def has(self, path: KeyPath) -> bool:
        """Whether a setting is written here. Of a list: the whole of it."""
        values: Any = self.values
        for part in path:
            if not isinstance(values, Mapping):
                return True
            if part not in values:
                return False
            values = values[part]
        return True

    def place(self, path: KeyPath) -> str:
        """Returns `file:line` of a setting; of an argument, what it is an argument of."""
        return self.file.place((*self.table, *path)) if self.file else self.origin

    def describe(self, path: KeyPath, text: str) -> str:
        """Returns a line about a setting that is written here, or missing: place, key and text."""
        key = toml_path((*self.table, *path))
        return ": ".join(filter(None, (self.place(path), key, text)))

    def line(self, path: KeyPath) -> int:
        """Returns the line of a setting in its file; 0 if there is none."""
        return self.file.line((*self.table, *path)) if self.file else 0


def merge(layers: Iterable[Layer]) -> dict[str, Any]:
    """Merges settings, lowest layer first. Tables (quirks, headers, timeouts, ...) are merged key by key.

    Tables of `models` come after those of lower layers. `capabilities`, `quirks` and `prices` also win over the
    `models` of lower layers: whoever writes them knows which model is used.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer.values)
    return merged


def _merge(base: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    if above.get("adapter", base.get("adapter", "chat")) != base.get("adapter", "chat"):
        _drop_quirks(merged)  # they belong to the other adapter
    if "adapter" in above and "api" not in above:
        merged.pop("api", None)  # whoever writes an adapter chooses the API
    if "api_key_env" in above:
        merged.pop("api_key", None)  # it would win over the variable
    models = _models(merged, above)
    for key, value in above.items():
        below = merged.get(key)
        merged[key] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return {**merged, **models}


def _drop_quirks(values: dict[str, Any]) -> None:
    values.pop("quirks", None)
    if isinstance(models := values.get("models"), list):
        values["models"] = [_without_quirks(table) for table in models]


def _without_quirks(table: Any) -> Any:
    return {key: value for key, value in table.items() if key != "quirks"} if isinstance(table, Mapping) else table


_MODEL_TABLES = ("quirks", "prices")  # may be of all models, or of some


def _models(base: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    below, own = base.get("models", []), above.get("models", [])
    if not isinstance(below, list | tuple) or not isinstance(own, list | tuple):
        return {}  # nothing to join; a wrong type is reported by the validation
    everywhere = above.get("capabilities")
    table = asdict(everywhere) if isinstance(everywhere, Capabilities) else everywhere
    for_all = dict(table) if isinstance(table, Mapping) else {}
    for name in _MODEL_TABLES:
        if isinstance(above.get(name), Mapping):
            for_all[name] = above[name]
    if not below:  # what is unknown of all of them must still win over what is known of their families
        for_all = {name: said for name, said in for_all.items() if said == "unknown"}
    tables = [*below, *([{"pattern": "*", **for_all}] if for_all else []), *own]
    return {"models": tables} if tables else {}


def find_layer(layers: Sequence[Layer], path: KeyPath, merged: Mapping[str, Any]) -> tuple[Layer, KeyPath] | None:
    """Returns the layer that a setting comes from, and its path there, which for `models` has another index.

    Args:
        layers: lowest first.
        merged: the values of all of them, as `merge` returned them.
    """
    if len(path) > 1 and path[0] == "models" and isinstance(path[1], int):
        table = merged["models"][path[1]]
        for layer in reversed(layers):
            own = layer.values.get("models")
            for index, candidate in enumerate(own if isinstance(own, list | tuple) else ()):
                if candidate is table or _without_quirks(candidate) == table:
                    return layer, ("models", index, *path[2:])
        # It was made of these.
        path = path[2:] if path[2:3] and path[2] in _MODEL_TABLES else ("capabilities", *path[2:])
    if path[:1] == ("api_key",) and not any(layer.has(path) for layer in layers):
        path = ("api_key_env",)
    return next(((layer, path) for layer in reversed(layers) if layer.has(path)), None)


def locate_errors(error: ValidationError, layers: Sequence[Layer], merged: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Returns every mistake that the validation found as a text with its place, sorted by line."""
    top = next((layer for layer in reversed(layers) if layer.file), layers[-1])
    found = []
    for path, text in validation_errors(error):
        layer, own_path = find_layer(layers, path, merged) or (top, path)
        found.append((layer.line(own_path), layer.describe(own_path, text)))
    return sorted(dict.fromkeys(found), key=lambda mistake: mistake[0])
