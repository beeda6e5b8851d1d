"""`streamfold inspect` and `streamfold diff`: recorded streams explained, and compared."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..testing.inspection import (
    Comparison,
    Inspection,
    compare,
    comparison_to_dict,
    inspect_stream,
    render_page,
    to_dict,
)
from ..testing.recording import Recording, open_recording
from ..values import ConfigError
from .errors import told_errors
from .explain import print_comparison, print_inspection

__all__ = ["diff", "inspect"]

Adapter = Annotated[str | None, typer.Option(help="The wire format; else what FILE.toml says, else chat.")]
Dialect = Annotated[str | None, typer.Option(help="How the model writes calls in its text; else what FILE.toml says.")]
ToolNames = Annotated[
    list[str] | None, typer.Option("--tool", help="A tool that the request declared, by its name. May be repeated.")
]
ToolChoice = Annotated[str | None, typer.Option(help="auto, none or required, as in the request.")]
Source = Annotated[
    Path,
    typer.Argument(
        help="A recorded answer, any raw body (- reads one from standard input), or the name of a recording that comes"
        " with streamfold."
    ),
]


def inspect(
    file: Source,
    adapter: Adapter = None,
    dialect: Dialect = None,
    tool: ToolNames = None,
    tool_choice: ToolChoice = None,
    all_events: Annotated[bool, typer.Option("--all", help="A line for every event: runs are not joined.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as docs/inspect.md describes it.")] = False,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write one HTML page that needs nothing else; - prints it.")
    ] = None,
) -> None:
    """Explains a recorded stream: every event, what it became, and why each fragment of a call went where it went."""
    with told_errors():
        if as_json and html:
            raise ConfigError("--json and --html are two ways to write the same: choose one")
        made = _inspected(file, adapter, dialect, tool, tool_choice)
        if html:
            _write(html, render_page(made))
            return
    if as_json:
        _print_json(to_dict(made))
        return
    print_inspection(Console(highlight=False), made, every=all_events)


def diff(
    a: Source,
    b: Source,
    adapter: Adapter = None,
    dialect: Dialect = None,
    tool: ToolNames = None,
    tool_choice: ToolChoice = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A part of the answer that need not be the same, as ids. May be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as docs/inspect.md describes it.")] = False,
) -> None:
    """Compares two recorded streams. Exits with 0 if both gave the same answer, with 1 if not."""
    with told_errors():
        first, second = (_inspected(file, adapter, dialect, tool, tool_choice) for file in (a, b))
        made: Comparison = compare(first, second, ignore=ignore or ())
    if as_json:
        _print_json(comparison_to_dict(made))
    else:
        print_comparison(Console(highlight=False), made)
    if not made.same:
        raise typer.Exit(1)


def _inspected(
    file: Path, adapter: str | None, dialect: str | None, tool_names: list[str] | None, tool_choice: str | None
) -> Inspection:
    given: dict[str, Any] = {
        "adapter": adapter, "dialect": dialect, "tools": tuple(tool_names or ()), "tool_choice": tool_choice,
    }  # fmt: skip
    read = Recording("standard input", sys.stdin.buffer.read()) if str(file) == "-" else open_recording(file)
    recording = replace(read, **{name: value for name, value in given.items() if value})
    if dialect not in (None, "think") and not recording.tools:
        hint = "no tool is declared, so the dialect reads reasoning and no calls: name the tools with --tool"
        Console(stderr=True).print(hint, style="yellow")
    about = {
        "shows": recording.shows,
        "source": recording.source or "",
        "origin": recording.origin,
        "date": recording.date,
        "link": recording.link,
        "request": recording.request,
        "notes": recording.notes,
        "status": str(recording.status) if recording.status != 200 else "",
    }
    return inspect_stream(
        recording.body,
        name=recording.name,
        adapter=recording.adapter,
        **recording.options(),
        cuts=recording.cuts,
        interrupted=recording.interrupted,
        about={name: value for name, value in about.items() if value},
    )


def _write(path: Path, page: str) -> None:
    if str(path) == "-":
        sys.stdout.write(page)
        return
    try:
        path.write_text(page, "utf-8", newline="\n")
    except OSError as exc:
        raise ConfigError(f"{path} can't be written: {exc.strerror}") from exc


def _print_json(made: dict[str, Any]) -> None:
    text = json.dumps(made, ensure_ascii=False)
    # Half of a character, as some servers send it, is no text that could be written; as an escape JSON has it.
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
