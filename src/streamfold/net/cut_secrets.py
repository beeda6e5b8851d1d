"""Finds secrets that events cut in pieces, or that are escaped inside JSON, in the texts that the events add up to.

A string may be continued by several events, as the arguments of a call are. Each piece of it is known with its place in
the bytes, so that bytes change where a secret is and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..engine import event_ranges
from .redaction import Redactor

_PLACE = ("type", "item_id", "output_index", "content_index", "index")  # which part of an answer an event is about
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


class Splice(NamedTuple):
    """Bytes from `start` to `end`, and what replaces them."""

    start: int
    end: int
    new: bytes


class _Piece(NamedTuple):
    """A string in a JSON document: its text, and where its token is in the bytes."""

    text: str
    start: int
    end: int


class _Members(list[tuple[str, Any]]):
    """A JSON object as it is written, in its order."""

    def named(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(value for key, value in self if key in names and isinstance(value, str | int))


def secrets_in_body(body: bytes, redactor: Redactor) -> list[Splice]:
    """Returns the changes that remove secrets from the strings of a body: of its events, or of the JSON that it is."""
    whole = _parsed(body)
    if whole is not None:
        return _changes([(whole, [(0, body)])], redactor)
    documents = []
    for event in event_ranges(body):
        lines = [(start, body[start:end]) for start, end in event.payloads]
        if lines and (value := _parsed(b"\n".join(line for _, line in lines))) is not None:
            documents.append((value, lines))
    return _changes(documents, redactor)


def redacted_events(payloads: Sequence[str], redactor: Redactor) -> list[str]:
    """Returns the payloads of events without secrets, also where a secret is cut in pieces by the events."""
    data = [payload.encode("utf-8", "surrogatepass") for payload in payloads]
    starts = list(accumulate(map(len, data), initial=0))
    documents = [
        (value, [(start, line)])
        for start, line in zip(starts, data, strict=False)
        if (value := _parsed(line)) is not None
    ]
    changes = _changes(documents, redactor)
    texts = []
    for start, line in zip(starts, data, strict=False):
        inside = [
            Splice(change.start - start, change.end - start, change.new)
            for change in changes
            if start <= change.start < start + len(line)
        ]
        texts.append(redactor.text(spliced(line, inside).decode("utf-8", "surrogatepass")))
    return texts


def spliced(body: bytes, splices: Iterable[Splice]) -> bytes:
    """Returns the bytes with these changes, which are in order and do not overlap."""
    out, at = [], 0
    for start, end, new in splices:
        out += [body[at:start], new]
        at = end
    return b"".join([*out, body[at:]])


def _changes(documents: Iterable[tuple[Any, list[tuple[int, bytes]]]], redactor: Redactor) -> list[Splice]:
    by_place: dict[Any, list[_Piece]] = {}
    for value, lines in documents:
        for place, piece in _pieces(value, lines):
            by_place.setdefault(place, []).append(piece)
    changes = []
    for pieces in by_place.values():
        cleaned = redactor.pieces([piece.text for piece in pieces])
        for piece, text in zip(pieces, cleaned, strict=True):
            if piece.text != text:
                changes.append(Splice(piece.start, piece.end, json.dumps(text).encode()))
    return sorted(changes)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None


def _pieces(value: Any, lines: list[tuple[int, bytes]]) -> list[tuple[tuple[Any, ...], _Piece]]:
    """Returns the strings of a document with their places. Strings that continue each other have the same place."""
    tokens = [
        (offset + found.start(), offset + found.end())
        for offset, line in lines
        for found in _JSON_STRING.finditer(line)
    ]
    place = value.named(_PLACE) if isinstance(value, _Members) else ()
    try:
        strings = list(_strings(value, place))
    except RecursionError:
        return []
    if len(strings) != len(tokens):
        return []
    return [(at, _Piece(text, *token)) for (at, text), token in zip(strings, tokens, strict=True) if at is not None]


def _strings(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...] | None, str]]:
    """Yields the strings in the order of the text; names of members have no place."""
    match value:
        case str():
            yield path, value
        case _Members():
            for key, item in value:
                yield None, key
                yield from _strings(item, (*path, key))
        case list():
            for place, item in enumerate(value):
                number = item.named(("index",)) if isinstance(item, _Members) else ()
                yield from _strings(item, (*path, number or place))
