"""Tools from typed functions: the signature gives the schema, the docstring the descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import Parameter, getdoc, isroutine, signature
from operator import is_
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints, overload

from typing_extensions import TypeVar

from .caching import CacheMark
from .config_errors import ConfigError
from .hosted import ServerTool
from .tools import NeedsApproval, Tool, ToolLike, read_tool

if TYPE_CHECKING:
    from pydantic import BaseModel

DecoratedFunction = TypeVar("DecoratedFunction", bound=Callable[..., Any])

_MOST_SEEN = 256  # functions whose tools are kept


@overload
def tool(
    function: DecoratedFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
) -> Tool[DecoratedFunction]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
) -> Callable[[DecoratedFunction], Tool[DecoratedFunction]]: ...


def tool(
    function: DecoratedFunction | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
) -> Tool[DecoratedFunction] | Callable[[DecoratedFunction], Tool[DecoratedFunction]]:
    """Makes a tool from a typed function, plain or async, or a pydantic model. Also a decorator, with or without
    arguments.

        @tool(name="weather")
        async def get_weather(city: str) -> str: ...

        await get_weather(city="Oslo")  # the function itself, as in a unit test

    A parameter without a default is required; a parameter without a type accepts anything. Descriptions of the tool and
    its parameters come from the docstring in Google's, NumPy's or Sphinx's style, if the package `docstring-parser` is
    installed (the extra `tools`); without it, the whole docstring describes the tool.
    `Annotated[int, Field(ge=1, description="...")]` says more, and wins over the docstring. What a `functools.partial`
    gives by name is not shown to the model.

    Args:
        name: the name of the tool, if it is not the function's.
        description: instead of the docstring's.
        strict: whether the provider must hold the model to the schema, where it can.
        cache: the tools up to this one are to be kept in the provider's cache; see `Message`.
        needs_approval: `run_tools` pauses before a call until somebody has approved it; see `Tool`.

    Raises:
        ConfigError: a parameter can't be passed by name (`*args`, `**kwargs`, positional only), its type has no JSON
            schema, or a class is no pydantic model.
    """
    if function is None:
        options: dict[str, Any] = {"strict": strict, "cache": cache, "needs_approval": needs_approval}
        return partial(tool, name=name, description=description, **options)
    if not callable(function):
        hint = f"; did you mean tool(name={function!r})?" if isinstance(function, str) else ""
        raise ConfigError(f"tool() makes a tool from a function, not from {type(function).__name__}{hint}")
    if isinstance(_inside_partial(function), type):
        made = _tool_of_class(function, name=name, description=description, strict=strict)
        return replace(made, cache=cache, needs_approval=needs_approval)
    from pydantic import PydanticUserError

    chosen = name or getattr(function.func if isinstance(function, partial) else function, "__name__", None)
    if not chosen:
        raise ConfigError(f"a tool needs a name: pass name=, because {function!r} has none")
    about, of_parameters = _descriptions(function)
    try:
        model = _arguments(function, chosen)
        made = Tool.from_model(model, name=chosen, strict=strict, function=function)
    except (TypeError, NameError, PydanticUserError) as exc:
        why = str(exc).partition(". Set ")[0]  # pydantic's advice is not for the caller
        raise ConfigError(f"{chosen}: there is no JSON schema for its parameters: {why}") from exc
    for parameter, text in of_parameters.items():
        if parameter in made.parameters["properties"]:
            made.parameters["properties"][parameter].setdefault("description", text)
    chosen_about = about if description is None else description
    return replace(made, description=chosen_about, spread=True, cache=cache, needs_approval=needs_approval)


def as_tools(given: Iterable[ToolLike] | None) -> tuple[Tool, ...]:
    """Returns a list of tools, each given in any accepted spelling. Raises ConfigError for anything else."""
    if given is None or given == ():
        return ()
    if isinstance(given, str | Tool | ServerTool | Mapping) or callable(given):
        raise ConfigError("tools is a list of tools: this is a single one")
    return tuple(as_tool(tool) for tool in given)


def as_tool(given: ToolLike) -> Tool:
    """Returns a tool from a `Tool`, a typed function, a pydantic model, a tool that the provider runs, or a dict.

    Raises:
        ConfigError: it is something else, or there is no JSON schema for it.
    """
    if isinstance(given, Tool | ServerTool):
        return read_tool(given)
    if isinstance(given, type):
        return _tool_of_class(given)
    plain = given.__func__ if isinstance(given, MethodType) and given.__doc__ else given  # a doc may be inherited
    if isinstance(plain, FunctionType) and callable(given) and not plain.__dict__:
        return _tool_of(given, plain)
    return tool(given) if callable(given) else read_tool(given)


def _tool_of_class(given: Any, **options: Any) -> Tool:
    """Returns the tool of a pydantic model. Raises ConfigError for another class, or a partial of one."""
    if not (isinstance(given, type) and hasattr(given, "model_json_schema")):
        name = _inside_partial(given).__name__
        raise ConfigError(f"the class {name} is no tool: a pydantic model is one, and a typed function")
    return Tool.from_model(given, **options)


class _Seen(NamedTuple):
    """The tool of a function, and what it was made of beside the code."""

    made_of: tuple[object, ...]
    hints: dict[str, object]
    tool: Tool


_seen: dict[tuple[CodeType, bool], _Seen] = {}  # without the functions themselves, which may be made for one request


def _tool_of(function: Callable[..., Any], plain: FunctionType) -> Tool:
    """Returns the tool of a function, which is made once: its schema takes longer than the rest of a request.

    Args:
        plain: the function itself, or the one in a method.
    """
    code = plain.__code__, function is plain
    made_of = plain.__globals__, plain.__name__, plain.__doc__, plain.__defaults__, plain.__kwdefaults__
    try:
        found = get_type_hints(plain, include_extras=True)
    except (TypeError, NameError):
        return tool(function)  # which says what is wrong
    hints = {name: _comparable(hint) for name, hint in found.items()}
    seen = _seen.get(code)
    if seen is None or not all(map(is_, seen.made_of, made_of)) or seen.hints != hints:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        seen = _seen[code] = _Seen(made_of, hints, replace(tool(function), function=None))
    return replace(seen.tool, function=function)


def _comparable(hint: Any) -> object:
    """Returns a type hint as a value that is equal only to that of the same hint.

    A `Field` is equal to itself alone, and a hint that is a string makes another one each time. 1 is equal to 1.0 and
    to True, which are written otherwise.
    """
    from pydantic.fields import FieldInfo

    if arguments := get_args(hint):
        return [get_origin(hint), *map(_comparable, arguments)]
    return repr(hint) if isinstance(hint, FieldInfo) else (repr(hint), hint)


def _arguments(function: Callable[..., Any], name: str) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    hints = get_type_hints(_defined(function), include_extras=True)
    given = function.keywords if isinstance(function, partial) else {}
    parameters = [one for one in signature(function).parameters.values() if one.name not in given]
    for number, parameter in enumerate(parameters):
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise ConfigError(f"{name}: the parameter {parameter} can't be given by name, as models do")
        default = ... if parameter.default is Parameter.empty else parameter.default
        # Under an alias, because not every name of a parameter can be the name of a field (`schema`, `_x`).
        said = Field(default, alias=parameter.name)
        fields[f"parameter_{number}"] = (hints.get(parameter.name, Any), said)
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)


def _defined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with the types and the docstring, inside a partial or a callable object."""
    function = _inside_partial(function)
    return function if isroutine(function) else function.__call__  # type: ignore[operator]


def _inside_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _descriptions(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Returns what the docstring says about the function and about each of its parameters."""
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
