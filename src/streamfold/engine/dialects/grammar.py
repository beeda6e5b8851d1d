"""Short patterns for a text that comes in pieces: each knows its own beginnings.

A regular expression can't tell "no match" from "no match yet". A shape can: it is made of literals and runs of
characters, so the pattern of everything that is a beginning of it is known as well (`begins`).

>>> invoke = Shape(SPACES, lit('<invoke name="'), run('[^"]', "name", least=1), lit('">'))
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
    """A piece of a pattern.

    Attributes:
        whole: the regular expression of all of it.
        begun: that of its proper beginnings, the empty one among them. A run has no end of its own: it is both.
    """

    whole: str
    begun: str


def literal(*words: str, name: str = "") -> PatternPart:
    """One of these words. None may be the beginning of another."""
    group = f"?P<{name}>" if name else "?:"
    begun = "|".join(_beginnings(word) for word in words)
    return PatternPart(f"({group}{'|'.join(map(re.escape, words))})", f"(?:{begun})")


def repeat(chars: str, name: str = "", *, least: int = 0) -> PatternPart:
    """A run of characters, given as a set (or whatever matches one of them); its text is kept under the name."""
    pattern = f"(?:{chars}){'+' if least else '*'}"
    return PatternPart(f"(?P<{name}>{pattern})" if name else pattern, f"(?:{chars})*")


def optional(*parts: PatternPart) -> PatternPart:
    """These parts one after another, or nothing."""
    row = _row(parts)
    return PatternPart(f"(?:{row.whole})?", row.begun)


def one_of(*rows: tuple[PatternPart, ...]) -> PatternPart:
    """One of these rows of parts."""
    found = [_row(row) for row in rows]
    return PatternPart(f"(?:{'|'.join(row.whole for row in found)})", f"(?:{'|'.join(row.begun for row in found)})")


SPACES = repeat(r"\s")


class TokenPattern:
    """Parts one after another. The last must be a literal, so that a shape that has matched can't grow.

    Args:
        longest: what is longer, in characters, is no match.

    Attributes:
        match: matches all of it.
        begins: matches a text, to its end, that is a beginning of it.
    """

    def __init__(self, *parts: PatternPart, longest: int = 1000) -> None:
        row = _row(parts)
        self.match = re.compile(row.whole, re.DOTALL).match
        self.begins = re.compile(rf"{row.begun}\Z", re.DOTALL).match
        self.longest = longest


def _row(parts: tuple[PatternPart, ...]) -> PatternPart:
    """Parts one after another. A beginning of them is all of the first ones and a beginning of the next."""
    begun = "|".join("".join(part.whole for part in parts[:at]) + part.begun for at, part in enumerate(parts))
    begun = re.sub(r"\?P<\w+>", "?:", begun)  # a name may stand in a pattern only once
    return PatternPart("".join(part.whole for part in parts), f"(?:{begun})")


def _beginnings(word: str) -> str:
    pattern = ""
    for char in reversed(word[:-1]):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return pattern
