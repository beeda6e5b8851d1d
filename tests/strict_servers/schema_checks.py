"""Checks of a JSON schema against a maker's subset. Each returns the place of the first fault, or None."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Any  # an object, or a boolean

IN_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
INSIDE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems")
DEFINITIONS = ("$defs", "definitions")
PRIMITIVE = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Node:
    """A subschema: its place, how it is reached, and how many objects it stands in."""

    place: str
    schema: Schema
    via: str  # the keyword that it stands in; "" for the root
    depth: int


def nodes(schema: Schema, place: str = "", via: str = "", depth: int = 0) -> Iterator[Node]:
    """Yields a schema and all schemas in it."""
    yield Node(place or "root", schema, via, depth)
    if not isinstance(schema, Mapping):
        return
    inner = depth + (schema.get("type") == "object" or "properties" in schema)
    for key in IN_MAPS:
        for name, each in (schema.get(key) or {}).items() if isinstance(schema.get(key), Mapping) else ():
            yield from nodes(each, f"{place}/{key}/{name}", key, 0 if key in DEFINITIONS else inner)
    for key in IN_LISTS:
        for number, each in enumerate(schema.get(key) or () if isinstance(schema.get(key), list) else ()):
            yield from nodes(each, f"{place}/{key}/{number}", key, depth)
    for key in INSIDE:
        each = schema.get(key)
        plain = key == "additionalProperties" and isinstance(each, bool)
        if isinstance(each, Mapping | bool) and not plain:
            yield from nodes(each, f"{place}/{key}", key, inner if key == "additionalProperties" else depth)


def _objects(schema: Schema) -> Iterator[Node]:
    return (each for each in nodes(schema) if isinstance(each.schema, Mapping))


def _types(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type")
    return [given] if isinstance(given, str) else list(given or [])


def _is_object(schema: Mapping[str, Any]) -> bool:
    return "object" in _types(schema) or "properties" in schema


def root_object(schema: Schema) -> str | None:
    """A root whose type is not `object`."""
    return None if isinstance(schema, Mapping) and schema.get("type") == "object" else "root"


def root_without(schema: Schema, keywords: Sequence[str]) -> str | None:
    """A keyword that the root may not have."""
    return next((f"root/{key}" for key in keywords if isinstance(schema, Mapping) and key in schema), None)


def without(schema: Schema, keywords: Sequence[str], types: Sequence[str] = ()) -> str | None:
    """A keyword that is refused anywhere; with `types` only beside one of these types."""
    for node in _objects(schema):
        for key in keywords:
            if key in node.schema and (not types or set(_types(node.schema)) & set(types)):
                return f"{node.place}/{key}"
    return None


def only(schema: Schema, keywords: Sequence[str]) -> str | None:
    """A keyword that is not in the subset, for makers that refuse unknown ones."""
    for node in _objects(schema):
        for key in node.schema:
            if key not in keywords:
                return f"{node.place}/{key}"
    return None


def at_most(schema: Schema, keyword: str, value: int) -> str | None:
    """A keyword with a greater value (Claude knows `minItems` 0 and 1)."""
    return next(
        (f"{each.place}/{keyword}" for each in _objects(schema) if (each.schema.get(keyword) or 0) > value), None
    )


def closed(schema: Schema) -> str | None:
    """An object without `additionalProperties: false`."""
    for node in _objects(schema):
        if _is_object(node.schema) and node.schema.get("additionalProperties") is not False:
            return node.place
    return None


def all_required(schema: Schema) -> str | None:
    """A property that is not required."""
    for node in _objects(schema):
        for name in node.schema.get("properties") or {}:
            if name not in (node.schema.get("required") or ()):
                return f"{node.place}/properties/{name}"
    return None


def some_required(schema: Schema) -> str | None:
    """An object without any required property."""
    return next((n.place for n in _objects(schema) if _is_object(n.schema) and not n.schema.get("required")), None)


def required_known(schema: Schema) -> str | None:
    """A name in `required` that is not among the properties."""
    for node in _objects(schema):
        for name in node.schema.get("required") or ():
            if name not in (node.schema.get("properties") or {}):
                return f"{node.place}/required"
    return None


def typed(schema: Schema, instead: Sequence[str] = ("$ref", "anyOf"), root: bool = True) -> str | None:
    """A schema without a type, or a keyword instead of it."""
    for node in _objects(schema):
        if (root or node.via) and not node.schema.get("type") and not any(key in node.schema for key in instead):
            return node.place
    return None


def type_alone(schema: Schema, beside: Sequence[str] = ("anyOf", "$ref")) -> str | None:
    """A type beside `anyOf` or `$ref`."""
    for node in _objects(schema):
        if "type" in node.schema and any(key in node.schema for key in beside):
            return node.place
    return None


def one_type(schema: Schema) -> str | None:
    """A list of types."""
    return next((each.place for each in _objects(schema) if isinstance(each.schema.get("type"), list)), None)


def types_alone(schema: Schema, allowed: Sequence[str]) -> str | None:
    """A list of types beside other keywords than these."""
    for node in _objects(schema):
        if isinstance(node.schema.get("type"), list) and set(node.schema) - {"type", *allowed}:
            return node.place
    return None


def siblings(schema: Schema, of: Sequence[str], allowed: Sequence[str]) -> str | None:
    """Another keyword beside `$ref` or `anyOf`. The root may also have `$defs`."""
    for node in _objects(schema):
        more = set(node.schema) - {*of, *allowed, *(DEFINITIONS if not node.via else ())}
        if any(key in node.schema for key in of) and more:
            return f"{node.place}/{min(more)}"
    return None


def no_booleans(schema: Schema) -> str | None:
    """`true` or `false` as a schema."""
    return next((each.place for each in nodes(schema) if isinstance(each.schema, bool)), None)


def no_empty(schema: Schema) -> str | None:
    """`{}` as the schema of a property or of items."""
    for node in _objects(schema):
        if node.via in ("properties", "items", "prefixItems") and not set(node.schema) - {
            "title",
            "description",
            "default",
        }:
            return node.place
    return None


def has_properties(schema: Schema, empty: bool = True) -> str | None:
    """An object without `properties`; with `empty` False also one that has none in it."""
    for node in _objects(schema):
        given = node.schema.get("properties")
        if "object" in _types(node.schema) and (given is None or (not empty and not given)):
            return node.place
    return None


def root_has_properties(schema: Schema) -> str | None:
    """A root object without `properties`."""
    return None if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping) else "root"


def has_items(schema: Schema) -> str | None:
    """An array without `items`."""
    return next((n.place for n in _objects(schema) if "array" in _types(n.schema) and "items" not in n.schema), None)


def formats(schema: Schema, allowed: Collection[str]) -> str | None:
    """A format that is not in the list."""
    for node in _objects(schema):
        if "format" in node.schema and node.schema["format"] not in allowed:
            return f"{node.place}/format"
    return None


def plain_patterns(schema: Schema) -> str | None:
    """A pattern with lookaround, a back reference or a word boundary."""
    for node in _objects(schema):
        if re.search(r"\(\?[=!<]|\\[1-9bB]", str(node.schema.get("pattern") or "")):
            return f"{node.place}/pattern"
    return None


def whole_patterns(schema: Schema) -> str | None:
    """A pattern that does not begin with ^ and end with $."""
    for node in _objects(schema):
        pattern = node.schema.get("pattern")
        if isinstance(pattern, str) and not (pattern.startswith("^") and pattern.endswith("$")):
            return f"{node.place}/pattern"
    return None


def plain_enums(
    schema: Schema, kinds: Sequence[str] = ("string", "integer", "number", "boolean", "null")
) -> str | None:
    """An enum with objects or lists, or with values of a kind that is not taken."""
    known = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
    taken = tuple(known[kind] for kind in kinds)
    for node in _objects(schema):
        for value in node.schema.get("enum") or ():
            right = isinstance(value, taken) and not (isinstance(value, bool) and "boolean" not in kinds)
            if not right:
                return f"{node.place}/enum"
    return None


def enums_of_one_type(schema: Schema) -> str | None:
    """An enum of several types (null is allowed in a list of two types)."""
    for node in _objects(schema):
        kinds = {float if type(value) is int else type(value) for value in node.schema.get("enum") or ()}
        if len(kinds - {type(None)}) > 1:
            return f"{node.place}/enum"
    return None


def _target(schema: Schema, reference: str) -> Schema:
    found: Any = schema
    for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def local_references(schema: Schema, places: Sequence[str] = ()) -> str | None:
    """A reference out of the document, to nothing, or to another place than these."""
    for node in _objects(schema):
        reference = node.schema.get("$ref")
        if reference is None:
            continue
        good = str(reference).startswith("#") and _target(schema, str(reference)) is not None
        if not good or (places and not any(str(reference).startswith(place) for place in places)):
            return f"{node.place}/$ref"
    return None


def no_recursion(schema: Schema, required_only: bool = False) -> str | None:
    """A schema that refers to itself; with `required_only` only if no optional property, list or choice is between."""
    soft = ("items", "anyOf", "oneOf", "additionalProperties", "prefixItems") if required_only else ()

    def walk(node: Schema, trail: tuple[str, ...]) -> str | None:
        if not isinstance(node, Mapping):
            return None
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in trail:
                return reference
            found = walk(_target(schema, reference), (*trail, reference))
            if found:
                return found
        for key in (*IN_MAPS, *IN_LISTS, *INSIDE):
            value = node.get(key)
            if key in DEFINITIONS or key in soft:
                continue
            inside = value.items() if isinstance(value, Mapping) and key in IN_MAPS else ()
            if required_only and key == "properties":
                inside = [(name, each) for name, each in inside if name in (node.get("required") or ())]
            listed = [each for _, each in inside] or (value if isinstance(value, list) else [])
            if isinstance(value, Mapping) and key not in IN_MAPS:
                listed = [value]
            for each in listed:
                found = walk(each, trail)
                if found:
                    return found
        return None

    return walk(schema, ("#",))


def property_names(schema: Schema, pattern: str) -> str | None:
    """The name of a property with other characters."""
    for node in _objects(schema):
        for name in node.schema.get("properties") or {}:
            if not re.fullmatch(pattern, str(name)):
                return f"{node.place}/properties/{name}"
    return None


def reserved_names(schema: Schema, names: Sequence[str]) -> str | None:
    """A property with a name that is a keyword."""
    for node in _objects(schema):
        for name in node.schema.get("properties") or {}:
            if name in names:
                return f"{node.place}/properties/{name}"
    return None


def definitions_at_root(schema: Schema) -> str | None:
    """`$defs` below the root."""
    return next((n.place for n in _objects(schema) if n.via and any(key in n.schema for key in DEFINITIONS)), None)


def depth(schema: Schema, limit: int) -> str | None:
    """Too many objects in each other."""
    return next((each.place for each in nodes(schema) if each.depth > limit), None)


def properties(schema: Schema, limit: int) -> str | None:
    """Too many properties together."""
    count = sum(len(each.schema.get("properties") or {}) for each in _objects(schema))
    return f"{count} properties" if count > limit else None


def enum_values(schema: Schema, limit: int) -> str | None:
    """Too many values of enums together."""
    count = sum(len(each.schema.get("enum") or ()) for each in _objects(schema))
    return f"{count} values" if count > limit else None


def choices(schema: Schema, limit: int) -> str | None:
    """Too many alternatives in an `anyOf`."""
    return next((each.place for each in _objects(schema) if len(each.schema.get("anyOf") or ()) > limit), None)


def characters(schema: Schema, limit: int) -> str | None:
    """A schema that is too long when written."""
    length = len(json.dumps(schema, separators=(",", ":")))
    return f"{length} characters" if length > limit else None


def optional(schema: Schema, limit: int) -> str | None:
    """Too many optional properties together."""
    count = sum(
        name not in (each.schema.get("required") or ())
        for each in _objects(schema)
        for name in each.schema.get("properties") or {}
    )
    return f"{count} optional parameters" if count > limit else None


def unions(schema: Schema, limit: int) -> str | None:
    """Too many properties with several types together."""
    count = sum(
        "anyOf" in each or isinstance(each.get("type"), list)
        for node in _objects(schema)
        for each in (node.schema.get("properties") or {}).values()
        if isinstance(each, Mapping)
    )
    return f"{count} parameters with unions" if count > limit else None


def no_refs_in_all_of(schema: Schema) -> str | None:
    """`$ref` inside `allOf`."""
    return next((each.place for each in _objects(schema) if each.via == "allOf" and "$ref" in each.schema), None)


CHECKS: Mapping[str, Callable[..., str | None]] = {
    check.__name__: check
    for check in (
        root_object, root_without, without, only, at_most, closed, all_required, some_required, required_known, typed,
        type_alone, one_type, types_alone, siblings, no_booleans, no_empty, has_properties, root_has_properties,
        has_items, formats, plain_patterns, whole_patterns, plain_enums, enums_of_one_type, local_references,
        no_recursion, property_names, reserved_names, definitions_at_root, depth, properties, enum_values, choices,
        characters, optional, unions, no_refs_in_all_of,
    )
}  # fmt: skip
