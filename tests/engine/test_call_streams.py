"""Streams that are made at random, in which the bytes say which fragment belongs to which call."""

from __future__ import annotations

import pytest

import call_streams
import scale


@pytest.mark.parametrize("api", sorted(call_streams.APIS))
def test_every_call_is_handed_out_as_it_was_made(api: str) -> None:
    """No call is lost, joined with another, run with another's arguments, or invented."""
    failures = {
        recipe: what
        for recipe, what in call_streams.run(api, 0, scale.pick(6_000, 400, most=20_000)).items()
        if not any(pair <= set(recipe.deviations) for pair in call_streams.CONTRADICTORY)
    }
    assert not failures, "\n".join([f"{len(failures)} streams", *map(call_streams.describe, list(failures)[:3])])
