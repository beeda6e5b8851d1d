"""Hermes, Qwen2.5, Qwen3 and many fine-tunes: a JSON object between `<tool_call>` and `</tool_call>`.

Models quote these tags in their text. So a tag begins a tool call only in front of a JSON object, and never inside
reasoning.
"""

from __future__ import annotations

import re

from .json_calls import EntryDraft, read_entry
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, markers

_BEGIN, _END = "<tool_call>", "</tool_call>"


class Hermes(MarkupFormat):
    openers = (_BEGIN,)
    followers = (_END,)  # some models close a call twice

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker == _END:
            text.begin_structure()
            return ReadResult.CONSUMED
        first = yield from text.span(NOT_SPACE, ignore)
        if not first:
            return text.unfinished("a tool call")
        if first != "{":
            return ReadResult.NOT_MINE
        body, end = yield from text.body(markers(_END, _BEGIN), EntryDraft(text.draft).feed)
        if end == _BEGIN:
            text.put_back(end)
        try:
            entry = read_entry(body)
        except ValueError:
            return self._broken(text, body, end)
        return text.call(entry.name, entry.arguments or "") if entry else ReadResult.PLAIN_TEXT

    def _broken(self, text: MarkupReader, body: str, end: str) -> ReadResult:
        if not end:
            return text.unfinished("a tool call")
        if end == _BEGIN:
            text.dropped(f"an incomplete tool call: {body[:80]!r}")
            text.begin_structure()
            return ReadResult.CONSUMED
        name = _NAME.match(body)
        return text.call(name[1], body) if name and name[1] in self.tools else ReadResult.PLAIN_TEXT


_NAME = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]+)"')
