"""One answer over several requests: Gemini's long decode and Claude's `pause_turn` are one stream and one reply.

The server checks every request: it continues the part before it, and nothing is sent twice. The oracle is the same
answer in one response.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parted_answers import (
    MODELS,
    PROVIDERS,
    WIRES,
    Failing,
    PartedServer,
    Step,
    Wire,
    claude_blocks,
    events_of,
    interactions_events,
)
from scale import pick, some
from servers import END, STREAM, Connection, framed, serving
from streamfold import (
    APIError,
    APIStatusError,
    APITimeoutError,
    ChatStream,
    ConfigError,
    Hooks,
    IncompleteStreamError,
    Message,
    Provider,
    Reply,
    StreamDecoder,
    Tool,
    Usage,
    run_tools,
    user,
)
from streamfold.adapters.batches import BatchResult
from streamfold.client import retry_backoff
from streamfold.client.retry_backoff import Backoff
from streamfold.limits import BudgetExceededError, MemoryLimitStore
from streamfold.limits.limit_state import Batch
from streamfold.recording import Recording, ReplayTransport, recording_client
from streamfold.requests import Request
from streamfold.types import ChatParams
from tables import each_row

PAY = Tool("pay", "Pays.", {"type": "object", "properties": {"amount": {"type": "integer"}}})

# The finish reason of a part without the rest. Google says of the last one that a limit was reached.
ALONE = {"gemini": "unknown", "anthropic": "unknown", "interactions": "length"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_backoff, "_BACKOFF", Backoff(first=0.001))


def text(said: str) -> Step:
    return Step("text", said)


def call(call_id: str, amount: int = 1) -> Step:
    return Step("call", "pay", call_id, {"amount": amount})


# A call in the first part, and another one in the last: what a client must not run before the end.
PARTS = [
    [Step("reasoning", "Hm. "), text("I will pay, "), call("a")],
    [text("unless "), Step("reasoning", "Is it? ")],
    [text("it is Sunday."), call("b", 2)],
]
TEXT, REASONING = "I will pay, unless it is Sunday.", "Hm. Is it? "


def calls_of(reply: Reply) -> list[tuple[str, str, Any]]:
    return [(made.id, made.name, made.arguments) for made in reply.tool_calls]


async def read(provider: Provider, **options: Any) -> tuple[str, Reply]:
    """Reads an answer. Checks that calls come on the last chunk alone."""
    shown = ""
    async with provider, provider.chat_stream("Pay?", [PAY], **options) as stream:
        async for chunk in stream:
            shown += chunk.delta
            assert chunk.finished or chunk.tool_calls is None
    return shown, stream.reply


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_the_parts_are_one_answer(wire: Wire, stream: bool) -> None:
    """Text and reasoning are joined, calls come at the end, and the next request continues the part before it."""
    server = PartedServer(wire, PARTS)
    async with server.provider() as provider:
        reply = await provider.chat("Pay?", [PAY], stream=stream)
    assert (reply.text, reply.reasoning) == (TEXT, REASONING)
    assert calls_of(reply) == [("a", "pay", {"amount": 1}), ("b", "pay", {"amount": 2})]
    assert reply.finish_reason == "tool_calls"
    assert (reply.id, reply.model, reply.request_id) == ("r2", "m2", "req_2")
    assert not reply.paused
    assert not reply.warnings
    assert len(server.bodies) == 3
    assert server.open == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_each_request_is_counted_and_billed(wire: Wire) -> None:
    """Usage and cost are the sums; a price that depends on the length of the input counts for each request."""
    prices = {"input": 1, "output": 10, "tiers": [{"above": 25, "input": 100}]}
    server = PartedServer(wire, PARTS)
    _, reply = await read(server.provider(prices=prices))
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10 + 20 + 30, 1 + 2 + 3)
    assert [(step.input_tokens, step.output_tokens) for step in reply.usage.steps] == [(10, 1), (20, 2), (30, 3)]
    assert all(step.raw for step in reply.usage.steps)
    assert reply.cost is not None
    assert reply.cost.amount * 1_000_000 == Decimal(10 + 20 + 30 * 100 + 6 * 10)


async def test_a_sum_of_answers_has_no_steps() -> None:
    """They are those of one answer."""
    _, reply = await read(PartedServer("gemini", PARTS).provider())
    assert reply.usage is not None
    assert (reply.usage + Usage(1, 1, 2)).steps == ()


# --- an answer cut into parts equals the same answer in one -----------------------------------------------------------

SAID = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = st.integers(0, 9)
STEPS = st.one_of(
    st.builds(text, SAID),
    st.builds(lambda said: Step("reasoning", said), SAID),
    st.builds(call, st.sampled_from(["a", "b", "c"]), NUMBERS),
)
ANSWERS = st.lists(STEPS, min_size=1, max_size=12)
CUTS = st.lists(st.integers(0, 12), max_size=5)


def cut_at(steps: Sequence[Step], cuts: Sequence[int]) -> list[Sequence[Step]]:
    """The steps as parts; some may have nothing of the answer, as those that only think without showing it."""
    places = [0, *sorted(min(cut, len(steps)) for cut in cuts), len(steps)]
    return [steps[start:end] for start, end in pairwise(places)]


def _without_id(message: Message) -> Message:
    """The turn without the id of the response, which is that of the last part."""
    return replace(message, extras={name: value for name, value in message.extras.items() if name != "interaction_id"})


def decoded(wire: Wire, parts: Sequence[Sequence[Step]]) -> tuple[list[Any], Reply]:
    """The chunks and the reply of the engine for the bodies of these parts."""
    decoder = StreamDecoder(wire, tools=[PAY], continues=True)
    chunks = []
    for number, part in enumerate(parts):
        chunks += decoder.next_part() if number else []
        for event in events_of(wire, part, number, last=number == len(parts) - 1):
            chunks += decoder.feed(event)
        chunks += decoder.close()
    return chunks, decoder.reply


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=pick(2500, 40), deadline=None)
@given(steps=ANSWERS, cuts=CUTS)
def test_any_parts_equal_the_answer_in_one(wire: Wire, steps: list[Step], cuts: list[int]) -> None:
    """Chunks, calls, finish reason, and the turn for the history; ids are unique over all parts."""
    _, whole = decoded(wire, [steps])
    chunks, reply = decoded(wire, parts := cut_at(steps, cuts))
    assert "".join(chunk.delta for chunk in chunks) == reply.text == whole.text
    assert "".join(chunk.reasoning for chunk in chunks) == reply.reasoning == whole.reasoning
    # An id that came twice is replaced by one that is made of the last response's id, which differs.
    known = [made.id for made in whole.tool_calls if not made.id.startswith("call_")]
    assert [made.id for made in reply.tool_calls if not made.id.startswith("call_")] == known
    assert len({made.id for made in reply.tool_calls}) == len(reply.tool_calls)
    assert [(made.name, made.raw_arguments) for made in reply.tool_calls] == [
        (made.name, made.raw_arguments) for made in whole.tool_calls
    ]
    assert reply.finish_reason == whole.finish_reason
    if len(known) == len(whole.tool_calls):
        assert _without_id(reply.message) == _without_id(whole.message)
    assert [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert not any(chunk.tool_calls for chunk in chunks[:-1])
    assert reply.usage is not None
    assert len(reply.usage.steps) == (len(parts) if len(parts) > 1 else 0)


async def read_on(stream: ChatStream, shown: list[str], pause: float = 0.0) -> None:
    """Adds what is shown of an answer that has no calls."""
    async for chunk in stream:
        shown.append(chunk.delta)
        assert chunk.tool_calls is None
        await anyio.sleep(pause)


# --- failures ---------------------------------------------------------------------------------------------------------


def cuts_of(wire: Wire) -> list[tuple[int, int]]:
    """Every place in every part before its finish reason, which is in the last event, or in the one before it."""
    behind = 0 if wire == "gemini" else 1
    return [
        (number, at)
        for number, part in enumerate(PARTS)
        for at in range(len(events_of(wire, part, number, last=number == 2)) - behind)
    ]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_break_of_any_part_is_a_break_of_the_answer(wire: Wire) -> None:
    """No calls, an error whose partial has everything that arrived, and no open connection, wherever it breaks."""
    for number, at in some(cuts_of(wire), 6):
        server = PartedServer(
            wire, PARTS, lambda part, _, number=number, at=at: Failing(cut=at) if part == number else None
        )
        async with server.provider() as provider, provider.chat_stream("Pay?", [PAY]) as stream:
            with pytest.raises(APIError) as failed:
                await read_on(stream, shown := [])
        expected = "".join(step.text for part in PARTS[:number] for step in part if step.kind == "text")
        partial = failed.value.partial
        assert partial is not None or (number, shown) == (0, [])
        if partial is not None:
            assert partial.text.startswith(expected)
            assert partial.text == "".join(shown)
            assert partial.tool_calls == []
            steps = () if partial.usage is None else partial.usage.steps
            requests = number if at == 0 else number + 1
            assert len(steps) == (requests if requests > 1 else 0)
        assert server.open == 0
        assert len(server.bodies) == number + 1


async def test_a_break_behind_the_finish_reason_ends_the_part() -> None:
    """As at the end of an answer: the part is complete, with a warning, and the answer goes on."""
    at = len(events_of("anthropic", PARTS[0], last=False)) - 1
    server = PartedServer("anthropic", PARTS, lambda part, _: Failing(cut=at, complete=True) if part == 0 else None)
    _, reply = await read(server.provider())
    assert (reply.text, [made.id for made in reply.tool_calls]) == (TEXT, ["a", "b"])
    assert [warning.code for warning in reply.warnings] == ["interrupted_after_finish"]


@pytest.mark.parametrize("wire", WIRES)
async def test_only_a_part_is_sent_again(wire: Wire) -> None:
    """A part of which nothing was shown is sent again, whether it is refused, or breaks off; the answer is the same."""
    for number in range(3):
        for failing in (Failing(status=503), Failing(cut=0)):
            server = PartedServer(wire, PARTS, lambda part, tries: failing if (part, tries) == (number, 0) else None)  # noqa: B023
            shown, reply = await read(server.provider(max_retries=1))
            assert shown == reply.text == TEXT
            assert [made.id for made in reply.tool_calls] == ["a", "b"]
            assert len(reply.attempts) == 1
            assert len(server.bodies) == 4


async def test_events_that_say_nothing_are_no_part_of_the_answer() -> None:
    """After `message_start` alone, a part is sent again; what the failed attempt has said is forgotten."""
    server = PartedServer("anthropic", PARTS, lambda part, tries: Failing(cut=1) if (part, tries) == (1, 0) else None)
    _, reply = await read(server.provider(max_retries=1))
    assert (reply.text, len(server.bodies)) == (TEXT, 4)
    assert reply.usage is not None
    assert [step.input_tokens for step in reply.usage.steps] == [10, 20, 30]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_refused_part_has_the_answer_so_far(wire: Wire) -> None:
    """An error by status in a later part has the partial answer, and what it has used."""
    server = PartedServer(wire, PARTS, lambda part, _: Failing(status=529) if part == 1 else None)
    async with server.provider(max_retries=1) as provider:
        with pytest.raises(APIStatusError) as failed:
            await provider.chat("Pay?", [PAY])
    partial = failed.value.partial
    assert partial is not None
    assert (partial.text, partial.reasoning, partial.tool_calls) == ("I will pay, ", "Hm. ", [])
    assert len(failed.value.attempts) == 1
    assert len(server.bodies) == 3


@pytest.mark.parametrize("wire", WIRES)
async def test_closing_in_any_part_ends_the_answer(wire: Wire) -> None:
    """No further request is sent, and no connection stays open."""
    for wanted in range(1, 6):
        server = PartedServer(wire, PARTS)
        async with server.provider() as provider, provider.chat_stream("Pay?", [PAY]) as stream:
            for _ in range(wanted):
                await anext(stream)
            sent = len(server.bodies)
        assert server.open == 0
        assert len(server.bodies) == sent


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cancelled_answer_sends_nothing_more(wire: Wire) -> None:
    """The caller's cancellation ends it, also while the next part is requested."""
    server = PartedServer(wire, PARTS)
    answer = server.answer

    def block(request: httpx.Request) -> httpx.Response:
        response = answer(request)
        if len(server.bodies) == 2:
            scope.cancel()
        return response

    async with httpx.AsyncClient(transport=httpx.MockTransport(block)) as client:
        config = {"api_key": "k", "model": MODELS[wire], "max_retries": 0}
        provider = Provider.from_config(PROVIDERS[wire], http_client=client, **config)
        with anyio.CancelScope() as scope:
            async with provider.chat_stream("Pay?", [PAY]) as stream:
                async for _ in stream:
                    await anyio.sleep(0)
    assert scope.cancelled_caught
    assert len(server.bodies) == 2
    assert server.open == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_the_timeout_total_is_that_of_the_whole_answer(wire: Wire) -> None:
    """Each part has its own `first_event`; `total` goes on, and what had arrived is in the error."""
    server = PartedServer(wire, PARTS)
    async with server.provider() as provider:
        stream = provider.chat_stream("Pay?", [PAY], timeouts={"total": 0.05})
        with pytest.raises(APITimeoutError) as failed:
            await read_on(stream, [], pause=0.06)
    assert failed.value.phase == "total"
    assert failed.value.partial is not None


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_may_take_eight_further_requests(wire: Wire) -> None:
    """One that takes more ends with an error that names the limit, and has everything."""
    pieces = [f"{number} " for number in range(10)]
    parts = [[text(piece)] for piece in pieces]
    _, reply = await read(PartedServer(wire, parts[:9]).provider())
    assert reply.text == "".join(pieces[:9])
    server = PartedServer(wire, parts)
    async with server.provider() as provider:
        with pytest.raises(IncompleteStreamError, match="max_continuations") as failed:
            await provider.chat("Pay?", [PAY])
    assert failed.value.partial is not None
    assert failed.value.partial.text == "".join(pieces[:9])
    assert len(server.bodies) == 9


