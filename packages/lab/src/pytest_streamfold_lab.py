"""Pytest plugin: command-line options for streamfold-lab's test suites, and a fixture for authors of tool call
parsers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the command-line options of the test suites."""
    server = "for streamfold_lab.conformance.suite: "
    group = parser.getgroup("streamfold")
    group.addoption("--streamfold-server", help=f"{server}the base URL of the server to judge")
    group.addoption("--streamfold-model", help=f"{server}the model; by default the first in the server's list")
    group.addoption("--streamfold-api-key-env", help=f"{server}the environment variable with the API key")
    parsers = "for streamfold_lab.any_cut.suite: "
    group.addoption("--streamfold-parser", help=f"{parsers}the parser, as module:Class")
    group.addoption(
        "--streamfold-vectors", help=f"{parsers}the test texts: the name of a format such as hermes, or a JSON file"
    )


@pytest.fixture
def assert_any_cut() -> Callable[..., None]:
    """Returns a function that tests a tool call parser of vLLM or SGLang. The test fails if the parser's result for a
    split text differs from its result for the unsplit text.

    def test_my_parser(assert_any_cut):
        assert_any_cut(MyParser, "hermes")
    """
    from streamfold_lab.any_cut import as_markdown, as_piece_parser, check_parser, load_vectors

    def check(make: Callable[[], Any], vectors: str, *, cut_tokens: bool = False) -> None:
        texts = load_vectors(vectors)
        failures = check_parser(as_piece_parser(make), texts, cut_tokens=cut_tokens)
        if failures:
            pytest.fail(
                as_markdown(getattr(make, "__name__", repr(make)), ["any cut"], failures, len(texts)), pytrace=False
            )

    return check
