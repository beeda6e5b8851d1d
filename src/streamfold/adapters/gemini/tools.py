"""Converts tools to Gemini's format: https://ai.google.dev/gemini-api/docs/tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm, written_hosted
from ...types import FileSearch, Tool

if TYPE_CHECKING:
    from ...requests import Request
    from .quirks import GeminiQuirks


def _file_search(tool: FileSearch) -> dict[str, Any]:
    more = {"topK": tool.max_results, "metadataFilter": tool.filter}
    given = {name: value for name, value in more.items() if value is not None}
    return {"fileSearch": {"fileSearchStoreNames": list(tool.stores), **given}}


FORMS = {
    "web_search": HostedForm(lambda tool: {"googleSearch": {}}),
    "web_fetch": HostedForm(lambda tool: {"urlContext": {}}),
    "code_execution": HostedForm(lambda tool: {"codeExecution": {}}),
    "file_search": HostedForm(_file_search, ("max_results", "filter")),
}


def tool_entries(request: Request, function: Callable[[Tool], dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the request's list of tools. One entry contains all functions, at the position of the first function."""
    functions = [function(tool) for tool in request.tools if tool.hosted is None]
    entries: list[dict[str, Any]] = []
    for tool in request.tools:
        if (written := written_hosted(tool, FORMS)) is not None:
            entries.append(written)
        elif functions:
            entries.append({"functionDeclarations": functions})
            functions = []
    return entries


def mixes_tools(request: Request, quirks: GeminiQuirks) -> bool:
    """Returns True if a request must declare that it contains both hosted tools and functions.

    Every later request of such a conversation must declare this too:
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
