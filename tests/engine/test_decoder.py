"""What `StreamDecoder` promises by itself: when errors are raised, when it is done, and what else a body may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from httpx_sse import ServerSentEvent

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
    fold_chunks,
    fold_error,
    fragments,
    text,
)
from streamfold import (
    EmptyResponseError,
    IncompleteStreamError,
    Limits,
    ProtocolError,
    StreamChunk,
    StreamDecoder,
    StreamError,
    StreamfoldError,
    UpstreamError,
)
from streamfold.adapters import Adapter, EncodingReport
from streamfold.deltas import Delta, Finish, TextDelta
from tables import each_row

BOOM = event({"error": {"message": "boom"}})


def said(chunks: list[StreamChunk]) -> list[str]:
    """The text of each chunk."""
    return [made.delta for made in chunks]


# --- chunks, done, reply ---------------------------------------------------------------------------------------------


def test_chunks_come_with_the_bytes_that_complete_them() -> None:
    """Each call returns what its bytes completed, and the finished chunk comes with the terminator."""
    decoder = StreamDecoder("chat")
    assert said(decoder.feed(text("a")[:-1])) == []
    assert said(decoder.feed(b"\n" + text("b") + text("c")[:20])) == ["a", "b"]
    assert said(decoder.feed(text("c")[20:])) == ["c"]
    assert decoder.feed(fin("stop")) == []
    assert decoder.feed(b"") == []
    assert not decoder.done
    (last,) = decoder.feed(DONE)
    assert (last.finished, last.finish_reason) == (True, "stop")
    assert decoder.done
    assert decoder.close() == []


def test_close_twice() -> None:
    """A second `close` has nothing left and raises nothing."""
    decoder = StreamDecoder("chat")
    decoder.feed(text("a") + fin("stop"))
    assert [made.finished for made in decoder.close()] == [True]
    assert decoder.close() == []
    assert decoder.close(interrupted="the connection broke") == []
    assert decoder.reply.warnings == []


def test_reply_before_the_end() -> None:
    """Asking for the reply too early is a clear error of ours, before the first byte and in mid-stream."""
    decoder = StreamDecoder("chat")
    with pytest.raises(StreamfoldError, match="the reply isn't available"):
        _ = decoder.reply
    decoder.feed(text("a") + fin("stop"))
    with pytest.raises(StreamfoldError, match="the reply isn't available"):
        _ = decoder.reply
    decoder.close()
    assert decoder.reply.text == "a"


def test_reply_after_an_error() -> None:
    """After an error there is no reply; what had come is on the error."""
    decoder = StreamDecoder("chat")
    decoder.feed(text("a") + BOOM)
    with pytest.raises(StreamfoldError, match="the reply isn't available"):
        _ = decoder.reply
    with pytest.raises(UpstreamError):
        decoder.close()
    with pytest.raises(StreamfoldError, match="the reply isn't available"):
        _ = decoder.reply


def test_feed_after_the_terminator_is_ignored() -> None:
    """What comes after the terminator is not read: no text, no second end, no error."""
    decoder = StreamDecoder("chat")
    chunks = decoder.feed(text("a") + fin("stop") + DONE + text("b") + BOOM)
    assert said(chunks) == ["a", ""]
    assert decoder.feed(text("c") + fin("length") + DONE) == []
    assert decoder.feed(b"data: {broken\n\n") == []
    assert decoder.close() == []
    assert (decoder.reply.text, decoder.reply.finish_reason) == ("a", "stop")
    assert decoder.reply.warnings == []


def test_feed_after_close() -> None:
    """Bytes after `close` are a mistake of the caller and said to be one."""
    decoder = StreamDecoder("chat")
    decoder.feed(text("a") + fin("stop"))
    decoder.close()
    with pytest.raises(StreamfoldError, match="after close"):
        decoder.feed(text("b"))
    assert decoder.reply.text == "a"


# --- when errors are raised ------------------------------------------------------------------------------------------


def test_what_came_before_an_error_is_returned() -> None:
    """The chunks before an error are returned, and the next call raises the error, again and again."""
    decoder = StreamDecoder("chat")
    assert said(decoder.feed(text("Hel") + text("lo") + BOOM + text("never"))) == ["Hel", "lo"]
    assert decoder.done
    for _ in range(2):
        with pytest.raises(UpstreamError, match="boom") as caught:
            decoder.feed(text("more"))
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Hello"
    with pytest.raises(UpstreamError, match="boom"):
        decoder.close()
    with pytest.raises(UpstreamError, match="boom"):
        decoder.feed(b"")


def test_an_error_is_raised_by_close_too() -> None:
    """When no further call to `feed` comes, `close` raises the error, however often."""
    decoder = StreamDecoder("chat")
    assert said(decoder.feed(text("a") + BOOM)) == ["a"]
    for _ in range(2):
        with pytest.raises(UpstreamError, match="boom"):
            decoder.close()
    with pytest.raises(UpstreamError, match="boom"):
        decoder.feed(text("b"))


@pytest.mark.parametrize("end", [b"\n", b""])
def test_text_of_the_last_event_before_an_error_at_the_end(end: bytes) -> None:
    """Text that only the end of the body completes is returned by `end`; the error that `close` raises has it then."""
    body = text("Hel") + text("lo").rstrip(b"\n") + end
    for pieces in ([body], bytewise(body), *every_split(body)):
        decoder = StreamDecoder("chat")
        assert [word for piece in pieces for word in said(decoder.feed(piece))] == ["Hel"]
        assert said(decoder.end()) == ["lo"]
        for _ in range(2):
            with pytest.raises(IncompleteStreamError) as caught:
                decoder.close()
            assert caught.value.partial is not None
            assert caught.value.partial.text == "Hello"


@pytest.mark.parametrize("end", [b"\n", b""])
def test_close_alone_loses_nothing(end: bytes) -> None:
    """Without `end`, `close` returns nothing before it raises: its partial answer has the text that was left."""
    decoder = StreamDecoder("chat", dialect="think")
    shown = decoder.feed(text("<think>hm</think>Hel") + text("lo <")[:-2] + end)
    for _ in range(2):
        with pytest.raises(IncompleteStreamError) as caught:
            decoder.close()
        partial = caught.value.partial
        assert partial is not None
        assert (partial.reasoning, partial.text) == ("hm", "Hello <")
    assert said(shown) == ["", "Hel"]


def test_end_of_an_answer_that_is_whole() -> None:
    """`end` returns the finished chunk as `close` does, once; `close` has nothing to add."""
    decoder = StreamDecoder("chat")
    decoder.feed(text("Hi") + fin("stop"))
    assert [made.finished for made in decoder.end()] == [True]
    assert decoder.end() == decoder.close() == []
    assert decoder.reply.text == "Hi"


# --- transcripts and partial answers ---------------------------------------------------------------------------------


@each_row(
    ("end", "kind"),
    [
        (b'data: {"error": "boom"}\n\n', UpstreamError),
        (b"data: {broken\n\n", ProtocolError),
        (b"data: {broken", IncompleteStreamError),
        (b"", IncompleteStreamError),
        (b"data: " + b"x" * 2000, ProtocolError),
    ],
)
def test_transcript(end: bytes, kind: type[StreamError]) -> None:
    """Every error has the payloads that were received, the one that caused it last, as they came."""
    body = b": ping\n\n" + b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' + b"event: x\ndata: {}\n\n" + end
    error = assert_any_cut_error(body, limits=Limits(event_bytes=1000))
    assert type(error) is kind
    shown = {b'data: {"error": "boom"}\n\n': ['{"error": "boom"}'], b"data: {broken\n\n": ["{broken"]}
    shown[b"data: {broken"] = ["{broken"]
    assert list(error.transcript) == ['{"choices": [{"delta": {"content": "a"}}]}', "{}", *shown.get(end, [])]


def test_transcript_of_a_long_answer() -> None:
    """An error has the last 20 payloads."""
    decoder = StreamDecoder("chat")
    events = [text(f" {number}") for number in range(30)]
    for raw in (b"".join(events[:25]), *events[25:]):
        decoder.feed(raw)
    decoder.feed(BOOM)
    with pytest.raises(UpstreamError) as caught:
        decoder.close()
    *texts, last = [json.loads(payload) for payload in caught.value.transcript]
    assert [payload["choices"][0]["delta"]["content"] for payload in texts] == [f" {n}" for n in range(11, 30)]
    assert last == {"error": {"message": "boom"}}


def test_partial_answer() -> None:
    """The partial answer has everything but the calls: text, reasoning, names, usage and warnings."""
    body = (
        chunk({"reasoning_content": "hm"})
        + chunk({"content": "Hel"}, usage={"prompt_tokens": 3})
        + call(entry(0, "a", "f", '{"x":1}'))
        + event({"id": "c1", "choices": [{"index": 1, "delta": {"content": "no"}}]})
        + text("lo")
        + BOOM
    )
    partial = assert_any_cut_error(body).partial
    assert partial is not None
    assert (partial.text, partial.reasoning, partial.id, partial.model) == ("Hello", "hm", "c1", "m")
    assert partial.usage is not None
    assert partial.usage.input_tokens == 3
    assert partial.tool_calls == []
    assert (partial.finish_reason, partial.raw_finish_reason) == ("unknown", None)
    assert codes(partial) == ["extra_choice"]


# --- the end of the input --------------------------------------------------------------------------------------------


def test_interrupted_before_the_first_event() -> None:
    """A connection that broke before the first event is an incomplete stream and not an empty answer."""
    with pytest.raises(IncompleteStreamError, match="the connection broke before the response was complete"):
        StreamDecoder("chat").close(interrupted="the connection broke")


def test_interrupted_in_the_middle_of_a_json_body() -> None:
    """A JSON body that was cut by a broken connection is an incomplete stream that says so."""
    decoder = StreamDecoder("chat")
    decoder.feed(b'{"choices": [{"mess')
    with pytest.raises(IncompleteStreamError, match="the connection broke in the middle of a JSON response"):
        decoder.close(interrupted="the connection broke")


@each_row("half", [b'data: {"id": "c1", "choi', b'data: {"id": "c1", "choi\n', b"data: [DON", b"data: {"])
def test_half_an_event_at_the_end(half: bytes) -> None:
    """Half an event is an incomplete stream, with what came before it."""
    error = assert_any_cut_error(text("a") + half)
    assert type(error) is IncompleteStreamError
    assert error.message == "the stream ended before the response was complete"
    assert error.retryable
    assert error.partial is not None
    assert error.partial.text == "a"
    assert codes(error.partial) == ["truncated_event"]


@pytest.mark.parametrize("half", [b'data: {"id": "c1", "choi', b'data: {"id": "c1", "choi\n', b"data: {"])
def test_half_an_event_and_nothing_before_it(half: bytes) -> None:
    """Half an event alone is an incomplete stream, not an empty answer: something came, and was cut off."""
    error = assert_any_cut_error(half)
    assert type(error) is IncompleteStreamError
    assert error.retryable


@each_row("half", [b'data: {"id": "c1", "choi', b"data: [DON", b"data", b"dat", b"data:", b":", b"event: x"])
def test_half_an_event_after_the_finish_reason(half: bytes) -> None:
    """Half an event after the finish reason does no harm; where it held data there is a warning."""
    reply = assert_any_cut(text("a") + fin("stop") + half)
    assert (reply.text, reply.finish_reason) == ("a", "stop")
    assert codes(reply) == (["truncated_event"] if half.startswith(b"data: ") else [])


# --- bodies that are not event streams -------------------------------------------------------------------------------


COMPLETION = {
    "id": "c1",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "reasoning_content": "hm",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3},
}


@each_row("start", [b"", b" ", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b" " * 1000])
@each_row("end", [b"", b"\n", b" \r\n\r\n"])
def test_whole_completion(start: bytes, end: bytes) -> None:
    """A whole completion is read as the answer, calls and all, with any white space round it."""
    chunks, reply = fold_chunks(start + json.dumps(COMPLETION).encode() + end)
    assert [(made.reasoning, made.delta) for made in chunks] == [("hm", ""), ("", "Hello"), ("", "")]
    assert calls(reply) == [("a", "f", {"x": 1})]
    assert (reply.finish_reason, reply.id) == ("tool_calls", "c1")
    assert codes(reply) == []


def test_whole_completion_without_a_finish_reason() -> None:
    """A whole completion that does not say why it ended has an unknown finish reason and a warning."""
    reply = assert_any_cut(b'{"choices": [{"message": {"content": "a"}}]}')
    assert (reply.text, reply.finish_reason) == ("a", "unknown")
    assert codes(reply) == ["missing_finish_reason"]


def test_every_truncation_of_a_whole_completion() -> None:
    """A whole completion cut off anywhere is incomplete, whatever the place: in a number, a word, an escape."""
    body = '{"x":[-1.5e3,true,false,null],"choices":[{"message":{"content":"h\\u00e9 中"},"finish_reason":"stop"}]}'
    whole = body.encode()
    for length in range(1, len(whole)):
        with pytest.raises(IncompleteStreamError, match="the body ended in the middle of a JSON response"):
            fold(whole[:length])
    assert assert_any_cut(whole).text == "hé 中"


@each_row("choices", ['["x"]', "5", "true", '"x"', "[5]", "[null]", "[[]]", '{"a": 1}', '{"0": {}}', "[true]", "1.5"])
def test_json_body_with_odd_choices(choices: str) -> None:
    """Choices that can't be read in a JSON body are one of our errors, like in a stream."""
    body = f'{{"choices": {choices}}}'.encode()
    assert type(assert_any_cut_error(body)) in (ProtocolError, UpstreamError)
    assert type(assert_any_cut_error(b"data: " + body + b"\n\n")) in (ProtocolError, IncompleteStreamError)


