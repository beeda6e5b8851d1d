"""Parses the output of guided decoding, with which servers force a tool call (tool choice `required`, or a named tool).
The output is an array of tool calls, or only the arguments of the named tool.

The output has no markup. So the reader looks for such output only at the start of the message, and holds the output
back until it is complete.
"""

from __future__ import annotations

from ...jsontext import BracketTracker, parse_object
from ...types import NamedTool
from .dialect import DialectContext
from .json_calls import read_entries, read_entry
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import Reading, markers

_KEYS = ("parameters", "arguments")


class GuidedOutput(MarkupFormat):
    heads = ("[", "{")

    def __init__(self, context: DialectContext) -> None:
        super().__init__(context)
        choice = context.tool_choice
        self._named = choice.name if isinstance(choice, NamedTool) else None

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker == "[" or not self._named:
            return (yield from read_entries(text, _KEYS, marker))
        # Text after the arguments of a named tool belongs to them, and makes them invalid.
        pieces = [marker]
        yield from text.until(markers(), pieces.append)
        value = "".join(pieces)
        brackets = BracketTracker()
        brackets.skip(value)
        if brackets.open:
            return text.unfinished("the arguments of the named tool")
        return text.call(self._named, _unwrapped(value.strip(), self._named))


def _unwrapped(text: str, name: str) -> str:
    """Some servers send `{"name": NAME, "parameters": {...}}` even if the request named the tool."""
    try:
        value = parse_object(text)
        entry = read_entry(text, _KEYS)
    except ValueError:
        return text
    inner = [value[key] for key in _KEYS if key in value]
    if not entry or entry.name != name or len(value) != 2 or not inner or not isinstance(inner[0], dict):
        return text
    return entry.arguments or ""
