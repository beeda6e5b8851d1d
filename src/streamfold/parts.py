"""What a server says twice: the whole of a text after its pieces, and events that come again.

On the Responses wire every text comes as pieces, again as a whole when its part is done, again when its item is done,
and once more at the end of the answer; and some servers leave out any of these. The first to come is shown; what comes
later must agree with it, adds what was missing, or is a warning, because what was shown can't be taken back.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from .deltas import Delta, Part, Reasoning, Refusal, Sequence, Text, Warn

__all__ = ["Parts", "Resumption"]

PartedDelta = Text | Reasoning | Refusal


@dataclass(slots=True, eq=False)
class _Shown:
    """What has been shown of one part."""

    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Parts:
    """Keeps texts that come as pieces and as wholes from being shown twice, or not at all."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, _Shown] = {}
        self._all: dict[type[PartedDelta], _Shown] = {}

    def feed(self, delta: PartedDelta) -> list[Delta]:
        """What is to be shown for this delta: itself, the part of it that is new, a warning, or nothing."""
        whole_answer = self._all.setdefault(type(delta), _Shown())
        shown = self._find(type(delta), delta.part) if delta.part else whole_answer
        out: list[Delta] = []
        if delta.whole:
            before = shown.text
            if not delta.text.startswith(before):
                return [
                    Warn(
                        "text_mismatch", f"the pieces of a text and its whole differ: {_difference(before, delta.text)}"
                    )
                ]
            if delta.text == before:
                return []
            if before:
                out.append(Warn("text_mismatch", "the end of a text came only with its whole"))
            delta = replace(delta, text=delta.text[len(before) :], whole=False)
        shown.pieces.append(delta.text)
        if shown is not whole_answer:
            whole_answer.pieces.append(delta.text)
        return [*out, delta]

    def _find(self, kind: type[PartedDelta], part: Part) -> _Shown:
        """The part by the position of its item, else by the item's id.

        Both are known to fail: GitHub's Copilot draws another id for each event, llama.cpp sends no position, and
        transformers repeats a whole item at another position.
        """
        output, item, number = part
        keys: list[Hashable] = []
        if output is not None:
            keys.append((kind, "output", output, number))
        if item:
            keys.append((kind, "item", item, number))
        found = next((self._parts[key] for key in keys if key in self._parts), None) or _Shown()
        for key in keys:
            self._parts[key] = found
        return found


class Resumption:
    """Tells an event that was sent again, as when a stream is resumed, from the next one.

    A number that does not rise proves nothing by itself: some gateways number at random. Only an event that is the same
    to the byte as an earlier one of its number is taken for a repetition.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: dict[int, int] = {}

    def feed(self, sequence: Sequence, data: str) -> Warn | None:
        """A warning `repeated_event` if the event is to be skipped, `missing_event` if others are missing before it."""
        number, last, fingerprint = sequence.number, self._last, hash(data)
        if self._seen.get(number) == fingerprint:
            return Warn("repeated_event", "events came again and were skipped")
        self._seen[number] = fingerprint
        self._last = number if last is None else max(last, number)
        if last is not None and number > last + 1:
            return Warn("missing_event", f"events {last + 1} to {number - 1} are missing")
        return None


def _difference(shown: str, whole: str) -> str:
    at = next((at for at, (a, b) in enumerate(zip(shown, whole, strict=False)) if a != b), min(len(shown), len(whole)))
    return f"at character {at}, {shown[at : at + 20]!r} was shown and {whole[at : at + 20]!r} is said"
