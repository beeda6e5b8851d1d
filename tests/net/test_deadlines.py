"""Deadlines of the caller and of ours that run out together: each ends what it should, and nothing is left over."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle, islice, product
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx
import pytest
from anyio.streams.tls import TLSStream

import scale
from folding import DONE, fin, text
from http2_servers import begun, whole
from http2_servers import serving as serving_http2
from servers import STREAM, Connection, answer, certificate, falls_silent, framed, serving
from streamfold import APITimeoutError, Provider, turn_cache
from streamfold.net.timeouts_and_cancellation import Interrupted, make_steps
from streamfold.stores import StoreError, ThreadedCalls, persistent, threaded
from streamfold.stores.persistent import WriteBehindStore
from tables import each_row

SECONDS = 0.06
WHOLE = answer("200 OK", text("whole") + fin("stop") + DONE)

pytestmark = pytest.mark.one_loop


# --- mixtures --------------------------------------------------------------------------------------------------------

Ask = Callable[[], Awaitable[Any]]


async def by_fail_after(ask: Ask, seconds: float) -> None:
    with anyio.fail_after(seconds):
        await ask()


async def by_timeout(ask: Ask, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await ask()


async def by_wait_for(ask: Ask, seconds: float) -> None:
    await asyncio.wait_for(ask(), seconds)


async def by_timeout_in_fail_after(ask: Ask, seconds: float) -> None:
    with anyio.fail_after(seconds + 0.0005):
        async with asyncio.timeout(seconds):
            await ask()


async def by_fail_after_in_wait_for(ask: Ask, seconds: float) -> None:
    await asyncio.wait_for(by_fail_after(ask, seconds), seconds)


async def by_ours_alone(ask: Ask, seconds: float) -> None:
    await ask()


CALLERS = [
    by_fail_after, by_timeout, by_wait_for, by_timeout_in_fail_after, by_fail_after_in_wait_for, by_ours_alone,
]  # fmt: skip


@asynccontextmanager
async def no_answer_to_connect() -> AsyncIterator[int]:
    """A port at which an attempt to connect waits: its queue is full."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    held = [listening, *(socket.socket() for _ in range(8))]
    for one in held[1:]:
        one.setblocking(False)
        one.connect_ex(listening.getsockname())
    try:
        yield listening.getsockname()[1]
    finally:
        for one in held:
            one.close()


async def hangs(peer: Connection) -> None:
    """Says nothing at all, nor does TLS."""
    await peer.gone()


async def before_the_head(peer: Connection) -> None:
    while b"first" in await peer.request():
        await peer.send(WHOLE)
    await peer.gone()


async def reading(peer: Connection) -> None:
    while b"first" in await peer.request():
        await peer.send(WHOLE)
    await peer.send(STREAM, framed(text("Hel")))
    await peer.gone()


