"""Nothing received is missing from `partial`: random answers of all wire formats, cut at any byte.

The oracle is the bytes themselves: each atom of a stream says what a reader knows once its last byte has arrived.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random
from typing import Any

import httpx
import pytest

from client_readers import so_far, sse
from provider_streams import APIS, WRITERS, Answer, Atom, Event, Item, Piece, arguments, failure, text, written
from scale import pick
from streamfold import Provider, Reply, StreamDecoder, StreamError, UpstreamError
from streamfold.engine import DIALECTS

CASES = pick(1000, 30, 5000)  # of each wire format

READ = (*APIS, "interactions")
KINDS = {
    "chat": ("reasoning", "text", "refusal", "call"),
    "kimi": ("reasoning", "text", "call"),
    "anthropic": ("reasoning", "text", "call"),
    "gemini": ("reasoning", "text", "call"),
    "responses": ("reasoning", "text", "refusal", "call"),
    "interactions": ("reasoning", "text", "call"),
}
PATHS = {
    "chat": "/v1/chat/completions",
    "kimi": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


@dataclass
class Received:
    """What the bytes before a cut say."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finished: bool = False
    whole: list[bytes] = field(default_factory=list)  # the events that arrived with their blank line

    @property
    def texts(self) -> tuple[str, str, str]:
        return self.text, self.reasoning, self.refusal


def received(events: list[Event], cut: int, decided_late: bool = True) -> Received:
    """Returns what a reader of the first `cut` bytes knows.

    In Gemini's parts a member behind the text says whether it is a thought. Without `decided_late` such a text counts
    only if its part is whole.
    """
    found = Received()
    begin = 0
    for event in events:
        end = begin + len(event.data)
        ends = [begin + size for size in accumulate(len(atom.data) for atom in event.atoms)]
        if end <= cut:
            found.whole.append(event.data)
        for number, (atom, at) in enumerate(zip(event.atoms, ends, strict=True)):
            if at > cut or atom.gain is None:
                continue
            if atom.gain.channel == "finish":
                found.finished = True
                continue
            if event.late and not decided_late:
                closing = next(place for place in range(number, len(ends)) if is_brace(event.atoms[place]))
                if ends[closing] > cut:
                    continue
            if atom.gain.channel != "arguments":
                setattr(found, atom.gain.channel, getattr(found, atom.gain.channel) + atom.gain.text)
        begin = end
    return found


def is_brace(atom: Atom) -> bool:
    """Whether an atom closes an object, and is no character of a text."""
    return atom.data == b"}" and (atom.gain is None or atom.gain.channel == "finish")


def check(reply: Reply | None, events: list[Event], cut: int, context: object) -> None:
    """Compares what an error or a finished answer has with what arrived."""
    assert reply is not None
    possible = [received(events, cut).texts, received(events, cut, decided_late=False).texts]
    assert (reply.text, reply.reasoning, reply.refusal or "") in possible, context


def answer(random: Random, api: str) -> list[Item]:
    """Returns the items of a random answer."""
    kinds = [random.choice(KINDS[api]) for _ in range(random.randint(1, 4))]
    if api in ("chat", "kimi"):  # one message, whose members have one order
        kinds.sort(key=KINDS[api].index)
    return [
        Item(kind, arguments(random), random.choice(["f", "get_weather"]), f"call_{at}")
        if kind == "call"
        else Item(kind, text(random))
        for at, kind in enumerate(kinds)
    ]


def case(api: str, seed: int) -> tuple[Random, list[Event], bytes, int]:
    """Returns a random answer and where it is cut: anywhere, and often inside or around an event's end."""
    random = Random(f"{api} {seed}")
    events = written(random, api, answer(random, api))
    body = b"".join(event.data for event in events)
    cut = random.randint(0, len(body))
    if random.random() < 0.4:
        event = random.randrange(len(events))
        end = sum(len(event.data) for event in events[: event + 1])
        cut = max(0, end - random.randint(0, 5))
    return random, events, body, cut


def pieces(random: Random, body: bytes) -> list[bytes]:
    """Returns the body as the network may cut it."""
    found = []
    while body:
        length = random.choice([1, 2, 7, 50, len(body)])
        found.append(body[:length])
        body = body[length:]
    return found


def ended(decoder: StreamDecoder, body: Sequence[bytes]) -> StreamError | None:
    """Returns the error by which an answer ends, if it does."""
    try:
        for piece in body:
            decoder.feed(piece)
        decoder.close()
    except StreamError as error:
        return error
    return None


