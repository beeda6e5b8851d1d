"""A plugin of pytest for other projects' suites: puts `RepairTransport` below their clients, and writes down what ran.

It needs nothing of the suite: every client of httpx and httpx2 sends through the transport that it would have used,
with ours around it, so that `client._transport` and what a test mocks below it stay what they are.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_WITH = os.environ.get("STREAMFOLD_PEERS") == "with"
_RESULTS = os.environ.get("STREAMFOLD_PEERS_RESULTS")


def pytest_configure(config: pytest.Config) -> None:
    """Changes the clients before any of them is made."""
    if _WITH:
        for package in ("httpx", "httpx2"):
            _put_below(package)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down one line for each test, and for each part of it that failed."""
    if _RESULTS and (report.when == "call" or report.outcome != "passed"):
        why = str(report.longrepr).strip().splitlines()[-1:] if report.failed else []
        line = json.dumps({"test": report.nodeid, "outcome": report.outcome, "why": "".join(why)[:300]})
        with Path(_RESULTS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _put_below(package: str) -> None:
    try:
        library = importlib.import_module(package)
    except ModuleNotFoundError:
        return
    transport = importlib.import_module(f"streamfold_repair.{package}").RepairTransport
    for client in (library.Client, library.AsyncClient):
        client._transport_for_url = _around(client._transport_for_url, transport)


def _around(chosen: Callable[..., Any], transport: Callable[[Any], Any]) -> Callable[..., Any]:
    def repaired(self: Any, url: Any) -> Any:
        return transport(chosen(self, url))

    return repaired
