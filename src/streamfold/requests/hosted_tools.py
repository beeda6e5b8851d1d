"""Checks whether an endpoint supports the hosted tools of a request (tools that the provider runs) and their arguments.

Each API has a table with a `HostedForm` for each kind of tool that it supports. For any other hosted tool, streamfold
raises ConfigError, because the request would mean something else without the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError
from ..types import HostedTool, ReplyWarning, ServerTool, Tool, hosted_tool
from .options import Options


@dataclass(frozen=True, slots=True)
class HostedForm:
    """How to convert one kind of hosted tool to the JSON of one API.

    Attributes:
        write: a function that returns the tool as JSON data for the request's list of tools.
        takes: the names of the tool's arguments that the API supports.
    """

    write: Callable[[Any], dict[str, Any]]
    takes: Collection[str] = ()


class HostedEndpoint(Protocol):
    """An endpoint, with the kinds of hosted tools that it supports. An endpoint may support fewer kinds than its API
    defines."""

    @property
    def name(self) -> str: ...

    @property
    def hosted(self) -> Collection[str] | None:
        """The kinds of hosted tools that the endpoint runs, or None if unknown."""
        ...

    def api_with_tool(self, kind: str) -> str | None:
        """If another API of the endpoint runs this kind of hosted tool, returns the name of that API's adapter."""
        ...


def check_hosted(
    tools: Collection[Tool], forms: Mapping[str, HostedForm], adapter: str, endpoint: HostedEndpoint | None
) -> list[ReplyWarning]:
    """Checks the hosted tools of a request. Returns a warning for each tool argument that streamfold doesn't send.

    Raises:
        ConfigError: the endpoint doesn't support a hosted tool, or an argument that restricts what the tool may do.
    """
    warnings = []
    for value in [tool.hosted for tool in tools if tool.hosted is not None and not isinstance(tool.hosted, HostedTool)]:
        _check_offered(value, forms, adapter, endpoint)
        takes = {"name", "url", "stores", "description", "function", *forms[value.kind].takes}
        lost = [name for name, given in value.given().items() if given is not None and name not in takes]
        what, where = type(value).__name__, f'provider "{endpoint.name}"' if endpoint else f"adapter {adapter!r}"
        if limiting := [name for name in lost if name in value.limits]:
            raise ConfigError(
                f"{what}({', '.join(f'{name}=...' for name in limiting)}): {where} doesn't support this limit"
            )
        if lost:
            detail = f"{what}: {', '.join(lost)} not sent, because {where} doesn't support it"
            warnings.append(ReplyWarning("option_dropped", detail))
    return warnings


def _check_offered(
    value: ServerTool, forms: Mapping[str, HostedForm], adapter: str, endpoint: HostedEndpoint | None
) -> None:
    offered = sorted(forms)
    where = f"the API of adapter {adapter!r}"
    if endpoint is not None and endpoint.hosted is not None:
        offered = sorted(set(offered) & set(endpoint.hosted))
        where = f'provider "{endpoint.name}" (adapter {adapter!r})'
    if value.kind not in offered:
        has = f"Its hosted tools: {', '.join(offered)}" if offered else "It has no hosted tools"
        if endpoint is not None and (api := endpoint.api_with_tool(value.kind)) is not None:
            has = f'Another API of this provider runs it: set api = "{api}"'
        raise ConfigError(
            f"{type(value).__name__}: {where} does not run the tool {value.kind!r}. {has}. A tool in the provider's own"
            " format is sent unchanged: HostedTool({...})"
        )


def written_hosted(tool: Tool, forms: Mapping[str, HostedForm]) -> dict[str, Any] | None:
    if isinstance(tool.hosted, HostedTool):
        return dict(tool.hosted.raw)
    return None if tool.hosted is None else forms[tool.kind].write(tool.hosted)


def raw_tools(options: Options) -> tuple[Tool, ...]:
    listed = options.extra_body.get("tools")
    tools = []
    for entry in listed if isinstance(listed, list | tuple) else ():
        if isinstance(entry, Mapping) and entry:
            function = entry.get("function")
            name = function.get("name") if isinstance(function, Mapping) else None
            tools.append(hosted_tool(HostedTool(entry, name if isinstance(name, str) else None)))
    return tuple(tools)


def with_raw_tools(body: Mapping[str, Any], extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns `extra`, the option `extra_body`, with the tools of the request body before its own tools."""
    added = extra.get("tools")
    if "tools" not in body or not isinstance(added, list | tuple):
        return extra
    return {**extra, "tools": [*body["tools"], *added]}
