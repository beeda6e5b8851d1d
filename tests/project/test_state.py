"""The table of everything that is kept: docs/guides/state.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import streamfold
from pages import ROOT
from tables import each_row

GUIDE = ROOT / "docs" / "guides" / "state.md"
PACKAGE = Path(streamfold.__file__).parent
MODULES = {  # those of other distributions by their whole names
    ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): path
    for base in (PACKAGE, *sorted(ROOT.glob("packages/*/src")))
    for path in base.rglob("*.py")
}
COLUMNS = [
    "#",
    "data, and its module",
    "place",
    "key",
    "owner",
    "lifetime; who deletes it",
    "limit",
    "on failure",
    "test",
]
TABLE = [line.strip("| ").split(" | ") for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("| ")]
ROWS = TABLE[TABLE.index(COLUMNS) + 1 :]


def test_every_row_is_whole() -> None:
    """The rows are numbered, and say something in every column."""
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert [row[0] for row in ROWS if len(row) != len(COLUMNS) or not all(row)] == []


@each_row("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_row_names_its_test(row: list[str]) -> None:
    """The test is there."""
    named = re.fullmatch(r"`((?:packages/\w+/)?tests/[\w/]+\.py)::(test_\w+)`", row[-1])
    assert named is not None, row[-1]
    tree = ast.parse((ROOT / named[1]).read_text("utf-8"))
    assert named[2] in {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_module_that_uses_stores_is_in_a_row() -> None:
    """A module that keeps something in a store is in the table, with its owner and its lifetime."""
    named = {name for row in ROWS for name in re.findall(r"`([\w.]+)`", row[1])}
    assert sorted(named - MODULES.keys()) == []
    using = [module for module in MODULES if not module.startswith("streamfold_lab") and _uses_stores(module)]
    assert [module for module in using if not _is_named(module, named)] == []


def _uses_stores(module: str) -> bool:
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            imported |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
    return any(re.match(r"(streamfold\.)?stores(\.|$)", name) for name in imported)


def _is_named(module: str, named: set[str]) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:length]) in named for length in range(1, len(parts) + 1))
