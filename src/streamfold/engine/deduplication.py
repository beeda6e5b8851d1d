"""Drops repetitions: texts that a server sends first as deltas and then complete, and SSE events that it sends
twice.

The Responses API sends every text four times: as deltas, and complete when the content part, the output item and the
response end. Some servers omit some of these copies. streamfold uses the copy that arrives first. If a later copy is
longer, streamfold appends the rest of that copy. If a later copy differs, the reply has a warning.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..deltas import Delta, ReasoningDelta, RefusalDelta, Sequence, TextDelta, Warn
from ..errors import ProtocolError
from ..jsontext import join_surrogates
from ..types import PartRef
from .accumulator import TextBuffer

PartedDelta: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta
_MOST_PARTS = 2**16
_REMEMBERED = 2**16  # sequence numbers


@dataclass(slots=True, eq=False)
class _Shown:
    """The text of one content part.

    Attributes:
        place: the content part's position in the response, if known.
        ended: true if the complete text has arrived.
        ahead: the complete text, if the server sent it before its deltas. The deltas may still follow.
        waiting: text that is held back until earlier content parts are complete.
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
        # Halves of a surrogate pair may arrive in two pieces (fixtures/aimock).
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return join_surrogates(self.pieces[0]) if self.pieces else ""


class TextDeduplicator:
    """Removes repetitions from texts that arrive both as deltas and complete.

    If a content part begins before an earlier content part of the same kind has ended, the deduplicator holds back the
    later part's text until then.

    Args:
        buffers: for each class of deltas, the buffer with all text that has been received.
    """

    def __init__(self, buffers: Mapping[type[Delta], TextBuffer]) -> None:
        self._buffers = buffers
        self._parts: dict[Hashable, _Shown] = {}
        self._answers: dict[type[PartedDelta], _Shown] = {}  # of whole responses, whose text is in the buffer
        self._last: dict[type[PartedDelta], _Shown] = {}
        self._current: dict[bool, _Shown] = {}  # the parts whose text isn't held back; True: reasoning
        self._waiting: dict[bool, list[tuple[type[PartedDelta], _Shown]]] = {}  # later content parts
        self._done: set[int | None] = set()  # positions of complete output items
        self._unnumbered: dict[Hashable, _Shown] = {}
        self._forms: dict[Hashable, str] = {}
        self._going_on: tuple[type[PartedDelta], PartRef, _Shown] | None = None  # the content part of the last delta

    def append_to_last(self, delta: PartedDelta) -> bool:
        """Appends a delta if it belongs to the same content part as the previous delta. Returns True if it did."""
        if self._going_on is None or delta.whole:
            return False
        kind, part, shown = self._going_on
        if delta.part != part or type(delta) is not kind:
            return False
        shown.pieces.append(delta.text)
        shown.size += len(delta.text)
        return True

    def feed(self, delta: PartedDelta) -> list[Delta]:
        """Returns the deltas that replace `delta`: no delta for a repetition, the missing end of a complete text, or
        a warning."""
        self._going_on = None
        kind, part = type(delta), delta.part
        answer = self._answers.setdefault(kind, _Shown())
        if part and delta.whole and answer.ended:
            return []
        if part and part.form and delta.text and self._is_another_form(part):
            return []
        shown = self._find(kind, part, delta.whole) if part else answer
        if not delta.whole:
            if ahead := shown.ahead:
                text = delta.text
                shown.ahead = ahead[len(text) :] if ahead.startswith(text) else ""
                if shown.ahead:
                    return []
                left = text.removeprefix(ahead)
                return self._show(replace(delta, text=left), shown) if left else []
            out = self._show(delta, shown)
            if part and (part.item or part.output is not None) and shown.waiting is None:
                self._going_on = kind, part, shown
            return out
        if part is None:
            answer.size = self._buffers[kind].size
            self._current.clear()  # content parts without deltas follow all others
        return self._compare(delta, shown, answer)

    def shown(self, kind: type[PartedDelta], part: PartRef | None = None) -> str:
        return self._buffers[kind].raw if part is None else self._find(kind, part, whole=False).text

    def received(self, kind: type[PartedDelta]) -> str:
        """Returns all received text of a kind of delta, including text that is held back."""
        waiting = (shown for texts in self._waiting.values() for of, shown in texts if of is kind)
        return self.shown(kind) + "".join(text for shown in waiting for text in shown.waiting or ())

    def finish_item(self, output: int | None) -> list[PartedDelta]:
        """Records that an output item is complete. Returns the texts that waited for this item."""
        if output is None:
            return []
        self._done.add(output)
        return self._take_waiting(is_end=False)

    def release(self) -> list[PartedDelta]:
        """Returns the texts held back so far, and stops holding them back."""
        return self._take_waiting(is_end=True)

    def _take_waiting(self, *, is_end: bool) -> list[PartedDelta]:
        out: list[PartedDelta] = []
        for buffer, waiting in self._waiting.items():
            while waiting and (is_end or self._is_followed_by(self._current.get(buffer), waiting[0][1])):
                kind, shown = waiting.pop(0)
                self._current[buffer] = self._last[kind] = shown
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
        # A joined surrogate pair makes a text shorter. A complete text that is far shorter isn't compared again.
        if shown.differs and len(whole) < shown.size // 2:
            return []
        before = self._buffers[kind].raw if delta.part is None else shown.text
        begins = whole.startswith(before)
        shown.ended = begins or delta.part is not None
        if whole == before:
            return []
        new = replace(delta, text=whole[len(before) :], whole=False)
        if not before:
            return self._show(new, shown)
        if begins and (shown.waiting is not None or shown in (answer, self._last.get(kind))):
            shown.ahead = new.text if delta.part else ""
            late = Warn(
                "text_mismatch", "the end of a text was missing in the deltas and arrived only with the complete text"
            )
            return [late, *self._show(new, shown)]
        shown.differs = True
        pairs = enumerate(zip(before, whole, strict=False))
        at = next((at for at, (one, other) in pairs if one != other), min(len(before), len(whole)))
        parts = f"the deltas have {before[at : at + 20]!r} and the complete text {whole[at : at + 20]!r}"
        detail = f"the deltas of a text and the complete text differ: at character {at}, {parts}"
        return [Warn("text_mismatch", detail)]

    def _show(self, delta: PartedDelta, shown: _Shown) -> list[Delta]:
        if shown is self._answers[(kind := type(delta))]:
            return [delta]
        shown.add(delta.text)
        if shown.place is not None and self._holds_back(kind, shown, delta.text):
            return []
        self._last[kind] = shown
        return [delta]

    def _holds_back(self, kind: type[PartedDelta], shown: _Shown, text: str) -> bool:
        if shown.waiting is not None:
            shown.waiting.append(text)
            return True
        buffer = kind is ReasoningDelta
        current, waiting = self._current.get(buffer, shown), self._waiting.setdefault(buffer, [])
        if self._is_followed_by(current, shown) or (current.ended and not waiting):
            self._current[buffer] = shown
            return False
        shown.waiting = [text]
        waiting.append((kind, shown))
        return True

    def _find(self, kind: type[PartedDelta], part: PartRef, whole: bool) -> _Shown:
        """Finds a content part by the position of its output item, or by the item's id.

        GitHub's Copilot uses a new item id in each event. llama.cpp sends no position. transformers repeats a complete
        item at another position. A delta that has neither a position nor an id belongs to the content part with the
        same number, unless that part's complete text has already arrived.
        """
        output, item, number, _ = part
        keys: list[Hashable] = []
        if output is not None:
            keys.append((kind, "output", output, number))
        if item:
            keys.append((kind, "item", item, number))
        found = next((self._parts[key] for key in keys if key in self._parts), None)
        if found is None and (whole or not keys):
            found = self._unnumbered.pop((kind, number), None)
            if found and found.ended and not whole:
                found = None
        found = found or _Shown()
        if output is not None and found.place is None:
            found.place = PartRef(output, None, number)
        for key in keys:
            self._parts[key] = found
        if not keys:
            self._unnumbered[kind, number] = found
        if len(self._parts) + len(self._unnumbered) > _MOST_PARTS:
            raise ProtocolError(f"the answer has more than {_MOST_PARTS} content parts")
        return found

    def _is_another_form(self, part: PartRef) -> bool:
        """Returns whether an item's reasoning has already arrived in its other form. Reasoning has two forms: the
        summary and the full text."""
        keys: list[Hashable] = [("output", part.output)] if part.output is not None else []
        keys += [("item", part.item)] if part.item else []
        form = next((self._forms[key] for key in keys if key in self._forms), part.form)
        for key in keys:
            self._forms.setdefault(key, form)
        return form != part.form


