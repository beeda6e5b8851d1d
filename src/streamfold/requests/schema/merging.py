"""Combines JSON schemas into one schema that accepts the intersection or the union of the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...types import resolve_ref
from .json_schema import ANNOTATIONS

_NOT_DEMANDS = ANNOTATIONS | {"$schema", "$id", "$anchor", "$comment"}
_BOUNDS: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
_OF_OBJECTS = frozenset(("type", "properties", "required", "additionalProperties"))
_OF_VALUES = frozenset(("type", "enum", "const"))


def types_of(node: Mapping[str, Any]) -> list[str]:
    given = node.get("type")
    return [given] if isinstance(given, str) else list(given) if isinstance(given, list) else []


def unique(schemas: Iterable[Any]) -> list[Any]:
    """Removes duplicate schemas. The number 1 and `true` count as different."""
    found: list[Any] = []
    for schema in schemas:
        if not any(type(schema) is type(other) and schema == other for other in found):
            found.append(schema)
    return found


def one_of(schemas: Iterable[Any]) -> Any:
    found = unique(schemas)
    if any(schema is True or schema == {} for schema in found):
        return {}
    return found[0] if len(found) == 1 else {"anyOf": found}


def both(first: Any, second: Any, root: Mapping[str, Any]) -> Any:
    """Returns a schema that accepts only the values that both schemas accept.

    Args:
        root: the schema to which references point.

    Returns:
        The combined schema. The schema False, which accepts nothing, if no value matches both schemas. None if the
        combination can't be expressed without `allOf`.
    """
    if first is True or second is False:
        return second
    if second is True or first is False:
        return first
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return None
    made, other = _resolved(first, root), _resolved(second, root)
    if made is None or other is None or not (_can_add(made, other) and _can_add(other, made)):
        return None
    for keyword, value in other.items():
        mine: Any = made.get(keyword)
        if keyword not in made or mine == value:
            made[keyword] = value
        elif keyword == "description":
            made[keyword] = f"{mine} {value}"
        elif keyword in ("$defs", "definitions"):
            made[keyword] = {**mine, **value}
        elif keyword in _BOUNDS:
            made[keyword] = _BOUNDS[keyword](mine, value)
        elif keyword == "required":
            made[keyword] = list(dict.fromkeys([*mine, *value]))
        elif keyword == "enum":
            made[keyword] = [each for each in mine if each in value]
        elif keyword == "type":
            one, two = types_of(made), types_of(other)
            kinds = [kind for kind in one if kind in two or (kind == "integer" and "number" in two)]
            kinds += [kind for kind in two if kind == "integer" and "number" in one and kind not in kinds]
            if not kinds:
                return False
            made[keyword] = kinds[0] if len(kinds) == 1 else kinds
        elif keyword == "properties":
            merged = {name: both(mine[name], inner, root) if name in mine else inner for name, inner in value.items()}
            if None in merged.values():
                return None
            made[keyword] = {**mine, **merged}
        elif keyword in ("items", "additionalProperties"):
            merged_one = both(mine, value, root)
            if merged_one is None:
                return None
            made[keyword] = merged_one
        elif keyword not in _NOT_DEMANDS:
            return None
    return made


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Replaces a `$ref` at the top of a schema with its target. Returns None if the target can't be combined with the
    keywords next to the `$ref`.
    """
    seen: set[str] = set()
    while isinstance(ref := node.get("$ref"), str):
        target = resolve_ref(root, ref)
        if ref in seen or not isinstance(target, Mapping):
            return None
        seen.add(ref)
        rest = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
        if any(keyword in target and keyword not in _NOT_DEMANDS for keyword in rest):
            return None
        node = {**target, **rest}
        if ref == "#":
            node = {keyword: value for keyword, value in node.items() if keyword not in ("$defs", "definitions")}
    return dict(node)


def _can_add(node: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    more, names = node.get("additionalProperties", True), other.get("properties")
    if more is True or not isinstance(names, Mapping):
        return True
    return names.keys() <= (node.get("properties") or {}).keys()


def flatten_union(alternatives: Sequence[Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """Combines the alternatives of an `anyOf` into one schema that accepts at least the same values.

    Returns:
        The combined schema, and True if it accepts exactly the same values. None if the alternatives can't be combined.
    """
    found = [_resolved(each, root) if isinstance(each, Mapping) else None for each in alternatives]
    known = [
        {keyword: value for keyword, value in each.items() if keyword not in _NOT_DEMANDS}
        for each in found
        if each is not None
    ]
    if len(known) < len(alternatives) or not known:
        return None
    if all(each.keys() <= _OF_OBJECTS and types_of(each) in ([], ["object"]) for each in known):
        return _any_object(known), False
    if all(
        each.keys() <= _OF_VALUES and ("enum" in each or "const" in each or each.get("type") == "null")
        for each in known
    ):
        values = [value for each in known for value in each.get("enum", [each.get("const")])]
        kinds = list(dict.fromkeys(kind for each in known for kind in types_of(each)))
        typed = {"type": kinds[0] if len(kinds) == 1 else kinds} if all(map(types_of, known)) else {}
        return {**typed, "enum": unique(values)}, True
    kinds = [kind for each in known for kind in types_of(each)]
    apart = len(set(kinds)) == len(kinds) and not {"integer", "number"} <= set(kinds) and all(map(types_of, known))
    plain = not any({"enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if"} & each.keys() for each in known)
    if not apart or not plain:
        return None
    # The types differ, so no keyword but `type` occurs twice.
    merged = {keyword: value for each in known for keyword, value in each.items()}
    return {**merged, "type": kinds[0] if len(kinds) == 1 else kinds}, True


def _any_object(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Only properties that all schemas require are required.
    names = dict.fromkeys(name for each in schemas for name in each.get("properties") or {})
    properties = {
        name: one_of(each["properties"][name] for each in schemas if name in (each.get("properties") or {}))
        for name in names
    }
    required = [
        name
        for name in dict.fromkeys(name for each in schemas for name in each.get("required") or ())
        if all(name in (each.get("required") or ()) for each in schemas)
    ]
    more = [each.get("additionalProperties", True) for each in schemas]
    out: dict[str, Any] = {"type": "object"}
    if properties:
        out["properties"] = properties
    if required:
        out["required"] = required
    if True not in more and {} not in more:
        limits = unique(each for each in more if each is not False)
        out["additionalProperties"] = one_of(limits) if limits else False
    return out
