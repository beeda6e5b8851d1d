"""Tools that a request offers to the model, and how it may choose among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["NamedTool", "Tool", "ToolChoice", "ToolLike", "read_tool", "read_tool_choice"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call: its name, what it does, and the JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None

    @classmethod
    def from_model(cls, model: type[BaseModel], *, name: str | None = None, description: str | None = None) -> Tool:
        """A tool whose arguments are the fields of a pydantic model; its docstring is the description."""
        schema = model.model_json_schema()
        schema.pop("title", None)
        found = schema.pop("description", "")
        return cls(name or model.__name__, found if description is None else description, schema)


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool choice "this one"."""

    name: str


ToolLike: TypeAlias = Tool | Mapping[str, Any]
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool | Mapping[str, Any]


def read_tool(tool: ToolLike) -> Tool:
    """A tool in any accepted spelling: a `Tool`, or the dict of either OpenAI wire. Raises ConfigError."""
    if isinstance(tool, Tool):
        return tool
    if not isinstance(tool, Mapping):
        raise ConfigError(f"a tool is a Tool or a dict, not {type(tool).__name__}: {tool!r}")
    function = tool.get("function", tool)
    if tool.get("type", "function") != "function" or not isinstance(function, Mapping) or not function.get("name"):
        raise ConfigError(
            f'a tool needs the form {{"type": "function", "function": {{"name": ...}}}}, not {dict(tool)!r}'
        )
    return Tool(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
        strict=function.get("strict"),
    )


def read_tool_choice(choice: Any, tools: Iterable[Tool] = ()) -> Literal["auto", "none", "required"] | NamedTool:
    """A tool choice in any accepted spelling. Chat nests the name under "function", Responses does not: both are read.

    Raises:
        ConfigError: it is none of them, or names a tool that is not among `tools`.
    """
    names = [tool.name for tool in tools]
    match choice:
        case "auto" | "none" | "required":
            return choice  # type: ignore[no-any-return]
        case None:
            return "auto"
        case NamedTool(name):
            pass
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            pass
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required', NamedTool(name) or a function's dict, not {choice!r}"
            )
    if names and name not in names:
        raise ConfigError(f"tool_choice names {name!r}, which is not among the tools: {', '.join(names)}")
    return NamedTool(name)
