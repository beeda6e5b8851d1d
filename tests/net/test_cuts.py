"""An answer that is cut at any byte, that stalls behind any event, or of which only pings come, over real sockets.

What must come out is worked out here from the events that arrived, and not by the library: no call before the finish
reason, always an error of ours, always the text so far.
"""

from __future__ import annotations

import socket
import struct
from itertools import accumulate
from random import Random
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute

import scale
import servers
from answers_by_api import APIS, Answer, Stream, told
from folding import DONE, event, fin, text
from servers import Connection, serving
from streamfold import APIConnectionError, APITimeoutError, Provider, Reply, StreamError, StreamfoldError
from tables import each_row

pytestmark = pytest.mark.transports

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"  # its end is the end of the body
)


ANSWER = Answer(("Hé", "llo"), (("a", "f", {"x": 1}),))
MARKUP = (
    ("Hé", "Hé"),
    ("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>", ""),
    ('{"x":1}<|tool_call_end|>', ""),
    ("<|tool_calls_section_end|>", ""),
)
STREAMS = {
    **{api: told(api, ANSWER, Random(1)) for api in APIS},
    "kimi markup": Stream(
        (*(text(written) for written, _ in MARKUP), fin("stop"), DONE), 4, (*(shown for _, shown in MARKUP), "", "")
    ),
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CONFIG = {**{api: {"adapter": api} for api in APIS}, "kimi markup": {"dialect": "kimi"}}


def arrived(stream: Stream, size: int) -> int:
    """How many events have their data in the first `size` bytes, with or without the blank line behind it."""
    return sum(end - 2 <= size for end in accumulate(map(len, stream.events)))


def check(stream: Stream, size: int, ended: Reply | StreamfoldError, *, prefix: bool = False) -> None:
    """Whether an answer of which `size` bytes were sent ended as it must; with `prefix`, fewer may have come."""
    came = arrived(stream, size)
    text, finished = stream.text_before(came), came > stream.end
    if not finished and not stream.text_before(arrived(stream, size - 2)):
        text = ""  # an answer of which nothing was shown does not begin with an event that lacks its blank line
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
    begun = stream.text_before(came + 1)  # what there is of an event that was cut in two counts too
    written = "".join(piece for piece, _ in MARKUP)  # half a mark may be text
    assert begun.startswith(ended.partial.text) or written.startswith(ended.partial.text)
    assert prefix or ended.partial.text.startswith(text)
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


async def number_of(peer: Connection) -> int:
    """How much of the answer is to be sent: a header of the request says it."""
    await peer.request()
    return int(peer.server.requests[-1].lower().partition(b"x-number: ")[2].split(b"\r\n")[0])


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
    stream = STREAMS[name]
    body = stream.body
    step = scale.pick(1, 29) if (anyio_backend_name, servers.transport) == ("asyncio", "httpx") else scale.pick(11, 41)

    async def script(peer: Connection) -> None:
        size = await number_of(peer)
        await peer.send(HEAD + body[:size])
        if how == "reset":
            reset(peer)

    limiter = anyio.CapacityLimiter(20)

    async def cut(provider: Provider, size: int) -> None:
        async with limiter:
            ended = await outcome(provider, extra_headers={"x-number": str(size)})
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
    stream = STREAMS[name]
    body = stream.body

    async def script(peer: Connection) -> None:
        size = await number_of(peer)
        await peer.send(
            HEAD.replace(b"Connection", b"Content-Length: %d\r\nConnection" % (len(body) + 1)) + body[:size]
        )

    async with serving(script) as server, server.provider(**CONFIG[name]) as provider:
        for size in range(0, len(body) + 1, 29):
            ended = await outcome(provider, extra_headers={"x-number": str(size)})
            check(stream, size, ended)


KEEPALIVE = b": keepalive\n\n"
BARE = {"chat": 1, "responses": 3, "anthropic": 1}  # events at the beginning that have nothing of the answer


@pytest.mark.slow
@pytest.mark.parametrize("comments", [False, True], ids=["silence", "comments"])
@pytest.mark.parametrize("name", STREAMS)
async def test_stall_behind_every_event(name: str, comments: bool) -> None:
    """The clock that runs out is the right one, it does so in time, and the error has the text so far.

    Only the clock that is meant is short: which of two short ones runs out first would be up to the machine.
    """
    stream = STREAMS[name]

    async def script(peer: Connection) -> None:
        count = await number_of(peer)
        await peer.send(HEAD + b"".join(stream.events[:count]))
        while comments:
            await peer.send(KEEPALIVE)
            await anyio.sleep(0.005)
        await peer.gone()

    async with serving(script) as server, server.provider(**CONFIG[name]) as provider:
        for count in scale.some(range(len(stream.events)), 6):
            phase = "first_event" if count <= BARE.get(name, 0) else "stall" if comments else "read"
            clocks = {"first_event": 30, "read": 30, "stall": 30, phase: 0.2}
            began = anyio.current_time()
            ended = await outcome(provider, extra_headers={"x-number": str(count)}, timeouts=clocks)
            assert 0.2 <= anyio.current_time() - began < 20
            if count > stream.end:
                check(stream, len(b"".join(stream.events[:count])), ended)
                continue
            assert isinstance(ended, APITimeoutError)
            assert (ended.phase, ended.retryable) == (phase, True)
            if count:
                assert ended.partial is not None
                assert ended.partial.tool_calls == []
                assert ended.partial.text == stream.text_before(count)
        await server.all_closed()


START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 1}}}
BEGUN = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
]
SAID = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
IDLE = {
    "anthropic": ([START], BEGUN, {"type": "ping"}),
    "gemini": ([{"modelVersion": "m"}], [SAID], {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True], ids=["nothing said", "something said"])
@pytest.mark.parametrize("api", IDLE)
async def test_pings_do_not_stop_the_clocks(api: str, begun: bool) -> None:
    """A server that sends pings, or counts without any content, is not waited for longer than a silent one."""
    start, said, ping = IDLE[api]

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(HEAD + b"".join(map(event, [*start, *(said if begun else [])])))
        while True:
            await peer.send(event(ping))
            await anyio.sleep(0.01)

    phase = "stall" if begun else "first_event"
    clocks: Any = {"first_event": 30, "read": 30, "stall": 30, "total": 20, phase: 0.3}
    async with serving(script) as server, server.provider(adapter=api) as provider:
        ended = await outcome(provider, timeouts=clocks)
        assert isinstance(ended, APITimeoutError)
        assert (ended.phase, ended.partial is not None and ended.partial.text) == (phase, "Hi" if begun else "")
        await server.all_closed()
