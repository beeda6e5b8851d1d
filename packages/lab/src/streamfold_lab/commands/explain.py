"""Prints inspections and comparisons of streams in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamfold.terminal import escape_control_characters, print_rows

from ..inspection import Comparison, Event, EventLine, Inspection, called, steps, stream_words, usage_words

_STYLES = {
    "reasoning": "magenta",
    "text": "blue",
    "refusal": "red",
    "call": "cyan",
    "stream": "dim",
    "warning": "yellow",
    "error": "bold red",
}
_LONGEST = 160  # the maximum number of characters of one row's text
_JOINED = ("reasoning", "text", "refusal", "call")


def print_inspection(target: Console, made: Inspection, *, every: bool = False) -> None:
    """Prints a stream event by event, and the resulting reply. With `every`, each text fragment gets its own row."""
    facts = (f"  {' · '.join(stream_words(made))}", "dim")
    target.print(Text.assemble((escape_control_characters(made.name), "bold"), facts))
    for name in ("origin", "request", "notes"):
        if text := made.about.get(name):
            target.print(Text(f"  {escape_control_characters(text)}", "dim"), soft_wrap=True)
    target.print()
    target.print(_events_table(made, every))
    target.print()
    _print_outcome(target, made)


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
            head = [_numbers(events), *_times(events)] if number == 0 else ["", "", ""]
            style = _STYLES[step.lane]
            part = step.lane if step.call is None else f"call {step.call}"
            what, why = (Text(escape_control_characters(text)) for text in (_cut(step), step.why))
            what.style = style if step.lane in ("warning", "error", "stream") else ""
            table.add_row(*map(Text, head if timed else head[:1]), Text(part, style), what, why)
    return table


def _runs(
    rows: Sequence[tuple[Event, tuple[EventLine, ...]]], every: bool
) -> Iterator[tuple[list[Event], tuple[EventLine, ...]]]:
    """Yields the rows of the table of events. Consecutive events that continue the same text or arguments become one
    row.
    """

    def key(row: tuple[int, tuple[Event, tuple[EventLine, ...]]]) -> object:
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


def _cut(step: EventLine) -> str:
    if len(step.piece) <= _LONGEST:
        return step.shown
    return f"{replace(step, piece=step.piece[:_LONGEST]).shown}... ({len(step.piece):,} characters)"


# --- The outcome -------------------------------------------------------------------------------------------------


def _print_outcome(target: Console, made: Inspection) -> None:
    reply, failed = made.reply, made.failed
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in (("reasoning", reply.reasoning), ("text", reply.text), ("refusal", reply.refusal)):
        if text:
            table.add_row(Text(name, _STYLES[name]), Text(escape_control_characters(text)))
    for call in reply.tool_calls:
        name, arguments, call_id = map(escape_control_characters, (call.name, call.raw_arguments, call.id))
        shown = Text.assemble((name, "bold"), f" {arguments or '{}'}", (f"  {call_id}", "dim"))
        table.add_row(Text("tool call", _STYLES["call"]), shown)
    if not reply.tool_calls:
        for traced in made.calls:
            shown = Text(f"{called(traced.number, traced.name)} {escape_control_characters(traced.arguments)!r}", "dim")
            table.add_row(Text("not called", "dim"), shown)
    if reply.usage:
        table.add_row(Text("usage", "dim"), Text(usage_words(reply.usage)))
    for warning in made.warnings:
        number = made.events[warning.event].number
        where = f"event {number}" if number else "at the end"
        said = f"{warning.code}: {escape_control_characters(warning.detail)} ({where})"
        table.add_row(Text("warning", "yellow"), Text(said))
    target.print(table)
    if failed:
        retry = " The same request may succeed later." if failed.retryable else ""
        target.print(Text(f"{failed.error}: {escape_control_characters(failed.message)}.{retry}", "bold red"))
    else:
        target.print(Text(f"finished: {reply.finish_reason}", "bold"))


# --- Comparisons -----------------------------------------------------------------------------------------------------


def print_comparison(target: Console, made: Comparison) -> None:
    """Prints whether two streams result in the same reply, and the first event that differs."""
    a, b = map(escape_control_characters, (made.a, made.b))
    target.print(Text.assemble(("A ", "bold"), a, ("   B ", "bold"), b), soft_wrap=True)
    target.print()
    print_rows(target, ("answer", "", "A", "B"), list(_verdicts(made)))
    target.print()
    if first := made.meaning:
        target.print(Text(f"the first event that differs: event {first.number}", "bold"))
        for name, side in (("A", first.a), ("B", first.b)):
            shown = Text("(no more)", "dim") if side is None else Text(_shortened(side))
            target.print(Text.assemble((f"  {name} ", "bold"), shown), soft_wrap=True)
        target.print()
    if made.same:
        target.print(Text("the replies are the same", "bold green"))
    else:
        target.print(Text("the replies differ", "bold red"))


def _verdicts(made: Comparison) -> Iterator[list[Text]]:
    for verdict in made.answer:
        if verdict.same:
            if verdict.a:
                yield [Text(verdict.field), Text("same", "green"), Text(_shortened(verdict.a), "dim"), Text()]
            continue
        word, style = ("ignored", "dim") if verdict.ignored else ("differs", "red")
        yield [Text(verdict.field), Text(word, style), Text(_shortened(verdict.a)), Text(_shortened(verdict.b))]


def _shortened(text: str) -> str:
    text = escape_control_characters(" ".join(text.split()) if text.strip() else text)
    return text if len(text) <= 240 else f"{text[:240]}... ({len(text):,} characters)"
