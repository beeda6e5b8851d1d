"""Converts JSON Schema to the subset of OpenAPI 3.0 that older Gemini endpoints accept:
https://ai.google.dev/api/caching#Schema.

Older Gemini endpoints refuse unknown keywords. One invalid schema makes the entire request fail. streamfold therefore
sends only the keywords that these endpoints accept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .json_schema import Passed, inline_refs
from .merging import types_of

_KEPT = (
    "title", "description", "nullable", "minItems", "maxItems", "minProperties", "maxProperties", "minLength",
    "maxLength", "pattern", "minimum", "maximum", "default", "example", "propertyOrdering",
)  # fmt: skip
_SILENT = ("$schema", "$id", "$defs", "definitions", "$comment", "examples", "additionalProperties", "title")
_COUNTS = {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
_IMPLIED = {"properties": "object", "items": "array", "enum": "string"}  # the type of a schema without a type
_FORMATS = ("date-time", "enum", "int32", "int64", "float", "double")


def openapi_subset(schema: Mapping[str, Any], *, at: str = "parameters") -> Passed:
    inlined, _ = inline_refs(schema, why="this endpoint doesn't support $ref", at=at)
    changes: list[str] = []
    return _node(inlined, at, changes), changes


def _node(schema: Any, at: str, changes: list[str]) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {"type": "OBJECT"}
    node = _merged(dict(schema), at, changes)
    alternatives = [inner for inner in node.pop("anyOf", []) + node.pop("oneOf", []) if isinstance(inner, Mapping)]
    types = types_of(node)
    node.pop("type", None)
    nullable = "null" in types or any(inner.get("type") == "null" for inner in alternatives)
    types = [name for name in types if name != "null"]
    alternatives = [inner for inner in alternatives if inner.get("type") != "null"]
    if len(types) > 1 and not alternatives:
        alternatives = [{**node, "type": name} for name in types]
    out: dict[str, Any] = {"nullable": True} if nullable else {}
    if len(alternatives) == 1:
        return {**_node({**node, **alternatives[0]}, at, changes), **out}
    if alternatives:
        about = {"description": node["description"]} if node.get("description") else {}
        return {
            "anyOf": [_node(inner, f"{at}.anyOf[{i}]", changes) for i, inner in enumerate(alternatives)],
            **about,
            **out,
        }
    return {**_plain(node, types, at, changes), **out}


def _merged(node: dict[str, Any], at: str, changes: list[str]) -> dict[str, Any]:
    # `const` and `allOf` are expressed with other keywords.
    if "const" in node:
        node["enum"] = [node.pop("const")]
    for inner in node.pop("allOf", []):
        if not isinstance(inner, Mapping):
            continue
        node["properties"] = {**node.get("properties", {}), **inner.get("properties", {})} or None
        node["required"] = [*node.get("required", []), *inner.get("required", [])] or None
        node = {**inner, **{name: value for name, value in node.items() if value is not None}}
    return node


def _plain(node: dict[str, Any], types: list[str], at: str, changes: list[str]) -> dict[str, Any]:
    # Every schema needs a single type.
    kind = types[0] if types else next((kind for keyword, kind in _IMPLIED.items() if keyword in node), "object")
    out: dict[str, Any] = {"type": kind.upper()}
    out |= {name: node[name] for name in _KEPT if node.get(name) is not None}
    if node.get("format") in _FORMATS:
        out["format"] = node["format"]
    if enum := [value for value in node.get("enum") or () if value not in ("", None)]:
        if kind == "string" and all(isinstance(value, str) for value in enum):
            out["enum"] = enum
        else:
            changes.append(
                f"{at}.enum: dropped, because only strings are supported: {json.dumps(enum, default=str)[:80]}"
            )
    if kind == "array":
        out["items"] = _node(node.get("items", {"type": "string"}), f"{at}.items", changes)
    properties = node.get("properties")
    if kind == "object" and isinstance(properties, Mapping) and properties:
        out["properties"] = {name: _node(inner, f"{at}.{name}", changes) for name, inner in properties.items()}
        if required := [name for name in node.get("required") or () if name in properties]:
            out["required"] = required
    known = {*_KEPT, *_SILENT, "type", "format", "enum", "items", "properties", "required"}
    changes += [f"{at}.{name}: dropped, because the provider doesn't support it" for name in node if name not in known]
    return out


def from_openapi(schema: Any) -> dict[str, Any]:
    """Converts a schema from the OpenAPI subset to JSON Schema. The names of types become lower case, and `nullable`
    becomes an additional type `null`.

    >>> from_openapi({"type": "STRING", "nullable": True, "format": "enum", "enum": ["a"]})
    {'type': ['string', 'null'], 'enum': ['a', None]}
    """
    if not isinstance(schema, Mapping):
        return {}
    out = {name: value for name, value in schema.items() if name not in ("propertyOrdering", "nullable")}
    if isinstance(kind := out.pop("type", None), str) and not kind.endswith("UNSPECIFIED"):
        out = {"type": kind.lower(), **out}
    if out.get("format") == "enum":
        del out["format"]
    for name in _COUNTS & out.keys():  # JSON of protocol buffers contains 64-bit numbers as strings
        out[name] = int(out[name]) if isinstance(out[name], str) and out[name].isdecimal() else out[name]
    if isinstance(properties := out.get("properties"), Mapping):
        out["properties"] = {name: from_openapi(inner) for name, inner in properties.items()}
    if "items" in out:
        out["items"] = from_openapi(out["items"])
    if isinstance(alternatives := out.get("anyOf"), list):
        out["anyOf"] = [from_openapi(inner) for inner in alternatives]
    if schema.get("nullable") is True:
        out = _or_null(out)
    return out


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    listed = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
    return {**schema, **({"type": [schema["type"], "null"]} if "type" in schema else {}), **listed}
