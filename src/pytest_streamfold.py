"""The pytest plugin of streamfold: the fixtures `scripted` and `replay`.

pytest imports this module in every run of everybody who has streamfold installed, so it stands outside of the package
and imports none of it: that is left to the tests that ask for a fixture. `-p no:streamfold` switches it off.
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
    """`--streamfold-record` and the ini option `streamfold_fixtures`."""
    parser.getgroup("streamfold").addoption(
        "--streamfold-record",
        choices=["none", "once", "all"],
        default="none",
        help="what the fixture `replay` does with a provider=: play its recording (none, the default); ask the provider"
        " where there is none, and record it (once); ask it and record it anew (all)",
    )
    parser.addini(
        "streamfold_fixtures",
        "folders of recordings, instead of the `fixtures` beside the test file and above it",
        type="paths",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers", "streamfold_faults(*faults): values of streamfold.testing.faults that happen to what `replay` plays"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """After a test that passed: its scripts must have been played to their end, and its faults have had a chance."""
    yield
    if (scripts := item.stash.get(_scripted, None)) is not None:
        try:
            scripts.assert_done()
        except AssertionError as problem:
            pytest.fail(str(problem), pytrace=False)
    if item.get_closest_marker("streamfold_faults") is not None:
        played = item.stash.get(_replay, None)
        if played is None or not played.providers:
            told = "the faults of streamfold_faults happened to nothing: no provider was made with `replay`"
            pytest.fail(told, pytrace=False)


@pytest.fixture
def scripted(request: pytest.FixtureRequest) -> ScriptedFixture:
    """Makes providers that follow a script: `scripted(call("get_weather", city="Paris"), "It is sunny.")`.

    Takes what `streamfold.testing.ScriptedProvider` takes. A test that passed fails if a turn was not asked for.
    """
    from streamfold.testing import ScriptedFixture

    request.node.stash[_scripted] = made = ScriptedFixture()
    return made


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Generator[ReplayFixture, None, None]:
    """Makes providers that play recordings: `replay("kimi/parallel_calls", cuts="bytes:1")`.

    With `provider="kimi:kimi-k2.6"` it records what is missing, if pytest is run with `--streamfold-record=once`. See
    `streamfold.testing.ReplayFixture`.
    """
    from streamfold.testing import ReplayFixture

    config = request.config
    markers = reversed(list(request.node.iter_markers("streamfold_faults")))  # those of the module and the class first
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
