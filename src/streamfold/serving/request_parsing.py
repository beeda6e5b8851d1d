"""Parses the request fields that several APIs have in common: tools, tool choice and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..requests import ObjectReader, kind_of
from ..types import AllowedTools, NamedTool, ReadToolChoice, Tool, from_base64, read_tool, read_tool_choice

STANDARD_ALPHABET = str.maketrans("-_", "+/")  # Google's Python client uses the base64 alphabet for URLs


def wants_stream(body: Any) -> bool:
    """Returns True if the client requested a stream. Raises ConfigError if `stream` isn't a boolean."""
    return bool(ObjectReader(body).flag("stream"))


def refuse_several(fields: ObjectReader) -> None:
    if (number := fields.any("n")) not in (None, 1):
        raise ConfigError(f"n must be 1, not {number!r}: each request gets one answer; send several requests instead")


def read_tools(entries: list[Any] | None, *, nested: bool) -> tuple[Tool, ...]:
    """Returns the tools of a request. Raises ConfigError, with the position in the list, for a tool that isn't a
    function.

    Unknown fields of a tool go to `Tool.extra`, which is sent only to providers with the same API.

    Args:
        nested: True if a tool's definition is inside the field `function`, as in Chat Completions.
    """
    tools = []
    for at, entry in enumerate(entries or ()):
        where = f"tools[{at}]"
        fields = ObjectReader(entry, where)
        kind = fields.any("type")
        if kind != "function" and not (nested and kind == "builtin_function"):
            raise ConfigError(f"{where}.type is {kind!r}. Allowed: function")
        inner = fields.object("function") if nested else fields
        if inner is None:
            raise ConfigError(f'{where}.function is missing: it must be an object with the "name" of the function')
        tools.append(read_function(inner, kind, fields.rest() if nested else None))
    return tuple(tools)


def read_function(fields: ObjectReader, kind: str = "function", beside: Mapping[str, Any] | None = None) -> Tool:
    """Converts a function declaration to a tool. Unknown fields go to `Tool.extra`.

    Args:
        beside: the fields next to `function`, if the function is a nested object.
    """
    members: dict[str, Any] = {"name": fields.need("name"), "parameters": fields.mapping("parameters")}
    members |= {"description": fields.text("description"), "strict": fields.flag("strict")}
    extra = fields.rest()
    mark = (beside or {}).get("cache_control", extra.get("cache_control"))
    tool = read_tool({"type": kind, "function": members, **({} if mark is None else {"cache_control": mark})})
    if beside is not None:
        extra = {**beside, **({"function": extra} if extra else {})}
    return replace(tool, extra=extra)


def unread_fields(fields: ObjectReader, **groups: ObjectReader | None) -> dict[str, Any]:
    """Returns the fields of a request that haven't been read. `groups` are nested objects, whose unread fields are
    included."""
    left = {name: group.rest() for name, group in groups.items() if group is not None}
    return {**fields.rest(), **{name: rest for name, rest in left.items() if rest}}


def read_choice(choice: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    """Parses the tool choice. Raises ConfigError if it requires a tool call, but the request has no tools."""
    read = read_tool_choice(choice, tools)
    if not tools and (isinstance(read, NamedTool) or read == "required"):
        raise ConfigError("tool_choice requires a tool call, but there are no tools")
    return read


def read_google_choice(
    mode: str, names: list[Any], tools: tuple[Tool, ...], where: str, names_where: str
) -> ReadToolChoice | None:
    """Parses the tool choice in a client's request to one of Google's APIs. Returns None for an unknown mode.

    Args:
        names: the names of the tools that the model may call. An empty list allows all tools.
        where, names_where: the paths of the mode and of the names, for error messages.
    """
    known = [tool.name for tool in tools if tool.hosted is None]
    for name in names:
        if name not in known:
            raise ConfigError(f"{names_where}: there is no function {name!r}")
    match mode:
        case "none":
            return "none"
        case "any" if not known:
            raise ConfigError(f"{where} requires a tool call, but there are no functions")
        case "any" if len(names) == 1:
            return NamedTool(names[0])
        case "any":
            return AllowedTools(tuple(names), "required") if names else "required"
        case "auto" | "validated":
            return AllowedTools(tuple(names)) if names else "auto"
    return None


def read_google_base64(data: str, where: str) -> bytes:
    """Decodes base64 data in a request of one of Google's APIs. Raises ConfigError if the data isn't base64."""
    try:
        return from_base64(data.translate(STANDARD_ALPHABET))
    except ValueError as exc:
        raise ConfigError(f"{where} is {exc}") from None


def read_stop(value: Any) -> str | list[str] | None:
    if isinstance(value, str | None) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return value or None
    raise ConfigError(f"stop must be a string or a list of strings, not {kind_of(value)}")