@pytest.mark.parametrize("wire", WIRES)
async def test_the_limit_is_an_option_and_a_key(wire: Wire) -> None:
    """The option of a call wins."""
    async with PartedServer(wire, PARTS).provider(max_continuations=1) as provider:
        with pytest.raises(IncompleteStreamError):
            await provider.chat("Pay?", [PAY])
    server = PartedServer(wire, PARTS)
    async with server.provider(max_continuations=1) as provider:
        assert (await provider.chat("Pay?", [PAY], max_continuations=2)).text == TEXT
        for wrong in (-1, 1.5, True, "8"):
            with pytest.raises(ConfigError, match="max_continuations"):
                provider.chat_stream("Pay?", max_continuations=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", WIRES)
async def test_without_continuations_the_part_is_the_answer(wire: Wire) -> None:
    """Nothing more is sent: its calls are dropped, and the reply says that it is paused.

    The next request with it continues the answer.
    """
    server = PartedServer(wire, PARTS[1:])
    async with server.provider(max_continuations=0) as provider:
        reply = await provider.chat("Pay?", [PAY])
        assert (reply.text, reply.finish_reason, reply.paused, reply.tool_calls) == ("unless ", ALONE[wire], True, [])
        rest = await provider.chat([user("Pay?"), reply.message], [PAY])
    assert (rest.text, rest.paused) == ("it is Sunday.", False)
    dropped = PartedServer(wire, PARTS)
    async with dropped.provider(max_continuations=0) as provider:
        reply = await provider.chat("Pay?", [PAY])
    assert (reply.tool_calls, [warning.code for warning in reply.warnings]) == ([], ["calls_dropped"])


@pytest.mark.parametrize("wire", WIRES)
def test_one_part_alone_delivers_no_calls(wire: Wire) -> None:
    """`StreamDecoder` has one response: what goes on in another one is unknown."""
    decoder = StreamDecoder(wire, tools=[PAY])
    for event in events_of(wire, PARTS[0], last=False):
        decoder.feed(event)
    decoder.close()
    reply = decoder.reply
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("I will pay, ", ALONE[wire], [])
    assert reply.raw_finish_reason in ("CONTINUATION", "pause_turn", "requires_continuation")
    assert [warning.code for warning in reply.warnings] == ["calls_dropped"]


def chunk(parts: list[Any], **members: Any) -> bytes:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **members}
    return f"data: {json.dumps({'candidates': [candidate]})}\r\n\r\n".encode()


