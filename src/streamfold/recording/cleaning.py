"""Takes secrets out of recorded bodies. Bytes change where a secret is and nowhere else, and the cuts move along."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from ..net import HIDDEN, Redactor, Splice, secrets_in_body, spliced
from .files import Cut

__all__ = ["cleaned_body"]


def cleaned_body(body: bytes, cuts: Sequence[Cut], redactor: Redactor) -> tuple[bytes, tuple[Cut, ...]]:
    """Returns a body without secrets, also those that the network or the events cut in pieces, and its cuts."""
    found = [Splice(start, end, HIDDEN.encode()) for start, end in redactor.spans(body.decode("latin-1"))]
    body, cuts = _changed(body, cuts, found)
    return _changed(body, cuts, secrets_in_body(body, redactor))


def _changed(body: bytes, cuts: Sequence[Cut], splices: Sequence[Splice]) -> tuple[bytes, tuple[Cut, ...]]:
    """Makes the changes and moves the cuts along. A cut that vanishes leaves its delay to the next one."""
    if not splices:
        return body, tuple(cuts)
    grown = list(accumulate((len(new) - (end - start) for start, end, new in splices), initial=0))
    ends = [splice.end for splice in splices]

    def place(offset: int) -> int:
        number = bisect_left(ends, offset)
        if number == len(splices) or offset <= splices[number].start:
            return offset + grown[number]
        start, end, new = splices[number]
        return start + grown[number] + (len(new) if offset == end else min(offset - start, len(new)))

    moved: list[Cut] = []
    before, waited = 0, 0.0
    for cut, end in zip(cuts, accumulate(cut.size for cut in cuts), strict=True):
        waited += cut.delay
        if place(end) > before:
            moved.append(Cut(place(end) - before, waited))
            before, waited = place(end), 0.0
    return spliced(body, splices), tuple(moved)
