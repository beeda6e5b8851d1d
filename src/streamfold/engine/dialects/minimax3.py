"""MiniMax M3: arguments are nested elements whose tags begin with a special token.

An element is a list if all its children are called `item`, unless the tool's schema declares another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .grammar import SPACES, TokenPattern, literal, repeat
from .reader import MarkupReader
from .scanner import Reading, ignore, markers
from .text_sections import Sections
from .typed_values import declared_types, items, json_object, member, typed_json
from .xml_tags import QUOTED, attribute

MARK = "]<]minimax[>["
_INVOKE, _SECTION_END = "<invoke name=", "</tool_call>"
_DEEPEST = 64  # elements in elements


@dataclass(slots=True)
class _Element:
    """An element whose closing tag hasn't been parsed yet, with its text, and its closed children as JSON text."""

    name: str
    schema: Any
    text: list[str] = field(default_factory=list)
    children: list[tuple[str, str]] = field(default_factory=list)

    def closed_by(self, name: str) -> bool:
        """Returns whether a closing tag may end the element. Only the outermost element may mix text and elements."""
        blank = self.name == "invoke" or not self.children or not "".join(self.text).strip()
        return name == self.name and blank

    def schema_of(self, name: str, root: Mapping[str, Any]) -> Any:
        types = declared_types(self.schema, root)
        if "array" in types or (not types and name == "item"):
            return items(self.schema, root)
        return member(self.schema, name, root)

    def value(self, root: Mapping[str, Any]) -> str:
        types, text = declared_types(self.schema, root), "".join(self.text)
        is_list = "array" in types
        if not self.children:
            if types & {"array", "object"} and not text.strip():
                return "[]" if is_list else "{}"
            return typed_json(text, self.schema, root)
        if is_list or (not types and all(name == "item" for name, _ in self.children)):
            return f"[{', '.join(value for _, value in self.children)}]"
        return self.object()

    def object(self) -> str:
        found: dict[str, list[str]] = {}
        for name, value in self.children:
            found.setdefault(name, []).append(value)
        return json_object((name, f"[{', '.join(some)}]" if len(some) > 1 else some[0]) for name, some in found.items())


class MiniMax3(Sections):
    """Tool calls in a section. White space may follow each marker."""

    call_begins = (_INVOKE,)
    section_ends = (_SECTION_END,)
    opening = TokenPattern(SPACES, literal("<tool_call>"))
    divided = True

    openers = end_reasoning = always_end_reasoning = (MARK,)
    required_after = {MARK: opening}
    think = {"<mm:think>": "</mm:think>"}

    def mark(self, text: MarkupReader) -> Reading[str]:
        while (yield from text.until(_MARK, ignore)):
            if found := (yield from text.match(_IN_SECTION)):
                return found["tag"]
            if text.cut:
                return ""
        return ""

    def call(self, text: MarkupReader, marker: str, *, alone: bool) -> Reading[str | None]:
        header = yield from text.match(_HEADER)
        if header is None:
            return None
        name = attribute(header)
        arguments, end = yield from _arguments(text, self.tools.get(name, {}))
        if end:
            text.call(name, arguments)
        else:
            text.unfinished("a tool call")
        return end


def _arguments(text: MarkupReader, root: Mapping[str, Any]) -> Reading[tuple[str, str]]:
    raw: list[str] = []
    stack = [_Element("invoke", root)]

    def keep(piece: str) -> None:
        raw.append(piece)
        stack[-1].text.append(piece)

    while (yield from text.until(_MARK, keep)):
        tag = yield from text.match(_TAG)
        if tag is None and text.cut:
            break
        closes = tag is not None and bool(tag["slash"])
        name = tag["name"].strip() if tag else ""
        element = stack[-1]
        if not tag or len(stack) > _DEEPEST or (closes and not element.closed_by(name)):
            if closes and name in ("invoke", "tool_call"):
                return "".join(raw), f"</{name}>"
            raw += [MARK, tag.group() if tag else ""]
            return (yield from _skip(text, raw))
        raw += [MARK, tag.group()]
        if not closes:
            stack.append(_Element(name, element.schema_of(name, root)))
            continue
        stack.pop()
        if not stack:
            return element.object(), "</invoke>"
        stack[-1].children.append((name, element.value(root)))
    return "", ""


def _skip(text: MarkupReader, raw: list[str]) -> Reading[tuple[str, str]]:
    while (yield from text.until(_MARK, raw.append)):
        if end := (yield from text.match(_END)):
            return "".join(raw), end["tag"]
        raw.append(MARK)
    return "", ""


_MARK = markers(MARK)
_IN_SECTION = TokenPattern(SPACES, literal(_INVOKE, _SECTION_END, name="tag"))
_END = TokenPattern(SPACES, literal("</invoke>", _SECTION_END, name="tag"))
_HEADER = TokenPattern(*QUOTED)
_TAG = TokenPattern(SPACES, literal("<"), repeat("/", "slash"), repeat("[^<>]", "name"), literal(">"))
