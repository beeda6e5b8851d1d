"""The subset of JSON Schema that OpenAI's strict mode takes.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas is the list. In return an answer is sure
to fit. Every field is required there, and one that was optional may be null; reading such a null as "not said" is the
business of `validation.read_as`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .json_schema import ANNOTATIONS, Passed, inline_refs, map_subschemas, subschemas

# Words in the reports of changes that every pydantic model needs, and that nobody notices: an instance has no other
# fields, and a null is read as the default (`read_as`).
_CLOSED, _NULL, _NO_DEFAULT = "additionalProperties set to false", "may be null and must be there", ": default removed"
ROUTINE = (_CLOSED, _NULL, _NO_DEFAULT)
_TAKEN = frozenset(
    (
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "definitions",
        "title",
        "description",
        "pattern",
        "format",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    )
)
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
# Without these the schema would say something else, so they are left for `strict_problems` to refuse.
_CAN_NOT_GO = frozenset(("allOf", "oneOf", "prefixItems", "patternProperties"))


def openai_strict(schema: Mapping[str, Any], *, at: str = "parameters") -> Passed:
    """Returns the schema for strict mode: closed objects, every field required, only known keywords.

    A field that was optional becomes a union with null. Demands that strict mode knows no word for (`minLength`, ...)
    go: validate the answer. `strict_problems` says what is left to be refused.
    """
    changes: list[str] = []

    def must_go(node: Mapping[str, Any], path: str) -> bool:
        beside = set(node) - {"$ref", "default", "title"}
        return path == at or bool(beside)

    made, inlined = inline_refs(schema, wanted=must_go, why="strict mode takes nothing beside $ref", at=at)
    changes += inlined

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        node = _one_union(node, path, changes)
        node = _known_keywords(node, path, changes)
        return _closed(node, path, changes)

    return map_subschemas(made, at, visit), changes


def _one_union(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Replaces `allOf` of one schema by that schema, and `oneOf` by `anyOf`."""
    parts = node.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], Mapping):
        rest = {keyword: value for keyword, value in node.items() if keyword != "allOf"}
        if ANNOTATIONS.issuperset(rest) and "$ref" not in parts[0]:
            changes.append(f"{path}: allOf of one schema replaced by it (strict mode has no allOf)")
            node = {**parts[0], **rest}
    if isinstance(node.get("oneOf"), list) and "anyOf" not in node:
        changes.append(f"{path}: oneOf became anyOf (strict mode has no oneOf)")
        node = {("anyOf" if keyword == "oneOf" else keyword): value for keyword, value in node.items()}
    return node


def _known_keywords(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    taken = {}
    for keyword, value in node.items():
        if "$ref" in node and keyword in ("title", "default", "description"):
            changes.append(f"{path}: {keyword} removed (strict mode takes nothing beside $ref)")
        elif keyword == "format" and value not in _FORMATS:
            changes.append(f"{path}: format {value!r} removed (strict mode does not know it)")
        elif keyword in _TAKEN or keyword in _CAN_NOT_GO:
            taken[keyword] = value
        else:
            changes.append(f"{path}: {keyword} removed (strict mode does not take it)")
    return taken


def _closed(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Makes every field required and forbids others."""
    properties = node.get("properties")
    if not isinstance(properties, Mapping):
        return node
    if "type" not in node and "anyOf" not in node:
        node = {"type": "object", **node}
    required = [name for name in node.get("required") or () if name in properties]
    optional = [name for name in properties if name not in required]
    if optional:
        changes.append(f"{path}: {', '.join(optional)} {_NULL} (strict mode has no optional)")
    out = {**node, "properties": dict(properties), "required": list(properties)}
    for name in optional:
        out["properties"][name] = _or_null(properties[name])
    if "additionalProperties" not in node:
        changes.append(f"{path}: {_CLOSED} (strict mode has closed objects only)")
        out["additionalProperties"] = False
    elif node["additionalProperties"] is True and properties:
        changes.append(f"{path}: additionalProperties became false (strict mode has closed objects only)")
        out["additionalProperties"] = False
    return out


def _or_null(schema: Any) -> Any:
    """Returns the union of a schema with null."""
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
    kind = schema.get("type")
    if kind is not None:
        return "null" in ([kind] if isinstance(kind, str) else kind)
    return any(map(_takes_null, schema.get("anyOf") or ()))


def strict_problems(schema: Any, *, at: str = "parameters") -> list[str]:
    """Returns why strict mode would refuse a schema, each reason with its path; empty if it would not."""
    if not isinstance(schema, Mapping):
        return [f"{at}: must be a JSON schema"]
    problems = []
    if schema.get("type") != "object" or "anyOf" in schema:
        problems.append(f'{at}: the root is a plain "type": "object"')
    return problems + list(_problems(schema, at))


def _problems(node: Any, path: str) -> Iterator[str]:
    if not isinstance(node, Mapping):
        yield f"{path}: {node!r} is no schema that strict mode takes"
        return
    yield from (f"{path}: {word} can't be said in strict mode" for word in sorted(_CAN_NOT_GO & node.keys()))
    kinds = node.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    if "$ref" in node:
        if len(node) > 1 and not node.keys() <= {"$ref", "$defs", "definitions"}:
            yield f'{path}: nothing may stand beside "$ref"'
    elif not kinds and node.keys().isdisjoint(("anyOf", "enum", "const")):
        yield f"{path}: strict mode takes no value of any type: name one"
    if "object" in kinds and not isinstance(node.get("properties"), Mapping):
        yield f"{path}: an object whose fields are not listed can't be said in strict mode"
    elif "object" in kinds and node.get("additionalProperties") is not False:
        yield f"{path}: fields beside the listed ones can't be said in strict mode"
    if "array" in kinds and "items" not in node:
        yield f'{path}: an array needs "items"'
    for at, inside in subschemas(node, path):
        if not at.endswith(".additionalProperties") and "prefixItems" not in at and "patternProperties" not in at:
            yield from _problems(inside, at)
