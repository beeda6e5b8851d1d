"""Chunks by read: what arrived together is one chunk, unless a caller wants one for each event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx

from answering_provider import provider
from folding import DONE, call, chunk, entry, fin, text
from streamfold import Fallback, StreamChunk
from streamfold.middleware import Middleware
from tables import each_row

READS = [
    text("Hel") + text("lo") + text(","),
    chunk({"reasoning_content": "h"}) + chunk({"reasoning_content": "m"}) + text(" wor") + text("ld"),
    text("!"),
    fin("stop") + DONE,
]
TOGETHER = ["Hello,", "hm", " world", "!", ""]
EACH = ["Hel", "lo", ",", "h", "m", " wor", "ld", "!", ""]


def client(reads: Iterable[bytes] = READS) -> httpx.AsyncClient:
    async def body() -> AsyncIterator[bytes]:
        for read in reads:
            yield read

    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body())))


def said(chunks: Iterable[StreamChunk]) -> list[str]:
    return [chunk.delta or chunk.reasoning for chunk in chunks]


async def test_text_that_arrived_together_is_one_chunk() -> None:
    """By default: text and reasoning apart, in their order, and the finished chunk alone."""
    async with client() as http_client:
        chunks = [chunk async for chunk in provider(http_client).chat_stream("Hi")]
    assert said(chunks) == TOGETHER
    assert [chunk.finished for chunk in chunks] == [False] * 4 + [True]


@each_row("given", ["setting", "option", "option over setting"])
async def test_a_chunk_for_each_event(given: str) -> None:
    """`coalesce=False`, as a setting of the provider or for one request; the option wins."""
    config = {"coalesce": given == "option over setting"} if "setting" in given else {}
    options: Any = {"coalesce": False} if "option" in given else {}
    async with client() as http_client:
        chunks = [chunk async for chunk in provider(http_client, **config).chat_stream("Hi", **options)]
        assert said(chunks) == EACH
    async with client() as http_client:
        model = provider(http_client, coalesce=False)
        assert said([chunk async for chunk in model.chat_stream("Hi", coalesce=True)]) == TOGETHER
    async with client() as http_client:
        assert (await provider(http_client).chat("Hi", **options)).text == "Hello, world!"


async def test_models_that_wrap_others_hand_the_option_on() -> None:
    """Fallback and middleware."""
    for wrapped in (Fallback, Middleware):
        for options, expected in (({}, TOGETHER), ({"coalesce": False}, EACH)):
            async with client() as http_client:
                stream = wrapped(provider(http_client)).chat_stream("Hi", **options)  # type: ignore[arg-type]
                assert said([chunk async for chunk in stream]) == expected


async def test_pieces_of_calls_are_not_joined() -> None:
    """With `partial_tool_calls` each of them is still a chunk, and the call is whole at the end."""
    pieces = [call(entry(0, "c", "f", "")), *(call(entry(0, arguments=piece)) for piece in ('{"a"', ": ", "1}"))]
    async with client([b"".join(pieces) + text("a") + text("b"), fin("tool_calls") + DONE]) as http_client:
        chunks = [chunk async for chunk in provider(http_client).chat_stream("Hi", partial_tool_calls=True)]
    grown = [chunk.details.call for chunk in chunks if chunk.details and chunk.details.call]
    assert [call.text for call in grown] == ["", '{"a"', ": ", "1}"]
    assert [chunk.delta for chunk in chunks if chunk.delta] == ["ab"]
    assert [(made.name, made.arguments) for made in chunks[-1].tool_calls or ()] == [("f", {"a": 1})]


async def test_a_stream_says_whether_more_has_arrived() -> None:
    """`ready` is true while further chunks of the same read wait, and false where the next one must be waited for."""
    async with client() as http_client, provider(http_client).chat_stream("Hi") as stream:
        assert [(said([chunk])[0], stream.ready) async for chunk in stream] == [
            ("Hello,", False), ("hm", True), (" world", False), ("!", False), ("", False)
        ]  # fmt: skip
