"""The walk over a schema that all passes share, and the pass that drops keywords."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

Passed: TypeAlias = tuple[dict[str, Any], list[str]]
Visit: TypeAlias = Callable[[dict[str, Any], str], dict[str, Any]]

# Keywords that say something about a value, and do not decide whether it fits.
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
# Keywords whose value has schemas: by name, in a list, a single one, or one that others depend on.
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
CONDITIONS = ("not", "if", "then", "else")


def subschemas(schema: Mapping[str, Any], path: str, *, conditions: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields the schemas inside a schema, each with its path; those of conditions only if asked."""
    for keyword, value in schema.items():
        at = f"{path}.{keyword}"
        if keyword in NAMED and isinstance(value, Mapping):
            yield from ((f"{at}.{name}", inside) for name, inside in value.items())
        elif keyword in LISTED and isinstance(value, list):
            yield from ((f"{at}[{position}]", inside) for position, inside in enumerate(value))
        elif keyword in SINGLE or (conditions and keyword in CONDITIONS):
            yield at, value


def map_subschemas(schema: Any, path: str, visit: Visit, *, conditions: bool = False) -> Any:
    """Returns a copy in which each schema is replaced by `visit(schema)`, the outer ones first."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(visit(dict(schema), path))
    for keyword, value in out.items():
        at = f"{path}.{keyword}"
        if keyword in NAMED and isinstance(value, Mapping):
            out[keyword] = {
                name: map_subschemas(inside, f"{at}.{name}", visit, conditions=conditions)
                for name, inside in value.items()
            }
        elif keyword in LISTED and isinstance(value, list):
            out[keyword] = [
                map_subschemas(inside, f"{at}[{position}]", visit, conditions=conditions)
                for position, inside in enumerate(value)
            ]
        elif keyword in SINGLE or (conditions and keyword in CONDITIONS):
            out[keyword] = map_subschemas(value, at, visit, conditions=conditions)
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

    return map_subschemas(schema, at, visit, conditions=True), changes
