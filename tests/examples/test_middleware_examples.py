"""The examples of middleware: a mask that no cut can see through, and a hedge that asks twice."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold import (
    APIError,
    ChatModel,
    ConfigError,
    Hooks,
    IncompleteStreamError,
    ServerError,
)
from streamfold.requests import Request
from streamfold.testing import ScriptedProvider, fail, pause, say, think
from tables import each_row

pytest.importorskip("hedge", reason="the examples are not part of what is installed")

from hedge import Hedge
from mask import Mask, _Held

from streamfold.middleware import Middleware

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


@each_row("adapter", ["chat", "kimi", "responses", "anthropic", "gemini"])
async def test_a_mail_address_is_hidden_on_every_api(adapter: str) -> None:
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
