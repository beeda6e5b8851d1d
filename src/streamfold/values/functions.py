"""Tools from what is typed already: a function's signature is the schema, its docstring the descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import Parameter, getdoc, isroutine, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from .errors import ConfigError
from .tools import Tool, ToolLike, read_tool

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["as_tool", "as_tools", "tool"]


def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> Tool:
    """A tool from a typed function, plain or async; also as a decorator.

    A parameter without a default is required; a parameter without a type takes anything. The docstring gives the
    descriptions of the tool and of its parameters, in Google's, NumPy's or Sphinx's style, if the package
    `docstring-parser` is there (the extra `tools`); without it, all of the docstring describes the tool.
    `Annotated[int, Field(ge=1, description="...")]` says more, and wins over the docstring.

    Raises:
        ConfigError: a parameter can't be told by name (`*args`, `**kwargs`, positional only), or has a type for which
            there is no JSON schema.
    """
    from pydantic import PydanticUserError

    chosen = name or getattr(function, "__name__", None)
    if not chosen:
        raise ConfigError(f"a tool needs a name: pass name=, because {function!r} has none")
    about, of_parameters = _descriptions(function)
    try:
        model = _arguments(function, chosen)
        made = Tool.from_model(model, name=chosen, strict=strict, function=function)
    except (TypeError, NameError, PydanticUserError) as exc:
        why = str(exc).partition(". Set ")[0]  # what pydantic advises next is not in the caller's hands
        raise ConfigError(f"{chosen}: there is no JSON schema for its parameters: {why}") from exc
    for parameter, text in of_parameters.items():
        if parameter in made.parameters["properties"]:
            made.parameters["properties"][parameter].setdefault("description", text)
    chosen_about = about if description is None else description
    return Tool(chosen, chosen_about, made.parameters, strict, function=function, model=model, spread=True)


def as_tools(given: Iterable[ToolLike] | None) -> tuple[Tool, ...]:
    """A list of tools, each in any accepted spelling. Raises ConfigError for what is no tool, or no list of them."""
    if isinstance(given, str | Tool | Mapping) or callable(given):
        raise ConfigError("tools is a list of tools: this is a single one")
    return tuple(as_tool(tool) for tool in given or ())


def as_tool(given: ToolLike) -> Tool:
    """A tool in any accepted spelling: a `Tool`, a typed function, a pydantic model, or the dict of either OpenAI wire.

    Raises:
        ConfigError: it is none of them, or there is no JSON schema for it.
    """
    if isinstance(given, type):
        if not hasattr(given, "model_json_schema"):
            raise ConfigError(f"the class {given.__name__} is no tool: a pydantic model is one, and a typed function")
        return Tool.from_model(given)
    return tool(given) if callable(given) else read_tool(given)


def _arguments(function: Callable[..., Any], name: str) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    hints = get_type_hints(_defined(function), include_extras=True)
    for number, parameter in enumerate(signature(function).parameters.values()):
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise ConfigError(f"{name}: the parameter {parameter} can't be given by name, as models do")
        default = ... if parameter.default is Parameter.empty else parameter.default
        # Under an alias, because not every name of a parameter can be the name of a field (`schema`, `_x`).
        said = Field(default, alias=parameter.name)
        fields[f"parameter_{number}"] = (hints.get(parameter.name, Any), said)
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)


def _defined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the types and the docstring are written: not on a partial, nor on an object that can be called."""
    while isinstance(function, partial):
        function = function.func
    return function if isroutine(function) else function.__call__  # type: ignore[operator]


def _descriptions(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What the docstring says about the function and about each of its parameters."""
    text = getdoc(_defined(function)) or ""
    try:
        from docstring_parser import ParseError, parse
    except ImportError:
        return text, {}
    try:
        read = parse(text)
    except ParseError:
        return text, {}
    of_parameters = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in read.params
        for name in parameter.arg_name.split(",")
        if parameter.description
    }
    return (read.description or "").strip() if read.meta else text, of_parameters
