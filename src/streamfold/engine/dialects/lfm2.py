"""LFM2 and LFM2.5: Python calls, or JSON, between two marks. Python is read by its literals (`python_literals.py`)."""

from __future__ import annotations

from .grammar import SPACES, Shape, either, lit, opt, run
from .json_calls import read_calls
from .python_literals import Broken, CutOff, Python
from .reader import Family, Reader, Verdict
from .scanner import Reading

_BEGIN, END = "<|tool_call_start|>", "<|tool_call_end|>"
_NAME = run(r"[^\W\d]|(?<=[\w.])[\w.]", "name", least=1)
_OPENING = Shape(
    SPACES, opt(lit("[", name="list"), SPACES), either((lit("{", name="json"),), (_NAME, SPACES, lit("(")))
)
_END = Shape(SPACES, lit(END))


class LFM2(Family):
    """A list of calls, a single one, or an array of objects."""

    openers = interrupts = boundaries = (_BEGIN,)
    full = {_BEGIN: Shape(SPACES, either((lit("[", "{"),), (_NAME, SPACES, lit("("))))}

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        opening = yield from text.match(_OPENING, take=False)
        if opening is None:
            return text.unfinished("a tool call") if text.cut else Verdict.DECLINED
        if opening["json"]:
            verdict, _ = yield from read_calls(text, END, ("arguments", "parameters"))
            return verdict or Verdict.TEXT
        yield from text.take(opening.start("name") - opening.start())
        calls: list[tuple[str, str]] = []
        unfinished = False
        try:
            if opening["list"]:
                yield from Python.calls(text, calls)
            else:
                calls.append((yield from Python.call(text)))
        except CutOff:
            unfinished = True
        except Broken:
            name = opening["name"]
            return (yield from text.broken(marker, END, name if name in self.tools else ""))
        for name, arguments in calls:
            text.call(name, arguments)
        if unfinished:
            return text.unfinished("a list of tool calls")
        yield from text.match(_END)
        return Verdict.TAKEN
