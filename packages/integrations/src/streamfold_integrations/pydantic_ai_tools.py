"""pydantic-ai's words for tools that the provider runs, as ours and back: https://ai.pydantic.dev/builtin-tools/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    FilePart,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import (
    AbstractNativeTool,
    CodeExecutionTool,
    FileSearchTool,
    MCPServerTool,
    WebFetchTool,
    WebSearchTool,
)
from pydantic_ai.settings import ToolOrOutput
from pydantic_ai.tools import ToolDefinition

from streamfold import (
    ChatModel,
    CodeExecution,
    ConfigError,
    FileSearch,
    HostedMcpServer,
    NamedTool,
    Provider,
    Reply,
    UrlContext,
    WebSearch,
    user,
)

from .hosted_steps import HostedCall, HostedStep


def hosted_tools(tools: Sequence[AbstractNativeTool]) -> list[Any]:
    """Returns the tools that an agent has beside its functions.

    Raises:
        UserError: a kind that has no word here.
    """
    return [_hosted(tool) for tool in tools]


def supported_native_tools(model: ChatModel) -> frozenset[type[AbstractNativeTool]] | None:
    """Returns the tools that a provider runs, so that an agent can use its own in their place; None: it can't say."""
    if not isinstance(model, Provider):
        return None
    return frozenset(kind for kind, tool in _EXAMPLES.items() if _is_run(model, tool))


def _is_run(model: Provider, tool: Any) -> bool:
    try:
        model.preview([user("?")], tools=[tool])
    except ConfigError:
        return False
    return True


_EXAMPLES: dict[type[AbstractNativeTool], Any] = {
    WebSearchTool: WebSearch(),
    WebFetchTool: UrlContext(),
    CodeExecutionTool: CodeExecution(),
    FileSearchTool: FileSearch(["store"]),
    MCPServerTool: HostedMcpServer("server", "https://example.com/mcp"),
}
NATIVE_TOOLS = frozenset(_EXAMPLES)


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
            return HostedMcpServer(
                tool.id, tool.url, tool.authorization_token, tool.headers, tool.allowed_tools, "never"
            )
    raise UserError(f"{type(tool).__name__} can't be used with streamfold: write it as HostedTool of a provider")


def function(tool: ToolDefinition) -> dict[str, Any]:
    """Returns a tool that an agent runs, as the core takes it."""
    said = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**said, **strict}}


def select_tools(choice: Any, parameters: ModelRequestParameters) -> tuple[list[ToolDefinition], Any]:
    """Returns the tools that may be called, and the tool choice: output tools are what ends an agent's run."""
    tools, outputs = parameters.declared_tool_defs, {tool.name for tool in parameters.output_tools}
    plain = "auto" if parameters.allow_text_output or parameters.allow_image_output else "required"
    match choice:
        case None | "auto":
            allowed, mode = set(tools), plain
        case "none" | []:
            allowed, mode = (outputs, plain) if outputs else (set(tools), "none")
        case "required":
            allowed, mode = set(tools) - outputs, "required"
        case ToolOrOutput():
            allowed, mode = {*choice.function_tools, *outputs}, plain
        case list() | tuple():
            allowed, mode = set(choice), "required"
        case _:
            raise UserError(
                f"tool_choice is 'auto', 'none', 'required', names of tools, or ToolOrOutput, not {choice!r}"
            )
    kept = [tool for name, tool in tools.items() if name in allowed]
    if not kept:
        return [], "auto"
    return kept, NamedTool(kept[0].name) if mode == "required" and len(kept) == 1 < len(tools) else mode


def native_parts(steps: Iterable[HostedStep], provider: str) -> Iterator[ModelResponsePart]:
    """Yields what tools of the provider did. It is for showing: the message goes back as streamfold keeps it."""
    for step in steps:
        if isinstance(step, HostedCall):
            yield NativeToolCallPart(_name(step), _arguments(step), step.id, provider_name=provider)
        else:
            output = {"error": step.error} if step.error and not step.output else step.output
            yield NativeToolReturnPart(
                _name(step.call),
                output,
                step.call.id,
                outcome="failed" if step.error else "success",
                provider_name=provider,
            )


def other_parts(reply: Reply, provider: str) -> Iterator[ModelResponsePart]:
    """Yields the files of an answer that are here already, and what a compaction says."""
    for file in reply.files:
        if file.data is not None:
            media_type = file.media_type or "application/octet-stream"
            yield FilePart(BinaryContent(file.data, media_type=media_type), provider_name=provider)
    for part in reply.hosted:
        if part.kind == "compaction":
            said = part.raw.get("content")
            yield CompactionPart(said if isinstance(said, str) else None, id=part.id, provider_name=provider)


def _name(call: HostedCall) -> str:
    return f"mcp_server:{call.part.server or 'unknown'}" if call.part.kind == "mcp" else call.part.kind


def _arguments(call: HostedCall) -> dict[str, Any]:
    if call.part.kind != "mcp":
        return call.input
    return {"action": "call_tool", "tool_name": call.part.name, "tool_args": call.input}
