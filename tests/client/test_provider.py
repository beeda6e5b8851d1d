"""Providers over real sockets, on asyncio and on trio: what comes out, and that every connection is closed."""

from __future__ import annotations

import gc
import json
import select
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.streams.tls import TLSStream

import servers
from folding import DONE, call, codes, entry, fin, text
from servers import END, STREAM, Connection, answer, certificate, falls_silent, framed, sends, serving
from streamfold import (
    APIConnectionError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    IncompleteStreamError,
    NotFoundError,
    ProtocolError,
    Provider,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamfoldError,
    ToolCall,
    UpstreamError,
)
from tables import each_row

CALL = call(entry(0, "call_a", "get_weather", '{"city":'), entry(0, arguments='"Paris"}'))


def replying(*pieces: bytes):
    """A script that answers every request on a connection with this stream."""

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            await peer.send(STREAM, *(framed(piece) for piece in pieces), END)

    return script


async def test_text_and_calls_arrive() -> None:
    """Text comes as deltas; calls come whole, on the finished chunk."""
    async with serving(replying(text("Hello"), text(" there"), CALL, fin("tool_calls"), DONE)) as server:
        async with server.provider(coalesce=False) as provider:
            chunks = [chunk async for chunk in provider.chat_stream("Weather?")]
            assert [chunk.delta for chunk in chunks] == ["Hello", " there", ""]
            assert [chunk.tool_calls for chunk in chunks[:-1]] == [None, None]
            assert chunks[-1].finished
            assert chunks[-1].tool_calls == [
                ToolCall("call_a", "get_weather", {"city": "Paris"}, '{"city":"Paris"}'),
            ]
        await server.all_closed()


async def test_chat_is_the_folded_stream() -> None:
    """`chat` gives what the stream's reply gives, with request id and times."""
    async with serving(replying(text("Hi"), CALL, fin("stop"), DONE)) as server, server.provider() as provider:
        reply = await provider.chat("Hello")
        stream = provider.chat_stream("Hello")
        async with stream:
            async for _ in stream:
                pass
        assert stream.reply.message == reply.message
        assert (reply.text, reply.finish_reason, reply.raw_finish_reason) == ("Hi", "tool_calls", "stop")
        assert reply.request_id == "req_1"
        assert reply.timing is not None
        assert reply.timing.total is not None


async def test_a_connection_is_used_again() -> None:
    """A stream that was read to its end gives its connection back to the pool."""
    async with serving(replying(text("Hi"), fin("stop"), DONE)) as server, server.provider() as provider:
        for _ in range(3):
            await provider.chat("Hello")
        assert server.connections == 1


