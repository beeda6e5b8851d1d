"""Validates JSON values against a JSON schema, and converts JSON strings to the objects and lists that the schema
requires.

Implements https://json-schema.org/draft/2020-12/json-schema-validation. `$ref` may only point to a place in the same
schema. `format`, `unevaluatedProperties`, `unevaluatedItems` and unknown keywords are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from ..jsontext import parse_object

Path = tuple[str | int, ...]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}
_DEEPEST = 100  # levels of nesting, above which values aren't checked


class SchemaProblem(NamedTuple):
    path: Path
    message: str
    value: Any


def schema_problems(value: Any, schema: Any) -> list[SchemaProblem]:
    """Returns the reasons why a value doesn't match a schema. The list is empty if the value is valid.

    >>> schema_problems({"n": 0}, {"properties": {"n": {"minimum": 1}}})
    [SchemaProblem(path=('n',), message='must be at least 1', value=0)]
    """
    return list(_Validation(schema).problems(value, schema, (), frozenset()))


def matches_schema(value: Any, schema: Any, root: Any = None) -> bool:
    """Returns True if a value matches a schema.

    Args:
        root: the schema to which references in `schema` point, if it isn't `schema` itself.
    """
    return next(_Validation(schema if root is None else root).problems(value, schema, (), frozenset()), None) is None


def read_by_schema(value: Any, schema: Any) -> tuple[Any, list[SchemaProblem]]:
    """Removes superfluous nulls from a JSON value. Returns the new value, and the reasons why it doesn't match the
    schema.

    A null is superfluous if the property is optional and doesn't allow null. Models write such nulls when they follow a
    strict schema, which requires every property.
    """
    problems = schema_problems(value, schema)
    if nulls := [problem.path for problem in problems if problem.value is None and problem.path]:
        without = value
        for path in nulls:
            without = without_null(without, path)
        if not schema_problems(without, schema):
            return without, []
    return value, problems


def unwrapped_arguments(arguments: dict[str, Any], schema: Any) -> tuple[dict[str, Any], list[str]]:
    """Converts JSON strings inside arguments to objects and lists. Returns the arguments after the conversion, and the
    paths of the converted strings.

    A string is converted only if the schema doesn't allow a string, and the object or list in it matches the schema.
    Models write an object as a JSON string if the schema has references (pydantic/pydantic-ai#10243). Servers do the
    same if their parser for tool calls doesn't follow references (vllm-project/vllm#46924).

    >>> unwrapped_arguments({"place": '{"city": "Oslo"}'}, {"properties": {"place": {"type": "object"}}})
    ({'place': {'city': 'Oslo'}}, ['place'])
    """
    found: list[str] = []
    made = _unwrapped(arguments, schema, schema, (), found) if _has_json_text(arguments) else arguments
    return (made, found) if found else (arguments, [])


def resolve_ref(schema: Any, ref: str) -> Any:
    """Returns the schema to which a reference points, or None if the root schema doesn't contain it."""
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


class _Validation:
    def __init__(self, root: Any) -> None:
        self._root = root
        # The problems of each object and list, so that recursive unions aren't checked again at each level.
        self._known: dict[tuple[int, int, frozenset[str]], list[SchemaProblem]] = {}

    def problems(self, value: Any, schema: Any, path: Path, refs: frozenset[str]) -> Iterator[SchemaProblem]:
        if not isinstance(value, Mapping | list):
            yield from self._problems(value, schema, path, refs)
            return
        key = (id(schema), id(value), refs)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = list(self._problems(value, schema, path, refs))
        yield from known

    def _problems(self, value: Any, schema: Any, path: Path, refs: frozenset[str]) -> Iterator[SchemaProblem]:
        if schema is False:
            yield SchemaProblem(path, "is not allowed", value)
        if not isinstance(schema, Mapping) or len(path) > _DEEPEST:
            return
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in refs:
            yield from self.problems(value, resolve_ref(self._root, ref), path, refs | {ref})
        kinds = schema.get("type")
        allowed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        if allowed and not any(kind not in _TYPES or _TYPES[kind](value) for kind in allowed):
            yield SchemaProblem(path, f"must be of the type {' or '.join(map(str, allowed))}", value)
            return
        if "const" in schema and not _same(value, schema["const"]):
            yield SchemaProblem(path, f"must be {schema['const']!r}", value)
        if isinstance(listed := schema.get("enum"), list) and not any(_same(value, each) for each in listed):
            yield SchemaProblem(path, f"must be one of {', '.join(map(repr, listed))}", value)
        yield from self._combined(value, schema, path, refs)
        if isinstance(value, str):
            yield from _of_size(len(value), schema, path, value, "Length", "characters")
            pattern = schema.get("pattern")
            if isinstance(pattern, str) and (compiled := _compiled(pattern)) and not compiled.search(value):
                yield SchemaProblem(path, f"must match the pattern {pattern}", value)
        elif _is_number(value):
            yield from _of_number(value, schema, path)
        elif isinstance(value, list):
            yield from self._of_list(value, schema, path)
        elif isinstance(value, Mapping):
            yield from self._of_object(value, schema, path, refs)

    def _fits(self, value: Any, schema: Any, path: Path, refs: frozenset[str]) -> bool:
        return next(self.problems(value, schema, path, refs), None) is None

    def _combined(
        self, value: Any, schema: Mapping[str, Any], path: Path, refs: frozenset[str]
    ) -> Iterator[SchemaProblem]:
        for inner in _schemas(schema, "allOf"):
            yield from self.problems(value, inner, path, refs)
        for keyword in ("anyOf", "oneOf"):
            refused = [list(self.problems(value, inner, path, refs)) for inner in _schemas(schema, keyword)]
            if refused and all(refused):  # reports the problems of the schema that fits best
                yield from min(refused, key=lambda problems: (-max(len(each.path) for each in problems), len(problems)))
            elif keyword == "oneOf" and sum(not problems for problems in refused) > 1:
                yield SchemaProblem(path, "matches more than one schema in `oneOf`, but must match exactly one", value)
        if "not" in schema and self._fits(value, schema["not"], path, refs):
            yield SchemaProblem(path, "matches the schema of `not`", value)
        if "if" in schema:
            branch = "then" if self._fits(value, schema["if"], path, refs) else "else"
            yield from self.problems(value, schema.get(branch), path, refs)

    def _of_list(self, value: list[Any], schema: Mapping[str, Any], path: Path) -> Iterator[SchemaProblem]:
        yield from _of_size(len(value), schema, path, value, "Items", "items")
        if schema.get("uniqueItems") is True and len({_key(each) for each in value}) < len(value):
            yield SchemaProblem(path, "must not have duplicate items", value)
        first = _schemas(schema, "prefixItems")
        items = schema.get("items")
        if isinstance(items, list):  # in drafts before 2020-12
            first, items = items, schema.get("additionalItems")
        for at, each in enumerate(value):
            yield from self.problems(each, first[at] if at < len(first) else items, (*path, at), frozenset())
        if "contains" in schema:
            found = sum(self._fits(each, schema["contains"], (*path, at), frozenset()) for at, each in enumerate(value))
            least, most = schema.get("minContains", 1), schema.get("maxContains")
            if found < least or (most is not None and found > most):
                yield SchemaProblem(
                    path, f"has {found} items that match `contains`, which is too few or too many", value
                )

    def _of_object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path, refs: frozenset[str]
    ) -> Iterator[SchemaProblem]:
        yield from _of_size(len(value), schema, path, value, "Properties", "members")
        demanded = list(schema.get("required") or ())
        demanded += [each for name, more in _named(schema, "dependentRequired") if name in value for each in more]
        for name in dict.fromkeys(demanded):
            if name not in value:
                yield SchemaProblem((*path, name), "is required", value)
        properties = dict(_named(schema, "properties"))
        patterns = [(_compiled(pattern), inner) for pattern, inner in _named(schema, "patternProperties")]
        for name, inner in value.items():
            at = (*path, name)
            known = name in properties
            if known:
                yield from self.problems(inner, properties[name], at, frozenset())
            for pattern, form in patterns:
                if pattern is not None and pattern.search(name):
                    known = True
                    yield from self.problems(inner, form, at, frozenset())
            if not known and "additionalProperties" in schema:
                rest = schema["additionalProperties"]
                if rest is False:
                    yield SchemaProblem(at, "is unknown", inner)
                else:
                    yield from self.problems(inner, rest, at, frozenset())
            if "propertyNames" in schema:
                yield from self.problems(name, schema["propertyNames"], at, frozenset())
        for name, form in _named(schema, "dependentSchemas"):
            if name in value:
                yield from self.problems(value, form, path, refs)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) != _ENDLESS


