"""`--reference`: an endpoint beside the maker's own, as figures with intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from simulated_endpoints.model import Answer, Request
from simulated_endpoints.serving import Endpoint, serving
from simulated_endpoints.unfaithful import NestedAsText
from streamfold_lab.doctor import Doctor, Finding, read_target


class Shy(Endpoint):
    """Leaves out every other call."""

    name = "shy"
    made = 0

    def decide(self, request: Request) -> Answer:
        answer = super().decide(request)
        self.made += bool(answer.calls)
        return Answer(text="I would rather not.") if answer.calls and self.made % 2 else answer


class Costly(Endpoint):
    """Counts twice the input tokens."""

    name = "costly"

    def count(self, request: Request, seen: Request, answer: Answer) -> Any:
        usage = super().count(request, seen, answer)
        return replace(usage, input=usage.input * 2)


def compared(endpoint: Endpoint) -> dict[str, Finding]:
    """Returns the findings about an endpoint beside the simulated model as it is."""
    endpoint.name = "examined"
    with serving(endpoint, Endpoint()) as url:
        profiles = [
            read_target(f"{url}/{name}/v1", model="sim-1", adapter="chat", api_key="k-0123456789")
            for name in ("examined", "honest")
        ]
        examiner = Doctor(probes=[], seed=7, reference=profiles[1])
        return {finding.probe: finding for finding in anyio.run(examiner.run, profiles[0])[0].findings}


@pytest.mark.slow
def test_the_same_model_agrees() -> None:
    """All figures are whole shares, each with its interval."""
    found = compared(Endpoint())
    assert {name: finding.verdict for name, finding in found.items()} == {
        "reference_triggers": "ok", "reference_schemas": "ok", "reference_counts": "ok",
    }  # fmt: skip
    assert found["reference_triggers"].saw == (
        "both endpoints called the same tools, or none, for 50 of 50 (94% to 100%) requests"
    )
    saw = "the counts differ by at most 10% for 50 of 50 (94% to 100%) requests; the median ratio is 1.00"
    assert found["reference_counts"].saw == saw


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endpoint", "probe"),
    [(Shy(), "reference_triggers"), (NestedAsText(), "reference_schemas"), (Costly(), "reference_counts")],
)
def test_what_differs_is_unfaithful(endpoint: Endpoint, probe: str) -> None:
    """Other calls, arguments that don't fit their schema, and other token counts: each has its own finding."""
    assert compared(endpoint)[probe].verdict == "unfaithful"
