"""Follows the strings and brackets of a JSON text, or a Python literal, that arrives in pieces."""

from __future__ import annotations

import re

_IN_STRING = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_OUTSIDE = {'"': re.compile(r'["{}\[\]]'), "\"'": re.compile(r"[\"'(){}\[\]]")}


class BracketTracker:
    """Follows JSON, or Python's literals, through strings and brackets.

    Args:
        quotes: the characters that begin a string; with both of them, round brackets count too.

    Attributes:
        depth: how many brackets are open.
        quote: the quote of the string that is open, or "".
    """

    def __init__(self, quotes: str = '"') -> None:
        self._outside = _OUTSIDE[quotes]
        self._escaped = False
        self.depth = 0
        self.quote = ""

    @property
    def open(self) -> bool:
        """Whether a string or a bracket is open."""
        return bool(self.quote) or self.depth > 0

    def feed(self, text: str, at: int = 0) -> int:
        """Reads on from `at`, to just behind the bracket that closes the outermost one; -1 if none does."""
        if self._escaped and at < len(text):
            self._escaped = False
            at += 1
        while found := (_IN_STRING[self.quote] if self.quote else self._outside).search(text, at):
            at, char = found.end(), found.group()
            if char == "\\":
                self._escaped = at == len(text)
                at += 1
            elif self.quote:
                self.quote = ""
            elif char in "\"'":
                self.quote = char
            elif char in "([{":
                self.depth += 1
            else:
                self.depth -= 1
                if self.depth <= 0:
                    return at
        return -1

    def skip(self, text: str, at: int = 0) -> None:
        """Reads all of the text from `at`, whatever closes in it."""
        while at != -1:
            at = self.feed(text, at)

    def resume_in(self, *, quote: str) -> None:
        """Something was passed over; what follows is in a string with this quote, or in none."""
        self.quote = quote
        self._escaped = False
