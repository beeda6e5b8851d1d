"""pydantic-ai's words for tools that the provider runs, as ours: https://ai.pydantic.dev/builtin-tools/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.native_tools import (
    AbstractNativeTool,
    CodeExecutionTool,
    FileSearchTool,
    MCPServerTool,
    WebFetchTool,
    WebSearchTool,
)

from streamfold import CodeExecution, FileSearch, McpServer, UrlContext, WebSearch

__all__ = ["NATIVE_TOOLS", "hosted_tools"]

NATIVE_TOOLS: frozenset[type[AbstractNativeTool]] = frozenset(
    [WebSearchTool, WebFetchTool, CodeExecutionTool, FileSearchTool, MCPServerTool]
)


def hosted_tools(tools: Sequence[AbstractNativeTool]) -> list[Any]:
    """Returns the tools that an agent has beside its functions.

    Raises:
        UserError: a kind that has no word here.
    """
    return [_hosted(tool) for tool in tools]


def _hosted(tool: AbstractNativeTool) -> Any:
    match tool:
        case WebSearchTool():
            size = None if tool.search_context_size == "medium" else tool.search_context_size  # their default
            location: Any = tool.user_location
            return WebSearch(tool.max_uses, tool.allowed_domains, tool.blocked_domains, location, size)
        case WebFetchTool():
            said: Any = (tool.provider_settings or {}).get("anthropic", {})
            limit, citations = said.get("max_content_tokens"), said.get("enable_citations")
            return UrlContext(tool.max_uses, tool.allowed_domains, tool.blocked_domains, citations, limit)
        case CodeExecutionTool():
            files = [file.file_id for file in tool.files or ()]
            return CodeExecution(files or None)
        case FileSearchTool():
            return FileSearch(list(tool.file_store_ids), tool.max_num_results)
        case MCPServerTool():
            return McpServer(tool.id, tool.url, tool.authorization_token, tool.headers, tool.allowed_tools, "never")
    raise UserError(f"{type(tool).__name__} can't be used with streamfold: write it as HostedTool of a provider")
