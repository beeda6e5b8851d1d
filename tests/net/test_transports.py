"""The transports: httpx by default, aiohttp and httpx2 where they are chosen, and no difference between them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import anyio.from_thread
import httpcore
import httpx
import pytest
import respx

from folding import DONE, fin, text
from servers import END, STREAM, Connection, Server, answer, framed, sends, sends_each, serving
from streamfold import (
    APIConnectionError,
    APIError,
    AuthenticationError,
    ConfigError,
    IncompleteStreamError,
    ProtocolError,
    Provider,
    __version__,
)
from streamfold.net import make_client
from tables import each_row

HI = text("Hi") + fin("stop") + DONE
Script = Callable[[Connection], Awaitable[None]]


async def hello(peer: Connection) -> None:
    """Answers one request after the other."""
    while True:
        await peer.request()
        await peer.send(STREAM, framed(HI), END)


async def sent_with(client: httpx.AsyncClient, url: str) -> str:
    """Which library sends the requests of a client: httpx's own transport tells of its steps, aiohttp does not."""
    steps: list[str] = []

    async def trace(step: str, info: dict[str, Any]) -> None:
        steps.append(step)

    await client.post(url, content=b"{}", extensions={"trace": trace, "timeout": {"connect": 5}})
    return "httpx" if steps else "aiohttp"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# --- which one -------------------------------------------------------------------------------------------------------


async def test_httpx_is_the_default() -> None:
    """Requests are sent by httpx, whatever else is installed."""
    async with serving(hello) as server, make_client() as client:
        assert await sent_with(client, server.base_url) == "httpx"


def test_aiohttp_on_uvloop() -> None:
    """aiohttp is chosen by name, and works on uvloop as well."""
    pytest.importorskip("uvloop")

    async def main() -> None:
        async with serving(hello) as server, make_client("aiohttp") as client:
            assert await sent_with(client, server.base_url) == "aiohttp"

    anyio.run(main, backend_options={"use_uvloop": True})


def test_without_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where aiohttp, or a package that it needs, is missing, the error names the extra."""
    monkeypatch.delitem(sys.modules, "streamfold.net.aiohttp_transport", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigError, match=r"streamfold\[aiohttp\]"):
        make_client("aiohttp")


async def test_clients_of_ours_say_who_they_are_and_keep_no_cookies() -> None:
    """A cookie that one answer sets isn't sent with the next request: it would be another user's."""
    script = sends_each(answer("200 OK", HI, "Set-Cookie: session=1; Path=/"))
    for transport in ("httpx", "httpx2"):
        async with serving(script) as server, server.provider(transport=transport) as provider:
            for _ in range(2):
                await provider.chat("Hello")
            for request in server.requests:
                assert f"user-agent: streamfold/{__version__}\r\n".encode() in request.lower()
                assert b"cookie:" not in request.lower()


@pytest.mark.one_loop
async def test_aiohttp_where_it_is_preferred(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The gateway and jobs send with aiohttp unless `transport` says otherwise, a SOCKS proxy is set, or HTTP/2 is."""
    url = "http://127.0.0.1:9/v1"
    for config, proxy, expected in (
        ({}, None, "aiohttp"),
        ({}, "http://127.0.0.1:9", "aiohttp"),
        ({"transport": "httpx"}, None, None),
        ({"http2": True}, None, "httpx: http2 = true"),
        ({}, "socks5://127.0.0.1:9", "httpx: the proxy is not an http:// one"),
    ):
        caplog.clear()
        with monkeypatch.context() as patch, caplog.at_level("INFO", "streamfold"):
            if proxy is not None:
                patch.setenv("ALL_PROXY", proxy)
            provider = Provider.from_config({"base_url": url, "model": "m", "max_retries": 0, **config})
            async with provider.prefer_aiohttp():
                with pytest.raises(APIConnectionError):
                    await provider.chat("Hello")
        said = [record.message for record in caplog.records if "sent with" in record.message]
        assert said == ([] if expected is None else [f"custom: requests are sent with {expected}"])


def test_an_aiohttp_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of the extra hold at run time too: another package may have brought another version."""
    for version in ("3.9.5", "4.0.1"):
        monkeypatch.setattr("aiohttp.__version__", version)
        with pytest.raises(ConfigError, match=f"needs aiohttp 3.14 or later and before 4, not {version}"):
            make_client("aiohttp")


@pytest.mark.one_loop
async def test_a_proxy_that_refuses_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't the provider that can't be reached."""

    async def refusing(peer: Connection) -> None:
        await peer.stream.receive()
        await peer.send(answer("407 Proxy Authentication Required", b""))

    for transport in ("httpx", "aiohttp", "httpx2"):
        async with serving(refusing) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"http://user:pass-word-1@127.0.0.1:{proxy.port}")
            config = {"base_url": "https://streamfold.test/v1", "model": "m", "max_retries": 0, "transport": transport}
            async with Provider.from_config(config) as provider:
                with pytest.raises(APIConnectionError, match=f"the proxy http://.*127.0.0.1:{proxy.port}") as caught:
                    await provider.chat("Hello")
            assert "pass-word-1" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


