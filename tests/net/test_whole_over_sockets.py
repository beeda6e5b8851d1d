"""Whole answers over real sockets: what breaks, what is waited for, what is sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from folding import DONE, fin, text
from servers import STREAM, Connection, answer, falls_silent, framed, sends, serving
from streamfold import APITimeoutError, EmptyResponseError, IncompleteStreamError, Timeouts
from streamfold.recording import Recording
from tables import each_row
from whole_bodies import whole_body

pytestmark = pytest.mark.transports

RECORDING = Recording.load(Path(__file__).parents[2] / "fixtures" / "openai" / "parallel_calls")
BODY = whole_body("chat", RECORDING.body)
GOOD = answer("200 OK", BODY, "Content-Type: application/json")
HEAD, _, _ = GOOD.partition(b"\r\n\r\n")
HEAD += b"\r\n\r\n"


async def test_one_connection_for_many() -> None:
    async def script(peer: Connection) -> None:
        while True:
            asked = json.loads(await peer.request())
            await peer.send(GOOD if asked["stream"] is False else b"")

    async with serving(script) as server, server.provider() as provider:
        for _ in range(3):
            reply = await provider.chat("Hello", stream=False)
            assert [(call.id, call.name) for call in reply.tool_calls] == [
                (call.id, call.name) for call in RECORDING.reply().tool_calls
            ]
        assert server.connections == 1


@each_row("end", [0, 1, 40, len(BODY) // 2, BODY.index(b"tool_calls") + 60, len(BODY) - 2, len(BODY) - 1])
@each_row("begin", [HEAD, STREAM, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"])
async def test_a_connection_that_breaks(begin: bytes, end: int) -> None:
    """With a length, in chunks, or with neither: no byte less is an answer."""
    script = sends(begin, (framed(BODY[:end]) if begin == STREAM else BODY[:end]) if end else b"")
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises((IncompleteStreamError, EmptyResponseError)) as caught:
            await provider.chat("Hello", stream=False)
        assert caught.value.partial is not None
        assert not caught.value.partial.tool_calls
        assert caught.value.retryable
        await server.all_closed()


async def test_an_answer_that_broke_is_asked_for_again() -> None:
    """Nothing has been handed out of a whole answer before its end."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(GOOD if peer.server.connections > 1 else GOOD[:-30])

    async with serving(script) as server, server.provider(max_retries=2) as provider:
        reply = await provider.chat("Hello", stream=False)
        assert len(reply.tool_calls) == 2
        assert [attempt.error for attempt in reply.attempts] == ["IncompleteStreamError"]


SHORT: Any = {"first_event": 0.1, "read": 0.05, "stall": 0.05}


async def test_what_is_waited_for() -> None:
    """The clocks of a stream are not those of a whole answer: its first byte comes when a stream would be at its end.

    White space that keeps the connection open changes nothing.
    """

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(HEAD.replace(b"%d" % len(BODY), b"%d" % (len(BODY) + 2)))
        for piece in (b"\n", b"\n", BODY[:50], BODY[50:]):
            await anyio.sleep(0.1)
            await peer.send(piece)

    async with serving(script) as server, server.provider(timeouts=SHORT) as provider:
        assert len((await provider.chat("Hello", stream=False)).tool_calls) == 2


@each_row(
    ("configured", "given", "phase"),
    [
        ({"total": 0.15}, None, "total"),
        ({}, {"total": 0.15}, "total"),
        ({}, {"first_event": 0.15}, "first_event"),
        ({}, Timeouts(first_event=0.15), "first_event"),
    ],
)
@each_row("sent", [b"", HEAD + BODY[:-1]])
async def test_what_ends_the_wait(configured: Any, given: Any, phase: str, sent: bytes) -> None:
    """`total`, or the `first_event` that the very request asks for, however much of the body has come."""
    async with (
        serving(falls_silent(sent)) as server,
        server.provider(timeouts={**SHORT, **configured}) as provider,
    ):
        with anyio.fail_after(5), pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello", stream=False, timeouts=given)
        assert caught.value.phase == phase
        assert not (caught.value.partial and caught.value.partial.tool_calls)
        await server.all_closed()


async def test_a_stream_where_none_was_asked_for_has_its_clocks() -> None:
    """A server that streams all the same, and falls silent, is left as in any stream."""
    async with serving(falls_silent(STREAM, framed(text("Hi")))) as server, server.provider(timeouts=SHORT) as provider:
        with anyio.fail_after(5), pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello", stream=False)
        assert (caught.value.phase, caught.value.partial is not None) == ("read", True)
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Hi"


async def test_a_task_that_is_cancelled_closes_the_connection() -> None:
    async with serving(falls_silent(HEAD + BODY[:-5])) as server, server.provider() as provider:
        with anyio.move_on_after(0.1) as scope:
            await provider.chat("Hello", stream=False)
        assert scope.cancelled_caught
        await server.all_closed()


async def test_a_stream_is_read_to_its_end() -> None:
    async with serving(_streams) as server, server.provider() as provider:
        reply = await provider.chat("Hello", stream=False)
        assert (reply.text, reply.finish_reason) == ("Hi", "stop")


async def _streams(peer: Connection) -> None:
    await peer.request()
    await peer.send(STREAM, framed(text("Hi"), fin("stop"), DONE), b"0\r\n\r\n")


@each_row("refuses", [False, True])
async def test_a_stream_that_breaks_off_is_asked_for_again(refuses: bool) -> None:
    """Nothing is handed out before the end of an answer that is streamed all the same, or for want of another."""
    refusal = answer("400 Bad Request", b'{"error":{"message":"This model only supports streaming."}}')
    streams = [text("Hal") + text("f"), text("Hel") + text("lo") + fin("stop") + DONE]

    async def script(peer: Connection) -> None:
        while True:
            asked = json.loads(await peer.request())
            if refuses and not asked["stream"]:
                await peer.send(refusal)
            else:
                await peer.send(answer("200 OK", streams.pop(0), "Content-Type: text/event-stream"))

    async with serving(script) as server, server.provider(max_retries=1) as provider:
        reply = await provider.chat("Hello", stream=False)
        assert (reply.text, len(reply.attempts)) == ("Hello", 2 if refuses else 1)
