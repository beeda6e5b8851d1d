"""Moonshot's subset of JSON Schema, and the pass that rewrites a schema into it as far as possible.

The root is an object, every nested schema says its type, `type` does not stand beside `anyOf`, and a `$ref` leads into
`#/$defs` and stands alone: https://platform.moonshot.ai/docs/guide/use-kimi-api-to-complete-tool-calls and
MoonshotAI/walle, which checks the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .json_schema import ANNOTATIONS, Passed, inline_refs, map_subschemas, resolve

_HAS_TYPE = ("type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const")
_PREFIX = "#/$defs/"

# What a keyword says about the type of a schema that does not name it. By the letter it would hold for values of that
# type alone and let all others pass; nobody who writes `properties` means that.
_IMPLIED = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
_ANY = ("string", "number", "boolean", "object", "array", "null")


def moonshot(schema: Mapping[str, Any], *, at: str = "parameters") -> Passed:
    """Returns the schema in Moonshot's subset, as far as that is possible without changing its meaning.

    Types are added where they are told by other keywords; `type` moves from beside an `anyOf` into its alternatives;
    `definitions` become `$defs`, and other references are written out, as are those with a description or a demand
    beside them; what is left beside a `$ref` goes. A field that is required and not listed is listed. Items that had a
    schema for each position get one for all of them, which is the one change that demands less. `moonshot_problems`
    says what is left to be refused.
    """
    changes: list[str] = []
    made, renamed = _definitions(schema, at)
    changes += renamed
    for keyword in ("$schema", "$id"):
        if keyword in made:
            changes.append(f"{at}: {keyword} removed (Moonshot refuses it)")
            del made[keyword]

    def must_go(node: Mapping[str, Any], path: str) -> bool:
        beside = set(node) - {"$ref"} - (ANNOTATIONS - {"description"})
        if path == at:
            beside -= {"$defs"}
        return path == at or bool(beside) or not node["$ref"].startswith(_PREFIX)

    made, inlined = inline_refs(made, wanted=must_go, why="Moonshot wants it in $defs, with nothing beside it", at=at)
    changes += inlined

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        node = _listed(_same_items(_alone(node, path, changes), path, changes), path, changes)
        node = _distributed(node, path, made, changes)
        return _typed(node, path, changes, root=path == at)

    return map_subschemas(made, at, visit), changes


def _definitions(schema: Mapping[str, Any], at: str) -> Passed:
    """Renames `definitions`, the name before 2019, to `$defs`."""
    found = schema.get("definitions")
    if not isinstance(found, Mapping) or not found.keys().isdisjoint(schema.get("$defs") or {}):
        return dict(schema), []
    old = "#/definitions/"

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith(old):
            node["$ref"] = _PREFIX + ref.removeprefix(old)
        if path == at:
            node["$defs"] = {**node.pop("definitions"), **(node.get("$defs") or {})}
        return node

    return map_subschemas(schema, at, visit, conditions=True), [
        f"{at}: definitions renamed to $defs (Moonshot's name for it)"
    ]


def _alone(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Drops annotations beside a `$ref`. Constraints beside it stay, and will be refused."""
    if "$ref" not in node or not ANNOTATIONS.issuperset(set(node) - {"$ref"}):
        return node
    changes.extend(f"{path}: {word} removed (Moonshot takes nothing beside $ref)" for word in node if word != "$ref")
    return {"$ref": node["$ref"]}


