"""A tool call is delivered once and complete, on the last chunk, after the server has finished its answer. A stream
that breaks off, is cancelled or fails before then, or reaches its token limit, delivers no tool calls. If a server
sends [DONE] but no finish reason, only tool calls with complete arguments are delivered, with a warning.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from answers_by_api import APIS, Answer, Stream, error_event, random_answer, told
from folding import DONE, call, entry, random_cut
from scale import pick, some
from servers import STREAM, Connection, framed, serving
from streamfold import (
    Fallback,
    IncompleteStreamError,
    Provider,
    Reply,
    StreamChunk,
    StreamDecoder,
    StreamError,
    StreamfoldError,
    UpstreamError,
    run_tools,
    tool,
)
from streamfold.recording import Recording
from tables import each_row

BOUND_BY = [
    "net/test_cuts.py::test_cut_at_every_byte",  # over real sockets, by FIN and by RST
    "net/test_leaks.py::test_k11_ended_at_every_turn_of_the_event_loop",
    "engine/test_bugs_ends.py::test_c2_every_beginning_of_an_answer",
    "../packages/gateway/tests/test_fragments.py::test_an_answer_that_breaks_off_anywhere",
]
FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FIXTURES.glob("*/*.sse"))
SEEDS = range(pick(200, 12))
ANSWER = Answer(("It ", "is "), (("id-0", "f", {"x": "}"}), ("id-1", "g", {"y": [1, {"z": "\\"}]})))


def outcome(api: str, fed: Iterable[bytes], **settings: Any) -> tuple[list[StreamChunk], Reply | StreamError]:
    """All chunks that came out, and how the answer ended."""
    decoder, chunks = StreamDecoder(api, **settings), []
    try:
        for piece in fed:
            chunks += decoder.feed(piece)
        chunks += decoder.close()
    except StreamError as error:
        return chunks, error
    return chunks, decoder.reply


def delivered(chunks: Iterable[StreamChunk]) -> list[Any]:
    """The calls on these chunks, by their ids: which of two interleaved calls is the first is a matter of taste."""
    found = [(call.id, call.name, call.arguments) for chunk in chunks for call in chunk.tool_calls or ()]
    return sorted(found, key=lambda call: call[0])


def check_nothing(made: tuple[list[StreamChunk], Reply | StreamError], error: type[StreamError] = StreamError) -> None:
    """An error, and nothing that looks like an answer."""
    chunks, end = made
    assert isinstance(end, error), end
    assert not delivered(chunks)
    assert not any(chunk.finished for chunk in chunks)
    assert end.partial is not None
    assert end.partial.tool_calls == []


@each_row("seed", SEEDS)
@each_row("api", APIS)
def test_delivered_once_and_complete(api: str, seed: int) -> None:
    """However the server numbers and cuts them, the calls are on the last chunk alone, as the model made them."""
    rng = random.Random(f"{api} {seed}")
    answer = random_answer(rng)
    stream = told(api, answer, rng)
    chunks, reply = outcome(api, random_cut(stream.body, rng))
    assert isinstance(reply, Reply)
    assert delivered(chunks[-1:]) == delivered(chunks) == list(answer.calls)
    assert [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert (reply.text, reply.finish_reason) == ("".join(answer.text), "tool_calls" if answer.calls else "stop")
    decoder = StreamDecoder(api)
    assert not any(made.finished for made in decoder.feed(b"".join(stream.events[: stream.end])))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("api", APIS)
def test_cut_delivers_none(api: str, seed: int) -> None:
    """Behind every event, and at random bytes, up to the last byte of the event that says how it ended."""
    rng = random.Random(f"{api} {seed}")
    stream = told(api, random_answer(rng, calls=rng.randint(1, 3)), rng)
    said = b"".join(stream.events[: stream.end + 1]).rstrip()
    places = [len(b"".join(stream.events[:at])) for at in range(stream.end + 1)]
    for at in [*places, *(rng.randrange(len(said)) for _ in range(20))]:
        check_nothing(outcome(api, [said[:at]]))


@each_row("seed", SEEDS)
@each_row("api", APIS)
def test_failed_delivers_none(api: str, seed: int) -> None:
    """An error of the server behind any event: none of the calls that were there."""
    rng = random.Random(f"{api} {seed}")
    stream = told(api, random_answer(rng, calls=2), rng)
    for at in range(1, stream.end + 1):
        body = b"".join(stream.events[:at]) + error_event(api, "no more room")
        made = outcome(api, [body])
        check_nothing(made, UpstreamError)
        assert "no more room" in str(made[1])


@each_row("seed", SEEDS)
@each_row("api", APIS)
def test_truncated_delivers_none(api: str, seed: int) -> None:
    """Not even calls whose arguments are whole, and a warning names each of them."""
    rng = random.Random(f"{api} {seed}")
    answer = random_answer(rng, calls=2)
    chunks, reply = outcome(api, random_cut(told(api, answer, rng, limit=True).body, rng))
    assert isinstance(reply, Reply)
    assert (delivered(chunks), reply.tool_calls, chunks[-1].tool_calls) == ([], [], None)
    assert (reply.finish_reason, reply.text) == ("length", "".join(answer.text))
    said = " ".join(warning.detail for warning in reply.warnings)
    assert all(re.search(rf"\b{name}\b", said) for _, name, _ in answer.calls), said


@each_row("arguments", ['{"x": 1}', "{}", '{"x": 1', "", "1", '{"x": 1}}'])
def test_done_without_a_reason_delivers_what_is_complete(arguments: str) -> None:
    """A call whose arguments are an object is delivered with a warning; of the others only their names are reported."""
    fed = [call(entry(0, "a", "f", arguments)), DONE]
    chunks, reply = outcome("chat", fed)
    assert isinstance(reply, Reply)
    assert reply.finish_reason == "unknown"
    delivered = [made.raw_arguments for chunk in chunks for made in chunk.tool_calls or ()]
    assert delivered == ([arguments] if arguments in ('{"x": 1}', "{}") else [])
    assert [warning.code for warning in reply.warnings]


@each_row("name", some(NAMES, 50))
def test_every_fixture_cut(name: str) -> None:
    """A real answer that is cut before it says how it ended delivers nothing."""
    recording = Recording.load(FIXTURES / name)
    words = rb'"(finish_reason|stop_reason|finishReason)": ?"\w|"?\[DONE\]'
    ends = words + rb"|(response|interaction)\.(completed|incomplete|failed|done)"
    found = re.search(ends, recording.body)
    length = found.start() if found else len(recording.body)
    if not recording.body.lstrip(b"\xef\xbb\xbf \r\n").startswith((b"data", b"event", b":", b"id")):
        return  # a whole answer instead of a stream
    rng = random.Random(name)
    behind_events = [found.end() for found in re.finditer(rb"(\r\n|\n|\r)\1", recording.body[:length])]
    for at in [*some(behind_events, 25), *(rng.randrange(length + 1) for _ in range(pick(40, 6)))]:
        check_nothing(outcome(recording.adapter, [recording.body[:at]], **recording.options()))


ENDS = {
    "chat": (rb'("finish_reason": ?)"\w+"', rb'\1"length"'),
    "anthropic": (rb'("stop_reason": ?)"\w+"', rb'\1"max_tokens"'),
    "gemini": (rb'("finishReason": ?)"\w+"', rb'\1"MAX_TOKENS"'),
    "interactions": (rb'("status": ?")(completed|requires_action)', rb"\1incomplete"),
    "responses": (rb'(response\.|"status": ?")completed', rb"\1incomplete"),
}


@each_row("name", some(NAMES, 80))
def test_every_fixture_truncated(name: str) -> None:
    """The same real answers, had the limit of tokens been reached: whatever the calls look like, none is delivered."""
    recording = Recording.load(FIXTURES / name)
    words, limit = ENDS[recording.adapter]
    body = re.sub(words, limit, recording.body)
    if body == recording.body:
        return  # it does not say how it ended
    chunks, end = outcome(recording.adapter, [body], **recording.options())
    assert not delivered(chunks)
    if isinstance(end, Reply):
        assert (end.tool_calls, end.finish_reason) == ([], "length")
    else:
        assert end.partial is not None
        assert end.partial.tool_calls == []


def server(stream: bytes, sent: anyio.Event) -> Any:
    """Sends events, one after the other, and then nothing more."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, *(framed(event) for event in re.findall(rb".+?\n\n", stream, re.DOTALL)))
        sent.set()
        await peer.gone()

    return script


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # of httpx on trio, see docs/failures.md
@each_row("how", ["cancel", "close"])
@each_row("api", APIS)
async def test_cancelled_delivers_none(api: str, how: str) -> None:
    """Left behind any chunk, or while it waits for more with all calls there: no call, and no reply either."""
    stream = told(api, ANSWER, random.Random(1))
    before = b"".join(stream.events[: stream.end])
    for wanted in (1, 2, 0):  # 0: after all that there is
        sent, seen = anyio.Event(), list[StreamChunk]()
        async with serving(server(before, sent)) as peer, peer.provider(adapter=api) as provider:
            answer = provider.chat_stream("Hi", partial_tool_calls=True)
            with anyio.fail_after(20), anyio.CancelScope() as scope:

                async def leave() -> None:
                    if how == "close":
                        await answer.aclose()  # noqa: B023
                    else:
                        scope.cancel()

                async def leave_at_the_end() -> None:
                    await sent.wait()  # noqa: B023
                    await anyio.sleep(0.02)
                    await leave()

                async with anyio.create_task_group() as tasks, answer:
                    tasks.start_soon(leave_at_the_end)
                    async for chunk in answer:
                        seen.append(chunk)
                        if len(seen) == wanted:
                            await leave()
                    tasks.cancel_scope.cancel()
            await peer.all_closed()
        assert not delivered(seen)
        assert not any(chunk.finished for chunk in seen)
        with pytest.raises(StreamfoldError):
            _ = answer.reply


