"""Writes the output of the `streamfold` commands, and escapes control characters in it. The module also defines the
options that several commands share, and prints errors.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import APIError, ConfigError, StreamError, StreamfoldError

__all__ = [
    "AdapterName",
    "DialectNames",
    "File",
    "ProviderSpecs",
    "console",
    "escape_control_characters",
    "one_provider",
    "prepare_streams",
    "print_error",
    "print_json",
    "print_rows",
    "print_status",
    "read_json",
    "reported_errors",
]


File = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="The configuration file. `streamfold config path` prints the default."),
]
ProviderSpecs = Annotated[
    list[str] | None,
    typer.Option("-p", "--provider", help="PROVIDER or PROVIDER:MODEL. Without this option, the default provider."),
]
AdapterName = Annotated[
    str | None, typer.Option(help="The adapter (API format). Default: the adapter in FILE.toml, or chat.")
]
DialectNames = Annotated[
    str | None,
    typer.Option(help="The format of tool calls in the text (dialect). Default: the one in FILE.toml."),
]


def one_provider(specs: Sequence[str] | None) -> str | None:
    """Returns the value of the command line option `-p`, or None to use the default provider. Raises ConfigError for
    several values.
    """
    if specs and len(specs) > 1:
        raise ConfigError(f"-p: this command accepts only one provider, not {len(specs)}: {', '.join(specs)}")
    return specs[0] if specs else None


def read_json(path: Path) -> Any:
    """Reads the JSON value in a file, with or without a byte order mark. Raises ConfigError if the file isn't JSON."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{path}: not JSON: {exc}") from exc


_PIPE_WIDTH = 100_000  # columns: on a pipe no line is wrapped and no name is cut

# Characters that control a terminal, or change the direction of writing.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F]
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS if chr(code) not in "\t\n"}


def prepare_streams() -> None:
    """Makes standard output write UTF-8 without newline translation, even on Windows, unless it is a terminal.

    A terminal keeps its encoding. Characters that the terminal's encoding can't represent are printed as escape
    sequences.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if sys.stdout.isatty():
        sys.stdout.reconfigure(errors="backslashreplace")
    else:
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def console(*, stderr: bool = False) -> Console:
    """Creates a console for standard output or standard error, with colours and a limited width only on a terminal."""
    file = sys.stderr if stderr else sys.stdout
    terminal = file.isatty()
    return Console(file=file, force_terminal=terminal, width=None if terminal else _PIPE_WIDTH, highlight=False)


def escape_control_characters(text: str) -> str:
    r"""Replaces control characters in a text with escape sequences, so that the text can't control the terminal.

    >>> escape_control_characters("one\n\x1b]0;two\x07")
    'one\n\\x1b]0;two\\x07'
    """
    return text.translate(_ESCAPES)


def print_status(text: str, *, err: bool = False) -> None:
    """Prints a line."""
    typer.echo(escape_control_characters(text), err=err)


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON. The line is ASCII, which every encoding supports."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def print_rows(target: Console, heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Prints a table. If the terminal is too narrow for the table, each cell is printed on a separate line. No cell is
    truncated."""
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


_SHOWN = ("retryable", "status_code", "code", "request_id", "retry_after")


@contextmanager
def reported_errors(as_json: bool = False, line: Mapping[str, Any] | None = None) -> Iterator[None]:
    """A context manager that prints errors of streamfold and of file access, and exits the program.

    The exit code is 2 for an invalid request, 130 for Ctrl-C, and 1 for other errors.

    Args:
        as_json: True to also print the error on standard output, as a line of JSON with the field `error`.
        line: additional fields for this JSON line.
    """
    try:
        yield
    except KeyboardInterrupt:
        console(stderr=True).print("\ninterrupted", style="dim")
        raise typer.Exit(130) from None
    except StreamfoldError as error:
        if as_json:
            members = {name: value for name in _SHOWN if (value := getattr(error, name, None)) is not None}
            data = {"type": type(error).__name__, "message": str(error), **members}
            print_json({**(line or {}), "error": data})
        print_error(error)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
    except OSError as error:
        if error.filename is None:  # standard output itself failed: `main` reports that
            raise
        if as_json:
            print_json({**(line or {}), "error": {"type": type(error).__name__, "message": str(error)}})
        _print_line(f"error: {error.filename}: {error.strerror}")
        raise typer.Exit(2) from None


def print_error(error: StreamfoldError) -> None:
    """Prints an error on standard error."""
    began = isinstance(error, StreamError) and sys.stderr.isatty()  # text may stand there without a line end
    _print_line("\n" * began + f"error: {error}")
    if isinstance(error, APIError) and error.retryable:
        console(stderr=True).print("The same request may succeed later.", style="dim")


def _print_line(text: str) -> None:
    console(stderr=True).print(escape_control_characters(text), style="red", markup=False, soft_wrap=True)
