"""`streamfold inspect` and `streamfold diff`: explain a recorded stream, and compare two streams."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from streamfold import ConfigError
from streamfold.recording import Recording, open_recording
from streamfold.terminal import AdapterName, DialectNames, console, print_json, reported_errors

from ..inspection import Inspection, compare, comparison_to_dict, inspect_stream, render_page, to_dict
from .explain import print_comparison, print_inspection

ToolNames = Annotated[
    list[str] | None, typer.Option("--tool", help="The name of a tool that the request declared. Repeatable.")
]
ToolChoice = Annotated[str | None, typer.Option(help="The tool choice of the request: auto, none or required.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; docs/inspect.md describes its fields.")]
Source = Annotated[
    Path,
    typer.Argument(
        help="A recording, a file with a raw response body (- for standard input), or the name of a bundled recording."
    ),
]


def inspect(
    file: Source,
    adapter: AdapterName = None,
    dialect: DialectNames = None,
    tool: ToolNames = None,
    tool_choice: ToolChoice = None,
    all_events: Annotated[
        bool, typer.Option("--all", help="Print every event instead of joining consecutive fragments.")
    ] = False,
    as_json: AsJson = False,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write one self-contained HTML page; - prints it.")
    ] = None,
) -> None:
    """Explain a recorded stream event by event.

    The command decodes the stream as the library does. For each fragment of a tool call, the output shows which tool
    call the fragment belongs to, and why.
    """
    with reported_errors(as_json):
        if as_json and html:
            raise ConfigError("--json and --html can't be combined: choose one of them")
        made = _inspected(file, adapter, dialect, tool, tool_choice)
        if html:
            write_page(html, render_page(made))
            return
    if as_json:
        print_json(to_dict(made))
        return
    print_inspection(console(), made, every=all_events)


def diff(
    a: Source,
    b: Source,
    adapter: AdapterName = None,
    dialect: DialectNames = None,
    tool: ToolNames = None,
    tool_choice: ToolChoice = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A part of the reply to ignore, such as ids. Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two recorded streams. The exit code is 0 if their replies are the same, and 1 if they differ."""
    with reported_errors(as_json):
        first, second = (_inspected(file, adapter, dialect, tool, tool_choice) for file in (a, b))
        made = compare(first, second, ignore=ignore or ())
    if as_json:
        print_json(comparison_to_dict(made))
    else:
        print_comparison(console(), made)
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
        hint = "no tools are declared, so the dialect finds no tool calls: name the request's tools with --tool"
        console(stderr=True).print(hint, style="yellow", soft_wrap=True)
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


def write_page(path: Path, page: str) -> None:
    """Writes an HTML page to a file, or to standard output for "-". Raises ConfigError if the file can't be written."""
    if str(path) == "-":
        sys.stdout.write(page)
        return
    try:
        path.write_text(page, "utf-8", newline="\n")
    except OSError as exc:
        raise ConfigError(f"{path} can't be written: {exc.strerror}") from exc
