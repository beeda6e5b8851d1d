"""The Messages wire: recorded and hand-made streams, each with a result that was derived independently."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import corpus
import scale
from folding import bytewise, random_cut
from streamfold import Reply, StreamDecoder, StreamError
from streamfold.adapters.anthropic import EventReader

RECORDED = corpus.names("corpus/anthropic/*.sse")
VECTORS = corpus.names("vectors/anthropic-wire/*.sse")
_CUT_OFF = ("max_tokens", "model_context_window_exceeded", "refusal")


class _Wire(EventReader):
    """The reading half of the adapter, which comes as server-sent events."""

    framing = None


def _read(pieces: list[bytes]) -> tuple[Reply | None, StreamError | None]:
    decoder = StreamDecoder(_Wire())  # type: ignore[arg-type]
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.close()
    except StreamError as error:
        return error.partial, error
    return decoder.reply, None


def _check(pieces: list[bytes], expected: dict[str, Any]) -> None:
    reply, error = _read(pieces)
    if expected["ends"] != "complete" and not expected.get("finish"):
        assert error is not None
        if expected["ends"] == "error":
            assert expected["error"]["message"] in str(error)
        assert reply is None or (reply.text, reply.tool_calls) == (expected["text"], [])
        return
    assert error is None
    assert reply is not None
    assert (reply.text, reply.reasoning) == (expected["text"], expected["reasoning"] or "")
    assert reply.raw_finish_reason == expected["finish_reason"]
    assert expected.get("finish") in (None, reply.finish_reason)
    assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
    wanted = [] if expected["finish_reason"] in _CUT_OFF else expected["tool_calls"]
    got = [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    assert [call.id for call in reply.tool_calls if not call.id] == []
    assert [(name, arguments) for _, name, arguments in got] == [(call["name"], call["arguments"]) for call in wanted]
    assert all(call["id"] in ("*", mine[0]) for call, mine in zip(wanted, got, strict=True))
    if content := expected.get("content"):
        kept = [block for block in content if wanted or block["type"] != "tool_use"]
        assert reply.extras.get("blocks", []) == kept
    if dropped := expected.get("dropped_calls"):
        told = [warning.detail for warning in reply.warnings if warning.code == "calls_dropped"]
        assert all(name in told[0] for name in dropped)


def test_corpus_is_complete() -> None:
    """A corpus that is named must have every stream that its manifest lists."""
    manifest = corpus.read_json("corpus/manifest-anthropic.json")
    assert [Path(name).stem for name in RECORDED] == sorted(Path(entry["output"]).stem for entry in manifest)
    assert len(RECORDED) >= 131
    assert len(VECTORS) >= 56


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_stream(name: str, folded: Counter[str]) -> None:
    """Whole, byte by byte if it is small, and under random cuts: always what was derived from the recording."""
    body, expected = corpus.body(name), corpus.expected(name)
    _check([body], expected)
    folded["anthropic streams, each folded whole"] += 1
    if len(body) < 20_000:
        _check(bytewise(body), expected)
        folded["of these byte by byte"] += 1
    rng = random.Random(name)
    for _ in range(scale.pick(20, 4)):
        _check(random_cut(body, rng), expected)


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str) -> None:
    """Errors, cuts, overlapping blocks, odd frames, usage: whole, in two pieces, byte by byte."""
    body, expected = corpus.body(name), corpus.expected(name)
    _check([body], expected)
    _check(bytewise(body), expected)
    for at in scale.some(range(1, len(body)), 20):
        _check([body[:at], body[at:]], expected)


@pytest.mark.parametrize("name", RECORDED)
def test_no_false_warnings(name: str) -> None:
    """A stream that is right is read without a warning."""
    reply, error = _read([corpus.body(name)])
    assert error is None
    assert reply is not None
    cut = {"calls_dropped"} if reply.finish_reason in ("length", "content_filter") else set()
    assert {warning.code for warning in reply.warnings} <= {"empty_answer"} | cut
