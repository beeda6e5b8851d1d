"""The doctor before endpoints that others have simulated: each unfaithful one is found, no honest one is accused."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pytest

from scale import some
from simulated_endpoints.honest import HONEST, MORE_HONEST
from simulated_endpoints.serving import Endpoint, serving
from simulated_endpoints.unfaithful import MORE_UNFAITHFUL, UNFAITHFUL
from streamfold_lab.doctor import Doctor, ReportCard, read_target

pytestmark = pytest.mark.slow

# The adapters, and the APIs as the simulation calls them.
APIS = {"chat": "chat", "responses": "responses", "anthropic": "messages", "gemini": "gemini"}
# What a format has no probe for: reasoning isn't shown as text, or comes back under a signature.
NOT_FOUND: set[tuple[str, str]] = set()


def examine(endpoint: Endpoint, adapter: str) -> ReportCard:
    with serving(endpoint) as url:
        base = f"{url}/v1beta" if adapter == "gemini" else f"{url}/v1"
        profile = read_target(base, model="sim-1", adapter=adapter, api_key="k-0123456789")
        return anyio.run(Doctor(seed=7).run, profile)[0]


def each(kinds: Iterable[type[Endpoint]]) -> list[tuple[type[Endpoint], str]]:
    return [(kind, adapter) for adapter, api in APIS.items() for kind in kinds if api in kind.apis]


@pytest.mark.parametrize(("kind", "adapter"), some(each([Endpoint, *HONEST, *MORE_HONEST]), 4))
def test_no_honest_server_is_accused(kind: type[Endpoint], adapter: str) -> None:
    """Whatever its habits are: nothing is unfaithful, and nothing is at fault."""
    card = examine(kind(), adapter)
    assert [(found.probe, found.saw) for found in card.with_verdict("unfaithful", "fault")] == []


@pytest.mark.parametrize(("kind", "adapter"), some(each([*UNFAITHFUL, *MORE_UNFAITHFUL]), 4))
def test_an_unfaithful_endpoint_is_found(kind: type[Endpoint], adapter: str) -> None:
    """Each is unfaithful, on every API on which it is."""
    if (kind.name, adapter) in NOT_FOUND:
        pytest.skip("this API doesn't show it")
    assert examine(kind(), adapter).with_verdict("unfaithful") != []
