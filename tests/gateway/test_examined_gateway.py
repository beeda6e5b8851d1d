"""The gateway as a server among others: the doctor finds nothing at fault, and no rule of a wire is broken."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateways import client_of
from patients import Patient
from streamfold import Provider, Timeouts
from streamfold.config import read_profile
from streamfold.gateway import gateway
from streamfold.testing.conformance import RULES, judge
from streamfold.testing.doctor import Card, Diagnosis

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


def examined(adapter: str, patient: Patient) -> Card:
    """The card of a gateway on one wire, before a server of Chat Completions."""

    async def run() -> Card:
        config = {"base_url": "http://patient.test/v1", "model": "patient-1", "max_retries": 0}
        async with (
            patient.client() as upstream,
            Provider.from_config(config, http_client=upstream) as provider,
            client_of(gateway({"main": provider})) as client,
        ):
            profile = read_profile({"adapter": adapter, "base_url": "http://gateway/v1", "model": "main"})
            diagnosis = Diagnosis(http_client=client, timeouts=Timeouts(10, 30, 20, 30, 90))
            return (await diagnosis.run(profile))[0]

    return trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("adapter", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "thinking"])
def test_the_gateway_keeps_all_rules(adapter: str, thinks: bool) -> None:
    """What it writes is as the documentation of each wire says, and its findings are those of the server behind it."""
    card = examined(adapter, Patient(thinks=thinks))
    ruling = judge(card)
    found: dict[str, Any] = {each.rule.name: each.violations[:2] for each in ruling.judged if each.violations}
    assert found == {}
    assert ruling.applied == len(RULES[adapter])
    assert [(finding.probe, finding.saw) for finding in card.with_verdict("fault")] == []
