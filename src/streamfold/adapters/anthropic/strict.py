"""Tools whose arguments the API holds to their schema, as many as it takes.

https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs: every object is closed, and over all strict
tools of a request there are limits, beyond which it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...requests.schema import map_subschemas
from ...types import ReplyWarning, Tool

if TYPE_CHECKING:
    from ...requests import Request

_MOST = {"tools": 20, "optional parameters": 24, "parameters with unions": 16}


def close_objects(schema: Mapping[str, Any]) -> Any:
    """Returns the schema with every object closed, which the API demands where it holds the model to a schema."""

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        is_object = node.get("type") == "object" or "properties" in node
        return {**node, "additionalProperties": False} if is_object else node

    return map_subschemas(schema, "", visit)


def limit_strict_tools(request: Request) -> tuple[Request, list[ReplyWarning]]:
    """Returns the request with as many strict tools as the API takes, and a warning about the others."""
    if not any(tool.strict for tool in request.tools):
        return request, []
    used: Counter[str] = Counter()
    tools, dropped = list[Tool](), list[str]()
    for at, tool in enumerate(request.tools):
        if not tool.strict or tool.kind != "function":
            tools.append(tool)
            continue
        needs = _needs(tool.parameters)
        if over := [what for what, most in _MOST.items() if used[what] + needs[what] > most]:
            dropped.append(f"tools[{at}] (more than {_MOST[over[0]]} {over[0]})")
            tools.append(replace(tool, strict=None))
            continue
        used += needs
        tools.append(replace(tool, parameters=close_objects(tool.parameters)))
    detail = f"the API takes no more strict tools: strict was not sent for {', '.join(dropped[:20])}"
    return replace(request, tools=tuple(tools)), [ReplyWarning("option_dropped", detail)] if dropped else []


def _needs(schema: Mapping[str, Any]) -> Counter[str]:
    """What a schema takes of the limits."""
    found = Counter({"tools": 1})

    def visit(node: dict[str, Any], path: str) -> dict[str, Any]:
        named = node.get("properties")
        for name, inner in named.items() if isinstance(named, Mapping) else ():
            found["optional parameters"] += name not in (node.get("required") or ())
            union = isinstance(inner, Mapping) and ("anyOf" in inner or isinstance(inner.get("type"), list))
            found["parameters with unions"] += union
        return node

    map_subschemas(schema, "", visit)
    return found
