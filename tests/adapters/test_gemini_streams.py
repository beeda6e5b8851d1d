"""Arguments of Gemini's calls: their values, and pieces which make no object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold import ProtocolError, StreamDecoder
from streamfold.jsontext import read_arguments
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

    with pytest.raises(ProtocolError, match="can't be assembled"):
        read()


_NUMBERS = [
    "0",
    "-1",
    "1.0",
    "1e22",
    "1e999",
    "-1E400",
    "NaN",
    "-Infinity",
    "9" * 4299,
    "-" + "9" * 4300,
    "9" * 4301,
    "1e-400",
]
_STRINGS = ['""', '"\\ud83d"', '"\\ud83d\\udc4b"', '"\\u0000"', '"é"', '"\\/"', '"{\\"a\\": 1e999}"', '"1e999"']


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\udc4b"']), values), max_size=3)
    return members.map(lambda found: "{" + ", ".join(f"{name}: {value}" for name, value in found) + "}")


_VALUES = st.recursive(
    st.sampled_from([*_NUMBERS, *_STRINGS, "true", "null"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda values: f"[{', '.join(values)}]") | _objects(inner),
    max_leaves=6,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(_objects(_VALUES), min_size=1, max_size=4), st.sampled_from([0, 20]))
@example(['{"a": 1, "a": 1e999}', '{"a": true}', '{"a": ' + "[" * 198 + "]" * 198 + "}"], 20)
def test_arguments_are_what_their_text_says(arguments: list[str], texts: int) -> None:
    """They are not parsed twice where that could only give the same value."""
    parts = ['{"text": "a"}'] * texts + ['{"functionCall": {"id": "a", "name": "f", "args": {}}}'] * (texts // 10)
    parts += [
        f'{{"functionCall": {{"id": "{number}", "name": "f", "args": {text}}}}}'
        for number, text in enumerate(arguments)
    ]
    events = (f'{{"candidates": [{{"content": {{"parts": [{part}]}}}}], "responseId": "r"}}' for part in parts)
    body = "".join(f"data: {event}\n\n" for event in events)
    decoder = StreamDecoder("gemini")
    decoder.feed(body.encode() + b'data: {"candidates": [{"finishReason": "STOP"}]}\n\n')
    decoder.close()
    made = decoder.reply.tool_calls
    assert len(made) == len(parts) - texts
    for call in made:
        read = read_arguments([call.raw_arguments])
        assert (repr(call.arguments), call.raw_arguments) == (repr(read.value), read.raw)
    written = [block["functionCall"]["args"] for block in decoder.reply.extras["blocks"] if "functionCall" in block]
    assert repr(written) == repr([{"_raw": call.raw_arguments} if call.error else call.arguments for call in made])
