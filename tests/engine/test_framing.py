"""Where the events of a body lie: ranges of bytes, for a whole body and while it arrives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold.engine import EventScanner, SSEDecoder, event_ranges

LINES = [b"data: a", b"data:b", b"data", b": ping", b"event: x", b"id: 1", b"Data: c", b"", b"", b""]
BODIES = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=20).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def datas(body: bytes) -> list[str]:
    decoder = SSEDecoder()
    events = [event.data for event in decoder.feed(body)]
    last = decoder.finish()
    return events if last is None else [*events, last.data]


@given(BODIES)
def test_ranges_cover_the_body_and_hold_one_event_each(body: bytes) -> None:
    """The ranges follow each other without gaps, and the data lines of each are the data of one event."""
    ranges = list(event_ranges(body))
    assert b"".join(body[found.start : found.end] for found in ranges) == body
    read = [b"\n".join(body[start:end] for start, end in found.payloads).decode() for found in ranges if found.payloads]
    assert read == datas(body)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_ends_with_its_blank_lines(end: bytes) -> None:
    """Further blank lines belong to the event before them; the last event may lack its blank line."""
    body = end.join([b"data: a", b"", b"", b": hi", b"", b"data: b", b""])
    assert [(body[found.start : found.end], found.ended) for found in event_ranges(body)] == [
        (b"data: a" + end * 3, True),
        (b": hi" + end * 2, True),
        (b"data: b" + end, False),
    ]


@given(BODIES, st.lists(st.integers(0, 200), max_size=5))
def test_a_scanner_finds_the_same_ends_at_any_cut(body: bytes, cuts: list[int]) -> None:
    """A scanner that gets the body in pieces ends as many events as are ended in the whole body, and loses no byte."""
    scanner, places = EventScanner(), sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})
    parts = [part for at, to in pairwise(places) for part in scanner.feed(body[at:to])]
    assert b"".join(part for part, _ in parts) == body
    assert sum(ends for _, ends in parts) == sum(found.ended and bool(found.payloads) for found in event_ranges(body))
