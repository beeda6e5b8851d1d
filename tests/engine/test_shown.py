"""What is in an answer has been in a chunk that the caller got; a partial answer has all that came."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from folding import DONE, chunk, event, fin, random_cut, text
from streamfold import Limits, Reply, StreamChunk, StreamDecoder, StreamError, Tool
from streamfold.engine import DIALECTS
from streamfold.recording import Recording
from tables import each_row

FOLDER = Path(__file__).parents[2] / "fixtures"
NAMES = sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.sse"))
TOOLS = [Tool("search", "", {"type": "object", "properties": {"q": {"type": "string"}}})]
BOOM = event({"error": {"message": "boom"}})

ENDS = [b"", BOOM, BOOM[:-2], b"data: {broken\n\n", b"data: [DO", fin("stop") + DONE, fin("stop"), fin("length")]

HALVES = ["\ue000", "\ue001"]  # stand for the halves of a character that was cut in two

# What may be markup, what is, and what only looks like it.
MARKS = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "search", "arguments": {"q": "x"}}',
    "<function=search>", "<parameter=q>", "</parameter>", "</function>", "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>", "functions.search:0", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "<|tool_calls_section_end|>", "[TOOL_CALLS]", "[ARGS]", "[", "]", "{", "<|python_tag|>", "<arg_key>", "search\n",
    "<|", "<", "\n", " ", "a", "text ", "ü", HALVES[0], HALVES[1], "👋",
]  # fmt: skip


def ended(body: bytes, pieces: list[bytes], *, end: bool = True, **options: Any) -> tuple[list[StreamChunk], Reply]:
    """The chunks of a body, and its reply, whole or partial."""
    decoder, chunks = StreamDecoder(options.pop("adapter", "chat"), **options), list[StreamChunk]()
    try:
        for piece in pieces:
            chunks += decoder.feed(piece)
        if end:
            chunks += decoder.end()
        chunks += decoder.close()
    except StreamError as error:
        return chunks, error.partial or Reply(text="there is none")
    return chunks, decoder.reply


def check_shown(body: bytes, rng: Random, **options: Any) -> None:
    """Reads a body in random pieces: the chunks say what the reply says, and `close` alone loses nothing of it."""
    chunks, reply = ended(body, random_cut(body, rng), **options)
    assert "".join(made.delta for made in chunks) == reply.text
    assert "".join(made.reasoning for made in chunks) == reply.reasoning
    shown, closed = ended(body, random_cut(body, rng), end=False, **options)
    assert (closed.text, closed.reasoning) == (reply.text, reply.reasoning)
    assert closed.text.startswith("".join(made.delta for made in shown))
    assert closed.reasoning.startswith("".join(made.reasoning for made in shown))


@each_row("name", NAMES)
def test_a_fixture_that_is_cut_anywhere(name: str) -> None:
    """Whatever of an answer arrives, its text and reasoning are in the chunks that came before its end."""
    recording, rng = Recording.load(FOLDER / name), Random(name)
    body = recording.body
    for _ in range(scale.pick(40, 6)):
        cut = body[: rng.randrange(len(body) + 1)]
        check_shown(cut, rng, adapter=recording.adapter, coalesce=rng.random() < 0.5, **recording.options())
    for at in (body.rfind(b"\n\n"), body.rfind(b"\n\n", 0, len(body) * 2 // 3)):  # just before a blank line
        check_shown(body[: max(0, at)], rng, adapter=recording.adapter, **recording.options())


@settings(deadline=None, max_examples=scale.examples(600))
@given(
    st.lists(st.sampled_from(MARKS), max_size=12),
    st.sampled_from(sorted(DIALECTS)),
    st.sampled_from(ENDS),
    st.integers(0, 2**32),
)
def test_text_that_a_dialect_holds_back(marks: list[str], dialect: str, end: bytes, seed: int) -> None:
    """Text and reasoning that may still become markup are in a chunk before the error, and in the partial answer."""
    rng, said = Random(seed), "".join(marks)
    cuts = sorted(rng.randrange(len(said) + 1) for _ in range(rng.randint(0, 6)))
    events = [said[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    lanes = [rng.choice(["content", "content", "content", "reasoning_content"]) for _ in events]
    body = b"".join(chunk({lane: piece}) for lane, piece in zip(lanes, events, strict=True)) + end
    body = body.replace(HALVES[0].encode(), b"\\ud83d").replace(HALVES[1].encode(), b"\\udc4b")
    body = body[: len(body) - rng.choice([0, 0, 1, 2, rng.randrange(len(body) + 1)])]
    small = Limits(text_chars=rng.randint(1, 40), reasoning_chars=rng.randint(1, 20))
    options: dict[str, Any] = {"tools": TOOLS, "start_in_reasoning": rng.random() < 0.2}
    for dialects in (dialect, f"{dialect}+think"):
        for limits in (None, small):
            check_shown(body, rng, dialect=dialects, limits=limits, **options)


def test_half_of_a_character_is_not_shown() -> None:
    """An answer that breaks off inside a character has what came before it, in the chunks and in the partial answer."""
    body = text("Hi ") + b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    chunks, reply = ended(body, [body])
    assert ["".join(made.delta for made in chunks), reply.text] == ["Hi ", "Hi "]


def test_held_back_text_that_exceeds_a_limit() -> None:
    """Of two errors the first one counts, and it is raised by the next call as any other."""
    limits = Limits(text_chars=18, reasoning_chars=5)
    decoder = StreamDecoder("chat", dialect="think", limits=limits)
    assert [made.reasoning for made in decoder.feed(text("<think>abcde</th") + text("xxx"))] == ["abcde"]
    with pytest.raises(StreamError, match=r"limits\.text_chars") as caught:
        decoder.close()
    assert caught.value.partial is not None
    assert caught.value.partial.reasoning == "abcde"
