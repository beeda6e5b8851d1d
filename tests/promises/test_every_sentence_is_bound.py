"""The README promises what holds: each of its sentences about that is quoted by tests here that try to refute it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tables import each_row

TESTS = Path(__file__).parents[1]
README = TESTS.parent / "README.md"
SECTIONS = ("What is guaranteed", "What else there is")
MODULES = sorted(Path(__file__).parent.glob("test_*.py"))

pytestmark = pytest.mark.skipif(not README.is_file(), reason="the README is not part of what is installed")


def plain(text: str) -> str:
    """Text without its markup, on one line, and without the numbers of fixtures: they grow, and are counted elsewhere
    (`test_the_readme_says_what_the_fixtures_are`)."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\d+ (answers|recorded|written|made up)\b", r"\1", text)
    return " ".join(re.sub(r"\*\*|`", "", text).split())


def bullets() -> list[str]:
    """The points of these sections; a section that is gone would make everything pass."""
    found = []
    for section in SECTIONS:
        body = README.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        points = re.findall(r"^- (.+?)(?=^- |^!|\Z)", body, re.MULTILINE | re.DOTALL)
        assert len(points) >= 5, section
        found += [plain(point) for point in points]
    return found


def sentences() -> list[str]:
    return [sentence.strip(" .:") for bullet in bullets() for sentence in re.split(r"(?<=[.:]) ", bullet)]


QUOTED = " ".join(plain(ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "") for module in MODULES)


@each_row("sentence", sentences())
def test_every_sentence_is_quoted(sentence: str) -> None:
    """A promise that is new or changed has no test yet: write one from the sentence, and quote it there."""
    assert sentence in QUOTED


def test_the_tests_that_bind_it_elsewhere_exist() -> None:
    """`BOUND_BY` names tests of other folders, which are not repeated here."""
    for module in MODULES:
        tree = ast.parse(module.read_text("utf-8"))
        named = [
            node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BOUND_BY"
        ]
        for name in [name for node in named for name in ast.literal_eval(node.value)]:
            file, _, function = name.partition("::")
            text = (TESTS / file).read_text("utf-8")
            assert not function or re.search(rf"^\s*(async )?def {function}\(", text, re.MULTILINE), name
