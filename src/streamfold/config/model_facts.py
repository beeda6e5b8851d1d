"""Facts about models: reads `families.toml` and the user's own file, and checks prices and quirks.

streamfold parses only the rows of `families.toml` that it needs. Parsing all rows would take longer than sending the
first request.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..adapters import find_adapter
from ..errors import ConfigError
from ..requests import NO_FAMILY, Family, ModelTable, bare_name
from ..types import Prices
from .catalogue import FAMILIES_FILE, catalogue_folder
from .history_facts import check_history_rules
from .layers import TomlFile
from .search_path import user_folder
from .tables import as_list, read_table, validation_error, validation_errors

_ROW = "\n[[families]]\n"
_PREFIX = re.compile(r"^prefix = (.+)$", re.MULTILINE)
_TUPLES = frozenset(each.name for each in fields(Family) if "tuple" in str(each.type))


class _Row(NamedTuple):
    text: str
    line: int


class _Index(NamedTuple):
    rows: Mapping[str, _Row]  # by prefix, not parsed yet
    hosts: Mapping[str, list[str]]  # by vendor
    partners: Mapping[str, list[str]]  # the hosts that other companies operate


def find_family(model: str) -> Family:
    """Returns what streamfold's `families.toml` says about a model, or `NO_FAMILY` if it contains nothing about the
    model.
    """
    rows, name = _index().rows, bare_name(model)
    found = next((row for end in range(len(name), 0, -1) if (row := rows.get(name[:end]))), None)
    return NO_FAMILY if found is None else _parsed(found)


def is_first_party_host(vendor: str | None, host: str) -> bool:
    """Returns True if the vendor or one of its partners serves the vendor's models at this host."""
    return any(fnmatchcase(host, pattern) for pattern in _index().hosts.get(vendor or "", ()))


def is_operated_by_maker(vendor: str | None, host: str) -> bool:
    """Returns True if the vendor of a model operates this host itself. Returns False for a partner's host."""
    by_others = any(fnmatchcase(host, pattern) for pattern in _index().partners.get(vendor or "", ()))
    return is_first_party_host(vendor, host) and not by_others


def examples(is_served: Callable[[str | None], bool]) -> Iterator[str]:
    """Yields names of example models. Leaves out the models of vendors for which `is_served(vendor)` returns False."""
    for row in dict.fromkeys(_index().rows.values()):
        if "\nexamples = " in row.text and is_served((family := _parsed(row)).vendor):
            yield from family.examples


def all_families() -> list[Family]:
    return [_parsed(row) for row in dict.fromkeys(_index().rows.values())]


def own_family(path: str | None, model: str) -> Family:
    """Returns what the user's own families file says about a model, or `NO_FAMILY` if it contains nothing about the
    model.

    Raises:
        ConfigError: the file is invalid, or the file in the setting `families` can't be read.
    """
    name = bare_name(model)
    prefixes = [(prefix, family) for family in own_families(path) for prefix in family.prefix]
    fitting = [(len(prefix), family) for prefix, family in prefixes if name.startswith(prefix)]
    return max(fitting, key=lambda found: found[0], default=(0, NO_FAMILY))[1]


def own_families(path: str | None) -> tuple[Family, ...]:
    """Returns the rows of a file with facts about models.

    Args:
        path: the path in the setting `families`. None means `families.toml` in the user's configuration directory.
    """
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
    """Returns the `[[families]]` rows of a file. At the first mistake, raises ConfigError with the line number."""
    rows = file.data.get("families", [])
    if unknown := next((key for key in file.data if key not in ("families", "sources", "hosts", "partners")), None):
        raise ConfigError(f"{file.place((unknown,))}: unknown key {unknown!r}. Write each row below [[families]]")
    if not isinstance(rows, list):
        raise ConfigError(f"{file.place(('families',))}: families: must be a list: write [[families]]")
    return tuple(_checked(file, at, row) for at, row in enumerate(rows))


def _checked(file: TomlFile, at: int, row: Any) -> Family:
    place = file.place(("families", at))
    try:
        given = dict(row)
        given["prefix"] = as_list(given.get("prefix", ()))
        if "place" in given or not given["prefix"] or not all(given["prefix"]):
            raise ConfigError(f"{place}: a row needs a non-empty prefix, and must not set place")
        family: Family = read_table(Family, given)
    except ValidationError as exc:
        path, text = validation_errors(exc)[0]
        key = ".".join(map(str, path))
        raise ConfigError(f"{file.place(('families', at, *path))}: families[{at}].{key}: {text}") from None
    return replace(family, prefix=tuple(bare_name(prefix) for prefix in family.prefix), place=place)


@cache
def _index() -> _Index:
    text = (catalogue_folder() / FAMILIES_FILE).read_text("utf-8")
    head, *bodies = text.split(_ROW)
    rows, line = {}, head.count("\n") + 2
    for body in bodies:
        if found := _PREFIX.search(body):
            row = _Row(body, line)
            rows.update(dict.fromkeys(as_list(json.loads(found[1])), row))
        line += body.count("\n") + 2
    tables = tomllib.loads("[hosts]" + head.partition("\n[hosts]")[2])
    return _Index(rows, tables["hosts"], tables["partners"])


@cache
def _parsed(row: _Row) -> Family:
    values = tomllib.loads(row.text) | {"place": f"{FAMILIES_FILE}:{row.line}"}
    values["prefix"] = as_list(values["prefix"])
    given: dict[str, Any] = {name: tuple(value) if name in _TUPLES else value for name, value in values.items()}
    return Family(**given)


def read_prices(prices: Mapping[str, Any]) -> Prices:
    """Parses a table of prices. Raises ValidationError if the prices are invalid."""
    try:
        read: Prices = read_table(Prices, prices)
    except ValueError as exc:
        if isinstance(exc, ValidationError):
            raise
        raise validation_error([((), str(exc))]) from None
    return read


def read_quirks(adapter: str, quirks: Mapping[str, Any]) -> Any:
    """Parses a table of quirks for an adapter. Returns None for an adapter without quirks.

    Raises:
        ValidationError: a quirk is unknown or its value is invalid.
    """
    kind = getattr(find_adapter(adapter), "Quirks", None)
    if kind is not None:
        return read_table(kind, quirks)
    if quirks:
        raise validation_error([((), f"the adapter {adapter!r} has no quirks")])
    return None


def check_models(models: Iterable[ModelTable], adapter: str | None) -> None:
    """Raises ValidationError if the prices, conversation rules or quirks in the list `models` contain a mistake.

    Args:
        adapter: the name of the adapter to which the quirks apply, or None if the configured adapter is invalid.
    """
    mistakes = []
    for index, table in enumerate(models):
        checks: dict[str, Callable[[], object]] = {
            "prices": partial(read_prices, table.prices),
            "history": partial(check_history_rules, table.history or {}),
        }
        if adapter is not None:
            checks["quirks"] = partial(read_quirks, adapter, table.quirks)
        for key, check in checks.items():
            try:
                check()
            except ValidationError as exc:
                mistakes += [((index, key, *path), text) for path, text in validation_errors(exc)]
    if mistakes:
        raise validation_error(mistakes)


def prices_in(common: Mapping[str, Any], tables: Iterable[ModelTable], model: str) -> dict[str, Any]:
    """Returns a model's prices. Prices in the list `models` take precedence over the common prices."""
    return dict(ChainMap(*(dict(table.prices) for table in reversed([*tables]) if table.fits(model)), dict(common)))
