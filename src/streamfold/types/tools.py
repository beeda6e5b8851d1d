"""`Tool` and `tool()`, tool choices, and functions that convert Python functions, pydantic models and dicts to
tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import Parameter, getdoc, isawaitable, isroutine, signature
from operator import is_
from types import CodeType, FunctionType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from typing_extensions import TypeIs, TypeVar

from ..errors import ConfigError, did_you_mean
from .content import CacheMark, check_cache_mark, read_cache_control
from .hosted_tools import CustomTool, HostedTool, ServerTool
from .mcp_content import mcp_member
from .pydantic_support import PydanticField, wrapping_schema
from .tool_calls import InvalidToolArgumentsError, ToolCall

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema
    from pydantic_core.core_schema import SerializationInfo

    M = TypeVar("M", bound=BaseModel)

F = TypeVar("F", covariant=True, default=Callable[..., Any])  # the type of the decorated function

NeedsApproval: TypeAlias = bool | Callable[[ToolCall], bool | Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Tool(Generic[F]):
    """A function that the model may call, with a name, a description, and a JSON schema for the arguments.

    Attributes:
        strict: True if the provider should force the model to follow the schema. Not every provider can force the model
            to follow a schema.
        kind: the kind of tool, which is "function" or the kind of a hosted tool.
        hosted: the hosted tool, such as `WebSearch(...)`. None for a function.
        function: a synchronous or async function that runs a tool call. The function is called with the arguments by
            name, or with one instance of `model`.
        model: a pydantic model that validates the arguments. Without a model, the arguments are validated against the
            signature of `function`.
        cache: True, or a lifetime such as "1h", to store all tools up to this tool in the provider's prompt cache.
        spread: True if `function` is called with the fields of `model` as keyword arguments, instead of an instance of
            `model`.
        needs_approval: True if `run_tools` must wait for approval before it runs the tool. Instead of True, pass a
            synchronous or async function to decide this for each tool call. streamfold calls this function only if the
            arguments are valid.
        background: True if the model may continue while the tool runs. A later request then contains the tool's result.
            Only GPT-6 and later support background tools, on the Responses API. Other models wait for the result.
        extra: fields that streamfold adds, unchanged, to the tool's JSON object in the request.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    kind: str = "function"
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    model: type[BaseModel] | None = field(default=None, compare=False, repr=False)
    spread: bool = field(default=False, compare=False, repr=False)
    cache: CacheMark = field(default=False, kw_only=True)
    needs_approval: NeedsApproval = field(default=False, kw_only=True, compare=False, repr=False)
    background: bool = field(default=False, kw_only=True)
    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)
    hosted: ServerTool | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name:
            raise ConfigError(f"the name of a tool must be a non-empty string, not {name!r}")
        check_cache_mark(self.cache, f"the tool {self.name!r}")
        if not isinstance(self.needs_approval, bool) and not callable(self.needs_approval):
            kind = type(self.needs_approval).__name__
            raise ConfigError(
                f"the tool {self.name!r}: needs_approval must be a bool or a function of the tool call, not {kind}"
            )
        if not isinstance(self.parameters, Mapping):
            kind = type(self.parameters).__name__
            raise ConfigError(f"the tool {self.name!r}: parameters must be a JSON schema, not {kind}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The JSON contains the fields that requests contain, and `needs_approval`, but no function.
        def read(value: Any, inner: Callable[[Any], _ToolJSON]) -> Tool[Any]:
            if isinstance(value, cls):
                return value
            if isinstance(value, Mapping) and "type" in value:
                return read_tool(value)
            local = {name: value[name] for name in _LOCAL if name in value} if isinstance(value, Mapping) else {}
            written = inner({name: member for name, member in value.items() if name not in local} if local else value)
            return cls(**{name: getattr(written, name) for name in _WRITTEN}, **local)

        def write(tool: Tool, inner: Callable[[_ToolJSON], Any], info: SerializationInfo) -> Any:
            if info.mode != "json":
                return {name: getattr(tool, name) for name in (*_WRITTEN, *_LOCAL)}
            if callable(tool.needs_approval):
                raise ValueError(f"the tool {tool.name!r} has a function as needs_approval, which is not JSON data")
            return inner(_ToolJSON(**{name: getattr(tool, name) for name in _WRITTEN}))

        return wrapping_schema(read, write, handler.generate_schema(_ToolJSON))

    @classmethod
    def from_model(
        cls,
        model: type[M],
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
        function: Callable[[M], object] | None = None,
        needs_approval: NeedsApproval = False,
        background: bool = False,
    ) -> Self:
        """Creates a tool from a pydantic model. The model's fields become the arguments, and its docstring becomes the
        description.

        Args:
            function: a function that runs a tool call. The function is called with an instance of the model.
        """
        schema = model.model_json_schema()
        schema.pop("title", None)
        found = schema.pop("description", "")
        about = found if description is None else description
        shown = name or model.__name__
        own: dict[str, Any] = {"needs_approval": needs_approval, "background": background}
        return cls(shown, about, schema, strict, function=function, model=model, **own)

    @classmethod
    def from_mcp(
        cls,
        description: object,
        *,
        function: Callable[..., Any] | None = None,
        needs_approval: NeedsApproval = False,
    ) -> Self:
        """Creates a tool from an MCP tool description, which is an object or a dict. To get all tools of an MCP server,
        use `McpTools`.

        See https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool

        Args:
            function: a function that runs a tool call. The function is called with the arguments as keyword arguments.
                With the MCP SDK, pass `lambda **arguments: session.call_tool(name, arguments)`.

        Raises:
            ConfigError: the description has no name, or its input schema doesn't describe an object.
        """
        name, about = mcp_member(description, "name"), mcp_member(description, "description")
        schema = mcp_member(description, "inputSchema", "input_schema")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"the description of an MCP tool must have a name, not {name!r}: {description!r}")
        schema = {"type": "object", "properties": {}} if schema is None else schema
        if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
            raise ConfigError(f"the MCP tool {name!r}: inputSchema is the JSON schema of an object, not {schema!r}")
        return cls(name, about or "", dict(schema), function=function, needs_approval=needs_approval)

    if TYPE_CHECKING:
        # A decorated function keeps its signature for type checkers.
        @property
        def __call__(self) -> F: ...
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self._callable()(*args, **kwargs)

    def _callable(self) -> Callable[..., Any]:
        if self.function is None:
            raise ConfigError(f"the tool {self.name!r} has no function to run tool calls: pass function=...")
        return self.function

    def bind(self, call: ToolCall) -> Callable[[], object]:
        """Validates the arguments of a tool call, and returns a function that runs the tool call.

        Raises:
            InvalidToolArgumentsError: the arguments aren't a JSON object, or don't match the schema. You can send the
                error message to the model.
            ConfigError: the tool has no function.
        """
        function = self._callable()
        if self.model is not None:
            read = call.parse_as(self.model)
            if not self.spread:
                return partial(function, read)
            by_name = {info.alias or name: getattr(read, name) for name, info in self.model.model_fields.items()}
            return partial(function, **by_name)
        if call.error:
            raise InvalidToolArgumentsError(f"invalid arguments for {call.name}: not a JSON object", call)
        try:
            signature(function).bind(**call.arguments)
        except TypeError as exc:
            raise InvalidToolArgumentsError(f"invalid arguments for {call.name}: {exc}", call) from exc
        return partial(function, **call.arguments)

    async def call(self, call: ToolCall) -> object:
        """Validates the arguments of a tool call, runs the tool, and returns the result.

        A synchronous function runs on the event loop. Wrap a blocking function in `in_thread(function)`.

        Raises:
            InvalidToolArgumentsError: the arguments are invalid. You can send the error message to the model.
            ConfigError: the tool has no function.
        """
        result = self.bind(call)()
        return await result if isawaitable(result) else result


