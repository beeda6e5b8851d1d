"""What the tests share: the optional conformance corpus, and ways to cut bytes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import servers


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--transport",
        choices=["httpx", "aiohttp"],
        help="run the tests that are marked `anyio` over this transport alone (aiohttp: on asyncio alone)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """No test reads the configuration of the person who runs it."""
    config.addinivalue_line("markers", "transports: runs over aiohttp too, also where --transport is not given")
    os.environ["STREAMFOLD_CONFIG"] = os.devnull
    os.environ.pop("STREAMFOLD_PROVIDER", None)


_folded: Counter[str] = Counter()


@pytest.fixture(scope="session")
def folded() -> Counter[str]:
    """What was folded from the corpus; printed at the end of the run."""
    return _folded


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # one of several processes: the first one adds them up
        output["folded"] = dict(_folded)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _folded.update(getattr(node, "workeroutput", {}).get("folded", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _folded:
        counts = ", ".join(f"{number} {what}" for what, number in _folded.items())
        terminalreporter.write_line(f"conformance corpus: {counts}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that are marked `anyio` run on both event loops; those that are marked `transports` over aiohttp too."""
    if "anyio_backend" not in metafunc.fixturenames or hasattr(metafunc.module, "anyio_backend"):
        return  # a module that has a fixture of its own says itself where its tests run
    wanted = metafunc.config.getoption("--transport")
    runs = ["aiohttp"] if wanted == "aiohttp" else ["asyncio", "trio"]
    if wanted is None and metafunc.definition.get_closest_marker("transports"):
        runs.append("aiohttp")
    metafunc.parametrize("anyio_backend", runs, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The event loop of a test; "aiohttp" is asyncio with that transport."""
    if request.param != "aiohttp":
        return str(request.param)
    monkeypatch.setattr(servers, "transport", "aiohttp")
    return "asyncio"
