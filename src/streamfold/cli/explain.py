"""Inspections and comparisons on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..testing.inspection import (
    Comparison,
    Event,
    FirstDifference,
    Inspection,
    Step,
    called,
    steps,
    stream_words,
    usage_words,
)

__all__ = ["print_comparison", "print_inspection"]

_STYLES = {
    "reasoning": "magenta",
    "text": "blue",
    "refusal": "red",
    "call": "cyan",
    "stream": "dim",
    "warning": "yellow",
    "error": "bold red",
}
_LONGEST = 160  # characters of a piece, or of a run of them
_JOINED = ("reasoning", "text", "refusal", "call")


def print_inspection(console: Console, made: Inspection, *, every: bool = False) -> None:
    """Prints a stream event by event, and what came of it. `every`: runs of pieces are not joined into one line."""
    console.print(Text.assemble((_clean(made.name), "bold"), (f"  {' · '.join(stream_words(made))}", "dim")))
    for name in ("origin", "request", "notes"):
        if told := made.about.get(name):
            console.print(Padding(Text(_clean(told), "dim"), (0, 0, 0, 2)))
    console.print()
    console.print(_events_table(made, every))
    console.print()
    _print_outcome(console, made)


# --- Events ----------------------------------------------------------------------------------------------------------


def _events_table(made: Inspection, every: bool) -> Table:
    timed = made.duration is not None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("event", justify="right", no_wrap=True)
    if timed:
        table.add_column("seconds", justify="right", no_wrap=True)
        table.add_column("gap", justify="right", no_wrap=True, style="dim")
    table.add_column("part", no_wrap=True)
    table.add_column("what came", overflow="fold", ratio=3)
    table.add_column("why", overflow="fold", ratio=2, style="dim")
    for events, lines in _runs(list(zip(made.events, steps(made), strict=True)), every):
        for number, step in enumerate(lines):
            times = _times(events) if number == 0 else ["", ""]
            style = _STYLES[step.lane]
            part = step.lane if step.call is None else f"call {step.call}"
            what = Text(_clean(_cut(step)), style if step.lane in ("warning", "error", "stream") else "")
            row = [Text(_numbers(events) if number == 0 else ""), *(map(Text, times) if timed else ())]
            table.add_row(*row, Text(part, style), what, Text(_clean(step.why)))
    return table


def _runs(
    rows: Sequence[tuple[Event, tuple[Step, ...]]], every: bool
) -> Iterator[tuple[list[Event], tuple[Step, ...]]]:
    """The rows, and where nothing but the next pieces of the same thing come, these as one row."""

    def key(row: tuple[int, tuple[Event, tuple[Step, ...]]]) -> object:
        number, (_, lines) = row
        (first, *others) = lines
        if every or others or first.what or first.lane not in _JOINED:
            return number
        return first.lane, first.call, first.why

    for _, run in groupby(enumerate(rows), key):
        group = [row for _, row in run]
        lines = group[0][1]
        if len(group) > 1:
            lines = (replace(lines[0], piece="".join(line.piece for _, (line,) in group)),)
        yield [event for event, _ in group], lines


def _numbers(events: list[Event]) -> str:
    first, last = events[0].number, events[-1].number
    if first is None:
        return "-"
    return str(first) if first == last else f"{first}-{last}"


def _times(events: list[Event]) -> list[str]:
    time, gap = events[0].time, events[0].gap
    return ["", ""] if time is None or gap is None else [f"{time:.3f}", f"+{gap:.3f}"]


def _cut(step: Step) -> str:
    if len(step.piece) <= _LONGEST:
        return step.shown
    return f"{replace(step, piece=step.piece[:_LONGEST]).shown}... ({len(step.piece):,} characters)"


# --- What came of it -------------------------------------------------------------------------------------------------


def _print_outcome(console: Console, made: Inspection) -> None:
    reply, failed = made.reply, made.failed
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in (("reasoning", reply.reasoning), ("text", reply.text), ("refusal", reply.refusal)):
        if text:
            table.add_row(Text(name, _STYLES[name]), Text(_clean(text)))
    for call in reply.tool_calls:
        told = Text.assemble((_clean(call.name), "bold"), f" {_clean(call.raw_arguments) or '{}'}")
        told.append(f"  {_clean(call.id)}", "dim")
        table.add_row(Text("tool call", _STYLES["call"]), told)
    if not reply.tool_calls:
        for traced in made.calls:
            told = Text(f"{called(traced.number, traced.name)} {_clean(traced.arguments)!r}", "dim")
            table.add_row(Text("not called", "dim"), told)
    if reply.usage:
        table.add_row(Text("usage", "dim"), Text(usage_words(reply.usage)))
    for warning in made.warnings:
        number = made.events[warning.event].number
        where = f"event {number}" if number else "at the end"
        table.add_row(Text("warning", "yellow"), Text(f"{warning.code}: {_clean(warning.detail)} ({where})"))
    console.print(table)
    if failed:
        retry = " The same request may succeed later." if failed.retryable else ""
        console.print(Text(f"{failed.error}: {_clean(failed.message)}.{retry}", "bold red"))
    else:
        console.print(Text(f"finished: {reply.finish_reason}", "bold"))


def _clean(text: str) -> str:
    """Text that can't steer a terminal: control characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