async def scripted(*bodies: bytes, **options: Any) -> tuple[Reply, list[dict[str, Any]]]:
    """The reply of Gemini with these bodies, and the requests."""
    left, sent = list(bodies), list[dict[str, Any]]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append({"path": request.url.path, **json.loads(request.content)})
        return httpx.Response(200, content=left.pop(0), headers={"content-type": "text/event-stream"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config("gemini:gemini-4-argon", api_key="k", http_client=client)
        return await provider.chat("Pay?", [PAY], **options), sent


CALL = {"functionCall": {"name": "pay", "args": {"amount": 1}}}


async def test_a_continuation_without_a_token() -> None:
    """It can't be continued: unknown, with a warning, and its calls are not delivered."""
    reply, sent = await scripted(chunk([{"text": "I will "}, CALL], finishReason="CONTINUATION"))
    assert (reply.text, reply.finish_reason, reply.tool_calls, reply.paused) == ("I will ", "unknown", [], False)
    assert {warning.code for warning in reply.warnings} == {"not_continued", "calls_dropped"}
    assert len(sent) == 1


async def test_the_newest_token_counts() -> None:
    """Checkpoints come in the middle of a stream; the last one before the end of the part is sent."""
    first = chunk([{"text": "a"}], continuationToken="MQ==") + chunk(
        [{"text": "b"}], continuationToken="Mg==", finishReason="CONTINUATION"
    )
    reply, sent = await scripted(first, chunk([{"text": "c"}], finishReason="STOP", continuationToken="Mw=="))
    assert (reply.text, sent[1]["continuationToken"]) == ("abc", "Mg==")


async def test_max_tokens_is_truncation() -> None:
    """The budget is spent: the answer is cut, although the server sends a token; nothing more is sent."""
    reply, sent = await scripted(chunk([{"text": "a"}, CALL], finishReason="MAX_TOKENS", continuationToken="MQ=="))
    assert (reply.finish_reason, reply.tool_calls, reply.paused, len(sent)) == ("length", [], False, 1)


async def test_a_token_of_the_caller_is_sent_first_and_then_replaced() -> None:
    """It is in `extra_body`, as the gateway has it of its client."""
    reply, sent = await scripted(
        chunk([{"text": "b"}], finishReason="CONTINUATION", continuationToken="Mg=="),
        chunk([{"text": "c"}], finishReason="STOP"),
        extra_body={"continuationToken": "MQ=="},
    )
    assert (reply.text, [body["continuationToken"] for body in sent]) == ("bc", ["MQ==", "Mg=="])


@each_row(("tokens", "streams"), [(32_768, False), (32_769, True), (200_000, True)])
async def test_a_long_answer_in_one_piece_is_streamed(tokens: int, streams: bool) -> None:
    """Google refuses more than 32,768 tokens there: https://ai.google.dev/gemini-api/docs/generate-content/long-decode."""
    body = chunk([{"text": "a"}], finishReason="STOP")
    reply, sent = await scripted(body if streams else body[6:], stream=False, max_output_tokens=tokens)
    assert reply.text == "a"
    assert sent[0]["path"].endswith(":streamGenerateContent" if streams else ":generateContent")
    assert sent[0]["generationConfig"]["maxOutputTokens"] == tokens
    assert [warning.code for warning in reply.warnings] == (["option_changed"] if streams else [])


async def test_citations_are_at_their_place_in_the_joined_text() -> None:
    """Each response counts in its own text, in bytes, and numbers its own sources."""

    def grounded(said: str, title: str, cited: str) -> dict[str, Any]:
        start = len(said[: said.index(cited)].encode())
        segment = {"startIndex": start, "endIndex": start + len(cited.encode())}
        return {
            "groundingChunks": [{"web": {"uri": f"https://{title}", "title": title}}],
            "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
            "webSearchQueries": [title],
        }

    reply, _ = await scripted(
        chunk(
            [{"text": "Öl ist teuer. "}],
            groundingMetadata=grounded("Öl ist teuer. ", "a", "teuer"),
            finishReason="CONTINUATION",
            continuationToken="MQ==",
        ),
        chunk(
            [{"text": "Öl ist billig."}],
            groundingMetadata=grounded("Öl ist billig.", "b", "billig"),
            finishReason="STOP",
        ),
    )
    assert [(cited.url, reply.text[cited.start : cited.end]) for cited in reply.citations] == [
        ("https://a", "teuer"),
        ("https://b", "billig"),
    ]


# --- run_tools --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_runs_the_calls_of_the_whole_answer(wire: Wire) -> None:
    """A turn of several requests is one turn: its calls run once, when it has ended."""
    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        assert len(server.bodies) == 3
        return "paid"

    class Turns(PartedServer):
        def answer(self, request: httpx.Request) -> httpx.Response:
            if self._part == 3:
                self.bodies.append(json.loads(request.content))
                return httpx.Response(
                    200,
                    content=b"".join(events_of(wire, [text("Paid.")])),
                    headers={"content-type": "text/event-stream"},
                )
            return super().answer(request)

    server = Turns(wire, PARTS)
    async with server.provider() as provider:
        run = run_tools(provider, "Pay?", [pay], max_turns=2)
        reply = await run
    assert (reply.text, sorted(ran), len(run.replies), len(server.bodies)) == ("Paid.", [1, 2], 2, 4)
    if wire == "anthropic":
        assert server.bodies[3]["messages"][1]["content"] == claude_blocks([step for part in PARTS for step in part])


async def test_an_extracted_value_may_span_parts() -> None:
    """The JSON text is joined before it is read."""
    server = PartedServer("gemini", [[text('{"amount": 1')], [text("2}")]])
    async with server.provider() as provider:
        value = await provider.extract(dict[str, int], "How much?")
    assert value == {"amount": 12}


# --- limits, recordings, batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
async def test_each_part_is_reserved_before_it_is_sent(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request reserves one part; the next one is sent only if the budget still allows it, and each is charged."""
    prices = {"input": 0, "output": 1_000_000}  # the parts cost 1, 2 and 3
    for budget, sent, spent in ((100, 3, 6), (3, 2, 3), (1, 1, 1)):
        store = MemoryLimitStore()
        monkeypatch.setattr("streamfold.limits.rate_limiter.process_store", lambda store=store: store)
        server = PartedServer(wire, PARTS)
        async with server.provider(prices=prices, max_cost_per_day=budget) as provider:
            failed: APIError | None = None
            try:
                await provider.chat("Pay?", [PAY])
            except BudgetExceededError as error:
                failed = error
            assert provider.limiter is not None
            charged = store.apply(provider.limiter.name, Batch(budgeted=True)).spent
        assert (len(server.bodies), charged) == (sent, spent * 1_000_000)
        assert (failed is None) == (sent == 3)
        if failed is not None:
            assert failed.partial is not None
            assert failed.partial.text == "".join(s.text for p in PARTS[:sent] for s in p if s.kind == "text")


async def test_the_parts_before_the_limit_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that takes too many requests has cost what they have used."""
    store = MemoryLimitStore()
    monkeypatch.setattr("streamfold.limits.rate_limiter.process_store", lambda: store)
    prices = {"input": 0, "output": 1_000_000}
    server = PartedServer("gemini", PARTS)
    async with server.provider(prices=prices, max_cost_per_day=100, max_continuations=1) as provider:
        with pytest.raises(IncompleteStreamError):
            await provider.chat("Pay?", [PAY])
        assert provider.limiter is not None
        assert store.apply(provider.limiter.name, Batch(budgeted=True)).spent == 3_000_000


@pytest.mark.parametrize("wire", WIRES)
async def test_a_recording_has_each_request(wire: Wire, tmp_path: Path) -> None:
    """Replayed, they are the same answer; alone, a part is an answer whose end is unknown."""
    server = PartedServer(wire, PARTS)
    client, transport = recording_client(server.client(), tmp_path, name="pay")
    config = {"api_key": "k", "model": MODELS[wire], "max_retries": 0}
    async with Provider.from_config(PROVIDERS[wire], http_client=client, **config) as provider:
        reply = await provider.chat("Pay?", [PAY])
    await client.aclose()
    assert [path.name for path in transport.written] == ["pay", "pay-2", "pay-3"]
    recordings = [Recording.load(tmp_path / f"{path.name}.sse") for path in transport.written]
    assert [recording.expect["finish_reason"] for recording in recordings] == [ALONE[wire], ALONE[wire], "tool_calls"]
    async with httpx.AsyncClient(transport=ReplayTransport(tmp_path / "pay")) as replayed:
        again = await Provider.from_config(PROVIDERS[wire], http_client=replayed, **config).chat("Pay?", [PAY])
    assert (again.text, calls_of(again), again.usage) == (reply.text, calls_of(reply), reply.usage)


def test_a_batch_continues_no_answer() -> None:
    """Its reply is the part, with a warning."""
    provider = Provider.from_config("anthropic:claude-opus-4-8", api_key="k")
    usage = {"input_tokens": 1, "output_tokens": 1}
    answer = {"type": "message", "id": "m", "model": "m", "role": "assistant", "content": claude_blocks(PARTS[0])}
    result = BatchResult("1", {**answer, "stop_reason": "pause_turn", "usage": usage})
    reply = provider.batches().request(ChatParams(Request.read("", "Pay?", [PAY], "auto", {}))).reply(result)
    assert (reply.text, reply.finish_reason, reply.tool_calls, reply.paused) == ("I will pay, ", "unknown", [], True)
    assert [warning.code for warning in reply.warnings] == ["calls_dropped", "not_continued"]


# --- connections, clocks, hooks ---------------------------------------------------------------------------------------


def parts_over_sockets(wire: Wire, hangs: bool = False) -> Any:
    """The script of a server that sends each part over whatever connection asks for it."""
    sent = 0

    async def run(peer: Connection) -> None:
        nonlocal sent
        while sent < len(PARTS):
            await peer.request()
            number, sent = sent, sent + 1
            if hangs and number == 1:
                await peer.gone()
            body = b"".join(events_of(wire, PARTS[number], number, last=number == 2))
            await peer.send(STREAM + framed(body) + END)

    return run


@pytest.mark.parametrize("wire", WIRES)
async def test_the_parts_share_a_connection(wire: Wire) -> None:
    """The connection of a part is free when the next one is requested, and none stays open."""
    async with serving(parts_over_sockets(wire)) as server:
        config = {"profile": PROVIDERS[wire], "api_key": "k", "model": MODELS[wire]}
        async with server.provider(**config) as provider:
            reply = await provider.chat("Pay?", [PAY])
        assert (reply.text, server.connections, server.most_open) == (TEXT, 1, 1)
        await server.all_closed()


@pytest.mark.slow  # it waits for a clock
@pytest.mark.parametrize("wire", WIRES)
async def test_each_part_has_its_own_first_event(wire: Wire) -> None:
    """A part that never comes is a timeout of its own, with what had arrived; time of the reader doesn't count."""
    async with serving(parts_over_sockets(wire, hangs=True)) as server:
        config = {"profile": PROVIDERS[wire], "api_key": "k", "model": MODELS[wire], "timeouts": {"first_event": 1.0}}
        async with server.provider(**config) as provider:
            stream = provider.chat_stream("Pay?", [PAY])
            with pytest.raises(APITimeoutError) as failed:
                await read_on(stream, shown := [], pause=0.7)
        await server.all_closed()
    assert failed.value.phase == "first_event"
    assert failed.value.partial is not None
    assert failed.value.partial.text == "".join(shown) == "I will pay, "


async def test_hooks_are_those_of_one_answer() -> None:
    """`on_request` is called for each request, the others once, with the whole reply."""
    called: list[str] = []
    hooks = Hooks(
        on_request=lambda info: called.append("request"),
        on_first_chunk=lambda info, seconds: called.append("first chunk"),
        on_finish=lambda info, reply: called.append(f"finish {reply.text}"),
        on_close=lambda info: called.append("close"),
    )
    server = PartedServer("gemini", PARTS)
    config = {"api_key": "k", "model": MODELS["gemini"]}
    await Provider.from_config("gemini", http_client=server.client(), hooks=hooks, **config).chat("Pay?", [PAY])
    assert called == ["request", "first chunk", "request", "request", f"finish {TEXT}", "close"]


async def test_calls_that_are_written_in_any_part_are_shown() -> None:
    """Partial calls are those of the answer so far, in all parts."""
    server = PartedServer("anthropic", PARTS)
    shown = []
    async with server.provider() as provider, provider.chat_stream("Pay?", [PAY], partial_tool_calls=True) as stream:
        async for _ in stream:
            written = [call.text for call in stream.partial_tool_calls]
            if not shown or shown[-1] != written:
                shown.append(written)
    assert shown == [[], [""], ['{"amount": 1}'], ['{"amount": 1}', ""], ['{"amount": 1}', '{"amount": 2}'], []]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_part_may_show_nothing(wire: Wire) -> None:
    """A model that only thinks for a while, without showing it: the answer is in later parts."""
    server = PartedServer(wire, [[], [], [text("4.")]])
    async with server.provider() as provider:
        reply = await provider.chat("2 + 2?")
    assert (reply.text, reply.warnings, len(server.bodies)) == ("4.", [], 3)


async def test_the_history_has_no_token_of_an_ended_answer() -> None:
    """It is in the reply; another provider would have to drop it from the turn."""
    reply, _ = await scripted(chunk([{"text": "a"}], finishReason="MAX_TOKENS", continuationToken="MQ=="))
    assert reply.extras["continuationToken"] == ["MQ=="]
    assert "continuationToken" not in reply.message.extras


async def test_the_parts_of_a_stored_interaction() -> None:
    """A token belongs to the interaction that gave it: its id is sent instead of the input, which is stored with it."""
    server = PartedServer("interactions", PARTS)
    _, reply = await read(server.provider(), extra_body={"store": True, "previous_interaction_id": "v1_first"})
    assert reply.text == TEXT
    assert [body.get("previous_interaction_id") for body in server.bodies] == ["v1_first", "r0", "r1"]
    assert ["input" in body for body in server.bodies] == [True, False, False]


async def test_a_limit_without_a_token_is_an_end() -> None:
    """Without a token nothing can continue the answer: it was cut at the limit of one request."""
    events = interactions_events(PARTS[0], 0, last=False)
    del events[-1]["interaction"]["continuation_token"]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body))) as client:
        provider = Provider.from_config("gemini-interactions:gemini-4-argon", api_key="k", http_client=client)
        reply = await provider.chat("Pay?", [PAY])
    assert (reply.text, reply.finish_reason, reply.paused, reply.tool_calls) == ("I will pay, ", "length", False, [])


async def test_a_pause_that_was_asked_for_is_returned() -> None:
    """`pause_after_compaction` lets the program add to the conversation before Claude continues."""
    compacted = {"type": "compaction", "content": "So far."}
    said = {"type": "message", "id": "m", "model": "m", "role": "assistant", "content": [compacted]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    body = json.dumps({**said, "stop_reason": "compaction", "usage": usage}).encode()
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["messages"])
        return httpx.Response(200, content=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config("anthropic:claude-opus-4-8", api_key="k", http_client=client)
        reply = await provider.chat("Pay?")
        assert (reply.finish_reason, reply.paused, len(sent)) == ("unknown", True, 1)
        await provider.chat([user("Pay?"), reply.message])
    assert sent[1][1] == {"role": "assistant", "content": [compacted]}