def _listed(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Lists required fields among the properties. An unlisted one gets the schema of additional properties."""
    missing = _not_listed(node)
    other = node.get("additionalProperties", {})
    # An alternative speaks of the fields that the schema around it lists, and may not list them again.
    if not missing or other is False or path.endswith("]"):
        return node
    changes.append(f"{path}: {', '.join(missing)} added to properties (Moonshot wants required fields listed there)")
    made = dict(other) if isinstance(other, Mapping) else {}
    return {**node, "properties": {**(node.get("properties") or {}), **dict.fromkeys(missing, made)}}


def _not_listed(node: Mapping[str, Any]) -> list[str]:
    """Returns the required fields that `properties` does not list."""
    required, properties = node.get("required"), node.get("properties")
    if not isinstance(required, list) or not isinstance(properties, Mapping | None):
        return []
    return [name for name in required if isinstance(name, str) and name not in (properties or {})]


def _distributed(node: dict[str, Any], path: str, root: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    """Moves a `type` beside `anyOf` into the alternatives, if each of them can have it."""
    alternatives, kind = node.get("anyOf"), node.get("type")
    if kind is None or not isinstance(alternatives, list):
        return node
    moved: list[Any] = []
    for alternative in alternatives:
        if not isinstance(alternative, Mapping):
            return node
        target = resolve(root, alternative["$ref"]) if "$ref" in alternative else alternative
        own = target.get("type") if isinstance(target, Mapping) else None
        if own is None and ("$ref" in alternative or not {"anyOf", "oneOf", "allOf"}.isdisjoint(alternative)):
            return node
        if own is not None and not _narrower(own, kind):
            return node
        moved.append(alternative if own is not None else {"type": kind, **alternative})
    changes.append(f"{path}: type moved into the alternatives of anyOf (Moonshot takes no type beside it)")
    return {keyword: value for keyword, value in node.items() if keyword != "type"} | {"anyOf": moved}


def _narrower(own: Any, kind: Any) -> bool:
    kinds = {kind} if isinstance(kind, str) else set(kind)
    kinds |= {"integer"} if "number" in kinds else set()
    return kinds.issuperset([own] if isinstance(own, str) else own)


def _typed(node: dict[str, Any], path: str, changes: list[str], *, root: bool) -> dict[str, Any]:
    """Adds the type that follows from the other keywords, or a union of all types."""
    if "type" in node or "anyOf" in node or "$ref" in node:
        return node
    if root:  # arguments are an object, whatever the schema forgot to say
        kind: str | None = "object"
    elif "oneOf" in node or "allOf" in node or path.endswith((".propertyNames", ".contains")):
        return node
    elif path.endswith(".additionalProperties") and ANNOTATIONS.issuperset(node):
        return node  # any other field: that is taken
    elif "enum" in node or "const" in node:
        return _typed_values(node, path, changes)
    else:
        kind = next((kind for kind, words in _IMPLIED.items() if not node.keys().isdisjoint(words)), None)
    if kind is None:
        changes.append(f"{path}: anyOf of all types added (Moonshot wants a type everywhere)")
        return {**node, "anyOf": [{"type": kind} for kind in _ANY]}
    changes.append(f'{path}: "type": "{kind}" added (Moonshot wants a type everywhere)')
    return {"type": kind, **node}


def _typed_values(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Adds the type of listed values. Values of several types become alternatives."""
    values = node["enum"] if isinstance(node.get("enum"), list) else [node.get("const")]
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(_TYPES.get(type(value), "null"), []).append(value)
    if set(by_type) == {"integer", "number"}:
        by_type = {"number": values}
    if len(by_type) == 1:
        (kind,) = by_type
        changes.append(f'{path}: "type": "{kind}" added (Moonshot wants a type everywhere)')
        return {"type": kind, **node}
    changes.append(f"{path}: enum became anyOf, one for each type (Moonshot wants a type everywhere)")
    rest = {keyword: value for keyword, value in node.items() if keyword != "enum"}
    return {**rest, "anyOf": [{"type": kind, "enum": values} for kind, values in by_type.items()]}


def _same_items(node: dict[str, Any], path: str, changes: list[str]) -> dict[str, Any]:
    """Replaces `items` with one schema for each position, the form before 2020, by a union for all positions."""
    items = node.get("items")
    if not isinstance(items, list):
        return node
    changes.append(f"{path}: items became one anyOf for all positions (Moonshot takes one schema for all items)")
    return {**node, "items": items[0] if len(items) == 1 else {"anyOf": items} if items else {}}


def moonshot_problems(schema: Any, *, at: str = "parameters") -> list[str]:
    """Returns why Moonshot would refuse a schema, each reason with its path; empty if it would not."""
    if not isinstance(schema, Mapping):
        return [f"{at}: must be a JSON schema"]
    problems = []
    if "anyOf" in schema:
        problems.append(f'{at}: the root can\'t be an "anyOf": make it an object, with the anyOf as one of its fields')
    elif schema.get("type") != "object":
        problems.append(f'{at}: the root needs "type": "object"')
    return problems + list(_problems(schema, at, schema))


def _problems(schema: Any, path: str, root: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return  # `true` and `false` are schemas too
    if missing := _not_listed(schema):
        yield f'{path}: "required" names {", ".join(missing)}, which "properties" does not list'
    if both := _said_twice(schema):
        yield f'{path}: {", ".join(both)} may not stand both beside "anyOf" and in an alternative'
    if "anyOf" in schema and "type" in schema and schema is not root:
        yield f'{path}: "type" may not stand beside "anyOf"; give each alternative its own'
    if "$ref" in schema:
        if not str(schema["$ref"]).startswith(_PREFIX):
            yield f'{path}: a "$ref" must lead into "#/$defs", not to {schema["$ref"]!r}'
        elif resolve(root, schema["$ref"]) is None:
            yield f"{path}: {schema['$ref']!r} leads to nothing"
        if len(schema) > 1:
            yield f'{path}: nothing may stand beside "$ref"'
    elif schema is not root and not any(word in schema for word in _HAS_TYPE):
        yield f'{path}: needs a "type"'
    for keyword in ("properties", "$defs"):
        named = schema.get(keyword)
        for name, value in named.items() if isinstance(named, Mapping) else ():
            yield from _problems(value, f"{path}.{keyword}.{name}", root)
    if isinstance(schema.get("items"), Mapping):
        yield from _problems(schema["items"], f"{path}.items", root)
    for keyword in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(keyword)
        for position, value in enumerate(alternatives if isinstance(alternatives, list) else ()):
            yield from _problems(value, f"{path}.{keyword}[{position}]", root)


def _said_twice(schema: Mapping[str, Any]) -> list[str]:
    """Returns keywords beside an `anyOf` that an alternative has too, without `type`."""
    alternatives = schema.get("anyOf")
    beside = schema.keys() - {"anyOf", "type", "title", "description"}
    inside = [one.keys() for one in alternatives if isinstance(one, Mapping)] if isinstance(alternatives, list) else []
    return sorted(beside & {keyword for keywords in inside for keyword in keywords})
