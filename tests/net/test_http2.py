"""Answers over HTTP/2, where many share one connection: each ends for itself, and a connection that ends, ends well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from folding import DONE, fin, text
from http2_servers import Peer, begun, serving, whole
from streamfold import APIConnectionError, ConfigError, IncompleteStreamError, Provider, ServerError
from streamfold.client import Backoff, retry_backoff
from streamfold.net import http_client_and_proxies
from streamfold.net.http_client_and_proxies import make_client
from tables import each_row


async def test_text_and_calls() -> None:
    """An answer is what it is over HTTP/1.1, and many share one connection."""
    async with serving(whole) as server, server.provider() as provider:
        replies = []

        async def ask() -> None:
            replies.append(await provider.chat("Hello"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
        assert [(reply.text, [made.arguments for made in reply.tool_calls]) for reply in replies] == [
            ("Hi", [{"x": 1}])
        ] * 10
        assert server.connections == 1


async def goaway(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    peer.h2.close_connection(last_stream_id=stream_id)
    await peer.flush()
    await peer.stream.aclose()


async def goaway_before(peer: Peer, stream_id: int) -> None:
    """The answer has begun, and the connection says that it never took the request."""
    await begun(peer, stream_id)
    peer.h2.close_connection(last_stream_id=0, error_code=11)
    await peer.flush()
    await peer.stream.aclose()


async def reset(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    peer.h2.reset_stream(stream_id, error_code=2)
    await peer.flush()


async def hung_up(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    await peer.stream.aclose()


async def garbage(peer: Peer, stream_id: int) -> None:
    await begun(peer, stream_id)
    await peer.send(b"\xff" * 64)
    await peer.stream.aclose()


@each_row("answer", [goaway, goaway_before, reset, hung_up, garbage], ids=lambda answer: answer.__name__)
async def test_k14_broken_off(answer: Callable[[Peer, int], Awaitable[None]]) -> None:
    """However HTTP/2 breaks off in the middle of an answer: the error of ours, with the text so far and no call."""
    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("Hello")
        error = caught.value
        assert error.partial is not None
        assert (error.partial.text, error.partial.tool_calls, error.retryable) == ("Hel", [], True)
        assert error.request_id == "req_1"
        assert isinstance(error.__cause__, APIConnectionError)


@each_row("how", ["reset", "hang up", "goaway", "garbage"])
async def test_k14_broken_before_the_answer(how: str) -> None:
    """Before the head of the answer it is a lost connection, which is tried again."""

    async def answer(peer: Peer, stream_id: int) -> None:
        if len(peer.server.requests) > 1:
            await whole(peer, stream_id)
        elif how == "reset":
            peer.h2.reset_stream(stream_id, error_code=7)
            await peer.flush()
        else:
            if how == "goaway":
                peer.h2.close_connection(error_code=2)
                await peer.flush()
            elif how == "garbage":
                await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await peer.stream.aclose()

    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(APIConnectionError, match="no connection") as caught:
            await provider.chat("Hello")
        assert caught.value.retryable
        assert (await provider.chat("Hello")).text == "Hi"


async def test_error_status() -> None:
    """A status over HTTP/2, which has no reason phrase."""

    async def answer(peer: Peer, stream_id: int) -> None:
        await peer.head(stream_id, "503")
        await peer.data(stream_id, b"", end=True)

    async with serving(answer) as server, server.provider() as provider:
        with pytest.raises(ServerError, match=r"Service Unavailable \(HTTP 503\)"):
            await provider.chat("Hello")


@each_row("how", ["break", "cancel", "aclose"])
async def test_a_stream_that_ends_early_leaves_the_others_alone(how: str) -> None:
    """Ending one answer ends neither the connection nor the answers beside it."""
    go_on = anyio.Event()

    async def answer(peer: Peer, stream_id: int) -> None:
        if len(peer.server.requests) > 2:
            await whole(peer, stream_id)
            return
        await begun(peer, stream_id)
        if stream_id == 3:  # the second one
            await go_on.wait()
            await peer.data(stream_id, text("lo") + fin("stop") + DONE, end=True)

    async with serving(answer) as server, server.provider() as provider:
        first, second = provider.chat_stream("Hello"), provider.chat_stream("Hello")
        assert (await anext(first)).delta == "Hel"
        assert (await anext(second)).delta == "Hel"
        if how == "cancel":
            with anyio.move_on_after(0.05):
                await anext(first)
        await first.aclose()
        go_on.set()
        with anyio.fail_after(10):
            assert "".join([chunk.delta async for chunk in second]) == "lo"
            assert (await provider.chat("Hello")).text == "Hi"
        assert (server.connections, server.open) == (1, 1)


@pytest.mark.slow
def test_a_connection_whose_first_request_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far it had come: the next request is answered, and nothing stays open."""
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))

    async def main() -> None:
        async with serving(whole) as server:
            for turns in range(0, 150, 7):
                async with server.provider(max_retries=1) as provider:
                    task = asyncio.create_task(provider.chat("Hello"))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
                    with anyio.fail_after(10):
                        assert (await provider.chat("Hello")).text == "Hi"
            with anyio.fail_after(10):
                while server.open:
                    await asyncio.sleep(0.005)

    asyncio.run(main())


@each_row("given_up", ["the one that opens", "one that waits", "two", "all but one"])
async def test_requests_that_wait_for_one_connection(given_up: str) -> None:
    """Some of them are cancelled before it is open: the others are answered, and nothing stays open.

    httpcore may close the connection that the others wait for; their requests were not sent, so they are sent again.
    """
    cancelled = {"the one that opens": [0], "one that waits": [1], "two": [0, 2], "all but one": range(4)}[given_up]
    for turns in range(8):
        async with serving(whole) as server, server.provider(max_retries=2) as provider:
            scopes, replies = [anyio.CancelScope() for _ in range(5)], []

            async def ask(scope: anyio.CancelScope, provider: Provider = provider, replies: Any = replies) -> None:
                with scope:
                    replies.append((await provider.chat("Hello")).text)

            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    for scope in scopes:
                        tasks.start_soon(ask, scope)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    for place in cancelled:
                        scopes[place].cancel()
                assert len(replies) >= 5 - len(cancelled)
                assert (await provider.chat("Hello")).text == "Hi"
        with anyio.fail_after(5):
            while server.open:
                await anyio.sleep(0.005)


async def test_the_key_reaches_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """`http2 = true` makes a client that offers it, and without the extra the error names it."""
    made: list[object] = []
    plain = httpx.AsyncHTTPTransport

    def transport(*, http2: bool = False, **options: Any) -> httpx.AsyncHTTPTransport:
        made.append(http2)
        return plain(http2=http2, **options)

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", transport)
    for http2 in (True, False):
        config = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_retries": 0, "http2": http2}
        async with Provider.from_config(config) as provider:
            with pytest.raises(APIConnectionError):
                await provider.chat("Hello")
    assert made == [True, False]

    monkeypatch.setattr(http_client_and_proxies, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"http2 = true needs the extra: pip install 'streamfold\[http2\]'"):
        make_client(http2=True)
