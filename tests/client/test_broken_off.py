"""What is in the partial answer of an error has been in a chunk, on every way from a provider to the caller."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from streamfold import (
    APIError,
    APITimeoutError,
    ChatModel,
    ChatStream,
    Fallback,
    IncompleteStreamError,
    Provider,
    StreamError,
    Tool,
    sync,
)
from streamfold.middleware import Middleware
from tables import each_row

TOOLS = [Tool("search", "", {"type": "object", "properties": {}})]


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "a", "choices": [choice]}).encode() + b"\n\n"


END = chunk("stop") + b"data: [DONE]\n\n"
TEXT = [chunk(reasoning_content="Hm. "), *(chunk(content=text) for text in ("You must ", "not <", "delete ")), END]
WHOLE = b"".join(TEXT)
CONFIG: dict[str, Any] = {"profile": "vllm", "max_retries": 0, "api_key": "k", "model": "m", "dialect": "hermes"}


@asynccontextmanager
async def provider(*bodies: bytes, **config: Any) -> AsyncIterator[Provider]:
    """A provider whose answers are these bodies."""
    left = list(bodies)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=left.pop(0), headers={"content-type": "text/event-stream"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        yield Provider.from_config({**CONFIG, **config}, http_client=client)


async def read(stream: ChatStream, before: tuple[str, str] = ("", "")) -> tuple[str, str, APIError | None]:
    """The text and the reasoning of the chunks, and the error; both are those of the reply, whole or partial.

    Where nothing was shown, because the request may be sent again, the partial answer has what came all the same.
    """
    text, reasoning = before
    error: APIError | None = None
    try:
        async for part in stream:
            text, reasoning = text + part.delta, reasoning + part.reasoning
    except APIError as failed:
        error = failed
    told = error.partial if error else stream.reply
    assert told is not None
    assert (told.text, told.reasoning) == (text, reasoning) or (error and not (text or reasoning))
    return text, reasoning, error


def ask(model: ChatModel, **options: Any) -> ChatStream:
    return model.chat_stream("?", TOOLS, **options)


class Shout(Middleware):
    """Changes what is shown, and keeps a chunk back."""

    async def change_chunks(self, chunks: Any, request: Any) -> Any:
        kept = None
        async for part in chunks:
            if kept is not None:
                yield kept
            part.delta = part.delta.upper()
            kept = part
        if kept is not None:
            yield kept

    async def change_reply(self, reply: Any, request: Any) -> Any:
        reply.text = reply.text.upper()
        return reply


@each_row("way", [lambda model: model, Fallback, Middleware, Shout, lambda model: Middleware(Fallback(model))])
@each_row("coalesce", [False, True])
async def test_an_answer_that_is_cut_anywhere(way: Any, coalesce: bool) -> None:
    """The chunks before the error say what its partial answer says; `chat()` raises the same."""
    rng = Random(7)
    for at in sorted({len(WHOLE) - len(END) - 2, len(WHOLE) - len(END) - 1, *rng.sample(range(1, len(WHOLE)), 25)}):
        async with provider(WHOLE[:at], WHOLE[:at]) as model:
            asked = way(model)
            _, _, error = await read(ask(asked, coalesce=coalesce, partial_tool_calls=rng.random() < 0.5))
            if error is not None and way is not Shout:  # which of its chunks it keeps depends on how they are cut
                with pytest.raises(StreamError) as raised:
                    await asked.chat("?", TOOLS)
                assert raised.value.partial == error.partial


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_the_last_event_without_its_blank_line(end: bytes) -> None:
    """All of its text is shown before the error is raised, also what a dialect held back."""
    async with provider(b"".join(TEXT[:3])[:-2] + end) as model:
        text, reasoning, error = await read(ask(model))
    assert (text, reasoning) == ("You must not <", "Hm. ")
    assert isinstance(error, StreamError)


@pytest.mark.slow
async def test_text_of_an_attempt_that_is_repeated() -> None:
    """Nothing was shown of an answer whose only event has no blank line: the request is sent again, or fails empty."""
    half = chunk(content="Half")[:-1]
    async with provider(half, WHOLE, max_retries=1) as model:
        assert (await read(ask(model)))[0] == "You must not <delete "
    async with provider(half) as model:
        text, _, error = await read(ask(model))
        assert text == ""
        assert isinstance(error, StreamError)
    async with provider(half) as model, provider(WHOLE) as other:
        assert (await read(ask(Fallback(model, other))))[0] == "You must not <delete "


class Breaks(httpx.AsyncByteStream):
    """A body that breaks off, or stops."""

    def __init__(self, *, stops: bool) -> None:
        self._stops = stops

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield TEXT[1]
        yield TEXT[2][:-1]
        if self._stops:
            await anyio.sleep_forever()
        raise httpx.ReadError("reset")


@pytest.mark.parametrize(("stops", "kind"), [(False, IncompleteStreamError), (True, APITimeoutError)])
async def test_a_broken_connection(stops: bool, kind: type[APIError]) -> None:
    """The rest of the text comes before a timeout or a reset as well, and the error keeps its class."""
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Breaks(stops=stops), headers=headers))
    async with httpx.AsyncClient(transport=transport) as client:
        model = Provider.from_config(CONFIG, http_client=client, timeouts={"read": 0.05})
        text, _, error = await read(ask(model))
    assert text == "You must not <"
    assert type(error) is kind


@pytest.mark.parametrize("echo", [False, True])
async def test_resumed(echo: bool) -> None:
    """What was shown, and what is shown of the rest, are the text of the reply; also where the rest echoes the text."""
    rng = Random(3)
    config: dict[str, Any] = {"profile": "mistral"} if echo else {}
    first = b"".join(TEXT[:3])
    rest = [chunk(reasoning_content="So. "), chunk(content="delete "), chunk(content="it.")]
    for cut in (len(first) - 2, len(first) - 1, len(first), len(first) - 3):
        for end in (b"", END):
            pieces = [chunk(content="You must "), *rest] if echo else rng.sample(rest, 3)
            body = b"".join(pieces) + end
            async with provider(first[:cut], body[: len(body) - (not end)], **config) as model:
                text, reasoning, error = await read(ask(model))
                assert error is not None
                more = await read(error.resume(), before=(text, reasoning))
                assert isinstance(more[2], StreamError) is (not end)


def test_without_async() -> None:
    """The chunks of a synchronous stream say it, too."""
    kind = {"content-type": "text/event-stream"}
    body = WHOLE[: -len(END) - 1]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body, headers=kind))
    shown: list[str] = []
    with sync.Provider(Provider.from_config(CONFIG, http_client=httpx.AsyncClient(transport=transport))) as model:
        stream = model.chat_stream("?", TOOLS)
        with pytest.raises(StreamError) as raised:
            shown.extend(part.delta for part in stream)
    assert raised.value.partial is not None
    assert raised.value.partial.text == "".join(shown) == "You must not <delete "
