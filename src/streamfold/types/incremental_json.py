"""Finds values in a JSON text that arrives in pieces, for example to show a file while the model writes it.

Each character is parsed once, so the time is proportional to the length of the text. Only the values that the caller
watches are stored. If the text isn't JSON, parsing stops, but values that were already reported aren't retracted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_core import from_json

from ..jsontext import join_surrogates, parse_object
from .tool_calls import PartialUpdate

_Step: TypeAlias = Callable[["IncrementalJSON", str, int], int]
PathPattern: TypeAlias = tuple[str | int | None, ...]  # None matches any key or index

_STEP = re.compile(r"""\.?([^.\[\]*'"]+|\*)|\[(\d+|\*?)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_RUN = re.compile(rf'[^"\\\x00-\x1f]*+(?:{_ESCAPE.pattern}[^"\\\x00-\x1f]*+)*+')  # the content of a string
_LITERAL = re.compile(r"[-+.0-9A-Za-z]*")
_decode = json.JSONDecoder().raw_decode
_DEEPEST = 200  # levels of nesting, above which values aren't reported


def path_pattern(path: str) -> PathPattern:
    """Parses a path such as `files[].content`. Raises ValueError for an invalid path.

    `[]` matches every item of a list, `[0]` matches the first item, and `*` matches every value of an object. A key
    with a dot or a bracket is written as `['a.b']`. The empty path matches the entire value.

    >>> path_pattern("files[].content"), path_pattern("*[0]['a.b']")
    (('files', None, 'content'), (None, 0, 'a.b'))
    """
    steps: list[str | int | None] = []
    at = 0
    while found := _STEP.match(path, at):
        name, position, *quoted = found.groups()
        plain = name if name is not None else position
        if plain is None:
            steps.append(next(text for text in quoted if text is not None))
        else:
            steps.append(None if plain in ("", "*") else int(plain) if name is None else plain)
        at = found.end()
    if at < len(path) or path.startswith("."):
        raise ValueError(f"{path!r} is not a path such as 'files[].content'")
    return tuple(steps)


@dataclass(slots=True, eq=False)
class _Level:
    """An object or a list whose end hasn't arrived yet.

    Attributes:
        inside: the indexes of the path patterns that may match a value inside the object or list.
        watched: the indexes of the path patterns that match the object or list itself.
        step: the current key or list index. 0 in an object that has no key yet.
        text: the text received so far, if the value is watched.
        begun: the offset in the current piece of JSON text at which the value begins, or 0 if the value began in an
            earlier piece.
    """

    is_list: bool
    inside: list[int]
    watched: list[int]
    path: tuple[str | int, ...]
    step: str | int = 0
    text: list[str] = field(default_factory=list)
    begun: int = 0


class IncrementalJSON:
    """Parses one JSON value that arrives in pieces, and reports each new piece of the watched values.

    Args:
        patterns: the paths of the watched values.
        tool, call: the tool's name and the index of the tool call; see `PartialUpdate`.

    Attributes:
        ended: True when the value is complete. Later text is ignored.
        broken: True if the text isn't JSON. Later text is ignored.

    >>> reader = IncrementalJSON([path_pattern("files[].content")])
    >>> [(grown.path, grown.delta) for _, grown in reader.feed('{"files":[{"content":"a')]
    [(('files', 0, 'content'), 'a')]
    >>> [(grown.delta, grown.done, grown.value) for _, grown in reader.feed('b"')]
    [('b', True, 'ab')]
    """

    def __init__(self, patterns: Sequence[PathPattern], tool: str | None = None, call: int | None = None) -> None:
        self._patterns = patterns
        self._tool = tool
        self._call = call
        self._levels: list[_Level] = []
        self._captured: list[_Level] = []  # the watched levels
        self._inside = [number for number, pattern in enumerate(patterns) if pattern]  # `inside` of the next value
        self._watched = [number for number, pattern in enumerate(patterns) if not pattern]
        self._path: tuple[str | int, ...] = ()
        self._state: _Step = IncrementalJSON._value
        self._text: list[str] = []  # of the string or literal that hasn't ended
        self._escape = ""  # an incomplete escape
        self._half = ""  # the first half of a surrogate pair
        self._out: list[tuple[int, PartialUpdate]] = []
        self.ended = False
        self.broken = False

    def feed(self, text: str) -> list[tuple[int, PartialUpdate]]:
        """Parses the next piece of the JSON text. Returns the new pieces of watched values, each with the index of the
        path pattern that matched."""
        for level in self._captured:
            level.begun = 0
        at, size = 0, len(text)
        while at < size and not (self.ended or self.broken):
            at = self._state(self, text, at)
        for level in self._captured:
            level.text.append(text[level.begun :])
        out, self._out = self._out, []
        return out

    # The states: each parses the text from a position and returns the position it reached.

    def _value(self, text: str, at: int) -> int:
        at = _skip(text, at)
        char = text[at : at + 1]
        if char == '"':
            self._begin_text()
            self._state = IncrementalJSON._string
        elif char in ("{", "["):
            self._open(char == "[", at)
        elif char == "]" and self._levels and self._levels[-1].is_list and self._levels[-1].step == 0:  # an empty list
            self._close(text, at)
        elif char and char in "-0123456789tfn":
            self._begin_text()
            self._state = IncrementalJSON._literal
            return at
        else:
            self.broken = bool(char)
        return at + 1

    def _key(self, text: str, at: int) -> int:
        at = _skip(text, at)
        char = text[at : at + 1]
        if char == '"':
            self._text, self._half = [], ""
            self._state = IncrementalJSON._name
        elif char == "}" and self._levels[-1].step == 0:  # an empty object
            self._close(text, at)
        else:
            self.broken = bool(char)
        return at + 1

    def _colon(self, text: str, at: int) -> int:
        at = _skip(text, at)
        self.broken = text[at : at + 1] not in (":", "")
        if at < len(text):
            self._state = IncrementalJSON._value
        return at + 1

    def _comma(self, text: str, at: int) -> int:
        at = _skip(text, at)
        char, level = text[at : at + 1], self._levels[-1]
        if char == ",":
            if isinstance(level.step, int) and level.is_list:
                self._enter(level.step + 1)
            self._state = IncrementalJSON._value if level.is_list else IncrementalJSON._key
        elif char == ("]" if level.is_list else "}"):
            self._close(text, at)
        else:
            self.broken = bool(char)
        return at + 1

    def _name(self, text: str, at: int) -> int:
        at, piece, done = self._piece(text, at, wanted=True)
        self._text.append(piece)
        if done:
            self._enter("".join(self._text))
            self._state = IncrementalJSON._colon
        return at

    def _string(self, text: str, at: int) -> int:
        if not self._watched:
            at, _, done = self._piece(text, at, wanted=False)
        else:
            at, piece, done = self._inside_string(text, at) or self._piece(text, at, wanted=True)
            if piece or done:
                self._text.append(piece)
                self._report(piece, done=done, value="".join(self._text) if done else None)
        if done:
            self._after_value()
        return at

    def _literal(self, text: str, at: int) -> int:
        end = _match(_LITERAL, text, at)
        self._text.append(text[at:end])
        if end < len(text):
            if self._watched:
                try:
                    self._report("", done=True, value=parse_object("".join(self._text)))
                except ValueError:
                    self.broken = True
            self._after_value()
        return end

    def _piece(self, text: str, at: int, *, wanted: bool) -> tuple[int, str, bool]:
        if self._escape:
            return self._escaped(text, at)
        end = _match(_RUN, text, at)
        raw, done = text[at:end], False
        if end < len(text):
            done = text[end] == '"'
            if not done and _BEGUN_ESCAPE.fullmatch(text, end):
                self._escape, end = text[end:], len(text)
            elif not done:  # a control character or an invalid escape
                self.broken = True
        return end + done, self._decoded(raw, done=done) if wanted else "", done

    def _inside_string(self, text: str, at: int) -> tuple[int, str, bool] | None:
        if self._escape or self._half:
            return None
        try:
            return len(text), from_json(f'"{text[at:]}"'), False
        except (ValueError, TypeError):
            return None

    def _escaped(self, text: str, at: int) -> tuple[int, str, bool]:
        begun = self._escape + text[at : at + 6 - len(self._escape)]
        if found := _ESCAPE.match(begun):
            at += found.end() - len(self._escape)
            self._escape = ""
            return at, self._decoded(found[0], done=False), False
        self._escape = begun
        self.broken = _BEGUN_ESCAPE.fullmatch(begun) is None
        return len(text), "", False

    def _decoded(self, raw: str, *, done: bool) -> str:
        # The first half of a surrogate pair is delayed until the other half arrives.
        if "\\" in raw:
            raw = _decode(f'"{raw}"')[0]
        said, self._half = self._half + raw, ""
        if not done and said and "\ud800" <= said[-1] <= "\udbff":
            said, self._half = said[:-1], said[-1]
        return join_surrogates(said)

    def _begin_text(self) -> None:
        self._text, self._half = [], ""
        if self._watched:
            self._path = self._here()

    def _open(self, is_list: bool, at: int) -> None:
        if len(self._levels) >= _DEEPEST:
            self.broken = True
            return
        level = _Level(is_list, self._inside, self._watched, self._here() if self._watched else (), begun=at)
        self._levels.append(level)
        if level.watched:
            self._captured.append(level)
        self._state = IncrementalJSON._value if is_list else IncrementalJSON._key
        if is_list:
            self._enter(0)

    def _close(self, text: str, at: int) -> None:
        level = self._levels.pop()
        if level.watched:
            self._captured.pop()
            self._watched, self._path = level.watched, level.path
            try:
                value = parse_object("".join([*level.text, text[level.begun : at + 1]]))
            except ValueError:
                self.broken = True
                return
            self._report("", done=True, value=value)
        self._after_value()

    def _enter(self, step: str | int) -> None:
        depth, level = len(self._levels), self._levels[-1]
        level.step = step
        fitting = [number for number in level.inside if self._patterns[number][depth - 1] in (None, step)]
        self._watched = [number for number in fitting if len(self._patterns[number]) == depth]
        self._inside = [number for number in fitting if len(self._patterns[number]) > depth]

    def _after_value(self) -> None:
        self._state = IncrementalJSON._comma
        self.ended = not self._levels

    def _here(self) -> tuple[str | int, ...]:
        return tuple([level.step for level in self._levels])

    def _report(self, delta: str, *, done: bool, value: Any) -> None:
        grown = PartialUpdate(self._path, delta, done, value, self._tool, self._call)
        for number in self._watched:
            self._out.append((number, grown))


def _skip(text: str, at: int) -> int:
    return _match(_SPACE, text, at)


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
