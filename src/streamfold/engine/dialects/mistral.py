"""Mistral: `[TOOL_CALLS]`, then an array of tool calls (older models), or a name and a JSON object (models since
2025)."""

from __future__ import annotations

import re

from .json_calls import read_entries
from .reader import THINK, MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, markers

_CALL_ID, _ARGS = "[CALL_ID]", "[ARGS]"


class Mistral(MarkupFormat):
    openers = ("[TOOL_CALLS]",)
    think = {**THINK, "[THINK]": "[/THINK]"}  # Magistral, Ministral 3

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        yield from text.span(NOT_SPACE, ignore)
        if not (yield from text.expect(markers("["))):
            return (yield from self._named(text))
        begun = ["["]
        first = yield from text.span(NOT_SPACE, begun.append)
        if first and first not in "{]":
            return ReadResult.NOT_MINE
        return (yield from read_entries(text, ("arguments",), "".join(begun)))

    def _named(self, text: MarkupReader) -> Reading[ReadResult]:
        name: list[str] = []
        call_id: list[str] = []
        yield from text.span(_NO_NAME, name.append)
        part = yield from text.expect(markers(_CALL_ID, _ARGS))
        if part == _CALL_ID:
            yield from text.span(_NO_ID, call_id.append)
            yield from text.expect(markers(_ARGS))
        if not text.cut and (yield from text.span(NOT_SPACE, ignore)) == "{" and name:
            value, closed = yield from text.value(quotes="\"'")
            return text.call("".join(name), value, "".join(call_id)) if closed else text.unfinished("a tool call")
        return text.unfinished("a tool call") if text.is_truncated() else ReadResult.NOT_MINE


_NO_NAME = re.compile(r"[^\w.\-]")
_NO_ID = re.compile(r"\W")
