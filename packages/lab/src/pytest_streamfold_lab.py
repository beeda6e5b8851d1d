"""The pytest plugin of streamfold-lab: the options of `streamfold_lab.conformance.suite`."""

from __future__ import annotations

import pytest

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the conformance suite."""
    server = "for streamfold_lab.conformance.suite: "
    group = parser.getgroup("streamfold")
    group.addoption("--streamfold-server", help=f"{server}the base URL of the server to judge")
    group.addoption("--streamfold-model", help=f"{server}the model to ask; by default the first that is listed")
    group.addoption("--streamfold-api-key-env", help=f"{server}the environment variable that holds the key")
