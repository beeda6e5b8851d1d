"""Encodes hosted tools in the format of the Responses API and of compatible providers.

https://platform.openai.com/docs/guides/tools, https://docs.x.ai/docs/guides/tools/overview,
https://openrouter.ai/docs/features/server-tools, https://docs.perplexity.ai/docs/agent-api/tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...requests import HostedForm
from ...types import CodeExecution, CustomTool, FileSearch, HostedMcpServer, UrlContext, WebSearch


def _given(**members: Any) -> dict[str, Any]:
    """Returns the arguments that aren't empty, as the fields of a JSON object. Sequences become lists."""
    return {
        name: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for name, value in members.items()
        if value
    }


def _location(tool: WebSearch) -> dict[str, Any] | None:
    return {"type": "approximate", **tool.user_location} if tool.user_location else None


def _web_search(tool: WebSearch) -> dict[str, Any]:
    filters, size = _given(allowed_domains=tool.allowed_domains), tool.context_size
    return {"type": "web_search", **_given(filters=filters, user_location=_location(tool), search_context_size=size)}


def _code(tool: CodeExecution) -> dict[str, Any]:
    container = tool.container or {"type": "auto", **_given(file_ids=tool.files)}
    return {"type": "code_interpreter", "container": container}


def _file_search(tool: FileSearch) -> dict[str, Any]:
    more = _given(max_num_results=tool.max_results, filters=tool.filter)
    return {"type": "file_search", "vector_store_ids": list(tool.stores), **more}


def _mcp(tool: HostedMcpServer) -> dict[str, Any]:
    more = _given(
        authorization=tool.authorization,
        headers=tool.headers and dict(tool.headers),
        allowed_tools=tool.allowed_tools,
        require_approval=tool.require_approval,
    )
    return {"type": "mcp", "server_label": tool.name, "server_url": tool.url, **more}


def _custom(tool: CustomTool) -> dict[str, Any]:
    grammar = tool.grammar
    if isinstance(grammar, str):
        grammar = {"syntax": "lark", "definition": grammar}
    form: dict[str, Any] = {"type": "text"} if grammar is None else {"type": "grammar", **grammar}
    return {"type": "custom", "name": tool.name, **_given(description=tool.description), "format": form}


_MCP = HostedForm(_mcp, ("authorization", "headers", "allowed_tools", "require_approval"))
_OPENAI = {
    "web_search": HostedForm(_web_search, ("allowed_domains", "user_location", "context_size")),
    "code_execution": HostedForm(_code, ("files", "container")),
    "file_search": HostedForm(_file_search, ("max_results", "filter")),
    "mcp": _MCP,
    "custom": HostedForm(_custom, ("grammar",)),
}


def _xai_search(tool: WebSearch) -> dict[str, Any]:
    domains = _given(allowed_domains=tool.allowed_domains, excluded_domains=tool.blocked_domains)
    return {"type": "web_search", **domains}


_XAI = {
    "web_search": HostedForm(_xai_search, ("allowed_domains", "blocked_domains")),
    "code_execution": HostedForm(lambda tool: {"type": "code_interpreter"}),
    "file_search": HostedForm(_file_search, ("max_results",)),
    "mcp": _MCP,
}


def _openrouter(kind: str, tool: WebSearch | UrlContext, **parameters: Any) -> dict[str, Any]:
    given = _given(max_uses=tool.max_uses, allowed_domains=tool.allowed_domains, **parameters)
    return {"type": f"openrouter:{kind}", **_given(parameters=given)}


def _openrouter_search(tool: WebSearch) -> dict[str, Any]:
    blocked, location, size = tool.blocked_domains, _location(tool), tool.context_size
    return _openrouter("web_search", tool, excluded_domains=blocked, user_location=location, search_context_size=size)


def _openrouter_fetch(tool: UrlContext) -> dict[str, Any]:
    most = tool.max_content_tokens
    return _openrouter("web_fetch", tool, blocked_domains=tool.blocked_domains, max_content_tokens=most)


_DOMAINS = ("max_uses", "allowed_domains", "blocked_domains")
OPENROUTER = {  # also for its Chat Completions
    "web_search": HostedForm(_openrouter_search, (*_DOMAINS, "user_location", "context_size")),
    "web_fetch": HostedForm(_openrouter_fetch, (*_DOMAINS, "max_content_tokens")),
    "code_execution": HostedForm(lambda tool: {"type": "openrouter:shell"}),
}


def _perplexity_search(tool: WebSearch) -> dict[str, Any]:
    blocked = [f"-{domain}" for domain in tool.blocked_domains or ()]
    domains = [*(tool.allowed_domains or ()), *blocked]
    filters = {"search_domain_filter": domains} if domains else None
    more = _given(filters=filters, user_location=tool.user_location, search_context_size=tool.context_size)
    return {"type": "web_search", **more}


_PERPLEXITY = {
    "web_search": HostedForm(
        _perplexity_search, ("allowed_domains", "blocked_domains", "user_location", "context_size")
    ),
    "web_fetch": HostedForm(lambda tool: {"type": "fetch_url"}),
    "code_execution": HostedForm(lambda tool: {"type": "sandbox"}),
    "mcp": HostedForm(_mcp, ("authorization", "headers", "allowed_tools")),
}
HOSTED_FORMS: dict[str, Mapping[str, HostedForm]] = {
    "openai": _OPENAI,
    "xai": _XAI,
    "openrouter": {**OPENROUTER, "custom": _OPENAI["custom"]},
    "perplexity": _PERPLEXITY,
}
