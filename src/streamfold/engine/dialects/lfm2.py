"""LFM2 and LFM2.5: Python function calls (`python_literals.py`) or JSON between two markers."""

from __future__ import annotations

from .grammar import SPACES, TokenPattern, literal, one_of, optional, repeat
from .json_calls import read_calls
from .python_literals import IncompleteLiteral, InvalidLiteral, python_call, python_calls
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import Reading

_BEGIN, END = "<|tool_call_start|>", "<|tool_call_end|>"
_NAME = repeat(r"[^\W\d]|(?<=[\w.])[\w.]", "name", least=1)
_OPENING = TokenPattern(
    SPACES,
    optional(literal("[", name="list"), SPACES),
    one_of((literal("{", name="json"),), (_NAME, SPACES, literal("("))),
)
_END = TokenPattern(SPACES, literal(END))


class LFM2(MarkupFormat):
    openers = end_reasoning = always_end_reasoning = (_BEGIN,)
    required_after = {_BEGIN: TokenPattern(SPACES, one_of((literal("[", "{"),), (_NAME, SPACES, literal("("))))}

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        opening = yield from text.match(_OPENING, take=False)
        if opening is None:
            return text.unfinished("a tool call") if text.cut else ReadResult.NOT_MINE
        if opening["json"]:
            result, _ = yield from read_calls(text, END, ("arguments", "parameters"))
            return result or ReadResult.PLAIN_TEXT
        yield from text.take(opening.start("name") - opening.start())
        calls: list[tuple[str, str]] = []
        unfinished = False
        try:
            if opening["list"]:
                yield from python_calls(text, calls)
            else:
                calls.append((yield from python_call(text)))
        except IncompleteLiteral:
            unfinished = True
        except InvalidLiteral:
            name = opening["name"]
            return (yield from text.broken(marker, END, name if name in self.tools else ""))
        for name, arguments in calls:
            text.call(name, arguments)
        if unfinished:
            return text.unfinished("a list of tool calls")
        yield from text.match(_END)
        return ReadResult.CONSUMED
