"""The bytes of an event stream: what must not break, lose or invent an event. Tests carry the ids of docs/bugs.md."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import (
    DONE,
    assert_any_cut,
    assert_any_cut_error,
    bytewise,
    call,
    calls,
    chunk,
    codes,
    entry,
    event,
    every_split,
    fin,
    fold,
    fragments,
    said_in,
    text,
)
from streamfold import IncompleteStreamError, Limits, ProtocolError, StreamDecoder, UpstreamError, Usage
from tables import each_row

COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\u0085"])
def test_d1_unicode_line_separators_are_text(char: str) -> None:
    """Only CR, LF and CRLF end a line, U+2028 and its kin are text (httpx-sse#34, python-sdk#1356, dify#39008)."""
    reply = assert_any_cut(text(f"a{char}b") + fin("stop") + DONE)
    assert reply.text == f"a{char}b"
    assert codes(reply) == []


REPLIES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "D2: A character of two, three or four bytes survives being cut anywhere (librefang#3448, aisix#111, nuphus#41)": (
        text("é中👋") + fin("stop") + DONE,
        {"text": "é中👋", "codes": []},
    ),
    "D2: The halves of a surrogate pair that a server put into two events are one character": (
        b'data: {"choices":[{"delta":{"content":"hi \\ud83d"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"\\udc4b!"}}]}\n\n' + fin("stop") + DONE,
        {"text": "hi 👋!"},
    ),
    "D2: Half a surrogate pair without its other half becomes U+FFFD, so that text can always be encoded": (
        b'data: {"choices":[{"delta":{"content":"hi \\ud83d"}}]}\n\n' + fin("stop") + DONE,
        {"text": "hi \ufffd"},
    ),
    "D3: CRLF ends a line also when the pair is cut between two reads": (
        (text("a") + fin("stop") + DONE).replace(b"\n", b"\r\n"),
        {"text": "a"},
    ),
    "D4: A lone CR ends a line": (
        (text("a") + fin("stop") + DONE).replace(b"\n", b"\r"),
        {"text": "a"},
    ),
    "D5: A byte-order mark in front does not hide the first event": (
        b"\xef\xbb\xbf" + text("a") + text("b") + fin("stop") + DONE,
        {"text": "ab"},
    ),
    "D7: A whole JSON answer with bytes that are not UTF-8 is read like a stream with such bytes, warning included": (
        b'{"choices":[{"message":{"content":"a\xffb"},"finish_reason":"stop"}]}',
        {"text": "a\ufffdb", "codes": ["invalid_utf8"]},
    ),
    "D7: A character whose last bytes never came is one U+FFFD and takes nothing of what follows with it": (
        b'data: {"choices":[{"delta":{"content":"\xe4\xb8"}}]}\n\n' + text("b") + fin("stop") + DONE,
        {"text": "\ufffdb", "codes": ["invalid_utf8"]},
    ),
    "D8: A comment line between the lines of an event leaves the event whole": (
        b'data: {"choices":[{"delta":\n: ping\ndata: {"content":"a"}}]}\n\n' + fin("stop") + DONE,
        {"text": "a"},
    ),
    "D9: An event without a data line is no event, whatever id was seen before (llmgateway#2334)": (
        b"id: 1\n" + text("a") + b": ping\n\n" + b"id: 2\n\n" + b": ping\n\n" + fin("stop") + DONE,
        {"text": "a", "codes": []},
    ),
    "D14: A payload that is printed over several data lines is one payload": (
        b"data: {\n"
        b'data:   "choices": [\n'
        b'data:     {"delta": {"content": "a\\nb"},\n'
        b'data:      "finish_reason": "stop"}\n'
        b"data:   ]\n"
        b"data: }\n\n" + DONE,
        {"text": "a\nb", "finish_reason": "stop", "codes": []},
    ),
    "D15: Events that only a single line end separates are read one by one, with a warning (Zhipu's older servers)": (
        (text("a") + text("b") + fin("stop") + DONE).replace(b"\n\n", b"\n"),
        {"text": "ab", "finish_reason": "stop", "codes": ["unseparated_events"]},
    ),
    "D23: After the finish reason an event that can't be read is a warning, and the answer stands": (
        text("a") + fin("stop") + b'data: {"usage": {"prompt_to\n\n' + DONE,
        {"text": "a", "codes": ["malformed_event"]},
    ),
}


@each_row("case", REPLIES)
def test_d2_d3_d4_d5_d7_d8_d9_d14_d15_d23_bodies(case: str) -> None:
    """The reply of a body, however that is cut: each with its bytes, and what is in it."""
    body, said = REPLIES[case]
    assert said_in(assert_any_cut(body), *said) == said


