"""The reader that all dialects share: text, reasoning and calls that a model writes into one lane.

    in text        what may begin here?
                     <think> at the head               -> in reasoning
                     </think> (which and where: below)    removed
                     what a family declares            -> its read(): makes calls, says that it is text, or declines
    in reasoning     </think> of its own kind          -> in text
                     what the family says ends it      -> in text, and read there

A family (Kimi, Hermes, ...) is a table of the markers that may begin something, and one function that reads what
follows. Between two structures the lane is plain: most text is looked at once, for the first character of a marker.

White space directly behind a structure, or at the start of the message, waits for what comes next: in front of text it
is text; in front of structure, and at the end, it is nothing. A message of white space alone is text, in every
dialect. Everything else comes out as it was written.

Reasoning is opened only at the head of the message, or by the prompt (`start_in_reasoning`). The first closer of its
own kind ends it. A closer in text is removed if none has ended reasoning yet (the prompt had opened it, or a call has
ended it), or directly behind a structure; any other is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import ClassVar

from ...text import join_surrogates
from ...values import Call, Delta, Reasoning, Text, Warn
from .dialect import DialectContext
from .scanner import NOT_SPACE, Markers, Reading, Scanner, markers

__all__ = ["Family", "Reader", "Verdict"]

# DeepSeek, Qwen, Kimi K2-Thinking and most others; then Kimi-VL and the early Kimi preview.
THINK = {"<think>": "</think>", "◁think▷": "◁/think▷"}
OPENERS, CLOSERS = tuple(THINK), tuple(THINK.values())


class Verdict(Enum):
    """The result of a family's attempt to read a structure."""

    TAKEN = auto()  # it was structure
    TEXT = auto()  # it looked like a call, and is text, all of it
    DECLINED = auto()  # not its own: another family may read it


class Family:
    """How the models of one family write calls.

    Attributes:
        heads: markers that may begin something at the head of the message only.
        openers: markers that may begin something anywhere in text.
        followers: markers that mean something directly behind a call.
        strays: markers that are removed from text.
        interrupts: openers that also end reasoning.
        boundaries: those of them that do so even if no calls are read.
        thinks: whether reasoning markup is read too.
    """

    heads: ClassVar[tuple[str, ...]] = ()
    openers: ClassVar[tuple[str, ...]] = ()
    followers: ClassVar[tuple[str, ...]] = ()
    strays: ClassVar[tuple[str, ...]] = ()
    interrupts: ClassVar[tuple[str, ...]] = ()
    boundaries: ClassVar[tuple[str, ...]] = ()
    thinks: ClassVar[bool] = True

    def __init__(self, context: DialectContext) -> None:
        self.tools = frozenset(tool.name for tool in context.tools)

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        """Reads on behind one of the markers above."""
        raise NotImplementedError  # a family without markers, such as `think`, is never asked


