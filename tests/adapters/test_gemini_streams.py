"""Gemini's own wire: recorded and hand-made streams, each with a result that was derived independently."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from typing import Any

import pytest

import corpus
import scale
from folding import bytewise, random_cut
from streamfold import ProtocolError, Reply, StreamDecoder, StreamError
from streamfold.adapters.gemini import EventReader


class _Wire(EventReader):
    """The reading half of the adapter, which comes as server-sent events."""

    framing = None


RECORDED = [
    name for name in corpus.names("corpus/gemini/*.sse", "corpus/gemini/*.json") if name != "corpus/gemini/errors.json"
]
VECTORS = corpus.names("vectors/gemini-wire/*.sse", "vectors/gemini-wire/*.json")
_CUT_OFF = ("MAX_TOKENS", "SAFETY", "RECITATION", "PROHIBITED_CONTENT")
# The error stands bare behind the events; that the answer was not finished is right as well.
_EITHER = ("25-error-bare-after-events.sse", "vertex-unknown-streaming-failure-error-mid-stream.sse")


def _read(pieces: list[bytes], tool_choice: str) -> tuple[Reply | None, StreamError | None]:
    decoder = StreamDecoder(_Wire(), tool_choice=tool_choice)  # type: ignore[arg-type]
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.end()
        decoder.close()
    except StreamError as error:
        return error.partial, error
    return decoder.reply, None


def _signatures(reply: Reply) -> list[tuple[str, str]]:
    """Each signature: the kind of part that it is on, and its hash."""
    found = []
    for part in reply.extras.get("blocks", []):
        if signature := part.get("thoughtSignature"):
            kinds = ("functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
            kind = next((kind for kind in kinds if kind in part), None)
            kind = kind or ("thought" if part.get("thought") else "text" if part.get("text") else "empty_text")
            found.append((kind, hashlib.sha256(signature.encode()).hexdigest()))
    return found


def _check(pieces: list[bytes], expected: dict[str, Any], name: str) -> None:
    request = expected.get("request") or {}
    reply, error = _read(pieces, request.get("tool_choice", "auto"))
    if expected["ends"] in ("error", "no_terminator") or (error and name.endswith(_EITHER)):
        assert error is not None
        assert reply is None or (reply.text, reply.tool_calls) == (expected["text"], [])
        return
    assert error is None
    assert reply is not None
    assert (reply.text, reply.reasoning) == (expected["text"], expected["reasoning"] or "")
    if expected["ends"] == "complete":
        assert reply.raw_finish_reason == str(expected["finish_reason"])
    assert expected.get("finish") in (None, reply.finish_reason)
    assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
    wanted = [] if expected["finish_reason"] in _CUT_OFF else expected["tool_calls"]
    assert len(reply.tool_calls) == len(wanted)
    for call, right in zip(reply.tool_calls, wanted, strict=True):
        assert (call.name, right["id"] in ("", "*", call.id)) == (right["name"], True)
        assert call.arguments == right["arguments"] or (call.error and right["arguments"].get("_error"))
    signatures = expected.get("signatures", [])
    hashes = [s.get("sha256") or hashlib.sha256(s["value"].encode()).hexdigest() for s in signatures]
    if wanted == expected["tool_calls"] and "signatures" in expected:
        assert _signatures(reply) == list(zip([s["on"] for s in signatures], hashes, strict=True))
    assert {"late_content", "missing_id"}.isdisjoint(warning.code for warning in reply.warnings)


def test_corpus_is_complete() -> None:
    """A corpus that is named must have every stream that its manifest lists."""
    manifest = corpus.read_json("corpus/gemini-manifest.json")
    entries = manifest if isinstance(manifest, list) else manifest["cases"]
    assert len(RECORDED) == len(entries) >= 161
    assert len(VECTORS) >= 40


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_stream(name: str, folded: Counter[str]) -> None:
    """Whole, byte by byte if it is small, and under random cuts: always what was derived from the recording."""
    body, expected = corpus.body(name), corpus.expected(name)
    _check([body], expected, name)
    folded["gemini streams, each folded whole"] += 1
    if len(body) < 20_000:
        _check(bytewise(body), expected, name)
        folded["of these byte by byte"] += 1
    rng = random.Random(name)
    for _ in range(scale.pick(20, 4) if len(body) < 200_000 else 2):
        _check(random_cut(body, rng), expected, name)


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str) -> None:
    """Errors, blocks, arguments in pieces, odd frames: whole, in two pieces, byte by byte."""
    body, expected = corpus.body(name), corpus.expected(name)
    _check([body], expected, name)
    _check(bytewise(body), expected, name)
    for at in scale.some(range(1, len(body)), 20):
        _check([body[:at], body[at:]], expected, name)


def _arguments_in_pieces(*pieces: dict[str, Any], args: Any = None) -> bytes:
    calls = [{"name": "f", "willContinue": True, **({"args": args} if args is not None else {})}]
    calls += [{"partialArgs": [piece], "willContinue": True} for piece in pieces]
    parts = [[{"functionCall": call}] for call in [*calls, {}]]
    chunks: list[dict[str, Any]] = [{"candidates": [{"content": {"parts": part}}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


@pytest.mark.parametrize(
    "body",
    [
        _arguments_in_pieces({"jsonPath": "$.a[3]", "numberValue": 1}),
        _arguments_in_pieces({"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "a.b", "numberValue": 1}),
        _arguments_in_pieces({"jsonPath": "$[0]", "stringValue": "x", "willContinue": True}),
        _arguments_in_pieces({"jsonPath": "$.a['\\x']", "numberValue": 1}),
        _arguments_in_pieces({"jsonPath": "$" + ".a" * 100_000, "numberValue": 1}),
        _arguments_in_pieces({"jsonPath": "$.a", "numberValue": 1}, args="no JSON"),
    ],
    ids=["a gap", "no path", "no member", "a bad escape", "deep", "beside text"],
)
@pytest.mark.parametrize("size", [1, 10**6])
def test_pieces_of_arguments_that_make_no_object(body: bytes, size: int) -> None:
    """They are an error of ours, and no call comes of them."""
    decoder, size = StreamDecoder("gemini"), size if len(body) < 10_000 else 10**6

    def read() -> None:
        for at in range(0, len(body), size):
            assert not any(chunk.tool_calls for chunk in decoder.feed(body[at : at + size]))
        decoder.close()

    with pytest.raises(ProtocolError, match="can't be put together"):
        read()
