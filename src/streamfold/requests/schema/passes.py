"""Passes that are not specific to a provider, and the walk over a schema that all passes share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["ANNOTATIONS", "Passed", "Visit", "drop_keywords", "inline_refs", "inner", "rebuilt", "resolve"]

Passed: TypeAlias = tuple[dict[str, Any], list[str]]
Visit: TypeAlias = Callable[[dict[str, Any], str], dict[str, Any]]

# Keywords that say something about a value, and do not decide whether it fits.
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
_CONDITIONS = ("not", "if", "then", "else")
_CONTAINERS = ("$defs", "definitions")
_MOST_INLINED = 1000  # definitions that use each other double with each level


def inner(schema: Mapping[str, Any], path: str, *, conditions: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields the schemas inside a schema, each with its path; those of conditions only if asked."""
    for keyword, value in schema.items():
        at = f"{path}.{keyword}"
        if keyword in _NAMED and isinstance(value, Mapping):
            yield from ((f"{at}.{name}", inside) for name, inside in value.items())
        elif keyword in _LISTED and isinstance(value, list):
            yield from ((f"{at}[{position}]", inside) for position, inside in enumerate(value))
        elif keyword in _SINGLE or (conditions and keyword in _CONDITIONS):
            yield at, value


def rebuilt(schema: Any, path: str, visit: Visit, *, conditions: bool = False) -> Any:
    """Returns a copy in which each schema is replaced by `visit(schema)`, the outer ones first."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(visit(dict(schema), path))
    for keyword, value in out.items():
        at = f"{path}.{keyword}"
        if keyword in _NAMED and isinstance(value, Mapping):
            out[keyword] = {
                name: rebuilt(inside, f"{at}.{name}", visit, conditions=conditions) for name, inside in value.items()
            }
        elif keyword in _LISTED and isinstance(value, list):
            out[keyword] = [
                rebuilt(inside, f"{at}[{position}]", visit, conditions=conditions)
                for position, inside in enumerate(value)
            ]
        elif keyword in _SINGLE or (conditions and keyword in _CONDITIONS):
            out[keyword] = rebuilt(value, at, visit, conditions=conditions)
    return out


def drop_keywords(schema: Mapping[str, Any], keywords: Collection[str], *, at: str = "parameters") -> Passed:
    """Drops keywords. Their constraints are no longer enforced by the provider: validate the answer.

    >>> drop_keywords({"type": "string", "minLength": 1}, ["minLength"])
    ({'type': 'string'}, ['parameters: minLength removed (the provider does not take it)'])
    """
    changes: list[str] = []

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        gone = [keyword for keyword in node if keyword in keywords]
        changes.extend(f"{path}: {keyword} removed (the provider does not take it)" for keyword in gone)
        return {keyword: value for keyword, value in node.items() if keyword not in gone}

    return rebuilt(schema, at, visit, conditions=True), changes


def inline_refs(
    schema: Mapping[str, Any],
    *,
    wanted: Callable[[Mapping[str, Any], str], bool] | None = None,
    why: str = "",
    at: str = "parameters",
) -> Passed:
    """Replaces each `$ref` into the schema itself by its target. Keywords beside it override the target's.

    A reference to something that it is a part of can't be written out: it stays, with its definition, and is reported.
    So does one that leads elsewhere or nowhere. Definitions that nothing refers to any more go.

    Args:
        wanted: which of them; all, if it is left out.
        why: the reason, for the report.
    """
    changes: list[str] = []
    because = f" ({why})" if why else ""
    inlined = 0

    def expand(node: Any, path: str, inside: frozenset[str]) -> Any:
        nonlocal inlined
        if not isinstance(node, Mapping):
            return node
        ref = node.get("$ref")
        if isinstance(ref, str) and (wanted is None or wanted(node, path)):
            target = resolve(schema, ref)
            if not isinstance(target, Mapping):
                changes.append(f"{path}: {ref} stays (it leads to nothing in this schema)")
            elif ref in inside:
                changes.append(f"{path}: {ref} stays (it is recursive)")
            elif inlined >= _MOST_INLINED:
                changes.append(f"{path}: {ref} stays (more than {_MOST_INLINED} were written out already)")
            else:
                inlined += 1
                changes.append(f"{path}: {ref} is written out{because}")
                beside = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
                return expand(_merged(target, beside), path, inside | {ref})
        if wanted is None and "discriminator" in node:  # OpenAPI's word, which leads to definitions
            changes.append(f"{path}: discriminator removed (what it leads to is written out)")
            node = {keyword: value for keyword, value in node.items() if keyword != "discriminator"}
        return {keyword: each(keyword, value, f"{path}.{keyword}", inside) for keyword, value in node.items()}

    def each(keyword: str, value: Any, path: str, inside: frozenset[str]) -> Any:
        if keyword in _NAMED and isinstance(value, Mapping):
            own = f"#/{keyword}/" if path == f"{at}.{keyword}" and keyword in _CONTAINERS else None
            return {
                name: expand(one, f"{path}.{name}", inside | ({own + name} if own else set()))
                for name, one in value.items()
            }
        if keyword in _LISTED and isinstance(value, list):
            return [expand(one, f"{path}[{position}]", inside) for position, one in enumerate(value)]
        return expand(value, path, inside) if keyword in (*_SINGLE, *_CONDITIONS) else value

    out = expand(schema, at, frozenset(("#",)))
    if not inlined:
        return out, changes
    kept = _without_unused(out)
    gone = tuple(
        f"{at}.{container}.{name}{end}"
        for container in _CONTAINERS
        for name in set(out.get(container) or ()) - set(kept.get(container) or ())
        for end in ".:["
    )
    return kept, [change for change in changes if not change.startswith(gone)]


def resolve(schema: Mapping[str, Any], ref: str) -> Any:
    """Returns the target of a reference inside a schema; None if it points elsewhere or to nothing."""
    if ref == "#":
        return schema
    found: Any = schema
    for word in ref[2:].split("/") if ref.startswith("#/") else [None]:
        key = word.replace("~1", "/").replace("~0", "~") if word is not None else None
        if isinstance(found, list) and key is not None and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            return None
    return found


def _merged(target: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    clash = [keyword for keyword in beside if keyword in target and target[keyword] != beside[keyword]]
    if all(keyword in ANNOTATIONS for keyword in clash):
        return {**target, **beside}
    return {"allOf": [dict(target), dict(beside)]}  # both hold, and neither may take the other's place


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Drops definitions that nothing refers to."""
    used: set[str] = set()
    waiting: list[Any] = [{keyword: value for keyword, value in schema.items() if keyword not in _CONTAINERS}]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        waiting.extend(inside for _, inside in inner(node, "", conditions=True))
        ref = node.get("$ref")
        if isinstance(ref, str) and ref not in used:
            used.add(ref)
            waiting.append(resolve(schema, ref))
    out = dict(schema)
    for container in _CONTAINERS:
        if isinstance(out.get(container), Mapping):
            prefix = f"#/{container}/"
            names = {ref.removeprefix(prefix).split("/")[0] for ref in used if ref.startswith(prefix)}
            out[container] = {name: value for name, value in out[container].items() if name in names}
            if not out[container]:
                del out[container]
    return out
