"""What the tests share: the optional conformance corpus, and ways to cut bytes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The optional conformance corpus: recorded streams of real providers beside what they must fold to.

    `STREAMFOLD_CORPUS` names its folder. Unset, tests that need it are skipped; set, missing data is a failure.
    """
    folder = os.environ.get("STREAMFOLD_CORPUS")
    if not folder:
        pytest.skip("STREAMFOLD_CORPUS is not set: it names the folder of the optional conformance corpus")
    path = Path(folder).resolve()
    assert path.is_dir(), f"STREAMFOLD_CORPUS names {path}, which is not a folder"
    return path


def pytest_configure() -> None:
    """No test reads the configuration of the person who runs it."""
    os.environ["STREAMFOLD_CONFIG"] = os.devnull
    os.environ.pop("STREAMFOLD_PROVIDER", None)


_folded: Counter[str] = Counter()


@pytest.fixture(scope="session")
def folded() -> Counter[str]:
    """What was folded from the corpus; printed at the end of the run."""
    return _folded


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _folded:
        counts = ", ".join(f"{number} {what}" for what, number in _folded.items())
        terminalreporter.write_line(f"conformance corpus: {counts}")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Tests that are marked `anyio` run on both event loops."""
    return str(request.param)