_ENDLESS = float("inf")


def _same(one: Any, other: Any) -> bool:
    return bool(_key(one) == _key(other))


def _key(value: Any) -> Any:
    match value:
        case bool():
            return ("bool", value)
        case Mapping():
            return frozenset((name, _key(inner)) for name, inner in value.items())
        case list():
            return tuple(map(_key, value))
    return value


def _schemas(schema: Mapping[str, Any], keyword: str) -> Sequence[Any]:
    listed = schema.get(keyword)
    return listed if isinstance(listed, list) else ()


def _named(schema: Mapping[str, Any], keyword: str) -> list[tuple[str, Any]]:
    named = schema.get(keyword)
    return list(named.items()) if isinstance(named, Mapping) else []


def _of_size(
    size: int, schema: Mapping[str, Any], path: Path, value: Any, keyword: str, what: str
) -> Iterator[SchemaProblem]:
    least, most = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if _is_number(least) and size < least:
        yield SchemaProblem(path, f"must have at least {least} {what}", value)
    if _is_number(most) and size > most:
        yield SchemaProblem(path, f"must have at most {most} {what}", value)


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        return None


_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
}


def _of_number(value: float, schema: Mapping[str, Any], path: Path) -> Iterator[SchemaProblem]:
    for keyword, (holds, words) in _BOUNDS.items():
        bound = schema.get(keyword)
        if _is_number(bound) and not holds(value, bound):
            yield SchemaProblem(path, f"must be {words} {bound}", value)
    step = schema.get("multipleOf")
    if _is_number(step) and step > 0:
        # Decimal, as written: 0.3 is a multiple of 0.1.
        written, unit = (Fraction(each if isinstance(each, int) else repr(each)) for each in (value, step))
        if written % unit:
            yield SchemaProblem(path, f"must be a multiple of {step}", value)