@each_row(
    "end",
    [
        pytest.param(b"\n\n" + fin("stop") + DONE, id="in the middle"),
        pytest.param(b"\n\n" + DONE, id="before the terminator"),
        pytest.param(b"\n\n", id="at the end"),
        pytest.param(b"\n", id="without a blank line"),
        pytest.param(b"", id="without a line end"),
    ],
)
def test_d7_invalid_utf8(end: bytes) -> None:
    """Bytes that are not UTF-8 become U+FFFD, the stream goes on, and a warning says so."""
    body = b'data: {"choices":[{"delta":{"content":"a\xff\xfeb"},"finish_reason":"stop"}]}' + end
    reply = assert_any_cut(body)
    assert reply.text == "a\ufffd\ufffdb"
    assert codes(reply) == ["invalid_utf8"]


def test_d7_invalid_utf8_in_the_event_that_ends_the_answer() -> None:
    """The warning is on the reply also when the event with the bad bytes holds the terminator too."""
    body = b'data: {"choices":[{"delta":{"content":"a\xff"},"finish_reason":"stop"}]}\ndata: [DONE]\n\n'
    reply = assert_any_cut(body)
    assert reply.text == "a\ufffd"
    assert sorted(codes(reply)) == ["invalid_utf8", "unseparated_events"]


@each_row("comment", [b": OPENROUTER PROCESSING\n\n", b":\n\n", b":\n", b": a: b\n", b":data: x\n\n"])
def test_d8_comments_keep_alive(comment: bytes) -> None:
    """Comments such as OpenRouter's are ignored before the first event, between events and after the last one."""
    body = comment + text("a") + comment + comment + text("b") + comment + fin("stop") + comment + DONE + comment
    reply = assert_any_cut(body)
    assert reply.text == "ab"
    assert codes(reply) == []


def test_d10_retry_alone() -> None:
    """A block with nothing but a retry time is ignored wherever it comes (openai-python#2722, hermes-agent#111887)."""
    retry = b"retry: 3000\n\n"
    assert assert_any_cut(retry + text("a") + retry + fin("stop") + retry + DONE).text == "a"


@pytest.mark.parametrize("name", [b"event: ping\n\n", b"event\n\n", b"event: error\n\n"])
def test_d11_event_name_alone(name: bytes) -> None:
    """A block with nothing but an event name is ignored, and the name does not stick to the next event (#2722)."""
    assert assert_any_cut(name + text("a") + name + fin("stop") + name + DONE).text == "a"


@each_row("empty", [b"data:\n\n", b"data: \n\n", b"data\n\n", b"data:\ndata:\n\n", b"event: ping\ndata:\n\n"])
def test_d12_empty_data(empty: bytes) -> None:
    """An event whose data is empty says nothing and is ignored (openai-python#3833, omnigent#1474)."""
    reply = assert_any_cut(empty + text("a") + empty + fin("stop") + empty + DONE)
    assert reply.text == "a"
    assert codes(reply) == []


@each_row("start", [b"data:", b"data: ", b"data:  ", b"data:\t"])
def test_d13_blanks_after_the_colon(start: bytes) -> None:
    """One blank after the colon, none or two make no difference to a JSON payload (Alibaba sends none)."""
    assert assert_any_cut((text("a") + fin("stop") + DONE).replace(b"data: ", start)).text == "a"


def test_d15_call_over_unseparated_events() -> None:
    """A tool call in fragments comes out whole of events that only a single line end separates."""
    body = fragments('0 a f {"x":', "0 - - 1}") + fin("tool_calls") + DONE
    reply = assert_any_cut(body.replace(b"\n\n", b"\n"))
    assert calls(reply) == [("a", "f", {"x": 1})]


def test_d15_error_among_unseparated_events() -> None:
    """An error among unseparated payloads is raised, and the text before it is in the partial answer."""
    body = (text("a") + event({"error": {"message": "overloaded", "code": 503}})).replace(b"\n\n", b"\n") + b"\n"
    error = assert_any_cut_error(body)
    assert type(error) is UpstreamError
    assert error.message == "overloaded"
    assert error.partial is not None
    assert error.partial.text == "a"


def test_d15_last_unseparated_payload_cut_off() -> None:
    """When the last of several unseparated payloads is cut off, those before it are in the partial answer."""
    body = (text("a") + text("b")).replace(b"\n\n", b"\n") + b'data: {"id": "c1", "choi'
    for pieces in ([body], bytewise(body), *every_split(body)):
        decoder = StreamDecoder("chat")
        assert [made for piece in pieces for made in decoder.feed(piece)] == []
        assert [made.delta for made in decoder.end()] == ["a", "b"]
        with pytest.raises(IncompleteStreamError) as caught:
            decoder.close()
        assert caught.value.partial is not None
        assert caught.value.partial.text == "ab"


