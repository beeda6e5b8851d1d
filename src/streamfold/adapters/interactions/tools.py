"""Converts functions, hosted tools and the tool choice to the Interactions API's JSON.

https://ai.google.dev/gemini-api/docs/interactions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm, written_hosted
from ...types import AllowedTools, FileSearch, HostedMcpServer, NamedTool
from ..prepared_request import without_none

if TYPE_CHECKING:
    from ...requests import Request


def _file_search(tool: FileSearch) -> dict[str, Any]:
    more = without_none(top_k=tool.max_results, metadata_filter=tool.filter)
    return {"type": "file_search", "file_search_store_names": list(tool.stores), **more}


def _mcp(tool: HostedMcpServer) -> dict[str, Any]:
    headers = dict(tool.headers or {})
    if tool.authorization is not None:
        headers["Authorization"] = f"Bearer {tool.authorization}"
    allowed = [{"tools": list(tool.allowed_tools)}] if tool.allowed_tools is not None else None
    more = without_none(headers=headers or None, allowed_tools=allowed)
    return {"type": "mcp_server", "name": tool.name, "url": tool.url, **more}


FORMS = {
    "web_search": HostedForm(lambda tool: {"type": "google_search"}),
    "web_fetch": HostedForm(lambda tool: {"type": "url_context"}),
    "code_execution": HostedForm(lambda tool: {"type": "code_execution"}),
    "file_search": HostedForm(_file_search, ("max_results", "filter")),
    "mcp": HostedForm(_mcp, ("authorization", "headers", "allowed_tools")),
}


def tool_entries(request: Request) -> list[dict[str, Any]]:
    """Returns the request's list of tools. With the tool choice "none", this list has no hosted tools, because the API
    applies "none" only to functions."""
    entries = []
    for tool in request.tools:
        if tool.hosted is None:
            if tool.kind != "function":
                raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: pass it as HostedTool(...)")
            said = {"type": "function", "name": tool.name, "description": tool.description}
            entries.append({**said, "parameters": dict(tool.parameters), **tool.extra})
        elif request.tool_choice != "none" and (written := written_hosted(tool, FORMS)) is not None:
            entries.append(written)
    return entries


def tool_choice(request: Request) -> str | dict[str, Any] | None:
    """Returns the value of the request field `tool_choice`, or None for the API's default. Raises ConfigError if the
    caller's tool choice is a hosted tool."""
    if all(tool.hosted is not None for tool in request.tools):
        return None
    match request.tool_choice:
        case "none":
            return "none"
        case "required":
            return "any"
        case NamedTool(name, hosted=tool) if tool is not None:
            raise ConfigError(f"tool_choice names {name!r}, a hosted tool: only functions can be chosen")
        case NamedTool(name):
            return {"allowed_tools": {"mode": "any", "tools": [name]}}
        case AllowedTools(names, mode):
            return {"allowed_tools": {"mode": "any" if mode == "required" else "validated", "tools": list(names)}}
        case _ if any(tool.strict for tool in request.tools):
            return "validated"  # as "auto", but arguments follow the tools' schemas
    return None


def response_format(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the value of the request field `response_format` for JSON output, with or without a schema."""
    form: dict[str, Any] = {"type": "text", "mime_type": "application/json"}
    return form if schema is None else {**form, "schema": dict(schema)}
