"""Whatever a server sends, only our own errors come out, and what comes out has the types that are promised."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import DONE, bytewise, call, chunk, codes, entry, event, fin, fold, random_cut, text
from odd_values import VALUES, check_types, outcome, paths, replaced
from scale import examples, pick
from streamfold import Limits, Reply, StreamError, Usage
from streamfold.engine import DIALECTS
from streamfold.engine.response_body import error_body
from streamfold.errors import error_info, status_error
from tables import each_row

# --- any value in place of any member --------------------------------------------------------------------------------


CHUNK: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "delta": {
                "role": "assistant",
                "content": "Hello",
                "reasoning_content": "hm",
                "reasoning": "hm",
                "thinking": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
                "refusal": "no",
                "annotations": [{"type": "url_citation"}],
                "audio": {"id": "au1"},
                "function_call": {"name": "h", "arguments": "{}"},
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "a",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x":1}'},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    },
                    {"index": 0, "function": {"arguments": ""}},
                ],
            },
            "message": {"content": "Hello"},
            "finish_reason": None,
            "logprobs": None,
            "usage": None,
            "error": None,
        }
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "cached_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
    "x_groq": {"id": "r1", "usage": None, "error": None},
    "error": None,
}

ERROR: dict[str, Any] = {
    "error": {"message": "boom", "type": "server_error", "code": 500, "status": "INTERNAL", "param": None},
    "object": "error",
    "message": "boom",
    "code": 500,
    "status": 500,
    "detail": [{"msg": "boom"}],
}


def api(payload: Any) -> bytes:
    """One event; half a surrogate pair goes out as the escape that servers send."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


ODD_CHUNKS = st.builds(replaced, st.just(CHUNK), st.sampled_from(paths(CHUNK)), VALUES)
ODD_ERRORS = st.builds(replaced, st.just(ERROR), st.sampled_from(paths(ERROR)), VALUES)


@settings(deadline=None, max_examples=examples(200))
@given(ODD_CHUNKS)
def test_any_value_in_place_of_any_member_of_a_chunk(odd: Any) -> None:
    """A chunk with any JSON value in any place ends in an answer or in one of our errors, of the promised types."""
    check_types(outcome(text("a") + api(odd) + fin("stop") + DONE))


@settings(deadline=None, max_examples=examples(100))
@given(ODD_CHUNKS, ODD_CHUNKS)
def test_two_odd_chunks(one: Any, two: Any) -> None:
    """Two such chunks in a row end so too, with calls handed out."""
    check_types(outcome(api(one) + api(two) + fin("tool_calls") + DONE))


@settings(deadline=None, max_examples=examples(100))
@given(ODD_CHUNKS)
def test_any_value_in_place_of_any_member_of_a_json_body(odd: Any) -> None:
    """The same as a whole JSON body."""
    body = json.dumps(odd).encode()
    check_types(outcome(body))
    check_types(outcome(body, bytewise(body)))


@settings(deadline=None, max_examples=examples(150))
@given(ODD_ERRORS, st.sampled_from([b"", b"event: error\n", b"event: x\n"]))
def test_any_value_in_place_of_any_member_of_an_error(odd: Any, name: bytes) -> None:
    """An error with any JSON value in any place, as an event, as a named event and as a whole body."""
    check_types(outcome(text("a") + name + api(odd) + fin("stop") + DONE))
    check_types(outcome(json.dumps(odd).encode()))


@settings(deadline=None, max_examples=examples(100))
@given(VALUES)
def test_any_value_as_an_event(payload: Any) -> None:
    """An event that is any JSON value at all."""
    check_types(outcome(text("a") + api(payload) + fin("stop") + DONE))


# --- what the fuzz has found -----------------------------------------------------------------------------------------


WEIRD = [5, 0, -1, 1.5, True, False, "x", "", [], [5], [None], [[]], ["x"], [{}], {}, {"a": 1}, {"index": 0}]


