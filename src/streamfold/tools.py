"""Tools that a request offers to the model, and how it may choose among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, getdoc, signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints

from .errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "AllowedTools",
    "NamedTool",
    "ReadToolChoice",
    "Tool",
    "ToolChoice",
    "ToolLike",
    "read_tool",
    "read_tool_choice",
    "tool",
]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call: its name, what it does, and the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    kind: str = "function"  # or the kind of a tool that the provider runs itself, on the wires that have such

    @classmethod
    def from_model(cls, model: type[BaseModel], *, name: str | None = None, description: str | None = None) -> Tool:
        """A tool whose arguments are the fields of a pydantic model; its docstring is the description."""
        schema = model.model_json_schema()
        schema.pop("title", None)
        found = schema.pop("description", "")
        return cls(name or model.__name__, found if description is None else description, schema)


def tool(function: Callable[..., Any]) -> Tool:
    """A tool from a typed function: its name, its docstring as the description, its parameters as the arguments.

    A parameter without a default is required; a parameter without a type takes anything.

    Raises:
        ConfigError: a parameter can't be told by name (`*args`, `**kwargs`, positional only).
    """
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {}
    hints = get_type_hints(function, include_extras=True)
    for parameter in signature(function).parameters.values():
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise ConfigError(f"{function.__name__}: the parameter {parameter} can't be given by name, as models do")
        default = ... if parameter.default is Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    return Tool.from_model(model, description=getdoc(function) or "")


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool choice "this one"."""

    name: str


@dataclass(frozen=True, slots=True)
class AllowedTools:
    """The tool choice "only these", of all that are declared; `mode` says whether one of them must be called."""

    names: tuple[str, ...]
    mode: Literal["auto", "required"] = "auto"


ToolLike: TypeAlias = Tool | Mapping[str, Any]
ReadToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool | AllowedTools
ToolChoice: TypeAlias = ReadToolChoice | Mapping[str, Any]


def read_tool(tool: ToolLike) -> Tool:
    """A tool in any accepted spelling: a `Tool`, or the dict of either OpenAI wire. Raises ConfigError."""
    if isinstance(tool, Tool):
        return tool
    if not isinstance(tool, Mapping):
        raise ConfigError(f"a tool is a Tool or a dict, not {type(tool).__name__}: {tool!r}")
    function = tool.get("function", tool)
    kind = tool.get("type", "function")
    if kind not in ("function", "builtin_function") or not isinstance(function, Mapping) or not function.get("name"):
        raise ConfigError(
            f'a tool needs the form {{"type": "function", "function": {{"name": ...}}}}, not {dict(tool)!r}'
        )
    return Tool(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
        strict=function.get("strict"),
        kind=kind,
    )


def read_tool_choice(choice: Any, tools: Iterable[Tool] = ()) -> ReadToolChoice:
    """A tool choice in any accepted spelling. Chat nests the name under "function", Responses does not: both are read.

    Raises:
        ConfigError: it is none of them, or names a tool that is not among `tools`.
    """
    names = [tool.name for tool in tools]
    read: ReadToolChoice
    match choice:
        case "auto" | "none" | "required":
            return choice  # type: ignore[no-any-return]
        case None:
            return "auto"
        case NamedTool() | AllowedTools():
            read = choice
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            read = NamedTool(name)
        case {"type": "allowed_tools", "allowed_tools": Mapping() as allowed}:
            read = _allowed_tools(allowed)
        case {"type": "allowed_tools"}:
            read = _allowed_tools(choice)
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required', NamedTool(name), AllowedTools(names) or a dict of either"
                f" wire, not {choice!r}"
            )
    for name in (read.name,) if isinstance(read, NamedTool) else read.names:
        if names and name not in names:
            raise ConfigError(f"tool_choice names {name!r}, which is not among the tools: {', '.join(names)}")
    return read


def _allowed_tools(choice: Mapping[str, Any]) -> AllowedTools:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required") or not isinstance(tools, list) or not tools:
        raise ConfigError(
            f'allowed_tools needs a mode, "auto" or "required", and a list of tools, not {dict(choice)!r}'
        )
    return AllowedTools(tuple(read_tool(tool).name for tool in tools), mode)
