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
# A string, also one that the end of the text cuts, or a character that begins or ends something else.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{0,3})?\Z")


class Replacement(NamedTuple):
    """Bytes from `start` to `end`, and what replaces them."""

    start: int
    end: int
    new: bytes


class _Piece(NamedTuple):
    """A string in a JSON document.

    Attributes:
        place: which part of the answer it is; strings with the same place continue each other. None: in a document that
            is cut, where not all of that is known.
        names: the names of the members around it, whatever their positions in lists.
        flags: the members beside it that are true or false, such as `thought` of Gemini's parts.
        text: what it says.
        start, end: where its token is in the bytes.
        is_cut: the body ends inside of it.
    """

    place: tuple[Any, ...] | None
    names: tuple[str, ...]
    flags: tuple[Any, ...]
    text: str
    start: int
    end: int
    is_cut: bool = False


class _Members(list[tuple[str, Any]]):
    """A JSON object as it is written, in its order."""

    def named(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(value for key, value in self if key in names and isinstance(value, str | int))


def secrets_in_body(body: bytes, redactor: Redactor) -> list[Replacement]:
    """Returns the changes that remove secrets from the strings of a body: of its events, or of the JSON that it is."""
    documents = [
        lines for event in event_ranges(body) if (lines := [(start, body[start:end]) for start, end in event.payloads])
    ]
    whole = _parsed(body)
    if whole is not None or not documents:  # one document, several in lines, or the beginning of one
        return _changes(_pieces(whole, [(0, body)]), redactor)
    pieces = [_pieces(_parsed(b"\n".join(line for _, line in lines)), lines) for lines in documents]
    return _changes([piece for found in pieces for piece in found], redactor)


def redacted_events(payloads: Sequence[str], redactor: Redactor) -> list[str]:
    """Returns the payloads of events without secrets, also where a secret is cut in pieces by the events."""
    data = [payload.encode("utf-8", "surrogatepass") for payload in payloads]
    starts = list(accumulate(map(len, data), initial=0))
    pieces = [_pieces(_parsed(line), [(start, line)]) for start, line in zip(starts, data, strict=False)]
    changes = _changes([piece for found in pieces for piece in found], redactor)
    texts = []
    for start, line in zip(starts, data, strict=False):
        inside = [
            Replacement(change.start - start, change.end - start, change.new)
            for change in changes
            if start <= change.start < start + len(line)
        ]
        texts.append(redactor.text(apply_replacements(line, inside).decode("utf-8", "surrogatepass")))
    return texts


def apply_replacements(body: bytes, splices: Iterable[Replacement]) -> bytes:
    """Returns the bytes with these changes, which are in order and do not overlap."""
    out, at = [], 0
    for start, end, new in splices:
        out += [body[at:start], new]
        at = end
    return b"".join([*out, body[at:]])


def _changes(pieces: Sequence[_Piece], redactor: Redactor) -> list[Replacement]:
    """Returns the changes that remove secrets from strings, also those that are cut in pieces by them.

    Which strings continue each other is known exactly for most answers. But readers join the parts of an answer as well
    (Gemini's), and an event that is cut does not say which part it is about: so strings are also joined by the names
    around them. Joining too much does no harm, as only secrets are removed.
    """
    texts = [piece.text for piece in pieces]
    for sequence in _sequences(pieces):
        before = [texts[at] for at in sequence]
        for at, text in zip(sequence, redactor.pieces(before), strict=True):
            texts[at] = text
    changes = []
    for piece, text in zip(pieces, texts, strict=True):
        if piece.text != text:
            new = json.dumps(text).encode()
            changes.append(Replacement(piece.start, piece.end, new[:-1] if piece.is_cut else new))
    return sorted(changes)


def _sequences(pieces: Sequence[_Piece]) -> Iterator[list[int]]:
    """Yields the positions of strings that may continue each other, in their order."""
    exact: dict[Any, list[int]] = {}
    named: dict[Any, list[int]] = {}
    flagged: dict[Any, list[int]] = {}
    cut: dict[Any, list[int]] = {}
    for at, piece in enumerate(pieces):
        if piece.place is None:
            cut.setdefault(piece.names, []).append(at)
        else:
            exact.setdefault((piece.names, piece.place), []).append(at)
            flagged.setdefault((piece.names, piece.flags), []).append(at)
        named.setdefault(piece.names, []).append(at)
    for (names, _), sequence in (*exact.items(), *flagged.items()):
        yield [*sequence, *cut.get(names, ())]
    yield from named.values()


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None


def _pieces(value: Any, lines: list[tuple[int, bytes]]) -> list[_Piece]:
    """Returns the strings of a document.

    Args:
        value: the document, parsed; None if it is cut, or several documents.
        lines: where its bytes are, and the bytes.
    """
    found = list(_tokens(lines))
    if value is None:
        return found
    place = value.named(_PLACE) if isinstance(value, _Members) else ()
    try:
        strings = list(_strings(value, place, ()))
    except RecursionError:
        return found
    if len(strings) != len(found):
        return found
    return [piece._replace(place=at, flags=flags) for piece, (at, flags) in zip(found, strings, strict=True)]


def _strings(
    value: Any, path: tuple[Any, ...], flags: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yields place and flags of each string that is not the name of a member, in the order of the text."""
    match value:
        case str():
            yield path, flags
        case _Members():
            flags = tuple(sorted(member for member in value if isinstance(member[1], bool)))
            for key, item in value:
                yield from _strings(item, (*path, key), flags)
        case list():
            for place, item in enumerate(value):
                number = item.named(("index",)) if isinstance(item, _Members) else ()
                yield from _strings(item, (*path, number or place), flags)


def _tokens(lines: Iterable[tuple[int, bytes]]) -> Iterator[_Piece]:
    """Yields the strings of a JSON text that are not names of members, also of one that is cut anywhere."""
    around: list[str | None] = []  # the member that is being read of each object, None for a list
    is_name = False
    for offset, line in lines:
        for token in _TOKEN.finditer(line):
            match token[0][:1]:
                case b"{":
                    around.append("")
                    is_name = True
                case b"[":
                    around.append(None)
                    is_name = False
                case b"}" | b"]":
                    if around:
                        around.pop()
                    is_name = False
                case b",":
                    is_name = bool(around) and around[-1] is not None
                case _:
                    text, is_cut = _string(token[0])
                    if is_name:
                        around[-1], is_name = text, False
                    else:
                        names = tuple(name for name in around if name is not None)
                        start, end = offset + token.start(), offset + token.end()
                        yield _Piece(None, names, (), text, start, end, is_cut)


def _string(token: bytes) -> tuple[str, bool]:
    """Returns the text of a string, and whether its end is missing."""
    try:
        return json.loads(token), False
    except ValueError:
        text = _CUT_ESCAPE.sub("", token.decode("utf-8", "ignore"))
    try:
        return json.loads(f'{text}"', strict=False), True
    except ValueError:  # not JSON: no string of an answer
        return "", True
