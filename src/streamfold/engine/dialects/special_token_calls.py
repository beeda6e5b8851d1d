"""Kimi K2 and DeepSeek: tool calls between special tokens, in a section (`text_sections.py`).

header    the text up to the special token before the arguments: the tool's name; in Kimi's format also a number
arguments the text up to a special token that ends the arguments (`Scanner.body`)
"""

from __future__ import annotations

import re
from abc import abstractmethod
from functools import partial
from typing import ClassVar

from .reader import MarkupReader
from .scanner import NOT_SPACE, Reading, is_json, is_object, markers
from .text_sections import Sections


class _Tokens(Sections):
    section_begin: ClassVar[tuple[str, ...]]
    call_end: ClassVar[str]
    arguments_begin: ClassVar[str]
    fenced_header: ClassVar[str | None] = None  # the header in front of a name and arguments in a Markdown fence

    @abstractmethod
    def name(self, header: str) -> tuple[str, str | None]:
        """Returns the tool's name, or "" if it is missing, and the tool call's id."""

    def call(self, text: MarkupReader, marker: str, *, alone: bool) -> Reading[str]:
        text.begin_structure()
        pieces: list[str] = []
        ends = (*self.section_ends, *self.call_begins, self.call_end)
        marker = yield from text.until(markers(*ends, self.arguments_begin), pieces.append)
        header, arguments, fence = "".join(pieces).strip(), "", ""
        whole = marker == self.call_end
        if marker == self.arguments_begin:
            fence = (yield from _fenced_name(text)) if header == self.fenced_header else ""
            tool = fence or self.name(header)[0]
            show = partial(text.draft, tool) if tool else None
            arguments, marker = yield from text.body(markers(*ends, "```") if fence else markers(*ends), show)
            # The end of the input counts as the token if nothing can be missing.
            whole = is_object(arguments) if not marker else marker not in self.call_begins or is_json(arguments)
        if not marker and not whole:
            text.unfinished("a tool call")
            return ""
        name, call_id = (fence, None) if fence else self.name(header)
        if whole and name:
            text.call(name, arguments, call_id)
        else:
            text.dropped(f"{'an unfinished call' if name else 'a call without a usable name'}: {header[:80]!r}")
        return marker


class Kimi(_Tokens):
    """Kimi K2 to K2.7. The header `functions.NAME:NUMBER` is also the tool call's id."""

    # vLLM and some fine-tunes use the singular.
    section_begin = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
    section_ends = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
    call_begins = ("<|tool_call_begin|>",)
    call_end = "<|tool_call_end|>"
    arguments_begin = "<|tool_call_argument_begin|>"

    openers = end_reasoning = (*section_begin, *call_begins)
    always_end_reasoning = section_begin
    removed_markers = (*section_ends, call_end, arguments_begin)

    def name(self, header: str) -> tuple[str, str | None]:
        base, colon, number = header.rpartition(":")
        if base and colon and number.isdecimal():
            return self.declared_name(base).strip(), header
        # The model copied the ids of an odd history instead of a name. A guess could run the wrong tool.
        for name in (header.removeprefix("functions."), header):
            if name in self.tools:
                return name, None
        if header.startswith("functions.") or len(self.tools) != 1:
            return "", None
        return next(iter(self.tools)), None


class DeepSeek(_Tokens):
    """DeepSeek V3, R1 and V3.1. V3 and R1 write `function`, then the tool's name, then the arguments in a Markdown
    fence."""

    section_begin = ("<｜tool▁calls▁begin｜>",)
    section_ends = ("<｜tool▁calls▁end｜>",)
    call_begins = ("<｜tool▁call▁begin｜>",)
    call_end = "<｜tool▁call▁end｜>"
    arguments_begin = "<｜tool▁sep｜>"
    fenced_header = "function"

    openers = (*section_begin, *call_begins)
    removed_markers = (*section_ends, call_end, arguments_begin)

    def name(self, header: str) -> tuple[str, str | None]:
        return header, None


def _fenced_name(text: MarkupReader) -> Reading[str]:
    """Returns the tool's name before a Markdown fence. Returns "" if there is no fence, because DeepSeek V3.1 calls a
    tool that has the name "function"."""
    pieces: list[str] = []
    name: list[str] = []
    yield from text.span(NOT_SPACE, pieces.append)
    yield from text.span(_NO_NAME, name.append)
    pieces += name
    yield from text.span(NOT_SPACE, pieces.append)
    fence = yield from text.expect(markers("```json"))
    if not fence or not name:
        text.put_back("".join(pieces) + fence)
    return "".join(name).strip() if fence else ""


_NO_NAME = re.compile(r"[\n`{<]")
