"""What a stream offers besides its chunks: warnings, a start without reading, and clear errors for misuse."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from answering_provider import GOOD, client, provider
from folding import DONE, call, entry, fin, text
from streamfold import (
    ConfigError,
    Fallback,
    IncompleteStreamError,
    Provider,
    RateLimitError,
    StreamfoldError,
    run_tools,
)
from streamfold.testing import ScriptedProvider
from tables import each_row


def get_time() -> str:
    """The time."""
    return "noon"


async def test_warnings_of_the_request_are_there_before_the_first_chunk() -> None:
    """An application sees at once that its forced choice can't be sent; the reply has the same warning."""
    async with client(GOOD) as http_client:
        model = provider(http_client, capabilities={"forced_choice": "no"})
        for asked in (model, Fallback(model), Provider(model.profile, http_client=http_client, fallbacks=[model])):
            stream = asked.chat_stream("Hello", [get_time], tool_choice="required")
            assert [warning.code for warning in stream.warnings] == ["forced_choice_dropped"]
            async with stream:
                async for _ in stream:
                    assert stream.warnings[0].code == "forced_choice_dropped"
            assert stream.warnings == tuple(stream.reply.warnings)


async def test_warnings_of_the_answer_appear_as_they_are_found() -> None:
    """Before the end, and in the order of the reply's."""
    other = b'data: {"choices":[{"index":1,"delta":{"content":"Ho"}}]}\n\n'

    async def body() -> AsyncIterator[bytes]:
        yield other + text("Hi")
        yield call(entry(0, "", "get_time", "{}")) + fin("tool_calls") + DONE

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body()))
    async with (
        httpx.AsyncClient(transport=transport) as http_client,
        provider(http_client).chat_stream("Hello", [get_time]) as stream,
    ):
        assert stream.warnings == ()
        await anext(stream)
        assert [warning.code for warning in stream.warnings] == ["extra_choice"]
        async for _ in stream:
            pass
    assert [warning.code for warning in stream.warnings] == ["extra_choice", "missing_id"]
    assert stream.warnings == tuple(stream.reply.warnings)


async def test_read_returns_the_reply() -> None:
    """`read()` reads the rest of the answer, closes the connection and returns the reply, also a second time."""
    async with client(GOOD) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        await anext(stream)
        reply = await stream.read()
        assert reply is stream.reply is await stream.read()
        assert (reply.text, reply.finish_reason) == ("Hi", "stop")


async def test_read_raises_what_the_answer_raises() -> None:
    """An answer that breaks off, or was closed before its end, is an error of `read()`, never a reply."""
    async with client(text("Hal")) as http_client:
        with pytest.raises(IncompleteStreamError) as broken:
            await provider(http_client).chat_stream("Hello").read()
        assert broken.value.partial is not None
        assert broken.value.partial.text == "Hal"
    async with client(GOOD) as http_client:
        stream = provider(http_client).chat_stream("Hello")
        await stream.aclose()
        with pytest.raises(StreamfoldError, match="closed before its end"):
            await stream.read()


async def test_a_stream_is_read_once() -> None:
    """A stream that has been read to its end says so when it is iterated again, and is no empty answer."""
    async with ScriptedProvider("Hello", "Hello", "Hello") as model:
        read, left, begun = (model.chat_stream("Hi") for _ in range(3))
        assert [chunk.delta async for chunk in read] == ["Hello", ""]
        async with left:
            async for chunk in left:
                if chunk.finished:
                    break
        for stream in (read, left):
            with pytest.raises(StreamfoldError, match="already read to its end: use"):
                async for _ in stream:
                    pass
            assert await anext(stream, None) is None  # as of every iterator
            with pytest.raises(StreamfoldError, match="before the stream is read"):
                stream.watch("", print)
        async for chunk in begun:
            assert chunk.delta == "Hello"
            break
        assert [chunk.finished async for chunk in begun] == [True]  # it goes on where the first loop was left


async def test_a_run_is_read_once() -> None:
    """A tool run says so too, and so do its events and what would watch it; it can still be awaited."""
    async with ScriptedProvider("Hello") as model:
        run = run_tools(model, "Hi", [get_time])
        assert [chunk.delta async for chunk in run] == ["Hello", ""]
        for again in (run, run.events()):
            with pytest.raises(StreamfoldError, match="this run was already read to its end"):
                async for _ in again:  # type: ignore[attr-defined]
                    pass
        with pytest.raises(StreamfoldError, match="this run was already read to its end"):
            run.watch("", print)
        assert (await run).text == "Hello"


async def test_start_shows_whether_the_request_succeeds() -> None:
    """It raises the error of the request, or waits for the first chunk, which is still read."""
    async with client(429, GOOD) as http_client:
        model = provider(http_client, max_retries=0)
        with pytest.raises(RateLimitError):
            await model.chat_stream("Hello").start()
        stream = await model.chat_stream("Hello").start()
        assert await stream.start() is stream
        async with stream:
            assert "".join([chunk.delta async for chunk in stream]) == "Hi"
        assert stream.reply.text == "Hi"
        assert await stream.start() is stream


async def test_repr_says_how_far_a_stream_is() -> None:
    """And shows nothing of what was said."""
    async with client(GOOD) as http_client:
        stream = provider(http_client).chat_stream("the secret question")
        seen = [repr(stream)]
        async for _ in stream:
            seen.append(repr(stream))
        left = provider(http_client).chat_stream("Hello")
        await left.aclose()
    assert seen[0] == "<ChatStream not sent>"
    assert seen[1] == "<ChatStream reading>"
    assert repr(stream) == "<ChatStream finished>"
    assert repr(left) == "<ChatStream closed>"


def plain_for(value: Any) -> None:
    for _ in value:
        pass


def plain_with(value: Any) -> None:
    with value:
        pass


@each_row(
    ("make", "use", "message"),
    [
        (lambda model: model, plain_with, "Provider is asynchronous: use `async with`"),
        (Fallback, plain_with, "Fallback is asynchronous: use `async with`"),
        (lambda model: model.chat_stream("Hi"), plain_with, "ChatStream is asynchronous: use `async with`"),
        (lambda model: model.chat_stream("Hi"), plain_for, "ChatStream is asynchronous: use `async for`"),
        (lambda model: run_tools(model, "Hi", [get_time]), plain_with, "ToolRun is asynchronous: use `async with`"),
        (lambda model: run_tools(model, "Hi", [get_time]), plain_for, "ToolRun is asynchronous: use `async for`"),
    ],
)
def test_synchronous_use_is_explained(make: Callable[[Any], Any], use: Callable[[Any], None], message: str) -> None:
    """A plain `with` or `for` raises a TypeError that says what to write instead, with and without async."""
    with pytest.raises(TypeError, match=re.escape(message) + ".*In synchronous code, use streamfold.sync"):
        use(make(Provider.from_config("ollama:m")))


async def test_awaiting_a_stream_is_explained() -> None:
    """`chat_stream` is no coroutine; the error names both ways out."""
    with pytest.raises(TypeError, match=r"use `async with provider.chat_stream\(.*`await provider.chat\("):
        await Provider.from_config("ollama:m").chat_stream("Hi")  # type: ignore[misc]


def test_options_are_checked_at_the_call() -> None:
    """Not when the stream is read."""
    with pytest.raises(ConfigError, match="unknown option 'temprature'"):
        Provider.from_config("ollama:m").chat_stream("Hi", temprature=1)  # type: ignore[call-arg]
