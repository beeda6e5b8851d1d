"""Converts tools to Gemini's format: https://ai.google.dev/gemini-api/docs/tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm, written_hosted
from ...types import FileSearch, Tool
from ..prepared_request import without_none

if TYPE_CHECKING:
    from ...requests import Request
    from .quirks import GeminiQuirks


_SAYS_NOTHING = ("type", "title", "description", "$schema")  # these keys alone declare no parameters


def _file_search(tool: FileSearch) -> dict[str, Any]:
    more = without_none(topK=tool.max_results, metadataFilter=tool.filter)
    return {"fileSearch": {"fileSearchStoreNames": list(tool.stores), **more}}


FORMS = {
    "web_search": HostedForm(lambda tool: {"googleSearch": {}}),
    "web_fetch": HostedForm(lambda tool: {"urlContext": {}}),
    "code_execution": HostedForm(lambda tool: {"codeExecution": {}}),
    "file_search": HostedForm(_file_search, ("max_results", "filter")),
}


def tool_entries(request: Request, quirks: GeminiQuirks) -> list[dict[str, Any]]:
    """Returns the request's list of tools. One entry declares all functions, at the position of the first function."""
    functions = [_function(tool, quirks) for tool in request.tools if tool.hosted is None]
    entries: list[dict[str, Any]] = []
    for tool in request.tools:
        if (written := written_hosted(tool, FORMS)) is not None:
            entries.append(written)
        elif functions:
            entries.append({"functionDeclarations": functions})
            functions = []
    return entries


def _function(tool: Tool, quirks: GeminiQuirks) -> dict[str, Any]:
    if tool.kind != "function":
        raise ConfigError(f"the tool {tool.name!r} is a {tool.kind!r}: pass it as HostedTool(...)")
    out: dict[str, Any] = {"name": tool.name, "description": tool.description}
    says = any(value for name, value in tool.parameters.items() if name not in _SAYS_NOTHING)
    if quirks.schemas == "openapi" and says:
        out["parameters"] = dict(tool.parameters)
    elif quirks.schemas == "json" and (says or "properties" not in tool.parameters):  # any arguments
        out["parametersJsonSchema"] = dict(tool.parameters)
    return out | dict(tool.extra)


def mixes_tools(request: Request, quirks: GeminiQuirks) -> bool:
    """Returns True if a request needs the field `includeServerSideToolInvocations`: if it has both hosted tools and
    functions, or if an earlier response contains a hosted tool's call.
    https://ai.google.dev/gemini-api/docs/tool-combination

    Raises:
        ConfigError: the model doesn't support hosted tools together with functions.
    """
    functions = any(tool.hosted is None for tool in request.tools)
    hosted = [tool.name for tool in request.tools if tool.hosted is not None]
    blocks = [block for m in request.messages for block in m.extras.get("blocks") or () if isinstance(block, dict)]
    before = any("toolCall" in block or "toolResponse" in block for block in blocks)
    if functions and hosted and quirks.mixed_tools == "refused":
        raise ConfigError(
            f"{request.model} doesn't accept functions together with Google's hosted tools ({', '.join(hosted)}):"
            " models from Gemini 3 on do"
        )
    return quirks.mixed_tools == "declared" and ((functions and bool(hosted)) or before)
