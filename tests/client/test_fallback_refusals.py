"""What a refusal means for the models that come next: a longer window may help, another filter may not be asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from folding import DONE, event, fin, text
from servers import STREAM, Connection, Server, answer, framed, sends, sends_each, serving
from streamfold import (
    APIError,
    ChatModel,
    ContentFilterError,
    ContextLengthError,
    Fallback,
    ModelNotFoundError,
    Provider,
    QuotaExceededError,
    UnsupportedOptionError,
    run_tools,
)
from streamfold.middleware import Middleware
from streamfold.testing import ScriptedProvider, call, fail, say
from tables import each_row

GOOD = answer("200 OK", text("Hi") + fin("stop") + DONE)
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


@asynccontextmanager
async def refusing(message: str, code: str | None = None, status: int = 400) -> AsyncIterator[Server]:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()

    async with serving(sends_each(answer(f"{status} No", body))) as server:
        yield server


@asynccontextmanager
async def answering() -> AsyncIterator[Server]:
    async with serving(sends_each(GOOD)) as server:
        yield server


async def chat(model: ChatModel) -> str:
    return (await model.chat("Hello")).text


async def stream(model: ChatModel) -> str:
    return "".join([chunk.delta async for chunk in model.chat_stream("Hello")])


async def loop(model: ChatModel) -> str:
    run = run_tools(model, "Hello", [])
    return "".join([chunk.delta async for chunk in run])


def plain(*models: ChatModel) -> ChatModel:
    return Fallback(*models)


def wrapped(*models: ChatModel) -> ChatModel:
    """Each model in a middleware, and the whole in one."""
    return Middleware(Fallback(*map(Middleware, models)))


def nested(first: ChatModel, *others: ChatModel) -> ChatModel:
    return Fallback(Fallback(first), *others)


REFUSALS = [(ContextLengthError, True), (ModelNotFoundError, True), (QuotaExceededError, True),
            (ContentFilterError, False), (UnsupportedOptionError, False)]  # fmt: skip


@each_row("made", [plain, wrapped, nested])
@each_row("ask", [chat, stream, loop])
async def test_who_is_asked_after_which_refusal(
    made: Callable[..., ChatModel], ask: Callable[[ChatModel], Any]
) -> None:
    """The same for a whole answer, a stream and a loop over tools, in middleware, and for chains in chains."""
    for refusal, goes_on in REFUSALS:
        second = ScriptedProvider("Hi")
        model = made(ScriptedProvider(fail(refusal)), second)
        if goes_on:
            assert await ask(model) == "Hi"
        else:
            with pytest.raises(refusal):
                await ask(model)
        assert len(second.requests) == goes_on


async def test_a_filter_inside_a_stream() -> None:
    """Before any text too: what one provider does not want is not taken to another."""
    filtered = event({"error": {"message": "no", "code": "content_filter"}})

    second = ScriptedProvider("Hi", "Hi")
    async with serving(sends(STREAM, framed(filtered), b"0\r\n\r\n")) as server, server.provider() as first:
        with pytest.raises(ContentFilterError):
            await Fallback(first, second).chat("Hello")
        assert second.requests == []
        assert (await Fallback(first, second, on=[APIError]).chat("Hello")).text == "Hi"  # unless the caller says so


async def test_the_window_of_the_next_model() -> None:
    """One that is known to be too small is passed over; one that is larger, or unknown, is asked."""
    async with refusing(TOO_LONG, "context_length_exceeded") as first, answering() as others:

        def provider(name: str, tokens: int | None) -> Provider:
            models = [{"pattern": "*", "context_tokens": tokens}] if tokens else []
            return others.provider(name=name, models=models)

        small, large, unknown = provider("small", 8192), provider("large", 131072), provider("unknown", None)
        async with first.provider(name="first") as one, small, large, unknown:
            reply = await Fallback(one, small, large).chat("Hello")
            assert reply.text == "Hi"
            assert [(attempt.provider, attempt.error) for attempt in reply.attempts] == [
                ("first", "ContextLengthError"),
                ("small", None),
            ]
            assert reply.attempts[1].problem == "the prompt is too long for the model's context window of 8192 tokens"
            assert (await Fallback(one, unknown).chat("Hello")).text == "Hi"
            with pytest.raises(ContextLengthError) as caught:
                await Fallback(one, small).chat("Hello")
            assert (caught.value.tokens, caught.value.limit) == (9001, 8192)


async def test_a_prompt_that_is_too_long_gives_nobody_a_rest() -> None:
    """The next request may be shorter: the first model is asked again at once."""
    first = ScriptedProvider(fail(ContextLengthError), "First.")
    model = Fallback(first, ScriptedProvider("Second."))
    assert [(await model.chat("Hello")).text for _ in range(2)] == ["Second.", "First."]


async def test_each_candidate_gets_what_the_caller_wrote() -> None:
    """What one server has refused is sent to the next one, and the warnings are of the one that answered."""
    sent: list[dict[str, Any]] = []

    async def script(peer: Connection) -> None:
        while True:
            body = json.loads(await peer.request())
            sent.append(body)
            refused = b'{"error":{"message":"no","code":"unsupported_parameter","param":"seed"}}'
            busy = b'{"error":{"message":"busy"}}'
            await peer.send(answer("400 No", refused) if "seed" in body else answer("503 Busy", busy))

    async def other(peer: Connection) -> None:
        while True:
            sent.append(json.loads(await peer.request()))
            await peer.send(GOOD)

    async with serving(script) as one, serving(other) as two:
        model = Fallback(one.provider(name="one"), two.provider(name="two"))
        reply = await model.chat("Hello", seed=7, temperature=0.2)
        await model.aclose()
    assert [(body.get("seed"), body["temperature"]) for body in sent] == [(7, 0.2), (None, 0.2), (7, 0.2)]
    assert (reply.text, reply.warnings) == ("Hi", [])
    assert [attempt.error for attempt in reply.attempts] == ["UnsupportedOptionError", "ServerError"]


async def test_tools_do_not_run_again_for_a_longer_window() -> None:
    """A loop whose prompt grows too long goes on with the next model, and no call of it is repeated."""
    ran: list[str] = []

    async def weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        return "warm"

    first = ScriptedProvider([call("weather", city="Oslo")], fail(ContextLengthError))
    run = run_tools(Fallback(first, ScriptedProvider([say("It is warm.")])), "Warm?", [weather])
    assert "".join([chunk.delta async for chunk in run]) == "It is warm."
    assert ran == ["Oslo"]
