"""The script that runs other projects' suites: what it makes of their outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import loaded

HERE = Path(__file__).parents[2] / "tools" / "peers"


@pytest.fixture(name="peers")
def script() -> Any:
    return loaded("tools/peers/run.py")


def test_only_a_test_that_passed_before_can_be_broken(peers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A new failure is a problem unless it is an exception; an exception that is not needed is one too."""
    without = {"a": ("passed", ""), "b": ("passed", ""), "c": ("failed", "network"), "d": ("passed", "")}
    with_us = {"a": ("passed", ""), "b": ("failed", "E  boom"), "c": ("failed", "network")}
    peer = peers.Peer("x", "x==1", ["tests"], [], [], exceptions={"the type of the transport": {"d": 1}})
    assert peers.report(peer, without, with_us) == ["x: b fails with us: E  boom"]
    assert "3 pass without us, 1 of them with us" in capsys.readouterr().out
    assert peers.report(peer, without, {**without, "b": ("passed", "")}) == [
        "x: d is listed with 1 tests (the type of the transport), and 0 fail"
    ]
    assert peers.report(peer, {}, {}) == ["x: no test passes without us; see its log"]


def test_the_worst_outcome_of_a_test_counts(peers: Any, tmp_path: Path) -> None:
    """A test that passed and whose teardown failed has failed."""
    lines = [("a", "passed"), ("a", "failed"), ("b", "skipped"), ("c", "passed")]
    entries = [{"test": name, "outcome": outcome, "why": ""} for name, outcome in lines]
    (tmp_path / "r").write_text("\n".join(map(json.dumps, entries)))
    assert {name: found[0] for name, found in peers.read_outcomes(tmp_path / "r").items()} == {
        "a": "failed", "b": "skipped", "c": "passed",
    }  # fmt: skip


def test_the_suites_are_described(peers: Any) -> None:
    """Each has a pinned version, and there are at most ten exceptions, each with its reason."""
    found = peers.read_peers(HERE / "peers.toml")
    suites = {"openai", "anthropic", "google-genai", "magentic", "chatlas", "langchain-openai", "langchain-anthropic"}
    assert {*found} == suites
    assert all("==" in peer.requirement for peer in found.values())
    assert peers.exceptions_problem(found) == []
