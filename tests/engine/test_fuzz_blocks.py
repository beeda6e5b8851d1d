"""Wires of items and blocks: any value in place of any member of an event ends in an answer or in an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import bytewise
from odd_values import VALUES, check_types, outcome, paths, replaced
from scale import examples

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = {
    "anthropic": ["anthropic/parallel_calls", "anthropic/web_search", "anthropic/hidden_thinking"],
    "gemini": ["gemini/native_parallel_calls", "gemini/code_execution", "gemini/streamed_arguments"],
    "responses": ["responses/interleaved", "openai/responses_web_search", "openai/responses_encrypted_reasoning"],
}
RECORDED = [(api, name) for api, names in NAMES.items() for name in names]


def events_of(name: str) -> list[tuple[bytes, Any]]:
    """The events of a fixture: what stands before the payload, and the payload."""
    body = (FIXTURES / f"{name}.sse").read_bytes().replace(b"\r\n", b"\n")
    parted = [event.partition(b"data: ") for event in body.strip().split(b"\n\n")]
    return [(head, json.loads(payload)) for head, _, payload in parted]


def body_of(events: list[tuple[bytes, Any]]) -> bytes:
    return b"".join(head + b"data: " + json.dumps(payload).encode() + b"\n\n" for head, payload in events)


@pytest.mark.parametrize(("api", "name"), RECORDED)
@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_any_value_in_place_of_any_member(api: str, name: str, data: st.DataObject) -> None:
    """However odd one or two events are, no other exception comes out, and the parts of the answer have their types."""
    events = events_of(name)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(events) - 1))
        head, payload = events[at]
        path = data.draw(st.sampled_from(paths(payload)))
        events[at] = (head, replaced(payload, path, data.draw(VALUES)))
    body = body_of(events)
    whole, pieces = outcome(body, adapter=api), outcome(body, bytewise(body), adapter=api)
    check_types(whole)
    assert type(whole) is type(pieces)


@pytest.mark.parametrize(("api", "name"), RECORDED)
@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_events_that_are_lost_repeated_or_exchanged(api: str, name: str, data: st.DataObject) -> None:
    """The same of a stream whose events are all right, and not in their places."""
    events = events_of(name)
    one, other = (data.draw(st.integers(0, len(events) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["lost", "repeated", "exchanged"])):
        case "lost":
            del events[one]
        case "repeated":
            events.insert(other, events[one])
        case "exchanged":
            events[one], events[other] = events[other], events[one]
    check_types(outcome(body_of(events), adapter=api))
