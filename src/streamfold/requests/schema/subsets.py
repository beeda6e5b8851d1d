"""The subsets of JSON Schema that endpoints accept, loaded from `providers/facts/schemas.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import cache
from typing import Any, Literal

from ...catalogue_path import catalogue_folder
from ...errors import ConfigError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subset:
    """The keywords and values that an endpoint accepts in a schema. A `Subset()` with the default values accepts every
    schema.

    Attributes:
        source, checked: the URL of the endpoint's documentation, and the date on which a person read it.
        root_object: True if the root must have `"type": "object"`.
        root_refused: keywords that the endpoint refuses at the root of a schema.
        root_properties: True if the root must have `properties`.
        refused: keywords that the endpoint refuses everywhere.
        accepted: the keywords that the endpoint accepts, if it refuses all other keywords. Otherwise None.
        formats: the values of `format` that the endpoint accepts.
        patterns: the regular expressions that the endpoint accepts. With "plain", a pattern may not contain lookaround,
            back references or word boundaries. With "whole", a pattern must be anchored with ^ and $.
        min_items: the highest value of `minItems` that the endpoint accepts.
        closed: True if every object must have `"additionalProperties": false`.
        all_required: True if every property must be required.
        listed_required: True if `required` may contain only names that are in `properties`.
        typed: every schema must contain `type` or one of these keywords. None if schemas need no type.
        needs_items: True if an array must have `items`.
        needs_properties: True if an object must have `properties`.
        booleans: True if the endpoint accepts `true` and `false` as schemas.
        beside_ref, beside_any_of, beside_types: the keywords that the endpoint accepts next to `$ref`, next to `anyOf`,
            and next to a list of types.
        references: the targets that a `$ref` may have: "local" (anywhere in the same schema), "$defs" (definitions and
            the root), "recursive" (only an enclosing schema, because other references are inlined) or "none".
        recursion: True if a schema may contain itself.
        values: the values that `enum` may contain. With "scalars", `enum` may not contain objects or lists. With
            "one_type", all values of `enum` must have the same type.
        property_names: the pattern that property names must match.
        reserved_names: property names that the endpoint refuses.
        depth, properties, enum_values, characters: the maximum numbers of nested levels, properties, enum values and
            characters in one complete schema.
        choices: the maximum number of alternatives in one `anyOf`.
        optional, unions, tools: the maximum number of optional properties, of properties with several types, and of
            tools. The limits `optional`, `unions` and `tools` apply to all strict tools of a request together.
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
        return keyword not in self.refused and (self.accepted is None or keyword in self.accepted)


ANYTHING = Subset()


@cache
def without_references(subset: Subset) -> Subset:
    return subset if subset.references == "none" else replace(subset, references="recursive")


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The subsets of JSON Schema that an endpoint accepts: one for each use of a schema in a request.

    Attributes:
        tool: the subset for the arguments of every tool.
        strict: an additional subset for strict tools, or None if the endpoint treats strict tools like other tools.
        format: the subset for a response format that the provider enforces.
        loose: the subset for a response format without `strict`, or None if the API has no `strict` field.
    """

    tool: Subset = ANYTHING
    strict: Subset | None = ANYTHING
    format: Subset = ANYTHING
    loose: Subset | None = ANYTHING


@cache
def _tables() -> tuple[Mapping[str, str], Mapping[str, SchemaRules]]:
    """Returns a mapping of vendors to the names of their rules, and a mapping of these names to the rules."""
    read = tomllib.loads((catalogue_folder() / "facts" / "schemas.toml").read_text("utf-8"))
    subsets = {name: _subset(name, read["subsets"]) for name in read["subsets"]}
    uses = [each.name for each in fields(SchemaRules)]
    rows = {
        name: SchemaRules(*[subsets[row[use]] if use in row else None for use in uses])  # type: ignore[arg-type]
        for name, row in read["rows"].items()
    }
    return read["vendors"], rows


def _subset(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Subset:
    own = dict(tables[name])
    extended = own.pop("extends", None)
    members: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    base = _subset(extended, tables) if extended else ANYTHING
    if "refused" in members:
        members["refused"] = (*base.refused, *members["refused"])
    return replace(base, **members)


def schema_rules(name: str | None, vendor: str | None, default: str) -> SchemaRules:
    """Returns the subsets of JSON Schema that an endpoint accepts.

    Args:
        name: the name of the rules that the endpoint's configuration selects, or None.
        vendor: the company that made the model. The company's rules apply if `name` is None.
        default: the name of the API's rules, which apply in all other cases.

    Raises:
        ConfigError: there are no rules with this name.
    """
    vendors, rows = _tables()
    found = name or vendors.get(vendor or "", default)
    if found not in rows:
        known = f"{did_you_mean(found, rows)}. Allowed: {', '.join(rows)}"
        raise ConfigError(f"the quirk schemas can't be {found!r}{known}")
    return rows[found]
