"""Parses streamed Python literals and Gemma's notation, and returns them as JSON text. streamfold never evaluates
code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...jsontext import join_surrogates
from .scanner import NOT_SPACE, Markers, Reading, Scanner, ignore, is_json, markers
from .typed_values import items, json_object, json_string, member, unquoted_json

_DEEPEST = 64  # brackets in brackets


class InvalidLiteral(Exception):
    """Raised if the text is not a literal."""


class IncompleteLiteral(Exception):
    """Raised if the input has ended inside a literal."""


def _fail(text: Scanner) -> Exception:
    return IncompleteLiteral() if text.is_truncated() else InvalidLiteral()


def _next(text: Scanner, wanted: Markers) -> Reading[str]:
    yield from text.span(NOT_SPACE, ignore)
    return (yield from text.expect(wanted))


def _row(text: Scanner, closer: str, item: Callable[[], Reading[None]]) -> Reading[None]:
    while not (yield from _next(text, markers(closer))):
        yield from item()
        mark = yield from _next(text, markers(",", closer))
        if mark != ",":
            if not mark:
                raise _fail(text)
            return


class GemmaNotation:
    """Parses Gemma's notation for objects: strings between special markers or JSON's quotes, unquoted keys, and numbers
    and words without quotes.

    Args:
        quote: the marker before and after a string that has no escape sequences.
        root: the tool's schema for its arguments.
    """

    def __init__(self, quote: str, root: Mapping[str, Any]) -> None:
        self._root = root
        self._quote = quote
        self._quotes = markers(quote, '"')
        self._begins = markers(quote, '"', "{", "[")

    def value(self, text: Scanner, schema: Any, depth: int = 0) -> Reading[str]:
        """Parses a value and returns it as JSON text. Raises InvalidLiteral or IncompleteLiteral."""
        mark = yield from _next(text, self._begins)
        if mark == "{":
            return (yield from self.object(text, schema, depth + 1))
        if mark == "[":
            return (yield from self._list(text, schema, depth + 1))
        if mark:
            return json_string((yield from self._string(text, mark)))
        pieces: list[str] = []
        stop = yield from text.span(_BARE_END, pieces.append)
        word = "".join(pieces).strip()
        if not stop:
            raise IncompleteLiteral
        if not word or stop in "{[":
            raise InvalidLiteral
        return unquoted_json(word, schema, self._root)

    def object(self, text: Scanner, schema: Any, depth: int = 0) -> Reading[str]:
        members: dict[str, str] = {}

        def read() -> Reading[None]:
            if mark := (yield from _next(text, self._quotes)):
                key = yield from self._string(text, mark)
            else:
                pieces: list[str] = []
                yield from text.span(_KEY_END, pieces.append)
                key = "".join(pieces).strip()
            if not (yield from _next(text, _COLON)) or not key:
                raise _fail(text)
            members[key] = yield from self.value(text, member(schema, key, self._root), depth)

        if depth > _DEEPEST:
            raise InvalidLiteral
        yield from _row(text, "}", read)
        return json_object(members.items())

    def _list(self, text: Scanner, schema: Any, depth: int) -> Reading[str]:
        found: list[str] = []
        of = items(schema, self._root)

        def read() -> Reading[None]:
            found.append((yield from self.value(text, of, depth)))

        if depth > _DEEPEST:
            raise InvalidLiteral
        yield from _row(text, "]", read)
        return f"[{', '.join(found)}]"

    def _string(self, text: Scanner, mark: str) -> Reading[str]:
        pieces: list[str] = []
        if mark == self._quote:
            if not (yield from text.until(markers(mark), pieces.append)):
                raise IncompleteLiteral
            return "".join(pieces)
        while (end := (yield from text.until(_JSON_STRING, pieces.append))) != '"':
            if not end:
                raise IncompleteLiteral
            pieces.append(end)
        try:
            return str(json.loads(f'"{"".join(pieces)}"'))
        except ValueError:
            raise InvalidLiteral from None


# Python literals as models write them: `true`, `false` and `null` are accepted, and quotes inside strings may be
# unescaped. A quote closes a string only if `,`, `)`, `]`, `}` or `:` may follow.


def python_calls(text: Scanner, found: list[tuple[str, str]]) -> Reading[None]:
    """Parses function calls up to the closing bracket of a list. Adds each call to `found` when it is complete."""

    def item() -> Reading[None]:
        found.append((yield from python_call(text)))

    yield from _row(text, "]", item)


def python_call(text: Scanner) -> Reading[tuple[str, str]]:
    """Parses a function call with keyword arguments. Returns the function's name, and the arguments as JSON text."""
    arguments: dict[str, str] = {}

    def read() -> Reading[None]:
        keyword = yield from _word(text, _NO_WORD)
        equals = yield from _next(text, _EQUALS)
        if not equals or not _NAME.fullmatch(keyword):
            raise _fail(text)
        arguments[keyword] = yield from _python_value(text)

    name = yield from _word(text, _NO_NAME)
    if not (yield from _next(text, _BRACKET)) or not all(map(_NAME.fullmatch, name.split("."))):
        raise _fail(text)
    yield from _row(text, ")", read)
    return name, json_object(arguments.items())


