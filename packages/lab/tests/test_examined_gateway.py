"""The gateway as a server among others: the doctor finds nothing at fault, and no rule of an API is broken."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from examined import examine_gateway
from patients import Patient
from scale import pick, some
from streamfold import faults
from streamfold.faults import Fault
from streamfold_lab.conformance import RULES, judge

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@pytest.mark.parametrize(
    ("adapter", "thinks"),
    pick(
        list(product(["chat", "responses", "anthropic"], [False, True])),
        [("chat", True), ("responses", False), ("anthropic", True)],
    ),
)
@pytest.mark.slow
def test_the_gateway_keeps_all_rules(adapter: str, thinks: bool) -> None:
    """What it writes is as the documentation of each API says, and its findings are those of the server behind it."""
    card = examine_gateway(adapter, Patient(thinks=thinks))
    ruling = judge(card)
    found: dict[str, Any] = {each.rule.name: each.violations[:2] for each in ruling.judged if each.violations}
    assert found == {}
    assert ruling.applied == len(RULES[adapter])
    assert [(finding.probe, finding.saw) for finding in card.with_verdict("fault")] == []


# What is planted between the gateway and the doctor, and the probe that names it. In this process an answer is one
# piece, so that none is slow.
FAULTS: list[tuple[Fault, str]] = [
    (faults.cut_after(events=4), "cuts"),
    (faults.reset(after_events=4), "resets"),
    (faults.hang_up(), "hang_ups"),
    (faults.stall(after_events=4), "stalls"),
    (faults.keepalive(after_events=2), "comments"),
    (faults.garbage(after_events=2), "garbage"),
    (faults.drop([6, 8]), "lost"),
    (faults.duplicate([6, 8]), "repeated"),
    (faults.corrupt(3), "utf8"),
    (faults.truncate_json(6), "truncated"),
    (faults.status(503), "statuses"),
]


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize(("fault", "probe"), some(FAULTS, 3))
def test_faults_are_named_on_every_api(adapter: str, fault: Fault, probe: str) -> None:
    """What breaks answers of Chat Completions is named where it breaks those of other APIs."""
    finding = examine_gateway(adapter, Patient(), [fault]).of(probe)
    assert finding is not None
    assert finding.verdict in ("fault", "handled")
