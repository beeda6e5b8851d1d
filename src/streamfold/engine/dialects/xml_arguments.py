"""Qwen3-Coder, Seed and GLM: the tool's name and the arguments are unescaped text between tags. The declared schema has
the arguments' types."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import ClassVar

from .grammar import SPACES, TokenPattern, literal, one_of, optional, repeat
from .python_literals import python_literal
from .reader import MarkupFormat, MarkupReader, ReadResult
from .scanner import NOT_SPACE, Reading, ignore, markers
from .typed_values import declared_types, json_object, json_string, member, typed_json
from .xml_tags import QUOTED, VALUE, attribute

_BEGIN, _END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_FUNCTION_NAMED, _PARAMETER_NAMED = "<function name=", "<parameter name="
_ATTRIBUTES = TokenPattern(VALUE, optional(SPACES, literal("string="), repeat(r"[^\s>]", "flag")), SPACES, literal(">"))
_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


class _Tagged(MarkupFormat):
    def arguments(self, name: str, values: Mapping[str, str], texts: Collection[str] = ()) -> str:
        """Returns the arguments as a JSON object. `texts` are the names of arguments whose values are always
        strings."""
        schema = self.tools.get(name, {})
        return json_object(
            (key, json_string(text) if key in texts else self.value(text, member(schema, key, schema), schema))
            for key, text in values.items()
        )

    def value(self, text: str, schema: object, root: Mapping[str, object]) -> str:
        return typed_json(text, schema, root)


class Qwen3Coder(_Tagged):
    """Qwen3-Coder and Qwen3.5: `<function=NAME>` with `<parameter=KEY>` inside. The outer tag may be missing."""

    begin: ClassVar[str] = _BEGIN
    end: ClassVar[str] = _END
    openers = (_BEGIN, _FUNCTION)
    followers = (_END,)

    def unwrapped(self, text: str) -> str:
        """Removes the line feeds that the chat template adds before and after a value."""
        return text.removeprefix("\n").removesuffix("\n")

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        if marker == self.end:
            text.begin_structure()
            return ReadResult.CONSUMED
        if marker == self.begin:
            yield from text.span(NOT_SPACE, ignore)
            functions = markers(_FUNCTION, _FUNCTION_NAMED) if self.required_after else markers(_FUNCTION)
            marker = yield from text.expect(functions)
            if not marker:
                is_cut = self.required_after and text.is_truncated()
                return text.unfinished("a tool call") if is_cut else ReadResult.NOT_MINE
        name, _ = yield from _header(text, marker)
        if not name:
            return text.unfinished("a tool call") if text.at_end() else ReadResult.NOT_MINE
        values: dict[str, str] = {}
        texts: set[str] = set()
        inside = markers(_PARAMETER_NAMED if marker == _FUNCTION_NAMED else _PARAMETER, _FUNCTION_END, self.end)
        yield from text.span(NOT_SPACE, ignore)
        tag = yield from text.expect(inside)
        while tag in (_PARAMETER, _PARAMETER_NAMED):
            key, is_text = yield from _header(text, tag)
            if not key:
                return text.unfinished("a tool call") if text.at_end() else ReadResult.PLAIN_TEXT
            pieces: list[str] = []
            tag = yield from text.until(markers(_PARAMETER_END, tag, _FUNCTION_END), pieces.append)
            values[key] = self.unwrapped("".join(pieces))
            if is_text:
                texts.add(key)
            if tag == _PARAMETER_END:
                yield from text.span(NOT_SPACE, ignore)
                tag = yield from text.expect(inside)
        if tag:
            return text.call(name, self.arguments(name, values, texts))
        return text.unfinished("a tool call") if text.is_truncated() else ReadResult.PLAIN_TEXT


class Seed(Qwen3Coder):
    """Seed-OSS: Qwen3-Coder's tags inside Seed's tags. The chat template formats lists and objects in Python's syntax.

    Some models put a line feed before and after a value, as Qwen's models do. The parser removes this pair, but keeps a
    single line feed. Doubao Seed 2 writes attributes, `<function name="NAME"><parameter name="KEY" string="true">`
    (https://github.com/sipeed/picoclaw/issues/3153).
    """

    begin, end = "<seed:tool_call>", "</seed:tool_call>"
    openers = (begin, _FUNCTION)
    followers = (end,)
    end_reasoning = always_end_reasoning = (begin,)
    required_after = {
        begin: TokenPattern(
            SPACES,
            one_of(
                (literal(_FUNCTION), repeat(r"[^<>\n]", least=1), literal(">")), (literal(_FUNCTION_NAMED), *QUOTED)
            ),
            SPACES,
            literal(_PARAMETER, _PARAMETER_NAMED, _FUNCTION_END, end),
        )
    }
    think = {"<seed:think>": "</seed:think>"}

    def unwrapped(self, text: str) -> str:
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "\n" else text

    def value(self, text: str, schema: object, root: Mapping[str, object]) -> str:
        found = typed_json(text, schema, root)
        types = declared_types(schema, root)
        if found.startswith('"') and types and "string" not in types:
            literal = python_literal(text.strip())
            if (literal[:1] == "[" and "array" in types) or (literal[:1] == "{" and "object" in types):
                return literal
        return found


class GLM(_Tagged):
    """GLM-4.5 and later: `<tool_call>NAME`, then pairs of `<arg_key>` and `<arg_value>`."""

    openers = (_BEGIN,)

    def read(self, text: MarkupReader, marker: str) -> Reading[ReadResult]:
        yield from text.span(NOT_SPACE, ignore)
        if text.at_end():
            return ReadResult.NOT_MINE
        pieces: list[str] = []
        yield from text.span(_NO_NAME, pieces.append)
        name = "".join(pieces)
        yield from text.span(NOT_SPACE, ignore)
        tag = yield from text.expect(_IN_CALL)
        if not name or not (tag or text.is_truncated()):
            return ReadResult.NOT_MINE
        values: dict[str, str] = {}
        while tag == _KEY:
            keys: list[str] = []
            found: list[str] = []
            yield from text.until(markers(_KEY_END), keys.append)
            yield from text.span(NOT_SPACE, ignore)
            tag = yield from text.expect(markers(_VALUE))
            if tag and (yield from text.until(markers(_VALUE_END), found.append)):
                values["".join(keys).strip()] = "".join(found)
                yield from text.span(NOT_SPACE, ignore)
                tag = yield from text.expect(_IN_CALL)
        if tag == _END:
            return text.call(name, self.arguments(name, values))
        return text.unfinished("a tool call") if text.is_truncated() else ReadResult.PLAIN_TEXT


_IN_CALL = markers(_KEY, _END)
_NO_NAME = re.compile(r"[^\w.\-]")
_BRACKET = re.compile(r"[<>\n]")


def _header(text: MarkupReader, tag: str) -> Reading[tuple[str, bool]]:
    if tag not in (_FUNCTION_NAMED, _PARAMETER_NAMED):
        pieces: list[str] = []
        yield from text.span(_BRACKET, pieces.append)
        closed = yield from text.expect(markers(">"))
        return "".join(pieces).strip() if closed else "", False
    found = yield from text.match(_ATTRIBUTES)
    if found is None:
        return "", False
    return attribute(found), (found["flag"] or "").strip("\"'") == "true"
