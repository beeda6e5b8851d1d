"""Qwen3-Coder and GLM: the name and each argument between tags, values as they are, nothing escaped.

What the values are the tags don't say: the declared schema does. A text that says what it is by its looks alone ("3")
stays a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...text import parse_object
from .dialect import DialectContext
from .reader import Family, Reader, Verdict
from .scanner import NOT_SPACE, Reading, drop, markers

__all__ = ["GLM", "Qwen3Coder"]

BEGIN, END = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"
KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


class _Tagged(Family):
    def __init__(self, context: DialectContext) -> None:
        super().__init__(context)
        self._schemas = {tool.name: tool.parameters for tool in context.tools}

    def arguments(self, name: str, values: Mapping[str, str]) -> str:
        """The arguments as a JSON object."""
        schema = self._schemas.get(name, {})
        members = (f"{_quoted(key)}: {_typed(text, schema, key)}" for key, text in values.items())
        return "{" + ", ".join(members) + "}"


class Qwen3Coder(_Tagged):
    """Qwen3-Coder and Qwen3.5: `<function=NAME>` with `<parameter=KEY>` in it; the tag around it may be missing."""

    openers = (BEGIN, FUNCTION)
    followers = (END,)

    def read(self, text: Reader, marker: str) -> Reading[Verdict]:
        if marker == END:
            text.event()
            return Verdict.TAKEN
        if marker == BEGIN:
            yield from text.span(NOT_SPACE, drop)
            if not (yield from text.expect(markers(FUNCTION))):
                return Verdict.DECLINED
        name = yield from _up_to_bracket(text)
        if not name:
            return text.unfinished("a tool call") if text.at_end() else Verdict.DECLINED
        values: dict[str, str] = {}
        yield from text.span(NOT_SPACE, drop)
        tag = yield from text.expect(_IN_FUNCTION)
        while tag == PARAMETER:
            key = yield from _up_to_bracket(text)
            if not key:
                return text.unfinished("a tool call") if text.at_end() else Verdict.TEXT
            pieces: list[str] = []
            tag = yield from text.until(_VALUE_ENDS, pieces.append)
            values[key] = "".join(pieces).removeprefix("\n").removesuffix("\n")
            if tag == PARAMETER_END:
                yield from text.span(NOT_SPACE, drop)
                tag = yield from text.expect(_IN_FUNCTION)
        if tag:
            return text.call(name, self.arguments(name, values))
        return text.unfinished("a tool call") if text.broke_off() else Verdict.TEXT


class GLM(_Tagged):
    """GLM-4.5 and later: `<tool_call>NAME`, then pairs of `<arg_key>` and `<arg_value>`."""

    openers = (BEGIN,)

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
        while tag == KEY:
            keys: list[str] = []
            found: list[str] = []
            yield from text.until(markers(KEY_END), keys.append)
            yield from text.span(NOT_SPACE, drop)
            tag = yield from text.expect(markers(VALUE))
            if tag and (yield from text.until(markers(VALUE_END), found.append)):
                values["".join(keys).strip()] = "".join(found)
                yield from text.span(NOT_SPACE, drop)
                tag = yield from text.expect(_IN_CALL)
        if tag == END:
            return text.call(name, self.arguments(name, values))
        return text.unfinished("a tool call") if text.broke_off() else Verdict.TEXT


_IN_FUNCTION = markers(PARAMETER, FUNCTION_END, END)
_VALUE_ENDS = markers(PARAMETER_END, PARAMETER, FUNCTION_END)
_IN_CALL = markers(KEY, END)
_NO_NAME = re.compile(r"[^\w.\-]")
_BRACKET = re.compile(r"[<>\n]")


def _up_to_bracket(text: Reader) -> Reading[str]:
    """A name and the bracket behind it; "" if there is no name, or no bracket."""
    pieces: list[str] = []
    yield from text.span(_BRACKET, pieces.append)
    return "".join(pieces).strip() if (yield from text.expect(markers(">"))) else ""


def _typed(text: str, schema: Mapping[str, Any], key: str) -> str:
    """A value as JSON: itself if it is JSON of a declared type, else a string."""
    properties = schema.get("properties")
    declared = _types(properties.get(key) if isinstance(properties, Mapping) else None, schema)
    if declared and "string" not in declared:
        plain = text.strip()
        if plain in ("True", "False"):  # Python's spelling, which Qwen writes as often as JSON's
            plain = plain.lower()
        try:
            value = parse_object(plain)
        except ValueError:
            value = ""
        if _type(value) in declared or (_type(value) == "integer" and "number" in declared):
            return plain
    return _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "string")


def _types(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The types that a schema allows; none if it does not say, or not in a way that is understood here."""
    if not isinstance(schema, Mapping) or depth > 8:
        return set()
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    if isinstance(reference := schema.get("$ref"), str):
        definitions = root.get("$defs")
        name = reference.removeprefix("#/$defs/")
        return _types(definitions.get(name) if isinstance(definitions, Mapping) else None, root, depth + 1)
    found: set[str] = set()
    for option in [*_list(schema, "anyOf"), *_list(schema, "oneOf"), *_list(schema, "allOf")]:
        types = _types(option, root, depth + 1)
        if not types:
            return set()
        found |= types
    return found


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
