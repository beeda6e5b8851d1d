"""Writes bug reports about a parser: one report for each kind of failure, with the shortest example."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .check import Failure

_MOST_NAMES = 8
_LONGEST = 600

_TITLES = {
    "raises": "raises an exception",
    "calls lost": "loses calls",
    "calls added": "adds calls",
    "other names": "returns other names",
    "other arguments": "returns other arguments",
    "other text": "returns other text",
}


def as_markdown(parser: str, versions: Iterable[str], failures: Sequence[Failure], tried: int) -> str:
    """Returns the bug reports about a parser as Markdown text.

    Args:
        parser: the parser's name in the form `module:Class`.
        versions: the names and versions of the parser's package and of this package.
        tried: the number of test texts.
    """
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((failure.mode, failure.kind), []).append(failure)
    failed = len({failure.vector.name for failure in failures})
    lines = [
        f"# {parser}",
        "",
        f"{', '.join(versions)}. Of {tried} texts, {failed} give different results for some splits.",
    ]
    for (mode, kind), found in groups.items():
        lines += ["", *_section(parser, mode, kind, found)]
    return "\n".join(lines) + "\n"


def _section(parser: str, mode: str, kind: str, found: Sequence[Failure]) -> list[str]:
    first = min(found, key=lambda failure: (len(failure.pieces), len(failure.vector.text)))
    names = [failure.vector.name for failure in found]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    where = "for a complete text" if mode == "whole" else "for a text in pieces"
    said = "" if mode == "whole" else f" {first.cuts} of {first.tried} splits of the example show the failure."
    expected = "Expected" if mode == "whole" else "The same parser, for the unsplit text"
    return [
        f"## {parser.rpartition(':')[2]} {_TITLES[kind]} {where}",
        "",
        f"{len(found)} texts: {', '.join(names[:_MOST_NAMES])}{more}.{said}",
        "",
        "```python",
        f"pieces = {list(first.pieces)!r}",
        f"tools = {json.dumps(list(first.vector.tools))}",
        "```",
        "",
        f"- {expected}: `{_cut(first.wanted)}`",
        f"- {'It returns' if mode == 'whole' else 'In these pieces'}: `{_cut(first.found)}`",
    ]


def _cut(text: str) -> str:
    text = text.replace("`", "'").replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
