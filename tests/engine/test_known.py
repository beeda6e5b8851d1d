"""Events that are known are read as the full path reads them: the same chunks, replies, errors and counts, each time.

A subclass with a `decode` of its own declares nothing, so that all of its events take the full path.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import corpus
import scale
from folding import DONE, bytewise, chunk, event, fin, random_cut, text
from streamfold import Limits, StreamChunk, StreamDecoder, StreamError
from streamfold.adapters import Adapter, find_adapter
from streamfold.engine import known
from streamfold.engine.coalescing import coalesced
from streamfold.engine.framing import event_ranges
from streamfold.engine.known import KnownEvents
from streamfold.recording import Recording
from tables import each_row

FOLDER = Path(__file__).parents[2] / "fixtures"
FIXTURES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))
CORPUS = corpus.names(
    *(f"corpus/{wire}/*.sse" for wire in ("chat", "responses", "anthropic", "gemini")),
    "vectors/kimi-wire/*.sse",
    "vectors/anthropic-wire/*.sse",
)


@pytest.fixture(autouse=True, scope="module")
def _known_soon() -> Iterator[None]:
    """Events that come alone are learned as soon as others: else few of these streams were long enough for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "_SINGLE", 1.0)
        yield


def full(adapter: str) -> Adapter:
    """The adapter, with a `decode` that declares nothing."""
    kind: Any = find_adapter(adapter)
    return type("Full", (kind,), {"decode": lambda self, event: kind.decode(self, event)})()


def history(decoder: StreamDecoder, pieces: Iterable[bytes], interrupted: str | None = None) -> Iterator[Any]:
    """Everything that can be seen of an answer, after each piece."""

    def shown(chunks: list[StreamChunk]) -> list[Any]:
        return [(repr(chunk), chunk.calls_before, chunk.marks, chunk.fragments) for chunk in chunks]

    try:
        for piece in pieces:
            yield shown(decoder.feed(piece))
            yield decoder.events, decoder.done, decoder.warnings, decoder.broken_off_at, decoder.meta
        yield decoder.writing
        yield shown(decoder.close(interrupted=interrupted))
    except StreamError as error:
        yield type(error), str(error), error.transcript, error.partial, error.writing, decoder.events
    else:
        yield decoder.reply


def compare(adapter: str, pieces: list[bytes], interrupted: str | None = None, **options: Any) -> None:
    """Compares both paths at each step, with a chunk for each event and with a chunk for each read."""
    for more in ({}, {"fragments": True}):
        of_known = list(history(StreamDecoder(adapter, **options, **more), pieces, interrupted))
        assert of_known == list(history(StreamDecoder(full(adapter), **options, **more), pieces, interrupted))
    together = list(history(StreamDecoder(adapter, coalesce=True, **options), pieces, interrupted))
    assert together == list(history(StreamDecoder(full(adapter), coalesce=True, **options), pieces, interrupted))


def ways(body: bytes, name: str) -> Iterator[list[bytes]]:
    """Whole, event by event, and cut anywhere."""
    yield [body]
    yield [body[found.start : found.end] for found in event_ranges(body)]
    rng = random.Random(name)
    for _ in range(scale.pick(10, 1)):
        yield random_cut(body, rng)


