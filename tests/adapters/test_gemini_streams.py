"""Arguments of Gemini's calls that come in pieces which make no object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import ProtocolError, StreamDecoder
from tables import each_row


def _arguments_in_pieces(*pieces: dict[str, Any], args: Any = None) -> bytes:
    calls = [{"name": "f", "willContinue": True, **({"args": args} if args is not None else {})}]
    calls += [{"partialArgs": [piece], "willContinue": True} for piece in pieces]
    parts = [[{"functionCall": call}] for call in [*calls, {}]]
    chunks: list[dict[str, Any]] = [{"candidates": [{"content": {"parts": part}}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


@each_row(
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
@each_row("size", [1, 10**6])
def test_pieces_of_arguments_that_make_no_object(body: bytes, size: int) -> None:
    """They are an error of ours, and no call comes of them."""
    decoder, size = StreamDecoder("gemini"), size if len(body) < 10_000 else 10**6

    def read() -> None:
        for at in range(0, len(body), size):
            assert not any(chunk.tool_calls for chunk in decoder.feed(body[at : at + size]))
        decoder.close()

    with pytest.raises(ProtocolError, match="can't be put together"):
        read()
