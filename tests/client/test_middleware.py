"""Middleware: around a request, its chunks and its reply; a mask, a hedge, and output that is asked for again."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import streamfold.sync
from scale import examples
from streamfold import (
    APIError,
    ChatModel,
    ConfigError,
    Fallback,
    Hooks,
    IncompleteStreamError,
    InvalidReplyError,
    Provider,
    Reply,
    ServerError,
    StreamChunk,
    extract,
    run_tools,
    system,
)
from streamfold.middleware import Hedge, Mask, Middleware
from streamfold.middleware.mask import _Held
from streamfold.requests import Request
from streamfold.testing import ScriptedProvider, call, fail, pause, refuse, say, think

pytestmark = pytest.mark.anyio


class Loud(Middleware):
    """Shouts, and asks to be loud."""

    async def change_request(self, request: Request) -> Request:
        return replace(request, messages=(system("Be loud."), *request.messages))

    async def change_chunks(self, chunks: AsyncIterator[StreamChunk], request: Request) -> AsyncIterator[StreamChunk]:
        async for chunk in chunks:
            chunk.delta = chunk.delta.upper()
            yield chunk

    async def change_reply(self, reply: Reply, request: Request) -> Reply:
        return replace(reply, text=reply.text.upper())


async def test_request_chunks_and_reply() -> None:
    """Each of the three can be changed; everything else is the model's own."""
    script = ScriptedProvider(["Hel", "lo", call("f", a=1)])
    async with Loud(script) as model, model.chat_stream("Hi", temperature=0.5) as stream:
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.delta for chunk in chunks) == stream.reply.text == "HELLO"
    assert [one.arguments for one in chunks[-1].tool_calls or ()] == [{"a": 1}]
    assert [message.role for message in script.requests[0].messages] == ["system", "user"]
    assert script.requests[0].body["temperature"] == 0.5
    assert model.name == "scripted"


async def test_it_goes_wherever_a_model_goes() -> None:
    """Stacked, in a fallback, with tools, and in synchronous code."""
    broken, script = ScriptedProvider(then=fail(500)), ScriptedProvider(call("f"), "done")
    model = Loud(Fallback(Middleware(broken), Loud(script)))

    async def f() -> str:
        return "result"

    assert (await run_tools(model, "Hi", [f])).text == "DONE"

    def ask() -> str:
        with streamfold.sync.Provider(Loud(ScriptedProvider("hello"))) as provider:
            return provider.chat("Hi").text

    assert await anyio.to_thread.run_sync(ask) == "HELLO"


async def test_what_it_raises_reaches_the_caller() -> None:
    """A mistake in the arguments is raised at once; an error of the middleware when the answer is read."""

    class Refusing(Middleware):
        async def change_request(self, request: Request) -> Request:
            raise ConfigError("not today")

    with pytest.raises(ConfigError, match="tempratur"):
        Loud(ScriptedProvider()).chat_stream("Hi", tempratur=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="not today"):
        await Refusing(ScriptedProvider()).chat("Hi")


async def test_leaving_early_closes_the_connection() -> None:
    """A stream that is left before its end is closed, below the middleware too."""
    async with Loud(ScriptedProvider(["one ", "two ", pause(3600), "three"])).chat_stream("Hi") as stream:
        assert (await anext(stream)).delta.strip() == "ONE"


# --- Mask -------------------------------------------------------------------------------------------------------------