@each_row(
    "body",
    [
        b'{"message":{"content":"Hel"},"done":false}\n{"message":{"content":"lo"},"done":true}\n',
        b'{"a":1}\r\n{"b":2}\r\n',
        b'{"a":1}\n{"b":2}',
        b'{"a":1}\n{"b":2}\n{"c',
    ],
)
def test_d16_newline_delimited_json(body: bytes) -> None:
    """Newline-delimited JSON, as Ollama's own API sends it, is refused by name and not called a cut-off answer."""
    error = assert_any_cut_error(body)
    assert type(error) is ProtocolError
    assert error.message.startswith("the answer is newline-delimited JSON instead of server-sent events: ")
    assert not error.retryable


@pytest.mark.parametrize("indent", [None, 2])
def test_d18_whole_completion_instead_of_a_stream(indent: int | None) -> None:
    """A whole completion as a plain JSON body is read as the answer, text, finish reason and usage."""
    reply = assert_any_cut(json.dumps(COMPLETION, indent=indent).encode())
    assert (reply.text, reply.finish_reason, reply.id, reply.model) == ("Hello", "stop", "c1", "m")
    assert reply.usage == Usage(3, 2, 5, raw=COMPLETION["usage"])
    assert codes(reply) == []


def test_d18_whole_completion_that_was_cut_by_its_length() -> None:
    """A whole completion with finish reason "length" hands out no calls, like a stream."""
    message = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x'}}]}
    body = {**COMPLETION, "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    reply = assert_any_cut(json.dumps(body).encode())
    assert reply.tool_calls == []
    assert codes(reply) == ["calls_dropped"]


@each_row(
    "endless",
    [
        pytest.param(b"x" * 2000, id="line"),
        pytest.param(b"data: " + b"x" * 2000, id="data line"),
        pytest.param(b"data: x\n" * 300, id="data lines"),
        pytest.param(b"data\n" * 300, id="empty data lines"),
        pytest.param(b"event: ping\n" * 200, id="event names"),
        pytest.param(b": " + b"x" * 2000, id="comment"),
        pytest.param(b"id: " + b"x" * 2000, id="id"),
        pytest.param(b"data: x\n" + b"retry: 1\n" * 200, id="retry times"),
    ],
)
def test_d22_endless_event(endless: bytes) -> None:
    """An event without an end is refused at the limit, and what came before it is kept."""
    error = assert_any_cut_error(text("a") + endless, limits=Limits(event_bytes=1000))
    assert type(error) is ProtocolError
    assert error.message == "one event is larger than 1000 bytes (limits.event_bytes)"
    assert error.partial is not None
    assert error.partial.text == "a"
    assert not error.retryable


def test_d22_endless_json_body() -> None:
    """A JSON body without an end is refused at the limit."""
    error = assert_any_cut_error(b'{"x":"' + b"y" * 2000, limits=Limits(event_bytes=1000))
    assert type(error) is ProtocolError
    assert error.message == "the body is larger than 1000 bytes (limits.event_bytes)"


def test_d22_nothing_is_too_large_after_the_end() -> None:
    """What comes after the terminator is not read, however large it is."""
    body = text("a") + fin("stop") + DONE + b"data: " + b"x" * 2000 + b"\n\n"
    assert assert_any_cut(body, limits=Limits(event_bytes=200)).text == "a"


@each_row(
    "data",
    [
        '{"id": "c1", "choi',
        '{"choices": [}',
        "{'choices': []}",
        '{"choices": []} trailing',
        "5",
        '"a string"',
        "null",
        "true",
    ],
)
def test_d23_malformed_event(data: str) -> None:
    """An event that can't be read is a ProtocolError that shows it, with the partial answer and never a bare one."""
    error = assert_any_cut_error(text("Hel") + f"data: {data}\n\n".encode() + text("lo") + fin("stop") + DONE)
    assert type(error) is ProtocolError
    assert error.message.startswith("invalid SSE event (")
    assert error.message.endswith(f"): {data!r}")
    assert error.body == data
    assert error.transcript[-1] == data
    assert error.partial is not None
    assert error.partial.text == "Hel"
    assert not error.retryable


def test_d23_malformed_event_in_the_middle_of_a_call() -> None:
    """No call is handed out when an event that can't be read came among its fragments."""
    body = call(entry(0, "a", "f", '{"x":1}')) + b'data: {"choi\n\n' + fin("tool_calls") + DONE
    assert type(assert_any_cut_error(body)) is ProtocolError


def test_d23_long_payloads_are_shown_in_part() -> None:
    """The message shows the beginning of a malformed event, `body` has all of it."""
    error = assert_any_cut_error(b"data: {" + b"x" * 500 + b"\n\n")
    assert len(error.message) < 400
    assert error.body == "{" + "x" * 500


def test_d23_events_that_are_no_chunks() -> None:
    """JSON objects that no chunk looks like say nothing and are ignored (the data of a ping, an empty object)."""
    reply = fold(event({"type": "ping"}) + event({}) + chunk({"content": "a"}) + event({"x": [1]}) + fin("stop") + DONE)
    assert reply.text == "a"
    assert codes(reply) == []
