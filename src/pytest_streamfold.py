"""The pytest plugin of streamfold: the fixtures `scripted` and `replay`.

pytest imports this module in every run, wherever streamfold is installed. So the module isn't part of the package
`streamfold`, and imports this package only in tests that use a fixture. `-p no:streamfold` switches the plugin off.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamfold.testing import ReplayFixture, ScriptedFixture

__all__ = ["replay", "scripted"]

_scripted: pytest.StashKey[ScriptedFixture] = pytest.StashKey()
_replay: pytest.StashKey[ReplayFixture] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--streamfold-record` and the ini option `streamfold_fixtures`."""
    parser.getgroup("streamfold").addoption(
        "--streamfold-record",
        choices=["none", "once", "all"],
        default="none",
        help="for `replay` with a provider=: none (default) plays the recording; once asks the provider and records its"
        " answer if there is no recording; all always asks and records",
    )
    parser.addini(
        "streamfold_fixtures",
        "folders of recordings; by default the folders `fixtures` beside the test file and above it",
        type="paths",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "streamfold_faults(*faults): faults of streamfold.faults, for all answers that `replay` plays",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fails a passed test that left turns of its scripts unused, or whose marker `streamfold_faults` had no effect."""
    yield
    if (scripts := item.stash.get(_scripted, None)) is not None:
        try:
            scripts.assert_done()
        except AssertionError as problem:
            pytest.fail(str(problem), pytrace=False)
    if item.get_closest_marker("streamfold_faults") is not None:
        played = item.stash.get(_replay, None)
        if played is None or not played.providers:
            pytest.fail("the marker streamfold_faults had no effect: no provider was made with `replay`", pytrace=False)


@pytest.fixture
def scripted(request: pytest.FixtureRequest) -> ScriptedFixture:
    """Makes models that follow a script: `scripted(call("get_weather", city="Paris"), "It is sunny.")`.

    Takes the arguments of `streamfold.testing.ScriptedProvider`. A test fails if a turn was not used.
    """
    from streamfold.testing import ScriptedFixture

    request.node.stash[_scripted] = made = ScriptedFixture()
    return made


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Generator[ReplayFixture, None, None]:
    """Makes models that play recordings: `replay("kimi/parallel_calls", cuts="bytes:1")`.

    With the argument `provider="kimi:kimi-k2.6"`, `pytest --streamfold-record=once` makes missing recordings. See
    `streamfold.testing.ReplayFixture`.
    """
    from streamfold.testing import ReplayFixture

    config = request.config
    markers = reversed(list(request.node.iter_markers("streamfold_faults")))  # module and class first
    request.node.stash[_replay] = made = ReplayFixture(
        folders=config.getini("streamfold_fixtures"),
        beside=request.path,
        root=config.rootpath,
        faults=[fault for marker in markers for fault in marker.args],
        record=config.getoption("streamfold_record"),
        test=request.node.nodeid,
    )
    yield made
    for problem in made.keep():
        request.node.warn(pytest.PytestWarning(problem))
