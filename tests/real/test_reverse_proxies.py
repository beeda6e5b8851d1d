"""Real reverse proxies between us and a server that says exactly what a test wants, or llama.cpp's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from proxies import CONFIGS, program, proxying

import servers
from folding import DONE, call, entry, event, fin, fragments, text
from servers import END, STREAM, Connection, answer, certificate, falls_silent, framed, sends, serving
from streamfold import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    IncompleteStreamError,
    Provider,
    RateLimitError,
    ServerError,
    Tool,
)

if not any(map(program, CONFIGS)):
    pytest.skip("no reverse proxy is there: nox -s servers", allow_module_level=True)

pytestmark = [pytest.mark.transports, pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")]

F = Tool("f", "", {"type": "object", "properties": {"x": {"type": "integer"}}})
CALLS = fragments('0 a f {"x"', '1 b f {"x":2', "0 - - :1}")
ITEM = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f"}


def responses(kind: str, **members: Any) -> bytes:
    return event({"type": f"response.{kind}", **members})


# Text, and a call whose arguments are whole as far as anybody can see.
BEGUN = {
    "chat": text("Hel") + call(entry(0, "a", "f", '{"x":1}')),
    "responses": responses("output_text.delta", output_index=0, delta="Hel")
    + responses("output_item.added", output_index=1, item=ITEM)
    + responses("function_call_arguments.delta", output_index=1, delta='{"x":1}'),
}


@pytest.fixture(params=CONFIGS)
def kind(request: pytest.FixtureRequest, started: set[str]) -> str:
    """A proxy that is there."""
    if program(request.param) is None:
        pytest.skip(f"STREAMFOLD_{request.param.upper()} names no {request.param}: nox -s servers")
    started.add(request.param)
    return str(request.param)


@asynccontextmanager
async def behind(kind: str, script: Callable[[Connection], Awaitable[None]], folder: Path, **options: Any) -> Any:
    """A server, and a provider that reaches it through a proxy."""
    timeout = options.pop("timeout", 30)
    async with serving(script) as server, proxying(kind, server.port, folder, timeout=timeout) as base_url:
        yield server, server.provider(base_url=base_url, **options)


async def test_text_and_calls(kind: str, tmp_path: Path) -> None:
    """Text arrives while the server has more to say, and calls are whole, with those that came mixed."""
    seen = anyio.Event()

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("Grü")))
        await seen.wait()
        await peer.send(framed(text("ße"), CALLS, call(entry(1, arguments="}")), fin("tool_calls"), DONE), END)
        await peer.gone()  # Caddy loses the rest, now and then, of a server that hangs up at once

    async with behind(kind, script, tmp_path) as (_, provider), provider:
        with anyio.fail_after(20):
            async with provider.chat_stream("Hello", [F]) as stream:
                async for chunk in stream:
                    if chunk.delta == "Grü":
                        seen.set()
    assert stream.reply.text == "Grüße"
    assert [(made.id, made.arguments) for made in stream.reply.tool_calls] == [("a", {"x": 1}), ("b", {"x": 2})]
    assert stream.reply.request_id == "req_1"


async def test_compressed(kind: str, tmp_path: Path) -> None:
    """Compression, which we ask for only where a caller does, changes nothing but when things arrive."""
    script = falls_silent(
        STREAM, framed(text("Grüße"), CALLS, call(entry(1, arguments="}")), fin("tool_calls"), DONE), END
    )
    packed: list[str] = []

    async def note(response: httpx.Response) -> None:
        packed.append(response.headers["content-encoding"])

    async with (
        serving(script) as server,
        proxying(kind, server.port, tmp_path) as base_url,
        httpx.AsyncClient(event_hooks={"response": [note]}) as client,
    ):
        provider = Provider.from_config({"base_url": base_url, "model": "m"}, http_client=client)
        reply = await provider.chat("Hello", [F], extra_headers={"Accept-Encoding": "gzip"})
    assert packed == ["gzip"]
    assert (reply.text, [made.arguments for made in reply.tool_calls]) == ("Grüße", [{"x": 1}, {"x": 2}])


@pytest.mark.parametrize("gzip", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("api", BEGUN)
async def test_a_server_that_breaks_off(kind: str, api: str, gzip: bool, tmp_path: Path) -> None:
    """Whether the proxy breaks off too or makes a clean end of it: never a finished reply, and never a call."""
    script = sends(STREAM, framed(BEGUN[api]), b"ff\r\ndata: ")
    async with behind(kind, script, tmp_path, adapter=api) as (_, provider), provider:
        options = {"extra_headers": {"Accept-Encoding": "gzip"}} if gzip else {}
        with pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("Hello", [F], **options)
    error = caught.value
    assert error.partial is not None
    assert error.partial.text in (["Hel", ""] if gzip else ["Hel"])  # compression holds things back
    assert (error.partial.tool_calls, error.retryable) == ([], True)


async def test_a_server_that_is_silent(kind: str, tmp_path: Path) -> None:
    """Before the answer the proxy's own page is a ServerError; in the middle of it the answer is incomplete."""

    async def script(peer: Connection) -> None:
        if b"late" not in await peer.request():
            await peer.send(STREAM, framed(BEGUN["chat"]))
        await peer.gone()

    async with behind(kind, script, tmp_path, timeout=1) as (_, provider), provider:
        with pytest.raises(ServerError) as page:
            await provider.chat("late", [F])
        with pytest.raises(IncompleteStreamError) as broken:
            await provider.chat("Hello", [F])
    assert (page.value.status_code, page.value.retryable) == (504, True)
    assert page.value.message.startswith("Gateway Time") or "504" in page.value.message
    assert "<" not in page.value.message
    assert broken.value.partial is not None
    assert (broken.value.partial.text, broken.value.partial.tool_calls) == ("Hel", [])