@each_row("value", WEIRD)
@each_row(
    "name", ["content", "reasoning_content", "reasoning_details", "refusal", "annotations", "audio", "tool_calls"]
)
def test_weird_member_of_a_delta(name: str, value: Any) -> None:
    """A member of a delta that is of another kind is no reason to lose the text round it."""
    reply = fold(text("a") + chunk({name: value}) + text("b") + fin("stop") + DONE)
    assert reply.text.startswith("a")
    assert reply.text.endswith("b")
    assert reply.finish_reason == "stop"
    check_types(reply)


@each_row("value", WEIRD)
@each_row("name", ["id", "object", "created", "model", "usage", "x_groq", "system_fingerprint"])
def test_weird_member_of_a_chunk(name: str, value: Any) -> None:
    """A member of a chunk that is of another kind is no reason to lose the answer."""
    reply = fold(text("a") + chunk({"content": "b"}, **{name: value}) + fin("stop") + DONE)
    assert (reply.text, reply.finish_reason) == ("ab", "stop")
    check_types(reply)


@each_row("value", WEIRD)
def test_weird_choices(value: Any) -> None:
    """Choices that can't be read are one of our errors."""
    check_types(outcome(text("a") + event({"choices": value}) + fin("stop") + DONE))


@each_row("value", WEIRD)
def test_weird_finish_reason(value: Any) -> None:
    """A finish reason that is no text never becomes "stop" and never breaks anything but the answer."""
    ended = outcome(text("a") + event({"choices": [{"delta": {}, "finish_reason": value}]}) + DONE)
    check_types(ended)
    if isinstance(ended, Reply):
        assert (ended.text, ended.finish_reason) == ("a", "unknown")


@each_row("value", WEIRD)
@each_row("name", ["index", "id", "type", "function", "extra_content"])
def test_weird_member_of_a_call(name: str, value: Any) -> None:
    """A member of a call's entry that is of another kind leaves the other calls whole."""
    odd = {**entry(1, "b", "g", '{"y":2}', type="function"), name: value}
    reply = fold(call(entry(0, "a", "f", '{"x":1}')) + call(odd) + fin("tool_calls") + DONE)
    assert [(made.id, made.arguments) for made in reply.tool_calls][:1] == [("a", {"x": 1})]
    check_types(reply)


@each_row("value", WEIRD)
@each_row("name", ["name", "arguments"])
def test_weird_member_of_a_function(name: str, value: Any) -> None:
    """A name or arguments that are of another kind leave the other calls whole."""
    odd = {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}", name: value}}
    reply = fold(call(entry(0, "a", "f", '{"x":1}')) + call(odd) + fin("tool_calls") + DONE)
    assert [(made.id, made.arguments) for made in reply.tool_calls][:1] == [("a", {"x": 1})]
    check_types(reply)


