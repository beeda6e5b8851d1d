"""Parses JSON that arrives in pieces: tracks brackets, and assembles objects from values at paths."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

# Gemini's `partialArgs`. A path (RFC 9535, https://www.rfc-editor.org/rfc/rfc9535) names a single place: `$.a.b[0].c`,
# `$['x.y']`. Objects and lists on the way are created. A string may come in several pieces (`more`).

_STEP = re.compile(
    r"""\.([A-Za-z_$\u0080-\U0010ffff-][\w$-]*)|\[(\d+)\]|\['((?:\\.|[^'\\])*)'\]|\["((?:\\.|[^"\\])*)"\]"""
)


class PathValue(NamedTuple):
    path: str
    value: Any
    more: bool = False


class PathValues:
    """Assembles a JSON object from values that arrive with their paths in the object (Gemini)."""

    def __init__(self, start: dict[str, Any] | None = None) -> None:
        self._root: dict[str, Any] = dict(start or {})
        self._open: dict[str, list[str]] = {}

    def feed(self, piece: PathValue) -> None:
        """Stores a value at its path in the object. Raises ValueError if the path doesn't name a single position."""
        if piece.more and isinstance(piece.value, str):
            self._open.setdefault(piece.path, []).append(piece.value)
            return
        pieces = self._open.pop(piece.path, None)
        value = "".join([*pieces, piece.value if isinstance(piece.value, str) else ""]) if pieces else piece.value
        self._put(steps(piece.path), value)

    def text(self, *, whole: bool = True) -> str:
        """Returns the object as JSON text. The JSON text is truncated if a string is incomplete or `whole` is false."""
        is_cut = bool(self._open) or not whole
        for path, pieces in self._open.items():
            self._put(steps(path), "".join(pieces))
        self._open = {}
        text = json.dumps(self._root, ensure_ascii=False, separators=(",", ":"))
        return text[:-1] if is_cut else text

    def _put(self, path: list[str | int], value: Any) -> None:
        place: Any = self._root
        for step, following in zip(path, [*path[1:], None], strict=True):
            if isinstance(step, int):
                if not isinstance(place, list) or step > len(place):
                    raise ValueError(f"the path {path} doesn't exist in the object")
                if step == len(place):
                    place.append(None)
            elif not isinstance(place, dict):
                raise ValueError(f"the path {path} doesn't exist in the object")
            if following is None:
                place[step] = value
            else:
                wanted = list if isinstance(following, int) else dict
                inside = place[step] if isinstance(step, int) else place.get(step)
                if not isinstance(inside, wanted):
                    inside = place[step] = wanted()
                place = inside


def steps(path: str) -> list[str | int]:
    """Parses a JSON path into field names and list positions. Raises ValueError if the path doesn't name a single
    position.

    >>> steps("$.a['b.c'][0]")
    ['a', 'b.c', 0]
    """
    found: list[str | int] = []
    at = 1
    while step := _STEP.match(path, at):
        name, position, single, double = step.groups()
        if name is not None:
            found.append(name)
        elif position is not None:
            found.append(int(position))
        else:
            text = double if double is not None else (single or "").replace("\\'", "'").replace('"', '\\"')
            found.append(json.loads(f'"{text}"'))
        at = step.end()
    if not path.startswith("$") or at != len(path) or not found:
        raise ValueError(f"{path!r} is not a path to a single position")
    return found


_IN_STRING = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_OUTSIDE = {'"': re.compile(r'["{}\[\]]'), "\"'": re.compile(r"[\"'(){}\[\]]")}


class BracketTracker:
    """Tracks strings and brackets in JSON, or in Python literals.

    Args:
        quotes: the characters that begin a string. With `"'` (Python), the tracker tracks round brackets too.

    Attributes:
        depth: the number of open brackets.
        quote: the quote character that began the open string, or "" outside of strings.
    """

    def __init__(self, quotes: str = '"') -> None:
        self._outside = _OUTSIDE[quotes]
        self._escaped = False
        self.depth = 0
        self.quote = ""

    @property
    def open(self) -> bool:
        return bool(self.quote) or self.depth > 0

    def feed(self, text: str, at: int = 0) -> int:
        """Scans the text from position `at`. Returns the position after the bracket that closes the outermost
        bracket, or -1 if the outermost bracket stays open."""
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
        """Scans the complete text. Unlike `feed`, it doesn't stop where the outermost bracket closes."""
        while at != -1:
            at = self.feed(text, at)

    def resume_in(self, *, quote: str) -> None:
        """Continues after text that the tracker hasn't scanned.

        Args:
            quote: the quote character of the string in which the skipped text ended, or "" if it ended outside of
                strings.
        """
        self.quote = quote
        self._escaped = False
