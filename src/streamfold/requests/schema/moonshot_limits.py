"""How large a schema Moonshot takes: the limits of MoonshotAI/walle, which its API refuses a request by.

"schema exceeds maximum allowed size" (MoonshotAI/kimi-cli#2475) and "schema depth exceeds maximum limit of 10"
(anomalyco/opencode#25495) are its answers. One schema that is too large spoils the whole request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .passes import inner, resolve

__all__ = ["limit_problems"]

_MOST_BYTES = 15_000
_MOST_DEPTH = 10  # objects inside objects
_MOST_FIELDS = 1_000  # of all objects together
_MOST_VALUES = 500  # of one enum
_MANY_VALUES = 250  # so many may be as long as they like
_MOST_CHARACTERS = 7_500  # of all values of an enum that has more
_MOST_ALTERNATIVES = 100


def limit_problems(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    """What is too large in a schema, each with the path to the place."""
    size = _size(schema)
    if size > _MOST_BYTES:
        yield f"{at}: is {size} bytes long as JSON, and may be {_MOST_BYTES}: shorten descriptions, or divide the tool"
    if (depth := _depth(schema, schema, {})) > _MOST_DEPTH:
        yield f"{at}: has objects inside objects {depth} deep, and may have {_MOST_DEPTH}"
    nodes = list(_nodes(schema, at))
    fields = sum(len(node["properties"]) for _, node in nodes if isinstance(node.get("properties"), Mapping))
    if fields > _MOST_FIELDS:
        yield f"{at}: has {fields} properties in all its objects together, and may have {_MOST_FIELDS}"
    for path, node in nodes:
        yield from _list_problems(node, path)


def _size(schema: Mapping[str, Any]) -> int:
    """The length that the server measures: of compact JSON with <, > and & as \\u003c and so on, as Go writes it."""
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace")) + 5 * sum(text.count(sign) for sign in "<>&")


def _depth(node: Any, root: Mapping[str, Any], known: dict[str, int]) -> int:
    """How many objects lie inside each other. `known` has those of definitions; a recursive one counts once."""
    if not isinstance(node, Mapping):
        return 0
    deepest = 0
    ref = node.get("$ref")
    if isinstance(ref, str):
        if ref not in known:
            known[ref] = 0
            known[ref] = _depth(resolve(root, ref), root, known)
        deepest = known[ref]
    for path, value in inner(node, ""):
        if not path.startswith(".$defs."):
            deepest = max(deepest, _depth(value, root, known) + path.startswith(".properties."))
    return deepest


def _nodes(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(node, Mapping):
        yield path, node
        for at, value in inner(node, path):
            yield from _nodes(value, at)


def _list_problems(node: Mapping[str, Any], path: str) -> Iterator[str]:
    alternatives, values = node.get("anyOf"), node.get("enum")
    if isinstance(alternatives, list) and not 1 <= len(alternatives) <= _MOST_ALTERNATIVES:
        yield f"{path}: anyOf has {len(alternatives)} alternatives, and may have 1 to {_MOST_ALTERNATIVES}"
    if not isinstance(values, list):
        return
    if len(values) > _MOST_VALUES:
        yield f"{path}: enum has {len(values)} values, and may have {_MOST_VALUES}"
    elif len(values) > _MANY_VALUES:
        long = sum(len(str(value).encode("utf-8", "replace")) for value in values)
        if long > _MOST_CHARACTERS:
            yield f"{path}: enum has {len(values)} values of {long} bytes, and may have {_MOST_CHARACTERS} bytes"
