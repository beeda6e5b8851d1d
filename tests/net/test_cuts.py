"""An answer that is cut at any byte, or that stalls behind any event, over real sockets.

What must come out is worked out here from the events that arrived, and not by the library: no call before the finish
reason, always an error of ours, always the text so far.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute

import scale
import servers
from servers import Connection, serving
from streamfold import APIConnectionError, APITimeoutError, Provider, Reply, StreamError, StreamfoldError
from tables import each_row

pytestmark = pytest.mark.transports

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"  # its end is the end of the body
)


@dataclass(frozen=True)
class Event:
    """An event, and the text in it."""

    data: Any
    text: str = ""
    finishes: bool = False

    @property
    def wire(self) -> bytes:
        name = f"event: {self.data['type']}\n" if isinstance(self.data, dict) and "type" in self.data else ""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, separators=(",", ":"))
        return f"{name}data: {data}\n\n".encode()


def chat(text: str = "", finish: str | None = None, *, shown: str | None = None, **delta: Any) -> Event:
    choice = {
        "delta": {**({"content": text} if text else {}), **delta},
        **({"finish_reason": finish} if finish else {}),
    }
    return Event({"choices": [choice]}, text if shown is None else shown, finish is not None)


def responses(kind: str, text: str = "", **members: Any) -> Event:
    return Event({"type": f"response.{kind}", **members}, text, kind == "completed")


ITEM = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f"}
STREAMS = {
    "chat": [
        chat("Hé"),
        chat("llo"),
        chat(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}]),
        chat(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
        chat(finish="tool_calls"),
        Event("[DONE]"),
    ],
    "responses": [
        responses("output_text.delta", "Hé", delta="Hé"),
        responses("output_item.added", output_index=1, item=ITEM),
        responses("function_call_arguments.delta", output_index=1, delta='{"x":1}'),
        responses("completed", response={"status": "completed"}),
    ],
    "kimi markup": [
        chat("Hé"),
        chat("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>", shown=""),
        chat('{"x":1}<|tool_call_end|>', shown=""),
        chat("<|tool_calls_section_end|>", shown=""),
        chat(finish="stop"),
        Event("[DONE]"),
    ],
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CONFIG = {"chat": {}, "responses": {"adapter": "responses"}, "kimi markup": {"dialect": "kimi"}}


@dataclass(frozen=True)
class Stream:
    """A stream, and what is known of it at each byte."""

    events: list[Event]

    @property
    def body(self) -> bytes:
        return b"".join(event.wire for event in self.events)

    def arrived(self, size: int) -> list[Event]:
        """The events whose data is in the first `size` bytes, with or without the blank line behind it."""
        ends = accumulate(len(event.wire) for event in self.events)
        return [event for event, end in zip(self.events, ends, strict=True) if end - 2 <= size]


def check(stream: Stream, size: int, ended: Reply | StreamfoldError, *, prefix: bool = False) -> None:
    """Whether an answer of which `size` bytes were sent ended as it must; with `prefix`, fewer may have come."""
    arrived = stream.arrived(size)
    text = "".join(event.text for event in arrived)
    finished = any(event.finishes for event in arrived)
    if isinstance(ended, Reply):
        assert finished
        assert ended.text == text
        assert [(call.name, call.arguments) for call in ended.tool_calls] == [("f", {"x": 1})]
        return
    assert not finished or prefix
    if prefix and type(ended) is APIConnectionError:  # not even the head was left
        assert ended.partial is None
        return
    assert isinstance(ended, StreamError)
    assert ended.partial is not None
    assert ended.partial.tool_calls == []
    assert text.startswith(ended.partial.text) if prefix else ended.partial.text == text
    assert ended.retryable


async def outcome(provider: Provider, **options: Any) -> Reply | StreamfoldError:
    """The reply or the error of ours; any other exception goes through. No chunk has a call that the reply has not."""
    shown, calls = "", 0
    stream = provider.chat_stream("Hello", [TOOL], **options)
    try:
        async with stream:
            async for chunk in stream:
                shown += chunk.delta
                calls += len(chunk.tool_calls or ())
    except StreamfoldError as error:
        assert calls == 0
        if (partial := getattr(error, "partial", None)) is not None:
            assert partial.text.startswith(shown)
        return error
    assert shown == stream.reply.text
    return stream.reply


def reset(peer: Connection) -> None:
    """Closing will not say goodbye: the peer gets an RST."""
    raw: socket.socket = peer.stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("how", ["close", "reset"])
@each_row("name", STREAMS)
async def test_cut_at_every_byte(name: str, how: str, anyio_backend_name: str) -> None:
    """Cut anywhere: never a call before the finish reason, always one of our errors, with the text that arrived.

    At every byte on asyncio with --thorough; else every few of them are enough: the same code reads them.
    """
    stream = Stream(STREAMS[name])
    body = stream.body
    step = scale.pick(1, 7) if (anyio_backend_name, servers.transport) == ("asyncio", "auto") else 11

    async def script(peer: Connection) -> None:
        size = int(json.loads(await peer.request())["model"])
        await peer.send(HEAD + body[:size])
        if how == "reset":
            reset(peer)

    limiter = anyio.CapacityLimiter(20)

    async def cut(provider: Provider, size: int) -> None:
        async with limiter:
            ended = await outcome(provider, model=str(size))
        try:
            check(stream, size, ended, prefix=how == "reset")
        except AssertionError as wrong:
            raise AssertionError(f"cut at {size}, behind {body[:size][-40:]!r}: {ended!r} {vars_of(ended)}") from wrong

    async with serving(script) as server, server.provider(**CONFIG[name]) as provider:
        async with anyio.create_task_group() as tasks:
            for size in range(0, len(body) + 1, step):
                tasks.start_soon(cut, provider, size)
        await server.all_closed()


def vars_of(ended: Reply | StreamfoldError) -> Any:
    return ended if isinstance(ended, Reply) else vars(ended)


@each_row("name", STREAMS)
async def test_lengths_that_are_not_kept(name: str) -> None:
    """A connection that closes inside a body whose length was said is broken, wherever that is."""
    stream = Stream(STREAMS[name])
    body = stream.body

    async def script(peer: Connection) -> None:
        size = int(json.loads(await peer.request())["model"])
        await peer.send(
            HEAD.replace(b"Connection", b"Content-Length: %d\r\nConnection" % (len(body) + 1)) + body[:size]
        )

    async with serving(script) as server, server.provider(**CONFIG[name]) as provider:
        for size in range(0, len(body) + 1, 29):
            check(stream, size, await outcome(provider, model=str(size)))


KEEPALIVE = b": keepalive\n\n"


@pytest.mark.slow
@pytest.mark.parametrize("comments", [False, True], ids=["silence", "comments"])
@pytest.mark.parametrize("name", STREAMS)
async def test_stall_behind_every_event(name: str, comments: bool) -> None:
    """The clock that runs out is the right one, it does so in time, and the error has the text so far.

    Only the clock that is meant is short: which of two short ones runs out first would be up to the machine.
    """
    stream = Stream(STREAMS[name])

    async def script(peer: Connection) -> None:
        count = int(json.loads(await peer.request())["model"])
        await peer.send(HEAD + b"".join(event.wire for event in stream.events[:count]))
        while comments:
            await peer.send(KEEPALIVE)
            await anyio.sleep(0.005)
        await peer.gone()

    async with serving(script) as server, server.provider(**CONFIG[name]) as provider:
        for count in scale.some(range(len(stream.events)), 6):
            phase = "first_event" if count == 0 else "stall" if comments else "read"
            clocks = {"first_event": 30, "read": 30, "stall": 30, phase: 0.05}
            began = anyio.current_time()
            ended = await outcome(provider, model=str(count), timeouts=clocks)
            assert 0.05 <= anyio.current_time() - began < 20
            arrived = stream.events[:count]
            if any(event.finishes for event in arrived):
                check(stream, sum(len(event.wire) for event in arrived), ended)
                continue
            assert isinstance(ended, APITimeoutError)
            assert (ended.phase, ended.retryable) == (phase, True)
            if count:
                assert ended.partial is not None
                assert ended.partial.tool_calls == []
                assert ended.partial.text == "".join(event.text for event in arrived)
        await server.all_closed()