# --- Comparisons -----------------------------------------------------------------------------------------------------


def print_comparison(console: Console, made: Comparison) -> None:
    """Prints whether two streams gave the same answer, and where their wires differ."""
    console.print(Text.assemble(("A ", "bold"), _clean(made.a), ("   B ", "bold"), _clean(made.b)))
    console.print()
    console.print(_table(("answer", "", "A", "B"), _verdicts(made)))
    console.print()
    numbers = [(f"only in {'A' if one.a else 'B'}", one.what, str(one.a), str(one.b)) for one in made.fields]
    numbers += [("events", one.what, str(one.a), str(one.b)) for one in made.kinds]
    sizes = [(one.what, _size(one.a), _size(one.b)) for one in made.sizes if one.a != one.b]
    for heads, rows in ((("wire", "", "A", "B"), numbers), (("sizes", "A", "B"), sizes)):
        if rows:
            console.print(_table(heads, [[Text(_clean(cell)) for cell in row] for row in rows]))
            console.print()
    _print_first(console, "the first event whose payload differs", made.payload)
    _print_first(console, "the first event that says something else", made.meaning)
    _print_first(console, "the first place where the order differs", made.order, "step")
    console.print(
        Text("the same answer" if made.same else "not the same answer", "bold green" if made.same else "bold red")
    )


def _verdicts(made: Comparison) -> Iterator[list[Text]]:
    for verdict in made.answer:
        if verdict.same:
            if verdict.a:
                yield [Text(verdict.field), Text("same", "green"), Text(_shortened(verdict.a), "dim"), Text()]
            continue
        word, style = ("ignored", "dim") if verdict.ignored else ("differs", "red")
        yield [Text(verdict.field), Text(word, style), Text(_shortened(verdict.a)), Text(_shortened(verdict.b))]


def _print_first(console: Console, title: str, first: FirstDifference | None, what: str = "event") -> None:
    if first is None:
        return
    console.print(Text(f"{title}: {what} {first.number}", "bold"))
    for member in first.members:
        console.print(Padding(Text(_shortened(member)), (0, 0, 0, 2)))
    if not first.members:
        for name, side in (("A", first.a), ("B", first.b)):
            told = Text("(no more)", "dim") if side is None else Text(_shortened(side))
            console.print(Padding(Text.assemble((f"{name} ", "bold"), told), (0, 0, 0, 2)))
    console.print()


def _table(heads: Iterable[str], rows: Iterable[Sequence[Text]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _size(size: tuple[int, float, int]) -> str:
    number, middle, largest = size
    return f"{number:,}: {middle:g} each, at most {largest:,}" if number else "none"


def _shortened(text: str) -> str:
    text = _clean(" ".join(text.split()) if text.strip() else text)
    return text if len(text) <= 240 else f"{text[:240]}... ({len(text):,} characters)"
