"""Proxies of the environment: both transports use them, and NO_PROXY is kept to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

import servers
from folding import DONE, fin, text
from servers import Connection, answer, serving
from streamfold import APIConnectionError, ConfigError, Provider

pytestmark = pytest.mark.transports


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def hello(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("200 OK", text("Hi") + fin("stop") + DONE))


@dataclass
class Proxy:
    """What a proxy was asked for: the first lines of requests."""

    url: str
    asked: list[str] = field(default_factory=list)


@asynccontextmanager
async def proxying() -> AsyncIterator[Proxy]:
    """A proxy that takes CONNECT and whole URLs, and goes to loopback whatever the name of the host."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    proxy = Proxy(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}")

    async def handle(client: ByteStream) -> None:
        async with client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await client.receive()
            line = head.split(b"\r\n")[0].decode()
            proxy.asked.append(line)
            method, target, _ = line.split()
            host = target if method == "CONNECT" else target.split("/")[2]
            async with await anyio.connect_tcp("127.0.0.1", int(host.rpartition(":")[2])) as server:
                if method == "CONNECT":
                    await client.send(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    await server.send(head)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(copy, client, server, tasks.cancel_scope)
                    tasks.start_soon(copy, server, client, tasks.cancel_scope)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield proxy
        tasks.cancel_scope.cancel()


async def copy(source: ByteStream, target: ByteStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await target.send(await source.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()


def provider_at(url: str) -> Provider:
    return Provider.from_config({"base_url": url, "model": "m", "max_retries": 0, "transport": servers.transport})


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
async def test_n6_http_proxy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for an http URL goes to the proxy, which gets the whole of it."""
    async with proxying() as proxy, serving(hello) as server:
        monkeypatch.setenv(name, proxy.url)
        async with provider_at(f"http://streamfold.test:{server.port}/v1") as provider:
            assert (await provider.chat("Hello")).text == "Hi"
        assert proxy.asked == [f"POST http://streamfold.test:{server.port}/v1/chat/completions HTTP/1.1"]


async def test_a_secret_in_the_url_goes_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not shown is sent all the same."""
    monkeypatch.setenv("GATEWAY_TENANT", "tenant-canary")
    async with proxying() as proxy, serving(hello) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with provider_at(f"http://streamfold.test:{server.port}/${{GATEWAY_TENANT}}/v1") as provider:
            assert (await provider.chat("Hello")).text == "Hi"
        assert "/tenant-canary/v1/chat/completions " in proxy.asked[0]


async def test_n6_https_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an https URL the proxy is asked for a tunnel. What is behind it here speaks no TLS, and that is told."""

    async def plain(peer: Connection) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with proxying() as proxy, serving(plain) as server:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with provider_at(f"https://streamfold.test:{server.port}/v1") as provider:
            with pytest.raises(APIConnectionError, match="no connection"):
                await provider.chat("Hello")
        assert proxy.asked == [f"CONNECT streamfold.test:{server.port} HTTP/1.1"]
        await server.all_closed()


@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "example.com,127.0.0.1", "*"])
async def test_n6_no_proxy(no_proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is excepted is asked directly."""
    async with proxying() as proxy, serving(hello) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", no_proxy)
        async with server.provider() as provider:
            assert (await provider.chat("Hello")).text == "Hi"
        assert proxy.asked == []


async def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not gone round: the error is that of a connection that could not be made."""
    async with serving(hello) as server:
        async with serving(hello) as gone:
            pass
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{gone.port}")
        async with provider_at(f"http://streamfold.test:{server.port}/v1") as provider:
            with pytest.raises(APIConnectionError, match="no connection") as caught:
                await provider.chat("Hello")
        assert caught.value.retryable
        assert server.connections == 0


WITHOUT_SOCKSIO = """
import sys
sys.modules["socksio"] = None
import anyio
from streamfold import ConfigError, Provider

async def main():
    provider = Provider.from_config({"base_url": "http://streamfold.test/v1", "model": "m"})
    try:
        await provider.chat("Hello")
    except ConfigError as error:
        print(error)

anyio.run(main)
"""


@pytest.mark.slow
def test_socks_needs_its_extra() -> None:
    """A SOCKS proxy in the environment, and no package for it: the error names the extra."""
    env = {**os.environ, "ALL_PROXY": "socks5://127.0.0.1:9", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_SOCKSIO], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert "streamfold[socks]" in run.stdout


@pytest.mark.parametrize("name", ["ALL_PROXY", "HTTP_PROXY"])
async def test_n6_proxies_that_aiohttp_does_not_know(
    name: str, monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str
) -> None:
    """They are refused with what is taken, where aiohttp was asked for."""
    monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    allowed = "supports http:// proxies only" if anyio_backend_name == "asyncio" else "needs asyncio"
    async with Provider.from_config({"base_url": "http://a.test/v1", "model": "m", "transport": "aiohttp"}) as provider:
        with pytest.raises(ConfigError, match=allowed):
            await provider.chat("Hello")