async def test_httpx_through_a_socks_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy of the environment is used, though aiohttp can't, and hosts in NO_PROXY are asked directly."""
    asked: list[bytes] = []

    async def socks(peer: Connection) -> None:
        asked.append(await peer.stream.receive())

    pytest.importorskip("socksio")
    async with serving(socks) as proxy, serving(hello) as server:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        config = {"model": "m", "max_retries": 0}
        async with Provider.from_config({**config, "base_url": "http://streamfold.test/v1"}) as provider:
            with pytest.raises(APIConnectionError):
                await provider.chat("Hello")
        async with Provider.from_config({**config, "base_url": server.base_url}) as provider:
            assert (await provider.chat("Hello")).text == "Hi"
    assert asked[0][:1] == b"\x05"


# --- mocks and tracing: packages that replace methods of httpx --------------------------------------------------------


async def test_requests_that_respx_mocks_are_not_sent() -> None:
    """Mocks work as they always did, also where the provider has sent requests before, and does so again after them."""
    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        assert (await provider.chat("Hello")).text == "Hi"
        for _ in range(2):
            with respx.mock as mocked:
                route = mocked.post(f"{server.base_url}/chat/completions")
                route.respond(content=text("mocked") + fin("stop") + DONE)
                assert (await provider.chat("Hello")).text == "mocked"
                assert route.called
            assert (await provider.chat("Hello")).text == "Hi"
        assert len(server.requests) == 3


async def test_a_request_that_respx_does_not_know_is_refused() -> None:
    """No request gets past the mocks to the network."""
    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        with respx.mock, pytest.raises(respx.models.AllMockedAssertionError):
            await provider.chat("Hello")
        assert server.connections == 0


async def test_respx_sees_every_request_of_a_gateway_around_a_provider() -> None:
    """The gateway sends with the provider's own transport, httpx, and nothing gets past the mocks."""
    gateway = pytest.importorskip("streamfold_gateway").gateway
    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        app = gateway({"main": provider})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            with respx.mock as mocked:
                route = mocked.post(f"{server.base_url}/chat/completions")
                route.respond(content=text("mocked") + fin("stop") + DONE)
                for path, members in (
                    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
                    ("/v1/responses", {"input": "Hi", "stream": True}),
                    ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}),
                ):
                    response = await client.post(path, json={"model": "main", **members})
                    assert (response.status_code, "mocked" in response.text) == (200, True)
                assert route.call_count == 3
        assert server.connections == 0


PATCHED = [
    (httpx.AsyncHTTPTransport, "handle_async_request"),  # pytest-httpx, OpenTelemetry
    (httpcore.AsyncConnectionPool, "handle_async_request"),  # respx, VCR.py
    (httpcore.AsyncHTTPConnection, "handle_async_request"),
]


