"""`stop` for models that don't take it: the reader ends the answer where one of the texts begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..deltas import Delta, ReasoningDelta, RefusalDelta, StopSequenceHit, TextDelta
from ..types import ToolCallDelta
from .dialects import Dialect


class StopSequences:
    """Passes deltas on until a stop sequence appears, and holds back what may be the beginning of one."""

    def __init__(self, texts: Collection[str], dialect: Dialect | None = None) -> None:
        self._dialect = dialect
        self._texts = tuple(texts)
        self._held = ""
        self._stopped = False

    def feed(self, delta: Delta) -> Iterator[Delta]:
        yield from self._through((delta,) if self._dialect is None else self._dialect.feed(delta))

    def finish(self) -> Iterator[Delta]:
        yield from self._through(() if self._dialect is None else self._dialect.finish())
        yield from self._release()

    def _through(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            if self._stopped:
                return
            if isinstance(delta, TextDelta):
                yield from self._read(delta.text)
                continue
            if isinstance(delta, ReasoningDelta | RefusalDelta | ToolCallDelta):
                yield from self._release()  # a text to stop at does not reach across them
            yield delta

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
        kept = self._beginning(text)
        self._held = text[len(text) - kept :]
        if shown := text[: len(text) - kept]:
            yield TextDelta(shown)

    def _beginning(self, text: str) -> int:
        """Returns the length of the longest suffix that may begin a stop sequence."""
        longest = min(max(map(len, self._texts)) - 1, len(text))
        sizes = range(longest, 0, -1)
        return next((size for size in sizes if any(stop.startswith(text[-size:]) for stop in self._texts)), 0)

    def _release(self) -> Iterator[Delta]:
        held, self._held = self._held, ""
        if held and not self._stopped:
            yield TextDelta(held)
