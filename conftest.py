"""What all tests share: the two speeds, the event loops they run on, and a summary that fits on a screen."""

from __future__ import annotations

import gc
import os
import sqlite3
from collections import Counter
from collections.abc import Generator
from datetime import date
from typing import Any

import pytest
from hypothesis import settings

import scale
import servers
from streamfold.requests import model_facts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--transport",
        choices=["httpx", "aiohttp", "httpx2"],
        help="run async tests over this transport alone (aiohttp: on asyncio alone); without it, they run over httpx",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="every cut, every case on every event loop, fuzzing and load: minutes instead of seconds",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers for each core: a good part of the tests wait, for sockets, processes and clocks."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", 2 * (os.cpu_count() or 1)))


def pytest_configure(config: pytest.Config) -> None:
    """No test reads the configuration of the person who runs it; property tests try as much as `scale` says."""
    config.addinivalue_line(
        "markers", "transports: runs over aiohttp on asyncio too, also where --transport is not given"
    )
    config.addinivalue_line("markers", "one_loop: runs on asyncio alone, over the default transport")
    config.addinivalue_line("markers", "thorough: runs with --thorough alone")
    config.addinivalue_line("markers", "slow: starts processes or waits for clocks; runs with `-m slow` and --thorough")
    if config.getoption("--thorough") and not scale.whole():
        os.environ[scale.VARIABLE] = "1"
    os.environ["STREAMFOLD_CONFIG"] = os.devnull
    os.environ.pop("STREAMFOLD_PROVIDER", None)
    # The default tests try the same examples each time: a failure belongs to a change. The long ones look for new ones.
    fixed = not scale.thorough()
    settings.register_profile("scale", deadline=None, max_examples=scale.examples(100), derandomize=fixed)
    settings.load_profile("scale")
    sqlite3.connect = _connected  # type: ignore[assignment]
    model_facts.today = lambda: date(
        2025, 1, 1
    )  # no test depends on the day: then no model was about to be switched off


# In these folders of tests other people's programs run.
PROGRAMS = ("agents", "browser", "clients", "engines", "interfaces", "real")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --thorough, trio and aiohttp get one case of each test, and slow tests wait for `-m slow`."""
    for item in items:
        if item.path.parent.name in PROGRAMS:
            item.add_marker("slow")
    if scale.thorough():
        return
    if not config.getoption("-m"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    seen: set[tuple[str, str]] = set()
    left_out = []
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        test = (item.nodeid.partition("[")[0], params.get("anyio_backend", "asyncio"))
        if item.get_closest_marker("thorough") or (test[1] != "asyncio" and test in seen):
            left_out.append(item)
        seen.add(test)
    if left_out and not config.getoption("--transport"):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The garbage collector leaves alone what stays until the end: the tests themselves, and all that they imported."""
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


class _Database(sqlite3.Connection):
    def close(self) -> None:
        super().close()
        _databases.discard(self)


_databases: set[_Database] = set()
_connect = sqlite3.connect


def _connected(*args: Any, **settings: Any) -> sqlite3.Connection:
    database = _connect(*args, **{"factory": _Database, **settings})
    if isinstance(database, _Database):
        _databases.add(database)
    return database


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Every test closes its databases. Python says so itself since 3.13, and then of whichever test runs by then."""
    yield
    if left := [database.execute("PRAGMA database_list").fetchone()[2] for database in _databases]:
        for database in list(_databases):
            database.close()
        pytest.fail(f"left open: {', '.join(left)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips of one folder for one reason are one line of the summary."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(item.path.parent.relative_to(item.config.rootpath)), None, report.longrepr[2])  # type: ignore[assignment]
    return report


_folded: Counter[str] = Counter()


@pytest.fixture(scope="session")
def folded() -> Counter[str]:
    """Counts what was folded from the corpus; printed at the end of the run."""
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
    """Async tests run on both event loops; those marked `transports` over aiohttp on asyncio too."""
    named = any(mark.args[0] == "anyio_backend" for mark in metafunc.definition.iter_markers("parametrize"))
    if "anyio_backend" not in metafunc.fixturenames or named:
        return
    if metafunc.definition.get_closest_marker("one_loop"):
        metafunc.parametrize("anyio_backend", ["asyncio"], indirect=True)
        return
    wanted = metafunc.config.getoption("--transport")
    runs = {"aiohttp": ["aiohttp"], "httpx": ["httpx", "httpx-trio"], "httpx2": ["httpx2", "httpx2-trio"]}.get(
        wanted, ["asyncio", "trio"]
    )
    if wanted is None and metafunc.definition.get_closest_marker("transports"):
        runs.append("aiohttp")
    metafunc.parametrize("anyio_backend", runs, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The event loop of a test; the name of a transport is asyncio with that one."""
    transport, _, loop = str(request.param).partition("-")
    if transport in ("asyncio", "trio"):
        return transport
    monkeypatch.setattr(servers, "transport", transport)
    return loop or "asyncio"
