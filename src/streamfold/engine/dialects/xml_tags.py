"""DSML, Kimi3 and MiniMax: tool calls with a tag for each argument, in a section (`text_sections.py`).

DSML      DeepSeek V3.2, V4     `string="true"` in the tag marks a string
Kimi3     Kimi K3               `type="..."` in the tag is the type
MiniMax   MiniMax M2            the declared schema has the type
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from .grammar import SPACES, TokenPattern, literal, one_of, optional, repeat
from .reader import MarkupReader
from .scanner import NOT_SPACE, Reading, ignore, markers
from .text_sections import Sections
from .typed_values import json_object, json_or_text, json_string, member, typed_json


class _Tags(Sections):
    """A format in which each argument has its own tag.

    Attributes:
        header: the pattern after the first marker of a tool call.
        keys: the markers that open an argument, with their closing markers. The pattern `key` matches the text after
            the opening marker.
        value_ends: additional markers that end an argument.
        wholes: the markers of `keys` that open one JSON object with all arguments, instead of a single argument.
        bodies: true if a JSON object may replace the arguments' tags.
        declared_alone: true if text outside of a section is a tool call only if the tool is declared.
    """

    header: ClassVar[TokenPattern]
    call_ends: ClassVar[tuple[str, ...]]
    keys: ClassVar[Mapping[str, tuple[str, ...]]]
    key: ClassVar[TokenPattern]
    value_ends: ClassVar[tuple[str, ...]]
    wholes: ClassVar[tuple[str, ...]] = ()
    bodies: ClassVar[bool] = False
    declared_alone: ClassVar[bool] = False

    def name(self, header: re.Match[str]) -> str:
        return attribute(header)

    @abstractmethod
    def value(self, text: str, key: re.Match[str], schema: Mapping[str, Any]) -> tuple[str | None, str]:
        """Returns the name of an argument, or None if it is missing, and the argument's value as JSON text."""

    def call(self, text: MarkupReader, marker: str, *, alone: bool) -> Reading[str | None]:
        header = yield from text.match(self.header)
        if header is None or (alone and self.declared_alone and self.name(header) not in self.tools):
            return None
        text.begin_structure()
        name, ends = self.name(header), self.call_ends + self.section_ends
        arguments: str | None = ""
        end = self.call_ends[0]
        if not header.group().endswith("/>"):
            if self.bodies and (yield from text.span(NOT_SPACE, ignore)) == "{":
                arguments, end = yield from text.body(markers(*ends))
            else:
                arguments, end = yield from self._arguments(text, self.tools.get(name, {}))
        if not end:
            text.unfinished("a tool call")
        elif name and arguments is not None:
            text.call(name, arguments)
        else:
            what = (
                f"a call of {name!r}, because the tag of an argument can't be read" if name else "a call without a name"
            )
            text.dropped(what)
            text.begin_structure()
        return end

    def _arguments(self, text: MarkupReader, schema: Mapping[str, Any]) -> Reading[tuple[str | None, str]]:
        inside = markers(*self.keys, *self.call_ends, *self.section_ends, *self.call_begins)
        values: dict[str | None, str] = {}
        body, readable = "", True
        tag = yield from text.until(inside, ignore)
        while closers := self.keys.get(tag):
            begin = tag
            key = yield from text.match(self.key)
            if key is None:
                readable = False
            else:
                pieces: list[str] = []
                tag = yield from text.until(markers(*closers, *self.value_ends), pieces.append)
                if begin in self.wholes:
                    body = "".join(pieces)
                else:
                    name, value = self.value("".join(pieces), key, schema)
                    values[name] = value
            if key is None or tag in closers:
                tag = yield from text.until(inside, ignore)
        if not readable:
            return None, tag
        return body or json_object((name, value) for name, value in values.items() if name is not None), tag


def attribute(header: re.Match[str]) -> str:
    found = header.groupdict()
    return next(
        (found[name] for name in ("double", "single", "bare", "name") if found.get(name) is not None), ""
    ).strip()


VALUE = one_of(
    (literal('"'), repeat(r'[^"\n]', "double"), literal('"')),
    (literal("'"), repeat(r"[^'\n]", "single"), literal("'")),
    (repeat(r"""[^\s"'<>]""", "bare", least=1),),
)
_NAMED = SPACES, literal("name="), VALUE
QUOTED = VALUE, SPACES, literal(">")

_DSML_MARK = "｜DSML｜"
_SECTIONS = ("function_calls", "tool_calls", " calls", "calls", "toolcalls", "tool")


