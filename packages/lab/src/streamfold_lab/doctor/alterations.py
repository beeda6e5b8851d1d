"""Finds differences between the values that a prompt requests and the values that arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from .damage import said

_LONGEST = 60  # the maximum length of a shown value in characters
_ALIKE = 0.6  # the minimum similarity of an altered copy
_MISSING = "nothing"


@dataclass(frozen=True, slots=True)
class Alteration:
    """A value that a prompt requested, and the different value that arrived.

    Attributes:
        path: where the value is in the tool call's arguments, such as `tree.branches[0]`.
    """

    path: str
    wanted: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {_shown(self.wanted)} came back as {_shown(self.found)}"


def alterations(wanted: Any, found: Any, path: str = "") -> list[Alteration]:
    """Compares two values, and returns the nested values that differ in type or content. Equal numbers such as 1 and
    1.0 count as the same.

    >>> [str(each) for each in alterations({"n": 2**53 + 1, "on": True}, {"n": 2**53, "on": True})]
    ['n: 9007199254740993 came back as 9007199254740992']
    """
    return list(_alterations(wanted, found, path))


def _alterations(wanted: Any, found: Any, path: str) -> Iterator[Alteration]:
    match wanted, found:
        case dict(), dict():
            for name in [*wanted, *(name for name in found if name not in wanted)]:
                place = f"{path}.{name}" if path else name
                yield from _alterations(wanted.get(name, _MISSING), found.get(name, _MISSING), place)
        case list(), list() if len(wanted) == len(found):
            for number, (first, second) in enumerate(zip(wanted, found, strict=True)):
                yield from _alterations(first, second, f"{path}[{number}]")
        case _:
            if not _equal(wanted, found):
                yield Alteration(path, wanted, found)


def _equal(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return bool(wanted == found) and isinstance(wanted, str) == isinstance(found, str)


def is_altered_copy(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    """Returns whether tool call arguments are similar to the requested arguments, but not equal."""
    if not alterations(wanted, found):
        return False
    if 2 * _unchanged(wanted, found) >= _size(wanted) > 1:
        return True
    return _similarity(json.dumps(wanted, ensure_ascii=False), json.dumps(found, ensure_ascii=False)) >= _ALIKE


def _unchanged(wanted: Any, found: Any) -> int:
    """Counts the paths at which both objects have the same value."""
    match wanted, found:
        case dict(), dict() if wanted:
            return sum(_unchanged(value, found[name]) for name, value in wanted.items() if name in found)
        case list(), list() if wanted:
            return sum(_unchanged(first, second) for first, second in zip(wanted, found, strict=False))
    return int(_equal(wanted, found))


def is_altered_text(wanted: str, text: str) -> bool:
    """Returns whether a text is a damaged copy of the text that the prompt requested."""
    text = said(text).strip()
    return wanted not in text and _similarity(wanted, text) >= _ALIKE


def text_change(wanted: str, text: str) -> str:
    """Describes the first difference between a text and the text that the prompt requested."""
    text = said(text).strip()
    steps = SequenceMatcher(None, wanted, text, autojunk=False).get_opcodes()
    _, a, b, c, d = next(step for step in steps if step[0] != "equal")
    return f"{_shown(wanted[max(0, a - 8) : b + 8])} came back as {_shown(text[max(0, c - 8) : d + 8])}"


def _similarity(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def _size(value: Any) -> int:
    """Returns how many values are nested in a value. An empty object or list counts as one."""
    match value:
        case dict():
            return sum(map(_size, value.values())) or 1
        case list():
            return sum(map(_size, value)) or 1
    return 1


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if any(not char.isprintable() or char == "\ufffd" for char in text):
        text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
