"""Hosted tools: tools that the provider runs. Their classes are the same for all providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerTool:
    """Base class of hosted tools, which are tools that the provider runs.

    Attributes:
        kind: the kind of tool, as in `HostedPart.kind`.
        limits: the names of the arguments that restrict what the tool may do. If an API doesn't support such an
            argument, streamfold raises ConfigError.
    """

    kind: ClassVar[str] = ""
    limits: ClassVar[frozenset[str]] = frozenset()

    @property
    def title(self) -> str:
        """The tool's name in error messages."""
        return self.kind

    def given(self) -> dict[str, Any]:
        said = {member.name: getattr(self, member.name) for member in fields(self)}
        return {name: value for name, value in said.items() if value is not None}


def _check_strings(value: Any, where: str) -> None:
    if value is None:
        return
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise ConfigError(f"{where} must be a list of strings, not {value!r:.80}")


def _check_limits(tool: WebSearch | UrlContext) -> None:
    name = type(tool).__name__
    for member in ("allowed_domains", "blocked_domains"):
        _check_strings(getattr(tool, member), f"{name}: {member}")
    if tool.allowed_domains and tool.blocked_domains:
        raise ConfigError(f"{name} accepts either allowed_domains or blocked_domains, not both")
    uses: Any = tool.max_uses
    if uses is not None and (not isinstance(uses, int) or uses < 1):
        raise ConfigError(f"{name}: max_uses must be a whole number of 1 or more, not {tool.max_uses!r}")


@dataclass(frozen=True, slots=True)
class WebSearch(ServerTool):
    """Lets the model search the web.

    Attributes:
        max_uses: the maximum number of searches per answer.
        allowed_domains: the only domains that the model may search.
        blocked_domains: the domains that the model must not search. Set only one of the two lists.
        user_location: the user's location, such as `{"city": "Oslo", "country": "NO", "timezone": "Europe/Oslo"}`.
        context_size: the amount of text from the search results that the model reads.
    """

    kind: ClassVar[str] = "web_search"
    limits: ClassVar[frozenset[str]] = frozenset(["max_uses", "allowed_domains", "blocked_domains"])

    max_uses: int | None = None
    allowed_domains: Sequence[str] | None = None
    blocked_domains: Sequence[str] | None = None
    user_location: Mapping[str, str] | None = None
    context_size: Literal["low", "medium", "high"] | None = None

    def __post_init__(self) -> None:
        _check_limits(self)


@dataclass(frozen=True, slots=True)
class UrlContext(ServerTool):
    """Lets the model read web pages whose URLs are in the conversation.

    Attributes:
        max_uses: the maximum number of pages per answer.
        allowed_domains: the only domains from which the model may read pages.
        blocked_domains: the domains from which the model must not read pages. Set only one of the two lists.
        citations: True if the answer must cite the pages.
        max_content_tokens: the maximum number of tokens that the model reads per page.
    """

    kind: ClassVar[str] = "web_fetch"
    limits: ClassVar[frozenset[str]] = frozenset(
        ["max_uses", "allowed_domains", "blocked_domains", "max_content_tokens"]
    )

    max_uses: int | None = None
    allowed_domains: Sequence[str] | None = None
    blocked_domains: Sequence[str] | None = None
    citations: bool | None = None
    max_content_tokens: int | None = None

    def __post_init__(self) -> None:
        _check_limits(self)


@dataclass(frozen=True, slots=True)
class CodeExecution(ServerTool):
    """Lets the model run code on the provider's servers.

    Attributes:
        files: the ids of uploaded files that the model's code can read.
        container: the id of a container from an earlier answer, in which the model's code then runs.
    """

    kind: ClassVar[str] = "code_execution"
    limits: ClassVar[frozenset[str]] = frozenset(["files", "container"])

    files: Sequence[str] | None = None
    container: str | None = None

    def __post_init__(self) -> None:
        _check_strings(self.files, "CodeExecution: files")
        if self.files and self.container:
            raise ConfigError("CodeExecution accepts either files or a container, not both")


@dataclass(frozen=True, slots=True)
class FileSearch(ServerTool):
    """Lets the model search files that you have uploaded to the provider.

    Attributes:
        stores: the ids or names of the file stores.
        filter: a filter for the files, in the provider's format.
    """

    kind: ClassVar[str] = "file_search"
    limits: ClassVar[frozenset[str]] = frozenset(["stores", "filter"])

    stores: Sequence[str]
    max_results: int | None = None
    filter: Any = None

    def __post_init__(self) -> None:
        _check_strings(self.stores, "FileSearch: stores")
        if not self.stores:
            raise ConfigError("FileSearch needs at least one store")


@dataclass(frozen=True, slots=True)
class HostedMcpServer(ServerTool):
    """Lets the model call the tools of an MCP server to which the provider connects.

    Attributes:
        name: the server's name in the request and in the response.
        authorization, headers: a token and additional HTTP headers, which the provider sends to the MCP server. Errors
            and logs never contain their values.
        allowed_tools: the names of the tools that the model may call. None allows all tools.
        require_approval: when a person must approve the tool calls ("always", "never", or a value in the provider's
            format).
    """

    kind: ClassVar[str] = "mcp"
    limits: ClassVar[frozenset[str]] = frozenset(["authorization", "headers", "allowed_tools", "require_approval"])

    name: str
    url: str
    authorization: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_tools: Sequence[str] | None = None
    require_approval: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_strings(self.allowed_tools, "HostedMcpServer: allowed_tools")
        for member in ("name", "url"):
            if not isinstance(getattr(self, member), str) or not getattr(self, member):
                raise ConfigError(f"HostedMcpServer: {member} must be a non-empty string")

    @property
    def title(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CustomTool(ServerTool):
    """A tool of your program that gets plain text instead of JSON arguments. A grammar may restrict the text.

    Attributes:
        grammar: a Lark grammar, or a regular expression as `{"syntax": "regex", "definition": ...}`.
        function: a synchronous or async function. `run_tools` calls it with the text that the model wrote.
    """

    kind: ClassVar[str] = "custom"
    limits: ClassVar[frozenset[str]] = frozenset(["grammar"])

    name: str
    description: str = ""
    grammar: str | Mapping[str, str] | None = None
    function: Callable[[str], object] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name:
            raise ConfigError("CustomTool: name must be a non-empty string")

    @property
    def title(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class HostedTool(ServerTool):
    """A tool in the provider's format. streamfold sends `raw` unchanged, and doesn't check it.

    Attributes:
        raw: the JSON data of the tool, in the format of the provider's API.
        name: the tool's name in error messages. The default is the name or the type in `raw`.
        function: a function for tool calls that your program must run, such as shell commands and patches. `run_tools`
            calls the function with the `ToolCall`.
    """

    kind: ClassVar[str] = "hosted"

    raw: Mapping[str, Any]
    name: str | None = None
    function: Callable[[Any], object] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        raw: Any = self.raw
        if not isinstance(raw, Mapping) or not raw:
            raise ConfigError(f"HostedTool needs the tool as a dict, not {self.raw!r:.80}")

    @property
    def title(self) -> str:
        return self.name or str(self.raw.get("name") or self.raw.get("type") or next(iter(self.raw)))