@each_row("number", [b"1" * 5000, b"-" + b"1" * 5000, b"1e400", b"-1e400", b"NaN", b"Infinity", b"1.5e-400"])
@each_row(
    "body",
    [
        pytest.param(b'{"created":%s,"choices":[]}', id="created"),
        pytest.param(b'{"choices":[],"usage":{"prompt_tokens":%s}}', id="usage"),
        pytest.param(b'{"choices":[{"index":%s,"delta":{}}]}', id="choice"),
        pytest.param(
            b'{"choices":[{"delta":{"tool_calls":[{"index":%s,"id":"a","function":{"name":"f"}}]}}]}', id="index"
        ),
        pytest.param(b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":%s,"function":{"name":"f"}}]}}]}', id="id"),
        pytest.param(b'{"error":{"message":"m","code":%s}}', id="code"),
    ],
)
def test_numbers_beyond_measure(body: bytes, number: bytes) -> None:
    """Numbers that no integer or float holds end in an answer or in one of our errors."""
    check_types(outcome(text("a") + b"data: " + body % number + b"\n\n" + fin("tool_calls") + DONE))


@each_row("depth", [100, 250, 400, 600, 900, 990, 5000])
@each_row(
    ("start", "end"),
    [
        pytest.param(b"[", b"]", id="lists"),
        pytest.param(b'{"error":', b"}", id="errors"),
        pytest.param(b'{"message":', b"}", id="messages"),
        pytest.param(b'{"detail":[', b"]}", id="details"),
        pytest.param(b'{"choices":[', b"]}", id="choices"),
    ],
)
def test_nesting(start: bytes, end: bytes, depth: int) -> None:
    """JSON of any depth ends in an answer or in one of our errors, as an event, as an error event and as a body."""
    payload = start * depth + b'"x"' + end * depth
    check_types(outcome(text("a") + b"data: " + payload + b"\n\n" + fin("stop") + DONE))
    check_types(outcome(text("a") + b"event: error\ndata: " + payload + b"\n\n" + fin("stop") + DONE))
    check_types(outcome(text("a") + b'data: {"error":' + payload + b"}\n\n" + fin("stop") + DONE))
    check_types(outcome(payload))


@each_row("depth", [100, 250, 400, 600, 900, 990, 5000])
def test_nesting_of_arguments(depth: int) -> None:
    """Arguments of any depth are parsed or reported as invalid, as text and as an object."""
    nested = '{"a":' * depth + "1" + "}" * depth
    (made,) = fold(call(entry(0, "a", "f", nested)) + fin("tool_calls") + DONE).tool_calls
    assert made.raw_arguments == nested
    assert made.error in (None, "invalid_json")
    body = b'data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":%s}}]}}]}\n\n'
    check_types(outcome(text("a") + body % nested.encode() + fin("tool_calls") + DONE))


@each_row(
    "body",
    [
        pytest.param(b'{"id":"a\\ud83db","choices":[]}', id="id"),
        pytest.param(b'{"model":"a\\ud83db","choices":[]}', id="model"),
        pytest.param(b'{"choices":[{"delta":{},"finish_reason":"a\\ud83db"}]}', id="finish reason"),
        pytest.param(b'{"choices":[{"delta":{"refusal":"a\\ud83db"}}]}', id="refusal"),
        pytest.param(b'{"choices":[{"delta":{"reasoning_content":"a\\ud83db"}}]}', id="reasoning"),
        pytest.param(
            b'{"choices":[{"delta":{"tool_calls":[{"id":"a\\ud83db","function":{"name":"f"}}]}}]}', id="call id"
        ),
        pytest.param(b'{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"a\\ud83db"}}]}}]}', id="name"),
        pytest.param(
            b'{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"a\\ud83db"}}]}}]}',
            id="arguments",
        ),
        pytest.param(b'{"choices":[{"delta":{"annotations":[{"a\\ud83db":"a\\ud83db"}]}}]}', id="extras"),
        pytest.param(b'{"error":{"message":"a\\ud83db"}}', id="error"),
    ],
)
def test_whatever_comes_out_can_be_encoded(body: bytes) -> None:
    """Half a surrogate pair in any place never reaches what is printed or sent back with the next request."""
    ended = outcome(b"data: " + body + b"\n\n" + fin("tool_calls") + DONE)
    assert str(ended).encode()
    reply = ended.partial if isinstance(ended, StreamError) else ended
    assert reply is not None
    assert json.dumps([reply.id, reply.model, reply.raw_finish_reason, reply.extras], ensure_ascii=False).encode()
    for made in reply.tool_calls:
        assert json.dumps([made.id, made.name, made.raw_arguments, made.arguments], ensure_ascii=False).encode()


def test_usage_that_is_wrong_does_not_replace_one_that_is_right() -> None:
    """A later usage that is no object leaves the one before it."""
    body = text("a") + chunk({}, "stop", usage={"prompt_tokens": 3}) + event({"choices": [], "usage": [1]}) + DONE
    reply = fold(body)
    assert reply.usage == Usage(3, raw={"prompt_tokens": 3})
    assert codes(reply) == []


# --- any bytes -------------------------------------------------------------------------------------------------------


PIECES = st.one_of(
    st.sampled_from(
        [
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b" ",
            b"\xef\xbb\xbf",
            b"data: ",
            b"data:",
            b"data",
            b"event: error\n",
            b"event: x\n",
            b"id: 1\n",
            b"retry: 1\n",
            b": ping\n",
            b"error: boom\n",
            b"[DONE]",
            b"<html>",
            b"Bad Gateway",
            b"{",
            b"}",
            b"[",
            b'"',
            b"\xff",
            "中".encode(),
            b'{"error":"boom"}',
            b'{"choices":[]}',
            text("a"),
            fin("stop"),
            DONE,
            call(entry(0, "a", "f", '{"x":1}')),
            text("a").rstrip(b"\n"),
            text("a")[:30],
        ]
    ),
    st.binary(max_size=4),
)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(PIECES, max_size=10).map(b"".join), st.sampled_from([Limits(), Limits(event_bytes=60)]), st.randoms())
def test_any_bytes(body: bytes, limits: Limits, rng: Any) -> None:
    """Any bytes end in an answer or in one of our errors, and in the same one however they are cut."""
    whole = outcome(body, limits=limits)
    check_types(whole)
    for pieces in (bytewise(body), random_cut(body, rng), random_cut(body, rng)):
        other = outcome(body, pieces, limits=limits)
        if isinstance(whole, Reply):
            assert other == whole
        else:
            assert (type(other), str(other)) == (type(whole), str(whole))


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(PIECES, max_size=6).map(b"".join), st.sampled_from([400, 401, 429, 500, 529]))
def test_any_bytes_as_the_body_of_an_error_status(body: bytes, status: int) -> None:
    """Whatever an error says, it is the error of its status, with a message that can be printed."""
    read = error_body(body.decode("utf-8", "replace").strip()) or "no message"
    error = status_error(error_info(read, status=status))
    assert error.status_code == status
    assert isinstance(error.retryable, bool)
    assert error.message
    assert str(error).encode()


