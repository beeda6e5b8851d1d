"""Rewrites a JSON schema so that it uses only the keywords that an endpoint accepts. The new schema accepts at least
the values that the original schema accepts. A constraint that the endpoint doesn't accept is expressed with other
keywords, moved into the description, or reported as a problem.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ...types import resolve_ref
from .json_schema import (
    ANNOTATIONS,
    CONDITIONS,
    SINGLE,
    Passed,
    check_shapes,
    inline_refs,
    map_subschemas,
    subschemas,
)
from .merging import both, flatten_union, one_of, types_of
from .subsets import Subset

# The type that a keyword implies if a schema has no `type`. By the standard, `properties` accepts every value that
# isn't an object, but people who write `properties` mean an object.
_IMPLIED = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_OF_ONE_TYPE = {word: kind for kind, words in _IMPLIED.items() for word in words}
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
_ANY = ("string", "number", "boolean", "object", "array", "null")
_SILENT = ANNOTATIONS | {"$schema", "$id", "$anchor", "discriminator"}
_NOT_PLAIN = re.compile(r"\(\?[=!<]|\\[1-9bB]")
_DEFINITIONS = ("$defs", "definitions")
# Closing an object inside these keywords would change which answers fit.
_NEVER_CLOSED = (*CONDITIONS, "contains", "propertyNames", "dependentSchemas")
_WORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "of the pattern {}",
    "format": "in the format {}",
}


@dataclass(slots=True)
class Fitted:
    """A schema that uses only keywords that the endpoint accepts. Don't modify `schema`, because streamfold caches it.

    Attributes:
        changes: a description of each change. The description begins with the path inside the schema.
        routine: descriptions of changes that the schema of every pydantic model needs. These changes don't affect the
            parsed value, because `read_as` later reverses them. For example, `read_as` replaces nulls with defaults.
        problems: the reasons why the endpoint would still refuse the schema, or why the rewritten schema has a
            different meaning.
    """

    schema: dict[str, Any]
    changes: list[str] = field(default_factory=list)
    routine: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def fit_schema(schema: Mapping[str, Any], subset: Subset, *, at: str = "parameters") -> Fitted:
    """Rewrites a JSON schema for an endpoint that accepts only a subset of JSON Schema. The result lists all changes
    and the remaining problems.

    Raises:
        ConfigError: the value isn't a JSON schema. The error message begins with the path of the invalid value.

    >>> fit_schema({"type": "integer", "minimum": 1}, Subset(refused=("minimum",)))
    Fitted(schema={'type': 'integer', 'description': 'Must be at least 1.'}, \
changes=['parameters: minimum moved into the description'], routine=[], problems=[])
    """
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError):  # not JSON, which encoding the request reports
        return _Fitter(subset, at).fit(schema)
    return _fit_text(text, subset, at)


@lru_cache(512)  # programs send the same tools in each request
def _fit_text(text: str, subset: Subset, at: str) -> Fitted:
    return _Fitter(subset, at).fit(json.loads(text))


class _Fitter:
    def __init__(self, subset: Subset, at: str) -> None:
        self._subset = subset
        self._at = at
        self._root: Mapping[str, Any] = {}
        self._recursive: frozenset[str] = frozenset()
        self._out = Fitted({})

    def fit(self, schema: Mapping[str, Any]) -> Fitted:
        check_shapes(schema, self._at)
        self._root = self._references(schema)
        self._recursive = _recursive_refs(self._root)
        self._out.schema = self._node(self._root, self._at)
        self._out.problems += _beyond_limits(self._out.schema, self._subset, self._at)
        return self._out

    def _changed(self, path: str, what: str) -> None:
        self._out.changes.append(f"{path}: {what}")

    def _problem(self, path: str, what: str) -> None:
        self._out.problems.append(f"{path}: {what}")

    # --- references ---------------------------------------------------------------------------------------------------

    def _references(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        subset, at = self._subset, self._at
        if subset.references == "$defs":
            schema, renamed = _rename_definitions(schema, at)
            self._out.changes += renamed
        looped = frozenset() if subset.recursion else _recursive_refs(schema)

        def must_go(node: Mapping[str, Any], path: str) -> bool:
            ref, beside = node["$ref"], node.keys() - {"$ref"} - (ANNOTATIONS - {"description"})
            if path == at:
                beside -= set(_DEFINITIONS)
            return (
                subset.references in ("none", "recursive")
                or ref in looped
                or (path == at and subset.root_object)
                or (subset.beside_ref is not None and not beside <= set(subset.beside_ref))
                or (subset.references == "$defs" and ref != "#" and not ref.startswith("#/$defs/"))
            )

        made, inlined = inline_refs(schema, wanted=must_go, at=at)
        self._out.changes += [change for change in inlined if not change.endswith("in this schema)")]
        return made

    def _reference(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        # A reference that can't be resolved is replaced by a schema that accepts any value, or any object.
        subset, ref = self._subset, node["$ref"]
        target = resolve_ref(self._root, ref)
        leads_nowhere = subset.references != "any" and not isinstance(target, Mapping)
        looped = not subset.recursion and ref in self._recursive
        if leads_nowhere or looped or subset.references == "none":
            why = "its target is missing" if leads_nowhere else "it is recursive"
            self._changed(path, f"{ref} became a schema for any value ({why})")
            kinds = types_of(target) if isinstance(target, Mapping) else []
            made: dict[str, Any] = {"type": kinds[0]} if len(kinds) == 1 else {}
            if not leads_nowhere:
                made["description"] = f"In the form of {ref.rpartition('/')[2]}."
            return made
        if subset.beside_ref is not None:
            allowed = ("$ref", *subset.beside_ref, *(_DEFINITIONS if path == self._at else ()))
            for keyword in [keyword for keyword in node if keyword not in allowed]:
                del node[keyword]
                self._noted(keyword, path, "removed (not allowed next to $ref)")
        return node

    def _noted(self, keyword: str, path: str, what: str) -> None:
        routine = keyword == "default"  # `read_as` fills in the default
        (self._out.routine if routine else self._out.changes).append(f"{path}: {keyword} {what}")

    # --- one schema ---------------------------------------------------------------------------------------------------

    def _node(self, node: Any, path: str) -> Any:
        if isinstance(node, bool) and not self._subset.booleans:
            self._changed(path, f"{str(node).lower()} became a schema for any value")
            node = {} if node else {"description": "Must not be given."}
        if not isinstance(node, Mapping):
            return node
        node = dict(node)
        moved: dict[str, Any] = {}
        node = self._conjunction(node, path, moved)
        if isinstance(node.get("$ref"), str):
            node = self._reference(node, path)
        if "$ref" not in node:
            node = self._unions(node, path, moved)
            node = self._values(node, path, moved)
            self._arrays(node, path, moved)
            self._names(node, path, moved)
        self._keywords(node, path, moved)
        if "$ref" not in node:
            node = self._typed(node, path)
            node = self._objects(node, path)
        if moved:
            self._changed(path, f"{', '.join(moved)} moved into the description")
            said = [*filter(None, [node.get("description"), _in_words(moved)])]
            node["description"] = " ".join(said)
        single = [keyword for keyword in SINGLE if keyword == "items" or not isinstance(node.get(keyword), bool)]
        return map_subschemas(node, path, self._node, single=single)

    def _takes(self, keyword: str, path: str) -> bool:
        if self._subset.closed and keyword in _NEVER_CLOSED:
            return False
        return self._subset.takes(keyword) and not (path == self._at and keyword in self._subset.root_refused)

    def _both(self, first: dict[str, Any], second: Any) -> Any:
        # Recursive schemas aren't expanded.
        for one, other in ((first, second), (second, first)):
            if isinstance(one, Mapping) and one.get("$ref") in self._recursive:
                target = resolve_ref(self._root, one["$ref"])
                kinds = set(types_of(target)) if isinstance(target, Mapping) else set()
                says_no_more = isinstance(other, Mapping) and other.keys() <= {"type"}
                return dict(one) if says_no_more and kinds <= set(types_of(other) or kinds) else None
        return both(first, second, self._root)

    def _conjunction(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> dict[str, Any]:
        """Merges the schemas in `allOf` into one schema, if the endpoint doesn't accept `allOf`, or requires
        `"additionalProperties": false` for each object."""
        parts = node.get("allOf")
        if not isinstance(parts, list) or (self._takes("allOf", path) and not self._subset.closed):
            return node
        made = {keyword: value for keyword, value in node.items() if keyword != "allOf"}
        apart = []
        for part in parts:
            merged = self._both(made, part)
            if isinstance(merged, dict):
                made = merged
            else:
                apart.append(part)
        self._changed(path, "allOf became one schema")
        if apart:
            moved["allOf"] = apart
            if self._subset.closed:
                self._problem(path, "allOf can't be merged into one schema")
        return self._conjunction(made, path, moved) if "allOf" in made else made

    def _unions(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> dict[str, Any]:
        for keyword in ("oneOf", "anyOf"):
            alternatives = node.get(keyword)
            if not isinstance(alternatives, list):
                continue
            if not self._takes(keyword, path):
                if keyword == "oneOf" and self._takes("anyOf", path) and "anyOf" not in node:
                    self._changed(path, "oneOf became anyOf")
                    node = {("anyOf" if name == "oneOf" else name): value for name, value in node.items()}
                else:
                    node = self._without_union(node, keyword, path, moved)
            elif keyword == "anyOf" and len(alternatives) > (self._subset.choices or len(alternatives)):
                moved[keyword] = node.pop(keyword)
            elif keyword == "anyOf":
                node = self._distributed(node, path, moved)
        return node

    def _without_union(self, node: dict[str, Any], keyword: str, path: str, moved: dict[str, Any]) -> dict[str, Any]:
        alternatives = node.pop(keyword)
        plain = [
            self._reference(dict(each), path)
            if isinstance(each, Mapping) and each.get("$ref") in self._recursive
            else each
            for each in alternatives
        ]
        flat = flatten_union(plain, self._root)
        merged = both(node, flat[0], self._root) if flat else None
        if flat and isinstance(merged, dict):
            node = merged
            self._changed(path, f"{keyword} became one schema")
        elif self._subset.closed:
            self._problem(path, f"{keyword} can't be merged into one schema")
        if not (flat and flat[1] and isinstance(merged, dict)):
            moved[keyword] = alternatives
        return node

    def _distributed(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> dict[str, Any]:
        """Moves keywords next to `anyOf` into its alternatives, if the endpoint doesn't accept them next to `anyOf`."""
        allowed = self._subset.beside_any_of
        if allowed is None and self._subset.closed:  # a closed object must contain its properties
            allowed = tuple(ANNOTATIONS)
        if allowed is None:
            return node
        kept = {"anyOf", *allowed, *(_DEFINITIONS if path == self._at else ())}
        if self._subset.beside_any_of is not None:
            for keyword in [keyword for keyword in node if keyword in _SILENT and keyword not in kept]:
                del node[keyword]
                self._noted(keyword, path, "removed (not allowed next to anyOf)")
        base = {keyword: value for keyword, value in node.items() if keyword not in kept and keyword not in _SILENT}
        if not base:
            return node
        made = [self._both(base, alternative) for alternative in node["anyOf"]]
        made = [each for each in made if each is not False]
        if not made or None in made:
            moved["anyOf"] = node.pop("anyOf")
            if self._subset.closed:
                self._problem(path, "anyOf can't be combined with the keywords next to it")
            return node
        self._changed(path, f"{', '.join(base)} moved into the alternatives of anyOf")
        return {keyword: value for keyword, value in node.items() if keyword not in base} | {"anyOf": made}

    def _values(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> dict[str, Any]:
        """Rewrites an `enum` or `const` whose values the endpoint doesn't accept, for example as one schema for each
        type.
        """
        keyword = "enum" if isinstance(node.get("enum"), list) else "const" if "const" in node else None
        if keyword is None or self._subset.values == "any":
            return node
        values = node["enum"] if keyword == "enum" else [node["const"]]
        if any(isinstance(value, dict | list) for value in values):
            schemas = [_schema_of(value) for value in values]
            rest = {name: value for name, value in node.items() if name not in (keyword, "type")}
            if None in schemas or not self._takes("anyOf", path):
                moved[keyword] = node.pop(keyword)
                return node
            self._changed(path, f"{keyword} became schemas of its values")
            return {**rest, **({"anyOf": schemas} if len(schemas) > 1 else schemas[0] or {})}
        kinds = {_kind(value) for value in values}
        if self._subset.values == "one_type" and len(kinds) > 1 and kinds != {"integer", "number"}:
            if isinstance(node.get("type"), str):  # values of other types never fit
                kind = node["type"]
                fitting = [
                    value for value in values if _kind(value) == kind or (kind, _kind(value)) == ("number", "integer")
                ]
                self._changed(path, f"values of other types removed from {keyword}")
                return {**node, keyword: fitting}
            if "type" not in node or len(kinds - {"null"}) > 1:
                self._changed(path, f"{keyword} became anyOf, with one schema for each type")
                rest = {name: value for name, value in node.items() if name not in (keyword, "type")}
                return {**rest, "anyOf": _by_type(values)}
        return node

    def _arrays(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> None:
        """Replaces `prefixItems` with `items`, if the endpoint doesn't accept a different schema for each position of
        an array."""
        subset, items = self._subset, node.get("items")
        tuples = not subset.takes("prefixItems")
        if isinstance(items, list) and (tuples or subset.needs_items or subset.typed is not None):  # as before 2020
            del node["items"]
            node["prefixItems"] = items
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        prefix = node.get("prefixItems")
        if isinstance(prefix, list) and tuples:
            moved["prefixItems"] = node.pop("prefixItems")
            rest, most = node.get("items", {}), node.get("maxItems")
            ends = rest is False or (isinstance(most, int) and most <= len(prefix))
            node["items"] = one_of([*prefix, *([] if ends else [rest])])
        if subset.needs_items and "array" in types_of(node) and "items" not in node:
            node["items"] = {}
            self._changed(path, "items added")

    def _names(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> None:
        """Removes properties whose names the endpoint refuses. The rewritten schema then allows additional
        properties."""
        subset = self._subset
        more: list[Any] = []
        patterns = node.get("patternProperties")
        if isinstance(patterns, Mapping) and not subset.takes("patternProperties"):
            moved["patternProperties"] = node.pop("patternProperties")
            more += patterns.values()
        named = node.get("properties")
        names = named if isinstance(named, Mapping) else {}
        refused = {name: inner for name, inner in names.items() if self._refuses_name(str(name))}
        if refused:
            required = node.get("required") or []
            needed = [name for name in required if name in refused]
            moved["properties"] = {"properties": refused, **({"required": needed} if needed else {})}
            node["properties"] = {name: inner for name, inner in names.items() if name not in refused}
            if needed:
                node["required"] = [name for name in required if name not in refused]
            more += refused.values()
        if more:
            others = node.get("additionalProperties", True)
            limits = [*more, *([] if others is False else [others])]
            node["additionalProperties"] = one_of(limits) or True
            if subset.closed:
                self._problem(path, "properties without listed names aren't supported")

    def _refuses_name(self, name: str) -> bool:
        pattern = self._subset.property_names
        return name in self._subset.reserved_names or (pattern is not None and not re.fullmatch(pattern, name))

    def _keywords(self, node: dict[str, Any], path: str, moved: dict[str, Any]) -> None:
        subset = self._subset
        for keyword in list(node):
            value = node[keyword]
            if not self._takes(keyword, path):
                del node[keyword]
                if keyword in _SILENT:
                    self._noted(keyword, path, "removed")
                else:
                    moved[keyword] = value
            elif (keyword == "format" and subset.formats is not None and value not in subset.formats) or (
                keyword == "minItems"
                and subset.min_items is not None
                and isinstance(value, int | float)
                and value > subset.min_items
            ):
                moved[keyword] = node.pop(keyword)
            elif keyword == "pattern" and subset.patterns != "any" and isinstance(value, str):
                fitting = _fit_pattern(value, subset.patterns == "whole")
                if fitting is None:
                    moved[keyword] = node.pop(keyword)
                elif fitting != value:
                    node[keyword] = fitting
                    self._changed(path, "pattern anchored with ^ and $")

    # --- types and objects --------------------------------------------------------------------------------------------

    def _typed(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        subset = self._subset
        if path == self._at and subset.root_object:
            kinds = types_of(node) or ["object"]
            if "object" not in kinds:
                self._problem(path, f'the root has "type": "object", not {node["type"]!r}')
            elif node.get("type") != "object":
                self._changed(path, '"type": "object" added')
                node = {"type": "object", **{name: value for name, value in node.items() if name != "type"}}
            if subset.root_properties and "properties" not in node:
                node = {"additionalProperties": True, **node, "properties": {}}
                self._out.routine.append(f"{path}: properties added")
        if isinstance(node.get("type"), list) and subset.beside_types is not None:
            return self._split_types(node, path)
        if subset.typed is None or "type" in node or any(keyword in node for keyword in subset.typed):
            return node
        if path.endswith((".propertyNames", ".contains")):
            return node
        if path.endswith(".additionalProperties") and ANNOTATIONS.issuperset(node) and not subset.closed:
            return node  # the endpoint accepts this as any value
        if "enum" in node or "const" in node:
            kinds = sorted({_kind(value) for value in node.get("enum", [node.get("const")])})
            kinds = ["number"] if kinds == ["integer", "number"] else kinds
            if len(kinds) > 1:
                self._changed(path, "enum became anyOf, with one schema for each type")
                rest = {name: value for name, value in node.items() if name != "enum"}
                return {**rest, "anyOf": _by_type(node["enum"])}
            kind: str | None = kinds[0] if kinds else None
        else:
            kind = next((_OF_ONE_TYPE[keyword] for keyword in node if keyword in _OF_ONE_TYPE), None)
        if kind is not None:
            self._changed(path, f'"type": "{kind}" added')
            return {"type": kind, **node}
        if subset.closed:
            self._problem(path, "a value of any type isn't supported: add a type")
            return node
        self._changed(path, "anyOf with all types added")
        return {**node, "anyOf": [{"type": kind} for kind in _ANY]}

    def _split_types(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        allowed = {"type", *(self._subset.beside_types or ())}
        if node.keys() <= allowed:
            return node
        self._changed(path, "a list of types became anyOf")
        about = {name: value for name, value in node.items() if name in ANNOTATIONS}
        rest = {name: value for name, value in node.items() if name not in about and name != "type"}
        parts = []
        for kind in node["type"]:
            own = "number" if kind == "integer" else kind
            parts.append({"type": kind} | {k: v for k, v in rest.items() if _OF_ONE_TYPE.get(k, own) == own})
        return {**about, "anyOf": parts}

    def _objects(self, node: dict[str, Any], path: str) -> dict[str, Any]:
        subset, properties = self._subset, node.get("properties")
        if "object" not in types_of(node) and not isinstance(properties, Mapping):
            return node
        if subset.needs_properties and not isinstance(properties, Mapping):
            self._problem(path, "an object without listed properties isn't supported")
        others = node.get("additionalProperties")
        names = properties if isinstance(properties, Mapping) else {}
        unlisted = [name for name in node.get("required") or () if name not in names]
        if unlisted and (subset.listed_required or subset.closed):
            if subset.closed:
                self._problem(
                    path, f'"required" names {", ".join(map(str, unlisted))}, which "properties" does not list'
                )
            elif others is False:
                node["required"] = [name for name in node["required"] if name in names]
                self._changed(path, f"{', '.join(unlisted)} removed from required (no property may have this name)")
            else:
                made = dict(others) if isinstance(others, Mapping) else {}
                node["properties"] = {**names, **dict.fromkeys(unlisted, made)}
                self._changed(path, f"{', '.join(unlisted)} added to properties")
        if not subset.closed:
            return node
        if not isinstance(properties, Mapping) and others is not False:
            self._problem(path, "an object without listed properties isn't supported")
        elif others is not None and others is not False:
            self._problem(path, "additional properties aren't supported")
        elif others is None:
            node["additionalProperties"] = False
            self._out.routine.append(f"{path}: additionalProperties set to false")
        if subset.all_required:
            optional = [name for name in names if name not in (node.get("required") or ())]
            node["required"] = list(names)
            if optional:
                node["properties"] = {
                    name: _or_null(inner) if name in optional else inner for name, inner in names.items()
                }
                self._out.routine.append(f"{path}: {', '.join(optional)} became required and nullable")
        return node


# --- values, patterns, words ------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    return _TYPES.get(type(value), "null")


def _by_type(values: list[Any]) -> list[dict[str, Any]]:
    kinds = sorted({_kind(value) for value in values})
    return [{"type": kind, "enum": [value for value in values if _kind(value) == kind]} for kind in kinds]


def _schema_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, list):
        return None
    if not isinstance(value, dict):
        return {"type": _kind(value), "const": value}
    inside = {name: _schema_of(member) for name, member in value.items()}
    if None in inside.values():
        return None
    return {"type": "object", "properties": inside, "required": list(value), "additionalProperties": False}


def _fit_pattern(pattern: str, whole: bool) -> str | None:
    if _NOT_PLAIN.search(pattern):
        return None
    if not whole or (pattern.startswith("^") and pattern.endswith("$")):
        return pattern
    inner = pattern.removeprefix("^").removesuffix("$")
    if "|" in inner or "^" in inner.replace("[^", "") or "$" in inner or pattern.endswith("\\$"):
        return None
    before, after = "" if pattern.startswith("^") else ".*", "" if pattern.endswith("$") else ".*"
    return f"^{before}{inner}{after}$"


def _in_words(moved: Mapping[str, Any]) -> str:
    short = [_WORDS[keyword].format(value) for keyword, value in moved.items() if keyword in _WORDS]
    if moved.get("uniqueItems") is True:
        short.append("without repetitions")
    rest = {keyword: value for keyword, value in moved.items() if keyword not in (*_WORDS, "uniqueItems")}
    rest |= rest.pop("properties", {})
    said = [f"Must be {'; '.join(short)}."] if short else []
    if rest:
        said.append(f"Must also fit this JSON schema: {json.dumps(rest, ensure_ascii=False)}")
    return " ".join(said)


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or _takes_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str | list) and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}
    if isinstance(schema.get("anyOf"), list) and kind is None:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [dict(schema), {"type": "null"}]}


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if "enum" in schema or "const" in schema:
        return None in (schema.get("enum") or ()) or ("const" in schema and schema["const"] is None)
    if schema.get("type") is not None:
        return "null" in types_of(schema)
    return any(map(_takes_null, schema.get("anyOf") or ()))


# --- definitions and limits -------------------------------------------------------------------------------------------


def _rename_definitions(schema: Mapping[str, Any], at: str) -> Passed:
    # `definitions` is the name of `$defs` before JSON Schema 2019-09.
    found = schema.get("definitions")
    if not isinstance(found, Mapping) or not found.keys().isdisjoint(schema.get("$defs") or {}):
        return dict(schema), []
    old = "#/definitions/"

    def renamed(node: Any, path: str) -> Any:
        if not isinstance(node, Mapping):
            return node
        node = dict(node)
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith(old):
            node["$ref"] = "#/$defs/" + ref.removeprefix(old)
        if path == at:
            node["$defs"] = {**node.pop("definitions"), **(node.get("$defs") or {})}
        return map_subschemas(node, path, renamed)

    return renamed(schema, at), [f"{at}: definitions renamed to $defs"]


def _refs_in(node: Any, *, definitions: bool) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(ref := node.get("$ref"), str):
            yield ref
        for path, inside in subschemas(node, "", conditions=True):
            if definitions or not path.startswith((".$defs.", ".definitions.")):
                yield from _refs_in(inside, definitions=definitions)


def _recursive_refs(schema: Mapping[str, Any]) -> frozenset[str]:
    uses: dict[str, set[str]] = {}
    waiting = set(_refs_in(schema, definitions=True))
    while waiting:
        ref = waiting.pop()
        uses[ref] = set(_refs_in(resolve_ref(schema, ref), definitions=False))
        waiting |= uses[ref] - uses.keys()
    found = set()
    for ref in uses:
        seen, todo = set[str](), set(uses[ref])
        while todo:
            one = todo.pop()
            seen.add(one)
            todo |= uses[one] - seen
        if ref in seen:
            found.add(ref)
    return frozenset(found)


def count_uses(schema: Mapping[str, Any]) -> Counter[str]:
    """Counts the parts of a schema that an endpoint may limit, such as properties and levels of nesting. The keys of
    the result are names of attributes of `Subset`."""
    found = Counter[str]()

    def visit(node: Any, depth: int) -> None:
        if not isinstance(node, Mapping):
            return
        found["depth"] = max(found["depth"], depth)
        named = node.get("properties")
        names = named if isinstance(named, Mapping) else {}
        found["properties"] += len(names)
        found["enum_values"] += len(node["enum"]) if isinstance(node.get("enum"), list) else 0
        found["optional"] += sum(name not in (node.get("required") or ()) for name in names)
        found["unions"] += sum(
            isinstance(inner, Mapping) and ("anyOf" in inner or isinstance(inner.get("type"), list))
            for inner in names.values()
        )
        inner_depth = depth + (isinstance(named, Mapping) or "object" in types_of(node))
        for path, inside in subschemas(node, ""):
            member = path.startswith((".properties.", ".patternProperties.", ".additionalProperties"))
            visit(inside, 0 if path.startswith((".$defs.", ".definitions.")) else inner_depth if member else depth)

    visit(schema, 0)
    return found


def _beyond_limits(schema: Mapping[str, Any], subset: Subset, at: str) -> list[str]:
    names = ("depth", "properties", "enum_values", "optional", "unions")
    limits = {name: getattr(subset, name) for name in names if getattr(subset, name) is not None}
    used = count_uses(schema) if limits else Counter[str]()
    if subset.characters is not None:
        limits["characters"] = subset.characters
        used["characters"] = len(json.dumps(schema, separators=(",", ":")))
    return [
        f"{at}: {used[name]} {name.replace('_', ' ')}, the limit is {most}"
        for name, most in limits.items()
        if used[name] > most
    ]
