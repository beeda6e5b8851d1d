"""The line of each key of a TOML text. `tomllib` returns values without lines, and errors should name them.

`tomllib` has accepted the text before, so this scanner only has to find where keys begin and values end. If it fails,
the lines found so far are kept, and an error names its key without a line.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")'  # up to two quotes may stand right before the closing three
    r"|'''.*?'''(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")  # numbers, booleans and dates, which may have a blank


def key_lines(text: str) -> dict[KeyPath, int]:
    """Returns the line of every key: tables, dotted keys, and keys inside lists (by index) and inline tables.

    >>> key_lines('[a.b]\\nc = { d = [1,\\n2] }')[("a", "b", "c", "d", 1)]
    3
    """
    scan = _Scan(text)
    with suppress(_LostError):
        scan.document()
    return scan.lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Returns the line of a key or, if it is missing, of the table that should have it. None if neither is there."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def toml_path(path: KeyPath) -> str:
    """Returns a key as TOML spells it, with list indexes in brackets.

    >>> spelled(("providers", "my own", "fallback", 0))
    'providers."my own".fallback[0]'
    """
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _BARE.fullmatch(part) else f'"{part}"')
    return out


class _LostError(Exception):
    pass


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.counts: dict[KeyPath, int] = {}  # index of the last table of each list of tables

    def document(self) -> None:
        table: KeyPath = ()
        self.take(_GAP)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                many = self.text.startswith("[[", self.at)
                self.at += 1 + many
                table = self.header(many)
                self.symbol("]")
                self.at += many
            else:
                self.pair(table)
            self.take(_GAP)

    def header(self, many: bool) -> KeyPath:
        """Returns the path of a table, with an index for each list of tables on the way."""
        line, *above = self.line(), *self.key(())
        last = above.pop()
        table: KeyPath = ()
        for part in above:
            table = (*table, part)
            if table in self.counts:
                table = (*table, self.counts[table])
        table = (*table, last)
        if many:
            self.counts[table] = self.counts.get(table, -1) + 1
            table = (*table, self.counts[table])
        self.lines[table] = line
        return table

    def pair(self, table: KeyPath) -> None:
        path = self.key(table)
        self.symbol("=")
        self.value(path)

    def key(self, table: KeyPath) -> KeyPath:
        path = table
        while True:
            self.take(_GAP)
            line = self.line()
            if self.text[self.at : self.at + 1] in ("'", '"'):
                name = next(iter(tomllib.loads(f"{self.take(_STRING)} = 0")))
            else:
                name = self.take(_BARE)
            path = (*path, name)
            self.take(_GAP)
            if self.text[self.at : self.at + 1] != ".":
                self.lines[path] = line  # replaces the line of a longer key that begins with it
                return path
            self.lines.setdefault(path, line)
            self.at += 1

    def value(self, path: KeyPath) -> None:
        self.take(_GAP)
        match self.text[self.at : self.at + 1]:
            case "{":
                self.items("}", lambda _: self.pair(path))
            case "[":
                self.items("]", lambda index: self.item((*path, index)))
            case '"' | "'":
                self.take(_STRING)
            case _:
                self.take(_SCALAR)

    def items(self, end: str, read: Callable[[int], None]) -> None:
        self.at += 1
        index = 0
        while True:
            self.take(_GAP)
            if self.text[self.at : self.at + 1] == end:
                self.at += 1
                return
            read(index)
            index += 1
            self.take(_GAP)
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1

    def item(self, path: KeyPath) -> None:
        self.lines[path] = self.line()
        self.value(path)

    def symbol(self, symbol: str) -> None:
        self.take(_GAP)
        if self.text[self.at : self.at + 1] != symbol:
            raise _LostError
        self.at += 1

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _LostError
        self.at = found.end()
        return found[0]

    def line(self) -> int:
        return bisect_right(self.newlines, self.at - 1) + 1
