"""httpcore's connections without its pool: what is sent without httpx's objects, and what becomes of connections."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import respx
from anyio.streams.tls import TLSStream

from folding import DONE, fin, text
from servers import Connection, answer, certificate, sends, serving
from streamfold import APIConnectionError, APIError, APITimeoutError
from streamfold.net import make_client

HI = answer("200 OK", text("Hi") + fin("stop") + DONE)
DONE_WITH = {"Accept": "a/b"}


async def hello(peer: Connection) -> None:
    while True:
        await peer.request()
        await peer.send(HI)


async def test_no_objects_of_httpx_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usual request needs none; while the log or a mock wants to see it, it is sent as httpx sends it."""
    made: list[Any] = []
    original = httpx.Response.__init__

    def counted(self: httpx.Response, *args: Any, **options: Any) -> None:
        made.append(self)
        original(self, *args, **options)

    monkeypatch.setattr(httpx.Response, "__init__", counted)
    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        for _ in range(3):
            assert (await provider.chat("Hello")).text == "Hi"
        assert (made, server.connections) == ([], 1)
        monkeypatch.setattr(logging.getLogger("httpx"), "level", logging.INFO)
        logging.getLogger("httpx").manager._clear_cache()  # type: ignore[attr-defined]
        assert (await provider.chat("Hello")).text == "Hi"
        assert len(made) == 1
    logging.getLogger("httpx").manager._clear_cache()  # type: ignore[attr-defined]


async def test_a_mock_gets_the_requests() -> None:
    """Also on asyncio, where `transport` says httpx, and after requests that were sent."""
    async with serving(hello) as server, server.provider(transport="httpx") as provider:
        assert (await provider.chat("Hello")).text == "Hi"
        with respx.mock as mocked:
            mocked.post(f"{server.base_url}/chat/completions").respond(content=text("mocked") + fin("stop") + DONE)
            assert (await provider.chat("Hello")).text == "mocked"
        assert (await provider.chat("Hello")).text == "Hi"
        assert len(server.requests) == 2


async def test_two_servers_and_one_client() -> None:
    """Each request reaches its own server, whichever the last connection led to."""
    async with serving(hello) as one, serving(hello) as other, make_client("httpx") as client:
        for server in (one, other, other, one):
            got = await client.receive("POST", server.base_url, DONE_WITH, b"{}", 5)  # type: ignore[attr-defined]
            assert b"".join([piece async for piece in got.body]) == HI.partition(b"\r\n\r\n")[2]
            await got.aclose()
            await got.aclose()
        assert (len(one.requests), len(other.requests), other.connections) == (2, 2, 1)
        assert one.open + other.open == 1


async def test_given_up_at_every_turn_of_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far a request has come when it is cancelled, in TLS too: its connection does not stay open."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate(tmp_path), tmp_path / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))

    async def script(peer: Connection) -> None:
        peer.stream = await TLSStream.wrap(
            peer.stream, server_side=True, ssl_context=context, standard_compatible=False
        )
        await hello(peer)

    async with serving(script) as server:
        server.base_url = server.base_url.replace("http:", "https:")
        async with server.provider(transport="httpx") as provider:
            for turns in range(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(provider.chat, "Hello")
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
            assert (await provider.chat("Hello")).text == "Hi"
            with anyio.fail_after(5):
                while server.open > 1:
                    await anyio.sleep(0.005)


async def test_what_httpcore_raises_is_httpx_s() -> None:
    """Whoever looks at the cause of an error finds the exception of httpx, in the head and in the body."""
    for script, kind in (
        (sends(), httpx.RemoteProtocolError),
        (sends(HI[: HI.index(b"Hi") + 1]), httpx.RemoteProtocolError),
    ):
        async with serving(script) as server, server.provider(transport="httpx") as provider:
            with pytest.raises(APIError) as caught:
                await provider.chat("Hello")
            causes = [type(caught.value.__cause__), type(getattr(caught.value.__cause__, "__cause__", None))]
            assert kind in causes
    async with server.provider(transport="httpx") as provider:
        with pytest.raises(APIConnectionError) as refused:
            await provider.chat("Hello")
        assert isinstance(refused.value.__cause__, httpx.ConnectError)


async def test_a_handshake_that_does_not_end() -> None:
    """It is a timeout of the connection, which is closed then."""

    async def mute(peer: Connection) -> None:
        await peer.gone()

    async with serving(mute) as server:
        server.base_url = server.base_url.replace("http:", "https:")
        async with server.provider(transport="httpx", timeouts={"connect": 0.2}) as provider:
            with pytest.raises(APITimeoutError) as caught:
                await provider.chat("Hello")
            assert caught.value.phase == "connect"
            await server.all_closed()
