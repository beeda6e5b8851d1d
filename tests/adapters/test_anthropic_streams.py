"""The Messages wire: recorded and hand-made streams, each with a result that was derived independently."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from corpus import folder
from folding import bytewise, random_cut
from streamfold import Reply, StreamDecoder, StreamError
from streamfold.adapters.anthropic import EventReader

_FOLDER = os.environ.get("STREAMFOLD_CORPUS", "")
RECORDED = sorted(path.stem for path in Path(_FOLDER, "corpus", "anthropic").glob("*.sse")) if _FOLDER else []
VECTORS = sorted(path.stem for path in Path(_FOLDER, "vectors", "anthropic-wire").glob("*.sse")) if _FOLDER else []
_CUT_OFF = ("max_tokens", "model_context_window_exceeded", "refusal")


class _Wire(EventReader):
    """The reading half of the adapter, which comes as server-sent events."""

    framing = None


@pytest.fixture
def corpus() -> Path:
    return folder()


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


def _load(folder: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    expected: dict[str, Any] = json.loads((folder / f"{name}.expected.json").read_text("utf-8"))
    return (folder / f"{name}.sse").read_bytes(), expected


def test_corpus_is_complete(corpus: Path) -> None:
    """A corpus that is named must have every stream that its manifest lists."""
    manifest = json.loads((corpus / "corpus" / "manifest-anthropic.json").read_text("utf-8"))
    assert RECORDED == sorted(Path(entry["output"]).stem for entry in manifest)
    assert len(RECORDED) >= 131
    assert len(VECTORS) >= 56


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_stream(name: str, corpus: Path, folded: Counter[str]) -> None:
    """Whole, byte by byte if it is small, and under twenty random cuts: always what was derived from the recording."""
    body, expected = _load(corpus / "corpus" / "anthropic", name)
    _check([body], expected)
    folded["anthropic streams, each folded whole"] += 1
    if len(body) < 20_000:
        _check(bytewise(body), expected)
        folded["of these byte by byte"] += 1
    rng = random.Random(name)
    for _ in range(20):
        _check(random_cut(body, rng), expected)


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str, corpus: Path) -> None:
    """Errors, cuts, overlapping blocks, odd frames, usage: whole, in two pieces cut everywhere, byte by byte."""
    body, expected = _load(corpus / "vectors" / "anthropic-wire", name)
    _check([body], expected)
    _check(bytewise(body), expected)
    for at in range(1, len(body)):
        _check([body[:at], body[at:]], expected)


@pytest.mark.parametrize("name", RECORDED)
def test_no_false_warnings(name: str, corpus: Path) -> None:
    """A stream that is right is read without a warning."""
    body, _ = _load(corpus / "corpus" / "anthropic", name)
    reply, error = _read([body])
    assert error is None
    assert reply is not None
    cut = {"calls_dropped"} if reply.finish_reason in ("length", "content_filter") else set()
    assert {warning.code for warning in reply.warnings} <= {"empty_answer"} | cut
