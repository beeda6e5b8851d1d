"""Chunks to a terminal, to a pipe, or to lines of JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterable
from dataclasses import asdict
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..values import Reply, StreamChunk, ToolCall

__all__ = ["Json", "Plain", "Screen", "screen_for", "show"]


class Screen(Protocol):
    """Somewhere to show an answer."""

    def chunk(self, chunk: StreamChunk) -> None:
        """Shows one chunk as it comes."""

    def end(self, reply: Reply) -> None:
        """Shows what is known only at the end."""


async def show(chunks: AsyncIterable[StreamChunk], screen: Screen) -> None:
    """Shows chunks as they come."""
    async for chunk in chunks:
        screen.chunk(chunk)


class Json:
    """One line of JSON for each chunk: always `delta` and `finished`, the rest where there is something."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def chunk(self, chunk: StreamChunk) -> None:
        always = ("delta", "finished")
        line = {name: value for name, value in asdict(chunk).items() if name in always or value not in ("", None)}
        for call in line.get("tool_calls", ()):
            call.pop("extra")
        self._console.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._console.file.flush()

    def end(self, reply: Reply) -> None:
        pass


class Plain:
    """Text live, reasoning dimmed, finished calls as a table.

    Args:
        console: for the answer.
        aside: for what is not the answer itself: reasoning, token counts, warnings. On a terminal it is the same; in a
            pipe the answer stays alone.
    """

    def __init__(self, console: Console, aside: Console) -> None:
        self._console = console
        self._aside = aside
        self._open: Console | None = None  # where the last text ended without a line end
        self._reasoning = False

    def chunk(self, chunk: StreamChunk) -> None:
        if chunk.reasoning:
            self._write(self._aside, chunk.reasoning, reasoning=True)
        if chunk.delta:
            self._write(self._console, chunk.delta, reasoning=False)
        if chunk.finished:
            self._end_line()
        if chunk.tool_calls:
            self._console.print(_calls_table(chunk.tool_calls))

    def end(self, reply: Reply) -> None:
        self._end_line()
        parts = [f"finished: {reply.finish_reason}"]
        if usage := reply.usage:
            parts += [
                f"{count} tokens {way}" for count, way in ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
            ]
        self._aside.print(Text(" · ".join(parts), "dim"))
        for warning in reply.warnings:
            self._aside.print(f"[yellow]warning[/] {warning.code}: {escape(warning.detail)}")

    def _write(self, console: Console, text: str, *, reasoning: bool) -> None:
        if self._open is not None and reasoning != self._reasoning:
            self._end_line()
            console.print()
        self._reasoning = reasoning
        console.print(Text(text, "dim italic" if reasoning else ""), end="", soft_wrap=True)
        console.file.flush()
        self._open = None if text.endswith("\n") else console

    def _end_line(self) -> None:
        if self._open is not None:
            self._open.print()
            self._open = None


def _calls_table(calls: Iterable[ToolCall]) -> Table:
    table = Table(title="tool calls", title_justify="left", show_lines=False)
    for heading in ("id", "tool"):
        table.add_column(heading, no_wrap=heading == "tool", overflow="fold")
    table.add_column("arguments", overflow="fold")
    for call in calls:
        arguments: Any = Text(json.dumps(call.arguments, ensure_ascii=False), "red" if call.error else "")
        table.add_row(Text(call.id, "dim"), Text(call.name, "bold"), arguments)
    return table


def screen_for(as_json: bool, *, everything: bool = False) -> Screen:
    """The screen for a command. `everything`: what is not the answer goes to standard output too."""
    console = Console(highlight=False)
    if as_json:
        return Json(console)
    return Plain(console, console if console.is_terminal or everything else Console(stderr=True, highlight=False))
