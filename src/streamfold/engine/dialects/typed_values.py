"""Converts plain-text values in markup to the type that the tool's schema declares. Without a declared type, the value
3 becomes the string "3"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...jsontext import parse_object
from ...types import resolve_ref
from .scanner import is_json

_TYPES = {bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", type(None): "null"}


def typed_json(text: str, schema: Any, root: Mapping[str, Any]) -> str:
    """Returns a value as JSON text. If the value is JSON of a declared type, returns the value unchanged, otherwise as
    a JSON string.

    Args:
        schema: the schema of the value; None if the tool declares no schema for it.
        root: the tool's schema, which contains the definitions that `$ref` refers to.
    """
    types = declared_types(schema, root)
    return json_string(text) if "string" in types else _of(types, text)


def unquoted_json(text: str, schema: Any, root: Mapping[str, Any]) -> str:
    """Returns an unquoted value as JSON text, like `typed_json`. Without a declared type, accepts any JSON."""
    types = declared_types(schema, root)
    return _of(types - {"string"}, text) if types else json_or_text(text)


def _of(types: set[str], text: str) -> str:
    plain = text.strip()
    if plain in ("True", "False"):  # Python's spelling, which Qwen writes as often as JSON's
        plain = plain.lower()
    try:
        value = parse_object(plain)
    except ValueError:
        return json_string(text)
    name = _TYPES.get(type(value), "string")
    return plain if name in types or (name == "integer" and "number" in types) else json_string(text)


def json_or_text(text: str) -> str:
    """Returns the text itself if it is JSON, otherwise a JSON string with the text."""
    return text.strip() if is_json(text) else json_string(text)


def json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def json_object(members: Iterable[tuple[str, str]]) -> str:
    """Returns the JSON text of an object from its keys and the JSON texts of its values."""
    return "{" + ", ".join(f"{json_string(key)}: {value}" for key, value in members) + "}"


def member(schema: Any, key: str, root: Mapping[str, Any]) -> Any:
    """Returns the schema of a field; None if the object's schema doesn't contain the field."""
    properties = _plain(schema, root).get("properties")
    return properties.get(key) if isinstance(properties, Mapping) else None


def items(schema: Any, root: Mapping[str, Any]) -> Any:
    """Returns the schema of a list's items; None if the list's schema has no schema for items."""
    return _plain(schema, root).get("items")


def _plain(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """Resolves `$ref`. If a schema allows only null and one other type, returns the other type's schema."""
    if not isinstance(schema, Mapping) or depth > 8:
        return {}
    if isinstance(schema.get("$ref"), str):
        return _plain(resolve_ref(root, schema["$ref"]), root, depth + 1)
    options = [option for option in _options(schema) if option != {"type": "null"}]
    return _plain(options[0], root, depth + 1) if len(options) == 1 else schema


def declared_types(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """Returns the names of the JSON types that a schema allows. The set is empty if the schema names no types."""
    if not isinstance(schema, Mapping) or depth > 8:
        return set()
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    if isinstance(reference := schema.get("$ref"), str):
        return declared_types(resolve_ref(root, reference), root, depth + 1)
    found: set[str] = set()
    for option in _options(schema):
        types = declared_types(option, root, depth + 1)
        if not types:
            return set()
        found |= types
    return found


def _options(schema: Mapping[str, Any]) -> list[Any]:
    listed = [schema.get(key) for key in ("anyOf", "oneOf", "allOf")]
    return [option for options in listed if isinstance(options, list) for option in options]
