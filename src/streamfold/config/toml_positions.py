"""Finds the line of each key in a TOML text, for error messages. `tomllib` doesn't report lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|"""(?:\\.|[^\\])*?"""(?!")'  # up to two quotes may stand right before the closing three
    r"|'''.*?'''(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|(?:\d{4}-\d\d-\d\d )?[^\s#\"'\[\]{}=,]+"  # a key, a number, a boolean or a date, which may have a blank
    r"|[\[\]{}=\n]",
    re.DOTALL,
)
_LINE = "\0"  # the key under which a table has its line


def key_lines(text: str) -> dict[KeyPath, int]:
    """Returns the line number of each key, including tables, dotted keys, inline tables and the items of lists.

    Args:
        text: a valid TOML document.

    >>> key_lines('[a.b]\\nc = { d = [1,\\n2] }')[("a", "b", "c", "d", 1)]
    3
    """
    lines: dict[KeyPath, int] = {}
    with suppress(tomllib.TOMLDecodeError, RecursionError):  # errors then contain only the key
        for key, value in tomllib.loads(_with_lines_as_values(text)).items():
            _note_lines(lines, (key,), value)
    return lines


def _with_lines_as_values(text: str) -> str:
    """Replaces each value in a TOML text with its line number. Inserts a first item into each table and list: the line
    number of this table or list.
    """
    line, header, is_value = 1, 0, False
    brackets: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        nonlocal line, header, is_value
        part, number = found[0], line
        line += part.count("\n")
        if part[0] == "#":
            return ""
        if part == "[" and not is_value:  # one bracket or two
            header += 1
        elif header:
            header -= part == "]"
            if not header:
                return f'{part}\n"\\u0000" = {number}\n'
        elif part == "=":
            is_value = True
        elif part in ("]", "}"):
            brackets.pop()
            is_value = brackets[-1:] == ["["]
        elif is_value and part in ("[", "{"):
            brackets.append(part)
            is_value = part == "["
            more = "" if re.compile(r"\s*}").match(text, found.end()) else ", "
            return f"[{number}, " if is_value else f'{{"\\u0000" = {number}{more}'
        elif is_value and part != "\n":
            is_value = brackets[-1:] == ["["]
            return str(number)
        return part

    return _TOKEN.sub(numbered, text)


def _note_lines(lines: dict[KeyPath, int], path: KeyPath, value: Any) -> int:
    if isinstance(value, int):
        lines[path] = value
        return value
    own = value.pop(_LINE, None) if isinstance(value, dict) else None
    if isinstance(value, list) and isinstance(value[0], int):
        own, *value = value
    members = value.items() if isinstance(value, dict) else enumerate(value)
    found = [_note_lines(lines, (*path, name), member) for name, member in members]
    lines[path] = own if own is not None else min(found, default=1)
    return lines[path]


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Returns the line number of a key. If the key is missing, returns the line of the innermost table on its path,
    or None.
    """
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def toml_path(path: KeyPath) -> str:
    """Returns the path of a key in TOML syntax. The index of a list item is in brackets.

    >>> toml_path(("providers", "my own", "fallback", 0))
    'providers."my own".fallback[0]'
    """
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _BARE.fullmatch(part) else f'"{part}"')
    return out
