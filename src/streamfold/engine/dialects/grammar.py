"""Patterns for streamed text. Unlike a regular expression, a pattern also says whether a text may become a match when
more text arrives.

>>> invoke = TokenPattern(SPACES, literal('<invoke name="'), repeat('[^"]', "name", least=1), literal('">'))
>>> invoke.match(' <invoke name="search">')["name"]
'search'
>>> bool(invoke.begins(' <inv')), bool(invoke.begins(' <input'))
(True, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PatternPart:
    """One element of a pattern.

    Attributes:
        whole: the regular expression that matches the element.
        begun: the regular expression that matches the element's prefixes, including the empty text. For a repetition,
            `whole` and `begun` are the same.
    """

    whole: str
    begun: str


def literal(*words: str, name: str = "") -> PatternPart:
    """Creates an element that matches one of these words. No word may be a prefix of another word."""
    group = f"?P<{name}>" if name else "?:"
    begun = "|".join(_beginnings(word) for word in words)
    return PatternPart(f"({group}{'|'.join(map(re.escape, words))})", f"(?:{begun})")


def repeat(chars: str, name: str = "", *, least: int = 0) -> PatternPart:
    """Creates an element that matches a run of characters of the set `chars`. If `name` is given, the match has a group
    with this name."""
    pattern = f"(?:{chars}){'+' if least else '*'}"
    return PatternPart(f"(?P<{name}>{pattern})" if name else pattern, f"(?:{chars})*")


def optional(*parts: PatternPart) -> PatternPart:
    """Creates an optional element, which matches the sequence of these elements, or the empty text."""
    row = _row(parts)
    return PatternPart(f"(?:{row.whole})?", row.begun)


def one_of(*rows: tuple[PatternPart, ...]) -> PatternPart:
    """Creates an element that matches one of these sequences of elements."""
    found = [_row(row) for row in rows]
    return PatternPart(f"(?:{'|'.join(row.whole for row in found)})", f"(?:{'|'.join(row.begun for row in found)})")


SPACES = repeat(r"\s")


class TokenPattern:
    """A pattern that consists of a sequence of elements. The last element must be a literal, so that more text can't
    make a match longer.

    Args:
        longest: the maximum length of a match, in characters.

    Attributes:
        match: a function that matches the complete sequence.
        begins: a function that matches a text that may become a match when more text arrives.
    """

    def __init__(self, *parts: PatternPart, longest: int = 1000) -> None:
        row = _row(parts)
        self.match = re.compile(row.whole, re.DOTALL).match
        self.begins = re.compile(rf"{row.begun}\Z", re.DOTALL).match
        self.longest = longest


def _row(parts: tuple[PatternPart, ...]) -> PatternPart:
    """Creates an element that matches the sequence of these elements. A prefix of the sequence consists of its first
    elements and a prefix of the next element."""
    begun = "|".join("".join(part.whole for part in parts[:at]) + part.begun for at, part in enumerate(parts))
    begun = re.sub(r"\?P<\w+>", "?:", begun)  # a name may stand in a pattern only once
    return PatternPart("".join(part.whole for part in parts), f"(?:{begun})")


def _beginnings(word: str) -> str:
    pattern = ""
    for char in reversed(word[:-1]):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return pattern
