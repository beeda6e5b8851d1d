"""`SSEDecoder` by itself: bytes in, events out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from httpx_sse import ServerSentEvent
from httpx_sse._decoders import SSEDecoder as JudgeDecoder
from httpx_sse._decoders import SSELineDecoder as JudgeLineDecoder
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import bytewise, every_split
from scale import examples
from streamfold import Limits, ProtocolError
from streamfold.engine.sse import SSEDecoder, body_kind
from tables import each_row

Facts = tuple[str, str, str, int | None]


def facts(event: ServerSentEvent) -> Facts:
    """Everything that an event says: name, data, id, retry time."""
    return event.event, event.data, event.id, event.retry


def read(pieces: Iterable[bytes], limits: Limits | None = None) -> list[Facts]:
    """All events of a body that comes in these pieces, the one left at the end included."""
    decoder = SSEDecoder(limits)
    events = [facts(event) for piece in pieces for event in decoder.feed(piece)]
    last = decoder.finish()
    return events if last is None else [*events, facts(last)]


def read_any_cut(body: bytes) -> list[Facts]:
    """All events of a body, which must be the same however it is cut."""
    whole = read([body])
    assert read(bytewise(body)) == whole
    for pieces in every_split(body):
        assert read(pieces) == whole
    return whole


def datas(body: bytes) -> list[str]:
    """The data of each event of a body, which must be the same however it is cut."""
    return [data for _, data, _, _ in read_any_cut(body)]


# --- the examples of the standard ------------------------------------------------------------------------------------


def test_three_messages() -> None:
    """A blank line ends an event; data lines of one event are joined with LF."""
    body = b"data: the first\n\ndata: the second, which\ndata: has two lines\n\ndata: the third\n\n"
    assert datas(body) == ["the first", "the second, which\nhas two lines", "the third"]


def test_named_events() -> None:
    """An event line names the event it stands in and no other."""
    body = b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\ndata: 113411\n\n"
    assert read_any_cut(body) == [
        ("add", "73857293", "", None),
        ("remove", "2153", "", None),
        ("message", "113411", "", None),
    ]


def test_data_lines_of_a_stock_ticker() -> None:
    """Data lines keep their order and their signs."""
    assert datas(b"data: YHOO\ndata: +2\ndata: 10\n\n") == ["YHOO\n+2\n10"]


def test_comment_and_ids() -> None:
    """A comment is skipped, an id stays until the next one, `id` alone clears it, and one blank after a colon goes."""
    body = b": a comment\n\ndata: one\nid: 1\n\ndata: two\n\ndata:three\nid\n\ndata:  four\n\n"
    assert read_any_cut(body) == [
        ("message", "one", "1", None),
        ("message", "two", "1", None),
        ("message", "three", "", None),
        ("message", " four", "", None),
    ]


def test_lines_with_no_more_than_a_field_name() -> None:
    """A data line without a colon is an empty line of data, and two of them are one line end."""
    assert datas(b"data\n\ndata\ndata\n\ndata:\n\n") == ["", "\n", ""]


# --- fields ----------------------------------------------------------------------------------------------------------


@each_row(
    "line",
    [
        b"Data: x",
        b" data: x",
        b"data : x",
        b"dat: x",
        b"datax: x",
        b"\xef\xbb\xbfdata: x",
        b"data\xc2\xa0: x",
        b"x",
        b"=",
        b"{}",
        b"\0",
    ],
)
def test_unknown_fields(line: bytes) -> None:
    """A field with any other name, by case or by blanks, is ignored and leaves the event whole."""
    assert datas(b"data: a\n" + line + b"\ndata: b\n\n" + line + b"\n\n") == ["a\nb"]


def test_colons_in_values() -> None:
    """Only the first colon of a line ends the name of the field."""
    assert read_any_cut(b"event: a:b\ndata: c: d\nid: :\n\n") == [("a:b", "c: d", ":", None)]


def test_values_of_blanks() -> None:
    """Of the blanks after the colon exactly one is removed, and blanks at the end stay."""
    assert datas(b"data:   a  \n\ndata:\ta\n\ndata: \n\ndata:  \n\n") == ["  a  ", "\ta", "", " "]


def test_last_name_and_last_id_count() -> None:
    """Within one event the last event line, id line and retry line count."""
    body = b"event: a\nid: 1\nretry: 1\nevent: b\nid: 2\nretry: 2\ndata: x\n\n"
    assert read_any_cut(body) == [("b", "x", "2", 2)]


def test_empty_name_is_the_usual_one() -> None:
    """An empty event line takes the name back."""
    assert read_any_cut(b"event: a\nevent:\ndata: x\n\nevent\ndata: y\n\n") == [
        ("message", "x", "", None),
        ("message", "y", "", None),
    ]


def test_id_with_nul_is_ignored() -> None:
    """An id with a NUL in it is no id."""
    assert read_any_cut(b"id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n") == [
        ("message", "a", "1", None),
        ("message", "b", "1", None),
    ]


def test_id_without_an_event() -> None:
    """An id in a block without data makes no event and counts for the next one."""
    assert read_any_cut(b"id: 7\n\ndata: a\n\n") == [("message", "a", "7", None)]


@each_row(
    ("value", "retry"),
    [
        (b"3000", 3000),
        (b"0", 0),
        (b"007", 7),
        (b"", None),
        (b"-1", None),
        (b"1.5", None),
        (b"1s", None),
        (b" 3000", None),
        ("٣".encode(), None),
        (b"1_000", None),
        (b"9" * 5000, 10**18 - 1),
    ],
)
def test_retry(value: bytes, retry: int | None) -> None:
    """A retry time consists of ASCII digits; anything else is ignored, and a huge one does no harm."""
    assert read([b"retry: " + value + b"\ndata: x\n\n"]) == [("message", "x", "", retry)]


@each_row("block", [b"id: 1\n", b"event: x\n", b"retry: 1\n", b": x\n", b"x: y\n", b"id: 1\nevent: x\nretry: 1\n", b""])
def test_no_event_without_data(block: bytes) -> None:
    """A block without a data line is no event, in the middle and at the end."""
    body = block + b"\n" + b"data: a\n\n" + block + b"\n\n\n" + b"data: b\n\n" + block
    assert datas(body) == ["a", "b"]


def test_error_field_is_an_event_named_error() -> None:
    """llama.cpp's own field `error` makes an event of that name, the one step beyond the standard."""
    assert read_any_cut(b'data: a\n\nerror: {"code":500}\n\ndata: b\n\n') == [
        ("message", "a", "", None),
        ("error", '{"code":500}', "", None),
        ("message", "b", "", None),
    ]


