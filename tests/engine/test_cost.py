"""What a chunk costs beside the bare loop, on the same bytes in the same process: a ratio, so that no machine is meant.

Whatever else the machine does falls on both: they take turns in many short rounds, and of each the quickest round
counts. The bounds leave room for other versions of Python; what they catch is a hot path that got dearer by a third, or
an answer that costs more the longer it gets. `benchmarks/` measures the rest, over HTTP and beside other libraries.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from time import thread_time_ns
from typing import Any

import httpx
import pytest

from streamfold import Provider, StreamDecoder

EVENTS = 100
pytestmark = pytest.mark.thorough  # ratios are measured: nothing for a machine that is busy

ROUNDS = 40
TRIES = 4
BULK = 16 * 1024  # bytes

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795204800, "model": "gpt-5-mini-2025-08-07"}


def data(value: Any, event: str = "") -> bytes:
    return (f"event: {event}\n" if event else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return data({**HEAD, "choices": [choice], "usage": None})


def chat_text(count: int = EVENTS) -> list[bytes]:
    return [chunk({"content": f" word{n}"}) for n in range(count)] + [chunk({}, "stop"), b"data: [DONE]\n\n"]


def chat_calls(count: int = EVENTS) -> list[bytes]:
    def entry(number: int, arguments: str, **head: str) -> bytes:
        entries = [{"index": number, "function": {"arguments": arguments, **head}}]
        return chunk({"tool_calls": [{**entries[0], "id": f"call_{number}"} if head else entries[0]]})

    heads = [entry(number, '{"text": "', name="write") for number in range(4)]
    pieces = [entry(n % 4, "more") for n in range(count)]
    return [*heads, *pieces, *(entry(n, '"}') for n in range(4)), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]


def responses_text(count: int = EVENTS) -> list[bytes]:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    kind = "response.output_text.delta"
    words = [
        data({"type": kind, "sequence_number": n, **place, "delta": f" word{n}", "logprobs": []}, kind)
        for n in range(count)
    ]
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5-mini", "output": []}
    kind = "response.completed"
    return [*words, data({"type": kind, "sequence_number": count, "response": response}, kind)]


def bare_loop(pieces: list[bytes]) -> int:
    """What every reader of such a stream must do: find the events, parse them, and keep what they say."""
    rest, kept = b"", []
    for piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            payload = event[event.index(b"data: ") + 6 :]
            if payload == b"[DONE]":
                continue
            parsed = json.loads(payload)
            if "choices" in parsed:
                for choice in parsed["choices"]:
                    kept.append(choice["delta"].get("content") or choice["delta"].get("tool_calls"))
            else:
                kept.append(parsed.get("delta"))
    return len(kept)


def bulk(events: list[bytes]) -> list[bytes]:
    body = b"".join(events)
    return [body[at : at + BULK] for at in range(0, len(body), BULK)]


def fold(api: str, pieces: list[bytes]) -> None:
    decoder = StreamDecoder(api)
    for piece in pieces:
        decoder.feed(piece)
    decoder.close()
    assert decoder.finished


@contextmanager
def no_collector() -> Iterator[None]:
    """The collector runs when it likes, and looks at whatever the other tests have left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ratio(work: Callable[[], object], beside: Callable[[], object], rounds: int) -> float:
    """The quickest round of `work` by the quickest of `beside`."""
    best = [float("inf"), float("inf")]
    with no_collector():
        for _ in range(rounds):
            for place, function in enumerate((beside, work)):
                began = thread_time_ns()
                function()
                best[place] = min(best[place], thread_time_ns() - began)
    return best[1] / best[0]


def assert_at_most(
    bound: float, work: Callable[[], object], beside: Callable[[], object], rounds: int = ROUNDS
) -> None:
    """Tries again before it complains: what is too dear is so each time, what was disturbed is not."""
    found = [ratio(work, beside, rounds)]
    while min(found) > bound and len(found) < TRIES:
        found.append(ratio(work, beside, rounds))
    assert min(found) <= bound, f"{min(found):.2f} times the bare loop, and at most {bound} are expected"


@pytest.mark.parametrize(
    ("api", "events", "bound"),
    [
        pytest.param("chat", chat_text(), 2.1, id="chat text"),
        pytest.param("chat", chat_calls(), 2.4, id="chat calls"),
        pytest.param("responses", responses_text(), 2.6, id="Responses text"),
    ],
)
@pytest.mark.parametrize("cut", [list, bulk], ids=["one event per piece", "bulk"])
def test_decoder(api: str, events: list[bytes], bound: float, cut: Callable[[list[bytes]], list[bytes]]) -> None:
    """Bytes to chunks cost a small multiple of splitting and parsing: 1.5, 1.7 and 1.8 when the bounds were set."""
    pieces = cut(events)
    assert_at_most(bound, lambda: fold(api, pieces), lambda: bare_loop(pieces))


def test_stream_over_a_transport() -> None:
    """An in-memory transport is read in a task of ours, one for each piece: 4.7 when the bound was set."""
    events = chat_text()

    async def body() -> AsyncIterator[bytes]:
        for event in events:
            yield event

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    provider = Provider.from_config({"base_url": "http://test/v1", "model": "any"}, http_client=client)

    async def bare() -> None:
        async with client.stream("POST", "http://test/v1/chat/completions", content=b"{}") as response:
            bare_loop([piece async for piece in response.aiter_bytes()])

    async def stream() -> None:
        async for _ in provider.chat_stream("Hi"):
            pass

    loop = asyncio.new_event_loop()
    try:
        assert_at_most(7.0, lambda: loop.run_until_complete(stream()), lambda: loop.run_until_complete(bare()))
        loop.run_until_complete(client.aclose())
    finally:
        loop.close()


@pytest.mark.parametrize(("api", "make"), [("chat", chat_text), ("chat", chat_calls), ("responses", responses_text)])
def test_a_longer_answer_costs_no_more_for_each_chunk(api: str, make: Callable[[int], list[bytes]]) -> None:
    """Sixteen times the answer is sixteen times the work: 0.8 to 1.0 when the bound was set."""
    short, long = make(50), make(800)

    def many() -> None:
        for _ in range(16):
            fold(api, short)

    assert_at_most(1.4, lambda: fold(api, long), many, rounds=6)


def test_a_block_that_stays_open_makes_the_others_no_dearer() -> None:
    """Sixteen times the blocks of text behind an open one are sixteen times the work: 0.9 when the bound was set."""

    def answer(count: int) -> list[bytes]:
        empty = {"type": "text", "text": ""}
        events = [{"type": "content_block_start", "index": 0, "content_block": empty}]
        for at in range(1, count):
            piece = {"type": "text_delta", "text": "x"}
            events += [
                {"type": "content_block_start", "index": at, "content_block": empty},
                {"type": "content_block_delta", "index": at, "delta": piece},
                {"type": "content_block_stop", "index": at},
            ]
        events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
        return [data(event) for event in events]

    short, long = answer(1500), answer(24000)

    def many() -> None:
        for _ in range(16):
            fold("anthropic", short)

    assert_at_most(1.5, lambda: fold("anthropic", long), many, rounds=2)
