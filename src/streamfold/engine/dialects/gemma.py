"""Gemma 4 and FunctionGemma: `call:NAME{...}` between two marks, values in a notation of its own
(`python_literals.py`)."""

from __future__ import annotations

from typing import ClassVar

from .grammar import SPACES, Shape, lit, opt, run
from .python_literals import Broken, CutOff, Delimited
from .reader import Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, markers

_HEADER = Shape(SPACES, opt(lit("call")), lit(":"), SPACES, run(r"[\w.\-]", "name", least=1), SPACES, lit("{"))


class Gemma4(Family):
    """Gemma 4."""

    begin: ClassVar[str] = "<|tool_call>"
    end: ClassVar[str] = "<tool_call|>"
    quote: ClassVar[str] = '<|"|>'
    openers = interrupts = boundaries = (begin,)
    strays = (end, "<|tool_response>")
    full = {begin: _HEADER}
    think = {"<|channel>": "<channel|>", "<|channel>thought\n": "<channel|>"}
    prompted = {"thought\n": "<channel|>"}

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        header = yield from text.match(_HEADER)
        if header is None:
            return text.unfinished("a tool call") if text.cut else Verdict.DECLINED
        name = header["name"]
        schema = self.tools.get(name, {})
        try:
            arguments = yield from Delimited(self.quote, schema).object(text, schema)
            yield from text.span(NOT_SPACE, drop)
            end = yield from text.expect(markers(self.begin, *self.strays))
            if not end and not text.broke_off():
                raise Broken
        except CutOff:
            return text.unfinished("a tool call")
        except Broken:
            declared = name if name in self.tools else ""
            return (yield from text.broken(marker, self.end, declared, header.group()[:-1]))
        if end == self.begin:
            text.unread(end)
        rest: list[str] = []
        if text.cut:
            yield from text.until(markers(), rest.append)
        text.call(name, arguments)
        # The end may be missing, or cut in two. Any other mark that is cut in two was the beginning of something.
        return Verdict.TAKEN if self.end.startswith("".join(rest)) else text.unfinished("a mark behind a tool call")


class FunctionGemma(Gemma4):
    """FunctionGemma. It does not think."""

    begin, end, quote = "<start_function_call>", "<end_function_call>", "<escape>"
    openers = interrupts = boundaries = (begin,)
    strays = (end, "<start_function_response>")
    full = {begin: _HEADER}
    think = {}
    prompted = {}
