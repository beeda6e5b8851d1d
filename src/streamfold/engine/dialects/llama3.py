"""Llama 3: the complete message is a JSON object with `name` and `parameters`, or a list of Python function calls.

The reader holds back a JSON object only as long as it can be a tool call, because a response may be JSON too.
streamfold never evaluates Python code.
"""

from __future__ import annotations

from .grammar import SPACES, TokenPattern, literal, repeat
from .json_calls import read_entry
from .python_literals import IncompleteLiteral, InvalidLiteral, python_calls
from .reader import THINK, MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, markers

_TAGS = _PYTHON_TAG, _PYTHON_START = "<|python_tag|>", "<|python_start|>"
_PYTHON_END = "<|python_end|>"


class Llama3(MarkupFormat):
    """Parses JSON objects and Python function calls, at the start of the message or after a tag. Several objects may
    follow each other."""

    openers = _TAGS
    heads = ("{", "[")
    followers = (";", "{", _PYTHON_END)
    think = {}
    closers = tuple(THINK.values())
    listed = False  # what comes behind a list is text

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker == _PYTHON_END:
            text.begin_structure()
            return ReadResult.CONSUMED
        if marker in (*_TAGS, ";"):
            yield from text.span(NOT_SPACE, ignore)
            marker = yield from text.expect(markers("{") if marker == ";" else markers("{", "["))
        if marker == "{" and not self.listed:
            return (yield from self._object(text))
        if marker == "[":
            return (yield from self._python(text))
        return ReadResult.NOT_MINE

    def _object(self, text: MarkupReader) -> Reading[ReadResult]:
        begun = ["{"]
        yield from text.span(NOT_SPACE, begun.append)
        key = yield from text.expect(_KEYS)
        begun.append(key)
        yield from text.span(NOT_SPACE, begun.append)
        if not key or not (yield from text.expect(markers(":"))):
            return ReadResult.NOT_MINE
        value, closed = yield from text.value("".join(begun) + ":")
        if not closed:
            # Servers write the name first; other truncated text was an answer in JSON.
            return text.unfinished("a tool call") if key == '"name"' else ReadResult.PLAIN_TEXT
        try:
            entry = read_entry(value, ("parameters", "arguments"))
        except ValueError:
            return ReadResult.PLAIN_TEXT
        if entry is None or entry.arguments is None:
            return ReadResult.PLAIN_TEXT
        return text.call(entry.name, entry.arguments)

    def _python(self, text: MarkupReader) -> Reading[ReadResult]:
        if not (yield from text.match(_CALL, take=False)):
            return ReadResult.NOT_MINE
        calls: list[tuple[str, str]] = []
        try:
            yield from python_calls(text, calls)
        except IncompleteLiteral:
            return text.unfinished("a list of tool calls")
        except InvalidLiteral:
            return ReadResult.PLAIN_TEXT
        for function, arguments in calls:
            text.call(function, arguments)
        self.listed = True
        return ReadResult.CONSUMED


_KEYS = markers('"name"', '"parameters"', '"arguments"', '"type"')
_CALL = TokenPattern(SPACES, repeat(r"[\w.]", least=1), SPACES, literal("("))
