"""Docstrings and messages keep to words that readers know: `tools/plain_words.py` has the patterns, with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import ROOT
from scripts import loaded
from tables import each_row

plain_words = loaded("tools/plain_words.py")


@each_row(
    "folder", ["src/streamfold", *(f"packages/{name}" for name in ("gateway", "integrations", "jobs", "lab", "repair"))]
)
def test_modules(folder: str) -> None:
    """No docstring, message or other string of a module has one of the patterns."""
    modules = [path for path in plain_words.modules() if path.is_relative_to(ROOT / folder)]
    assert [line for module in modules for line in plain_words.in_module(module)] == []


def test_pages() -> None:
    """No page has one of the patterns, outside of code."""
    assert [line for page in plain_words.pages() for line in plain_words.in_page(page)] == []


@each_row(
    "text",
    [
        "Nobody knows.",
        "It goes on.",
        "Rows under way.",
        "It is no text.",
        "Calls are handed out.",
        "A package of its own.",
        "Rows are asked.",
        "What comes is read.",
        "First. Those that fail are sent.",
        "It is accepted all the same.",
        "It has nothing but text.",
        "The text is to be continued.",
        "A tool in the words of the API.",
        "Names on the wire.",
        "A made-up id.",
        "Turns are given back.",
        "Arguments that have come of it.",
    ],
)
def test_patterns(text: str) -> None:
    """Each habit is found, with what to write instead."""
    ((_, words, advice),) = plain_words.problems(text)
    assert words
    assert advice


@each_row(
    "text",
    [
        "There is no text.",
        "It is no longer there.",
        "It asks for its own key.",
        "What is it?",
        "an MCP server of its own kind",
        "The format is to blame.",
        "The words are its own.",
    ],
)
def test_plain_english(text: str) -> None:
    """Ordinary sentences are left alone."""
    assert [*plain_words.problems(text)] == []


def test_code_is_not_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of pages, and names in backticks, are not read; lines are counted anyway."""
    page = tmp_path / "page.md"
    page.write_text("# Nobody\n\n```py\nnobody = 1\n```\n\n`nobody`\n\nNobody.\n", "utf-8")
    monkeypatch.setattr(plain_words, "ROOT", tmp_path)
    assert [line.split(": ")[0] for line in plain_words.in_page(page)] == ["page.md:9"]
