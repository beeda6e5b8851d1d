"""docs/bugs.md is the catalogue whose ids test names begin with: every id has its entry, every entry its tests."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "bugs.md"
NAMED = re.compile(r"^(?:async )?def test_((?:(?:[a-n]|na|gm[a-h])\d+_)+)", re.MULTILINE)
ROW = re.compile(r"^\| ([A-Z]+\d+) \| (.+) \| (.*) \| (.+) \|$", re.MULTILINE)
ISSUE = re.compile(r"\[([\w./-]+)#(\d+)\]\(https://github\.com/\1/issues/\2\)")


def test_each_id_of_a_test_is_an_entry_with_its_file() -> None:
    """The files that an entry names are those that have tests of its id, and no id is without an entry."""
    named = defaultdict(set)
    for file in [*TESTS.rglob("test_*.py"), *TESTS.parent.glob("packages/*/tests/**/test_*.py")]:
        path = file.relative_to(TESTS if file.is_relative_to(TESTS) else TESTS.parent).as_posix()
        for ids in NAMED.findall(file.read_text("utf-8")):
            for name in ids.strip("_").split("_"):
                named[name.upper()].add(path)
    entries = {name: set(re.findall(r"`([^`]+)`", files)) for name, _, _, files in ROW.findall(PAGE.read_text("utf-8"))}
    assert entries == named
    assert len(named) > 300


def test_each_entry_is_a_sentence_with_links_that_are_what_they_say() -> None:
    """An id stands for one sentence; an issue is written as its repository and number, and links to itself."""
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert len({name for name, *_ in rows}) == len(rows)
    for name, words, issues, _ in rows:
        assert re.fullmatch(r".{8,}\.", words), name
        assert ", ".join(match.group() for match in ISSUE.finditer(issues)) == issues, name
