"""The texts that the events of a body add up to, each piece with the place where it stands in the bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Leaf", "documents", "leaves"]

_BLOCK_END = re.compile(rb"(?:(?>\r\n|\n|\r)){2,}")
_PAYLOAD = re.compile(rb"(?<![^\r\n])data:[ ]?([^\r\n]*)")
_TELLING = ("type", "item_id", "output_index", "content_index", "index")  # which part of an answer an event is about
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


@dataclass(frozen=True, slots=True)
class Leaf:
    """A string in a JSON document: which texts it is a further piece of, what it says, and where it stands."""

    lane: tuple[Any, ...]
    text: str
    start: int
    end: int


class Document(NamedTuple):
    value: Any
    lines: list[tuple[int, bytes]]


class _Members(list[tuple[str, Any]]):
    """A JSON object as it is written, in its order."""

    def named(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(value for key, value in self if key in names and isinstance(value, str | int))


def documents(body: bytes) -> Iterator[Document]:
    """The JSON documents of a body: of its events, or the body itself."""
    if (whole := _parsed(body)) is not None:
        yield Document(whole, [(0, body)])
        return
    start = 0
    ends = [match.end() for match in _BLOCK_END.finditer(body)]
    for end in [*ends, len(body)]:
        lines = [(found.start(1), found[1]) for found in _PAYLOAD.finditer(body, start, end)]
        if lines and (value := _parsed(b"\n".join(line for _, line in lines))) is not None:
            yield Document(value, lines)
        start = end


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None


def leaves(document: Document) -> list[Leaf]:
    """The strings of a document. Events whose strings continue each other have the same lanes."""
    tokens = [
        (offset + found.start(), offset + found.end())
        for offset, line in document.lines
        for found in _JSON_STRING.finditer(line)
    ]
    top = document.value
    which = top.named(_TELLING) if isinstance(top, _Members) else ()
    strings = list(_strings(top, which))
    if len(strings) != len(tokens):
        return []
    return [Leaf(lane, text, *token) for (lane, text), token in zip(strings, tokens, strict=True) if lane is not None]


def _strings(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...] | None, str]]:
    """The strings as they stand in the text; names of members have no lane."""
    match value:
        case str():
            yield path, value
        case _Members():
            for key, item in value:
                yield None, key
                yield from _strings(item, (*path, key))
        case list():
            for place, item in enumerate(value):
                number = item.named(("index",)) if isinstance(item, _Members) else ()
                yield from _strings(item, (*path, number or place))