def _python_value(text: Scanner, depth: int = 0) -> Reading[str]:
    mark = yield from _next(text, _PYTHON)
    if depth > _DEEPEST:
        raise InvalidLiteral
    if not mark:
        return (yield from _simple(text))
    if mark in "\"'":
        return json_string((yield from _string(text, mark)))
    found: list[str] = []
    members: dict[str, str] = {}

    def item() -> Reading[None]:
        found.append((yield from _python_value(text, depth + 1)))

    def pair() -> Reading[None]:
        if not (quote := (yield from _next(text, _PYTHON_QUOTES))):
            raise _fail(text)
        key = yield from _string(text, quote)
        if not (yield from _next(text, _COLON)):
            raise _fail(text)
        members[key] = yield from _python_value(text, depth + 1)

    if mark == "{":
        yield from _row(text, "}", pair)
        return json_object(members.items())
    yield from _row(text, {"[": "]", "(": ")"}[mark], item)
    return f"[{', '.join(found)}]"


class _Literal(Scanner):
    result = ""

    def read(self) -> Reading[None]:
        try:
            value = yield from _python_value(self)
            # The added comma lets a quote at the end close a string.
            if (yield from _next(self, markers(","))) and not (yield from self.span(NOT_SPACE, ignore)):
                self.result = value
        except (InvalidLiteral, IncompleteLiteral):
            return


def python_literal(text: str) -> str:
    """Returns a Python literal as JSON text, or "" if the text isn't a literal."""
    reader = _Literal()
    reader.push(text + ",")
    reader.end()
    return reader.result


def _word(text: Scanner, stop: re.Pattern[str]) -> Reading[str]:
    pieces: list[str] = []
    yield from text.span(NOT_SPACE, ignore)
    yield from text.span(stop, pieces.append)
    return "".join(pieces)


def _simple(text: Scanner) -> Reading[str]:
    word = yield from _word(text, _NO_SIMPLE)
    if text.at_end():
        raise IncompleteLiteral  # more of it might have come
    if word in _WORDS:
        return _WORDS[word]
    if whole := _WHOLE.fullmatch(word):
        return f"{whole[1]}{whole[2]}"
    if not _FLOAT.fullmatch(word) or not is_json(number := json.dumps(float(word))):
        raise InvalidLiteral
    return number


def _string(text: Scanner, quote: str) -> Reading[str]:
    pieces: list[str] = []
    marks = markers(quote, "\\")
    while mark := (yield from text.until(marks, pieces.append)):
        if mark == "\\":
            pieces.append((yield from _escaped(text)))
            continue
        space: list[str] = []
        if (yield from text.span(NOT_SPACE, space.append)) in _MAY_FOLLOW:
            return join_surrogates("".join(pieces))
        pieces += [quote, *space]
    raise IncompleteLiteral


def _escaped(text: Scanner) -> Reading[str]:
    """Returns the character that an escape sequence represents. Unknown escape sequences stay unchanged, as in Python's
    string literals.
    """
    char = yield from text.take(1)
    size = _SIZES.get(char)
    if size is None:
        if not char:
            raise IncompleteLiteral
        return _ESCAPES.get(char, "\\" + char)
    digits = yield from text.take(size)
    if not re.fullmatch(f"[0-9a-fA-F]{{{size}}}", digits) or int(digits, 16) > 0x10FFFF:
        raise _fail(text)
    return chr(int(digits, 16))


_BARE_END = re.compile(r"[,{}\[\]]")
_KEY_END = re.compile(r"[:,{}\[\]]")
_COLON, _EQUALS, _BRACKET = markers(":"), markers("="), markers("(")
_JSON_STRING = markers('"', '\\"', "\\\\")
_PYTHON = markers('"', "'", "[", "(", "{")
_PYTHON_QUOTES = markers('"', "'")
_MAY_FOLLOW = frozenset([*",)]}:", ""])
_NO_WORD, _NO_NAME, _NO_SIMPLE = re.compile(r"\W"), re.compile(r"[^\w.]"), re.compile(r"[^\w.+\-]")
_NAME = re.compile(r"[^\W\d]\w*")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_WHOLE = re.compile(r"\+?(-?)0*([0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SIZES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""} | {c: c for c in "\\'\""}
