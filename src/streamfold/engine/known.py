"""Events that are known: nearly every event of an answer is the last one of its kind with another text in it.

The full path splits an event into lines, parses its JSON and decodes it to deltas, each time for one new string. This
room learns the bytes round that string from two events that the full path has read, and then reads only what is
between them. It is never less strict than the full path:

- Only strings that the adapter hands on unchanged may differ (`adapters/passing.py`), the strings that it never reads,
  the number of the event, which must be the next one, and counts of tokens, of which the last ones are read. Every
  other byte must be the same, up to the blank line.
- A string must be UTF-8 and JSON up to its closing quote. One with escapes is parsed by the parser of the full path.
- Which text of which delta the string becomes is tried out: the event is decoded with another string in its place, and
  the result must be the same but for that text.
- Anything else - an empty text, half an event, an event that is larger than the limit - takes the full path, which
  alone decides what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json

from ..adapters import Passed
from ..values import BlockPiece, Call, Delta, Finish, Meta, Reasoning, Sequence, Text, UsageUpdate
from .parts import EventNumbers
from .shapes import COUNTED, NUMBERED, TEXT, Listed, Says, Shape, list_in, shape_of
from .usage import UnreadCounts, count_something

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

_LONG = 12  # events that came together; a shorter answer is read sooner than its kinds of events are learned
_SINGLE = 0.2  # of such an event is what one counts that came alone: to know it saves less
_MOST_KNOWN = 16  # kinds of events
_LARGEST = 64 * 1024  # bytes of an event that is learned
_PATIENCE = 80  # events that are not known before it is given up
_LOOK = 5  # for how many of them one counts that is looked at
_STRING_END = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\.)*+')
_CONTROL = re.compile("[\x00-\x1f]")
_BACKSLASH = ord("\\")
_PROBE = b"~ known ~"

Decode: TypeAlias = Callable[["ServerSentEvent"], Iterable[Delta]]
Maker: TypeAlias = Callable[[str], Delta]
Counts: TypeAlias = Callable[[bytes], UsageUpdate]


class Known:
    """A kind of event.

    Attributes:
        begin: the bytes with which it begins.
        make: makes the delta of a text.
        empty: the delta of no text.
        of_call: whether the texts are pieces of a call.
        counts: reads the counts of tokens in the bytes of an event; None where it has none.
    """

    counts: Counts | None = None

    def __init__(self, shape: Shape, make: Maker) -> None:
        *pieces, self._last = shape.pieces
        count = len(pieces)
        self._steps = [
            (piece, len(piece), hole, place == count)
            for place, (piece, hole) in enumerate(zip(pieces, shape.holes, strict=True), 1)
        ]
        self.begin = shape.pieces[0]
        self._data_at, self._close = shape.data_at, len(shape.ending)
        self._behind = len(shape.ending) - shape.ending.index(b"\n") - len(self._last)  # from the end of its line
        self.make = make
        self.empty = made = make("")
        self.of_call = isinstance(made, Call) or (isinstance(made, BlockPiece) and made.kind == "call")
        self._numbered = NUMBERED in shape.holes

    def run(self, data: bytes, at: int, numbers: EventNumbers, limit: int) -> Run | None:
        """Returns the events of this kind that stand at `at`, and counts their numbers; None if there is none."""
        # One step of this loop is all that is done for nearly every event.
        startswith, find, steps, last, behind = data.startswith, data.find, self._steps, self._last, self._behind
        length = len(last)
        number = following = numbers.following
        texts: list[str] = []
        ends: list[int] = []
        prints: list[int] = []
        text = ""
        while True:
            here = at
            for piece, size, hole, is_last in steps:
                if not startswith(piece, here):
                    break
                here += size
                if hole == NUMBERED:
                    digits = b"%d" % number
                    if not startswith(digits, here):
                        break
                    here += len(digits)
                    continue
                if is_last:  # what follows is the rest of the line
                    end = find(b"\n", here) + behind
                elif (end := find(b'"', here)) > 0 and data[end - 1] == _BACKSLASH:
                    end = _STRING_END.match(data, here).end()  # type: ignore[union-attr]
                if end < here:
                    break
                try:
                    string = data[here:end].decode()
                    if "\\" in string or '"' in string:
                        string = from_json(data[here - 1 : end + 1])
                    elif not string.isprintable() and _CONTROL.search(string):
                        break
                except ValueError:
                    break
                here = end
                if hole == TEXT:
                    text = string
            else:
                end = here + length
                if text and startswith(last, here) and end - at <= limit:
                    texts.append(text)
                    ends.append(end)
                    if self._numbered:
                        prints.append(hash(data[at + self._data_at : end - self._close]))
                        number += 1
                    at = end
                    continue
            if prints:
                numbers.add(following, prints)
            return (self, texts, ends) if texts else None


class _Counting(Known):
    """A kind of event with the counts of tokens so far, of which there are too many to be looked at one by one."""

    def __init__(self, shape: Shape, make: Maker, counts: Counts) -> None:
        super().__init__(shape, make)
        self._match = re.compile(shape.pattern(0)).match
        self.counts = lambda event: counts(shape.payload(event))

    def run(self, data: bytes, at: int, numbers: EventNumbers, limit: int) -> Run | None:
        texts: list[str] = []
        ends: list[int] = []
        while (found := self._match(data, at)) is not None and found[1] and found.end() - at <= limit:
            text = found[1]
            try:
                texts.append(from_json(b'"%b"' % text) if b"\\" in text else text.decode())
            except ValueError:
                break
            at = found.end()
            ends.append(at)
        return (self, texts, ends) if texts else None


class KnownLists:
    """A kind of event that is known but for a list, which the adapter reads by itself, and the counts of tokens.

    What begins as a list and is one, up to the bytes that the kind ends with, can't be read in another way.
    """

    def __init__(self, shape: Shape, listed: Listed, counts: Counts | None) -> None:
        head, tail, *_ = shape.pieces
        self.begin = head + listed.first
        self._list_at, self._data_at, self._says = len(head), shape.data_at, listed.whole.read
        self._tail, self._behind = tail, len(shape.ending) - shape.ending.index(b"\n")
        self._match, self._close = re.compile(shape.pattern(1)).match, len(shape.ending)
        self.counts = counts and (lambda event: counts(shape.payload(event)))

    def run(self, data: bytes, at: int, numbers: EventNumbers, limit: int) -> ListRun | None:
        """Returns the events of this kind that stand at `at`; None if there is none."""
        found: list[tuple[list[Delta], str]] = []
        ends: list[int] = []
        while data.startswith(self.begin, at):
            start, end = at + self._list_at, data.find(b"\n", at + self._data_at) + self._behind
            behind = data.rfind(self._tail, start, end)
            tail = self._match(data, behind) if behind > 0 else None
            if tail is None or tail.end() != end or end - at > limit or data.find(b"\r", start, behind) > 0:
                break
            try:
                deltas = self._says(from_json(data[start:behind]))
            except ValueError:
                break
            if not deltas:
                break
            found.append((deltas, data[at + self._data_at : end - self._close].decode()))
            ends.append(end)
            at = end
        return (self, found, ends) if found else None


# Known events of one kind that follow each other in the bytes: the text of each, which is never empty, and its end.
Run: TypeAlias = tuple[Known, list[str], list[int]]
# The same of known lists: the deltas of each, and the payload.
ListRun: TypeAlias = tuple[KnownLists, list[tuple[list[Delta], str]], list[int]]
AnyRun: TypeAlias = tuple[Known | KnownLists, list[Any], list[int]]


class KnownEvents:
    """The kinds of events that are known in one answer.

    Args:
        passed: which strings may differ.
        decode: the adapter's.
        limit: how large an event may be, in bytes.
        numbers: the numbers of the events so far.

    Attributes:
        blank_line: what ends an event.
        hopeless: the events of this answer are not alike: to look at more of them is not worth the time.
    """

    def __init__(self, passed: Passed, decode: Decode, limit: int, numbers: EventNumbers) -> None:
        self._passed = passed
        self._decode = decode
        self._limit = limit
        self._numbers = numbers
        self._known: list[Known | KnownLists] = []
        self._next = 0  # the one to begin with
        self._seen: dict[Shape, None] = {}  # a set that keeps its order
        self._patience = _PATIENCE
        self._size = 0.0  # of the answer so far, up to `_LONG`
        self.blank_line = b"\n\n"
        self.hopeless = False

    def is_worth(self, data: bytes) -> bool:
        """Returns whether so many events have come that it is worth the time to learn their kinds."""
        if self._size < _LONG:
            if b"\r\n\r\n" in data:  # as Google writes
                self.blank_line = b"\n\r\n"
            events = data.count(self.blank_line)
            self._size += _SINGLE if events == 1 else events
        return self._size >= _LONG

    def read(self, data: bytes, at: int) -> AnyRun | None:
        """Returns the known events that stand at `at`, as many as are of one kind; None if there is none."""
        kinds, count, place = self._known, len(self._known), self._next
        for _ in range(count):
            if place >= count:
                place = 0
            known = kinds[place]
            if data.startswith(known.begin, at) and (run := known.run(data, at, self._numbers, self._limit)):
                self._patience = _PATIENCE
                self._next = place + (len(run[1]) == 1)  # calls are often written in turn
                return run
            place += 1
        return None

    def learn(self, raw: bytes, event: ServerSentEvent, deltas: list[Delta]) -> None:
        """Looks at an event that the full path has read: the second of a kind makes it known.

        Args:
            raw: all bytes of the event.
        """
        others, counts = list(deltas), None
        if self._passed.counts and deltas and isinstance(usage := deltas[-1], UsageUpdate):
            counts = partial(self._counts, usage)
            others.pop()
        if others and type(others[-1]) is Finish:
            return  # the last event, or nearly
        listed = None if self._passed.whole is None or not others else list_in(raw, self._passed.whole)
        make = None if listed or not others else _maker(others.pop())
        says = listed.taken_from(others) if listed else None if make is None else partial(_one, make)
        self._patience -= 1 if says is None else _LOOK
        self.hopeless = self._patience <= 0
        if says is None or len(raw) > _LARGEST or (shape := shape_of(raw, self._passed, listed)) is None:
            return
        if shape not in self._seen:
            self._seen[shape] = None
            if len(self._seen) > _MOST_KNOWN:
                self._seen.pop(next(iter(self._seen)))
        elif self._changes_alone(shape, event, others, says, counts):
            known: Known | KnownLists
            if listed is not None:
                known = KnownLists(shape, listed, counts)
            elif make is not None:
                known = Known(shape, make) if counts is None else _Counting(shape, make, counts)
            self._known = [*self._known[1 - _MOST_KNOWN :], known]
            self._next = len(self._known) - 1

    def _counts(self, like: UsageUpdate, payload: bytes) -> UsageUpdate:
        name = self._passed.counts
        behind = payload.rfind(b'"%b"' % name.encode())  # a string that says so has a backslash before its last quote
        unread = UnreadCounts(b"{" + payload[behind:], name)
        # Counts are no zeros (`shapes.py`): what counts something once does so in each event of its kind.
        return UsageUpdate(unread if count_something(like.members) else dict(unread), like.read, like.whole)

    def _changes_alone(
        self,
        shape: Shape,
        event: ServerSentEvent,
        others: list[Delta],
        says: Says,
        counts: Counts | None,
    ) -> bool:
        """Tries out whether nothing but one text, or one list, and the counts, change with what may differ."""
        number = next((delta.number for delta in others if type(delta) is Sequence), None)
        if (number is None) == (NUMBERED in shape.holes) or (counts is None and COUNTED in shape.holes):
            return False
        if any(type(other) not in (Meta, Sequence) for other in others):
            return False
        if number is not None:
            others = [Sequence(number + 1) if type(other) is Sequence else other for other in others]
        data = shape.payload(shape.filled(_PROBE, (number or 0) + 1))
        try:
            made = [*others, *says(_PROBE.decode()), *([] if counts is None else [counts(data)])]
            return list(self._decode(type(event)(event.event, data.decode(), event.id))) == made
        except (ValueError, KeyError):
            return False


def _one(make: Maker, text: str) -> list[Delta]:
    return [make(text)]


def _maker(delta: Delta) -> Maker | None:
    """What makes the delta of another text; None for a delta that is more than the next piece of a text."""
    match delta:
        case Text(part=part, whole=False) | Reasoning(part=part, whole=False):
            return partial(type(delta), part=part)
        case Call(index, id, name, whole=False, extra=None, item=item, markup=False, ended=None):
            return lambda text: Call(index, id, name, text, False, None, item)
        case BlockPiece(index, "text" | "reasoning" | "call" as kind, member, str(), "append" | "json" as how, opens):
            return lambda text: BlockPiece(index, kind, member, text, how, opens)
    return None
