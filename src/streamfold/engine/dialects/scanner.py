"""Reads text that comes in pieces as if all of it were there.

A grammar for model output is short if you write it down for a whole text, and long if you write it down for a text that
may be cut anywhere. So the readers of this folder are generators: they ask for "everything up to one of these markers",
and are suspended inside the question when the text runs out. What has been cut, what must be held back because it may
be the beginning of a marker, and what is put back to be read again is known here and nowhere else.

Held back is only the longest end of the text that is a proper beginning of a marker in question; everything before it
goes on to the question's sink at once. No question looks at a character more often than the longest marker is long, so
the time is linear in the length of the text however it is cut.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import lru_cache
from typing import TypeAlias, TypeVar

from pydantic_core import from_json

from ...jsontext import BracketTracker, parse_object
from .grammar import TokenPattern

T = TypeVar("T")
Reading: TypeAlias = Generator[None, None, T]
_Sink: TypeAlias = Callable[[str], object]

NOT_SPACE = re.compile(r"\S")


class Markers:
    """Words that are looked for together."""

    def __init__(self, words: tuple[str, ...]) -> None:
        ordered = sorted(set(words), key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, ordered)) or "(?!)")
        self.search = pattern.search
        self.match = pattern.match
        self.starts = re.compile(f"[{re.escape(''.join({word[0] for word in words}))}]" if words else "(?!)").search
        self.beginnings = frozenset(word[:size] for word in words for size in range(len(word)))
        self.longest = max(map(len, words), default=1)

    def hold(self, text: str, at: int) -> int:
        """Where the longest end of `text` begins that may still become a marker; the length of the text if none may."""
        at = max(at, len(text) - self.longest + 1)
        while found := self.starts(text, at):
            if text[found.start() :] in self.beginnings:
                return found.start()
            at = found.end()
        return len(text)


@lru_cache(256)
def markers(*words: str) -> Markers:
    """The same markers are asked for again and again; their patterns are made once."""
    return Markers(words)


class Scanner(ABC):
    """The questions that a reader can ask. Each is a generator that ends when it is answered.

    Attributes:
        cut: whether the last question was answered by the end of the input in the middle of what may be a marker.
    """

    def __init__(self) -> None:
        self._window = ""
        self._at = 0
        self._ended = False
        self._position = 0  # in the whole text
        self._tape: list[str] | None = None  # what has been read since a structure may have begun
        self._idle: tuple[Markers, _Sink] | None = None  # the question, where nothing is held back
        self._settled: dict[Markers, int] = {}  # see body()
        self._answered = False  # see stop()
        self._read_again = 0  # characters, see again()
        self._program = self.read()
        self.cut = False

    @abstractmethod
    def read(self) -> Reading[None]:
        """The reader: goes through all of the text."""

    def push(self, text: str) -> None:
        """Takes the next piece of the text, and reads as far as it goes."""
        if self._idle and not self._idle[0].starts(text):
            self._position += len(text)
            if self._tape is not None:
                self._tape.append(text)
            self._idle[1](text)
            if not self._answered:
                return
            text = ""
        self._window = self._window[self._at :] + text
        self._at = 0
        next(self._program, None)

    def end(self) -> None:
        """Ends the text: reads the rest of it."""
        self._ended = True
        next(self._program, None)

    def at_end(self) -> bool:
        """Whether all of the input has been read, and no more can come."""
        return self._ended and self._at >= len(self._window)

    def broke_off(self) -> bool:
        """Whether the input has ended here, or in the middle of what may have been the wanted marker."""
        return self.cut or self.at_end()

    def until(self, wanted: Markers, sink: _Sink) -> Reading[str]:
        """Gives everything in front of the next marker to `sink`; the marker, or "" at the end of the input."""
        while True:
            found = wanted.search(self._window, self._at)
            if found and (self._ended or not self._may_grow(wanted, found.start())):
                if found.start() > self._at:
                    sink(self._take(found.start()))
                return "" if self._stopped() else self._take(found.end())
            held = found.start() if found else wanted.hold(self._window, self._at)
            self.cut = held < len(self._window)
            stop = len(self._window) if self._ended else held
            if stop > self._at:
                sink(self._take(stop))
            if self._stopped() or self._ended:
                return ""
            self._idle = (wanted, sink) if not self.cut else None
            yield
            self._idle = None
            if self._stopped():
                return ""

    def expect(self, wanted: Markers) -> Reading[str]:
        """The marker that stands here; "" as soon as none does."""
        while True:
            may_grow = self._may_grow(wanted, self._at)
            if self._ended or not may_grow:
                found = wanted.match(self._window, self._at)
                self.cut = may_grow and not found and not self.at_end()
                return self._take(found.end()) if found else ""
            yield

    def match(self, shape: TokenPattern, *, take: bool = True) -> Reading[re.Match[str] | None]:
        """What matches a shape here, which is read if `take` is set; None as soon as nothing can."""
        while True:
            stop = self._at + shape.longest
            found = shape.match(self._window, self._at, stop)
            begun = not found and len(self._window) < stop and bool(shape.begins(self._window, self._at))
            if found or not begun or self._ended:
                self.cut = begun
                if found and take:
                    self._take(found.end())
                return found
            yield

    def take(self, size: int) -> Reading[str]:
        """The next characters: so many, or as many as there are."""
        while len(self._window) - self._at < size and not self._ended:
            yield
        return self._take(min(self._at + size, len(self._window)))

    def span(self, stop: re.Pattern[str], sink: _Sink) -> Reading[str]:
        """Gives everything in front of a character to `sink`; the character, which stays, or "" at the end."""
        while True:
            found = stop.search(self._window, self._at)
            end = found.start() if found else len(self._window)
            if end > self._at:
                sink(self._take(end))
            if found:
                return found.group()
            if self._ended:
                return ""
            yield

    def value(self, begun: str = "", quotes: str = '"') -> Reading[tuple[str, bool]]:
        """The text up to the bracket that closes the first one, and whether it came; `begun` has been read already."""
        brackets = BracketTracker(quotes)
        brackets.skip(begun)
        pieces = [begun]
        while True:
            end = brackets.feed(self._window, self._at)
            if len(self._window) > self._at:
                pieces.append(self._take(end if end >= 0 else len(self._window)))
            if end >= 0 or self._ended:
                return "".join(pieces), end >= 0
            yield

    def body(self, ends: Markers, show: _Sink | None = None, *, closes: bool = False) -> Reading[tuple[str, str]]:
        """The text of arguments and the marker that ends them, or "" at the end of the input.

        `show` is given the pieces as they are read. It may be given more than the arguments, see below. If `closes` is
        set, the bracket that closes them ends them as well, if they are JSON up to there; the marker is "" then too.

        A marker ends them if it stands outside of any JSON string. Inside a string it is data, unless the string turns
        out never to end: if what then comes in front of the first marker outside is no JSON, the first marker that was
        passed over inside the string is the end, and what follows it is read again. So a quoted marker does no harm,
        and a string without its closing quote can't swallow the next call.

        The text that is read again may contain bodies with the same markers, and each of them would search to the end
        of the text for its closing quote: quadratic. `_settled` prevents that. It holds where the first search stopped,
        and every search that begins before it is inside the same string, so it would stop at the same place. It jumps
        there at once; or, if what it has read so far can't be the beginning of JSON, it ends at once.
        """
        pieces: list[str] = []
        first = yield from self.span(NOT_SPACE, pieces.append)
        brackets = BracketTracker() if first and first in "{[" else None
        closed = False

        def take(piece: str) -> None:
            nonlocal closed, closes
            end = brackets.feed(piece) if brackets else -1
            if closes and end >= 0:
                closes = False
                if closed := is_json("".join(pieces) + piece[:end]):
                    self.stop(piece[end:])
                    piece = piece[:end]
            if brackets and end >= 0:
                brackets.skip(piece, end)
            pieces.append(piece)
            if show:
                show(piece)

        passed: tuple[int, str] | None = None
        while (marker := (yield from self.until(ends, take))) and brackets and brackets.quote:
            passed = passed or (len(pieces), marker)
            ahead = self._settled.get(ends, 0) - self._position
            if ahead > 0 and not self._may_be_json("".join(pieces) + marker, ahead):
                break
            passed_over = marker + (self._take(self._at + ahead) if ahead > 0 else "")
            pieces += [marker, passed_over[len(marker) :]]
            brackets.resume_in(quote="" if ahead > 0 else brackets.quote)
            if show:
                show(passed_over)
        text = "".join(pieces)
        if closed or not passed or (marker and is_json(text)):
            return text.strip(), marker
        number, end = passed
        if number < len(pieces):
            self._settled[ends] = self._position - len(marker)
            self.unread("".join(pieces[number + 1 :]) + marker)
        return "".join(pieces[:number]).strip(), end

    def stop(self, rest: str) -> None:
        """Ends the question whose sink calls this. `rest`, the end of the piece that it was given, is put back."""
        self._answered = True
        self.unread(rest)

    def again(self, marker: str) -> str:
        """Puts back all that has been read behind the marker that is being tried.

        Puts back nothing and returns it where a text is made so that each part of it would be read again and again:
        more than four times its length altogether.
        """
        read = "".join(self._tape or ())[len(marker) :]
        self._read_again += len(read)
        if self._read_again > 4 * self._position + 10_000:
            return read
        self.unread(read)
        return ""

    def unread(self, text: str) -> None:
        """Puts back what was read last, to be read again."""
        self._position -= len(text)
        if self._tape is not None:
            tape = "".join(self._tape)
            self._tape = [tape[: len(tape) - len(text)]]
        if self._window.endswith(text, 0, self._at):
            self._at -= len(text)
        else:
            self._window = text + self._window[self._at :]
            self._at = 0

    def _take(self, stop: int) -> str:
        piece = self._window[self._at : stop]
        self._at = stop
        self._position += len(piece)
        if self._tape is not None:
            self._tape.append(piece)
        return piece

    def _stopped(self) -> bool:
        answered, self._answered = self._answered, False
        return answered

    def _may_be_json(self, begun: str, ahead: int) -> bool:
        """Whether what has begun so could be JSON up to the marker that is `ahead` characters away, if one is there."""
        if self._at + ahead == len(self._window):
            return False
        size = 100
        while size < ahead:
            try:
                with suppress(TypeError):  # half a surrogate pair: it may be JSON
                    from_json(begun.lstrip() + self._window[self._at : self._at + size], allow_partial=True)
            except ValueError:
                return False
            size *= 4
        return True

    def _may_grow(self, wanted: Markers, at: int) -> bool:
        """Whether all that follows `at` is the beginning of a marker, be it longer than one that stands there."""
        return self._window[at : at + wanted.longest] in wanted.beginnings


def drop(_: str) -> None:
    """The sink for what nobody wants."""


def is_json(text: str) -> bool:
    """Whether the text is a JSON value, by the strict rules, with any white space round it."""
    try:
        parse_object(text.strip())
    except ValueError:
        return False
    return True


def is_object(text: str) -> bool:
    """Whether the text is a JSON object, by the strict rules, with any white space round it."""
    try:
        return isinstance(parse_object(text.strip()), dict)
    except ValueError:
        return False
