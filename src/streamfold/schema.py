"""What a provider's own flavour of JSON Schema does not take, found before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["moonshot_problems"]

_HAS_TYPE = ("type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const")


def moonshot_problems(schema: Any) -> list[str]:
    """Why Moonshot would refuse a tool's parameters, each with the path to the place; empty if it would not.

    The root is an object, every nested schema says its type, `type` does not stand beside `anyOf`, and a `$ref` leads
    into `#/$defs` and stands alone: https://platform.moonshot.ai/docs/guide/use-kimi-api-to-complete-tool-calls and
    MoonshotAI/walle, which checks the same.
    """
    if not isinstance(schema, Mapping):
        return ["parameters: must be a JSON schema"]
    problems = [] if schema.get("type") == "object" else ['parameters: the root needs "type": "object"']
    return problems + list(_problems(schema, "parameters", root=True))


def _problems(schema: Any, path: str, *, root: bool = False) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return  # `true` and `false` are schemas too
    if "anyOf" in schema and "type" in schema:
        yield f'{path}: "type" may not stand beside "anyOf"; give each alternative its own'
    if "$ref" in schema:
        if not str(schema["$ref"]).startswith("#/$defs/"):
            yield f'{path}: a "$ref" must lead into "#/$defs", not to {schema["$ref"]!r}'
        if len(schema) > 1:
            yield f'{path}: nothing may stand beside "$ref"'
    elif not root and not any(word in schema for word in _HAS_TYPE):
        yield f'{path}: needs a "type"'
    for keyword in ("properties", "$defs"):
        inner = schema.get(keyword)
        for name, value in inner.items() if isinstance(inner, Mapping) else ():
            yield from _problems(value, f"{path}.{keyword}.{name}")
    if isinstance(schema.get("items"), Mapping):
        yield from _problems(schema["items"], f"{path}.items")
    for keyword in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(keyword)
        for position, value in enumerate(alternatives if isinstance(alternatives, list) else ()):
            yield from _problems(value, f"{path}.{keyword}[{position}]")
