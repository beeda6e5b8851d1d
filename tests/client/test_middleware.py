"""Middleware: around a request, its chunks and its reply; output that is asked for again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from pydantic import BaseModel

import streamfold.sync
from streamfold import (
    ConfigError,
    Fallback,
    InvalidReplyError,
    Provider,
    Reply,
    StreamChunk,
    extract,
    run_tools,
    system,
)
from streamfold.middleware import Middleware
from streamfold.requests import Request
from streamfold.testing import ScriptedProvider, call, fail, pause, refuse


class Loud(Middleware):
    """Shouts, and asks to be loud."""

    async def change_request(self, request: Request) -> Request:
        return replace(request, messages=(system("Be loud."), *request.messages))

    async def change_chunks(self, chunks: AsyncIterator[StreamChunk], request: Request) -> AsyncIterator[StreamChunk]:
        async for chunk in chunks:
            chunk.delta = chunk.delta.upper()
            yield chunk

    async def change_reply(self, reply: Reply, request: Request) -> Reply:
        return replace(reply, text=reply.text.upper())


async def test_request_chunks_and_reply() -> None:
    """Each of the three can be changed; everything else is the model's own."""
    script = ScriptedProvider(["Hel", "lo", call("f", a=1)])
    async with Loud(script) as model, model.chat_stream("Hi", temperature=0.5) as stream:
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.delta for chunk in chunks) == stream.reply.text == "HELLO"
    assert [one.arguments for one in chunks[-1].tool_calls or ()] == [{"a": 1}]
    assert [message.role for message in script.requests[0].messages] == ["system", "user"]
    assert script.requests[0].body["temperature"] == 0.5
    assert model.name == "scripted"


async def test_it_goes_wherever_a_model_goes() -> None:
    """Stacked, in a fallback, with tools, and in synchronous code."""
    broken, script = ScriptedProvider(then=fail(500)), ScriptedProvider(call("f"), "done")
    model = Loud(Fallback(Middleware(broken), Loud(script)))

    async def f() -> str:
        return "result"

    assert (await run_tools(model, "Hi", [f])).text == "DONE"

    def ask() -> str:
        with streamfold.sync.Provider(Loud(ScriptedProvider("hello"))) as provider:
            return provider.chat("Hi").text

    assert await anyio.to_thread.run_sync(ask) == "HELLO"


async def test_what_it_raises_reaches_the_caller() -> None:
    """A mistake in the arguments is raised at once; an error of the middleware when the answer is read."""

    class Refusing(Middleware):
        async def change_request(self, request: Request) -> Request:
            raise ConfigError("not today")

    with pytest.raises(ConfigError, match="tempratur"):
        Loud(ScriptedProvider()).chat_stream("Hi", tempratur=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="not today"):
        await Refusing(ScriptedProvider()).chat("Hi")


async def test_leaving_early_closes_the_connection() -> None:
    """A stream that is left before its end is closed, below the middleware too."""
    async with Loud(ScriptedProvider(["one ", "two ", pause(3600), "three"])).chat_stream("Hi") as stream:
        assert (await anext(stream)).delta.strip() == "ONE"


# --- extract ----------------------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int


async def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    """The model is told what was wrong with its answer, in the same conversation."""
    script = ScriptedProvider('{"name": "Oslo"}', '{"name": "Oslo", "people": 7}')
    assert await extract(script, City, "Which?", temperature=0) == City(name="Oslo", people=7)
    last = script.requests[1].messages
    assert [message.role for message in last] == ["user", "assistant", "user"]
    assert "people: Field required" in script.requests[1].text
    assert script.requests[1].body["temperature"] == 0


async def test_when_extract_gives_up() -> None:
    """After so many answers, and at once where another one would be the same."""
    script = ScriptedProvider(then="no")
    with pytest.raises(InvalidReplyError):
        await extract(script, City, "Which?", attempts=2)
    assert len(script.requests) == 2
    refusing = ScriptedProvider(then=refuse("I won't."))
    with pytest.raises(InvalidReplyError, match="refused"):
        await extract(refusing, City, "Which?")
    assert len(refusing.requests) == 1
    with pytest.raises(ConfigError, match="attempts"):
        await extract(script, City, "Which?", attempts=0)


async def test_extract_is_a_method_of_providers() -> None:
    """Of asynchronous and of synchronous ones."""
    message = {"content": '{"name": "Oslo", "people": 7}'}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body)))
    async with Provider.from_config({"base_url": "http://t/v1", "model": "m"}, http_client=client) as provider:
        assert await provider.extract(City, "Which?") == City(name="Oslo", people=7)

    def ask() -> Any:
        with streamfold.sync.Provider(ScriptedProvider('{"name": "Oslo", "people": 7}')) as provider:
            return provider.extract(City, "Which?")

    assert await anyio.to_thread.run_sync(ask) == City(name="Oslo", people=7)


async def test_extract_is_a_method_of_every_model() -> None:
    """What stands before a provider has it too."""
    script = ScriptedProvider('{"name": "Oslo", "people": 7}')
    assert await Fallback(script).extract(City, "Which?") == City(name="Oslo", people=7)