LETTER = "[A-Za-z0-9\u00c0-\u024f]"
MAIL = re.compile(rf"{LETTER}[.+-]*@{LETTER}+\.{LETTER}+")
WORDS = st.sampled_from(
    ["ab", "x.y", "@", "a@", "b.c", ".", " ", "\n", "1-2", "ann@example.com", "ü", "你好", ",", "'", "=x"]
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(WORDS, max_size=30), st.data())
def test_no_cut_shows_a_match(words: list[str], data: st.DataObject) -> None:
    """However a text is cut: what is shown is the whole text without its mail addresses, and no step shows one."""
    text = "".join(words)
    mask = Mask(ScriptedProvider())
    held = _Held(mask._pattern, mask._run, mask._longest, mask._replace)
    shown, at = "", 0
    while at < len(text):
        size = data.draw(st.integers(1, 7))
        shown, at = shown + held.feed(text[at : at + size]), at + size
        assert MAIL.search(shown.replace("***", " ")) is None
        assert mask.masked(text).startswith(shown)
    assert shown + held.finish() == mask.masked(text)


SECRET = "write to ann.lee+x@mail.example.org, or to 'bob@example.com'. Thanks"
HIDDEN = "write to ***, or to '***'. Thanks"


@pytest.mark.parametrize("adapter", ["chat", "kimi", "responses", "anthropic", "gemini"])
async def test_a_mail_address_is_hidden_on_every_wire(adapter: str) -> None:
    """In text and reasoning, in the chunks and in the reply, and in nothing else that the reply keeps."""
    steps = [think(piece) for piece in (SECRET[:20], SECRET[20:])] + [say(char) for char in SECRET]
    async with Mask(ScriptedProvider(steps, provider={"adapter": adapter})).chat_stream("Hi") as stream:
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.delta for chunk in chunks) == stream.reply.text == HIDDEN
    assert "".join(chunk.reasoning for chunk in chunks) == stream.reply.reasoning == HIDDEN
    assert "example" not in repr(stream.reply)
    assert "example" not in stream.reply.message.to_json()
    assert len(chunks) > 5  # it still streams


async def test_a_masked_answer_that_breaks_off() -> None:
    """The error shows no more than the chunks did: not in its partial answer, nor in the events that came last."""
    model = Mask(ScriptedProvider([say("ask ann@exam"), say("ple.com "), fail(IncompleteStreamError)]))
    with pytest.raises(IncompleteStreamError) as raised:
        await model.chat("Hi")
    assert raised.value.partial is not None
    assert raised.value.partial.text == "ask *** "
    assert raised.value.transcript == ()


async def test_a_mask_of_ones_own() -> None:
    """Any pattern, with the characters that it consists of, and a function for what stands in its place."""
    card = Mask(
        ScriptedProvider(then=[say("card 4111 11"), say("11 1111 1111 ok")]),
        r"\b\d{4}( ?\d{4}){3}\b",
        characters="[0-9 ]",
        replacement=lambda found: f"[{len(found[0])}]",
    )
    assert (await card.chat("Hi")).text == "card [19] ok"
    with pytest.raises(ConfigError, match="empty text"):
        Mask(ScriptedProvider(), "a*")
    with pytest.raises(ConfigError, match="not a regular expression"):
        Mask(ScriptedProvider(), "(")


# --- Hedge ------------------------------------------------------------------------------------------------------------


async def test_the_slower_request_is_closed_and_told() -> None:
    """The answer that begins first counts; the other request is closed, and the reply says so."""
    slow, fast = ScriptedProvider([pause(3600), "slow"]), ScriptedProvider(["fa", "st"])
    with anyio.fail_after(30):
        reply = await Hedge(slow, fast, hedge_after=0.01).chat("Hi")
    assert reply.text == "fast"
    (lost,) = reply.attempts
    assert lost.problem == "closed: another request, hedged after 0.01 s, was answered first"
    assert len(slow.requests) == len(fast.requests) == 1


async def test_a_quick_answer_is_asked_for_once() -> None:
    """As long as the first request is quick enough, there is no second one, and nothing is told."""
    first, second = ScriptedProvider("quick"), ScriptedProvider("never")
    reply = await Hedge(first, second, hedge_after=3600).chat("Hi")
    assert (reply.text, reply.attempts, second.requests) == ("quick", (), [])


