"""Llama 3: the whole message is a JSON object with `name` and `parameters`, or a list of Python calls.

An answer may be JSON as well, and a user waits for it. So an object is held back only as long as it can be a call: as
its first key is one of a call's. Python is read by its literals. Nothing is ever evaluated.
"""

from __future__ import annotations

from .grammar import SPACES, Shape, lit, run
from .json_calls import read_entry
from .python_literals import Broken, CutOff, Python
from .reader import THINK, Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, markers

_TAGS = _PYTHON_TAG, _PYTHON_START = "<|python_tag|>", "<|python_start|>"
_PYTHON_END = "<|python_end|>"


class Llama3(Family):
    """Both forms, at the head of the message, or behind a tag anywhere.

    Objects may follow an object, with a semicolon or white space between.
    """

    openers = _TAGS
    heads = ("{", "[")
    followers = (";", "{", _PYTHON_END)
    think = {}
    closers = tuple(THINK.values())
    listed = False  # what comes behind a list is text

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        if marker == _PYTHON_END:
            text.event()
            return Verdict.TAKEN
        if marker in (*_TAGS, ";"):
            yield from text.span(NOT_SPACE, drop)
            marker = yield from text.expect(markers("{") if marker == ";" else markers("{", "["))
        if marker == "{" and not self.listed:
            return (yield from self._object(text))
        if marker == "[":
            return (yield from self._python(text))
        return Verdict.DECLINED

    def _object(self, text: Reader) -> Reading[Verdict]:
        begun = ["{"]
        yield from text.span(NOT_SPACE, begun.append)
        key = yield from text.expect(_KEYS)
        begun.append(key)
        yield from text.span(NOT_SPACE, begun.append)
        if not key or not (yield from text.expect(markers(":"))):
            return Verdict.DECLINED
        value, closed = yield from text.value("".join(begun) + ":")
        if not closed:
            # Servers write the name first; anything else that is cut off was an answer in JSON.
            return text.unfinished("a tool call") if key == '"name"' else Verdict.TEXT
        try:
            entry = read_entry(value, ("parameters", "arguments"))
        except ValueError:
            return Verdict.TEXT
        if entry is None or entry.arguments is None:
            return Verdict.TEXT
        return text.call(entry.name, entry.arguments)

    def _python(self, text: Reader) -> Reading[Verdict]:
        if not (yield from text.match(_CALL, take=False)):
            return Verdict.DECLINED
        calls: list[tuple[str, str]] = []
        try:
            yield from Python.calls(text, calls)
        except CutOff:
            return text.unfinished("a list of tool calls")
        except Broken:
            return Verdict.TEXT
        for function, arguments in calls:
            text.call(function, arguments)
        self.listed = True
        return Verdict.TAKEN


_KEYS = markers('"name"', '"parameters"', '"arguments"', '"type"')
_CALL = Shape(SPACES, run(r"[\w.]", least=1), SPACES, lit("("))
