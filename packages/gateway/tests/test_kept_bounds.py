"""What is too much to keep reaches its client all the same, and is said; what is too much to ask for is refused."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import anyio
import pytest

from folding import DONE, fin, text
from gateways import RESPONSES, client_of
from servers import END, STREAM, Connection, framed, serving
from streamfold.deltas import Finish, ReasoningDelta, StreamEnd, TextDelta
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.errors import ErrorInfo
from streamfold.serving import ReplyWriter
from streamfold.serving.responses import ResponsesSerializer
from streamfold.stores import MemoryStore, Retention
from streamfold.types import ToolCallDelta
from streamfold_gateway import gateway
from streamfold_gateway.stored_responses.recorder import BackgroundResponse, Recorder, RecorderMemory
from streamfold_gateway.stored_responses.store import ResponseStore, StoredResponse
from tables import each_row


async def says_much(connection: Connection) -> None:
    """A provider that answers with 50,000 characters in 50 pieces."""
    await connection.request()
    await connection.send(STREAM, *(framed(text("x" * 1000)) for _ in range(50)), framed(fin("stop"), DONE), END)


@each_row(
    ("size", "said"),
    [(10**6, None), (200_000, "response_not_resumable"), (50_000, "response_not_kept")],
)
@each_row("how", [{}, {"store": True}, {"stream": True}, {"stream": True, "store": True}])
async def test_an_answer_that_is_too_long(size: int, said: str | None, how: dict[str, Any]) -> None:
    """Its client gets all of it, and is told what is not kept."""
    async with (
        serving(says_much) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, responses_bytes=size) as app,
        client_of(app) as client,
    ):
        answer = await client.post(RESPONSES, json={"model": "main", "input": "Hi", **how})
        assert answer.text.count("x" * 50_000) == (5 - 1 if how.get("stream") else 1)
        told = answer.headers.get("x-streamfold-warnings", "") + answer.text.replace("x" * 1000, "")
        expected = None if said == "response_not_resumable" and not how else said
        for warning in ("response_not_resumable", "response_not_kept"):
            assert (warning in told) is (warning == expected)
        response_id = answer.headers["x-request-id"]
        with anyio.fail_after(10):  # until its maker has gone
            status = 404 if said == "response_not_kept" else 200
            while (await client.get(f"{RESPONSES}/{response_id}")).status_code != status:
                await anyio.sleep(0.01)


async def test_an_answer_that_is_too_long_and_nobody_waits_for() -> None:
    """The response says so."""
    async with (
        serving(says_much) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, responses_bytes=50_000) as app,
        client_of(app) as client,
    ):
        begun = (await client.post(RESPONSES, json={"model": "main", "input": "Hi", "background": True})).json()
        app_done = f"{RESPONSES}/{begun['id']}"
        response = begun
        while response.get("error") is None:
            await anyio.sleep(0.01)
            response = (await client.get(app_done)).json()
        assert (response["status"], response["error"]["code"]) == ("failed", "response_too_long")


async def test_references_are_counted_before_they_are_written_out() -> None:
    """To items, and to responses: they stand for more than one request may have."""
    async with (
        serving(says_much) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, max_body_bytes=200_000) as app,
        client_of(app) as client,
    ):
        first = (await client.post(RESPONSES, json={"model": "main", "input": "Hi"})).json()
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        of_the_body = "the parsed request body"
        for count, status, why in ((3, 200, ""), (4, 413, "with its references"), (2000, 413, of_the_body)):
            answer = await client.post(RESPONSES, json={"model": "main", "input": [reference] * count})
            assert answer.status_code == status
            assert why in answer.text
        last = first["id"]
        for status in (200, 200, 200, 413):
            body = {"model": "main", "input": "More", "previous_response_id": last}
            answer = await client.post(RESPONSES, json=body)
            assert answer.status_code == status
            last = answer.json().get("id", last)
        assert app._handler.capacity._held == 0


@each_row("after", ["9" * 30, "-" + "9" * 30, "9" * 5000, "1e3", "", "-", "0x10"])
async def test_odd_numbers(after: str) -> None:
    """They are refused."""
    async with (
        serving(says_much) as upstream,
        upstream.provider() as main,
        gateway({"main": main}) as app,
        client_of(app) as client,
    ):
        streamed = await client.post(RESPONSES, json={"model": "main", "input": "Hi", "stream": True})
        path = f"{RESPONSES}/{streamed.headers['x-request-id']}"
        odd = await client.get(path, params={"stream": "true", "starting_after": after})
        assert (odd.status_code, "starting_after must be a whole number" in odd.text) == (400, True)
        assert (await client.get(f"{RESPONSES}/{'a' * 5000}%00")).status_code == 404


@pytest.mark.slow
async def test_many_long_answers_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that they hold counts: beyond the bound one goes on, the others when it has ended. None is lost."""
    size, length, number, held = 8_000_000, 200_000, 20, list[int]()

    async def says_more(connection: Connection) -> None:
        await connection.request()
        pieces = framed(text("x" * 100)) * 50
        with suppress(anyio.BrokenResourceError):
            for part in (STREAM, *[pieces] * (length // 5000), framed(fin("stop"), DONE), END):
                await connection.send(part)

    def has_room(memory: RecorderMemory, making: BackgroundResponse) -> bool:
        held.append(sum(each.weight for each in memory._making))
        return had_room(memory, making)

    def roomy(number: int, size: int, age: float) -> Retention:
        return Retention(number, 8 * size, age)  # what is done stays until it is asked for

    had_room = RecorderMemory.has_capacity
    monkeypatch.setattr(RecorderMemory, "has_capacity", has_room)
    monkeypatch.setattr("streamfold_gateway.app.Retention", roomy)
    async with (
        serving(says_more) as upstream,
        upstream.provider() as main,
        gateway({"main": main}, responses_bytes=size) as app,
        client_of(app) as client,
    ):
        asked = {"model": "main", "input": "Hi", "background": True}
        paths = [f"{RESPONSES}/{(await client.post(RESPONSES, json=asked)).json()['id']}" for _ in range(number)]
        await client.post(f"{paths[3]}/cancel")
        found = list[Any]()
        for path in paths:
            while (answer := (await client.get(path)).json()).get("status") in ("queued", "in_progress"):
                await anyio.sleep(0.01)
            found.append(answer)
    statuses = [answer["status"] for answer in found]
    assert statuses == ["cancelled" if at == 3 else "completed" for at in range(number)]
    assert all(len(answer["output"][0]["content"][0]["text"]) == length for answer in found if answer is not found[3])
    assert size / 2 < max(held) < size + 12 * length + number * 2**18


@pytest.mark.slow
@each_row("kind", [TextDelta, ReasoningDelta, ToolCallDelta])
@each_row("end", ["completed", "failed", "cancelled"])
async def test_a_long_answer_is_not_held_many_times(
    kind: type[TextDelta | ReasoningDelta | ToolCallDelta], end: str
) -> None:
    """At its end, the worst moment: as itself, in pieces, twice while an event is encoded, and in the store.

    Arguments are there parsed, too, and as they were shown.
    """
    length, piece = 4_000_000, 20_000
    responses = ResponseStore(MemoryStore(Retention(size=5 * length)), 5 * length)
    kept = StoredResponse("resp_1", "me", [], None, {"status": "queued"})
    serializer = ResponsesSerializer(id="resp_1", model="m", records=True)
    running = BackgroundResponse(responses, RecorderMemory(5 * length), kept, serializer, background=True)
    fold, writer = StreamAccumulator(partial_tool_calls=True), ReplyWriter(serializer)

    def feed(delta: Any) -> None:
        chunk = fold.feed(delta)
        assert chunk is None or writer.feed(chunk) == b""
        running.record()

    tracemalloc.start()
    try:
        if kind is ToolCallDelta:
            feed(ToolCallDelta(0, "call_a", "f", '{"x":"'))
        for number in range(length // piece):
            said = f"{number:06}" + "x" * (piece - 6)
            feed(ToolCallDelta(0, arguments=said) if kind is ToolCallDelta else kind(said))
            del said
            await running.save()
        if end == "completed":
            for delta in (
                *([ToolCallDelta(0, arguments='"}')] if kind is ToolCallDelta else []),
                Finish("stop", "stop"),
                StreamEnd(),
            ):
                feed(delta)
            writer.finish(fold.reply)
            running.record()
            await running.save()
        elif end == "failed":
            writer.fail(ErrorInfo("no more"), fold.partial())
            running.record()
            await running.save()
        else:
            await running.cancel()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (json.loads(bytes(running.state))["status"], len(running.state) > length) == (end, True)
    assert peak / length < (7.5 if kind is ToolCallDelta else 5.5)


def test_events_that_just_fit_are_kept() -> None:
    """Whether they will is foreseen while a text comes, and never too early."""

    def held(most: int) -> tuple[int, bool]:
        responses = ResponseStore(MemoryStore(), 2 * most)
        kept = StoredResponse("resp_1", "me", [], None, {})
        serializer = ResponsesSerializer(id="resp_1", model="m", records=True)
        making = Recorder(responses, RecorderMemory(2 * most), kept, serializer)
        writer = ReplyWriter(serializer)
        fold = StreamAccumulator()
        for delta in [*(TextDelta("x" * 1000) for _ in range(50)), Finish("stop", "stop"), StreamEnd()]:
            if chunk := fold.feed(delta):
                writer.feed(chunk)
                making.record()
        writer.finish(fold.reply)
        making.record()
        return making.held, making.resumable

    size, fits = held(10**6)
    assert fits
    assert (held(size), held(size - 1)) == ((size, True), (0, False))
