"""Interactions that run on without us: an answer that broke off is read to its end, and nothing of it twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx
import pytest

import interaction_streams as ix
from provider_streams import Answer, InteractionsWriter, Item, arguments, text
from scale import pick
from streamfold import IncompleteStreamError, ProtocolError, Provider, Reply, ServerError, StreamDecoder

BACKGROUND: dict[str, Any] = {"extra_body": {"background": True}}


class Stored:
    """A server that keeps one interaction, and cuts its first streams.

    Args:
        events: the events of the stream, each with its id or "".
        cuts: how many bytes each of the first streams has.
    """

    def __init__(self, events: list[tuple[str, bytes]], cuts: list[int], whole: Any = None) -> None:
        self.events, self.cuts, self.whole = events, cuts, whole
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        query = parse_qs(request.url.query.decode())
        if request.method == "GET" and "stream" not in query:
            return httpx.Response(200, json=self.whole)
        after = query.get("last_event_id", [""])[0]
        start = next((at + 1 for at, (event_id, _) in enumerate(self.events) if after and event_id == after), 0)
        body = b"".join(event for _, event in self.events[start:])
        if self.cuts:
            body = body[: self.cuts.pop(0)]
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    def provider(self, client: httpx.AsyncClient, **settings: Any) -> Provider:
        return Provider.from_config("gemini-interactions:m", api_key="k", http_client=client, **settings)

    async def reply(self, **options: Any) -> Reply:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.answer)) as client:
            stream = self.provider(client, max_retries=3).chat_stream("Hi", **(options or BACKGROUND))
            shown = "".join([chunk.delta async for chunk in stream])
            assert shown == stream.reply.text
            return stream.reply


def numbered(random: Random, events: list[bytes]) -> list[tuple[str, bytes]]:
    """Gives an id to each event, to some, or to none, as a run in the background does."""
    share = random.choice([0, 0.3, 1])
    found = []
    for at, event in enumerate(events):
        head, mark, data = event.partition(b"data: {")
        event_id = f"e{at}" if mark and random.random() < share else ""
        found.append((event_id, head + b'data: {"event_id": "%s", ' % event_id.encode() + data if event_id else event))
    return found


def said(reply: Reply) -> tuple[Any, ...]:
    return reply.text, reply.reasoning, reply.tool_calls, reply.extras, reply.finish_reason, reply.usage


async def resuming(seed: int) -> None:
    random = Random(seed)
    kinds = [random.choice(["text", "reasoning", "call"]) for _ in range(random.randint(1, 4))]
    items = [
        Item(kind, arguments(random), "f", f"call_{at}") if kind == "call" else Item(kind, text(random))
        for at, kind in enumerate(kinds)
    ]
    writer = InteractionsWriter(random, Answer(items))
    writer.stream.space, writer.stream.halves = " ", False
    events = numbered(random, [event.data for event in writer.events()])
    body = b"".join(event for _, event in events)
    decoder = StreamDecoder("interactions")
    decoder.feed(body)
    decoder.close()
    begun = len(events[0][1])
    server = Stored(events, [random.randint(begun, len(body)) for _ in range(random.randint(1, pick(2, 1)))])
    reply = await server.reply()
    assert said(reply) == said(decoder.reply), seed
    new = {warning.code for warning in reply.warnings if warning not in decoder.reply.warnings}
    assert new <= {"repeated_event", "truncated_event"}, seed  # the second one: cut inside of `[DONE]`


@pytest.mark.one_loop
async def test_an_answer_that_breaks_off_anywhere() -> None:
    """It is the same answer after a reconnect, whether all events have ids, some, or none."""
    for seed in range(pick(2000, 60)):
        await resuming(seed)


STEPS = [ix.created(), ix.start(0, "model_output"), ix.delta(0, "text", text="one ")]
REST = [ix.delta(0, "text", text="two"), ix.stop(0), ix.completed(), ix.DONE]


async def test_a_stream_that_is_asked_for_again() -> None:
    """By the id of the last event, on the path of the interaction."""
    events = [(f"e{at}", event) for at, event in enumerate([*STEPS, *REST])]
    events = [
        (name, event.replace(b'"event_type"', b'"event_id": "%s", "event_type"' % name.encode()))
        for name, event in events
    ]
    server = Stored(events, [sum(len(event) for _, event in events[:3])])
    reply = await server.reply()
    assert reply.text == "one two"
    assert str(server.requests[1].url).endswith("/v1beta/interactions/v1_a?stream=true&last_event_id=e2")
    assert [attempt.resumed_after for attempt in reply.attempts] == ["e2"]
    assert json.loads(server.requests[0].content)["store"] is True


async def test_what_is_not_stored_is_not_asked_for_again() -> None:
    """The answer broke off."""
    server = Stored([("", event) for event in [*STEPS, *REST]], [len(b"".join(STEPS))])
    with pytest.raises(IncompleteStreamError) as caught:
        await server.reply(temperature=0.5)
    assert caught.value.partial is not None
    assert (caught.value.partial.text, len(server.requests)) == ("one ", 1)


async def test_another_answer_is_not_joined_to_the_first() -> None:
    """A server that answers again otherwise gives an error, and not half of each."""
    server = Stored([("", event) for event in [*STEPS, *REST]], [len(b"".join(STEPS))])
    before = server.answer

    def answer(request: httpx.Request) -> httpx.Response:
        found = before(request)
        return httpx.Response(200, headers=found.headers, content=found.content.replace(b"one ", b"One "))

    server.answer = lambda request: answer(request) if server.requests else before(request)  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="sent a different response"):
        await server.reply()


class _Silent(httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        await anyio.sleep_forever()


async def test_a_stream_that_falls_silent_again() -> None:
    """The interaction is then read in one piece, and what has been shown is not shown again."""
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "one two"}]},
        {"type": "function_call", "id": "a1", "name": "f", "arguments": {"x": 1}},
    ]
    whole = {"id": "v1_a", "object": "interaction", "model": "m", "status": "requires_action", "steps": steps}
    begun = b"".join(STEPS)
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.method} {request.url.raw_path.decode()}")
        if len(seen) == 3:
            return httpx.Response(200, json=whole)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Silent(begun))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = Provider.from_config("gemini-interactions:m", api_key="k", http_client=client, max_retries=3)
        stream = provider.chat_stream("Hi", timeouts={"read": 0.1}, **BACKGROUND)
        shown = [chunk.delta async for chunk in stream if chunk.delta]
    path = "/v1beta/interactions"
    assert seen == [f"POST {path}", f"GET {path}/v1_a?stream=true", f"GET {path}/v1_a"]
    assert ("".join(shown), [call.arguments for call in stream.reply.tool_calls]) == ("one two", [{"x": 1}])
    assert stream.reply.extras["steps"] == steps[1:]


async def test_a_run_in_the_background_is_never_begun_twice() -> None:
    """It may run although the request failed; any other request is sent again."""
    counts = []
    for options in (BACKGROUND, {}):
        requests: list[httpx.Request] = []

        def refuse(request: httpx.Request, requests: list[httpx.Request] = requests) -> httpx.Response:
            requests.append(request)
            error = {"error": {"code": "gateway_timeout", "message": "Too late."}}
            return httpx.Response(504, json=error, headers={"retry-after": "0"})

        async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
            provider = Provider.from_config("gemini-interactions:m", api_key="k", http_client=client, max_retries=2)
            with pytest.raises(ServerError, match="Too late"):
                await provider.chat("Hi", **options)
        counts.append(len(requests))
    assert counts == [1, 3]