async def test_request_on_the_wire() -> None:
    """One POST below the base URL, the key in the header, the body as asked, and no compression."""
    async with serving(replying(text("Hi"), fin("stop"), DONE)) as server:
        async with server.provider(api_key="sk-canary", headers={"X-Team": "a"}) as provider:
            await provider.chat("Hello", temperature=0, max_output_tokens=5, extra_headers={"X-Trace": "b"})
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        assert lines[0] == "post /v1/chat/completions http/1.1"
        assert {
            "authorization: bearer sk-canary", "accept-encoding: identity", "x-team: a", "x-trace: b",
        } <= set(lines)  # fmt: skip
        assert json.loads(body) == {
            "model": "m",
            "messages": [{"role": "user", "content": "Hello"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "max_tokens": 5,
        }


async def endless(peer: Connection) -> None:
    await peer.request()
    await peer.send(STREAM)
    while True:
        await peer.send(framed(text("more")))
        await anyio.sleep(0.005)


mute, silent = falls_silent(), falls_silent(STREAM, framed(text("one")))


async def test_break_inside_async_with_closes() -> None:
    """Leaving `async with` closes the connection at once."""
    async with serving(endless) as server, server.provider() as provider:
        async with provider.chat_stream("Hello") as stream:
            async for chunk in stream:
                assert chunk.delta == "more"
                break
        await server.all_closed()
        with pytest.raises(StreamfoldError, match="no reply yet"):
            _ = stream.reply


@pytest.mark.filterwarnings(
    "ignore:Async generator 'streamfold.client.network_stream.NetworkStream.batches':ResourceWarning"
)
async def test_abandoned_stream_is_closed() -> None:
    """A bare `async for` that is left with `break` is closed as soon as Python lets go of it."""
    async with serving(endless) as server, server.provider() as provider:
        async for _ in provider.chat_stream("Hello"):
            break
        gc.collect()
        await server.all_closed()


@pytest.mark.parametrize("script", [silent, mute], ids=["between chunks", "before the first byte"])
async def test_aclose_from_another_task_ends_the_iteration(script) -> None:
    """A task that waits for a chunk sees the iteration end; there is no reply."""
    async with serving(script) as server, server.provider() as provider:
        stream = provider.chat_stream("Hello")
        ended = anyio.Event()

        async def read() -> None:
            async for _ in stream:
                pass
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            while not server.requests:
                await anyio.sleep(0.005)
            await anyio.sleep(0.02)
            await stream.aclose()
            await stream.aclose()
            with anyio.fail_after(5):
                await ended.wait()
        with pytest.raises(StreamfoldError, match="no reply yet"):
            _ = stream.reply
        await server.all_closed()


async def test_aclose_before_anything() -> None:
    """A stream that was never read sends nothing, and can be closed."""
    async with serving(silent) as server, server.provider() as provider:
        stream = provider.chat_stream("Hello")
        await stream.aclose()
        assert [chunk async for chunk in stream] == []
        assert server.requests == []


async def test_second_reader_is_told() -> None:
    """Two tasks can't read one stream."""
    async with serving(silent) as server, server.provider() as provider, provider.chat_stream("Hello") as stream:
        await anext(stream)
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async for _ in stream:
                    pass

            tasks.start_soon(read)
            await anyio.sleep(0.02)
            with pytest.raises(StreamfoldError, match="another task"):
                await anext(stream)
            await stream.aclose()


async def test_broken_connection_is_incomplete() -> None:
    """A connection that breaks before the finish reason is an error with the text so far, and its cause."""
    script = sends(STREAM, framed(text("Hel"), CALL), b"ff\r\ndata: ")
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises(IncompleteStreamError, match="connection broke") as caught:
            await provider.chat("Hello")
        error = caught.value
        assert error.partial is not None
        assert (error.partial.text, error.partial.tool_calls) == ("Hel", [])
        assert (error.provider, error.request_id, error.retryable) == ("custom", "req_1", True)
        assert isinstance(error.__cause__, APIConnectionError)
        await server.all_closed()


async def test_silence_after_the_finish_reason_is_no_loss() -> None:
    """A server that finishes and then neither says [DONE] nor hangs up: the answer stands after the read timeout."""
    script = falls_silent(STREAM, framed(text("Hi"), fin("stop")))
    async with serving(script) as server, server.provider(timeouts={"read": 0.1}) as provider:
        reply = await provider.chat("Hello")
        assert (reply.text, codes(reply)) == ("Hi", ["interrupted_after_finish"])


async def test_c15_socket_kept_open_after_done() -> None:
    """The answer ends at [DONE], also if the server keeps the connection open; leaving does not wait for it."""
    script = falls_silent(STREAM, framed(text("Hi"), fin("stop"), DONE))
    async with serving(script) as server, server.provider() as provider:
        with anyio.fail_after(5):
            assert (await provider.chat("Hello")).text == "Hi"
        await server.all_closed()


async def test_the_total_clock_runs_while_the_reader_is_slow() -> None:
    """An answer that is all there already is not read beyond its total time, although nothing is waited for."""

    async def body() -> AsyncIterator[bytes]:
        for word in ("one", "two", "three"):
            yield text(word)
        yield fin("stop") + DONE

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body()))
    spec = {"base_url": "http://test/v1", "model": "m", "timeouts": {"total": 0.5}}
    async with httpx.AsyncClient(transport=transport) as client:
        stream = Provider.from_config(spec, http_client=client).chat_stream("Hello")
        assert (await anext(stream)).delta == "one"
        await anyio.sleep(0.6)
        with pytest.raises(APITimeoutError) as caught:
            [chunk async for chunk in stream]
    assert (caught.value.phase, caught.value.retryable) == ("total", False)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "one"


