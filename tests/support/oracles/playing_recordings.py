"""Plays a recording, and says its outcome in the words of `[expect]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from folding import check_chunks, codes
from streamfold import Reply, StreamChunk, StreamDecoder, StreamError
from streamfold.recording import Recording


def play(recording: Recording, pieces: Iterable[bytes]) -> Reply | StreamError:
    """The reply, or the error, of a recording in these pieces, after checking the promises about chunks."""
    decoder = StreamDecoder(recording.adapter, **recording.options())
    chunks: list[StreamChunk] = []
    try:
        for piece in pieces:
            chunks += decoder.feed(piece)
        chunks += decoder.close(interrupted=recording.interrupted)
    except StreamError as error:
        check_no_answer(chunks, error)
        return error
    check_chunks(chunks, decoder.reply)
    return decoder.reply


def check_no_answer(chunks: list[StreamChunk], error: StreamError) -> None:
    """What is true of every answer that failed: no call, no finished chunk, and the partial is all there was."""
    assert not any(chunk.finished or chunk.tool_calls for chunk in chunks)
    assert error.partial is not None
    assert error.partial.tool_calls == []
    assert error.partial.text == "".join(chunk.delta for chunk in chunks)


def seen(outcome: Reply | StreamError) -> dict[str, Any]:
    """An outcome in the words of `[expect]`: what it does not name is not in the answer."""
    if isinstance(outcome, StreamError):
        assert outcome.partial is not None
        found: dict[str, Any] = {"error": type(outcome).__name__, "message": outcome.message, **said(outcome.partial)}
    else:
        usage = outcome.usage
        counted = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens")
        counted = (*counted, "reasoning_tokens", "cache_write_tokens")
        found = said(outcome) | {
            "finish_reason": outcome.finish_reason,
            "raw_finish_reason": outcome.raw_finish_reason,
            "usage": {name: getattr(usage, name) for name in counted if getattr(usage, name) is not None}
            if usage
            else None,
            "warnings": codes(outcome),
        }
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def said(reply: Reply) -> dict[str, Any]:
    calls = [{"id": call.id, "name": call.name, "arguments": call.raw_arguments} for call in reply.tool_calls]
    return {"text": reply.text, "reasoning": reply.reasoning, "refusal": reply.refusal, "calls": calls}


def wanted(recording: Recording, outcome: dict[str, Any]) -> dict[str, Any]:
    """`[expect]` in full. A message is compared where one is written: ours may be reworded, a server's may not.

    A call without an id in it is one that got a new id.
    """
    expect = dict(recording.expect)
    if "message" in outcome:
        expect.setdefault("message", outcome["message"])
    if "calls" in expect:
        made = [call["id"] for call in outcome.get("calls", [])]
        fresh = [call_id if re.fullmatch("call_[0-9a-f]{24}", call_id) else "" for call_id in made]
        expect["calls"] = [
            {"id": call_id, **call} for call_id, call in zip_longest(fresh, expect["calls"], fillvalue={})
        ]
    return expect