# --- line ends, byte-order mark, encoding ----------------------------------------------------------------------------


def test_mixed_line_ends() -> None:
    """A blank line may be made of any two line ends, but not of a CR and the LF that belongs to it."""
    assert datas(b"data: a\n\rdata: b\r\rdata: c\r\n\ndata: d\n\r\ndata: e\r\ndata: f\r\n\r\n") == [
        "a",
        "b",
        "c",
        "d",
        "e\nf",
    ]


def test_an_event_is_complete_with_the_cr_of_its_blank_line() -> None:
    """A CR ends the line at once: the event does not wait for an LF that may never come."""
    decoder = SSEDecoder()
    assert [event.data for event in decoder.feed(b"data: a\r\r")] == ["a"]
    assert [event.data for event in decoder.feed(b"\ndata: b\r\r")] == ["b"]


def test_byte_order_mark() -> None:
    """One byte-order mark at the very beginning is skipped, also when it is cut."""
    assert datas(b"\xef\xbb\xbfdata: a\n\ndata: b\n\n") == ["a", "b"]
    assert read([b"\xef", b"\xbb", b"", b"\xbf", b"data: a\n\n"]) == [("message", "a", "", None)]


def test_only_one_byte_order_mark() -> None:
    """A second byte-order mark, or one further on, is part of the line."""
    assert datas(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n") == ["b"]
    assert datas(b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: \xef\xbb\xbfc\n\n") == ["a", "\ufeffc"]


@pytest.mark.parametrize("start", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"])
def test_nothing_but_a_byte_order_mark(start: bytes) -> None:
    """A byte-order mark and nothing after it, or a part of one, is no event."""
    assert read_any_cut(start) == []


def test_half_a_byte_order_mark() -> None:
    """Bytes that only begin like a byte-order mark are part of the first line."""
    assert datas(b"\xef\xbbdata: a\n\ndata: b\n\n") == ["b"]


def test_characters_of_several_bytes() -> None:
    """Characters are whole wherever their bytes are cut."""
    assert read_any_cut("event: é\ndata: 中👋\nid: ñ\n\n".encode()) == [("é", "中👋", "ñ", None)]


# --- the end of the input --------------------------------------------------------------------------------------------


def test_finish_hands_out_once() -> None:
    """A second `finish` has nothing left."""
    decoder = SSEDecoder()
    assert list(decoder.feed(b"data: a")) == []
    assert (last := decoder.finish()) is not None
    assert last.data == "a"
    assert decoder.finish() is None


# --- limits ----------------------------------------------------------------------------------------------------------


def refused(pieces: Iterable[bytes], limit: int) -> bool:
    """Whether a body in these pieces is refused for the size of an event."""
    try:
        read(pieces, Limits(event_bytes=limit))
    except ProtocolError as error:
        return str(error) == f"one event is larger than {limit} bytes (limits.event_bytes)"
    return False


@each_row(
    "body",
    [
        pytest.param(b"data: " + b"x" * 80 + b"\n\n", id="one line"),
        pytest.param(b"data: " + b"x" * 80 + b"\n", id="no blank line"),
        pytest.param(b"data: " + b"x" * 80, id="no line end"),
        pytest.param(b"data: xxxxxxxxx\n" * 5 + b"\n", id="many lines"),
        pytest.param((b"data: " + b"x" * 80 + b"\n\n") * 5, id="many events"),
        pytest.param((b": " + b"x" * 80 + b"\n") * 5 + b"data: x\n\n", id="many comments"),
        pytest.param(b"\n" * 500, id="blank lines"),
        pytest.param((b"event: x\n\n") * 50, id="many names"),
    ],
)
def test_small_enough_in_every_cut(body: bytes) -> None:
    """An event below the limit is accepted in every cut, and so is any number of them."""
    for pieces in ([body], bytewise(body), *every_split(body)):
        assert not refused([b"data: before\n\n", *pieces], 100)


@each_row("start", [b"data: ", b": ", b"x: ", b"data: x\ndata: ", b"data: x\n: "])
@each_row("end", [b"\n\n", b"\r\n\r\n", b"\n", b""])
def test_the_limit_itself_does_not_depend_on_the_cut(start: bytes, end: bytes) -> None:
    """Round the limit, too, the size alone decides."""
    for size in range(94, 106):
        body = start.ljust(size, b"x") + end
        verdicts = [refused(pieces, 100) for pieces in ([body], bytewise(body), *every_split(body))]
        assert set(verdicts) == {verdicts[0]}


# --- what a body is --------------------------------------------------------------------------------------------------


@each_row(
    ("head", "kind"),
    [
        (b"", None),
        (b" \r\n\t", None),
        (b"\xef\xbb\xbf", None),
        (b"\xef\xbb", None),
        (b"data: x", "events"),
        (b": ping", "events"),
        (b"Internal Server Error", "events"),
        (b'"a string"', "events"),
        (b"\xff", "events"),
        (b"{", "json"),
        (b"  \n [", "json"),
        (b"\xef\xbb\xbf\r\n{", "json"),
        (b"<", "markup"),
        (b"\n<!DOCTYPE html>", "markup"),
    ],
)
def test_body_kind(head: bytes, kind: str | None) -> None:
    """The first byte that is not white space says what a body is."""
    assert body_kind(head) == kind


# --- well-formed streams, with httpx-sse as the judge ----------------------------------------------------------------

# Any character that does not end a line, and those that some decoders wrongly take for a line end rather often.
CHARACTERS = st.one_of(
    st.sampled_from("\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\0\ufeff: \t中👋é{}\"'"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"),
)
VALUES = st.text(CHARACTERS, max_size=12)
# Names of fields, by case or by blanks, that are none of the standard's. Lines without a name are comments.
UNKNOWN = ["", "x", "Data", " data", "data ", "dat", "datax", "event ", "data\xa0", "{}", "\0"]


def field(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lines of a field, with and without a blank after the colon."""
    return st.builds("{}:{}{}".format, names, st.sampled_from(["", " "]), values)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """One event: one to three data lines and, among them in any order, what else may stand there, some of it twice."""
    lines = draw(st.lists(field(st.just("data"), VALUES), min_size=1, max_size=3))
    lines += draw(st.lists(field(st.just("event"), VALUES), max_size=2))
    lines += draw(st.lists(field(st.just("id"), VALUES), max_size=2))
    lines += draw(st.lists(field(st.just("retry"), st.integers(0, 10**6).map(str)), max_size=2))
    lines += draw(st.lists(field(st.sampled_from(UNKNOWN), VALUES), max_size=2))
    lines += draw(st.lists(st.sampled_from(["data", "event", "id", *UNKNOWN[1:]]), max_size=1))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return end.join([*draw(st.permutations(lines)), "", ""])


STREAMS = st.lists(blocks(), max_size=5).map("".join)


def judged(text: str) -> list[Facts]:
    """The events as httpx-sse's own decoder reads them."""
    lines, events = JudgeLineDecoder(), JudgeDecoder()
    found = [events.decode(line) for line in [*lines.decode(text), *lines.flush()]]
    return [facts(event) for event in found if event]


@settings(deadline=None, max_examples=examples(100))
@given(STREAMS, st.lists(st.integers(min_value=0), max_size=8))
def test_any_cut_of_a_well_formed_stream(stream: str, cuts: list[int]) -> None:
    """A well-formed stream gives the same events in any cut."""
    body = stream.encode()
    whole = read([body])
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    assert read([body[start:end] for start, end in pairwise(places)]) == whole
    assert read(bytewise(body)) == whole


@settings(deadline=None, max_examples=examples(120))
@given(STREAMS)
def test_httpx_sse_agrees(stream: str) -> None:
    """On every well-formed stream httpx-sse's decoder reads the same events."""
    assert read([stream.encode()]) == judged(stream)
