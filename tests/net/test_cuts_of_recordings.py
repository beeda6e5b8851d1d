"""Recordings of Anthropic and Google that are cut at any byte over real sockets, and servers that send only pings.

What must come out is worked out here from the bytes that arrived, and not by the library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

import corpus
import scale
import servers
from servers import Connection, serving
from streamfold import APITimeoutError, Provider, Reply, StreamError, StreamfoldError
from tables import each_row

pytestmark = pytest.mark.transports

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FIXTURES = Path(__file__).parents[2] / "fixtures"
OWN = [("anthropic", "anthropic/parallel_calls"), ("gemini", "gemini/native_parallel_calls")]
RECORDED = [
    *(("anthropic", name) for name in corpus.names("corpus/anthropic/*tool*.sse")[:2]),
    *(("gemini", name) for name in corpus.names("corpus/gemini/*call*.sse")[:2]),
]
CASES = [*OWN, *(case for case in RECORDED if isinstance(case[1], str))]


def body_of(name: str) -> bytes:
    file = FIXTURES / f"{name}.sse"
    return file.read_bytes() if file.exists() else corpus.body(name)


def payloads(body: bytes) -> list[Any]:
    """The payloads that have arrived whole."""
    found = []
    for line in body.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                found.append(json.loads(line[5:]))
            except ValueError:
                continue
    return found


def text_of(wire: str, payload: Any) -> str:
    if wire == "anthropic":
        begun, delta = payload.get("content_block", {}), payload.get("delta", {})
        return str(begun.get("text", "")) + str(delta.get("text", "")) if "thinking" not in begun else ""
    parts = [part for one in payload.get("candidates", []) for part in one.get("content", {}).get("parts", [])]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def is_finish(wire: str, payload: Any) -> bool:
    if wire == "anthropic":
        return bool(payload.get("delta", {}).get("stop_reason"))
    return any(candidate.get("finishReason") for candidate in payload.get("candidates", []))


async def outcome(provider: Provider, **options: Any) -> Reply | StreamfoldError:
    """The reply or the error of ours. No chunk has a call that the reply has not."""
    calls = 0
    stream = provider.chat_stream("Hello", **options)
    try:
        async with stream:
            async for chunk in stream:
                calls += len(chunk.tool_calls or ())
    except StreamfoldError as error:
        assert calls == 0
        return error
    assert calls == len(stream.reply.tool_calls)
    return stream.reply


@each_row(("wire", "name"), CASES)
async def test_cut_at_every_byte(wire: str, name: str, anyio_backend_name: str) -> None:
    """Never a call before the finish reason, always one of our errors, with the text that arrived.

    At every byte on asyncio over the default transport with --thorough; else at some of them.
    """
    body = body_of(name)
    thorough = (anyio_backend_name, servers.transport) == ("asyncio", "auto")
    sizes = scale.some(range(len(body) + 1), 60 if thorough else 15)

    async def script(peer: Connection) -> None:
        request = await peer.request()
        head = peer.server.requests[-1].lower()
        size = int(next(line for line in head.split(b"\r\n") if line.startswith(b"x-size:"))[7:])
        assert request
        await peer.send(HEAD + body[:size])

    limiter = anyio.CapacityLimiter(20)

    async def cut(provider: Provider, size: int) -> None:
        async with limiter:
            ended = await outcome(provider, extra_headers={"x-size": str(size)})
        arrived = payloads(body[:size])
        text = "".join(text_of(wire, payload) for payload in arrived)
        if isinstance(ended, Reply):
            assert any(is_finish(wire, payload) for payload in arrived), f"cut at {size}"
            assert ended.text == text
            return
        assert not any(is_finish(wire, payload) for payload in arrived), f"cut at {size}: {ended!r}"
        assert isinstance(ended, StreamError)
        assert ended.partial is not None
        assert (ended.partial.text, ended.partial.tool_calls) == (text, [])

    async with serving(script) as server, server.provider(adapter=wire) as provider:
        async with anyio.create_task_group() as tasks:
            for size in sizes:
                tasks.start_soon(cut, provider, size)
        await server.all_closed()


START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 1}}}
TEXT = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
]
SAID = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
IDLE = {
    "anthropic": ([START], TEXT, {"type": "ping"}),
    "gemini": ([{"modelVersion": "m"}], [SAID], {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m"}),
}


def sse(*sent: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in sent)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True], ids=["nothing said", "something said"])
@pytest.mark.parametrize("wire", IDLE)
async def test_pings_do_not_stop_the_clocks(wire: str, begun: bool) -> None:
    """A server that sends pings, or counts without any content, is not waited for longer than a silent one."""
    start, said, ping = IDLE[wire]

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(HEAD + sse(*start, *(said if begun else [])))
        while True:
            await peer.send(sse(ping))
            await anyio.sleep(0.01)

    phase = "stall" if begun else "first_event"
    clocks: Any = {"first_event": 30, "read": 30, "stall": 30, "total": 20, phase: 0.3}
    async with serving(script) as server, server.provider(adapter=wire) as provider:
        ended = await outcome(provider, timeouts=clocks)
        assert isinstance(ended, APITimeoutError)
        assert (ended.phase, ended.partial is not None and ended.partial.text) == (phase, "Hi" if begun else "")
        await server.all_closed()
