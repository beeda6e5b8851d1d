"""Gemma 4 and FunctionGemma: `call:NAME{...}` between two markers. The values are in Gemma's notation
(`python_literals.py`)."""

from __future__ import annotations

from typing import ClassVar

from .grammar import SPACES, TokenPattern, literal, optional, repeat
from .python_literals import GemmaNotation, IncompleteLiteral, InvalidLiteral
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, markers

_HEADER = TokenPattern(
    SPACES, optional(literal("call")), literal(":"), SPACES, repeat(r"[\w.\-]", "name", least=1), SPACES, literal("{")
)


class Gemma4(MarkupFormat):
    begin: ClassVar[str] = "<|tool_call>"
    end: ClassVar[str] = "<tool_call|>"
    quote: ClassVar[str] = '<|"|>'
    openers = end_reasoning = always_end_reasoning = (begin,)
    removed_markers = (end, "<|tool_response>")
    required_after = {begin: _HEADER}
    think = {"<|channel>": "<channel|>", "<|channel>thought\n": "<channel|>"}
    prompted = {"thought\n": "<channel|>"}

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        header = yield from text.match(_HEADER)
        if header is None:
            return text.unfinished("a tool call") if text.cut else ReadResult.NOT_MINE
        name = header["name"]
        schema = self.tools.get(name, {})
        try:
            arguments = yield from GemmaNotation(self.quote, schema).object(text, schema)
            yield from text.span(NOT_SPACE, ignore)
            end = yield from text.expect(markers(self.begin, *self.removed_markers))
            if not end and not text.is_truncated():
                raise InvalidLiteral
        except IncompleteLiteral:
            return text.unfinished("a tool call")
        except InvalidLiteral:
            declared = name if name in self.tools else ""
            return (yield from text.broken(marker, self.end, declared, header.group()[:-1]))
        if end == self.begin:
            text.put_back(end)
        rest: list[str] = []
        if text.cut:
            yield from text.until(markers(), rest.append)
        text.call(name, arguments)
        # The end may be missing, or split. Any other marker that is split was the beginning of something else.
        return (
            ReadResult.CONSUMED if self.end.startswith("".join(rest)) else text.unfinished("a mark behind a tool call")
        )


class FunctionGemma(Gemma4):
    """FunctionGemma, which has the tool calls of Gemma 4 but no reasoning."""

    begin, end, quote = "<start_function_call>", "<end_function_call>", "<escape>"
    openers = end_reasoning = always_end_reasoning = (begin,)
    removed_markers = (end, "<start_function_response>")
    required_after = {begin: _HEADER}
    think = {}
    prompted = {}
