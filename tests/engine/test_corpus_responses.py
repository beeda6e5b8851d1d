"""The conformance corpus on the Responses wire: recorded answers, each with a result that was derived independently."""

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

RESPONSES = corpus.names("corpus/responses/*.sse")
# Warnings that say something true: nothing but a hosted tool's item is in these answers.
_TRUE_WARNINGS = {"empty_answer"}


def _read(body: list[bytes]) -> tuple[list[StreamChunk], Reply, StreamError | None]:
    decoder = StreamDecoder("responses")
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
    assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
    assert all(chunk.tool_calls is None for chunk in chunks[:-1])
    if expected["ends"] == "error":
        assert isinstance(error, UpstreamError)
        said = expected["error"]
        assert (error.message, error.type, error.code) == (said["message"], said.get("type"), said.get("code"))
        return
    if expected["ends"] == "no_terminator":
        assert isinstance(error, IncompleteStreamError)
        return
    assert error is None
    assert [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert reply.raw_finish_reason == expected["finish_reason"]
    wanted = [] if expected["status"] == "incomplete" else expected["tool_calls"]
    assert (chunks[-1].tool_calls or []) == reply.tool_calls
    functions = [call for call in reply.tool_calls if call.kind == "function"]
    got = [(call.id, call.name, call.arguments, call.raw_arguments) for call in functions]
    assert got == [(call["id"], call["name"], call["arguments"], call["arguments_raw"]) for call in wanted]
    _check_items(reply, expected)


def _check_items(reply: Reply, expected: dict[str, Any]) -> None:
    items = reply.extras.get("output", [])
    ours = ("message", "reasoning", "function_call")
    assert [item["type"] for item in items if item["type"] not in ours] == expected.get("hosted_items", [])
    customs = [item for item in items if item["type"] == "custom_tool_call"]
    assert [{"id": item["call_id"], "name": item["name"], "input": item["input"]} for item in customs] == expected.get(
        "custom_tool_calls", []
    )


def test_corpus_is_complete() -> None:
    """A corpus that is named must have every stream that its manifest lists."""
    manifest = corpus.read_json("corpus/manifest.json")
    listed = sorted(Path(entry["output"]).stem for entry in manifest if entry["wire"] == "responses")
    assert [Path(name).stem for name in RESPONSES] == listed
    assert len(RESPONSES) >= 67


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_stream_folds_to_the_expected_result(name: str, folded: Counter[str]) -> None:
    """Whole, byte by byte if it is small, and under random cuts: always what was derived from the recording."""
    body = corpus.body(name)
    expected = corpus.expected(name)
    _check([body], expected)
    folded["responses streams, each folded whole"] += 1
    if len(body) < 60_000:
        _check(bytewise(body), expected)
        folded["of these byte by byte"] += 1
    rng = random.Random(name)
    for _ in range(scale.pick(20, 4)):
        _check(random_cut(body, rng), expected)
    folded["random cuts of these"] += scale.pick(20, 4)


@pytest.mark.parametrize("name", RESPONSES)
def test_recorded_streams_give_no_false_warning(name: str) -> None:
    """These servers say everything two or three times, and never two different things."""
    _, reply, error = _read([corpus.body(name)])
    cut = {"calls_dropped"} if reply.finish_reason in ("length", "content_filter") else set()
    assert error or {warning.code for warning in reply.warnings} <= _TRUE_WARNINGS | cut
