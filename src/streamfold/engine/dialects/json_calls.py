"""Parses tool calls that the model wrote as JSON objects with a name, optionally an id, and the arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from ...jsontext import BracketTracker
from .grammar import SPACES, TokenPattern, literal
from .reader import MarkupReader, ReadResult
from .scanner import Reading, is_json, markers


class Entry(NamedTuple):
    """A tool call. `arguments` is the JSON text that the model wrote, or None if the tool call has no arguments. If the
    model wrote the arguments as a JSON string, `arguments` is the string's value."""

    name: str
    id: str | None
    arguments: str | None


def read_entry(
    text: str, keys: tuple[str, ...] = ("arguments", "parameters"), names: tuple[str, ...] = ("name",)
) -> Entry | None:
    """Returns the tool call in a JSON object, or None if the object has no name. The first existing key of `keys`
    contains the arguments.

    Raises:
        ValueError: the text is not a JSON object.
    """
    value = _value(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    name = next((value[key] for key in names if isinstance(value.get(key), str)), "")
    call_id = value.get("id")
    if not name:
        return None
    key = next((key for key in keys if key in value), None)
    given = value.get(key)
    found = None if key is None else given if isinstance(given, str) else _member(text.strip(), key)
    return Entry(name, call_id if isinstance(call_id, str) else None, found)


class EntryDraft:
    """Reports the arguments of an incomplete tool call, if the tool's name precedes the arguments."""

    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show
        self._head = ""
        self._name = ""
        self._brackets = BracketTracker()
        self._ended = False

    def feed(self, piece: str) -> None:
        if self._ended:
            return
        if not self._name:
            self._head += piece
            found = _HEAD.match(self._head)
            if found is None:
                self._ended = len(self._head) > _LONGEST_HEAD
                return
            self._name, piece = found[1], self._head[found.end() :]
        if (end := self._brackets.feed(piece)) >= 0:
            self._ended, piece = True, piece[:end]
        self._show(self._name, piece)


def read_entries(text: MarkupReader, keys: tuple[str, ...], begun: str = "") -> Reading[ReadResult]:
    """Parses an array of tool calls, or a single tool call. In a truncated array, ignores an incomplete tool call."""
    value, closed = yield from text.value(begun)
    try:
        nothing = closed and _value(value) == []
        whole = _objects(value) if value.startswith("[") else [value] if closed else []
        calls = [entry for item in whole if (entry := read_entry(item, keys))]
    except ValueError:
        return ReadResult.PLAIN_TEXT
    if closed and not calls and not nothing:
        return ReadResult.PLAIN_TEXT
    for entry in calls:
        text.call(entry.name, entry.arguments or "", entry.id)
    text.begin_structure()
    return ReadResult.CONSUMED if closed else text.unfinished("a list of tool calls")


def read_calls(
    text: MarkupReader, end: str, keys: tuple[str, ...], names: tuple[str, ...] = ("name",)
) -> Reading[tuple[ReadResult | None, str]]:
    """Parses an array of tool calls, or a single tool call, optionally followed by the marker `end`.

    Returns the result, and the text before `end`. The result is None if this text isn't valid JSON.
    """
    body, mark = yield from text.body(markers(end), closes=True)
    whole = is_json(body)
    if mark and not whole:
        return None, body
    objects = _objects(body) if body.startswith("[") else [body] if whole else []
    calls = [entry for item in objects if (entry := read_entry(item, keys, names))]
    if whole and not calls:
        return ReadResult.PLAIN_TEXT, body
    for entry in calls:
        text.call(entry.name, entry.arguments or "")
    if not whole:
        return text.unfinished("a list of tool calls"), body
    yield from text.match(TokenPattern(SPACES, literal(end)))
    return ReadResult.CONSUMED, body


def _objects(text: str) -> Iterator[str]:
    at = 1
    while True:
        at = _between(text, at)
        try:
            value, end = _decode(text, at)
        except ValueError:  # the bracket that closes the array, or where it was cut off
            return
        if isinstance(value, dict):
            yield text[at:end]
        at = end


def _member(text: str, wanted: str) -> str:
    found, at = "", _between(text, 1)
    while text[at] != "}":
        key, at = _decode(text, at)
        at = _between(text, at)
        _, end = _decode(text, at)
        if key == wanted:
            found = text[at:end]
        at = _between(text, end)
    return found


def _value(text: str) -> Any:
    text = text.strip()
    value, end = _decode(text, 0)
    if end < len(text):
        raise ValueError("more than one value")
    return value


def _between(text: str, at: int) -> int:
    found = _SEPARATORS.match(text, at)
    return found.end() if found else at


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_LONGEST_HEAD = 1000  # characters
_HEAD = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')
_SEPARATORS = re.compile(r"[ \t\r\n,:]*")
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=float)  # int() refuses numbers of 5000 digits