def _dsml(*tags: str) -> tuple[str, ...]:
    return tuple(tag.replace("@", _DSML_MARK + blank) for tag in tags for blank in ("", " "))


class DSML(_Tags):
    """DeepSeek V3.2, V4 and V4.1."""

    section_begins = tuple(f"<{_DSML_MARK}{word}>" for word in _SECTIONS)
    section_ends = tuple(f"</{_DSML_MARK}{word}>" for word in _SECTIONS)
    call_begins = _dsml("<@invoke ", "<@invoke\n")
    call_ends = _dsml("</@invoke>")
    header = TokenPattern(*_NAMED, SPACES, literal("/>", ">"))
    keys = dict.fromkeys(_dsml("<@parameter ", "<@parameter\n"), _dsml("</@parameter>"))
    key = TokenPattern(*_NAMED, optional(SPACES, literal("string="), repeat(r"[^\s>]", "flag")), SPACES, literal(">"))
    value_ends = (*keys, *call_ends, *section_ends)
    bodies = True

    openers = (*section_begins, *call_begins)
    end_reasoning = always_end_reasoning = section_begins

    def value(self, text: str, key: re.Match[str], schema: Mapping[str, Any]) -> tuple[str, str]:
        name, flag = attribute(key), key["flag"]
        declared = member(schema, name, schema)
        if flag and flag.strip("\"'") == "true":
            return name, json_string(text)
        return name, typed_json(text, declared, schema) if flag is None and declared else json_or_text(text)


_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"


def _closed(tag: str) -> str:
    return f"{_CLOSE}{tag}{_SEP}"


class Kimi3(_Tags):
    """Kimi K3. Reasoning and text are in channels. The channels' markers are never text."""

    section_begins = (f"{_OPEN}tools{_SEP}",)
    section_ends = (_closed("tools"), _closed("message"))
    call_begins = (f"{_OPEN}call",)
    call_ends = (_closed("call"),)
    header = key = TokenPattern(
        optional(repeat(r"\s", least=1), repeat(r"[^<]|<(?!\|sep\|>)", "attributes")), literal(_SEP)
    )
    keys = {f"{_OPEN}argument": (_closed("argument"),), f"{_OPEN}json": (_closed("json"),)}
    value_ends = call_ends
    wholes = (f"{_OPEN}json",)

    openers = (*section_begins, *call_begins)
    removed_markers = (_closed("tools"),)
    message_markers = (f"{_OPEN}response{_SEP}", _closed("response"), _closed("message"), "<|end_of_msg|>")
    end_reasoning = always_end_reasoning = (*section_begins, *message_markers)
    think = {f"{_OPEN}think{_SEP}": _closed("think")}

    def name(self, header: re.Match[str]) -> str:
        return _attributes(header).get("tool") or (next(iter(self.tools)) if len(self.tools) == 1 else "")

    def value(self, text: str, key: re.Match[str], schema: Mapping[str, Any]) -> tuple[str | None, str]:
        given = _attributes(key)
        return given.get("key"), json_string(text) if given.get("type", "string") == "string" else json_or_text(text)


def _attributes(header: re.Match[str]) -> dict[str, str]:
    """`&quot;` and `&amp;` are the format's only escape sequences."""
    found = _ATTRIBUTE.findall(header["attributes"] or "")
    return {key: (long or short).replace("&quot;", '"').replace("&amp;", "&") for key, long, short in found}


_ATTRIBUTE = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s"<]+))')

_SECTION, _INVOKE, _PARAMETER, _INVOKE_END = "<minimax:tool_call>", "<invoke name=", "<parameter name=", "</invoke>"


class MiniMax(_Tags):
    """MiniMax M2. MiniMax's tags consist of ordinary characters. So the reader treats a section tag as markup only if a
    tool call follows."""

    section_ends = ("</minimax:tool_call>",)
    call_begins = (_INVOKE,)
    call_ends = (_INVOKE_END,)
    header = key = TokenPattern(*QUOTED)
    keys = {_PARAMETER: ("</parameter>",)}
    value_ends = (_PARAMETER, _INVOKE_END)
    opening = TokenPattern(SPACES, literal(_INVOKE), *QUOTED)
    declared_alone = True

    openers = (_SECTION, _INVOKE)
    end_reasoning = always_end_reasoning = (_SECTION,)
    required_after = {_SECTION: TokenPattern(SPACES, literal(_INVOKE))}

    def value(self, text: str, key: re.Match[str], schema: Mapping[str, Any]) -> tuple[str, str]:
        name = attribute(key)
        return name, typed_json(text, member(schema, name, schema), schema)