@each_row("body", [b"{}", b"[]", b"[1]", b'{"id": "c1", "choices": []}', b'{"choices": null}', b"[{}]"])
def test_json_body_that_says_nothing(body: bytes) -> None:
    """JSON in which there is neither an answer nor an error is not a success."""
    assert isinstance(assert_any_cut_error(body), UpstreamError | EmptyResponseError | ProtocolError)


@each_row(
    ("body", "shown"),
    [
        (b"{'choices': []}", "{'choices': []}"),
        (b'{"choices": []} trailing', '{"choices": []} trailing'),
        (b'{"choices": []}{"choices": []}', '{"choices": []}{"choices": []}'),
        (b"[DONE]", "[DONE]"),
        (b'{"a": 1,}', '{"a": 1,}'),
        (b"{a", "{a"),
    ],
)
def test_json_that_cannot_be_read(body: bytes, shown: str) -> None:
    """What begins like JSON and is none is a ProtocolError that shows it, and no retry will help."""
    error = assert_any_cut_error(body)
    assert type(error) is ProtocolError
    assert error.message == f"the answer is invalid JSON: {shown!r}"
    assert not error.retryable


@each_row("size", [10, 500, 2000])
@each_row("start", [b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", b" " * 600])
def test_web_page(start: bytes, size: int) -> None:
    """A web page of any length is named as one and shown from its beginning."""
    page = b"<html><h1>502 Bad Gateway</h1>" + "é".encode() * (size // 2)
    messages = set()
    for pieces in ([start + page], bytewise(start + page), [start, page], [start + page[:1], page[1:]]):
        error = fold_error(start + page, pieces)
        assert type(error) is ProtocolError
        messages.add(error.message)
    (message,) = messages
    assert message.startswith("the answer is a web page, neither server-sent events nor JSON; is the base URL right?")
    assert "<html><h1>502 Bad Gateway</h1>" in message
    assert len(message) < 400


def test_web_page_is_refused_before_its_end() -> None:
    """A web page is refused as soon as enough of it has come, not only when it ends."""
    decoder = StreamDecoder("chat")
    assert decoder.feed(b"<html>" + b"x" * 1000) == []
    assert decoder.done
    with pytest.raises(ProtocolError, match="a web page"):
        decoder.feed(b"x")


@each_row(
    "body",
    [
        b"Internal Server Error",
        b"upstream connect error or disconnect/reset before headers\n",
        b"\n\nBad Gateway\n",
        "服务器错误".encode(),
        b"null",
        b'"quota exceeded"',
        b"Bad Gateway " * 100,
        b": ping\n\nBad Gateway\n",
    ],
)
def test_plain_text(body: bytes) -> None:
    """A body of plain words is named as such and shown from its beginning."""
    error = assert_any_cut_error(body)
    assert type(error) is ProtocolError
    start = "the answer is plain text, neither server-sent events nor JSON; is the base URL right? It begins: "
    assert error.message.startswith(start)
    assert " ".join(body.decode().split())[:200] in error.message


@each_row(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b" ", id="blank"),
        pytest.param(b"\r\n \t\n\n", id="white space"),
        pytest.param(b"\n" * 2000, id="much white space"),
        pytest.param(b"\xef\xbb\xbf", id="byte-order mark"),
        pytest.param(b"\xef\xbb\xbf\n\n", id="byte-order mark and white space"),
        pytest.param(b": ping\n\n: ping\n\n", id="comments"),
        pytest.param(b": ping\n\n" * 100, id="many comments"),
        pytest.param(b": " + b"x" * 507 + b"\n\nid: 1\n\n", id="a long comment"),
        pytest.param(b"event: ping\n\nid: 1\n\nretry: 3000\n\n", id="fields without data"),
    ],
)
def test_c13_nothing_at_all(body: bytes) -> None:
    """A body without any event is an empty answer, and a retry may help."""
    error = assert_any_cut_error(body)
    assert type(error) is EmptyResponseError
    assert error.message == "the response is empty: it ended without any SSE event"
    assert error.retryable
    assert error.transcript == ()


@each_row("body", [DONE, b": ping\n\n" + DONE, b"data:\n\n" + DONE, b"data: [DONE]"])
def test_c13_nothing_but_the_terminator(body: bytes) -> None:
    """A terminator and nothing else is an empty answer."""
    error = assert_any_cut_error(body)
    assert type(error) is EmptyResponseError
    assert error.message == "the response is empty: the server ended it and sent nothing"
    assert error.retryable


def test_comments_and_then_plain_text() -> None:
    """Plain words are found also when they come after more comments than are kept to be shown."""
    error = assert_any_cut_error(b": ping\n\n" * 100 + b"Bad Gateway\n")
    assert type(error) is ProtocolError


@each_row("start", [b" ", b"\n", b"\r\n\r\n", b"\t \n", b"\xef\xbb\xbf\n", b"\n\xef\xbb\xbf"])
def test_white_space_before_the_first_event(start: bytes) -> None:
    """White space before the first event, as sent to keep a connection open, is no part of it and hides nothing."""
    assert assert_any_cut(start + text("a") + text("b") + fin("stop") + DONE).text == "ab"


@each_row("start", [b" ", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n", b"  \n"])
@each_row("body", [b"<html>", b"Bad Gateway", b'{"error": "x"}', b'{"a', b"data: {broken\n\n"])
def test_white_space_before_other_bodies(start: bytes, body: bytes) -> None:
    """White space and byte-order marks in front of a body that is refused are not part of the error, however cut."""
    assert str(assert_any_cut_error(start + body)) == str(assert_any_cut_error(body))


# --- limits ----------------------------------------------------------------------------------------------------------


@each_row(
    ("body", "message"),
    [
        pytest.param(
            text("a") + text("x" * 400),
            "one event is larger than 300 bytes (limits.event_bytes)",
            id="event",
        ),
        pytest.param(
            text("a") + b"data: " + b"x" * 400,
            "one event is larger than 300 bytes (limits.event_bytes)",
            id="endless line",
        ),
        pytest.param(
            b'{"choices": [{"message": {"content": "' + b"x" * 400 + b'"}, "finish_reason": "stop"}]}',
            "the body is larger than 300 bytes (limits.event_bytes)",
            id="JSON body",
        ),
        pytest.param(
            fragments("0 a f 1234567890", "0 - - 1") + fin("tool_calls"),
            "the arguments of f are longer than 10 characters (limits.arguments_chars)",
            id="arguments",
        ),
        pytest.param(
            b"".join(call(entry(number, f"id{number}", "f", "{}")) for number in range(4)) + fin("tool_calls"),
            "more than 3 tool calls in one answer (limits.tool_calls)",
            id="calls",
        ),
    ],
)
def test_limits(body: bytes, message: str) -> None:
    """Each limit is a ProtocolError that names it, in any cut."""
    error = assert_any_cut_error(body, limits=Limits(event_bytes=300, arguments_chars=10, tool_calls=3))
    assert type(error) is ProtocolError
    assert error.message == message
    assert not error.retryable


def test_below_the_limits() -> None:
    """What is exactly at a limit is accepted."""
    limits = Limits(event_bytes=300, arguments_chars=2, tool_calls=3)
    body = b"".join(call(entry(number, f"id{number}", "f", "{}")) for number in range(3)) + fin("tool_calls") + DONE
    assert len(assert_any_cut(body, limits=limits).tool_calls) == 3


# --- adapters of others ----------------------------------------------------------------------------------------------


class Lines(Adapter):
    """A wire format in which each event is a piece of text and `.` is the end; `decode` is a generator."""

    name = "lines"
    path = "/lines"

    def encode(self, request: Any, report: EncodingReport) -> dict[str, Any]:
        return {}

    def decode(self, event: ServerSentEvent) -> Iterator[Delta]:
        for word in event.data.split():
            if word == "?":
                raise ValueError("nobody knows what it means")
            yield Finish("stop", ".") if word == "." else TextDelta(word)


def test_an_adapter_as_a_value() -> None:
    """An adapter may be given as a value, and its `decode` may be a generator."""
    for pieces in every_split(b"data: a b\n\ndata: c .\n\n"):
        decoder = StreamDecoder(Lines())
        chunks = [made for piece in pieces for made in decoder.feed(piece)]
        chunks += decoder.close()
        assert said(chunks) == ["a", "b", "c", ""]


class Frames:
    """Splits a body into one event for each line; the length of an event comes first."""

    def __init__(self, limits: Limits) -> None:
        self.invalid_utf8, self.foreign, self._rest = 0, "", b""

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        self._rest += data
        while self._rest and len(self._rest) > self._rest[0]:
            size = self._rest[0] + 1
            event, self._rest = self._rest[1:size], self._rest[size:]
            yield ServerSentEvent(data=event.decode())

    def finish(self) -> ServerSentEvent | None:
        return ServerSentEvent(data=self._rest[1:].decode()) if self._rest else None


class FramedLines(Lines):
    framing = Frames


def test_an_adapter_with_its_own_framing() -> None:
    """An adapter may read another framing than server-sent events, at any cut of the bytes."""
    for pieces in every_split(b"\x03 a \x05b c .\n"):
        decoder = StreamDecoder(FramedLines())
        chunks = [made for piece in pieces for made in decoder.feed(piece)]
        chunks += decoder.close()
        assert said(chunks) == ["a", "b", "c", ""]


def test_an_adapter_that_gives_up_late() -> None:
    """The ValueError of a generator is a malformed event like any other."""
    decoder = StreamDecoder(Lines())
    decoder.feed(b"data: a\n\ndata: b ?\n\n")
    with pytest.raises(ProtocolError, match="nobody knows what it means"):
        decoder.close()


def test_an_adapter_that_cannot_read_a_body() -> None:
    """The ValueError of an adapter about a whole body is a ProtocolError."""
    decoder = StreamDecoder(Lines())
    decoder.feed(b"{}")
    with pytest.raises(ProtocolError, match="supports only streamed answers"):
        decoder.close()


def test_web_page_over_the_limit() -> None:
    """A web page is called one in every cut, also where the limit on a body is smaller than what shows it."""
    body = b"<html>" + b"x" * 600
    error = assert_any_cut_error(body, limits=Limits(event_bytes=60))
    assert isinstance(error, ProtocolError)
    assert "a web page" in str(error)


# --- what a client can keep of the order of things --------------------------------------------------------------------


def test_many_calls_keep_their_order() -> None:
    """Calls keep the model's order, by index or by appearance, however many there are."""
    numbers = range(24)
    by_index = fragments(*(f"{number} call_{number} f {{}}" for number in reversed(numbers)))
    no_index = fragments(*(f"- call_{number} f {{}}" for number in numbers))
    for body in (by_index, no_index):
        made = fold(body + fin("tool_calls") + DONE).tool_calls
        assert [call.id for call in made] == [f"call_{number}" for number in numbers]


def test_data_inside_a_json_body() -> None:
    """A JSON body is not an event stream for having `data:` somewhere in its text; a chunk needs no id and no time."""
    message = {"role": "assistant", "content": "first line\ndata: [DONE]\n\ndata: {}"}
    completion = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    reply = assert_any_cut(json.dumps(completion, indent=1).encode())
    assert (reply.text, reply.id, reply.model) == ("first line\ndata: [DONE]\n\ndata: {}", None, None)