@pytest.mark.parametrize("how", ["is gone", "hangs up", "nonsense"])
async def test_a_server_that_gives_no_answer(kind: str, how: str, tmp_path: Path) -> None:
    """A page of the proxy's own with 502 or 503, which is worth another try; nginx hands nonsense on as it is."""

    async def script(peer: Connection) -> None:
        await peer.request()
        if how == "nonsense":
            await peer.send(b"HTTP/1.1 200 OK\r\nwhat?\r\n\r\n")

    async with serving(script) as gone:
        pass
    async with serving(script) as server:
        port = gone.port if how == "is gone" else server.port
        async with proxying(kind, port, tmp_path) as base_url, server.provider(base_url=base_url) as provider:
            with pytest.raises(APIError) as caught:
                await provider.chat("Hello")
    error = caught.value
    if not (isinstance(error, APIConnectionError) and how == "nonsense"):
        assert isinstance(error, ServerError)
        assert error.status_code in (502, 503)
    assert error.retryable
    assert "<" not in error.message


async def test_statuses_of_the_server(kind: str, tmp_path: Path) -> None:
    """They come through with the server's words and its retry-after."""
    says = {
        b"key": answer("401 Unauthorized", b'{"error":{"message":"no such key"}}'),
        b"fast": answer("429 Too Many Requests", b'{"error":{"message":"slower"}}', "retry-after: 7"),
        b"broken": answer("500 Internal Server Error", b'{"error":{"message":"oh no"}}'),
    }

    async def script(peer: Connection) -> None:
        while True:
            body = await peer.request()
            await peer.send(next(said for word, said in says.items() if word in body))

    async with behind(kind, script, tmp_path) as (_, provider), provider:
        with pytest.raises(AuthenticationError, match="no such key"):
            await provider.chat("key")
        with pytest.raises(RateLimitError, match="slower") as slower:
            await provider.chat("fast")
        with pytest.raises(ServerError, match="oh no"):
            await provider.chat("broken")
    assert slower.value.retry_after == 7


async def test_a_request_that_is_too_large(kind: str, tmp_path: Path) -> None:
    """nginx takes a megabyte, says so before it has heard more, and is heard; the others have no such limit."""
    script = sends(answer("200 OK", text("Hi") + fin("stop") + DONE))
    async with behind(kind, script, tmp_path) as (server, provider), provider:
        if kind != "nginx":
            assert (await provider.chat("x" * 2**23)).text == "Hi"
            return
        with pytest.raises(BadRequestError, match="413 Request Entity Too Large") as caught:
            await provider.chat("x" * 2**23)
        assert caught.value.status_code == 413
        assert server.requests == []
        assert (await provider.chat("Hello")).text == "Hi"


