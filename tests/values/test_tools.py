"""Tools: from functions, models and descriptions of others; their names on the wire; and a call that is run."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from folding import DONE, chunk, entry, fold
from streamfold import (
    AllowedTools,
    ConfigError,
    InvalidToolArgumentsError,
    NamedTool,
    StreamDecoder,
    Tool,
    ToolCall,
    assistant,
    tool,
    tool_result,
    user,
)
from streamfold.adapters import EncodingReport
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.engine import ToolNameMap
from streamfold.requests.request import Request
from streamfold.types import as_tool
from tables import each_row


@each_row(
    ("raw", "arguments", "kind", "expected"),
    [
        ('{"a":  1.0}', {"a": 1.0}, "function", '{"a":  1.0}'),
        ("", {}, "function", "{}"),
        (" \n", {}, "function", "{}"),
        ("null", {}, "function", "{}"),
        ('{"a": ', {"_raw": '{"a": ', "_error": "invalid_json"}, "function", '{"a": '),
        ("[1]", {"_raw": "[1]", "_error": "invalid_json"}, "function", "[1]"),
        ("grün", {"input": "grün"}, "custom", '{"input": "grün"}'),
        ('{"a": 1}', {"input": '{"a": 1}'}, "custom", '{"input": "{\\"a\\": 1}"}'),
    ],
)
def test_arguments_as_json_text(raw: str, arguments: dict[str, Any], kind: Any, expected: str) -> None:
    """The JSON text of a call's arguments is the model's own where it wrote a JSON object, and `{}` for none."""
    assert ToolCall("a", "f", arguments, raw, kind=kind).arguments_json == expected


def call(arguments: dict[str, Any], name: str = "f") -> ToolCall:
    return ToolCall("a", name, arguments, "(as sent)")


def google(city: str, days: int = 1) -> str:
    """The forecast for a city.

    It is made
    twice a day.

    Args:
        city: where, with
            its country.
        days: how many.

    Returns:
        A text.
    """
    return f"{city} {days}"


def numpy(city: str, days: int = 1) -> str:
    """The forecast for a city.

    It is made
    twice a day.

    Parameters
    ----------
    city : str
        where, with
        its country.
    days : int, optional
        how many.

    Returns
    -------
    str
        A text.
    """
    return f"{city} {days}"


def sphinx(city: str, days: int = 1) -> str:
    """The forecast for a city.

    It is made
    twice a day.

    :param city: where, with
        its country.
    :param days: how many.
    :returns: A text.
    """
    return f"{city} {days}"


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_descriptions_from_the_docstring(function: Callable[..., Any]) -> None:
    """The docstring describes the tool and its parameters, in three styles."""
    pytest.importorskip("docstring_parser")
    made = tool(function)
    assert made.description == "The forecast for a city.\n\nIt is made\ntwice a day."
    assert made.parameters["properties"] == {
        "city": {"title": "City", "type": "string", "description": "where, with its country."},
        "days": {"title": "Days", "type": "integer", "default": 1, "description": "how many."},
    }


def test_descriptions_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, all of the docstring describes the tool, and nothing fails."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("docstring_parser"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    made = tool(google)
    assert made.description.startswith("The forecast for a city.")
    assert "Args:" in made.description
    assert "description" not in made.parameters["properties"]["city"]


def test_types_say_more_than_the_docstring() -> None:
    """`Annotated` adds limits and a description, which wins; every type of pydantic works."""

    def book(
        day: date, seats: Annotated[int, Field(ge=1, description="At least one.")], kind: Literal["a", "b"]
    ) -> str:
        """Books.

        Args:
            seats: of the docstring.
        """
        return f"{day:%d.%m.} {seats} {kind}"

    made = tool(book)
    assert made.parameters["properties"] == {
        "day": {"format": "date", "title": "Day", "type": "string"},
        "seats": {"description": "At least one.", "minimum": 1, "title": "Seats", "type": "integer"},
        "kind": {"enum": ["a", "b"], "title": "Kind", "type": "string"},
    }


def test_parameters_may_have_any_name() -> None:
    """Not every name of a parameter could be the name of a field."""

    def odd(schema: str, _x: int, model_config: int = 1, json: bool = True) -> tuple[Any, ...]:
        return schema, _x, model_config, json

    made = tool(odd)
    assert list(made.parameters["properties"]) == ["schema", "_x", "model_config", "json"]
    assert made.bind(call({"schema": "s", "_x": 2}))() == ("s", 2, 1, True)


class Box:
    """Has a method, and can be called."""

    size = 3

    def put(self, count: int) -> int:
        """Puts."""
        return self.size + count

    def __call__(self, count: int) -> int:
        """Calls."""
        return self.size - count


def test_methods_and_objects() -> None:
    """A bound method has no `self` for the model; an object and a partial need a name, or have one."""
    made = tool(Box().put)
    assert (made.name, made.description, list(made.parameters["properties"])) == ("put", "Puts.", ["count"])
    assert made.bind(call({"count": 1}))() == 4
    made = tool(Box(), name="box", description="A box.", strict=True)
    assert (made.name, made.description, made.strict, made.bind(call({"count": 1}))()) == ("box", "A box.", True, 2)
    made = tool(partial(google, days=3), name="soon")
    assert made.bind(call({"city": "Oslo"}))() == "Oslo 3"
    with pytest.raises(ConfigError, match="needs a name"):
        tool(Box())


@tool
def decorated(city: str) -> str:
    """As a decorator."""
    return city


async def test_functions_of_one_code_are_apart() -> None:
    """What is remembered of the code of a function is not what one function of it was made with."""

    def made(owner: str) -> Callable[[], str]:
        def whose() -> str:
            """Returns whose this is."""
            return owner

        return whose

    ann, bob = tool(made("ann")), tool(made("bob"))
    assert [await each.call(call({})) for each in (ann, bob)] == ["ann", "bob"]


def test_as_a_decorator() -> None:
    assert (decorated.name, decorated.bind(call({"city": "x"}))()) == ("decorated", "x")


class Opaque:
    """No JSON schema can be made of it."""


class Forecast(BaseModel):
    """The forecast for a city."""

    city: str


async def test_a_decorator_with_arguments_and_the_function_itself() -> None:
    """`@tool(name=...)` takes the arguments of `tool`; the decorated function can be called as it was written."""

    @tool(name="weather", strict=True)
    async def get_weather(city: str, *, days: int = 1) -> str:
        return f"{city} {days}"

    assert (get_weather.name, get_weather.strict) == ("weather", True)
    assert await get_weather("Oslo") == "Oslo 1"
    assert await get_weather(city="Oslo", days=2) == "Oslo 2"
    assert await get_weather.call(call({"city": "Lagos"})) == "Lagos 1"

    @tool()
    def double(x: int) -> int:
        return 2 * x

    assert (double.name, double(4)) == ("double", 8)
    with pytest.raises(ConfigError, match="has no function"):
        Tool("declared")()
    with pytest.raises(ConfigError, match=r"did you mean tool\(name='weather'\)\?"):
        tool("weather")  # type: ignore[call-overload]


def test_everything_that_is_a_tool() -> None:
    """A request takes functions and models beside tools and dicts, and reads them as `tool` and `from_model` do."""
    plain = {"type": "function", "function": {"name": "ping"}}
    read = Request.read("m", "x", [google, Forecast, Tool("own"), plain], NamedTool("Forecast"), {})
    assert read.tools == (tool(google), Tool.from_model(Forecast), Tool("own"), Tool("ping"))
    assert read.tools[1].description == "The forecast for a city."
    with pytest.raises(ConfigError, match="tool_choice names 'pong', which is not among the tools: google"):
        Request.read("m", "x", [google], NamedTool("pong"), {})


def test_a_class_is_decorated() -> None:
    """A pydantic model becomes the tool that it is in `tools=`; another class is an error in both places."""
    assert tool(Forecast) == Tool.from_model(Forecast)
    named = tool(name="forecast", description="Looks ahead.", strict=True, cache=True)(Forecast)
    assert named == replace(
        Tool.from_model(Forecast), name="forecast", description="Looks ahead.", strict=True, cache=True
    )

    @dataclass
    class City:
        name: str

    for given in (City, partial(City, name="Oslo"), partial(Forecast, city="Oslo")):
        with pytest.raises(ConfigError, match=r"^the class (City|Forecast) isn't a tool: pass a pydantic model or a"):
            tool(given)


def test_a_decoder_takes_them_too() -> None:
    decoder = StreamDecoder("chat", dialect="hermes", tools=[google, Forecast])
    text = '<tool_call>{"name": "Forecast", "arguments": {"city": "Oslo"}}</tool_call>'
    event = {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
    decoder.feed(f"data: {json.dumps(event)}\n\n".encode())
    decoder.close()
    (made,) = decoder.reply.tool_calls
    assert made.parse_as(Forecast) == Forecast(city="Oslo")


@each_row(
    ("given", "message"),
    [
        ([Opaque], "the class Opaque isn't a tool: pass a pydantic model or a typed function"),
        (["ping"], "a tool must be a Tool, a typed function, a pydantic model or a dict, not str: 'ping'"),
        (google, "tools must be a list of tools, not a single tool"),
        (Forecast, "tools must be a list of tools, not a single tool"),
        ({"type": "function"}, "tools must be a list of tools, not a single tool"),
        (Tool("ping"), "tools must be a list of tools, not a single tool"),
        ([lambda *args: args], "<lambda>: the parameter *args can't be passed by name"),
    ],
)
def test_what_is_no_tool(given: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Request.read("m", "x", given, "auto", {})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *args: args, r"\*args can't be passed by name"),
        (lambda a, /: a, "a can't be passed by name"),
        (lambda **rest: rest, r"\*\*rest can't be passed by name"),
    ],
)
def test_functions_that_are_no_tools(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tool(function)


def test_types_that_are_no_schemas() -> None:
    """A type that pydantic does not know, or that can't be found, is an error that names the tool."""

    def opaque(a: Opaque) -> None:
        """Takes what no JSON can hold."""

    def unknown(a: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Has a type that nobody defined."""

    for function in (opaque, unknown):
        with pytest.raises(ConfigError, match=f"{function.__name__}: its parameters have no JSON schema"):
            tool(function)


MCP = {
    "name": "files.read",
    "title": "Read",
    "description": "Reads a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


@pytest.mark.parametrize("description", [MCP, SimpleNamespace(**MCP)], ids=["dict", "object"])
def test_mcp(description: Any) -> None:
    """A tool as an MCP server describes it, with or without the package's classes."""
    made = Tool.from_mcp(description, function=lambda **arguments: arguments)
    assert made == Tool("files.read", "Reads a file.", MCP["inputSchema"])
    assert made.bind(call({"path": "x"}))() == {"path": "x"}
    assert Tool.from_mcp({"name": "ping"}).parameters == {"type": "object", "properties": {}}


@each_row("wrong", [{}, {"name": 3}, {"name": "a", "inputSchema": {"type": "string"}}, "x"])
def test_mcp_descriptions_that_are_none(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="MCP tool"):
        Tool.from_mcp(wrong)


class Trip(BaseModel):
    """Plans a trip."""

    city: str
    days: int = 1
    when: date | None = None


async def test_what_a_partial_gives_is_not_the_models() -> None:
    """A program's own values stay its own: the model is not shown them, and can't give others."""

    def refund(order: int, customer: str) -> str:
        """Pays an order back."""
        return f"{order} of {customer}"

    made = tool(partial(refund, customer="Ann"))
    assert (made.name, made.description) == ("refund", "Pays an order back.")
    assert made.parameters["properties"].keys() == {"order"}
    assert await made.call(ToolCall("a", "refund", {"order": 7}, '{"order": 7}')) == "7 of Ann"
    with pytest.raises(InvalidToolArgumentsError):
        await made.call(ToolCall("a", "refund", {"order": 7, "customer": "Bob"}, ""))


async def test_call_runs_functions_of_every_kind() -> None:
    """Plain and async, with the fields by name or the instance of a model, or with the arguments as they are."""

    async def later(city: str, days: int = 1) -> str:
        return f"{city} in {days}"

    assert await tool(google).call(call({"city": "Oslo"})) == "Oslo 1"
    assert await tool(later).call(call({"city": "Oslo", "days": 2})) == "Oslo in 2"
    made = Tool.from_model(Trip, function=lambda trip: trip)
    assert (made.name, made.description) == ("Trip", "Plans a trip.")
    assert await made.call(call({"city": "Oslo", "when": "2026-01-02"})) == Trip(city="Oslo", when=date(2026, 1, 2))
    plain = Tool("go", parameters={"type": "object"}, function=lambda a, b=2: (a, b))
    assert await plain.call(call({"a": 1})) == (1, 2)
    with pytest.raises(ConfigError, match="'ping' has no function"):
        await Tool("ping").call(call({}))


@each_row(
    ("arguments", "message"),
    [
        ({"days": 1}, "invalid arguments for f: city: Field required"),
        ({"city": 1, "days": "x"}, "invalid arguments for f: city: Input should be a valid string; days: Input should"),
        ({"city": "x", "zip": 1}, "invalid arguments for f: zip: Extra inputs are not permitted"),
        ({"_raw": "(as sent)", "_error": "invalid_json"}, "invalid arguments for f: arguments: Invalid JSON"),
    ],
)
async def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    """The text names each place, and is fit to be sent back; the function has not run."""
    ran: list[str] = []

    def f(city: str, days: int = 1) -> None:
        ran.append(city)

    with pytest.raises(InvalidToolArgumentsError) as caught:
        await tool(f).call(call(arguments))
    assert str(caught.value).startswith(message)
    assert (ran, caught.value.call.name) == ([], "f")


async def test_arguments_of_a_tool_without_types() -> None:
    """Without types it is still checked what the function can take."""
    plain = Tool("f", function=lambda city: city)
    with pytest.raises(InvalidToolArgumentsError, match="missing a required argument: 'city'"):
        await plain.call(call({}))
    with pytest.raises(InvalidToolArgumentsError, match="not a JSON object"):
        await plain.call(call({"_raw": "(as sent)", "_error": "invalid_json"}))


def test_null_for_what_has_a_default() -> None:
    """A null is "not said" where the default is no null: a strict schema makes models write it, and many do unasked."""
    assert tool(google).bind(call({"city": "Oslo", "days": None}))() == "Oslo 1"
    assert call({"city": "Oslo", "days": None, "when": None}).parse_as(Trip) == Trip(city="Oslo")
    with pytest.raises(InvalidToolArgumentsError, match="city: Input should be a valid string"):
        call({"city": None}).parse_as(Trip)

    class Tour(BaseModel):
        trips: list[Trip]
        guide: int | str = 7

    read = call({"trips": [{"city": "a", "days": None}], "guide": None}).parse_as(Tour)
    assert read == Tour(trips=[Trip(city="a")])


APIS = [(ChatAdapter, "a.b/c"), (ResponsesAdapter, "a.b/c")]


@pytest.mark.parametrize(("adapter", "name"), APIS, ids=["chat", "responses"])
def test_names_that_no_api_takes(adapter: type[ChatAdapter], name: str) -> None:
    """They are renamed everywhere in the request and named back on the calls; what was passed in stays as it was."""
    earlier = ToolCall("i", name, {}, "{}")
    written = {"role": "assistant", "tool_calls": [
        {"id": "j", "type": "function", "function": {"name": name, "arguments": "{}"}}]}  # fmt: skip
    history = [user("x"), assistant(tool_calls=[earlier]), tool_result(earlier, "y"), written]
    history.append({"role": "tool", "tool_call_id": "j", "content": "z"})
    tools = [Tool(name), Tool("a_b_c"), Tool("fine")]
    request, warnings = adapter().rewrite(Request.read("m", history, tools, NamedTool(name), {}))
    body = str(adapter().encode(request, EncodingReport()))
    assert name not in body
    assert body.count("'tool_a_b_c'") == 4  # `a_b_c` is another tool: the declaration, the choice, two calls
    assert [warning.code for warning in warnings] == ["tool_renamed"]
    assert (earlier.name, written["tool_calls"][0]["function"]["name"], tools[0].name) == (name, name, name)  # type: ignore[index]
    stream = chunk({"tool_calls": [entry(0, "i", "tool_a_b_c", "{}"), entry(1, "j", "a_b_c", "{}")]}, "tool_calls")
    reply = fold(stream + DONE, tools=request.tools, tool_choice=request.tool_choice, names=ToolNameMap(request.names))
    assert [made.name for made in reply.tool_calls] == [name, "a_b_c"]
    assert reply.warnings == []


def test_allowed_tools_are_renamed_too() -> None:
    adapter = ChatAdapter(ChatQuirks(allowed_tools=True))
    request, _ = adapter.rewrite(Request.read("m", "x", [Tool("a.b")], AllowedTools(("a.b",)), {}))
    assert request.tool_choice == AllowedTools(("a_b",))


def test_a_function_is_looked_at_once() -> None:
    """Also one that is made anew for each request; what has changed since is seen."""

    def made(town: str) -> Callable[..., Any]:
        def weather(days: int = 1) -> str:
            """Tells the weather."""
            return f"{town}: {days}"

        return weather

    oslo, rome = made("Oslo"), made("Rome")
    first, second = as_tool(oslo), as_tool(rome)
    assert first.model is second.model is as_tool(oslo).model
    assert (first.function, second.function) == (oslo, rome)
    assert replace(first, function=None) == replace(tool(rome), function=None, model=first.model)
    oslo.__doc__ = "Tells something else."
    assert as_tool(oslo).description == "Tells something else."
    oslo.__annotations__["days"] = float
    assert as_tool(oslo).parameters["properties"]["days"]["type"] == "number"
    oslo.__defaults__ = None
    assert as_tool(oslo).parameters["required"] == ["days"]
    assert as_tool(rome) == second


def test_a_function_with_described_parameters_is_looked_at_once() -> None:
    """Also where its types are strings, of which each look makes another `Field`; what has changed since is seen."""
    described = 'Annotated[list[Annotated[str, Field(pattern="^a")]] | None, Field(description="how many", ge=LEAST)]'
    names: dict[str, Any] = {"Annotated": Annotated, "Field": Field, "LEAST": 1}
    exec(f"def search(limit: {described!r}) -> str:\n    return ''", names)
    first = as_tool(names["search"])
    assert as_tool(names["search"]).model is first.model
    names["LEAST"] = 1.0
    assert as_tool(names["search"]).model is not first.model


def test_a_method_is_looked_at_once() -> None:
    """Each object has its own tool; the plain function of the class has a parameter more."""

    class Town:
        def __init__(self, name: str) -> None:
            self.name = name

        def weather(self, days: int) -> str:
            """Tells the weather."""
            return f"{self.name}: {days}"

    oslo, rome = as_tool(Town("Oslo").weather), as_tool(Town("Rome").weather)
    assert oslo.model is rome.model
    assert [made(days=2) for made in (oslo, rome)] == ["Oslo: 2", "Rome: 2"]
    assert list(as_tool(Town.weather).parameters["properties"]) == ["self", "days"]


@pytest.mark.parametrize("raw", ['{"amount": 1e999}', '{"amount": NaN}', '{"amount": -Infinity}', '{"amount": 1} {}'])
def test_arguments_that_are_no_json_never_reach_a_function(raw: str) -> None:
    """A number that JSON lacks makes the arguments `invalid_json`: a lenient parser doesn't read them again."""

    @tool
    def pay(amount: float) -> None:
        raise AssertionError("it must not run")

    call = ToolCall("call_1", "pay", {"_raw": raw, "_error": "invalid_json"}, raw)
    with pytest.raises(InvalidToolArgumentsError):
        pay.bind(call)
