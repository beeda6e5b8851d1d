"""Servers that answer oddly, to waste time or memory or because something between is broken: every end is typed."""

from __future__ import annotations

import json

import anyio
import pytest

import servers
from folding import DONE, chunk, fin, text
from servers import STREAM, Connection, answer, falls_silent, framed, sends, serving
from streamfold import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    ConfigError,
    Fallback,
    NotFoundError,
    Provider,
    ServerError,
    StreamfoldError,
)
from tables import each_row

pytestmark = pytest.mark.transports


async def failure(provider: Provider, **options) -> StreamfoldError:
    with anyio.fail_after(20), pytest.raises(StreamfoldError) as caught:
        await provider.chat("Hello", **options)
    return caught.value


# --- Heads -----------------------------------------------------------------------------------------------------------


async def test_a_reason_phrase_in_any_encoding() -> None:
    """A 503 whose reason is not ASCII is a ServerError, its connection is closed, and the next provider is asked."""
    surcharged = falls_silent(
        "HTTP/1.1 503 Surchargé\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("latin-1")
    )
    async with serving(surcharged) as server, serving(sends(answer("200 OK", text("fine") + fin("stop")))) as other:
        async with server.provider() as provider, other.provider() as second:
            for _ in range(3):
                assert isinstance(await failure(provider), ServerError)
            assert (await Fallback(provider, second).chat("Hello")).text == "fine"
        await server.all_closed()


@each_row(
    "location", ["http://xn--zzzzzz99999/", "javascript:x", "//", "http://[::1", "http://a:99999/", "\xff", "x" * 4000]
)
async def test_any_redirect_is_refused_with_its_target(location: str) -> None:
    """An odd `Location` is an error that says that redirects are not followed."""
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with serving(sends(head.encode("latin-1"))) as server, server.provider() as provider:
        error = await failure(provider)
    assert isinstance(error, APIStatusError)
    assert "redirects are not followed" in str(error)


@each_row("url", ["http://xn--zzzzzz99999/v1", "http://127.0.0.1:99999/v1", "http://\u2488.example:x/v1"])
async def test_an_address_that_can_not_be_used(url: str) -> None:
    """A broken host or port in base_url is an error of the configuration."""
    with pytest.raises(ConfigError, match="base_url"):
        async with Provider.from_config({"base_url": url, "model": "m", "transport": servers.transport}) as provider:
            await provider.chat("Hello")


@each_row("depth", [10, 150, 600, 900, 100_000])
@each_row("how", ["status", "event"])
async def test_an_error_body_of_any_depth(depth: int, how: str) -> None:
    """An error object with deep nesting keeps the server's message, or at least its type of error."""
    deep = "[" * depth + "]" * depth
    body = f'{{"error":{{"message":"overloaded","details":{deep}}}}}'.encode()
    payload = answer("503 No", body) if how == "status" else answer("200 OK", b"data: " + body + b"\n\n")
    async with serving(sends(payload)) as server, server.provider() as provider:
        error = await failure(provider)
    if depth < 900:
        assert "overloaded" in str(error)


# --- Addresses -------------------------------------------------------------------------------------------------------


async def test_errors_name_the_address() -> None:
    """A server that is not there, and a 404, say which address was asked and what to check; a password is left out."""
    async with serving(sends(answer("404 Not Found", b'{"error":{"message":"no such thing"}}'))) as server:
        url = f"http://me:hidden@127.0.0.1:{server.port}/v1?key=hidden"
        spec = {"base_url": url, "model": "m", "max_retries": 0, "transport": servers.transport}
        async with Provider.from_config(spec) as provider:
            error = await failure(provider)
    shown = f"http://***@127.0.0.1:{server.port}/v1/chat/completions?***"
    assert isinstance(error, NotFoundError)
    assert str(error) == f"custom: no such thing (HTTP 404) (POST {shown}: check base_url and the model)"
    assert error.url == shown
    async with Provider.from_config(spec) as provider:
        error = await failure(provider)
    assert isinstance(error, APIConnectionError)
    assert f"(POST {shown}: check base_url and that the server is running)" in str(error)


# --- Time ------------------------------------------------------------------------------------------------------------

LONG = {"connect": 5, "first_event": 5, "read": 5, "stall": 5}


@each_row(("phase", "begin"), [("first_event", b""), ("stall", text("x"))])
async def test_a_flood_of_comments_is_a_stall(phase: str, begin: bytes) -> None:
    """Bytes that carry nothing are a stall, however fast they come."""

    async def flood(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(begin) if begin else b"")
        while True:
            await peer.send(framed(b": x\n\n" * 500))

    async with serving(flood) as server, server.provider(timeouts={**LONG, phase: 0.1}) as provider:
        error = await failure(provider)
    assert isinstance(error, APITimeoutError)
    assert error.phase == phase


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@each_row(
    "piece",
    [
        b": x\n\n",
        event({"choices": []}),
        chunk({}),
        chunk({"content": ""}),
        chunk({"role": "assistant"}),
        b"event: ping\ndata: {}\n\n",
        event({"choices": [{"index": 1, "delta": {"content": "x"}}]}),
        event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}),
    ],
    ids=["comment", "no choices", "empty delta", "empty content", "role", "ping", "another choice", "usage"],
)
@each_row(("phase", "begin"), [("first_event", b""), ("stall", text("x"))])
async def test_events_that_carry_nothing_set_no_clock_back(phase: str, begin: bytes, piece: bytes) -> None:
    """`first_event` and `stall` wait for a part of the answer: pings, metadata and empty deltas are none."""

    async def trickle(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(begin) if begin else b"")
        while True:
            await peer.send(framed(piece))
            await anyio.sleep(0.02)

    async with serving(trickle) as server, server.provider(timeouts={**LONG, phase: 0.1}) as provider:
        error = await failure(provider)
    assert isinstance(error, APITimeoutError)
    assert error.phase == phase


@pytest.mark.slow
async def test_an_answer_that_goes_on_is_no_stall() -> None:
    """Every part of an answer restarts the clock: text, reasoning, and fragments of calls."""
    fragment = chunk({"tool_calls": [{"index": 0, "function": {"arguments": " "}}]})
    parts = [
        text("a"),
        chunk({"reasoning_content": "b"}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]}),
        *[fragment] * 8,
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        fin("tool_calls"),
        DONE,
    ]

    async def slowly(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM)
        for part in parts:
            await anyio.sleep(0.04)
            await peer.send(framed(part))
        await peer.send(servers.END)

    async with serving(slowly) as server, server.provider(timeouts={**LONG, "stall": 0.4}) as provider:
        reply = await provider.chat("Hello")
    assert [call.name for call in reply.tool_calls] == ["f"]
