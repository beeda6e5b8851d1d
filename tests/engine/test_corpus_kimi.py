"""Streams of Kimi-style servers from the optional conformance corpus, each beside what it must fold to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import corpus
import scale
from folding import bytewise, check_chunks, every_split
from streamfold import IncompleteStreamError, Reply, StreamChunk, StreamDecoder, StreamError, UpstreamError

STREAMS = corpus.names("vectors/kimi-wire/*.sse")
ENDS = {"complete": None, "no_terminator": None, "error": UpstreamError}


def _fold(pieces: list[bytes], request: dict[str, Any]) -> tuple[Reply, type[StreamError] | None]:
    tools = [{"type": "function", "function": {"name": name}} for name in request["tools"]]
    choice = request["tool_choice"]
    choice = choice if isinstance(choice, str) else {"type": "function", "function": choice}
    decoder = StreamDecoder("kimi", dialect="kimi", tools=tools, tool_choice=choice)
    chunks: list[StreamChunk] = []
    try:
        chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)] + decoder.close()
    except StreamError as error:
        return error.partial or Reply(), type(error)
    check_chunks(chunks, decoder.reply)
    return decoder.reply, None


def _ways(body: bytes) -> Iterator[list[bytes]]:
    yield [body]
    yield bytewise(body)
    yield from scale.some(list(every_split(body)), 20) if len(body) < 1000 else ()
    yield from ([body[:at], body[at:]] for at in range(0, len(body), max(1, len(body) // scale.pick(200, 20))))


@pytest.mark.parametrize("name", STREAMS)
def test_kimi_stream_folds_to_the_expected_result(name: str, folded: Counter[str]) -> None:
    """Whole, byte by byte and in two pieces: text, reasoning, calls, usage and end as they must be."""
    expected = corpus.expected(name)
    folded["streams of Kimi-style servers"] += 1
    for pieces in _ways(corpus.body(name)):
        reply, error = _fold(pieces, expected["request"])
        finished = expected["ends"] != "no_terminator" or expected["finish_reason"] is not None
        assert error is (ENDS[expected["ends"]] if finished else IncompleteStreamError)
        assert (reply.text, reply.reasoning) == (expected["text"], expected["reasoning"])
        assert reply.raw_finish_reason == expected["finish_reason"]
        assert (dict(reply.usage.raw) if reply.usage else None) == expected["usage"]
        assert [(call.name, call.arguments) for call in reply.tool_calls] == [
            (call["name"], call["arguments"]) for call in expected["tool_calls"]
        ]
        ids = [call.id for call in reply.tool_calls]
        assert len(set(ids)) == len(ids)
        wanted = [call["id"] for call in expected["tool_calls"]]
        assert ids == [made if known == "*" else known for made, known in zip(ids, wanted, strict=True)]
        assert "late_content" not in [warning.code for warning in reply.warnings]
