"""Functions that visit every schema inside a JSON schema: they check keywords, replace references and remove
keywords."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from ...errors import ConfigError
from ...types import resolve_ref

Passed: TypeAlias = tuple[dict[str, Any], list[str]]

# Keywords that describe a value, but don't decide whether the value is valid.
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
# Keywords whose value is a dict of schemas, a list of schemas, one schema, or one schema that is a condition.
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
CONDITIONS = ("not", "if", "then", "else")


def schema_digest(schema: Mapping[str, Any]) -> str:
    return sha256(json.dumps(schema, sort_keys=True, default=repr).encode("utf-8", "replace")).hexdigest()


def subschemas(schema: Mapping[str, Any], path: str, *, conditions: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields each schema inside a schema, with its path. Schemas inside conditions such as `if` and `not` are included
    only with `conditions=True`."""
    for keyword, value in schema.items():
        at = f"{path}.{keyword}"
        if keyword in NAMED and isinstance(value, Mapping):
            yield from ((f"{at}.{name}", inside) for name, inside in value.items())
        elif keyword in LISTED and isinstance(value, list):
            yield from ((f"{at}[{position}]", inside) for position, inside in enumerate(value))
        elif keyword in SINGLE or (conditions and keyword in CONDITIONS):
            yield at, value


def map_subschemas(
    schema: Mapping[str, Any],
    path: str,
    convert: Callable[[Any, str], Any],
    *,
    single: Collection[str] = (*SINGLE, *CONDITIONS),
) -> dict[str, Any]:
    """Returns a copy in which each direct subschema is replaced with the result of `convert(subschema, path)`.

    Args:
        single: the keywords such as `items` whose value is one schema. Only the values of these keywords are replaced.
    """
    out = dict(schema)
    for keyword, value in schema.items():
        at = f"{path}.{keyword}"
        if keyword in NAMED and isinstance(value, Mapping):
            out[keyword] = {name: convert(inside, f"{at}.{name}") for name, inside in value.items()}
        elif keyword in LISTED and isinstance(value, list):
            out[keyword] = [convert(inside, f"{at}[{position}]") for position, inside in enumerate(value)]
        elif keyword in single:
            out[keyword] = convert(value, at)
    return out


def drop_keywords(schema: Mapping[str, Any], keywords: Collection[str], *, at: str = "parameters") -> Passed:
    """Removes keywords from a JSON schema. The provider then doesn't enforce the removed constraints, so streamfold
    must validate the answer.

    >>> drop_keywords({"type": "string", "minLength": 1}, ["minLength"])
    ({'type': 'string'}, ["parameters: minLength removed (the provider doesn't support it)"])
    """
    changes: list[str] = []

    def without(node: Any, path: str) -> Any:
        if not isinstance(node, Mapping):
            return node
        gone = [keyword for keyword in node if keyword in keywords]
        changes.extend(f"{path}: {keyword} removed (the provider doesn't support it)" for keyword in gone)
        kept = {keyword: value for keyword, value in node.items() if keyword not in gone}
        return map_subschemas(kept, path, without)

    return without(schema, at), changes


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (lambda value: isinstance(value, str) or _is_words(value), "a string or a list of strings"),
    "required": (_is_words, "a list of strings"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "$ref": (lambda value: isinstance(value, str), "a string"),
    "format": (lambda value: isinstance(value, str), "a string"),
    **dict.fromkeys(NAMED, (lambda value: isinstance(value, Mapping), "an object")),
    **dict.fromkeys(LISTED, (lambda value: isinstance(value, list), "a list of schemas")),
}