def ending(api: str, seed: int) -> None:
    random, events, body, cut = case(api, seed)
    decoder = StreamDecoder(api, coalesce=random.random() < 0.5)
    error = ended(decoder, pieces(random, body[:cut]))
    assert (error is None) == received(events, cut).finished, (seed, error)
    check(error.partial if error else decoder.reply, events, cut, seed)
    assert not (error and error.partial and error.partial.tool_calls), seed


def failing(api: str, seed: int) -> None:
    random, events, _, cut = case(api, seed)
    body = b"".join(received(events, cut).whole)
    if received(events, len(body)).finished:
        return
    decoder = StreamDecoder(api, coalesce=random.random() < 0.5)
    error = ended(decoder, pieces(random, body + failure(api, "it broke")))
    assert isinstance(error, UpstreamError), seed
    assert error.message == "it broke", seed
    check(error.partial, events, len(body), seed)
    assert not (error.partial and error.partial.tool_calls), seed


@pytest.mark.parametrize("api", READ)
def test_an_answer_that_ends_at_any_byte(api: str) -> None:
    """Everything whose bytes arrived is in `partial`, half an event's text too; no half characters, and no calls."""
    for seed in range(CASES):
        ending(api, seed)


@pytest.mark.parametrize("api", READ)
def test_an_error_behind_any_event(api: str) -> None:
    """An error that the server reports has everything that came before it, and no calls."""
    for seed in range(CASES):
        failing(api, seed)


class Breaking(httpx.AsyncByteStream):
    """A body that is cut off, by an exception of the connection or as if it were whole."""

    def __init__(self, pieces: list[bytes], error: Exception | None) -> None:
        self.pieces, self.error = pieces, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.error:
            raise self.error


class Network(httpx.AsyncBaseTransport):
    """Answers each request with the same bytes, and breaks."""

    def __init__(self, pieces: list[bytes], error: Exception | None) -> None:
        self.stream = Breaking(pieces, error)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=self.stream)


ERRORS = [httpx.ReadError("reset"), httpx.RemoteProtocolError("peer closed connection"), None]


async def breaking(api: str, seed: int) -> None:
    random, events, body, cut = case(api, seed)
    network = Network(pieces(random, body[:cut]), random.choice(ERRORS))
    async with httpx.AsyncClient(transport=network) as client:
        provider = Provider.from_config(
            {"adapter": api, "base_url": "http://test/v1", "api_key": "k", "model": "m", "max_retries": 0},
            http_client=client,
        )
        shown, error = "", None
        async with provider.chat_stream("Hello") as stream:
            try:
                async for chunk in stream:
                    shown += chunk.delta
            except StreamError as failed:
                error = failed
            assert (error is None) == received(events, cut).finished, (seed, error)
            reply = error.partial if error else stream.reply
    check(reply, events, cut, seed)
    assert reply is not None
    assert reply.text.startswith(shown), seed
    assert not (error and reply.tool_calls), seed


def with_unknown_field(event: Event) -> Event:
    """Returns an event with a line that readers ignore. A stream is written again from such an event on."""
    return replace(event, atoms=[Atom(b"extra: 1\n"), *event.atoms])


async def repairing(api: str, seed: int) -> None:
    transport = pytest.importorskip("streamfold_repair.httpx").RepairTransport
    random, events, body, cut = case(api, seed)
    is_rewritten = random.random() < 0.5
    if is_rewritten:
        at = random.randrange(len(events))
        events[at] = with_unknown_field(events[at])
        body = b"".join(event.data for event in events)
        cut = random.randint(0, len(body))
    options: dict[str, Any] = {
        "partial_tool_calls": random.random() < 0.7,
        "dialect": random.choice([None, None, "hermes"]),
    }
    before = received(events, cut)
    came, broke = b"", False
    network = Network(pieces(random, body[:cut]), httpx.ReadError("reset"))
    async with (
        httpx.AsyncClient(transport=transport(network, **options)) as client,
        client.stream("POST", f"http://test{PATHS[api]}", json={"model": "m", "stream": True}) as response,
    ):
        try:
            async for data in response.aiter_raw():
                came += data
        except httpx.ReadError:
            broke = True
    assert broke or before.finished, seed
    atoms = [atom for event in events for atom in event.atoms]
    is_rewritten |= any(atom.data.startswith(b"\\ud") and len(atom.data) == 6 for atom in atoms)  # cut in half
    calls = any(atom.gain and atom.gain.channel == "arguments" for atom in atoms) or b"functionCall" in body
    if is_rewritten or options["dialect"] or calls or before.finished:
        read, least = so_far(api, came), received(events, len(b"".join(before.whole)))
        for said, whole in ((read.text, least.text), (read.reasoning, least.reasoning), (read.refusal, least.refusal)):
            assert said.startswith(whole), seed
        begun = [json.loads(data)["item"]["id"] for _, data in sse(came) if "output_item.added" in data]
        assert len(set(begun)) == len(begun), (seed, begun)
        if api == "responses":
            numbers = [json.loads(data)["sequence_number"] for _, data in sse(came)]
            assert numbers == list(range(len(numbers))), (seed, numbers)
    else:
        comments = [event for event in before.whole if event.startswith(b":")]
        for comment in comments:  # no events
            came = came.replace(comment, b"")
        whole = b"".join(event for event in before.whole if event not in comments)
        assert came.startswith(whole.removesuffix(b"\n")), seed  # the feed behind a last return says nothing


