"""The example of a cache: answers as recordings."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from folding import DONE, call, entry, event, fin, text
from streamfold import ConfigError, Provider, UpstreamError
from streamfold.recording import Recording

pytest.importorskip("cache", reason="the examples are not part of what is installed")

from cache import CacheTransport

ANSWER = text("Hi") + call(entry(0, "a", "f", '{"a": 1}')) + fin("tool_calls") + DONE


class Events(httpx.AsyncByteStream):
    """A body that comes event by event."""

    def __init__(self, body: bytes) -> None:
        self._pieces = iter([piece + b"\n\n" for piece in body.split(b"\n\n") if piece])

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


class Server:
    """Counts what it is asked."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies, self.asked = list(bodies), 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        body = self.bodies[min(self.asked, len(self.bodies)) - 1]
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Events(body))


def cached(folder: Path, server: Server) -> tuple[Provider, CacheTransport]:
    transport = CacheTransport(folder, httpx.MockTransport(server))
    config = {"base_url": "http://test/v1", "model": "m", "api_key": "sk-secret-key-1", "max_retries": 0}
    return Provider.from_config(config, http_client=httpx.AsyncClient(transport=transport)), transport


async def test_the_same_request_is_sent_once(tmp_path: Path) -> None:
    """The second answer comes from the file, chunk by chunk as the first one, in another process too."""
    server = Server(ANSWER)
    provider, transport = cached(tmp_path, server)
    first = await provider.chat("Hello", temperature=0)
    again = await provider.chat("Hello", temperature=0)
    other, _ = cached(tmp_path, server)
    async with other.chat_stream("Hello", temperature=0) as stream:
        assert [chunk.delta async for chunk in stream] == ["Hi", ""]
    assert first.tool_calls == again.tool_calls == stream.reply.tool_calls
    assert (server.asked, transport.hits, transport.misses) == (1, 1, 1)
    assert "sk-secret-key-1" not in "".join(file.read_text() for file in tmp_path.iterdir())
    (file,) = tmp_path.glob("*.sse")
    assert Recording.load(file.with_suffix("")).expect["text"] == "Hi"


async def test_another_request_is_another_answer(tmp_path: Path) -> None:
    """What differs in the body counts; the key that is sent does not."""
    server = Server(ANSWER)
    provider, _ = cached(tmp_path, server)
    for options in ({}, {"temperature": 1}, {"seed": 1}):
        await provider.chat("Hello", **options)  # type: ignore[arg-type]
    assert server.asked == 3


async def test_an_answer_that_failed_is_asked_for_again(tmp_path: Path) -> None:
    """Errors, and answers that were not read to their end, are not kept as answers."""
    server = Server(event({"error": {"message": "overloaded"}}), ANSWER, ANSWER)
    provider, transport = cached(tmp_path, server)
    with pytest.raises(UpstreamError):
        await provider.chat("Hello")
    async with provider.chat_stream("Hello") as stream:
        await anext(stream)
    assert (await provider.chat("Hello")).text == "Hi"
    assert (await provider.chat("Hello")).text == "Hi"
    assert (server.asked, transport.hits) == (3, 1)


async def test_a_folder_that_can_not_be_used(tmp_path: Path) -> None:
    """A mistake is an error where it is made."""
    (tmp_path / "file").write_text("")
    provider, _ = cached(tmp_path / "file" / "below", Server(ANSWER))
    with pytest.raises(ConfigError, match="recordings can't be saved"):
        await provider.chat("Hello")