def check_shapes(schema: Mapping[str, Any], at: str) -> None:
    """Checks that the keywords of a JSON schema have values of the right types.

    Raises:
        ConfigError: the value of a keyword has the wrong type. The error message begins with the keyword's path.
    """
    waiting: list[tuple[str, Any]] = [(at, schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        for keyword, value in node.items():
            if keyword in _SHAPES and value is not None and not _SHAPES[keyword][0](value):
                raise ConfigError(f"{path}.{keyword} must be {_SHAPES[keyword][1]}, not {value!r:.80}")
        waiting += subschemas(node, path, conditions=True)


_CONTAINERS = ("$defs", "definitions")
_MOST_INLINED = 1000  # definitions that use each other twice double with each level


def inline_refs(
    schema: Mapping[str, Any],
    *,
    wanted: Callable[[Mapping[str, Any], str], bool] | None = None,
    why: str = "",
    at: str = "parameters",
) -> Passed:
    """Replaces each `$ref` with its target. Keywords next to the `$ref` override the target's keywords.

    A reference that is recursive, external or dangling can't be replaced. Such a reference stays in the schema together
    with its definition, and a description of the problem is returned. Unused definitions are removed.

    Args:
        wanted: a function that selects the references to replace. By default, all references are replaced.
        why: the reason for the replacement, which the description of each change contains.
    """
    inliner = _Inliner(schema, wanted, f" ({why})" if why else "", at)
    out = inliner.expand(schema, at, frozenset(("#",)))
    if not inliner.inlined:
        return out, inliner.changes
    kept = _without_unused(out)
    dropped = tuple(
        f"{at}.{container}.{name}{end}"
        for container in _CONTAINERS
        for name in set(out.get(container) or ()) - set(kept.get(container) or ())
        for end in ".:["
    )
    return kept, [change for change in inliner.changes if not change.startswith(dropped)]


class _Inliner:
    def __init__(
        self, schema: Mapping[str, Any], wanted: Callable[[Mapping[str, Any], str], bool] | None, because: str, at: str
    ) -> None:
        self._schema = schema
        self._wanted = wanted
        self._because = because
        self._at = at
        self.inlined = 0
        self.changes: list[str] = []

    def expand(self, node: Any, path: str, inside: frozenset[str]) -> Any:
        """Returns a copy without references. `inside` contains the references that are being replaced around `node`, to
        detect recursion."""
        if not isinstance(node, Mapping):
            return node
        ref = node.get("$ref")
        if isinstance(ref, str) and (self._wanted is None or self._wanted(node, path)):
            target = self._target(ref, path, inside)
            if target is not None:
                beside = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
                return self.expand(_merged(target, beside), path, inside | {ref})
        if self._wanted is None and "discriminator" in node:  # OpenAPI's keyword, which refers to definitions
            self.changes.append(f"{path}: discriminator removed (its targets were inlined)")
            node = {keyword: value for keyword, value in node.items() if keyword != "discriminator"}
        own = {}  # the references to the definitions in this schema: a definition may refer to itself
        if path == self._at:
            own = {f"{path}.{at}.{name}": f"#/{at}/{name}" for at in _CONTAINERS for name in node.get(at) or ()}

        def expand(inner: Any, at: str) -> Any:
            return self.expand(inner, at, inside | {own[at]} if at in own else inside)

        return map_subschemas(node, path, expand)

    def _target(self, ref: str, path: str, inside: frozenset[str]) -> Mapping[str, Any] | None:
        """Returns the schema to which a reference points, or None if the reference must stay in the schema. In both
        cases, adds a line to `changes`.
        """
        target = resolve_ref(self._schema, ref)
        if not isinstance(target, Mapping):
            reason = "the target isn't in this schema"
        elif ref in inside:
            reason = "it is recursive"
        elif self.inlined >= _MOST_INLINED:
            reason = f"more than {_MOST_INLINED} references were inlined"
        else:
            self.inlined += 1
            self.changes.append(f"{path}: {ref} was inlined{self._because}")
            return target
        self.changes.append(f"{path}: {ref} was kept ({reason})")
        return None


def _merged(target: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    clash = [keyword for keyword in beside if keyword in target and target[keyword] != beside[keyword]]
    if all(keyword in ANNOTATIONS for keyword in clash):
        both = {"description": f"{beside['description']} {target['description']}"} if "description" in clash else {}
        return {**target, **beside, **both}
    return {"allOf": [dict(target), dict(beside)]}  # a value must match both schemas


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    used: set[str] = set()
    waiting: list[Any] = [{keyword: value for keyword, value in schema.items() if keyword not in _CONTAINERS}]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        waiting.extend(inside for _, inside in subschemas(node, "", conditions=True))
        ref = node.get("$ref")
        if isinstance(ref, str) and ref not in used:
            used.add(ref)
            waiting.append(resolve_ref(schema, ref))
    out = dict(schema)
    for container in _CONTAINERS:
        if isinstance(out.get(container), Mapping):
            prefix = f"#/{container}/"
            names = {ref.removeprefix(prefix).split("/")[0] for ref in used if ref.startswith(prefix)}
            out[container] = {name: value for name, value in out[container].items() if name in names}
            if not out[container]:
                del out[container]
    return out
