"""Converts hosted tools, hosted MCP servers and containers to the Messages API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...requests import HostedForm
from ...types import CodeExecution, HostedMcpServer, UrlContext, WebSearch
from ..prepared_request import without_none

if TYPE_CHECKING:
    from ...requests import Request


MCP_BETA = "mcp-client-2025-11-20"
FILES_BETA = "files-api-2025-04-14"


def _domains(tool: WebSearch | UrlContext) -> dict[str, Any]:
    allowed, blocked = tool.allowed_domains, tool.blocked_domains
    return without_none(
        max_uses=tool.max_uses,
        allowed_domains=list(allowed) if allowed else None,
        blocked_domains=list(blocked) if blocked else None,
    )


def _fetch(tool: UrlContext) -> dict[str, Any]:
    citations = None if tool.citations is None else {"enabled": tool.citations}
    more = without_none(citations=citations, max_content_tokens=tool.max_content_tokens)
    return {"type": "web_fetch_20260318", "name": "web_fetch", **_domains(tool), **more}


def _mcp(tool: HostedMcpServer) -> dict[str, Any]:
    if tool.require_approval not in (None, "never"):
        raise ConfigError(
            "HostedMcpServer(require_approval=...) isn't supported by Anthropic: set allowed_tools instead"
        )
    out: dict[str, Any] = {"type": "mcp_toolset", "mcp_server_name": tool.name}
    if tool.allowed_tools is not None:
        allowed = {name: {"enabled": True} for name in tool.allowed_tools}
        out |= {"default_config": {"enabled": False}, "configs": allowed}
    return out


def hosted_forms(web_search: str) -> dict[str, HostedForm]:
    """Returns a `HostedForm` for each kind of hosted tool that the Messages API supports.

    `web_search` is the version of the web search tool. Servers of other providers may support only older versions.
    """

    def search(tool: WebSearch) -> dict[str, Any]:
        location = {"type": "approximate", **tool.user_location} if tool.user_location else None
        return {"type": web_search, "name": "web_search", **_domains(tool), **without_none(user_location=location)}

    domains = ("max_uses", "allowed_domains", "blocked_domains")
    return {
        "web_search": HostedForm(search, (*domains, "user_location")),
        "web_fetch": HostedForm(_fetch, (*domains, "citations", "max_content_tokens")),
        "code_execution": HostedForm(
            lambda tool: {"type": "code_execution_20260521", "name": "code_execution"}, ("container",)
        ),
        "mcp": HostedForm(_mcp, ("authorization", "allowed_tools", "require_approval")),
    }


def hosted_members(request: Request) -> dict[str, Any]:
    """Returns the request fields for hosted MCP servers, and for the container in which the model's code runs."""
    out: dict[str, Any] = {}
    servers = [
        {"type": "url", **without_none(url=mcp.url, name=mcp.name, authorization_token=mcp.authorization)}
        for mcp in [tool.hosted for tool in request.tools]
        if isinstance(mcp, HostedMcpServer)
    ]
    if servers:
        out["mcp_servers"] = servers
    if container := _container(request):
        out["container"] = container
    return out


def _container(request: Request) -> str | None:
    for tool in request.tools:
        if isinstance(tool.hosted, CodeExecution) and tool.hosted.container:
            return tool.hosted.container
    for message in reversed(request.messages):
        if message.role == "assistant" and request.came_from_here(message):
            found = message.extras.get("container")
            said = found[-1] if isinstance(found, list | tuple) and found else found
            if isinstance(said, Mapping) and isinstance(said.get("id"), str) and not _expired(said.get("expires_at")):
                return str(said["id"])
    return None


def _expired(at: Any) -> bool:
    try:
        return isinstance(at, str) and datetime.fromisoformat(at).astimezone(UTC) < datetime.now(UTC)
    except ValueError:
        return False