# --- recorded bytes, damaged -----------------------------------------------------------------------------------------


BODIES = [path.read_bytes()[:6000] for path in sorted((Path(__file__).parents[2] / "fixtures").rglob("*.sse"))]
DECODERS = [
    *({"adapter": adapter} for adapter in ("chat", "kimi", "responses")),
    *({"adapter": "chat", "dialect": dialect} for dialect in [*sorted(DIALECTS), "think+hermes", "glm+kimi"]),
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A recorded body after a few of: a byte changed, a stretch lost, repeated, or replaced by one of another body."""
    body = bytearray(draw(st.sampled_from(BODIES)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.sampled_from([1, 2, 7, 50, 400])))
        match draw(st.sampled_from(["flip", "lose", "repeat", "splice", "cut"])):
            case "flip" if start < end:
                body[start] ^= 1 << draw(st.integers(0, 7))
            case "lose":
                del body[start:end]
            case "repeat":
                body[end:end] = body[start:end] * draw(st.integers(1, 3))
            case "splice":
                other = draw(st.sampled_from(BODIES))
                at = draw(st.integers(0, len(other)))
                body[start:end] = other[at : at + end - start]
            case _:
                del body[start:]
    return bytes(body)


@settings(deadline=None, max_examples=int(os.environ.get("STREAMFOLD_FUZZ") or pick(5000, 200)))
@given(damaged(), st.sampled_from(DECODERS), st.booleans(), st.randoms())
def test_damaged_recordings(body: bytes, decoder: dict[str, Any], small: bool, rng: Any) -> None:
    """However a recording is damaged and whatever reads it: an answer or one of our errors, soon, and no larger."""
    limits = Limits(event_bytes=2000, arguments_chars=200, tool_calls=3) if small else Limits()
    choice = {"type": "function", "function": {"name": "get_weather"}} if decoder.get("dialect") == "named" else "auto"
    began = process_time()
    for pieces in ([body], random_cut(body, rng)):
        ended = outcome(body, pieces, limits=limits, tools=[TOOL], tool_choice=choice, **decoder)
        check_types(ended)
        reply = ended.partial if isinstance(ended, StreamError) else ended
        assert reply is not None
        arguments = sum(len(made.raw_arguments) for made in reply.tool_calls)
        assert len(reply.text) + len(reply.reasoning) + arguments <= 2 * len(body)
        assert len(reply.warnings) <= len(body)
    assert process_time() - began < 10