class EventDeduplicator:
    """Detects SSE events that the server sent twice, for example after a reconnect.

    Some gateways use random sequence numbers, or the same number for all events. So the deduplicator skips an event
    only if an earlier event had the same number and the same bytes. The deduplicator reports a gap in the numbers only
    if every event has a number (fixtures/litellm).

    Attributes:
        unreliable: true if a sequence number wasn't higher than the previous number. The engine then ignores gaps.
        last_id: the id of the last event with an id; "" if no event had an id, None on APIs without event ids.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: dict[int, int] = {}
        self._seen_before: dict[int, int] = {}  # together, the last 2 * _REMEMBERED numbers
        self._constant = False  # all events have the same number, so the numbers are useless
        self._partial = False
        self.unreliable = False
        self.last_id: str | None = None

    @property
    def last(self) -> int | None:
        """The sequence number of the last event; None if the numbers can't be used to resume the response."""
        return None if self.unreliable or self._constant or self._partial else self._last

    def feed(self, sequence: Sequence, data: str) -> Warn | None:
        """Returns the warning `repeated_event` if the event must be skipped, the warning `missing_event` after a gap
        in the sequence numbers, or None."""
        number, last = sequence.number, self._last
        if sequence.id is not None:
            self.last_id = sequence.id or self.last_id or ""
            return None
        if number is None:
            self._partial = True
            return None
        fingerprint, gap = hash(data), None
        if last is None or number != last + 1:  # rare
            known = self._seen.get(number, self._seen_before.get(number))
            if len(self._seen) == 1 and not self._seen_before and known not in (None, fingerprint):
                self._constant = True
            if known == fingerprint and not self._constant:
                return Warn("repeated_event", "repeated SSE events were skipped")
            self.unreliable = self.unreliable or (last is not None and number <= last)
            if last is not None and number > last + 1 and not self._partial:
                gap = Warn("missing_event", f"events {last + 1} to {number - 1} are missing")
        self._seen[number] = fingerprint
        if len(self._seen) >= _REMEMBERED:
            self._seen_before, self._seen = self._seen, {}
        if last is None or number > last:
            self._last = number
        return gap
