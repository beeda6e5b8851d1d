"""Prints the chunks of an answer, as text or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..terminal import console, escape_control_characters, print_json
from ..types import Reply, StreamChunk, ToolCall

_MEMBERS = ("delta", "tool_calls", "finished", "reasoning", "finish_reason", "usage")
ERROR_LINE = {"delta": "", "finished": False}  # the members that every line has, an error's too


class JSONLinesRenderer:
    """Prints one line of JSON for each chunk. Each line has `delta` and `finished`, and other fields that have a value.

    The last line also has the reply's `id`, `model` and `warnings`.
    """

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}

    def chunk(self, chunk: StreamChunk) -> None:
        members = {name: value for name, value in asdict(chunk).items() if name in _MEMBERS}
        line = {name: value for name, value in members.items() if name in ERROR_LINE or value not in ("", None)}
        for call in line.get("tool_calls", ()):
            call.pop("extra")
        if chunk.finished:
            self._last = line
        else:
            print_json(line)

    def end(self, reply: Reply) -> None:
        warnings = [asdict(warning) for warning in reply.warnings]
        print_json({**self._last, "id": reply.id, "model": reply.model, "warnings": warnings})


class TextRenderer:
    """Prints text as it arrives, reasoning in a dim colour, and tool calls at the end.

    Args:
        answer: the console for the answer. A pipe gets the model's unchanged text and a final line end.
        aside: the console for reasoning, token counts and warnings. It may be the same as `answer`.
    """

    def __init__(self, answer: Console, aside: Console) -> None:
        self._answer = answer
        self._aside = aside
        self._open: Console | None = None  # where the last text ended without a line end
        self._reasoning = False

    def chunk(self, chunk: StreamChunk) -> None:
        if chunk.reasoning:
            self._write(self._aside, chunk.reasoning, reasoning=True)
        if chunk.delta:
            self._write(self._answer, chunk.delta, reasoning=False)
        if chunk.finished:
            self._end_line()
        if chunk.tool_calls:
            self._print_calls(chunk.tool_calls)

    def end(self, reply: Reply) -> None:
        self._end_line()
        if reply.refusal:
            self._aside.print(Text(escape_control_characters(f"refused: {reply.refusal}"), "red"), soft_wrap=True)
        parts = [f"finished: {reply.finish_reason}"]
        if usage := reply.usage:
            counts = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
            parts += [f"{count} tokens {way}" for count, way in counts if count is not None]
        self._aside.print(Text(" · ".join(parts), "dim"))
        for warning in reply.warnings:
            line = Text.assemble(("warning ", "yellow"), escape_control_characters(f"{warning.code}: {warning.detail}"))
            self._aside.print(line, soft_wrap=True)

    def _write(self, target: Console, text: str, *, reasoning: bool) -> None:
        if self._open is not None and reasoning != self._reasoning:
            self._end_line()
            if self._aside is self._answer:
                self._aside.print()
        self._reasoning = reasoning
        if target.is_terminal:
            target.out(
                escape_control_characters(text), end="", style="dim italic" if reasoning else None, highlight=False
            )
        else:
            target.file.write(text)
        target.file.flush()
        self._open = None if text.endswith("\n") else target

    def _end_line(self) -> None:
        if self._open is not None:
            self._open.print()
            self._open = None

    def _print_calls(self, calls: Iterable[ToolCall]) -> None:
        if not self._answer.is_terminal:
            for call in calls:
                arguments = json.dumps(call.arguments, ensure_ascii=False)
                self._answer.file.write(
                    escape_control_characters(f"tool call: {call.name} {arguments} {call.id}") + "\n"
                )
            return
        table = Table(title="tool calls", title_justify="left", show_lines=False)
        for heading in ("id", "tool", "arguments"):
            table.add_column(heading, overflow="fold")
        for call in calls:
            arguments = escape_control_characters(json.dumps(call.arguments, ensure_ascii=False))
            row = (Text(escape_control_characters(call.id), "dim"), Text(escape_control_characters(call.name), "bold"))
            table.add_row(*row, Text(arguments, "red" if call.error else ""))
        self._answer.print(table)


Renderer: TypeAlias = JSONLinesRenderer | TextRenderer


def renderer_for(as_json: bool, *, everything: bool = False) -> Renderer:
    """Returns the renderer for a command.

    Args:
        everything: True to print reasoning and token counts to standard output too.
    """
    if as_json:
        return JSONLinesRenderer()
    answer = console()
    return TextRenderer(answer, answer if answer.is_terminal or everything else console(stderr=True))
