"""Mistakes that a type checker must report: each line that ends in `# mistake`, and no other. Never run."""

from __future__ import annotations

from pydantic import BaseModel

from streamfold import (
    ChatModel,
    ChatStream,
    Fallback,
    Hooks,
    Limits,
    Message,
    Provider,
    Reply,
    StreamError,
    Tool,
    ToolCall,
    run_tools,
    sync,
    tool,
    tool_result,
)
from streamfold.testing import ScriptedProvider
from streamfold.types import PartialUpdate


class Weather:
    """Not a pydantic model."""


class Place(BaseModel):
    """A pydantic model."""

    path: str


class NoModel:
    """Lacks `chat` and `aclose`."""

    name = "none"

    def chat_stream(self) -> ChatStream:
        raise NotImplementedError


def get_time(zone: str) -> str:
    return zone


async def options(provider: Provider, model: ChatModel, fallback: Fallback, scripted: ScriptedProvider) -> None:
    await provider.chat("Hello", temprature=3)  # mistake
    await provider.chat("Hello", temperature="hot")  # mistake
    await provider.chat("Hello", reasoning_effort="hihg")  # mistake
    await provider.chat("Hello", timeouts={"raed": 3})  # mistake
    await provider.chat("Hello", timeouts={"read": "long"})  # mistake
    await provider.chat("Hello", response_format=Weather())  # mistake
    await provider.chat("Hello", response_format="JSON")  # mistake
    await provider.chat("Hello", stop=5)  # mistake
    await provider.chat("Hello", tool_choice="any")  # mistake
    await provider.chat("Hello", extra_headers={"X-Team": 5})  # mistake
    await provider.chat(5)  # mistake
    provider.chat_stream("Hello", max_tokens=3)  # mistake
    provider.preview("Hello", temprature=3)  # mistake
    await model.chat("Hello", temprature=3)  # mistake
    await fallback.chat("Hello", temprature=3)  # mistake
    await scripted.chat("Hello", temprature=3)  # mistake
    run_tools(provider, "Hello", [get_time], temprature=3)  # mistake
    await run_tools(provider, "Hello", [get_time], max_turns="many")  # mistake


async def synchronous(provider: Provider) -> None:
    await provider.chat_stream("Hello")  # mistake
    for _ in provider.chat_stream("Hello"):  # mistake
        pass
    with provider:  # mistake
        pass
    assert provider.chat("Hello").text  # mistake


def configuration() -> None:
    Provider.from_config("kimi", api_kye="x")  # mistake
    Provider.from_config("kimi", max_retries="many")  # mistake
    Provider.from_config("kimi", timeouts={"raed": 3})  # mistake
    Provider.from_config("kimi", limits=Limits(tool_call=3))  # mistake
    Provider.from_config("kimi", options={"temprature": 3})  # mistake
    Provider.from_config("kimi", transport="requests")  # mistake
    Provider.from_config(5)  # mistake


def models() -> None:
    Fallback(NoModel())  # mistake
    Fallback("kimi")  # mistake
    run_tools(NoModel(), "Hello", [get_time])  # mistake


def hooks(reply: Reply) -> None:
    def too_many(info: object, reply: Reply, more: str) -> None: ...

    Hooks(on_finish=too_many)  # mistake
    Provider.from_config("kimi", hooks=print)  # mistake


async def unfinished(stream: ChatStream, error: StreamError, made: Tool) -> None:
    for writing in (*stream.partial_tool_calls, *error.partial_tool_calls):
        await made.call(writing)  # mistake
        tool_result(writing, "done")  # mistake
        calls: list[ToolCall] = [writing]  # mistake
        writing.parse_as(Place)  # mistake
        assert writing.id  # mistake
        assert writing.arguments or calls  # mistake

    def of_two(update: PartialUpdate, more: str) -> None: ...

    stream.watch("path", of_two)  # mistake
    stream.watch("path", print, tool=made)  # mistake


def decorated_functions() -> None:
    @tool
    def get_weather(city: str) -> int:
        return len(city)

    get_weather(5)  # mistake
    get_weather("Oslo", unit="C")  # mistake
    get_weather("Oslo").upper()  # mistake
    Tool.from_model(Place, function=lambda place: place.town)  # mistake


def history(reply: Reply) -> None:
    messages: list[Message] = [reply]  # mistake
    assert messages


async def without_async(provider: Provider, synchronous: sync.Provider) -> None:
    synchronous.chat("Hello", temprature=3)  # mistake
    synchronous.chat_stream("Hello", timeouts={"raed": 3})  # mistake
    sync.Provider.from_config("kimi", api_kye="x")  # mistake
    sync.Provider("kimi")  # mistake
    sync.run_tools(provider, "Hello", [get_time])  # mistake
    run_tools(synchronous, "Hello", [get_time])  # mistake
    async for _ in synchronous.chat_stream("Hello"):  # mistake
        pass
    await synchronous.chat("Hello")  # mistake