async def test_clocks_as_a_mapping() -> None:
    """A mapping is laid over the provider's own clocks; a `Timeouts` is in their place."""
    async with serving(silent) as server, server.provider(timeouts={"read": 0.1}) as provider:
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello", timeouts={"total": 30})
        assert caught.value.phase == "read"
    async with serving(silent) as server, server.provider(timeouts={"total": 0.1}) as provider:
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello", timeouts={"read": None, "total": None, "stall": 0.1})
        assert caught.value.phase == "stall"


async def test_l4_comments_are_no_events() -> None:
    """A server that sends only comments is stalled, although bytes come (anomalyco/opencode#43519)."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("one")))
        while True:
            await peer.send(framed(b": keepalive\n\n"))
            await anyio.sleep(0.005)

    async with serving(script) as server, server.provider(timeouts={"stall": 0.1}) as provider:
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello")
        assert caught.value.phase == "stall"
        assert caught.value.partial is not None
        assert caught.value.partial.text == "one"


@pytest.mark.transports
async def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    """The error says so in the words of the one who looked at it, and that no retry will help."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate(tmp_path), tmp_path / "key.pem")

    async def script(peer: Connection) -> None:
        with suppress(ssl.SSLError):
            await TLSStream.wrap(peer.stream, ssl_context=context, server_side=True)

    async with serving(script) as server, server.provider(base_url=f"https://127.0.0.1:{server.port}/v1") as provider:
        with pytest.raises(APIConnectionError, match="self-signed certificate") as caught:
            await provider.chat("Hello")
    assert not caught.value.retryable