@pytest.mark.parametrize(("kind", "name"), PATCHED, ids=lambda value: getattr(value, "__name__", None))
async def test_a_patched_transport_sees_every_request(kind: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wraps the methods that httpx sends with, to mock or to trace, sees what a provider sends."""
    original, seen = getattr(kind, name), []

    @wraps(original)  # which makes it look like the original
    async def watched(self: Any, request: Any) -> Any:
        seen.append(request)
        return await original(self, request)

    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        await provider.chat("Hello")
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, watched)
            assert (await provider.chat("Hello")).text == "Hi"
        assert len(seen) == 1
        await provider.chat("Hello")
        assert len(seen) == 1


async def test_a_transport_that_was_replaced_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that stands in for httpx's transport is asked, too."""
    monkeypatch.setattr(
        httpx, "AsyncHTTPTransport", lambda **_: httpx.MockTransport(lambda _: httpx.Response(200, content=HI))
    )
    async with Provider.from_config({"base_url": "http://streamfold.test/v1", "model": "m"}) as provider:
        assert (await provider.chat("Hello")).text == "Hi"


# --- no difference ---------------------------------------------------------------------------------------------------

TRANSPORTS = ["httpx", "aiohttp"]


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "path",
    ["/v1", "/%7Euser/a%2Fb+c/v1", "/v1?key=a%20b+c%2B&x", "/v1?q=%C3%A9&q=é"],
    ids=["plain", "path", "query", "é"],
)
async def test_the_same_bytes_are_sent(path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Request line, headers and body are the same, byte by byte: signatures are made of them."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heads = []
    async with serving(hello) as server:
        base_url = f"http://127.0.0.1:{server.port}{path}"
        for transport in TRANSPORTS:
            headers = {"X-Odd-Case": "a  b", "x-empty": ""}
            async with server.provider(base_url=base_url, headers=headers, transport=transport) as provider:
                await provider.chat("Grüße")
        heads = server.requests
    assert heads[0] == heads[1]


async def before(peer: Connection) -> None:
    """Closes the connection without a word."""


FAILURES = {
    "no answer": sends(),
    "no request": before,
    "garbage": sends(b"\x00\x01\x02\r\n\r\n"),
    "not HTTP": sends(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "half a head": sends(b"HTTP/1.1 200 OK\r\nContent-"),
    "half a body": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + text("Hi")),
    "chunks without an end": sends(STREAM, framed(text("Hi"))),
    "no status": sends(b"HTTP/1.1 OK\r\n\r\n"),
}


async def failures(script: Script) -> list[tuple[type, bool, str, str | None]]:
    """What a failure is over each transport: the error, whether a retry may help, its first words, and the text."""
    found = []
    for transport in (*TRANSPORTS, "httpx2"):
        async with serving(script) as server, server.provider(transport=transport) as provider:
            with anyio.fail_after(20), pytest.raises(APIError) as caught:
                await provider.chat("Hello")
            error: Any = caught.value
            assert len(server.requests) <= 1
            partial = None if error.partial is None else error.partial.text
            found.append((type(error), error.retryable, error.message.partition(":")[0], partial))
    return found


@pytest.mark.one_loop
@each_row("name", FAILURES)
async def test_the_same_errors(name: str) -> None:
    """What breaks is the same error, with the same partial answer, and as fit for a retry."""
    assert len(set(await failures(FAILURES[name]))) == 1


def length(stated: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: " + stated + b"\r\n\r\n" + text("Hi")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
HEADS = {
    "no HTTP": b"\x00\x01\x02\r\n\r\n",
    "TLS": b"\x15\x03\x03\x00\x02\x02(",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 1000 OK\r\n\r\n",
    "a blank line before": b"\r\n" + length(b"5"),
    "no colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "no name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "a space in a name": b"HTTP/1.1 200 OK\r\nx y: z\r\n\r\n",
    "NUL": b"HTTP/1.1 200 OK\r\nx: \0\r\n\r\n",
    "too long": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000 + b"\r\n\r\n",
    "a length that is no number": length(b"five"),
    "a negative length": length(b"-1"),
    "two lengths": length(b"5, 6"),
    "two fields with lengths": length(b"5\r\nContent-Length: 6"),
    "an unknown coding": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"\r\n",
    "chunked twice": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}
BODIES = {
    "chunk size": CHUNKED + b"\r\n" + framed(text("Hi")) + b"zz\r\n",
    "no chunk size": CHUNKED + b"\r\n" + framed(text("Hi")) + b"\r\n",
    "a negative chunk size": CHUNKED + b"\r\n" + framed(text("Hi")) + b"-5\r\n",
    "too large a chunk size": CHUNKED + b"\r\n" + framed(text("Hi")) + b"f" * 40 + b"\r\n",
    "trailer": CHUNKED + b"\r\n" + framed(text("Hi")) + b"0\r\nnonsense\r\n\r\n",
    "too long a length": length(b"5000"),
}


@pytest.mark.one_loop
@each_row(("name", "kind"), [*((name, "head") for name in HEADS), *((name, "body") for name in BODIES)])
async def test_malformed_responses(name: str, kind: str) -> None:
    """A head that is not HTTP is a ProtocolError; what is malformed behind it cuts the answer off."""
    if kind == "head":
        expected: tuple[Any, ...] = (ProtocolError, True, "the server sent a malformed response", "")
        assert set(await failures(sends(HEADS[name]))) == {expected}
    else:
        expected = (IncompleteStreamError, True, "the connection broke", "Hi")
        assert set(await failures(sends(BODIES[name]))) == {expected}


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\n" + CHUNKED.partition(b"\r\n")[2],
        b"Content-Length: %d\r\nContent-Length: %d\r\n" % (len(HI), len(HI)),
        b"Content-Length: %d, %d\r\n" % (len(HI), len(HI)),
    ],
    ids=["length and chunks", "two fields", "a list"],
)
async def test_a_length_that_is_stated_twice(head: bytes) -> None:
    """It is read if there is no doubt: chunks go before a length, and equal lengths are one."""
    body = framed(HI) + END if b"chunked" in head else HI
    for transport in (*TRANSPORTS, "httpx2"):
        script = sends(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)
        async with serving(script) as server, server.provider(transport=transport) as provider:
            assert (await provider.chat("Hello")).text == "Hi"


