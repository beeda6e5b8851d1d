"""Tool calls in a section, as Kimi, DeepSeek and MiniMax write them. The reader drops other text in a section.

The model may omit the section's markers around a single tool call, and the section's end marker after a complete tool
call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from .grammar import TokenPattern
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import Reading, ignore, markers


class Sections(MarkupFormat, ABC):
    """A tool call format in which sections contain the tool calls.

    Attributes:
        section_ends: the markers that end a section.
        call_begins: the markers that begin a tool call.
        opening: the text that must follow the marker that begins a section, if the marker alone isn't enough.
        divided: true if the section's marker consists of the opener and `opening`, so that the opener alone doesn't
            begin a section.
    """

    section_ends: ClassVar[tuple[str, ...]] = ()
    call_begins: ClassVar[tuple[str, ...]]
    opening: ClassVar[TokenPattern | None] = None
    divided: ClassVar[bool] = False

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker in self.call_begins:
            return (yield from self._alone(text, marker))
        if self.opening and not (yield from text.match(self.opening, take=False)):
            certain = text.cut and not self.divided
            return text.unfinished("a section of tool calls") if certain else ReadResult.NOT_MINE
        text.begin_structure()
        ended = False
        marker = yield from self.mark(text)
        while marker in self.call_begins:
            end = yield from self.call(text, marker, alone=False)
            if end == "":
                return ReadResult.CONSUMED
            if end is None and text.cut:
                return text.unfinished("a tool call")
            ended = ended or end is not None
            marker = end if end in self.call_begins + self.section_ends else (yield from self.mark(text))
        if not marker and (not ended or text.cut):
            return text.unfinished("a section of tool calls")
        text.begin_structure()
        return ReadResult.CONSUMED

    def _alone(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        end = yield from self.call(text, marker, alone=True)
        if end is None:
            return text.unfinished("a tool call") if text.cut else ReadResult.NOT_MINE
        text.begin_structure()
        if end in self.call_begins + self.section_ends:
            text.put_back(end)
        return ReadResult.CONSUMED

    def mark(self, text: MarkupReader) -> Reading[str]:
        """Drops text up to the next marker of the section. Returns the marker, or "" at the end of the input."""
        return (yield from text.until(markers(*self.call_begins, *self.section_ends), ignore))

    @abstractmethod
    def call(self, text: MarkupReader, marker: str, *, alone: bool) -> Reading[str | None]:
        """Parses a tool call after its first marker.

        Returns the marker that ended the tool call, or "" if the input ended. If the text isn't a tool call, puts the
        text back into the input, and returns None.
        """
