"""Standard output: exact bytes on a pipe, harmless text on a terminal, and no traceback in any encoding."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 100_000  # columns: on a pipe no line is wrapped and no name is cut

# Characters that steer a terminal: control characters, and those that change the direction of writing.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F]
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS if chr(code) not in "\t\n"}


def prepare_streams() -> None:
    """Makes standard output write UTF-8 without newline translation on a pipe; nothing that is written raises.

    The text of a model must arrive byte for byte, also on Windows, where a pipe is cp1252 with CRLF by default. A
    terminal keeps its encoding, and shows characters that it does not have as escapes.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if sys.stdout.isatty():
        sys.stdout.reconfigure(errors="backslashreplace")
    else:
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def console(*, stderr: bool = False) -> Console:
    """A console for standard output or standard error. It has colours and a width only on a terminal."""
    file = sys.stderr if stderr else sys.stdout
    terminal = file.isatty()
    return Console(file=file, force_terminal=terminal, width=None if terminal else _PIPE_WIDTH, highlight=False)


def escape_control_characters(text: str) -> str:
    r"""The text with control characters as escapes, so that it can't steer a terminal.

    >>> harmless("one\n\x1b]0;two\x07")
    'one\n\\x1b]0;two\\x07'
    """
    return text.translate(_ESCAPES)


def print_status(text: str, *, err: bool = False) -> None:
    """Prints a line."""
    typer.echo(escape_control_characters(text), err=err)


def print_json(value: Any) -> None:
    """Prints one line of JSON, in ASCII: any encoding can carry it, and half of a surrogate pair stays what it is."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def print_rows(target: Console, heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Prints a table; where it does not fit, each row as lines under its first cell. No cell is cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    if target.measure(table, options=target.options.update(width=_PIPE_WIDTH)).maximum <= target.width:
        target.print(table)
        return
    for first, *others in rows:
        target.print(Text.assemble((first.plain, "bold")), soft_wrap=True)
        for head, cell in zip(heads[1:], others, strict=True):
            if cell.plain:
                target.print(Text.assemble("  ", (f"{head} " if head else "", "dim"), cell), soft_wrap=True)
