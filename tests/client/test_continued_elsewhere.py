"""`Fallback(continue_text=True)`: the text of an answer that broke off is continued by the next model that can."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale import pick, some
from streamfold import APIError, Fallback, IncompleteStreamError, Provider, Reply, ServerError, StreamError, run_tools
from streamfold.client import retry_backoff
from streamfold.client.retry_backoff import Backoff
from streamfold.testing import ScriptedProvider
from tables import each_row

TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "a", "model": "m", "choices": [choice]}).encode() + b"\n\n"


def words(text: str) -> list[bytes]:
    return [chunk(content=piece if at == 0 else f" {piece}") for at, piece in enumerate(text.split(" "))]


END = chunk("stop") + b"data: [DONE]\n\n"
CALL = chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a'}}])

OTHER = {"base_url": "http://x/v1", "model": "m"}
KIMI = {"profile": "kimi", "model": "kimi-k2.6"}
VLLM = {"profile": "vllm", "model": "qwen3"}
MISTRAL = {"profile": "mistral", "model": "mistral-large-4"}
GEMINI = {"profile": "gemini", "model": "gemini-3.8-flash"}


@asynccontextmanager
async def models(*given: tuple[dict[str, Any], bytes | int]) -> AsyncIterator[tuple[Fallback, list[dict[str, Any]]]]:
    """Providers with what each answers, a body or a status; and the requests that were sent."""
    sent: list[dict[str, Any]] = []

    def provider(number: int, config: dict[str, Any], answer: bytes | int) -> Provider:
        def send(request: httpx.Request) -> httpx.Response:
            sent.append({"to": number, **json.loads(request.content)})
            if isinstance(answer, int):
                return httpx.Response(answer, json={"error": {"message": "busy"}})
            return httpx.Response(200, content=answer, headers={"content-type": "text/event-stream"})

        client = httpx.AsyncClient(transport=httpx.MockTransport(send))
        base = {"name": f"p{number}", "api_key": "k", "max_retries": 0}
        return Provider.from_config({**base, **config}, http_client=client)

    made = [provider(number, config, answer) for number, (config, answer) in enumerate(given)]
    async with Fallback(*made, continue_text=True) as fallback:
        yield fallback, sent


async def read(model: Fallback, shown: list[str], **options: Any) -> Reply:
    async with model.chat_stream("Go on.", **options) as stream:
        async for part in stream:
            shown.append(part.delta)
    return stream.reply


@each_row(("first", "second"), [(OTHER, KIMI), (KIMI, VLLM), (OTHER, MISTRAL)])
async def test_the_next_model_continues_the_text(first: Any, second: Any) -> None:
    """Wherever it broke off, the chunks and the reply are the whole text, and `attempts` says who wrote which part."""
    all_words = words(TEXT)
    for cut in some(range(1, len(all_words)), 3):
        bodies = b"".join(all_words[:cut]), b"".join([*all_words[cut:], END])
        async with models((first, bodies[0]), (second, bodies[1])) as (model, sent):
            reply = await read(model, shown := [])
        begun = " ".join(TEXT.split(" ")[:cut])
        assert "".join(shown) == reply.text == TEXT
        assert [(tried.provider, tried.error, tried.text_end) for tried in reply.attempts] == [
            ("p0", "IncompleteStreamError", len(begun))
        ]
        assert (reply.provider, reply.finish_reason) == ("p1", "stop")
        assert (sent[1]["messages"][-1]["role"], sent[1]["messages"][-1]["content"]) == ("assistant", begun)
        assert [body["to"] for body in sent] == [0, 1]


async def test_a_chain_of_models() -> None:
    """Each continues what all before it have written; one that is busy, or can't, is passed over."""
    all_words = words(TEXT)
    bodies = [b"".join(all_words[at : at + 3]) for at in (0, 3, 6)]
    given = [(OTHER, bodies[0]), (GEMINI, b""), (KIMI, 503), (VLLM, bodies[1]), (KIMI, bodies[2] + END)]
    async with models(*given) as (model, sent):
        reply = await read(model, shown := [])
    assert "".join(shown) == reply.text == TEXT
    assert [(tried.provider, tried.text_end) for tried in reply.attempts] == [
        ("p0", len("The quick brown")),
        ("p1", None),
        ("p2", None),
        ("p3", len("The quick brown fox jumps over")),
    ]
    assert "can't continue a text" in reply.attempts[1].problem
    assert [body["to"] for body in sent] == [0, 2, 3, 4]


async def test_an_echo_is_not_shown_again() -> None:
    """Behind a `prefix` a server may write the text once more."""
    all_words = words(TEXT)
    async with models((OTHER, b"".join(all_words[:4])), (MISTRAL, b"".join([*all_words, END]))) as (model, _):
        reply = await read(model, shown := [])
    assert "".join(shown) == reply.text == TEXT


