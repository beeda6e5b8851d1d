"""The bytes of an event without what may differ in the next one of its kind: what `known.py` learns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import from_json

from ..adapters import Passed, PassedList
from ..values import Delta

TEXT, IGNORED, NUMBERED, COUNTED, LIST = range(5)  # what may stand between two pieces of an event
_PATTERNS = {
    TEXT: rb'((?:[^"\\\x00-\x1f]++|\\.)*+)',
    IGNORED: rb'(?:[^"\\\x00-\x1f]++|\\.)*+',
    COUNTED: rb"[1-9][0-9]{0,17}",
}
_STRINGS = re.compile(rb'("(?:[^"\\\x00-\x1f]++|\\.)*+")')
_NUMBER = re.compile(rb"(\s*:\s*)(0|[1-9][0-9]{0,17})(?![0-9.eE])")
_COUNT = re.compile(rb"(\s*:\s*)([1-9][0-9]{0,17})(?![0-9.eE])")  # zeros may be no newer counts: see `AnswerUsage`
_DECODER = json.JSONDecoder()
_ANY_LIST, _IN_LIST_PLACE = b'[{"text":"%b"}]', b'"~ list ~"'

Says: TypeAlias = Callable[[str], list[Delta]]  # the deltas of a text, or of the list that a text stands in


class Shape(NamedTuple):
    """The bytes of an event without what may differ.

    Attributes:
        pieces: the first one begins the event, the last one ends it.
        holes: what stands behind each piece but the last.
        data_at: where the payload begins.
        ending: what stands behind it: two line ends.
    """

    pieces: tuple[bytes, ...]
    holes: tuple[int, ...]
    data_at: int
    ending: bytes

    def payload(self, event: bytes) -> bytes:
        """The payload of an event of this shape."""
        return event[self.data_at : -len(self.ending)]

    def pattern(self, first: int) -> bytes:
        """A regular expression for events of this shape, from a piece on."""
        between = [_PATTERNS[hole] for hole in self.holes[first:]]
        return b"".join(
            [re.escape(piece) + hole for piece, hole in zip(self.pieces[first:], [*between, b""], strict=True)]
        )

    def filled(self, text: bytes, number: int) -> bytes:
        """The bytes of another event of this shape."""
        digits, listed = b"%d" % number, _ANY_LIST % text
        fillings = {TEXT: text, IGNORED: text, NUMBERED: digits, COUNTED: digits, LIST: listed}
        return b"".join(
            [piece + fillings[hole] for piece, hole in zip(self.pieces, self.holes, strict=False)] + [self.pieces[-1]]
        )


class Listed(NamedTuple):
    """The list in an event that may be another one.

    Attributes:
        whole: what the adapter says of it.
        start, end: where it stands in the event.
        first: its bytes up to the value of the first member of its first object.
        value: the list.
    """

    whole: PassedList
    start: int
    end: int
    first: bytes
    value: Any

    def taken_from(self, deltas: list[Delta]) -> Says | None:
        """Takes the deltas of the list from the end of those of its event; None if they do not stand there."""
        try:
            made = self.whole.read(self.value)
        except ValueError:  # something else is called so
            return None
        if not made or deltas[-len(made) :] != made:
            return None
        del deltas[-len(made) :]
        return lambda text: self.whole.read(from_json(_ANY_LIST % text.encode()))


def list_in(raw: bytes, whole: PassedList) -> Listed | None:
    """Finds the list in an event that may be another one."""
    begin = rb'"%b"\s*:\s*(\[\s*\{\s*"%b"\s*:)' % (whole.member.encode(), whole.first.encode())
    if (found := re.search(begin, raw)) is None:
        return None
    try:
        text = raw[found.start(1) :].decode()
        listed = text[: _DECODER.raw_decode(text)[1]].encode()
        return Listed(whole, found.start(1), found.start(1) + len(listed), found[1], from_json(listed))
    except (ValueError, RecursionError):
        return None


def shape_of(raw: bytes, passed: Passed, listed: Listed | None) -> Shape | None:
    """Takes an event apart. None if it is more than one line of data and perhaps a name, or if it has not one text."""
    ending = b"\r\n\r\n" if raw.endswith(b"\r\n\r\n") else b"\n\n"
    *names, data = raw.removesuffix(ending).split(ending[len(ending) // 2 :])
    if (
        not raw.endswith(ending)
        or b"\r" in data + b"".join(names)
        or not data.startswith(b"data: ")
        or [name for name in names if not name.startswith(b"event: ")]
    ):
        return None
    data_at = len(raw) - len(data) - len(ending) + len(b"data: ")
    pieces: list[bytes] = [raw[:data_at]]
    holes: list[int] = []
    if listed is not None:
        data = raw[data_at - 6 : listed.start] + _IN_LIST_PLACE + raw[listed.end : -len(ending)]
    before, member = b"", ""  # what stands before a string, and the string before that
    depth = 0  # in the object with the counts
    for place, token in enumerate(_STRINGS.split(data[len(b"data: ") :])):
        hole: int | None = None
        if token == _IN_LIST_PLACE and listed is not None:
            hole, head, tail = LIST, b"", b""
        elif place % 2 and before.strip() == b":":  # a value
            hole = IGNORED if member in passed.ignored else TEXT if member in passed.texts and token != b'""' else None
            head, tail = b'"', b'"'
        elif place % 2:
            member = token[1:-1].decode("utf-8", "replace")
        elif member == passed.number and (number := _NUMBER.match(token)):
            hole, head, tail = NUMBERED, number[1], token[number.end() :]
        elif passed.counts and (depth or member == passed.counts):
            if number := _COUNT.match(token):
                hole, head, tail = COUNTED, number[1], token[number.end() :]
            depth = max(0, depth + token.count(b"{") + token.count(b"[") - token.count(b"}") - token.count(b"]"))
        if hole is None:
            pieces[-1] += token
        else:
            holes.append(hole)
            pieces[-1] += head
            pieces.append(tail)
        before = b"" if place % 2 else token
    pieces[-1] += ending
    changing = [hole for hole in holes if hole in (TEXT, LIST)]
    if changing != [TEXT if listed is None else LIST] or (listed is not None and holes[0] != LIST):
        return None
    return Shape(tuple(pieces), tuple(holes), data_at, ending)
