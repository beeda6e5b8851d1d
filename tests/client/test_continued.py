"""`error.resume()`: an answer that broke off goes on behind its text, with providers that continue one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from streamfold import APIError, ChatStream, Provider, StreamError, StreamfoldError, UpstreamError, sync
from tables import each_row

TEXT = "The quick brown fox jumps over the lazy dog."


def chunk(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"id": "a", "choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def words(text: str) -> list[bytes]:
    pieces = text.split(" ")
    return [chunk(content=piece if at == 0 else f" {piece}") for at, piece in enumerate(pieces)]


END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}\n\ndata: [DONE]\n\n'
)


@asynccontextmanager
async def provider(*bodies: bytes, **config: Any) -> AsyncIterator[tuple[Provider, list[dict[str, Any]]]]:
    """A provider whose answers are these bodies, and the requests that it got."""
    sent: list[dict[str, Any]] = []
    left = list(bodies)

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, content=left.pop(0), headers={"content-type": "text/event-stream"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        given = {"max_retries": 0, "api_key": "k", "model": "m", **config}
        yield Provider.from_config(given, http_client=client), sent


KIMI = {"profile": "kimi", "model": "kimi-k2.6"}
MISTRAL = {"profile": "mistral"}
VLLM = {"profile": "vllm"}


async def broken(stream: ChatStream) -> tuple[str, StreamError]:
    """What was shown of an answer before it broke off, and its error."""
    shown = ""
    try:
        async for part in stream:
            shown += part.delta
    except StreamError as error:
        return shown, error
    raise AssertionError("it did not break off")


@each_row(
    ("config", "marked", "members"),
    [
        (KIMI, {"partial": True}, {}),
        (MISTRAL, {"prefix": True}, {}),
        (VLLM, {}, {"continue_final_message": True, "add_generation_prompt": False}),
    ],
    ids=["kimi", "mistral", "vllm"],
)
@each_row("cut", [1, 4, 8])
async def test_the_rest_of_the_text(config: Any, marked: Any, members: Any, cut: int) -> None:
    """What was shown and what comes are the whole text, and so is the reply."""
    all_words = words(TEXT)
    first, rest = all_words[:cut], all_words[cut:]
    bodies = b"".join([chunk(reasoning_content="Hm."), *first]), b"".join([*rest, END])
    async with provider(*bodies, **config) as (model, sent):
        shown, error = await broken(model.chat_stream("Go on."))
        async with error.resume() as stream:
            async for part in stream:
                shown += part.delta
    assert shown == stream.reply.text == TEXT
    assert stream.reply.reasoning == "Hm."
    assert stream.reply.finish_reason == "stop"
    last = sent[1]["messages"][-1]
    assert (last["role"], last["content"]) == ("assistant", error.partial and error.partial.text)
    assert marked.items() <= last.items()
    assert members.items() <= sent[1].items()
    assert "partial" not in sent[0]["messages"][-1]


async def test_again_and_again() -> None:
    """The error of a continuation has all that arrived, and can be resumed itself."""
    all_words = words(TEXT)
    bodies = [b"".join(all_words[at : at + 3]) for at in (0, 3, 6)]
    bodies[-1] += END
    async with provider(*bodies, **KIMI) as (model, sent):
        shown, error = await broken(model.chat_stream("Go on."))
        more, error = await broken(error.resume())
        assert error.partial is not None
        assert error.partial.text == "The quick brown fox jumps over"
        shown += more
        async for part in (stream := error.resume()):
            shown += part.delta
    assert shown == stream.reply.text == TEXT
    assert [len(body["messages"]) for body in sent] == [1, 2, 2]


@pytest.mark.parametrize("split", [True, False], ids=["word by word", "in one piece"])
async def test_an_echo_is_not_shown_again(split: bool) -> None:
    """Behind a `prefix` a server may say the text once more: it is left out."""
    again = words(TEXT) if split else [chunk(content=TEXT)]
    async with provider(b"".join(words(TEXT)[:4]), b"".join([*again, END]), **MISTRAL) as (model, _):
        shown, error = await broken(model.chat_stream("Go on."))
        async for part in (stream := error.resume()):
            shown += part.delta
    assert shown == stream.reply.text == TEXT


async def test_what_only_looks_like_an_echo() -> None:
    """Text that begins like the prefix and goes on otherwise is all shown."""
    async with provider(b"".join(words("a b c")), b"".join([*words("a b d"), END]), **MISTRAL) as (model, _):
        shown, error = await broken(model.chat_stream("Go on."))
        async for part in (stream := error.resume()):
            shown += part.delta
    assert shown == stream.reply.text == "a b ca b d"


CALL = chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a'}}])
OTHER = {"base_url": "http://x/v1", "name": "other"}


@each_row(
    ("body", "config", "message"),
    [
        (b"".join([*words("One"), CALL]), KIMI, r"a tool call had begun \(look\)"),
        (chunk(reasoning_content="Hm."), KIMI, "no text had arrived"),
        (chunk(refusal="No."), KIMI, "the model refused"),
        (b"".join(words("One two")), OTHER, 'provider "other" can\'t continue a text'),
        (b"".join(words("One two")), {"profile": "openai"}, 'provider "openai" can\'t continue a text'),
    ],
    ids=["a call", "reasoning alone", "a refusal", "no such API", "openai"],
)
async def test_what_can_not_be_continued(body: bytes, config: dict[str, Any], message: str) -> None:
    """The error says why, and that the request is to be sent again; nothing is sent."""
    async with provider(body, **config) as (model, sent):
        _, error = await broken(model.chat_stream("Go on."))
        with pytest.raises(StreamfoldError, match=message):
            error.resume()
    assert len(sent) == 1


def test_synchronous_code() -> None:
    """There the rest is a stream of the same kind."""
    bodies = [b"".join(words(TEXT)[:4]), b"".join([*words(TEXT)[4:], END])]
    answers = [httpx.Response(200, content=body, headers={"content-type": "text/event-stream"}) for body in bodies]
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answers.pop(0)))
    with sync.Provider.from_config({**KIMI, "api_key": "k", "max_retries": 0}, http_client=client) as model:
        shown = ""
        try:
            for part in model.chat_stream("Go on."):
                shown += part.delta
        except StreamError as error:
            with error.resume() as stream:
                shown += "".join(part.delta for part in stream)
    assert shown == stream.reply.text == TEXT


async def test_an_answer_that_never_began() -> None:
    """There is nothing to continue."""
    async with provider(b'data: {"error": {"message": "overloaded"}}\n\n', **KIMI) as (model, _):
        with pytest.raises(UpstreamError) as failed:
            await model.chat("Hi")
        with pytest.raises(StreamfoldError, match="no text had arrived"):
            failed.value.resume()
    with pytest.raises(StreamfoldError, match="no part of the answer had arrived"):
        APIError("of somebody else").resume()