class Reader(Scanner):
    """One lane of one answer.

    Args:
        kind: what the lane carries, and what comes out of it if it is no markup.
        calls: whether calls are read.
        reasoning: whether reasoning markup is read.
        inside: whether the lane begins inside reasoning.
        draft: see `DialectContext`.

    Attributes:
        calls: the calls so far.
        warnings: what was odd about the markup.
    """

    def __init__(
        self,
        families: Sequence[Family],
        kind: type[Text | Reasoning] = Text,
        *,
        calls: bool,
        reasoning: bool = False,
        inside: bool = False,
        draft: Callable[[int, str, str], None] | None = None,
    ) -> None:
        super().__init__()
        self._on_draft = draft
        self._drafted = 0  # calls of which a piece has been shown
        self._kind = kind
        self._families = families if calls else ()
        self._strays = _all(family.strays for family in self._families)
        self._openers = _all(family.openers for family in self._families) + self._strays
        self._heads = _all(family.heads for family in self._families)
        self._followers = _all(family.followers for family in self._families)
        self._interrupts = _all(family.interrupts if calls else family.boundaries for family in families)
        self._reasoning = reasoning
        self._inside = inside  # in reasoning
        self._repeatable = inside  # the opener may still come, although the prompt has opened reasoning
        self._closers = CLOSERS  # what closes the reasoning
        self._opened = inside  # reasoning was opened once
        self._closed = False  # a closer has ended it
        self._head = True  # neither text nor a call so far
        self._fresh = True  # nothing but white space since the last structure
        self._structured = False
        self._space: list[str] = []  # which waits for what comes next
        self._out: list[Text | Reasoning] = []
        self.calls: list[Call] = []
        self.warnings: list[Warn] = []

    def feed(self, piece: str) -> list[Delta]:
        """Returns the deltas that can be shown after this piece."""
        self.push(piece)
        return self._shown()

    def finish(self) -> list[Delta]:
        """Returns what was held back."""
        self.end()
        if not self._structured and self._space:
            self._show("".join(self._space))
        self._space.clear()
        return self._shown()

    # Methods for families.

    def call(self, name: str, arguments: str, call_id: str | None = None) -> Verdict:
        """Takes a call that has been read."""
        if self._drafted <= len(self.calls):
            self.draft(name, arguments)
        made_id = join_surrogates(call_id) if call_id else None
        self.calls.append(Call(len(self.calls), made_id, join_surrogates(name), arguments.strip(), whole=True))
        self._head = False
        self.event()
        return Verdict.TAKEN

    def draft(self, name: str, piece: str) -> None:
        """Shows the next piece of the arguments of a call that is being read. It may still turn out to be none."""
        self._drafted = len(self.calls) + 1
        if self._on_draft:
            self._on_draft(len(self.calls), join_surrogates(name), piece)

    def event(self) -> None:
        """A structure has been read, or has certainly begun: what was read of it is no text any more."""
        self._structured = self._fresh = True
        self._space.clear()
        self._tape = None

    def unfinished(self, what: str) -> Verdict:
        """The input has ended inside a structure: the rest of it is not shown."""
        self._at = len(self._window)
        self.warnings.append(Warn("unfinished_markup", f"the answer ended inside {what}"))
        self.event()
        return Verdict.TAKEN

    def dropped(self, why: str) -> None:
        """Drops a call, with a warning."""
        self.warnings.append(Warn("markup_dropped", why))

    # The lane.

    def read(self) -> Reading[None]:
        while marker := (yield from self._reason() if self._inside else self._speak()):
            if self._inside:
                self._in_reasoning(marker)
            else:
                yield from self._in_text(marker)

    def _speak(self) -> Reading[str]:
        """Shows text up to the next marker; "" at the end."""
        if self._fresh:
            yield from self.span(NOT_SPACE, self._space.append)
            marker = yield from self.expect(self._wanted())
            if marker or self.at_end():
                return marker
            self._begin()
        return (yield from self.until(self._wanted(), self._show))

    def _wanted(self) -> Markers:
        """Returns the markers that count here."""
        wanted = self._openers
        if self._fresh:
            wanted += self._heads if self._head else ()
            wanted += self._followers if self.calls else ()
        if self._reasoning:
            wanted += CLOSERS if self._fresh or not self._closed else ()
            wanted += OPENERS if self._fresh and self._head and not self._opened else ()
        return markers(*wanted)

    def _in_text(self, marker: str) -> Reading[None]:
        if marker in CLOSERS:
            self._opened = self._closed = True
            self.event()
        elif marker in OPENERS:
            self._opened = self._inside = True
            self._closers = (THINK[marker],)
            self.event()
        elif marker not in self._strays:
            yield from self._ask(marker)

    def _ask(self, marker: str) -> Reading[None]:
        """Asks the families in turn what begins here."""
        self._head = self._head and marker not in self._heads
        for family in self._families:
            if marker not in family.openers + family.heads + family.followers:
                continue
            self._tape = [marker]
            verdict = yield from family.read(self, marker)
            tape, self._tape = "".join(self._tape or ()), None
            if verdict is Verdict.TEXT:
                self._say(tape)
            if verdict is not Verdict.DECLINED:
                return
            self.unread(tape[len(marker) :])
        self._say(marker)

    def _reason(self) -> Reading[str]:
        """Gives reasoning up to the marker that ends it; "" at the end."""
        wanted = self._closers + self._interrupts
        if self._repeatable:
            yield from self.span(NOT_SPACE, self._think)
            marker = yield from self.expect(markers(*wanted, *OPENERS))
            self._repeatable = False
            if marker or self.at_end():
                return marker
        return (yield from self.until(markers(*wanted), self._think))

    def _in_reasoning(self, marker: str) -> None:
        if marker in OPENERS:
            self._closers = (THINK[marker],)
            return
        self._inside = False
        self.event()
        if marker in CLOSERS:
            self._closed = True
        else:
            self.unread(marker)

    def _begin(self) -> None:
        """Text begins: the white space in front of it belongs to it."""
        self._head = self._fresh = False
        if self._space:
            self._show("".join(self._space))
            self._space.clear()

    def _say(self, text: str) -> None:
        if self._fresh:
            self._begin()
        self._show(text)

    def _show(self, piece: str) -> None:
        self._out.append(self._kind(piece))

    def _think(self, piece: str) -> None:
        self._out.append(Reasoning(piece))

    def _shown(self) -> list[Delta]:
        """Returns the deltas so far; neighbours of one kind are joined."""
        out, self._out = self._out, []
        if len(out) < 2:
            return [*out]
        return [kind("".join(delta.text for delta in group)) for kind, group in groupby(out, type)]


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(word for group in groups for word in group)
