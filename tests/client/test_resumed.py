"""Stored responses go on by themselves: readers notice nothing of a connection that breaks in the middle of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest

from scale import pick
from servers import END, STREAM, Connection, framed, sends, serving
from streamfold import Hooks, IncompleteStreamError, Provider, Reply, StreamfoldError
from streamfold.deltas import Finish, ReasoningDelta, TextDelta
from streamfold.serving.responses import ResponsesSerializer
from streamfold.types import ToolCallDelta, Usage
from tables import each_row

STORED = {"store": True}


def written() -> list[bytes]:
    """A response with reasoning, text and two calls, as its events."""
    serializer = ResponsesSerializer(id="resp_1", model="m", created=1)
    deltas: list[Any] = [
        ReasoningDelta("I "),
        ReasoningDelta("think."),
        TextDelta("Hello "),
        TextDelta("world, it is "),
        TextDelta("late."),
    ]
    deltas += [
        ToolCallDelta(0, "call_a", "look", '{"at": 1}', whole=True),
        ToolCallDelta(1, "call_b", "look"),
        ToolCallDelta(1, arguments='{"at"'),
    ]
    deltas += [ToolCallDelta(1, arguments=": 2}"), ToolCallDelta(1, arguments='{"at": 2}', whole=True)]
    end = [Usage(5, 7, 12), Finish("tool_calls", "completed")]
    data = serializer.begin() + serializer.feed_all([*deltas, *end]) + serializer.finish()
    return [block + b"\n\n" for block in data.split(b"\n\n") if block]


EVENTS = written()
WHOLE = b"".join(EVENTS)


@dataclass
class Pieces(httpx.AsyncByteStream):
    """A body, and how it ends."""

    data: bytes
    breaks: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data
        if self.breaks:
            raise httpx.ReadError("connection reset")


@dataclass
class Store:
    """A server that keeps one response, and loses connections.

    Attributes:
        cut: after how many bytes the first connection is lost.
        each: after how many events every further one is lost; 0: never.
        again: how many events it repeats when it goes on.
        answers: responses instead of the rest, in turn.
    """

    cut: int
    breaks: bool = True
    each: int = 0
    again: int = 0
    answers: list[httpx.Response] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        headers = {"content-type": "text/event-stream", "x-request-id": f"req_{len(self.requests)}"}
        if request.method == "POST":
            return httpx.Response(200, stream=Pieces(WHOLE[: self.cut], self.breaks), headers=headers)
        if self.answers:
            return self.answers.pop(0)
        start = max(0, int(request.url.params["starting_after"]) + 1 - self.again)
        rest = EVENTS[start : start + self.each + self.again if self.each else None]
        last = start + len(rest) == len(EVENTS)
        return httpx.Response(200, stream=Pieces(b"".join(rest), self.breaks and not last), headers=headers)

    async def reply(self, *, body: dict[str, Any] | None = None, **config: Any) -> Reply:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self)) as client:
            given = {"adapter": "responses", "base_url": "http://x/v1", "model": "m", "api_key": "geheim", **config}
            hooks = given.pop("hooks", ())
            provider = Provider.from_config(given, http_client=client, hooks=hooks)
            return await provider.chat("Hi", extra_body=STORED if body is None else body)


def same(reply: Reply) -> None:
    assert (reply.text, reply.reasoning) == ("Hello world, it is late.", "I think.")
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [("call_a", {"at": 1}), ("call_b", {"at": 2})]
    assert (reply.finish_reason, reply.usage and reply.usage.total_tokens) == ("tool_calls", 12)


CUTS = range(len(EVENTS[0]), len(WHOLE))


@pytest.mark.slow
@pytest.mark.parametrize("breaks", [True, False], ids=["reset", "end of body"])
async def test_a_cut_at_any_byte(breaks: bool) -> None:
    """The reply is that of the uncut stream, each call is there once, and nothing is warned about."""
    for cut in [*CUTS[:: pick(1, 37)], *(sum(map(len, EVENTS[:at])) for at in range(1, len(EVENTS)))]:
        store = Store(cut, breaks)
        reply = await store.reply()
        same(reply)
        assert reply.warnings == []
        after = sum(cut >= sum(map(len, EVENTS[:at])) for at in range(1, len(EVENTS) + 1)) - 1
        assert [attempt.resumed_after for attempt in reply.attempts] == [after]
        path = f"/v1/responses/resp_1?stream=true&starting_after={after}"
        assert [(request.method, request.url.raw_path.decode()) for request in store.requests[1:]] == [("GET", path)]


@each_row("each", [1, 2, 3])
async def test_a_connection_that_breaks_again_and_again(each: int) -> None:
    """As long as every connection brings something, it goes on."""
    store = Store(len(EVENTS[0]), each=each)
    reply = await store.reply(max_retries=1)
    same(reply)
    places = [attempt.resumed_after for attempt in reply.attempts]
    assert places == list(range(0, len(EVENTS) - 1, each))


async def test_events_that_come_again() -> None:
    """What the server repeats is skipped."""
    same(await Store(len(WHOLE) // 2, again=3).reply())


async def test_the_key_goes_along() -> None:
    """The request for the rest has the headers of the first one, and no body."""
    store = Store(len(WHOLE) // 2)
    await store.reply(headers={"x-team": "a"})
    rest = store.requests[1]
    assert (rest.headers["authorization"], rest.headers["x-team"], rest.content) == ("Bearer geheim", "a", b"")
    assert "content-type" not in rest.headers


async def test_hooks_are_told() -> None:
    """`on_retry` has the attempt with the place of the seam; nobody is told of an error."""
    told: list[Any] = []
    hooks = Hooks(on_retry=lambda _, attempt: told.append(attempt), on_error=lambda _, error: told.append(error))
    await Store(len(WHOLE) // 2).reply(hooks=hooks)
    assert [attempt.resumed_after is not None for attempt in told] == [True]


@pytest.mark.parametrize("body", [{}, {"store": False}], ids=["nothing said", "not stored"])
async def test_what_is_not_stored_is_not_asked_for(body: dict[str, Any]) -> None:
    """By default nothing is left with the provider, so that there is nothing to go on with."""
    store = Store(len(WHOLE) // 2)
    with pytest.raises(IncompleteStreamError):
        await store.reply(body=body)
    assert [request.method for request in store.requests] == ["POST"]


async def test_without_retries() -> None:
    """`max_retries=0` means that nothing is sent again."""
    store = Store(len(WHOLE) // 2)
    with pytest.raises(IncompleteStreamError):
        await store.reply(max_retries=0)
    assert len(store.requests) == 1


async def test_a_rest_that_is_refused() -> None:
    """The error is that of the connection that broke, with what had arrived; `attempts` says what was tried."""
    gone = httpx.Response(404, json={"error": {"message": "not found"}})
    store = Store(len(WHOLE) // 2, answers=[gone, gone])
    with pytest.raises(IncompleteStreamError, match="connection reset") as failed:
        await store.reply()
    assert failed.value.partial is not None
    assert failed.value.partial.text.startswith("Hello")
    assert len(store.requests) == 2


async def test_a_server_that_is_busy_for_a_moment() -> None:
    """A refusal that a retry may mend is retried, within `max_retries`."""
    busy = httpx.Response(503, json={"error": {"message": "busy"}}, headers={"retry-after": "0.01"})
    store = Store(len(WHOLE) // 2, answers=[busy])
    reply = await store.reply(max_retries=2)
    same(reply)
    assert [attempt.error for attempt in reply.attempts] == ["APIConnectionError", "ServerError"]


@pytest.mark.slow
async def test_no_progress() -> None:
    """A server that never brings another event is given up."""
    empty = [httpx.Response(200, content=b"", headers={"content-type": "text/event-stream"}) for _ in range(9)]
    store = Store(len(WHOLE) // 2, breaks=False, answers=empty)
    with pytest.raises(StreamfoldError):
        await store.reply(max_retries=2)
    assert len(store.requests) == 3


async def test_closing_while_it_reconnects() -> None:
    """A stream that is closed in between ends, and leaves no connection."""

    async def script(connection: Connection) -> None:
        if (await connection_request(connection)).startswith(b"POST"):
            await connection.send(STREAM, framed(b"".join(EVENTS[:8])))
            return  # the connection is closed
        waiting.set()
        await connection.gone()

    waiting = anyio.Event()
    async with serving(script) as server, server.provider(adapter="responses", max_retries=2) as provider:
        async with provider.chat_stream("Hi", extra_body=STORED) as stream, anyio.create_task_group() as tasks:

            async def close() -> None:
                await waiting.wait()
                await stream.aclose()

            tasks.start_soon(close)
            with anyio.fail_after(5):
                assert [chunk.finished async for chunk in stream if chunk.finished] == []
        await server.all_closed()


async def connection_request(connection: Connection) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await connection.stream.receive()
    return data


async def test_our_own_gateway_keeps_them() -> None:
    """A client of this library before a gateway of this library: the rest comes from there."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    cut = Store(len(WHOLE) // 2)

    async with serving(sends(STREAM, framed(WHOLE), END)) as upstream, upstream.provider(adapter="responses") as main:
        app = gateway({"main": main})
        inner = httpx.ASGITransport(app)

        async def lossy(request: httpx.Request) -> httpx.Response:
            response = await inner.handle_async_request(request)
            body = b"".join([piece async for piece in response.stream])  # type: ignore[union-attr]
            cut.requests.append(request)
            half = body[: len(body) // 2] if request.method == "POST" else body
            return httpx.Response(200, stream=Pieces(half, request.method == "POST"), headers=response.headers)

        async with httpx.AsyncClient(transport=httpx.MockTransport(lossy)) as client:
            config = {"adapter": "responses", "base_url": "http://gateway/v1", "model": "main"}
            reply = await Provider.from_config(config, http_client=client).chat("Hi", extra_body=STORED)
        await app.aclose()
    same(reply)
    assert [request.method for request in cut.requests] == ["POST", "GET"]