async def test_the_same_model_twice() -> None:
    """Without another model the same one is asked again."""
    turns = iter([[pause(3600), "slow"], ["again"]])
    model = ScriptedProvider(then=lambda _: next(turns))
    assert (await Hedge(model, hedge_after=0.01).chat("Hi")).text == "again"


async def test_failures_of_hedged_requests() -> None:
    """A failure before the hedge is raised; one after it counts only if the other request fails too."""
    with pytest.raises(ServerError):
        await Hedge(ScriptedProvider(then=fail(500)), hedge_after=3600).chat("Hi")
    slow, failing = after_a_failure("first")
    reply = await Hedge(slow, failing, hedge_after=0.001).chat("Hi")
    assert (reply.text, [attempt.error for attempt in reply.attempts]) == ("first", ["ServerError"])
    slow, failing = after_a_failure(fail(500))
    with pytest.raises(APIError) as raised:
        await Hedge(slow, failing, hedge_after=0.001).chat("Hi")
    assert len(raised.value.attempts) >= 1
    with pytest.raises(ConfigError, match="number of seconds"):
        Hedge(slow, hedge_after=-1)


def after_a_failure(turn: Any) -> tuple[ChatModel, ChatModel]:
    """A model that waits with its answer until the other one has failed, and the other one."""
    failed = anyio.Event()

    class Waiting(Middleware):
        async def change_request(self, request: Request) -> Request:
            await failed.wait()
            await anyio.wait_all_tasks_blocked()  # the failure has arrived where it was asked for
            return request

    hooks = Hooks(on_error=lambda info, error: failed.set())
    return Waiting(ScriptedProvider(then=turn)), ScriptedProvider(then=fail(503), hooks=hooks)


async def test_a_hedge_that_is_left_closes_both() -> None:
    """Cancelling the wait, or closing the stream, leaves no request behind."""
    model = ScriptedProvider(then=[pause(3600), "never"])
    with anyio.move_on_after(0.05):
        await Hedge(model, hedge_after=0.001).chat("Hi")
    async with Hedge(model, hedge_after=0.001).chat_stream("Hi") as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(anext, stream, None)
        await anyio.sleep(0.05)
        await stream.aclose()


# --- extract ----------------------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int


async def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    """The model is told what was wrong with its answer, in the same conversation."""
    script = ScriptedProvider('{"name": "Oslo"}', '{"name": "Oslo", "people": 7}')
    assert await extract(script, City, "Which?", temperature=0) == City(name="Oslo", people=7)
    last = script.requests[1].messages
    assert [message.role for message in last] == ["user", "assistant", "user"]
    assert "people: Field required" in script.requests[1].text
    assert script.requests[1].body["temperature"] == 0


async def test_when_extract_gives_up() -> None:
    """After so many answers, and at once where another one would be the same."""
    script = ScriptedProvider(then="no")
    with pytest.raises(InvalidReplyError):
        await extract(script, City, "Which?", attempts=2)
    assert len(script.requests) == 2
    refusing = ScriptedProvider(then=refuse("I won't."))
    with pytest.raises(InvalidReplyError, match="refused"):
        await extract(refusing, City, "Which?")
    assert len(refusing.requests) == 1
    with pytest.raises(ConfigError, match="attempts"):
        await extract(script, City, "Which?", attempts=0)


async def test_extract_is_a_method_of_providers() -> None:
    """Of asynchronous and of synchronous ones."""
    message = {"content": '{"name": "Oslo", "people": 7}'}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body)))
    async with Provider.from_config({"base_url": "http://t/v1", "model": "m"}, http_client=client) as provider:
        assert await provider.extract(City, "Which?") == City(name="Oslo", people=7)

    def ask() -> Any:
        with streamfold.sync.Provider(ScriptedProvider('{"name": "Oslo", "people": 7}')) as provider:
            return provider.extract(City, "Which?")

    assert await anyio.to_thread.run_sync(ask) == City(name="Oslo", people=7)
