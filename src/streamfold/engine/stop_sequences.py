"""Stop sequences for models that don't support them. streamfold ends the response at the first stop sequence in the
text."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..deltas import Delta, ReasoningDelta, RefusalDelta, StopSequenceHit, TextDelta
from ..types import ToolCallDelta


class StopSequences:
    """Ends the response's text at the first stop sequence. Holds back text that may begin a stop sequence."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = tuple(texts)
        self._held = ""
        self._stopped = False

    def feed(self, delta: Delta) -> Iterator[Delta]:
        if self._stopped:
            return
        if isinstance(delta, TextDelta):
            yield from self._read(delta.text)
            return
        if isinstance(delta, ReasoningDelta | RefusalDelta | ToolCallDelta):
            yield from self.finish()  # a stop sequence doesn't span other deltas
        yield delta

    def finish(self) -> Iterator[Delta]:
        held, self._held = self._held, ""
        if held and not self._stopped:
            yield TextDelta(held)

    def _read(self, piece: str) -> Iterator[Delta]:
        text = self._held + piece
        # The sequence that ends first wins, however the text was cut.
        found = [(at + len(stop), at) for stop in self._texts if (at := text.find(stop)) >= 0]
        if found:
            end, start = min(found)
            self._stopped, self._held = True, ""
            if start:
                yield TextDelta(text[:start])
            yield StopSequenceHit(text[start:end])
            return
        # The longest suffix that may begin a stop sequence is held back.
        sizes = range(min(max(map(len, self._texts)) - 1, len(text)), 0, -1)
        held = next((size for size in sizes if any(stop.startswith(text[-size:]) for stop in self._texts)), 0)
        self._held = text[len(text) - held :]
        if shown := text[: len(text) - held]:
            yield TextDelta(shown)