class Hanging(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield text("Hel")
        await asyncio.sleep(60)


async def mocked_before_the_head(request: httpx.Request) -> httpx.Response:
    await asyncio.sleep(60)
    raise AssertionError


async def mocked_reading(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Hanging())


async def app(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(60)


def configured(port: int, scheme: str = "http", **config: Any) -> Provider:
    base = {"base_url": f"{scheme}://127.0.0.1:{port}/v1", "model": "m", "max_retries": 0}
    return Provider.from_config({**base, **config})


@asynccontextmanager
async def setting(way: str, phase: str, folder: Path) -> AsyncIterator[Provider]:
    """A provider over one way to a server that hangs in one phase; in the end the server has seen all of it close."""
    transport, _, secure = way.partition("+")
    async with AsyncExitStack() as stack:
        if transport in ("mock", "asgi"):
            handler = mocked_reading if phase == "reading" else mocked_before_the_head
            made: httpx.AsyncBaseTransport = httpx.MockTransport(handler)
            client = httpx.AsyncClient(transport=made if transport == "mock" else httpx.ASGITransport(app))
            await stack.enter_async_context(client)
            config = {"base_url": "http://streamfold.test/v1", "model": "m", "max_retries": 0}
            yield Provider.from_config(config, http_client=client)
            return
        if phase == "connecting" and not secure:
            port = await stack.enter_async_context(no_answer_to_connect())
            yield await stack.enter_async_context(configured(port, transport=transport))
            return
        if transport == "http2":

            async def silent(peer: Any, stream_id: int) -> None:
                if stream_id == 1:
                    await whole(peer, stream_id)
                elif phase == "reading":
                    await begun(peer, stream_id)

            server: Any = await stack.enter_async_context(serving_http2(silent))
            async with server.provider() as provider:
                await provider.chat("first")  # the others share its connection
                yield provider
        else:
            script = {"connecting": hangs, "before the head": before_the_head, "reading": reading}[phase]
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")

            async def over_tls(peer: Connection) -> None:
                peer.stream = await TLSStream.wrap(
                    peer.stream, server_side=True, ssl_context=context, standard_compatible=False
                )
                await script(peer)

            server = await stack.enter_async_context(serving(over_tls if secure and phase != "connecting" else script))
            scheme = "https" if secure else "http"
            async with configured(server.port, scheme, transport=transport, timeouts={"connect": None}) as provider:
                yield provider
        with anyio.fail_after(10):
            while server.open:
                await anyio.sleep(0.005)


TRANSPORTS = ("httpx", "httpx+TLS", "aiohttp", "aiohttp+TLS")
SETTINGS = [
    *product(TRANSPORTS, ("connecting", "before the head", "reading")),
    ("http2", "before the head"), ("http2", "reading"),
    ("mock", "before the head"), ("mock", "reading"), ("asgi", "before the head"),
]  # fmt: skip


OURS: dict[str, list[dict[str, float]]] = {  # a short answer is read with one of these timeouts
    "connecting": [{"total": SECONDS}, {"first_event": SECONDS}],
    "before the head": [{"total": SECONDS}, {"first_event": SECONDS}],
    "reading": [{"read": SECONDS}, {"stall": SECONDS}, {"read": SECONDS, "stall": SECONDS}],
}


@pytest.mark.slow
@each_row(("way", "phase"), SETTINGS)
async def test_deadlines_that_run_out_together(
    way: str, phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller gets a timeout, its own or ours, and never a cancellation; its task is as before, nothing is open."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path)))
    rng, seen, noise = Random(way + phase), Counter[tuple[str, int, str | None]](), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))

    async def one(provider: Provider, reused: bool, caller: Any, timeouts: dict[str, float]) -> None:
        outcome, partial = "an answer", None
        if reused:
            await provider.chat("first", timeouts={"connect": None})
        stream = provider.chat_stream("Hello", timeouts=timeouts)
        if phase == "reading":
            await anext(stream)

        async def rest() -> None:
            async for _ in stream:
                pass

        try:
            await caller(rest, SECONDS + rng.uniform(-0.003, 0.003))
        except APITimeoutError as error:
            outcome, partial = "ours", error.partial
        except BaseException as error:
            outcome = type(error).__name__
        await stream.aclose()
        task = asyncio.current_task()
        seen[outcome, task.cancelling() if task else -1, partial.text if partial else None] += 1

    number = scale.pick(12_000, 200) // len(SETTINGS) + 1
    chosen = list(islice(cycle(product(CALLERS, OURS[phase])), number))
    for batch in (chosen[at : at + 40] for at in range(0, number, 40)):
        async with setting(way, phase, tmp_path) as provider:
            can_reuse = way in TRANSPORTS and phase != "connecting"
            await asyncio.gather(
                *(one(provider, can_reuse and place % 2 == 0, *mixture) for place, mixture in enumerate(batch))
            )
            assert [task for task in asyncio.all_tasks() if task.get_name() == "streamfold"] == []
    gc.collect()
    expected = {("TimeoutError", 0, None), ("ours", 0, "Hel" if phase == "reading" else None)}
    assert (set(seen) - expected, noise, seen.total()) == (set(), [], number)


# --- what has arrived ------------------------------------------------------------------------------------------------


@each_row("transport", ["httpx", "aiohttp", "httpx2"])
async def test_bytes_of_the_last_turn_are_in_the_partial_answer(transport: str) -> None:
    """What arrives in the same turn of the event loop as the deadline is read before the timeout is raised."""
    peers: list[Connection] = []

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(text("Hel")))
        peers.append(peer)
        await peer.gone()

    async with (
        serving(script) as server,
        server.provider(transport=transport, timeouts={"read": 0.2}) as provider,
    ):
        stream = provider.chat_stream("Hello")
        assert (await anext(stream)).delta == "Hel"

        async def read() -> str:
            with pytest.raises(APITimeoutError) as caught:
                async for _ in stream:
                    pass
            assert caught.value.partial is not None
            return caught.value.partial.text

        reading = asyncio.create_task(read())
        await anyio.wait_all_tasks_blocked()
        raw = peers[0].stream.extra(anyio.abc.SocketAttribute.raw_socket)
        copy = socket.fromfd(raw.fileno(), raw.family, raw.type)
        with copy:
            copy.send(framed(text("lo"), text("!")))
        time.sleep(0.3)  # the event loop finds the bytes and the timeout at once
        assert await reading == "Hello!"
        await server.all_closed()


