"""Qwen3-Coder, Seed and GLM: the name and each argument between tags, values as they are, nothing escaped.

What the values are the tags don't say: the declared schema does (`typed.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from .literals import python_literal
from .reader import Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, markers
from .shapes import SPACES, Shape, lit, run
from .typed import declared_types, joined, member, typed

_BEGIN, _END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


class _Tagged(Family):
    def arguments(self, name: str, values: Mapping[str, str]) -> str:
        """The arguments as a JSON object."""
        schema = self.tools.get(name, {})
        return joined((key, self.value(text, member(schema, key, schema), schema)) for key, text in values.items())

    def value(self, text: str, schema: object, root: Mapping[str, object]) -> str:
        """One of them as JSON."""
        return typed(text, schema, root)


class Qwen3Coder(_Tagged):
    """Qwen3-Coder and Qwen3.5: `<function=NAME>` with `<parameter=KEY>` in it; the tag around it may be missing."""

    begin: ClassVar[str] = _BEGIN
    end: ClassVar[str] = _END
    openers = (_BEGIN, _FUNCTION)
    followers = (_END,)

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        if marker == self.end:
            text.event()
            return Verdict.TAKEN
        if marker == self.begin:
            yield from text.span(NOT_SPACE, drop)
            if not (yield from text.expect(markers(_FUNCTION))):
                return text.unfinished("a tool call") if self.full and text.broke_off() else Verdict.DECLINED
        name = yield from _up_to_bracket(text)
        if not name:
            return text.unfinished("a tool call") if text.at_end() else Verdict.DECLINED
        values: dict[str, str] = {}
        yield from text.span(NOT_SPACE, drop)
        tag = yield from text.expect(markers(_PARAMETER, _FUNCTION_END, self.end))
        while tag == _PARAMETER:
            key = yield from _up_to_bracket(text)
            if not key:
                return text.unfinished("a tool call") if text.at_end() else Verdict.TEXT
            pieces: list[str] = []
            tag = yield from text.until(_VALUE_ENDS, pieces.append)
            values[key] = "".join(pieces).removeprefix("\n").removesuffix("\n")
            if tag == _PARAMETER_END:
                yield from text.span(NOT_SPACE, drop)
                tag = yield from text.expect(markers(_PARAMETER, _FUNCTION_END, self.end))
        if tag:
            return text.call(name, self.arguments(name, values))
        return text.unfinished("a tool call") if text.broke_off() else Verdict.TEXT


class Seed(Qwen3Coder):
    """Seed-OSS: Qwen3-Coder's tags within one of its own. Its template prints lists and objects as Python does."""

    begin, end = "<seed:tool_call>", "</seed:tool_call>"
    openers = (begin, _FUNCTION)
    followers = (end,)
    interrupts = boundaries = (begin,)
    full = {
        begin: Shape(
            SPACES,
            lit(_FUNCTION),
            run(r"[^<>\n]", least=1),
            lit(">"),
            SPACES,
            lit(_PARAMETER, _FUNCTION_END, end),
        )
    }
    think = {"<seed:think>": "</seed:think>"}

    def value(self, text: str, schema: object, root: Mapping[str, object]) -> str:
        found = typed(text, schema, root)
        types = declared_types(schema, root)
        if found.startswith('"') and types and "string" not in types:
            literal = python_literal(text.strip())
            if (literal[:1] == "[" and "array" in types) or (literal[:1] == "{" and "object" in types):
                return literal
        return found


class GLM(_Tagged):
    """GLM-4.5 and later: `<tool_call>NAME`, then pairs of `<arg_key>` and `<arg_value>`."""

    openers = (_BEGIN,)

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        yield from text.span(NOT_SPACE, drop)
        if text.at_end():
            return Verdict.DECLINED
        pieces: list[str] = []
        yield from text.span(_NO_NAME, pieces.append)
        name = "".join(pieces)
        yield from text.span(NOT_SPACE, drop)
        tag = yield from text.expect(_IN_CALL)
        if not name or not (tag or text.broke_off()):
            return Verdict.DECLINED
        values: dict[str, str] = {}
        while tag == _KEY:
            keys: list[str] = []
            found: list[str] = []
            yield from text.until(markers(_KEY_END), keys.append)
            yield from text.span(NOT_SPACE, drop)
            tag = yield from text.expect(markers(_VALUE))
            if tag and (yield from text.until(markers(_VALUE_END), found.append)):
                values["".join(keys).strip()] = "".join(found)
                yield from text.span(NOT_SPACE, drop)
                tag = yield from text.expect(_IN_CALL)
        if tag == _END:
            return text.call(name, self.arguments(name, values))
        return text.unfinished("a tool call") if text.broke_off() else Verdict.TEXT


_VALUE_ENDS = markers(_PARAMETER_END, _PARAMETER, _FUNCTION_END)
_IN_CALL = markers(_KEY, _END)
_NO_NAME = re.compile(r"[^\w.\-]")
_BRACKET = re.compile(r"[<>\n]")


def _up_to_bracket(text: Reader) -> Reading[str]:
    """A name and the bracket behind it; "" if there is no name, or no bracket."""
    pieces: list[str] = []
    yield from text.span(_BRACKET, pieces.append)
    return "".join(pieces).strip() if (yield from text.expect(markers(">"))) else ""
