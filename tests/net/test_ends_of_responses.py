"""Where a response ends: whole heads, bodies as they come, and nothing behind the end, however the bytes are cut."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold.net.connection_reuse import MalformedHead, ResponseFraming
from tables import each_row

BODY = b"data: 1\n\ndata: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"9\r\ndata: 1\n\n\r\nb;a=b \r\ndata: 2\r\n\r\n\r\n"


def length(stated: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: " + stated + b"\r\n\r\n"


# A response, and how its head is handed on if not as it is.
RESPONSES = {
    "length": (length(b"20") + BODY, None),
    "empty": (length(b"0"), None),
    "lines without CR": (b"HTTP/1.1 200 OK\ncontent-length:20\n\n" + BODY, None),
    "chunks": (CHUNKED + CHUNKS + b"0\r\n\r\n", None),
    "trailers": (CHUNKED + CHUNKS + b"000\r\nA: b\r\nC: d\r\n\r\n", None),
    "204": (length(b"20", b"204 No Content"), None),
    "304": (length(b"20", b"304 Not Modified"), None),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + length(b"20") + BODY, None),
    "one length twice": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\nA: b\r\nCONTENT-LENGTH: 20, 20\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nA: b\r\n\r\n" + BODY,
    ),
    "length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: Chunked\r\n\r\n" + CHUNKS + b"0\r\n\r\n",
        CHUNKED + CHUNKS + b"0\r\n\r\n",
    ),
}


def fed(data: bytes, size: int) -> tuple[list[bytes], ResponseFraming]:
    framing = ResponseFraming()
    framing.begin()
    return [piece for at in range(0, len(data), size) for piece in framing.feed(data[at : at + size])], framing


@each_row("size", [1, 2, 3, 7, 1000])
@each_row("name", RESPONSES)
def test_a_response_and_nothing_behind_it(name: str, size: int) -> None:
    """Each head is one piece; what comes behind the end is handed on to nobody, and known."""
    data, normal = RESPONSES[name]
    for behind in (b"", b"\r\n", b"HTTP/1.1 200 OK\r\n\r\n"):
        pieces, framing = fed(data + behind, size)
        assert b"".join(pieces) == (normal or data)
        assert (framing.ended, framing.surplus) == (True, bool(behind))
        heads = [piece for piece in pieces if piece.startswith(b"HTTP/")]
        assert all(head.endswith((b"\r\n\r\n", b"\n\n")) for head in heads)


def body_of(response: bytes) -> bytes:
    """The body of a response, as another parser reads it."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(response)
    body = b""
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        assert event is not h11.NEED_DATA
        body += bytes(event.data) if isinstance(event, h11.Data) else b""
    return body


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 400), st.booleans())
def test_many_chunks_are_one_for_the_parser(texts: list[bytes], size: int, trailer: bool) -> None:
    """Whole chunks that arrive together are handed on as a single one: the same body, and the same end."""
    end = b"0\r\n" + (b"A: b\r\n" if trailer else b"") + b"\r\n"
    pieces, framing = fed(CHUNKED + b"".join(b"%X\r\n%b\r\n" % (len(text), text) for text in texts) + end, size)
    assert body_of(b"".join(pieces)) == b"".join(texts)
    assert (framing.ended, framing.surplus) == (True, False)


def test_what_arrives_together() -> None:
    """One size for all of it; chunks that are not whole, or have anything special, are handed on as they are."""
    plain, joined = b"2\r\nab\r\n3\r\ncde\r\n", b"5\r\nabcde\r\n"
    for data, *given_on in (
        (plain, joined),
        (plain + b"0\r\n\r\n", joined + b"0\r\n\r\n"),
        (b"2\r\nab\r\n0\r\n\r\n", b"2\r\nab\r\n0\r\n\r\n"),
        (plain + b"4\r\nab", joined, b"4\r\nab"),
        (plain + b"2;a=b\r\nab\r\n", joined, b"2;a=b\r\nab\r\n"),
        (plain + b"2\nab\r\n", joined, b"2\nab\r\n"),
        (plain + b"2\r\nabc\r\n", joined, b"2\r\nabc\r\n"),
        (plain + b"0\r\nA: b\r\n\r\n", joined, b"0\r\nA: b\r\n\r\n"),
    ):
        pieces, framing = fed(CHUNKED + data, 1000)
        assert pieces == [CHUNKED, *given_on]
        if given_on[-1] == b"4\r\nab":
            assert framing.feed(b"cd\r\n" + plain) == [b"cd\r\n", joined]


def test_a_chunk_behind_the_end() -> None:
    """It belongs to nobody, also where it arrives by itself."""
    _, framing = fed(CHUNKED + b"2\r\nab\r\n0\r\n\r\n", 1000)
    assert framing.ended
    assert framing.feed(b"1\r\nx\r\n") == []
    assert (framing.ended, framing.surplus) == (True, True)


@each_row(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
        length(b"21") + BODY,
        CHUNKED + CHUNKS,
        CHUNKED + CHUNKS + b"0\r\n",
        CHUNKED + b"zz\r\n" + CHUNKS + b"0\r\n\r\n",
        CHUNKED + b"-5\r\n" + CHUNKS + b"0\r\n\r\n",
        CHUNKED + b"1;" + b"x" * 70_000 + b"\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 20\r\n\r\n" + BODY,
        b"not HTTP\r\n\r\n" + BODY,
    ],
)
@each_row("size", [1, 3, 1000])
def test_no_end_that_one_could_rely_on(data: bytes, size: int) -> None:
    """All of it is for the parser, and the connection is not used again."""
    try:
        pieces, framing = fed(data, size)
    except MalformedHead:
        return
    assert b"".join(pieces) == data
    assert not framing.ended


@each_row(
    "head",
    [
        length(b"20, 21"),
        length(b"20\r\nContent-Length: 21"),
        length(b"-20"),
        length(b"0x14"),
        length(b"20\r\nTransfer-Encoding: gzip"),
        CHUNKED.replace(b"chunked", b"gzip, chunked"),
        b"\r\n" + length(b"20"),
        b"\x15\x03\x03\x00\x02\x02(",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000,
    ],
)
def test_heads_that_are_refused(head: bytes) -> None:
    """A length that can't be known, and bytes that will never be a head."""
    for size in (1, 1000) if len(head) < 1000 else (1000,):
        with pytest.raises(MalformedHead):
            fed(head, size)


def test_between_two_responses() -> None:
    """Nothing is expected before a request is sent, nor between two."""
    framing = ResponseFraming()
    assert (framing.feed(b"x"), framing.surplus) == ([], True)