@pytest.mark.parametrize("how", ["leave", "cancel", "clock"])
async def test_leaving(kind: str, how: str, tmp_path: Path) -> None:
    """However a stream is left, the server behind the proxy sees its connection close, at the latest when it writes.

    HAProxy takes a client that closes for one that has said all, until there is something to be sent to it.
    """

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("one")))
        while True:
            await peer.send(framed(b": still there\n\n"))
            await anyio.sleep(0.01)

    clocks = {"stall": 0.1} if how == "clock" else {}
    async with behind(kind, script, tmp_path, timeouts=clocks) as (server, provider), provider:
        if how == "leave":
            async with provider.chat_stream("Hello") as stream:
                await anext(stream)
        elif how == "cancel":
            async with anyio.create_task_group() as tasks:
                async for _ in provider.chat_stream("Hello"):
                    tasks.cancel_scope.cancel()
        else:
            with pytest.raises(APITimeoutError) as caught:
                await provider.chat("Hello")
            assert caught.value.phase == "stall"
        assert len(server.requests) == 1
        await server.all_closed()


@pytest.mark.parametrize("how", ["whole", "broken"])
async def test_http2(kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS and HTTP/2: ten answers at once on one connection; one that breaks off is incomplete."""

    async def script(peer: Connection) -> None:
        while True:
            await peer.request()
            await peer.send(STREAM, framed(BEGUN["chat"]))
            if how == "broken":
                return
            await peer.send(framed(fin("tool_calls"), DONE), END)

    replies = []

    async def ask(provider: Provider) -> None:
        replies.append(await provider.chat("Hello", [F]))

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path)))
    async with (
        serving(script) as server,
        proxying(kind, server.port, tmp_path, tls=True) as base_url,
        server.provider(base_url=base_url, transport="httpx", http2=True) as provider,
    ):
        if how == "broken":
            with pytest.raises(IncompleteStreamError) as caught:
                await provider.chat("Hello", [F])
            assert caught.value.partial is not None
            assert (caught.value.partial.text, caught.value.partial.tool_calls) == ("Hel", [])
            return
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask, provider)
    assert [(reply.text, [made.arguments for made in reply.tool_calls]) for reply in replies] == [
        ("Hel", [{"x": 1}])
    ] * 10


async def test_before_aimock(kind: str, aimock: str, tmp_path: Path) -> None:
    """Two calls of a real server, and a call that is cut off behind the proxy."""
    upstream = int(aimock.rpartition(":")[2].removesuffix("/v1"))
    async with proxying(kind, upstream, tmp_path) as base_url:
        config = {"base_url": base_url, "model": "o3-mini", "api_key": "unused", "max_retries": 0}
        async with Provider.from_config({**config, "transport": servers.transport}) as provider:
            reply = await provider.chat("two calls", [F])
            assert [made.arguments for made in reply.tool_calls] == [{"zone": "utc"}, {"zone": "local — 現地"}]
            with pytest.raises(IncompleteStreamError) as caught:
                await provider.chat("cut off", [F])
            assert caught.value.partial is not None
            assert caught.value.partial.tool_calls == []


async def test_before_llamacpp(kind: str, llamacpp: str, tmp_path: Path) -> None:
    """A real server behind a real proxy: text and a call."""
    upstream = int(llamacpp.rpartition(":")[2].removesuffix("/v1"))
    async with proxying(kind, upstream, tmp_path) as base_url:
        config = {"base_url": base_url, "model": "tiny", "transport": servers.transport}
        async with Provider.from_config(config) as provider:
            async with provider.chat_stream("hello", max_output_tokens=40) as stream:
                deltas = [chunk.delta async for chunk in stream]
            assert "".join(deltas) == stream.reply.text != ""
            reply = await provider.chat("now", [F], tool_choice="required", max_output_tokens=1500)
            assert all(made.error is None for made in reply.tool_calls)
            assert reply.tool_calls