@dataclass(slots=True)
class _ToolJSON(PydanticField):
    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    kind: str = "function"
    cache: CacheMark = False
    needs_approval: bool = False
    background: bool = False


_WRITTEN = tuple(member.name for member in fields(_ToolJSON))
_LOCAL = ("function", "model", "spread", "hosted")  # fields that JSON can't contain


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool choice that forces the model to call this tool. For a hosted tool, `hosted` is set."""

    name: str
    hosted: ServerTool | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class AllowedTools:
    """A tool choice that lets the model call only some of the request's tools. With the mode "required", the model
    must call one of them."""

    names: tuple[str, ...]
    mode: Literal["auto", "required"] = "auto"


ToolLike: TypeAlias = Tool | ServerTool | Mapping[str, Any] | Callable[..., Any] | Iterable[Tool]
ReadToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool | AllowedTools
ToolChoice: TypeAlias = ReadToolChoice | HostedTool | Mapping[str, Any]


def hosted_tool(value: ServerTool) -> Tool:
    function = value.function if isinstance(value, CustomTool | HostedTool) else None
    return Tool(value.title, kind=value.kind, function=function, hosted=value)


# Gemini's tools have no type.
_TYPELESS = re.compile("(google|url|code|file|enterprise|computer).*|retrieval", re.IGNORECASE)
_PROVIDERS_OWN = ("allowed_callers", "defer_loading", "input_examples", "eager_input_streaming", "toolset_name")


def _is_provider_tool(tool: Mapping[str, Any]) -> bool:
    kind = tool.get("type")
    if kind is not None:
        return kind not in ("function", "builtin_function") and not did_you_mean(str(kind), ("function",))
    if "input_schema" in tool and any(name in tool for name in _PROVIDERS_OWN):
        return True
    return "name" not in tool and len(tool) == 1 and all(_TYPELESS.fullmatch(str(name)) for name in tool)


def read_tool(tool: Tool | ServerTool | Mapping[str, Any]) -> Tool:
    """Converts a `Tool`, a `ServerTool` or a dict to a `Tool`. A dict that isn't in the format of an OpenAI API becomes
    a `HostedTool`.

    Raises:
        ConfigError: the value isn't a tool.
    """
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, ServerTool):
        return hosted_tool(tool)
    if not isinstance(tool, Mapping):
        raise ConfigError(
            f"a tool must be a Tool, a typed function, a pydantic model or a dict, not {type(tool).__name__}: {tool!r}"
        )
    if _is_provider_tool(tool):
        return hosted_tool(HostedTool(tool))
    function = tool.get("function", tool)
    kind = tool.get("type", "function")
    if kind not in ("function", "builtin_function"):
        raise ConfigError(f"the tool {dict(tool)!r:.120} has the type {kind!r}{did_you_mean(str(kind), ('function',))}")
    if not isinstance(function, Mapping) or not function.get("name"):
        raise ConfigError(
            f'a tool must have the form {{"type": "function", "function": {{"name": ...}}}}, not {dict(tool)!r}'
        )
    _check_members(tool, function)
    mark = tool.get("cache_control", function.get("cache_control"))
    return Tool(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
        strict=function.get("strict"),
        kind=kind,
        background=function.get("async") or False,
        cache=read_cache_control(mark, f"the tool {function['name']!r}: cache_control"),
    )


_MEMBERS: dict[str, tuple[type, str]] = {
    "name": (str, "a string"),
    "description": (str, "a string"),
    "parameters": (Mapping, "a JSON schema"),
    "strict": (bool, "true or false"),
    "async": (bool, "true or false"),  # https://developers.openai.com/api/docs/guides/async-tool-calling
}
_FOREIGN = {"input_schema": "parameters", "inputSchema": "parameters", "schema": "parameters", "desc": "description"}


def _check_members(tool: Mapping[str, Any], function: Mapping[str, Any]) -> None:
    where = f"the tool {function['name']!r}"
    outer = [] if function is tool else [name for name in tool if name not in ("type", "function", "cache_control")]
    for name in (*outer, *(name for name in function if name not in ("type", "cache_control"))):
        if name not in _MEMBERS or name in outer:
            hint = f" (did you mean {_FOREIGN[name]!r}?)" if name in _FOREIGN else did_you_mean(name, _MEMBERS)
            raise ConfigError(
                f"{where} has the unknown field {name!r}{hint}. Allowed: {', '.join(_MEMBERS)}. For a provider's own"
                " fields, put all tools into extra_body['tools']"
            )
        kind, word = _MEMBERS[name]
        if not isinstance(function[name], kind) and (function[name] is not None or name == "name"):
            raise ConfigError(f"{where}: {name} must be {word}, not {type(function[name]).__name__}")


_CHOICE_WORDS = ("auto", "none", "any", "required", "function", "tool")  # the words of all APIs, for functions


def read_tool_choice(choice: Any, tools: Iterable[Tool] = ()) -> ReadToolChoice:
    """Parses a tool choice: a word such as "auto", a `NamedTool`, an `AllowedTools`, or a dict in the format of an
    OpenAI API. A `HostedTool(...)` contains a tool choice in the provider's format.

    Raises:
        ConfigError: the tool choice is invalid, or names a tool that isn't in `tools`.
    """
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return choice  # type: ignore[return-value]
    tools = list(tools)
    names, hosted = [tool.name for tool in tools], {tool.name: tool.hosted for tool in tools if tool.hosted}
    read: ReadToolChoice
    match choice:
        case None:
            return "auto"
        case HostedTool():
            return NamedTool(choice.title, hosted=choice)
        case NamedTool() | AllowedTools():
            read = choice
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            read = NamedTool(name)
        case {"type": "allowed_tools", "allowed_tools": Mapping() as allowed}:
            read = _allowed_tools(allowed)
        case {"type": "allowed_tools"}:
            read = _allowed_tools(choice)
        case {"type": str(kind)} if hosted and kind not in _CHOICE_WORDS:
            return read_tool_choice(HostedTool(choice))
        case _:
            raise ConfigError(
                f"tool_choice must be 'auto', 'none', 'required', NamedTool(name), AllowedTools(names) or a dict,"
                f" not {choice!r}{_meant(choice, names)}"
            )
    if isinstance(read, AllowedTools):
        allowed_names: Any = read.names
        if isinstance(allowed_names, str) or not allowed_names:
            raise ConfigError(f"AllowedTools needs a list with at least one tool name, not {allowed_names!r}")
        if read.mode not in ("auto", "required"):
            raise ConfigError(f"the mode of AllowedTools must be 'auto' or 'required', not {read.mode!r}")
    for name in (read.name,) if isinstance(read, NamedTool) else read.names:
        if names and name not in names:
            hint = did_you_mean(str(name), names)
            raise ConfigError(f"tool_choice names {name!r}{hint}, which is not among the tools: {', '.join(names)}")
    return replace(read, hosted=hosted[read.name]) if isinstance(read, NamedTool) and read.name in hosted else read


def _meant(choice: Any, names: list[str]) -> str:
    # Anthropic's form: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use
    name = choice.get("name") if isinstance(choice, Mapping) and choice.get("type") == "tool" else choice
    if name in names:
        return f" (did you mean NamedTool({name!r})?)"
    if choice == "any":
        return " (did you mean 'required'?)"
    return did_you_mean(choice, ("auto", "none", "required")) if isinstance(choice, str) else ""


def _allowed_tools(choice: Mapping[str, Any]) -> AllowedTools:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required") or not isinstance(tools, list) or not tools:
        raise ConfigError(
            f'allowed_tools needs a mode, "auto" or "required", and a list of tools, not {dict(choice)!r}'
        )
    return AllowedTools(tuple(read_tool(tool).name for tool in tools), mode)


DecoratedFunction = TypeVar("DecoratedFunction", bound=Callable[..., Any])

_MOST_SEEN = 256  # the size of the cache


@overload
def tool(
    function: DecoratedFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
    background: bool = False,
) -> Tool[DecoratedFunction]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
    background: bool = False,
) -> Callable[[DecoratedFunction], Tool[DecoratedFunction]]: ...


def tool(
    function: DecoratedFunction | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    cache: CacheMark = False,
    needs_approval: NeedsApproval = False,
    background: bool = False,
) -> Tool[DecoratedFunction] | Callable[[DecoratedFunction], Tool[DecoratedFunction]]:
    """Creates a tool from a typed function or a pydantic model. This function can be used as a decorator.

        @tool(name="weather")
        async def get_weather(city: str) -> str: ...

        await get_weather(city="Oslo")  # still callable, as in a unit test

    The function may be synchronous or async. A parameter without a default is required. A parameter without a type
    accepts any value. `Annotated[int, Field(ge=1, description="...")]` takes precedence over the docstring. The model
    doesn't see parameters that `functools.partial` has bound.

    With the extra `tools`, the descriptions of the parameters come from the docstring, in the style of Google, NumPy or
    Sphinx. Without the extra `tools`, the entire docstring is the tool's description.

    Args:
        name: the tool's name. The default is the function's name.
        description: the tool's description. The default is the docstring.
        strict, cache, needs_approval, background: see `Tool`.

    Raises:
        ConfigError: a parameter can't be passed by name (`*args`, `**kwargs`, positional only), the type of a parameter
            has no JSON schema, or the class isn't a pydantic model.
    """
    own: dict[str, Any] = {"cache": cache, "needs_approval": needs_approval, "background": background}
    if function is None:
        return partial(tool, name=name, description=description, strict=strict, **own)
    if not callable(function):
        hint = f"; did you mean tool(name={function!r})?" if isinstance(function, str) else ""
        raise ConfigError(f"tool() makes a tool from a function, not from {type(function).__name__}{hint}")
    if isinstance(_inside_partial(function), type):
        made = _tool_of_class(function, name=name, description=description, strict=strict)
        return replace(made, **own)
    from pydantic import PydanticUserError

    chosen = name or getattr(function.func if isinstance(function, partial) else function, "__name__", None)
    if not chosen:
        raise ConfigError(f"a tool needs a name: pass name=..., because {function!r} has no name")
    about, of_parameters = _descriptions(function)
    try:
        model = _arguments(function, chosen)
        made = Tool.from_model(model, name=chosen, strict=strict, function=function)
    except (TypeError, NameError, PydanticUserError) as exc:
        why = str(exc).partition(". Set ")[0]  # without pydantic's advice
        raise ConfigError(f"{chosen}: its parameters have no JSON schema: {why}") from exc
    for parameter, text in of_parameters.items():
        if parameter in made.parameters["properties"]:
            made.parameters["properties"][parameter].setdefault("description", text)
    chosen_about = about if description is None else description
    return replace(made, description=chosen_about, spread=True, **own)


def as_tools(given: Iterable[ToolLike] | None) -> tuple[Tool, ...]:
    """Converts values of all accepted types to tools. Raises ConfigError for a value of another type."""
    found: list[Tool] = []
    for tool in read_tools(given):
        found += (tool,) if isinstance(tool, Tool) else tool
    return tuple(found)


def read_tools(given: Iterable[ToolLike] | None) -> list[Tool | Iterable[Tool]]:
    """Converts values to tools, as `as_tools` does, but keeps a group of tools such as `McpTools` as one item."""
    if given is None or given == ():
        return []
    if isinstance(given, str | Tool | ServerTool | Mapping) or callable(given):
        raise ConfigError("tools must be a list of tools, not a single tool")
    return [tool if _is_set(tool) else as_tool(tool) for tool in given]


def _is_set(given: ToolLike) -> TypeIs[Iterable[Tool]]:
    single = isinstance(given, str | Tool | ServerTool | Mapping) or callable(given)
    return isinstance(given, Iterable) and not single


def as_tool(given: Tool | ServerTool | Mapping[str, Any] | Callable[..., Any]) -> Tool:
    """Converts a `Tool`, a typed function, a pydantic model, a `ServerTool` or a dict to a tool.

    Raises:
        ConfigError: the value isn't a tool, or has no JSON schema.
    """
    if isinstance(given, Tool | ServerTool):
        return read_tool(given)
    if isinstance(given, type):
        return _tool_of_class(given)
    plain = given.__func__ if isinstance(given, MethodType) and given.__doc__ else given  # a docstring may be inherited
    if isinstance(plain, FunctionType) and callable(given) and not plain.__dict__:
        return _tool_of(given, plain)
    return tool(given) if callable(given) else read_tool(given)


def _tool_of_class(given: Any, **options: Any) -> Tool:
    if not (isinstance(given, type) and hasattr(given, "model_json_schema")):
        name = _inside_partial(given).__name__
        raise ConfigError(f"the class {name} isn't a tool: pass a pydantic model or a typed function")
    return Tool.from_model(given, **options)


class _Seen(NamedTuple):
    made_of: tuple[object, ...]
    hints: dict[str, object]
    tool: Tool


_seen: dict[tuple[CodeType, bool], _Seen] = {}  # no functions, which may exist for one request only


def _tool_of(function: Callable[..., Any], plain: FunctionType) -> Tool:
    """Returns the tool for a function, and caches it, because generating its schema takes longer than building a
    request.
    """
    code = plain.__code__, function is plain
    made_of = plain.__globals__, plain.__name__, plain.__doc__, plain.__defaults__, plain.__kwdefaults__
    try:
        found = get_type_hints(plain, include_extras=True)
    except (TypeError, NameError):
        return tool(function)  # raises ConfigError
    hints = {name: _comparable(hint) for name, hint in found.items()}
    seen = _seen.get(code)
    if seen is None or not all(map(is_, seen.made_of, made_of)) or seen.hints != hints:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        seen = _seen[code] = _Seen(made_of, hints, replace(tool(function), function=None))
    return replace(seen.tool, function=function)


def _comparable(hint: Any) -> object:
    # A pydantic `Field` equals only itself, and 1 equals True and 1.0, so hints can't be compared directly.
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
            raise ConfigError(f"{name}: the parameter {parameter} can't be passed by name")
        default = ... if parameter.default is Parameter.empty else parameter.default
        # An alias, because some parameter names can't be field names (`schema`, `_x`).
        said = Field(default, alias=parameter.name)
        fields[f"parameter_{number}"] = (hints.get(parameter.name, Any), said)
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)


def _defined(function: Callable[..., Any]) -> Callable[..., Any]:
    function = _inside_partial(function)
    return function if isroutine(function) else function.__call__  # type: ignore[operator]


def _inside_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _descriptions(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
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