@pytest.mark.one_loop
async def test_an_error_whose_body_is_malformed() -> None:
    """The status counts."""
    script = sends(CHUNKED.replace(b"200 OK", b"401 Unauthorized") + b"\r\nzz\r\n")
    assert {(kind, retryable) for kind, retryable, _, _ in await failures(script)} == {(AuthenticationError, False)}


@pytest.mark.transports
@each_row("end", [b"", b"zz\r\n"], ids=["closed", "bad chunk"])
async def test_a_slow_reader_gets_what_came_before_the_connection_broke(end: bytes) -> None:
    """Text that arrived is not lost because the connection breaks before it is read."""
    go_on = anyio.Event()

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("one")))
        await go_on.wait()
        await peer.send(framed(text(" two")))
        await anyio.wait_all_tasks_blocked()
        await peer.send(end)

    async with serving(script) as server, server.provider() as provider:
        stream = provider.chat_stream("Hello")
        assert (await anext(stream)).delta == "one"
        go_on.set()
        await server.all_closed()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(IncompleteStreamError) as caught:
            async for _ in stream:
                pass
        assert caught.value.partial.text == "one two"


@pytest.mark.transports
async def test_a_reader_that_waits_is_told_of_a_bad_chunk() -> None:
    """What breaks HTTP's rules in the middle of an answer ends the wait for more of it at once."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("one")))
        await anyio.wait_all_tasks_blocked()
        await peer.send(b"zz\r\n")
        await peer.gone()

    async with serving(script) as server, server.provider() as provider:
        with anyio.fail_after(20), pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("Hello")
        assert caught.value.partial.text == "one"
        await server.all_closed()


@pytest.mark.one_loop
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_names_that_do_not_resolve(transport: str) -> None:
    """A host that does not exist is an error of the connection, which a retry may mend."""
    config = {"base_url": "http://streamfold.invalid/v1", "model": "m", "max_retries": 0, "transport": transport}
    async with Provider.from_config(config) as provider:
        with pytest.raises(APIConnectionError, match="no connection: ") as caught:
            await provider.chat("Hello")
    assert caught.value.retryable


@pytest.mark.one_loop
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_large_header_of_a_response(transport: str) -> None:
    """Headers of tens of kilobytes, as some proxies send them, are no error."""
    script = sends(answer("200 OK", HI, f"X-Policy: {'x' * 60_000}"))
    async with serving(script) as server, server.provider(transport=transport) as provider:
        assert (await provider.chat("Hello")).text == "Hi"


# --- connections that are kept ---------------------------------------------------------------------------------------


@asynccontextmanager
async def elsewhere(script: Script) -> AsyncIterator[Server]:
    """A server on an event loop of its own, in another thread."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(script)) as server,
    ):
        yield server


async def once(peer: Connection) -> None:
    """Answers once, says nothing of closing the connection, and closes it."""
    await peer.request()
    await peer.send(STREAM, framed(HI), END)


async def test_a_connection_that_was_closed_while_the_program_was_busy() -> None:
    """It is not used again, although the event loop had no time to see that the server has closed it."""
    async with elsewhere(once) as server, server.provider() as provider:
        for number in range(1, 4):
            assert (await provider.chat("Hello")).text == "Hi"
            while server.open:
                sleep(0.001)  # blocks the event loop
            sleep(0.01)
            assert server.connections == number


@pytest.mark.one_loop
async def test_a_server_that_closes_every_connection() -> None:
    """Many streams at once, each on a connection that the server closes after its answer: none of them notices."""
    async with serving(once) as server, server.provider() as provider:

        async def some() -> None:
            for _ in range(10):
                assert (await provider.chat("Hello")).text == "Hi"

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(some)
        assert len(server.requests) == 80


FORKED = """
import asyncio, os, sys
from streamfold import Provider

provider = Provider.from_config({"base_url": sys.argv[1], "model": "m", "max_retries": 0})

async def ask():
    return (await provider.chat("Hello")).text

assert asyncio.run(ask()) == "Hi"
child = os.fork()
said = asyncio.run(ask())
if child == 0:
    os._exit(0 if said == "Hi" else 1)
print(said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_a_process_that_was_forked() -> None:
    """Parent and child may both go on to use a provider: each makes connections of its own."""
    async with elsewhere(hello) as server:
        words = [sys.executable, "-W", "error", "-c", FORKED, server.base_url]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = await anyio.run_process(words, env=env, check=False)
    assert (run.stdout.split(), run.stderr) == ([b"Hi", b"0"], b"")
