"""Pytest suite for authors of tool call parsers, with one test for each test text. A parser's result for a split text
must equal its result for the unsplit text.

pytest --pyargs streamfold_lab.any_cut.suite --streamfold-parser my_parsers:HermesParser --streamfold-vectors hermes
"""

from __future__ import annotations

import pytest

from .check import check_parser
from .parsers import as_piece_parser, find_parser
from .vectors import Vector, load_vectors

__all__: list[str] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Creates a test for each text of `--streamfold-vectors`."""
    if "vector" in metafunc.fixturenames:
        source = metafunc.config.getoption("streamfold_vectors")
        vectors = load_vectors(source) if source else []
        metafunc.parametrize("vector", vectors, ids=[vector.name for vector in vectors])


def test_any_cut(vector: Vector, request: pytest.FixtureRequest) -> None:
    """Fails if the parser's result depends on how the text is split."""
    name = request.config.getoption("streamfold_parser")
    if not name:
        pytest.skip("no parser: pass --streamfold-parser module:Class")
    failures = check_parser(as_piece_parser(find_parser(name)), [vector])
    lines = [
        f"{failure.kind} {failure.mode}, for {failure.cuts} of {failure.tried} splits: {list(failure.pieces)!r}\n"
        f"  expected {failure.wanted}\n  found    {failure.found}"
        for failure in failures
    ]
    if failures:
        pytest.fail("\n".join(lines), pytrace=False)
