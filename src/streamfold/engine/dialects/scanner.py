"""Lets parsers of streamed text work as if the text were complete.

A parser is a generator. The parser requests, for example, the text up to one of several markers, and pauses when the
text runs out. The parser holds back only the longest suffix that may begin a marker. The parsing time is linear in the
length of the text, wherever the text is split.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import lru_cache
from typing import TypeAlias, TypeVar

from pydantic_core import from_json

from ...jsontext import BracketTracker, object_or_none, parse_object
from .grammar import TokenPattern

T = TypeVar("T")
Reading: TypeAlias = Generator[None, None, T]
_Sink: TypeAlias = Callable[[str], object]

NOT_SPACE = re.compile(r"\S")


class Markers:
    """A set of markers. One regular expression finds all of them."""

    def __init__(self, words: tuple[str, ...]) -> None:
        ordered = sorted(set(words), key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, ordered)) or "(?!)")
        self.search = pattern.search
        self.match = pattern.match
        self.starts = re.compile(f"[{re.escape(''.join({word[0] for word in words}))}]" if words else "(?!)").search
        self.beginnings = frozenset(word[:size] for word in words for size in range(len(word)))
        self.longest = max(map(len, words), default=1)

    def hold(self, text: str, at: int) -> int:
        """Returns the start of the longest suffix of `text` that may become a marker, or the length of the text if
        there is no such suffix."""
        at = max(at, len(text) - self.longest + 1)
        while found := self.starts(text, at):
            if text[found.start() :] in self.beginnings:
                return found.start()
            at = found.end()
        return len(text)


@lru_cache(256)
def markers(*words: str) -> Markers:
    return Markers(words)


class Scanner(ABC):
    """Base class of parsers. The parser is the generator `read`, which pauses when the text runs out.

    Attributes:
        cut: true if the input ended inside a possible marker.
    """

    def __init__(self) -> None:
        self._window = ""
        self._at = 0
        self._ended = False
        self._position = 0  # in the whole text
        self._recorded: list[str] | None = None  # what has been read since a structure may have begun
        self._waiting: tuple[Markers, _Sink] | None = None  # what `until` waits for, if it holds back no text
        self._settled: dict[Markers, int] = {}  # see body()
        self._answered = False  # a sink has read enough, so the `until` that called it ends
        self._read_again = 0  # characters, see again()
        self._program = self.read()
        self.cut = False

    @abstractmethod
    def read(self) -> Reading[None]:
        """Parses the complete input."""

    def push(self, text: str) -> None:
        """Appends text to the input, and parses as much as possible."""
        if self._waiting and not self._waiting[0].starts(text):
            self._position += len(text)
            if self._recorded is not None:
                self._recorded.append(text)
            self._waiting[1](text)
            if not self._answered:
                return
            text = ""
        self._window = self._window[self._at :] + text
        self._at = 0
        next(self._program, None)

    def end(self) -> None:
        self._ended = True
        next(self._program, None)

    def at_end(self) -> bool:
        return self._ended and self._at >= len(self._window)

    def is_truncated(self) -> bool:
        """Returns whether the input ended at this position, or inside a possible marker."""
        return self.cut or self.at_end()

    def until(self, wanted: Markers, sink: _Sink) -> Reading[str]:
        """Passes text to `sink`, up to the next marker. Returns the marker, or "" at the end of the input."""
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
            self._waiting = (wanted, sink) if not self.cut else None
            yield
            self._waiting = None
            if self._stopped():
                return ""

    def expect(self, wanted: Markers) -> Reading[str]:
        """Consumes and returns the marker at this position, or returns "" if there is none."""
        while True:
            may_grow = self._may_grow(wanted, self._at)
            if self._ended or not may_grow:
                found = wanted.match(self._window, self._at)
                self.cut = may_grow and not found and not self.at_end()
                return self._take(found.end()) if found else ""
            yield

    def match(self, shape: TokenPattern, *, take: bool = True) -> Reading[re.Match[str] | None]:
        """Matches a pattern at this position, and consumes the match if `take` is true. Returns None without a
        match."""
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
        while len(self._window) - self._at < size and not self._ended:
            yield
        return self._take(min(self._at + size, len(self._window)))

    def span(self, stop: re.Pattern[str], sink: _Sink) -> Reading[str]:
        """Passes text to `sink`, up to the next character that `stop` matches. Returns this character without consuming
        it, or "" at the end of the input."""
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
        """Returns the text up to the bracket that closes the first bracket. The second value is false if the input
        ended before that bracket."""
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
        """Returns the text of a tool call's arguments, and the marker that ends them. The marker is "" at the end of
        the input.

        `show` gets the text while it is parsed. That text may include more than the arguments. With `closes`, the
        closing bracket of JSON arguments also ends the arguments. The returned marker is then "".

        A marker inside a JSON string is part of the string, unless the string never ends. If the string never ends, and
        the text before the first marker outside of strings isn't JSON, the arguments end at the first marker inside the
        string. The scanner parses the text after that marker again. So a quoted marker does no harm, and an unclosed
        string can't hide the next tool call.

        `_settled` is the position where the first search stopped. If the next search reaches an unclosed string before
        this position, it is the same string. The next search then continues at `_settled`, so that the time stays
        linear.
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
                    self._answered = True
                    self.put_back(piece[end:])
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
            self.put_back("".join(pieces[number + 1 :]) + marker)
        return "".join(pieces[:number]).strip(), end

    def rewind(self, marker: str) -> str:
        """Puts the text after the current marker back into the input, and returns "". If parsing the text again could
        take quadratic time, leaves the input unchanged, and returns the text."""
        read = "".join(self._recorded or ())[len(marker) :]
        self._read_again += len(read)
        if self._read_again > 4 * self._position + 10_000:
            return read
        self.put_back(read)
        return ""

    def put_back(self, text: str) -> None:
        """Puts text back into the input, so that the parser reads this text next."""
        self._position -= len(text)
        if self._recorded is not None:
            recorded = "".join(self._recorded)
            self._recorded = [recorded[: len(recorded) - len(text)]]
        if self._window.endswith(text, 0, self._at):
            self._at -= len(text)
        else:
            self._window = text + self._window[self._at :]
            self._at = 0

    def _take(self, stop: int) -> str:
        piece = self._window[self._at : stop]
        self._at = stop
        self._position += len(piece)
        if self._recorded is not None:
            self._recorded.append(piece)
        return piece

    def _stopped(self) -> bool:
        answered, self._answered = self._answered, False
        return answered

    def _may_be_json(self, begun: str, ahead: int) -> bool:
        """Returns whether the text `begun`, followed by the next `ahead` characters of the input, could begin JSON."""
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
        return self._window[at : at + wanted.longest] in wanted.beginnings


def ignore(_: str) -> None:
    """Ignores the text."""


def is_json(text: str) -> bool:
    """Returns whether `parse_object` accepts the text as JSON."""
    try:
        parse_object(text.strip())
    except ValueError:
        return False
    return True


def is_object(text: str) -> bool:
    return object_or_none(text.strip()) is not None