async def test_an_end_behind_the_deadline_is_a_timeout() -> None:
    """A body without a length that our own timer has ended isn't taken for one that the server has ended."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    for transport in ("httpx", "aiohttp", "httpx2"):

        async def script(peer: Connection) -> None:
            await peer.request()
            await peer.send(head + text("Hel"))
            await peer.gone()

        async with (
            serving(script) as server,
            server.provider(transport=transport, timeouts={"read": 0.05}) as provider,
        ):
            with pytest.raises(APITimeoutError) as caught:
                await provider.chat("Hello")
            assert (caught.value.phase, caught.value.partial and caught.value.partial.text) == ("read", "Hel")
            await server.all_closed()


# --- closing from another task ---------------------------------------------------------------------------------------


@each_row("phase", ["connecting", "before the head", "reading"])
@each_row("way", ["httpx", "aiohttp", "http2", "mock", "asgi"])
async def test_closed_by_another_task(way: str, phase: str, tmp_path: Path) -> None:
    """`aclose` ends the iteration of the task that waits, in each phase, and nothing is open when it returns."""
    if (way, phase) not in SETTINGS:
        pytest.skip("this way doesn't have this phase")
    certificate(tmp_path)
    async with setting(way, phase, tmp_path) as provider:
        stream = provider.chat_stream("Hello")
        chunks: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                chunks.append(chunk.delta)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await stream.aclose()
        await asyncio.wait_for(reading, 5)
        assert [task for task in asyncio.all_tasks() if task.get_name() == "streamfold"] == []


# --- steps -----------------------------------------------------------------------------------------------------------


async def test_a_step_that_is_cancelled_by_its_caller_ends_before_the_caller_goes_on() -> None:
    """However often the caller is cancelled meanwhile, the step is cancelled once, and has ended."""
    loop, cancelled = asyncio.get_running_loop(), 0

    async def step() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled += 1
            await asyncio.sleep(0.02)  # a second cancellation would end this
            cancelled += 10
            raise

    task = asyncio.create_task(make_steps(loop).run(step, float("inf")))
    await anyio.wait_all_tasks_blocked()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == 11


async def test_a_result_that_comes_with_the_deadline_is_returned() -> None:
    """A step that ends in the turn in which its deadline passes isn't interrupted, and one that fails then is."""
    steps = make_steps(asyncio.get_running_loop())

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done"
        raise AssertionError

    async def failing() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise httpx.ReadError("closed") from None

    assert await steps.run(stubborn, 0.0) == "done"
    with pytest.raises(Interrupted):
        await steps.run(failing, 0.0)


class HangingStore:
    """A store that fails once, and never answers again."""

    name, failed = "hanging", False

    async def put(self, *_: Any, **__: Any) -> bool:
        if self.failed:
            await asyncio.sleep(60)
        self.failed = True
        raise StoreError("it failed")

    async def aclose(self) -> None:
        pass


@each_row("who", ["a store", "a store that is closed", "the turn cache", "a request", "an answer"])
async def test_no_deadline_of_ours_cancels_the_task_of_a_caller(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs out, nothing calls `cancel` of the task that waits for it."""
    for module, name in ((threaded, "PATIENCE"), (persistent, "PATIENCE"), (turn_cache, "_STORE_TIMEOUT")):
        monkeypatch.setattr(module, name, 0.05)
    cancelled, over = [], threading.Event()

    class Watched(asyncio.Task[Any]):
        def cancel(self, msg: Any = None) -> bool:
            cancelled.append(msg)
            return super().cancel(msg)

    async def from_server(*sent: bytes) -> None:
        async with (
            serving(falls_silent(*sent)) as server,
            server.provider(timeouts={"first_event": 0.05, "read": 0.05}) as provider,
        ):
            with pytest.raises(APITimeoutError):
                await Watched(provider.chat("Hello"), loop=asyncio.get_running_loop())

    async def of_the_turn_cache() -> None:
        warning = await turn_cache._within(asyncio.sleep(60), "read")
        assert warning is not None
        assert "TimeoutError" in warning.detail

    async def of_a_store() -> None:
        with pytest.raises(StoreError, match="did not answer within"):
            await ThreadedCalls("store", lambda: (OSError,)).ask(over.wait)

    async def of_a_store_that_is_closed() -> None:
        store = WriteBehindStore(HangingStore())
        await store.put("", {"a": b"1"})
        await store.aclose()

    match who:
        case "a request":
            await from_server()
        case "an answer":
            await from_server(STREAM, framed(text("Hel")))
        case _:
            waits = {
                "a store": of_a_store, "a store that is closed": of_a_store_that_is_closed,
                "the turn cache": of_the_turn_cache,
            }[who]  # fmt: skip
            await Watched(waits(), loop=asyncio.get_running_loop())
    over.set()
    assert cancelled == []
