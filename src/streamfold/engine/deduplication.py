"""Texts that a server repeats: the whole of a text after its pieces, and events that come again.

On the Responses API every text comes as pieces, again as a whole when its part is done, again when its item is done,
and once more at the end of the answer; and some servers leave out any of these. In Chat Completions the whole of the
message may follow its deltas. The first to come is shown; a repetition must agree with it, adds the text that was
missing, or is a warning, because what was shown can't be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..deltas import Delta, ReasoningDelta, RefusalDelta, Sequence, TextDelta, Warn
from ..errors import ProtocolError
from ..jsontext import join_surrogates
from ..types import PartRef
from .accumulator import TextBuffer

PartedDelta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta
_MOST_PARTS = 2**16
_REMEMBERED = 2**16  # numbers of events


@dataclass(slots=True, eq=False)
class _Shown:
    """What has been shown of one part, and whether its whole has come.

    Attributes:
        place: its position in the answer, if the server says one.
        ahead: the end that was shown because the whole had it, before its pieces came.
        waiting: text that may not be shown before earlier parts are complete.
    """

    place: PartRef | None = None
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    ended: bool = False
    differs: bool = False
    ahead: str = ""
    waiting: list[str] | None = None

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.size += len(piece)

    @property
    def text(self) -> str:
        # Joined as a lane joins it: the halves of a character may have come in two pieces (fixtures/aimock).
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return join_surrogates(self.pieces[0]) if self.pieces else ""


class TextDeduplicator:
    """Keeps texts that come as pieces and as wholes from being shown twice, or not at all, and their parts apart.

    The text of a part that begins before an earlier part of its kind is complete waits until the earlier item is done.

    Args:
        lane: returns all text of a kind that has been shown, whatever part it belongs to.
    """

    def __init__(self, lane: Callable[[type[PartedDelta]], TextBuffer]) -> None:
        self._lane = lane
        self._parts: dict[Hashable, _Shown] = {}
        self._answers: dict[type[PartedDelta], _Shown] = {}  # their text is that of the lane
        self._last: dict[type[PartedDelta], _Shown] = {}
        self._current: dict[bool, _Shown] = {}  # the part that is shown, of messages and of reasoning (True)
        self._waiting: dict[bool, list[tuple[type[PartedDelta], _Shown]]] = {}  # behind it
        self._done: set[int | None] = set()  # positions of items that are done
        self._nameless: dict[Hashable, _Shown] = {}
        self._forms: dict[Hashable, str] = {}
        self._going_on: tuple[type[PartedDelta], PartRef, _Shown] | None = None  # the part of the last piece

    def append_to_last(self, delta: PartedDelta) -> bool:
        """Whether this is the next piece of the part that the last one belonged to, as nearly every piece is."""
        if self._going_on is None or delta.whole:
            return False
        kind, part, shown = self._going_on
        if delta.part != part or type(delta) is not kind:
            return False
        shown.pieces.append(delta.text)
        shown.size += len(delta.text)
        return True

    def feed(self, delta: PartedDelta) -> list[Delta]:
        """Returns what is to be shown: the delta itself, the new end of a whole, a warning, or nothing.

        The whole of the answer is compared first, because it needs no names of parts. If it is what was shown, wholes
        of parts after it say nothing more; else they tell which parts were not shown at all.
        """
        self._going_on = None
        kind, part = type(delta), delta.part
        answer = self._answers.setdefault(kind, _Shown())
        if part and delta.whole and answer.ended:
            return []
        if part and part.form and delta.text and self._is_another_form(part):
            return []
        shown = self._find(kind, part, delta.whole) if part else answer
        if not delta.whole:
            if shown.ahead:
                return self._follow(delta, shown)
            out = self._show(delta, shown)
            if part and (part.item or part.output is not None) and shown.waiting is None:
                self._going_on = kind, part, shown
            return out
        if part is None:
            answer.size = self._lane(kind).size
            self._current.clear()  # parts that only the whole has are shown behind all others
        return self._compare(delta, shown, answer)

    def shown(self, kind: type[PartedDelta], part: PartRef | None = None) -> str:
        """Returns all text of a kind that has been shown, or that of one part."""
        return self._lane(kind).raw if part is None else self._find(kind, part, whole=False).text

    def finish_item(self, output: int | None) -> list[PartedDelta]:
        """Returns the texts that have waited for an item which is done."""
        if output is None:
            return []
        self._done.add(output)
        return self._take_waiting(is_end=False)

    def release(self) -> list[PartedDelta]:
        """Returns all texts that wait, because nothing more is expected."""
        return self._take_waiting(is_end=True)

    def _take_waiting(self, *, is_end: bool) -> list[PartedDelta]:
        out: list[PartedDelta] = []
        for lane, waiting in self._waiting.items():
            while waiting and (is_end or self._is_followed_by(self._current.get(lane), waiting[0][1])):
                kind, shown = waiting.pop(0)
                self._current[lane] = self._last[kind] = shown
                out.append(kind("".join(shown.waiting or ()), shown.place))
                shown.waiting = None
        return out

    def _is_followed_by(self, current: _Shown | None, part: _Shown) -> bool:
        if current is None:
            return True
        outputs = [one.place and one.place.output for one in (current, part)]
        return outputs[0] == outputs[1] or outputs[0] in self._done

    def _compare(self, delta: PartedDelta, shown: _Shown, answer: _Shown) -> list[Delta]:
        kind, whole = type(delta), join_surrogates(delta.text)
        # Two halves of a character may have become one. A whole that is far too short is not worth joining the pieces.
        if shown.differs and len(whole) < shown.size // 2:
            return []
        before = self._lane(kind).raw if delta.part is None else shown.text
        begins = whole.startswith(before)
        shown.ended = begins or delta.part is not None
        if whole == before:
            return []
        new = replace(delta, text=whole[len(before) :], whole=False)
        if not before:
            return self._show(new, shown)
        if begins and (shown.waiting is not None or shown in (answer, self._last.get(kind))):
            shown.ahead = new.text if delta.part else ""
            late = Warn("text_mismatch", "the end of a text came only with its whole")
            return [late, *self._show(new, shown)]
        shown.differs = True
        return [Warn("text_mismatch", f"the pieces of a text and its whole differ: {_difference(before, whole)}")]

    def _follow(self, delta: PartedDelta, shown: _Shown) -> list[Delta]:
        """Leaves out of a piece behind its whole what the whole has said already."""
        ahead, text = shown.ahead, delta.text
        shown.ahead = ahead[len(text) :] if ahead.startswith(text) else ""
        left = text[len(ahead) :] if text.startswith(ahead) else "" if shown.ahead else text
        return self._show(replace(delta, text=left), shown) if left else []

    def _show(self, delta: PartedDelta, shown: _Shown) -> list[Delta]:
        if shown is self._answers[(kind := type(delta))]:
            return [delta]
        shown.add(delta.text)
        if shown.place is not None and self._holds_back(kind, shown, delta.text):
            return []
        self._last[kind] = shown
        return [delta]

    def _holds_back(self, kind: type[PartedDelta], shown: _Shown, text: str) -> bool:
        """Keeps text of an item that begins inside another one. Returns whether it did."""
        if shown.waiting is not None:
            shown.waiting.append(text)
            return True
        lane = kind is ReasoningDelta
        current, waiting = self._current.get(lane, shown), self._waiting.setdefault(lane, [])
        if self._is_followed_by(current, shown) or (current.ended and not waiting):
            self._current[lane] = shown
            return False
        shown.waiting = [text]
        waiting.append((kind, shown))
        return True

    def _find(self, kind: type[PartedDelta], part: PartRef, whole: bool) -> _Shown:
        """The part by the position of its item, else by the item's id.

        Both are known to fail: GitHub's Copilot draws another id for each event, llama.cpp sends no position, and
        transformers repeats a whole item at another position. Pieces that have neither belong to one part for each
        number until a whole ends it; if that whole says where it belongs, they belonged there.
        """
        output, item, number, _ = part
        keys: list[Hashable] = []
        if output is not None:
            keys.append((kind, "output", output, number))
        if item:
            keys.append((kind, "item", item, number))
        found = next((self._parts[key] for key in keys if key in self._parts), None)
        if found is None and (whole or not keys):
            found = self._nameless.pop((kind, number), None)
            if found and found.ended and not whole:
                found = None
        found = found or _Shown()
        if output is not None and found.place is None:
            found.place = PartRef(output, None, number)
        for key in keys:
            self._parts[key] = found
        if not keys:
            self._nameless[kind, number] = found
        if len(self._parts) + len(self._nameless) > _MOST_PARTS:
            raise ProtocolError(f"the answer has more than {_MOST_PARTS} parts")
        return found

    def _is_another_form(self, part: PartRef) -> bool:
        """Whether this is the reasoning of an item once more, in another form than the one that is shown."""
        keys: list[Hashable] = [("output", part.output)] if part.output is not None else []
        keys += [("item", part.item)] if part.item else []
        form = next((self._forms[key] for key in keys if key in self._forms), part.form)
        for key in keys:
            self._forms.setdefault(key, form)
        return form != part.form


class EventDeduplicator:
    """Tells an event that was sent again, as after a reconnect, from the next one.

    A number that does not rise proves nothing by itself: some gateways number at random, or give every event the same
    number. Only an event that is the same to the byte as an earlier one of its number is taken for a repetition. A gap
    is one where every event has a number: the litellm proxy puts them on some (fixtures/litellm).

    Attributes:
        unreliable: a number fell, or all are the same: the gaps between them mean nothing.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: dict[int, int] = {}
        self._seen_before: dict[int, int] = {}  # of the last two times _REMEMBERED numbers
        self._constant = False  # all events have the same number, which says nothing
        self._partial = False
        self.unreliable = False

    @property
    def last(self) -> int | None:
        """The number of the last event; None if the numbers do not say where to go on."""
        return None if self.unreliable or self._constant or self._partial else self._last

    def feed(self, sequence: Sequence, data: str) -> Warn | None:
        """Returns a warning `repeated_event` if the event is to be skipped, `missing_event` if some are missing."""
        number, last = sequence.number, self._last
        if number is None:
            self._partial = True
            return None
        fingerprint = hash(data)
        if last is not None and number == last + 1:  # nearly every event
            self._seen[number], self._last = fingerprint, number
            if len(self._seen) >= _REMEMBERED:
                self._seen_before, self._seen = self._seen, {}
            return None
        known = self._seen.get(number, self._seen_before.get(number))
        if len(self._seen) == 1 and not self._seen_before and known not in (None, fingerprint):
            self._constant = True
        if known == fingerprint and not self._constant:
            return Warn("repeated_event", "events came again and were skipped")
        self.unreliable = self.unreliable or (last is not None and number <= last)
        self._seen[number] = fingerprint
        if len(self._seen) >= _REMEMBERED:
            self._seen_before, self._seen = self._seen, {}
        self._last = number if last is None else max(last, number)
        if last is not None and number > last + 1 and not self._partial:
            return Warn("missing_event", f"events {last + 1} to {number - 1} are missing")
        return None


def _difference(shown: str, whole: str) -> str:
    at = next((at for at, (a, b) in enumerate(zip(shown, whole, strict=False)) if a != b), min(len(shown), len(whole)))
    return f"at character {at}, {shown[at : at + 20]!r} was shown and {whole[at : at + 20]!r} is said"
