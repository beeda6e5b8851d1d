"""The parts of JSON Schema that endpoints accept, as data: `providers/facts/schemas.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cache
from typing import Any, Literal

from ...catalogue_path import catalogue_folder
from ...errors import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subset:
    """The accepted parts of a schema. The defaults accept everything.

    Attributes:
        source, checked: the page of the maker, and when it was read.
        root_object: the root has `"type": "object"`.
        root_refused: keywords that the root may not have.
        root_properties: the root has `properties`.
        refused: keywords that are refused everywhere.
        accepted: the only keywords that are accepted.
        formats: the only values of `format`.
        patterns: which regular expressions are accepted: "plain": without lookaround, back references and word
            boundaries; "whole": those that begin with ^ and end with $.
        min_items: the highest value of `minItems`.
        closed: every object has `"additionalProperties": false`.
        all_required: every property is required.
        listed_required: `required` names only what `properties` has.
        typed: every schema has a type, or one of these keywords.
        needs_items: an array has `items`.
        needs_properties: an object has `properties`.
        booleans: `true` and `false` are accepted as schemas.
        beside_ref, beside_any_of, beside_types: the only keywords beside `$ref`, `anyOf`, a list of types.
        references: where a `$ref` may lead: "local": into the schema; "$defs": into its definitions, or to the root;
            "recursive": to what contains it, and can't be written out; "none": nowhere.
        recursion: whether a schema may contain itself.
        values: what `enum` may list: "scalars", or values of "one_type".
        property_names: the pattern of a property's name. reserved_names: names that no property may have.
        depth, properties, enum_values, characters: limits of the whole schema. choices: of one `anyOf`.
        optional, unions, tools: limits of all strict tools of a request: optional properties, properties with several
            types, tools.
    """

    source: str = ""
    checked: date | None = None
    root_object: bool = False
    root_refused: tuple[str, ...] = ()
    root_properties: bool = False
    refused: tuple[str, ...] = ()
    accepted: tuple[str, ...] | None = None
    formats: tuple[str, ...] | None = None
    patterns: Literal["any", "plain", "whole"] = "any"
    min_items: int | None = None
    closed: bool = False
    all_required: bool = False
    listed_required: bool = False
    typed: tuple[str, ...] | None = None
    needs_items: bool = False
    needs_properties: bool = False
    booleans: bool = True
    beside_ref: tuple[str, ...] | None = None
    beside_any_of: tuple[str, ...] | None = None
    beside_types: tuple[str, ...] | None = None
    references: Literal["any", "local", "$defs", "recursive", "none"] = "any"
    recursion: bool = True
    values: Literal["any", "scalars", "one_type"] = "any"
    property_names: str | None = None
    reserved_names: tuple[str, ...] = ()
    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    characters: int | None = None
    choices: int | None = None
    optional: int | None = None
    unions: int | None = None
    tools: int | None = None

    def takes(self, keyword: str) -> bool:
        """Returns whether a keyword is accepted."""
        return keyword not in self.refused and (self.accepted is None or keyword in self.accepted)


ANYTHING = Subset()


@cache
def without_references(subset: Subset) -> Subset:
    """Returns a subset in which references are written out."""
    return subset if subset.references == "none" else replace(subset, references="recursive")


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The subsets that an endpoint accepts, by the use of a schema.

    Attributes:
        tool: of every tool.
        strict: also of a tool with `strict`. None: the endpoint makes no difference.
        format: of a response format that the model is held to.
        loose: of a response format that is sent without `strict`. None: the API has no such member.
    """

    tool: Subset = ANYTHING
    strict: Subset | None = ANYTHING
    format: Subset = ANYTHING
    loose: Subset | None = ANYTHING


@dataclass(frozen=True, slots=True)
class _Table:
    vendors: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, SchemaRules] = field(default_factory=dict)


@cache
def _table() -> _Table:
    read = tomllib.loads((catalogue_folder() / "facts" / "schemas.toml").read_text("utf-8"))
    subsets = {name: _subset(name, read["subsets"]) for name in read["subsets"]}
    uses = [each.name for each in fields(SchemaRules)]
    rows = {
        name: SchemaRules(*[subsets[row[use]] if use in row else None for use in uses])  # type: ignore[arg-type]
        for name, row in read["rows"].items()
    }
    return _Table(read["vendors"], rows)


def _subset(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Subset:
    own = dict(tables[name])
    extended = own.pop("extends", None)
    members: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    base = _subset(extended, tables) if extended else ANYTHING
    if "refused" in members:
        members["refused"] = (*base.refused, *members["refused"])
    return replace(base, **members)


def schema_rules(name: str | None, vendor: str | None, default: str) -> SchemaRules:
    """Returns what an endpoint accepts.

    Args:
        name: the row that the endpoint names.
        vendor: the maker of the model, which decides where the endpoint names none.
        default: the row of the wire format.

    Raises:
        ConfigError: there is no such row.
    """
    table = _table()
    found = name or table.vendors.get(vendor or "", default)
    if found not in table.rows:
        known = f"{did_you_mean(found, table.rows)}. Allowed: {', '.join(table.rows)}"
        raise ConfigError(f"the quirk schemas can't be {found!r}{known}")
    return table.rows[found]
