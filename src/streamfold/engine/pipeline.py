"""What stands between an adapter and the fold: repetitions out, the dialect's filter, and the order at the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..values import Call, Delta, Done, Failure, Finish, Meta, Reasoning, Refusal, Sequence, StreamChunk, Text
from .dialects import Dialect, describe_leak
from .fold import Fold
from .parts import Parts, Resumption

__all__ = ["Pipeline"]


class Pipeline:
    """Takes the deltas of events, and folds what is new in them into chunks.

    Args:
        dialect: reads calls and reasoning in the text.
        read: the names of the dialects that read calls in this answer. Markup of any other that shows in the text is
            worth a warning.
    """

    def __init__(self, fold: Fold, dialect: Dialect | None = None, *, read: Collection[str] = ()) -> None:
        self._fold = fold
        self._dialect = dialect
        self._read = read
        self._parts = Parts()
        self._raw: dict[type[Delta], list[str]] = {}  # what a dialect was fed
        self._numbers = Resumption()
        self._finish: Finish | None = None  # kept until the dialect has given what came before it

    @property
    def has_finish_reason(self) -> bool:
        return self._finish is not None or self._fold.has_finish_reason

    def feed(self, deltas: Iterable[Delta], data: str, chunks: list[StreamChunk]) -> None:
        """Adds the chunks of one event to `chunks`. `data` is its payload, by which a repetition is known.

        Raises:
            StreamError: the event ends the answer with an error.
        """
        fold = self._fold
        for delta in deltas:
            kind = type(delta)
            if kind is Meta:
                if not fold.identified:  # it comes with every event of some wires
                    fold.feed(delta)
            elif isinstance(delta, Sequence):
                if (warning := self._numbers.feed(delta, data)) is not None:
                    fold.warn(warning.code, warning.detail)
                    if warning.code == "repeated_event":
                        return
            elif isinstance(delta, (Text, Reasoning, Refusal)) and not (
                (delta.part is None and not delta.whole) or self._parts.goes_on(delta)
            ):
                self._sort(delta, chunks)
            elif self._dialect is not None or kind is Done or kind is Failure:
                self._filter(delta, chunks)
            elif (chunk := fold.feed(delta)) is not None:
                chunks.append(chunk)

    def end(self, chunks: list[StreamChunk]) -> None:
        """The text has ended: what the dialect held back, and whether the text shows what one should have read."""
        self._fold_all(self._held_back(), chunks)
        if leak := describe_leak(self._fold.text, self._read):
            self._fold.warn("leaked_markup", leak)

    def give_up(self, chunks: list[StreamChunk]) -> None:
        """The answer ends with an error: only the text that was held back is still worth something."""
        self._fold_all((held for held in self._held_back() if isinstance(held, Text | Reasoning)), chunks)

    def _sort(self, delta: Text | Reasoning | Refusal, chunks: list[StreamChunk]) -> None:
        kind = type(delta)
        if delta.whole and delta.part is None:
            raw = self._raw.get(kind, ())
            self._parts.catch_up(kind, self._fold.said(kind) if self._dialect is None else "".join(raw))
        for new in self._parts.feed(delta):
            self._filter(new, chunks)

    def _filter(self, delta: Delta, chunks: list[StreamChunk]) -> None:
        if isinstance(delta, Finish) and self._dialect is not None:
            self._finish = delta
            return
        if self._finish is not None:  # the fold will see it after what comes now
            if isinstance(delta, Text) and delta.text:
                self._fold.warn("late_content", "text came after the finish reason")
            elif isinstance(delta, Call) and (delta.id or delta.name or delta.arguments):
                self._fold.warn("late_content", "tool calls came after a finish reason")
        if isinstance(delta, (Done, Failure)):
            self.end(chunks)
        if self._dialect is not None:
            if isinstance(delta, (Text, Reasoning, Refusal)):
                self._raw.setdefault(type(delta), []).append(delta.text)
            self._fold_all(self._dialect.feed(delta), chunks)
        elif (chunk := self._fold.feed(delta)) is not None:
            chunks.append(chunk)

    def _fold_all(self, deltas: Iterable[Delta], chunks: list[StreamChunk]) -> None:
        for delta in deltas:
            if (chunk := self._fold.feed(delta)) is not None:
                chunks.append(chunk)

    def _held_back(self) -> Iterator[Delta]:
        dialect, self._dialect = self._dialect, None
        if dialect is not None:
            yield from dialect.finish()
        finish, self._finish = self._finish, None
        if finish is not None:
            yield finish