async def test_reasoning_stays_with_its_model() -> None:
    """It is in the reply, and is not sent to the model that continues."""
    thought = chunk(reasoning_content="Hm. ")
    given = (KIMI, thought + b"".join(words("One"))), (VLLM, b"".join([*words("two"), END]))
    async with models(*given) as (model, sent):
        reply = await read(model, [])
    assert (reply.text, reply.reasoning) == ("Onetwo", "Hm. ")
    assert "Hm." not in json.dumps(sent[1])


def gemini(*parts: dict[str, Any]) -> bytes:
    return b"".join(
        f"data: {json.dumps({'candidates': [{'content': {'role': 'model', 'parts': [part]}}]})}\r\n\r\n".encode()
        for part in parts
    )


SEARCH = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}}


@each_row(
    ("first", "body", "second"),
    [
        (KIMI, b"".join([*words("One"), CALL]), KIMI),
        (GEMINI, gemini({"text": "One"}, {"functionCall": {"name": "look", "args": {}}}), KIMI),
        (GEMINI, gemini({"text": "One"}, SEARCH), KIMI),
        (KIMI, chunk(reasoning_content="Hm."), KIMI),
        (KIMI, b"".join(words("One")), OTHER),
        (KIMI, b"".join(words("One")), GEMINI),
    ],
    ids=["a call", "a call of Gemini", "a search", "reasoning alone", "openai next", "gemini next"],
)
async def test_otherwise_the_program_decides(first: Any, body: bytes, second: Any) -> None:
    """After a call had begun, without text, or where the next model can't: the error, with what had arrived."""
    async with models((first, body), (second, b"".join([*words("no"), END]))) as (model, sent):
        with pytest.raises(StreamError) as failed:
            await model.chat("Go on.")
    assert failed.value.partial is not None
    assert failed.value.partial.text in ("One", "")
    assert failed.value.partial.tool_calls == []
    assert len(sent) == 1


async def test_nothing_is_continued_by_default() -> None:
    """As before."""
    async with models((KIMI, b"".join(words("One"))), (KIMI, END)) as (model, sent):
        with pytest.raises(IncompleteStreamError):
            await Fallback(*model.models).chat("Go on.")
    assert len(sent) == 1


async def test_when_no_model_is_left_the_error_has_everything() -> None:
    """The partial answer of all of them, also if the last one was refused."""
    for last, partial in ((503, "The quick"), (b"".join(words(" brown")), "The quick brown")):
        async with models((KIMI, b"".join(words("The quick"))), (VLLM, last)) as (model, _):
            with pytest.raises(APIError) as failed:
                await model.chat("Go on.")
        assert failed.value.partial is not None
        assert failed.value.partial.text == partial
        assert [tried.text_end for tried in failed.value.attempts][:1] == [len("The quick")]
        if last == 503:
            assert isinstance(failed.value, ServerError)


async def test_a_model_without_a_key_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it was the last one, the error is that of the answer that broke off."""
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    keyless = {"profile": "mistral", "model": "m", "api_key": None, "api_key_env": ["NO_SUCH_KEY"]}
    async with models((KIMI, b"".join(words("One"))), (keyless, END)) as (model, sent):
        with pytest.raises(IncompleteStreamError) as failed:
            await model.chat("Go on.")
    assert failed.value.partial is not None
    assert (failed.value.partial.text, len(sent)) == ("One", 1)


async def test_a_model_that_is_no_provider_continues_nothing() -> None:
    """It would begin anew."""
    async with models((KIMI, b"".join(words("One")))) as (model, _):
        script = ScriptedProvider("again")
        with pytest.raises(IncompleteStreamError):
            await Fallback(*model.models, script, continue_text=True).chat("Go on.")


async def test_a_run_continues_with_the_calls_of_the_second_model() -> None:
    """They are those of the whole answer, and run once."""
    ran: list[str] = []

    def look(at: str) -> str:
        """Looks."""
        ran.append(at)
        return "seen"

    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    body = b"".join([*words(" I look."), chunk("tool_calls", tool_calls=[call]), b"data: [DONE]\n\n"])
    async with models((OTHER, b"".join(words("Well,"))), (KIMI, body)) as (model, sent):
        run = run_tools(model, "Go on.", [look], max_turns=2)
        async for _ in run:
            if len(run.messages) > 2:
                break
        await run.aclose()
    assert run.replies[0].text == "Well, I look."
    assert [made.name for made in run.replies[0].tool_calls] == ["look"]
    assert len(sent) == 2


@settings(max_examples=pick(500, 25), deadline=None)
@given(text=st.text("abcé\U0001f600", min_size=2, max_size=12), places=st.lists(st.integers(1, 11), max_size=3))
def test_any_text_cut_anywhere(text: str, places: list[int]) -> None:
    """Up to four models that each break off: the same text as from one."""
    cuts = sorted({min(place, len(text) - 1) for place in places})
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    given = [(KIMI, chunk(content=piece)) for piece in pieces[:-1]] + [(KIMI, chunk(content=pieces[-1]) + END)]

    async def run() -> None:
        async with models(*given) as (model, sent):
            reply = await read(model, shown := [])
        assert "".join(shown) == reply.text == text
        assert [body["messages"][-1]["content"] for body in sent[1:]] == [text[:cut] for cut in cuts]

    anyio.run(run)