@pytest.mark.one_loop
@pytest.mark.parametrize("api", READ)
async def test_a_connection_that_breaks_at_any_byte(api: str) -> None:
    """A stream of a provider has in `partial` what arrived before the connection broke, shown or not."""
    for seed in range(CASES):
        await breaking(api, seed)


@pytest.mark.one_loop
@pytest.mark.parametrize("api", APIS)
async def test_repaired_streams_that_break_at_any_byte(api: str) -> None:
    """Under `RepairTransport` all whole events are passed on before the exception of the connection.

    Their bytes are compared. Where the stream is written again, or the end of a call may be held back, their texts are.
    """
    for seed in range(pick(1000, 30, 4000)):
        await repairing(api, seed)


def whole_atoms(random: Random, api: str, items: list[Item]) -> Event:
    """Returns an answer in one piece, as atoms."""
    writer = WRITERS[api](random, Answer(items))
    texts = {item.text: item.kind for item in items if item.kind != "call"}
    if api in ("chat", "kimi"):  # one member for each kind
        kinds = {item.kind for item in items}
        texts = {"".join(item.text for item in items if item.kind == kind): kind for kind in kinds if kind != "call"}

    def marked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: marked(member) for key, member in value.items()}
        if isinstance(value, list):
            return [marked(member) for member in value]
        return Piece(texts[value], value, writer.stream.ascii) if isinstance(value, str) and value in texts else value

    return Event(list(writer.stream.json(marked(writer.whole()))), late=api == "gemini")


async def cutting_whole(api: str, seed: int) -> None:
    random = Random(f"whole {api} {seed}")
    items = answer(random, api)
    # Each text is found by itself in the body.
    items = [item if item.kind == "call" else replace(item, text=f"{at}{item.text}") for at, item in enumerate(items)]
    event = whole_atoms(random, api, items)
    cut = random.randrange(len(event.data))
    network = Network(pieces(random, event.data[:cut]), random.choice(ERRORS))
    async with httpx.AsyncClient(transport=network) as client:
        provider = Provider.from_config(
            {"adapter": api, "base_url": "http://test/v1", "api_key": "k", "model": "m", "max_retries": 0},
            http_client=client,
        )
        with pytest.raises(StreamError) as caught:
            await provider.chat("Hello", stream=False)
    check(caught.value.partial, [event], cut, seed)
    assert caught.value.partial is not None
    assert caught.value.partial.tool_calls == [], seed


@pytest.mark.one_loop
@pytest.mark.parametrize("api", READ)
async def test_a_whole_answer_that_is_cut_off_at_any_byte(api: str) -> None:
    """A whole answer that is cut off keeps in `partial` what came of its texts, and has no calls."""
    for seed in range(CASES):
        await cutting_whole(api, seed)


# `required` and `named` read the JSON of a whole answer: they have no markers.
READERS = (*(name for name in DIALECTS if name not in ("required", "named")), "hermes+think")
BEGINNINGS = (
    *(
        "a",
        "é",
        "😀",
        " ",
        "\n",
        "<",
        "<t",
        "<tool",
        "<|",
        "<|tool",
        "[TOOL",
        "<｜",
        "<｜tool",
        "<|python_",
        "<min",
        "<th",
    ),
    *("</", "]<", "<seed"),
)


def held_back(dialect: str, seed: int) -> None:
    random = Random(f"{dialect} {seed}")
    events = written(random, "chat", [Item("text", text(random, alphabet=BEGINNINGS))])
    body = b"".join(event.data for event in events)
    cut = random.randint(0, len(body))
    decoder = StreamDecoder("chat", dialect=dialect)
    error = ended(decoder, pieces(random, body[:cut]))
    check(error.partial if error else decoder.reply, events, cut, seed)


@pytest.mark.parametrize("dialect", READERS)
def test_text_that_might_have_become_markup(dialect: str) -> None:
    """Text that a dialect holds back, because it may begin a call, is in `partial` when the stream breaks off."""
    for seed in range(pick(300, 10, 1000)):
        held_back(dialect, seed)