def count_known(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to which the number of known events in each run is added."""
    counts: list[int] = []
    read = KnownEvents.read

    def counting(self: KnownEvents, data: bytes, at: int) -> Any:
        if (run := read(self, data, at)) is not None:
            counts.append(len(run[1]))
        return run

    monkeypatch.setattr(KnownEvents, "read", counting)
    return counts


@each_row("name", scale.some(FIXTURES, 60))
def test_fixtures(name: str) -> None:
    """Every fixture, in every way in which it is cut."""
    recording = Recording.load(FOLDER / name)
    for pieces in ways(recording.body, name):
        compare(recording.adapter, pieces, recording.interrupted, **recording.options())


@each_row("name", scale.some(CORPUS, 120))
def test_corpus(name: str) -> None:
    """Every stream of the corpus, in every way in which it is cut."""
    body, wire = corpus.body(name), name.split("/")[1].partition("-")[0]
    for pieces in ways(body, name):
        compare(wire, pieces, dialect="kimi" if wire == "kimi" else None)


# --- streams that are nearly known ------------------------------------------------------------------------------------

PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}


def chat_event(said: str, number: int) -> bytes:
    return text(said)


def reasoning_event(said: str, number: int) -> bytes:
    return chunk({"content": None, "reasoning_content": said})


def call_event(said: str, number: int) -> bytes:
    return chunk(
        {"tool_calls": [{"index": number % 2, "function": {"arguments": said}}]}, obfuscation="x" * (number % 5)
    )


def responses_event(said: str, number: int) -> bytes:
    members = {"type": "response.output_text.delta", "sequence_number": number, **PLACE, "delta": said}
    return b"event: response.output_text.delta\n" + event(
        {**members, "logprobs": [], "obfuscation": "ab" * (number % 3)}
    )


def anthropic_event(said: str, number: int) -> bytes:
    delta = {"type": "text_delta", "text": said}
    return b"event: content_block_delta\n" + event({"type": "content_block_delta", "index": 0, "delta": delta})


def gemini_event(said: str, number: int, **part: Any) -> bytes:
    counts = {"promptTokenCount": 7, "candidatesTokenCount": number + 1, "totalTokenCount": number + 8}
    details = [{"modality": "TEXT", "tokenCount": number + 2}]
    content = {"parts": [{"text": said, **part}], "role": "model"}
    usage = {**counts, "thoughtsTokenCount": 0, "promptTokensDetails": details}
    made = event({"candidates": [{"content": content, "index": 0}], "usageMetadata": usage, "responseId": "r"})
    return made.replace(b"\n\n", b"\r\n\r\n")  # as Google does


def windows_event(said: str, number: int) -> bytes:
    return responses_event(said, number).replace(b"\n", b"\r\n")


def gemini_thought(said: str, number: int) -> bytes:
    return gemini_event(said, number, thought=True)


def gemini_call(said: str, number: int) -> bytes:
    """A whole call: some servers give it an id, and Gemini signs some."""
    call = {"functionCall": {"name": "f", "args": {"a": said, "n": number}}}
    if number % 3:
        call["functionCall"]["id"] = f"c{number % 7}"
    part: dict[str, Any] = {**call, "thoughtSignature": f"c2ln{number}"} if number % 4 == 3 else call
    raw = gemini_event("", number)
    return raw.replace(b'[{"text": ""}]', json.dumps([part, call][: 1 + (number % 5 == 4)]).encode())


WRITERS = {
    "chat": ("chat", chat_event),
    "reasoning": ("chat", reasoning_event),
    "calls": ("chat", call_event),
    "responses": ("responses", responses_event),
    "anthropic": ("anthropic", anthropic_event),
    "gemini": ("gemini", gemini_event),
    "thoughts": ("gemini", gemini_thought),
    "whole calls": ("gemini", gemini_call),
    "crlf": ("responses", windows_event),
}
NASTY = (
    "", " the", '"', "\\", '\\"', "\n", "\x7f", "\xa0", "é", "\U0001f44b", "\ud83d", "\udc4b", "\u2028", "[DONE]",
    '"},"finish_reason": null}]}', 'data: {"choices": [{"delta": {"content": "', '"content": "', "x" * 300, "{}",
    "</think>", "null",
)  # fmt: skip

# What a server could do to an event: each is given the event, the one before it and a number.
CHANGES: dict[str, Any] = {
    "crlf": lambda raw, before, n: raw.replace(b"\n", b"\r\n"),
    "lf": lambda raw, before, n: raw.replace(b"\r", b""),
    "one cr": lambda raw, before, n: raw.replace(b"\r", b"", 1),
    "cr": lambda raw, before, n: raw.replace(b"\n", b"\r"),
    "comment": lambda raw, before, n: b": ping\n" + raw,
    "ping": lambda raw, before, n: b": ping\n\n" + raw,
    "id": lambda raw, before, n: b"id: %d\n" % n + raw,
    "retry": lambda raw, before, n: b"retry: 1\n" + raw,
    "name": lambda raw, before, n: b"event: other\n" + raw,
    "error": lambda raw, before, n: b"event: error\n" + raw,
    "two lines": lambda raw, before, n: raw[:-1] + b"data: \n\n",
    "no space": lambda raw, before, n: raw.replace(b"data: {", b"data:{"),
    "spaces": lambda raw, before, n: raw.replace(b": ", b" :  "),
    "late space": lambda raw, before, n: raw.replace(b"}\n\n", b"} \n\n"),
    "ascii": lambda raw, before, n: raw.replace(b'"object"', b'"\\u006fbject"'),
    "twice": lambda raw, before, n: raw.replace(b'"content": ', b'"content": "no", "content": '),
    "escaped twice": lambda raw, before, n: raw.replace(b'"content": ', b'"conten\\u0074": "no", "content": '),
    "two texts": lambda raw, before, n: raw.replace(b'"content": ', b'"reasoning": "no", "content": '),
    "no text": lambda raw, before, n: raw.replace(b'"content": "', b'"contents": "'),
    "another": lambda raw, before, n: raw.replace(b'"index": 0', b'"index": %d' % (n % 3)),
    "number": lambda raw, before, n: raw.replace(b'"sequence_number": ', b'"sequence_number": %d' % (n % 7)),
    "number as float": lambda raw, before, n: raw.replace(b', "item_id"', b'.0, "item_id"'),
    "again": lambda raw, before, n: before + raw,
    "lost": lambda raw, before, n: b"",
    "not utf-8": lambda raw, before, n: raw.replace(b"}", b"\xff}", 1),
    "cut character": lambda raw, before, n: raw.replace(b"\xa9", b""),
    "raw control": lambda raw, before, n: raw.replace(b"e", b"\x01", 1),
    "raw tab in the text": lambda raw, before, n: raw.replace(b"the", b"\t"),
    "half": lambda raw, before, n: raw[: len(raw) // 2] + b"\n\n",
    "foreign": lambda raw, before, n: b"hello\n" + raw,
    "done": lambda raw, before, n: raw + DONE,
    "usage": lambda raw, before, n: raw.replace(b'"choices"', b'"usage": {"prompt_tokens": %d}, "choices"' % n),
    "zeros": lambda raw, before, n: re.sub(rb"(?<=Count\": )\d+", b"0", raw),
    "fewer": lambda raw, before, n: re.sub(rb"(?<=Count\": )\d+", b"1", raw),
    "fractions": lambda raw, before, n: re.sub(rb"(?<=Count\": )\d+", b"1.5", raw),
    "strings": lambda raw, before, n: re.sub(rb"(?<=Count\": )(\d+)", rb'"\1"', raw),
    "no counts": lambda raw, before, n: raw.replace(b"usageMetadata", b"usage"),
    "counts twice": lambda raw, before, n: raw.replace(b'"usageMetadata"', b'"usageMetadata": {}, "usageMetadata"'),
    "null counts": lambda raw, before, n: raw.replace(b'"usageMetadata": {', b'"usageMetadata": null, "x": {'),
    "signed": lambda raw, before, n: raw.replace(b'"text"', b'"thoughtSignature": "c2ln", "text"'),
    "called": lambda raw, before, n: raw.replace(b'"parts": [', b'"parts": [{"functionCall": {"name": "f"}}, '),
    "named again": lambda raw, before, n: raw.replace(b'"id": "c', b'"willContinue": true, "id": "c'),
    "in pieces": lambda raw, before, n: raw.replace(
        b'"args"', b'"willContinue": true, "partialArgs": [{"jsonPath": "$.b", "numberValue": 1}], "args"'
    ),
    "pieces alone": lambda raw, before, n: re.sub(
        rb'"name": "f", "args"', b'"partialArgs": [{"jsonPath": "$.b", "stringValue": "x"}], "no"', raw
    ),
    "nameless": lambda raw, before, n: raw.replace(b'"name": "f"', b'"name": ""'),
    "answered": lambda raw, before, n: raw.replace(b'"functionCall"', b'"functionResponse"'),
    "no part": lambda raw, before, n: raw.replace(b'"parts": [', b'"parts": [7, '),
    "a part behind": lambda raw, before, n: raw.replace(b'], "role"', b', 7], "role"'),
    "parts twice": lambda raw, before, n: raw.replace(b'"parts": [', b'"parts": [{"functionCall": {}}], "parts": ['),
    "parts in parts": lambda raw, before, n: raw.replace(b'"a": ', b'"parts": [{"functionCall": 1}, 2], "a": '),
    "role in parts": lambda raw, before, n: raw.replace(b'"a": ', b'"b": [{"c": []}], "role": "model", "a": '),
    "line end in the list": lambda raw, before, n: raw.replace(b'[{"functionCall"', b'[\n{"functionCall"'),
    "late line end in the list": lambda raw, before, n: raw.replace(b', "n": ', b',\n "n": '),
    "cr in the list": lambda raw, before, n: raw.replace(b', "n": ', b',\r "n": '),
    "no number": lambda raw, before, n: raw.replace(b', "n": ', b', "n": NaN, "m": '),
    "a long number": lambda raw, before, n: raw.replace(b', "n": ', b', "n": ' + b"9" * 5000 + b', "m": '),
    "deep": lambda raw, before, n: raw.replace(b', "n": ', b', "n": ' + b"[" * 300 + b"]" * 300 + b', "m": '),
    "finished": lambda raw, before, n: raw.replace(b'"index"', b'"finishReason": "STOP", "index"'),
    "obfuscation": lambda raw, before, n: raw.replace(b'"obfuscation": "', b'"obfuscation": "\\"\\n'),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NASTY) | st.text(max_size=5), st.just("") | st.just("") | st.sampled_from(sorted(CHANGES))
    ),
    max_size=12,
)


def written(writer: Any, steps: list[tuple[str, str]]) -> bytes:
    body, before = b"", b""
    # The first two make the kind known.
    for number, (said, change) in enumerate([(" a", ""), (" b", ""), (" c", ""), *steps]):
        raw = writer(said, number)
        body += CHANGES[change](raw, before, number) if change else raw
        before = raw
    return body


@pytest.mark.parametrize("wire", sorted(WRITERS))
@settings(deadline=None, max_examples=scale.examples(300))
@given(steps=STEPS, seed=st.integers(0, 999), ends=st.booleans())
@example(steps=[(said, "") for said in NASTY], seed=0, ends=True)
@example(
    steps=[(" the é", change) for change in sorted(CHANGES) if change not in ("half", "done", "error")],
    seed=1,
    ends=True,
)
def test_nearly_known(wire: str, steps: list[tuple[str, str]], seed: int, ends: bool) -> None:
    """Any text, and whatever a server could change in an event: members, numbers, lines, white space, bytes."""
    adapter, writer = WRITERS[wire]
    body = written(writer, steps) + (fin("stop") + DONE if ends else b"")
    for pieces in ([body], random_cut(body, random.Random(seed)), [body[:-3]]):
        compare(adapter, pieces)


@each_row("change", sorted(CHANGES))
@each_row("wire", sorted(WRITERS))
def test_each_change(wire: str, change: str) -> None:
    """Each of these changes alone, between events that are known."""
    adapter, writer = WRITERS[wire]
    body = written(writer, [(" the", ""), (" é", change), (" the", ""), (" the é", change), (" the", "")])
    for pieces in ([body], [body[:200], body[200:]]):
        compare(adapter, pieces)


@each_row(
    "limits",
    [
        {"text_chars": 40},
        {"event_bytes": 400},
        {"arguments_chars": 40},
        {"reasoning_chars": 40},
        {"other_chars": 4000},
        {"tool_calls": 12},
        {"all_arguments_chars": 300},
    ],
)
@each_row("wire", sorted(WRITERS))
def test_limits(wire: str, limits: dict[str, int]) -> None:
    """A limit is reached at the same text, and the error shows the same events."""
    adapter, writer = WRITERS[wire]
    body = written(writer, [(" the", "")] * 30 + [("x" * 500, "")])
    compare(adapter, [body], limits=Limits(**limits))


@pytest.mark.parametrize("wire", sorted(WRITERS))
def test_events_are_known(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first two of a kind are, so that the comparison above compares something."""
    counts = count_known(monkeypatch)
    adapter, writer = WRITERS[wire]
    decoder = StreamDecoder(adapter)
    body = written(writer, [(" the", "")] * 50 + [('{"a": "\\n"}', "")])
    decoder.feed(body)
    kinds = 2 if wire == "calls" else 1
    assert sum(counts) == 54 - 2 * kinds
    assert decoder.events == 54


@pytest.mark.parametrize("size", ["event", "byte"])
def test_events_that_come_alone_are_learned_later(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After sixty: to know them saves less. Reads that end no event count for nothing."""
    monkeypatch.setattr(known, "_SINGLE", 0.2)
    counts = count_known(monkeypatch)
    decoder = StreamDecoder("chat")
    events = [text(f" {number}") for number in range(100)]
    for raw in events[:59]:
        for piece in [raw] if size == "event" else bytewise(raw):
            decoder.feed(piece)
    assert counts == []
    for raw in events[59:]:
        decoder.feed(raw)
    assert (30 < sum(counts) <= 41) == (size == "event")


def test_a_transcript_has_the_last_events() -> None:
    """Twenty of them, as they came, known or not."""
    decoder = StreamDecoder("chat")
    events = [text(f" {number}") for number in range(30)]
    for raw in (b"".join(events[:25]), *events[25:]):
        decoder.feed(raw)
    decoder.feed(event({"error": {"message": "no more"}}))
    with pytest.raises(StreamError) as caught:
        decoder.close()
    last = [json.loads(payload) for payload in caught.value.transcript]
    assert [payload["choices"][0]["delta"]["content"] for payload in last[:-1]] == [f" {n}" for n in range(11, 30)]


def test_an_adapter_of_somebody_else_sees_every_event() -> None:
    """A `decode` of its own is asked for each of them: it may count, change or keep what it likes."""
    asked = []
    chat: Any = find_adapter("chat")

    class Counting(chat):  # type: ignore[misc]
        def decode(self, event: Any) -> Any:
            asked.append(event.data)
            return super().decode(event)

    decoder = StreamDecoder(Counting())
    decoder.feed(b"".join(text(f" {number}") for number in range(30)))
    assert len(asked) == 30


def test_events_that_are_never_alike_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose events all differ elsewhere costs no more looks than the first few of them."""
    looks = []
    learn = KnownEvents.learn
    monkeypatch.setattr(KnownEvents, "learn", lambda self, *event: looks.append(learn(self, *event)))
    body = b"".join(chunk({"content": f" {number}"}, usage={"prompt_tokens": number}) for number in range(1, 140))
    StreamDecoder("chat").feed(body)
    assert len(looks) < 100


# --- chunks by read ---------------------------------------------------------------------------------------------------


def test_text_of_one_read_is_one_chunk() -> None:
    """Consecutive text of one `feed` is one chunk, consecutive reasoning is another, and the order stays."""
    events = [
        reasoning_event("I ", 0), reasoning_event("see. ", 0), chat_event("Hel", 0), chat_event("lo", 0),
        chat_event("!", 0), reasoning_event("So.", 0), chat_event("Bye", 0),
    ]  # fmt: skip
    decoder = StreamDecoder("chat", coalesce=True)
    made = [*decoder.feed(b"".join(events)), *decoder.feed(fin("stop") + DONE)]
    assert [chunk.reasoning or chunk.delta for chunk in made] == ["I see. ", "Hello!", "So.", "Bye", ""]
    assert made[-1].finished


@pytest.mark.parametrize("coalesce", [True, False])
def test_an_event_in_a_read_of_its_own_is_a_chunk(coalesce: bool) -> None:
    """A reader who keeps up gets each event as it comes; without `coalesce` everybody does."""
    events = [text(word) for word in (" a", " b", " c", " d")]
    decoder = StreamDecoder("chat", coalesce=coalesce)
    assert [chunk.delta for raw in events for chunk in decoder.feed(raw)] == [" a", " b", " c", " d"]
    decoder = StreamDecoder("chat", coalesce=coalesce)
    made = [chunk.delta for chunk in decoder.feed(b"".join(events))]
    assert made == ([" a b c d"] if coalesce else [" a", " b", " c", " d"])


def test_what_is_more_than_text_is_not_joined() -> None:
    """A chunk behind the beginning of a call, behind a mark, and the finished one begin another."""
    calls = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
    decoder = StreamDecoder("chat", coalesce=True)
    made = decoder.feed(text("a") + text("b") + calls + text("c") + text("d") + fin("tool_calls") + DONE)
    assert [(chunk.delta, chunk.calls_before, chunk.finished) for chunk in made] == [
        ("ab", 0, False), ("cd", 1, False), ("", 1, True)
    ]  # fmt: skip
    assert coalesced([]) == []
