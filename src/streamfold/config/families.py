"""`families.toml`: facts about models by the beginnings of their names. Ours, and one of the user's own in front of it.

Ours is read when the first model is looked up, and of its rows only those that are looked up are parsed: the whole of
it would take longer than a program takes to ask its first question.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..requests import NO_FAMILY, Family, bare_name
from ..values import ConfigError
from .catalogue import FAMILIES_FILE, catalogue_folder
from .layers import TomlFile
from .search_path import user_folder
from .toml_tables import read_table, validation_errors

_ROW = "\n[[families]]\n"
_PREFIX = re.compile(r"^prefix = (.+)$", re.MULTILINE)
_TUPLES = frozenset(each.name for each in fields(Family) if "tuple" in str(each.type))


class _Row(NamedTuple):
    """A row of our file, not parsed yet."""

    text: str
    line: int


class _Index(NamedTuple):
    rows: Mapping[str, _Row]  # by prefix
    hosts: Mapping[str, list[str]]  # by vendor


def find_family(model: str) -> Family:
    """Returns the facts of our file about a model; `NO_FAMILY` if it has none."""
    rows, name = _index().rows, bare_name(model)
    found = next((row for end in range(len(name), 0, -1) if (row := rows.get(name[:end]))), None)
    return NO_FAMILY if found is None else _parsed(found)


def is_first_party_host(vendor: str | None, host: str) -> bool:
    """Whether the maker of a model serves it at a host itself."""
    return any(fnmatchcase(host, pattern) for pattern in _index().hosts.get(vendor or "", ()))


def examples(is_served: Callable[[str | None], bool]) -> Iterator[str]:
    """Yields the example models of all makers for whose name a function returns True."""
    for row in dict.fromkeys(_index().rows.values()):
        if "\nexamples = " in row.text and is_served((family := _parsed(row)).vendor):
            yield from family.examples


def all_families() -> list[Family]:
    """Returns all rows of our file."""
    return [_parsed(row) for row in dict.fromkeys(_index().rows.values())]


def own_family(path: str | None, model: str) -> Family:
    """Returns the facts of the user's own file about a model; `NO_FAMILY` if it has none.

    Raises:
        ConfigError: a mistake in the file; or it was named and can't be read.
    """
    name = bare_name(model)
    fitting = [(len(prefix), family) for family in own_families(path) for prefix in family.prefix]
    fitting = [(length, family) for length, family in fitting if any(map(name.startswith, family.prefix))]
    return max(fitting, key=lambda found: found[0], default=(0, NO_FAMILY))[1]


def own_families(path: str | None) -> tuple[Family, ...]:
    """Returns the rows of the user's own file: the one that is named, else `families.toml` in the user's directory."""
    if path is not None:
        file = Path(path).expanduser()
    elif (folder := user_folder()) is None:
        return ()
    else:
        file = folder / "streamfold" / FAMILIES_FILE
    try:
        changed = file.stat().st_mtime_ns
    except OSError as exc:
        if path is None:
            return ()
        raise ConfigError(f"families: {file}: can't be read: {exc.strerror}") from exc
    return _read_own(file, changed)


@lru_cache(maxsize=8)
def _read_own(file: Path, changed: int) -> tuple[Family, ...]:
    try:
        content = file.read_bytes()
    except OSError as exc:
        raise ConfigError(f"families: {file}: can't be read: {exc.strerror}") from exc
    return read_families(TomlFile.parse(str(file), content))


def read_families(file: TomlFile) -> tuple[Family, ...]:
    """Returns the rows of a file. Raises ConfigError for the first mistake in it, with its place."""
    rows = file.data.get("families", [])
    if unknown := next((key for key in file.data if key not in ("families", "sources", "hosts")), None):
        raise ConfigError(f"{file.place((unknown,))}: unknown key {unknown!r}. A row is written below [[families]]")
    if not isinstance(rows, list):
        raise ConfigError(f"{file.place(('families',))}: families: must be a list: write [[families]]")
    return tuple(_checked(file, at, row) for at, row in enumerate(rows))


def _checked(file: TomlFile, at: int, row: Any) -> Family:
    place = file.place(("families", at))
    try:
        given = dict(row)
        given["prefix"] = _listed(given.get("prefix", ()))
        if "place" in given or not given["prefix"] or not all(given["prefix"]):
            raise ConfigError(f"{place}: a row has a prefix, which is not empty, and no place")
        family: Family = read_table(Family, given)
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        key = ".".join(map(str, path))
        raise ConfigError(f"{file.place(('families', at, *path))}: families[{at}].{key}: {text}") from None
    return replace(family, prefix=tuple(bare_name(prefix) for prefix in family.prefix), place=place)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


@cache
def _index() -> _Index:
    text = (catalogue_folder() / FAMILIES_FILE).read_text("utf-8")
    head, *bodies = text.split(_ROW)
    rows, line = {}, head.count("\n") + 2
    for body in bodies:
        if found := _PREFIX.search(body):
            row = _Row(body, line)
            rows.update(dict.fromkeys(_listed(json.loads(found[1])), row))
        line += body.count("\n") + 2
    return _Index(rows, tomllib.loads("[hosts]" + head.partition("\n[hosts]")[2])["hosts"])


@cache
def _parsed(row: _Row) -> Family:
    values = tomllib.loads(row.text) | {"place": f"{FAMILIES_FILE}:{row.line}"}
    values["prefix"] = _listed(values["prefix"])
    given: dict[str, Any] = {name: tuple(value) if name in _TUPLES else value for name, value in values.items()}
    return Family(**given)
