"""The conformance corpus: recorded answers of real providers, each with a result that was derived independently."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import corpus
import scale
from folding import bytewise, random_cut
from streamfold import IncompleteStreamError, Reply, StreamChunk, StreamDecoder, StreamError, UpstreamError

CHAT = corpus.names("corpus/chat/*.sse")


def _read(body: list[bytes]) -> tuple[list[StreamChunk], Reply, StreamError | None]:
    decoder = StreamDecoder("chat")
    chunks: list[StreamChunk] = []
    try:
        for piece in body:
            chunks += decoder.feed(piece)
        chunks += decoder.close()
    except StreamError as error:
        return chunks, error.partial or Reply(text="(no partial)"), error
    return chunks, decoder.reply, None


def _check(pieces: list[bytes], expected: dict[str, Any]) -> None:
    chunks, reply, error = _read(pieces)
    assert reply.text == expected["text"] == "".join(chunk.delta for chunk in chunks)
    assert reply.reasoning == expected["reasoning"] == "".join(chunk.reasoning for chunk in chunks)
    assert reply.refusal == expected["refusal"]
    assert reply.raw_finish_reason == expected["finish_reason"]
    assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
    assert all(chunk.tool_calls is None for chunk in chunks[:-1])
    if expected["ends"] == "error" or "error" in (expected.get("ends_also_acceptable") or ()):
        assert isinstance(error, UpstreamError)
        return
    if expected["finish_reason"] is None and expected["ends"] == "no_terminator":
        assert isinstance(error, IncompleteStreamError)
        return
    assert error is None
    assert [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    wanted = [] if expected["finish_reason"] in ("length", "content_filter") else expected["tool_calls"]
    assert (chunks[-1].tool_calls or []) == reply.tool_calls
    got = [(call.name, call.arguments, call.raw_arguments) for call in reply.tool_calls]
    assert got == [(call["name"], call["arguments"], call["arguments_raw"]) for call in wanted]
    ids = [call.id for call in reply.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert ids == [call["id"] or made for call, made in zip(wanted, ids, strict=True)]


def test_corpus_is_complete() -> None:
    """A corpus that is named must have every stream that its manifest lists."""
    manifest = corpus.read_json("corpus/manifest.json")
    listed = sorted(Path(entry["output"]).stem for entry in manifest if entry["wire"] == "chat")
    assert [Path(name).stem for name in CHAT] == listed
    assert len(CHAT) >= 208


@pytest.mark.parametrize("name", CHAT)
def test_chat_stream_folds_to_the_expected_result(name: str, folded: Counter[str]) -> None:
    """Whole, byte by byte if it is small, and under random cuts: always what was derived from the recording."""
    body = corpus.body(name)
    expected = corpus.expected(name)
    _check([body], expected)
    folded["chat streams, each folded whole"] += 1
    if len(body) < 60_000:
        _check(bytewise(body), expected)
        folded["of them byte by byte"] += 1
    rng = random.Random(name)
    for _ in range(scale.pick(20, 4)):
        _check(random_cut(body, rng), expected)
    folded["random cuts"] += scale.pick(20, 4)
