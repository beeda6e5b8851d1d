"""Runs a tool call parser on each test text, unsplit and split at every position, and collects results that differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Literal, TypeAlias

from .parsers import ParsedCall, ParsedText, PieceParser
from .vectors import Vector

Kind: TypeAlias = Literal["raises", "calls lost", "calls added", "other names", "other arguments", "other text"]
Mode: TypeAlias = Literal["whole", "in pieces"]

# A character, or a special token, which is one token in the vocabularies of these models.
_ATOM = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|<\|\"\|>|<｜[^｜<>]{1,40}｜>|</?(?:minimax:)?tool_call>|</?arg_(?:key|value)>"
    r"|\[(?:TOOL_CALLS|ARGS|CALL_ID)\]|.",
    re.DOTALL,
)
_SIZES = (1, 2, 3, 5, 8, 13)
_RANDOM = 5  # the number of splits into pieces of random size


@dataclass(frozen=True, slots=True)
class Failure:
    """A test text for which a tool call parser returns an incorrect result.

    Attributes:
        mode: "whole": the parser's result for the unsplit text is incorrect. "in pieces": for some splits of the text,
            the parser's result differs from its result for the unsplit text.
        cuts: the number of splits of the text for which the parser's result differs.
        tried: the number of splits that were tried.
        pieces: the split with the fewest pieces for which the result differs.
        wanted, found: descriptions of the expected and the actual result.
    """

    vector: Vector
    mode: Mode
    kind: Kind
    cuts: int
    tried: int
    pieces: tuple[str, ...]
    wanted: str
    found: str


def cuts_of(text: str, *, cut_tokens: bool = False) -> Iterator[tuple[str, ...]]:
    """Yields different splits of a text: unsplit, in two pieces at every position, in pieces of equal size, and in
    pieces of random size.

    Args:
        cut_tokens: true: also split inside special tokens. A real model always emits a special token in one piece.
    """
    atoms = list(text) if cut_tokens else [match[0] for match in _ATOM.finditer(text)]
    yield (text,)
    for at in range(1, len(atoms)):
        yield "".join(atoms[:at]), "".join(atoms[at:])
    for size in _SIZES:
        yield tuple("".join(atoms[at : at + size]) for at in range(0, len(atoms), size))
    for seed in range(_RANDOM):
        rng, pieces, at = Random(seed), [], 0  # noqa: S311 - where to cut is no secret
        while at < len(atoms):
            size = rng.randint(1, 12)
            pieces.append("".join(atoms[at : at + size]))
            at += size
        yield tuple(pieces)


def check_parser(parser: PieceParser, vectors: Iterable[Vector], *, cut_tokens: bool = False) -> list[Failure]:
    """Returns a failure for each test text for which the parser returns an incorrect result.

    The result for a split text must equal the parser's own result for the unsplit text. If the parser raises an
    exception for the unsplit text, the result must equal the expected result of the test text.
    """
    return [failure for vector in vectors for failure in _check(parser, vector, cut_tokens)]


def _check(parser: PieceParser, vector: Vector, cut_tokens: bool) -> Iterator[Failure]:
    wanted = ParsedText(vector.content, tuple(ParsedCall(call.name, _json(call.arguments)) for call in vector.calls))
    tools = vector.declared()
    whole = _tried(partial(parser.whole, vector.text, tools))
    if (kind := _difference(wanted, whole)) is not None:
        yield Failure(vector, "whole", kind, 1, 1, (vector.text,), _words(wanted), _words(whole))
    # Results for split texts are compared with the parser's own result, so that the same bug isn't reported twice.
    expected = wanted if isinstance(whole, Exception) else whole
    found: dict[Kind, list[tuple[tuple[str, ...], ParsedText | Exception]]] = {}
    tried = 0
    for pieces in cuts_of(vector.text, cut_tokens=cut_tokens):
        tried += 1
        given = _tried(partial(parser.pieces, pieces, tools))
        if (kind := _difference(expected, given)) is not None:
            found.setdefault(kind, []).append((pieces, given))
    for kind, cases in found.items():
        pieces, given = min(cases, key=lambda case: len(case[0]))
        yield Failure(vector, "in pieces", kind, len(cases), tried, pieces, _words(expected), _words(given))


def _tried(parse: Callable[[], ParsedText]) -> ParsedText | Exception:
    try:
        return parse()
    except Exception as exc:  # any exception of the tested parser is a finding
        return exc


def _difference(wanted: ParsedText, found: ParsedText | Exception) -> Kind | None:
    """Returns the kind of difference between two parser results; None if both are equal, apart from white space in the
    content.
    """
    if isinstance(found, Exception):
        return "raises"
    if len(found.calls) != len(wanted.calls):
        return "calls lost" if len(found.calls) < len(wanted.calls) else "calls added"
    if [call[0] for call in found.calls] != [call[0] for call in wanted.calls]:
        return "other names"
    if any(_parsed(first[1]) != _parsed(second[1]) for first, second in zip(wanted.calls, found.calls, strict=True)):
        return "other arguments"
    return None if " ".join(found.content.split()) == " ".join(wanted.content.split()) else "other text"


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return ("not JSON", arguments)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _words(result: ParsedText | Exception) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {result}"
    calls = [[name, text if isinstance(_parsed(text), tuple) else _parsed(text)] for name, text in result.calls]
    return _json({"content": result.content, "calls": calls})