@pytest.mark.transports
@pytest.mark.parametrize("path", ["/v1", "/${TENANT}/v1"])
async def test_a_large_request(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes, as of images, arrive whole and with their length, whatever is under httpx, and without a warning."""
    monkeypatch.setenv("TENANT", "a")
    said = "é" * 2**21
    bodies: list[bytes] = []

    async def script(peer: Connection) -> None:
        bodies.append(await peer.request())
        await peer.send(answer("200 OK", text("Hi") + fin("stop") + DONE))

    async with serving(script) as server, server.provider(base_url=f"http://127.0.0.1:{server.port}{path}") as provider:
        assert (await provider.chat(said)).text == "Hi"
    assert json.loads(bodies[0])["messages"] == [{"role": "user", "content": said}]
    assert b"transfer-encoding" not in server.requests[0].partition(b"\r\n\r\n")[0].lower()


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full, so that another one is not taken and not refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(20):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
            if not select.select([], [waiting], [], 0.2)[1]:
                yield listener.getsockname()[1]
                return
    pytest.skip("this system takes connections that nobody accepts")


@pytest.mark.slow
@pytest.mark.transports
async def test_no_connection_in_time(full_port: int) -> None:
    """The clock is named, on both event loops and over both transports."""
    config = {"base_url": f"http://127.0.0.1:{full_port}/v1", "model": "m", "max_retries": 0}
    async with Provider.from_config(
        {**config, "transport": servers.transport, "timeouts": {"connect": 0.2}}
    ) as provider:
        with pytest.raises(APITimeoutError) as caught:
            await provider.chat("Hello")
    assert (caught.value.phase, caught.value.retryable) == ("connect", True)


async def test_connection_refused() -> None:
    """No server: an error that says so, and that a retry may help."""
    async with serving(silent) as server:
        base_url = server.base_url
    async with Provider.from_config({"base_url": base_url, "model": "m", "max_retries": 0}) as provider:
        with pytest.raises(APIConnectionError, match="no connection") as caught:
            await provider.chat("Hello")
        assert caught.value.retryable
        assert caught.value.partial is None


@each_row(
    ("status", "body", "kind", "message", "retryable"),
    [
        ("401 Unauthorized", b'{"error":{"message":"no","code":"invalid_api_key"}}', AuthenticationError, "no", False),
        ("404 Not Found", b'{"error":{"message":"no such model"}}', NotFoundError, "no such model", False),
        ("400 Bad Request", b'{"detail":[{"msg":"field required"}]}', BadRequestError, "field required", False),
        ("422 Unprocessable", b'[{"error":{"message":"bad"}}]', BadRequestError, "bad", False),
        ("429 Slow", b'{"error":{"message":"slow","type":"rate_limit_reached_error"}}', RateLimitError, "slow", True),
        ("429 Slow", b'{"error":{"message":"pay","type":"insufficient_quota"}}', QuotaExceededError, "pay", False),
        ("402 Payment Required", b'{"error":{"message":"no balance"}}', QuotaExceededError, "no balance", False),
        ("500 Internal Server Error", b"Internal Server Error", ServerError, "Internal Server Error", True),
        ("502 Bad Gateway", b"<html><title>502 Bad Gateway</title></html>", ServerError, "502 Bad Gateway", True),
        ("503 Service Unavailable", b"", ServerError, "Service Unavailable", True),
        ("529 Overloaded", b'{"error":"overloaded"}', ServerError, "overloaded", True),
        ("500 No", b'data: {"error":{"message":"oh"}}\n\ndata: [DONE]\n\n', ServerError, r"^custom: oh \(", True),
        ("429 Slow", b'event: error\ndata: {"error":{"message":"pay","code":"insufficient_quota"}}',
         QuotaExceededError, "pay", False),
    ],
)  # fmt: skip
async def test_e7_status_errors(status: str, body: bytes, kind: type, message: str, retryable: bool) -> None:
    """A status that is not 2xx becomes its error, with the server's message, its id and its advice."""
    script = sends(answer(status, body, "x-request-id: req_9", "retry-after: 7"))
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises(kind, match=message) as caught:
            await provider.chat("Hello")
        error = caught.value
        assert (error.status_code, error.retryable) == (int(status[:3]), retryable)
        assert (error.request_id, error.retry_after, error.partial) == ("req_9", 7.0, None)
        assert "req_9" in str(error)
        await server.all_closed()


async def test_e8_endless_error_body_is_cut() -> None:
    """The body of an error status may never end: what is read of it is limited."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await peer.send(framed(b"no " * 1000))

    async with serving(script) as server, server.provider(limits={"error_body_bytes": 5000}) as provider:
        with pytest.raises(ServerError) as caught:
            await provider.chat("Hello")
        assert len(caught.value.body) <= 5000
        await server.all_closed()


async def test_n7_redirects_are_not_followed() -> None:
    """A redirect would carry the key to another host: it is refused, and said."""
    script = sends(answer("307 Temporary Redirect", b"", "Location: http://127.0.0.1:1/elsewhere"))
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises(StreamfoldError, match="redirects are not followed"):
            await provider.chat("Hello")


@each_row("content_type", ["text/plain", "Text/Event-Stream; charset=iso-8859-1", "application/x-odd", ""])
async def test_d17_content_type_does_not_matter(content_type: str) -> None:
    """What the body is shows in the body, also under a wrong, odd or missing content type; it is always UTF-8."""
    body = text("Grüße, 世界") + fin("stop") + DONE

    script = sends(answer("200 OK", body, *([f"Content-Type: {content_type}"] if content_type else [])))
    async with serving(script) as server, server.provider() as provider:
        assert (await provider.chat("Hello")).text == "Grüße, 世界"


async def test_d18_whole_completion_instead_of_a_stream() -> None:
    """A server that ignores `stream` is understood all the same."""
    message = {"role": "assistant", "content": "Hi", "tool_calls": [entry(None, "a", "f", "{}", type="function")]}
    body = json.dumps({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})

    script = sends(answer("200 OK", body.encode(), "Content-Type: application/json"))
    async with serving(script) as server, server.provider() as provider:
        reply = await provider.chat("Hello")
        assert (reply.text, reply.tool_calls) == ("Hi", [ToolCall("a", "f", {}, "{}")])


async def test_d20_login_page() -> None:
    """A web page under a 200 is an error that shows how it begins."""
    script = sends(answer("200 OK", b"<!doctype html><title>Log in</title>", "Content-Type: text/html"))
    async with serving(script) as server, server.provider() as provider:
        with pytest.raises(ProtocolError, match=r"web page.*Log in"):
            await provider.chat("Hello")


@pytest.mark.slow
async def test_l3_failed_attempts_are_repeated_before_the_first_chunk() -> None:
    """An error before anything was shown is retried, also one that comes inside a 200 (BerriAI/litellm#26067)."""
    answers = [
        answer("503 Service Unavailable", b"{}", "retry-after: 0"),
        answer(
            "200 OK", b'data: {"error":{"message":"overloaded","type":"overloaded_error"}}\n\n', "retry-after-ms: 0"
        ),
        answer("200 OK", text("Hi") + fin("stop") + DONE),
    ]

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(answers[len(peer.server.requests) - 1])

    async with serving(script) as server, server.provider(max_retries=2) as provider:
        assert (await provider.chat("Hello")).text == "Hi"
        assert len(server.requests) == 3


async def test_l1_nothing_is_repeated_after_the_first_chunk() -> None:
    """Text that was shown is never shown again: the error comes through."""
    script = sends(answer("200 OK", text("Hel") + b'data: {"error":{"message":"overloaded","code":503}}\n\n'))
    async with serving(script) as server, server.provider(max_retries=2) as provider:
        with pytest.raises(UpstreamError, match="overloaded") as caught:
            await provider.chat("Hello")
        assert caught.value.retryable
        assert len(server.requests) == 1


async def test_a_client_of_ones_own_is_used_and_not_closed() -> None:
    """`http_client` belongs to the caller."""
    async with serving(replying(text("Hi"), fin("stop"), DONE)) as server, httpx.AsyncClient() as client:
        config = {"base_url": server.base_url, "model": "m"}
        async with Provider.from_config(config, http_client=client) as provider:
            assert (await provider.chat("Hello")).text == "Hi"
        assert not client.is_closed


async def test_many_streams_at_once() -> None:
    """Streams of one provider do not disturb each other."""
    async with serving(replying(text("Hi"), CALL, fin("stop"), DONE)) as server, server.provider() as provider:
        texts = []

        async def ask() -> None:
            reply = await provider.chat("Hello")
            texts.append((reply.text, len(reply.tool_calls)))

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask)
        assert texts == [("Hi", 1)] * 50


async def test_aclose_while_waiting_for_a_retry() -> None:
    """Closing ends the wait before the next attempt at once, and nothing more is sent."""
    script = sends(answer("503 Service Unavailable", b"{}", "retry-after: 50"))
    async with serving(script) as server, server.provider(max_retries=3) as provider:
        stream = provider.chat_stream("Hello")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    assert [chunk async for chunk in stream] == []

                tasks.start_soon(read)
                while not server.requests:
                    await anyio.sleep(0.005)
                await anyio.sleep(0.05)
                await stream.aclose()
        assert len(server.requests) == 1


async def test_d21_compression_is_not_requested() -> None:
    """Proxies hold compressed streams back. `extra_headers` may ask for it: see `net/test_compression.py`."""
    script = sends(answer("200 OK", text("Hi") + fin("stop") + DONE))
    async with serving(script) as server, server.provider() as provider:
        await provider.chat("Hello")
        assert b"accept-encoding: identity" in server.requests[0].lower()


async def test_d24_headers_of_the_caller_are_left_alone() -> None:
    """What the caller passes in is not changed."""
    mine = {"X-Mine": "1"}
    async with serving(replying(text("Hi"), fin("stop"), DONE)) as server, server.provider() as provider:
        await provider.chat("Hello", extra_headers=mine)
    assert mine == {"X-Mine": "1"}


async def test_e10_exceptions_of_the_consumer_come_through() -> None:
    """What goes wrong in the caller's loop is neither swallowed nor taken for an error of the stream."""

    async def consume(provider: Provider) -> None:
        async with provider.chat_stream("Hello") as stream:
            async for _ in stream:
                raise KeyError("mine")

    async with serving(endless) as server, server.provider() as provider:
        with pytest.raises(KeyError, match="mine"):
            await consume(provider)
        await server.all_closed()