def without_null(value: Any, path: Path) -> Any:
    """Returns a JSON value without the null at a path. Parts of the path that aren't in the value are skipped."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(value, Mapping) and first in value:
        if value[first] is None:
            return {name: inner for name, inner in value.items() if name != first}
        changed = without_null(value[first], rest)
        return value if changed is value[first] else {**value, first: changed}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        changed = without_null(value[first], rest)
        return value if changed is value[first] else [*value[:first], changed, *value[first + 1 :]]
    return without_null(value, rest)


# --- JSON texts in place of objects and lists -------------------------------------------------------------------------


def _has_json_text(value: Any) -> bool:
    match value:
        case str():
            return value.lstrip()[:1] in ("{", "[")
        case list():
            return any(map(_has_json_text, value))
        case dict():
            return any(map(_has_json_text, value.values()))
    return False


def _unwrapped(value: Any, schema: Any, root: Any, path: Path, found: list[str]) -> Any:
    if len(path) > _DEEPEST:
        return value
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("{", "[") or _allows_string(schema, root, frozenset()):
            return value
        try:
            parsed = parse_object(value)
        except ValueError:
            return value
        inside: list[str] = []
        parsed = _unwrapped(parsed, schema, root, path, inside) if isinstance(parsed, dict | list) else None
        if parsed is None or not matches_schema(parsed, schema, root):
            return value
        found += [".".join(map(str, path)), *inside]
        return parsed
    if isinstance(value, dict):
        return {
            name: _unwrapped(inner, form, root, (*path, name), found)
            if (form := _form_of(schema, name, value, root)) is not None
            else inner
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _unwrapped(inner, form, root, (*path, at), found)
            if (form := _form_of(schema, at, value, root)) is not None
            else inner
            for at, inner in enumerate(value)
        ]
    return value


def _form_of(schema: Any, key: str | int, value: Any, root: Any) -> Any:
    forms = list(_forms_of(schema, key, value, root, frozenset()))
    if not forms:
        return None
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _forms_of(schema: Any, key: str | int, value: Any, root: Any, refs: frozenset[str]) -> Iterator[Any]:
    if not isinstance(schema, Mapping):
        return
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in refs:
        yield from _forms_of(resolve_ref(root, ref), key, value, root, refs | {ref})
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in _schemas(schema, keyword):
            yield from _forms_of(inner, key, value, root, refs)
    if isinstance(key, str):
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and key in properties:
            yield properties[key]
        elif isinstance(rest, Mapping):
            yield rest
    else:
        first = _schemas(schema, "prefixItems")
        if key < len(first):
            yield first[key]
        elif isinstance(items := schema.get("items"), Mapping):
            yield items


def _allows_string(schema: Any, root: Any, refs: frozenset[str]) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False
    kinds = schema.get("type")
    if kinds is not None and kinds != "string" and not (isinstance(kinds, list) and "string" in kinds):
        return False
    if "const" in schema and not isinstance(schema["const"], str):
        return False
    if isinstance(listed := schema.get("enum"), list) and not any(isinstance(each, str) for each in listed):
        return False
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in refs and not _allows_string(resolve_ref(root, ref), root, refs | {ref}):
        return False
    if any(not _allows_string(inner, root, refs) for inner in _schemas(schema, "allOf")):
        return False
    return all(
        any(_allows_string(inner, root, refs) for inner in choices)
        for keyword in ("anyOf", "oneOf")
        if (choices := _schemas(schema, keyword))
    )