def provider_of(stream: bytes, api: str) -> Provider:
    """A provider whose every answer is this stream."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=stream))
    config = {"base_url": "http://test/v1", "adapter": api, "model": "m", "max_retries": 0}
    return Provider.from_config(config, http_client=httpx.AsyncClient(transport=transport))


def broken_streams(api: str) -> Iterable[tuple[str, Stream, bytes]]:
    stream = told(api, ANSWER, random.Random(2))
    before = b"".join(stream.events[: stream.end])
    yield "cut", stream, before
    yield "failed", stream, before + error_event(api, "no more")
    yield "truncated", stream, told(api, ANSWER, random.Random(2), limit=True).body


@each_row("how", ["cut", "failed", "truncated"])
@each_row("api", APIS)
async def test_no_tool_is_run(api: str, how: str) -> None:
    """A loop over tools runs nothing of a stream that did not end in order."""
    ran: list[str] = []

    @tool
    async def f(x: str) -> str:
        ran.append("f")
        return x

    @tool
    async def g(y: list[Any]) -> str:
        ran.append("g")
        return "y"

    body = next(body for name, _, body in broken_streams(api) if name == how)
    try:
        await run_tools(provider_of(body, api), "Hi", [f, g])
    except StreamError:
        assert how != "truncated"
    assert ran == []


@each_row("api", APIS)
async def test_a_fallback_delivers_the_calls_of_one_answer(api: str) -> None:
    """An answer that broke off inside its calls, before any text, is asked for elsewhere: nothing of it remains."""
    first = told(api, Answer((), ANSWER.calls), random.Random(3))
    other = Answer(("Well",), (("id-9", "f", {"x": "other"}),))
    cut = provider_of(b"".join(first.events[: first.end]), api)
    model = Fallback(cut, provider_of(told("chat", other, random.Random(4)).body, "chat"))
    chunks = [chunk async for chunk in model.chat_stream("Hi")]
    assert delivered(chunks) == list(other.calls)
    with pytest.raises(IncompleteStreamError):
        await cut.chat("Hi")
