"""The output of a response that broke off, from the events that were stored of it."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from scale import examples
from streamfold.deltas import Delta, ReasoningDelta, RefusalDelta, TextDelta
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.serving import ReplyWriter, ResponsesSerializer, partial_output
from streamfold.types import ToolCallDelta

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
CALLS = st.integers(0, 2).flatmap(
    lambda number: TEXTS.map(lambda text: ToolCallDelta(number, f"call_{number}", "f", json.dumps({"x": text})[:-2]))
)
DELTAS: st.SearchStrategy[Delta] = st.one_of(
    TEXTS.map(TextDelta), TEXTS.map(ReasoningDelta), TEXTS.map(RefusalDelta), CALLS
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(DELTAS, max_size=12))
def test_the_events_say_what_the_serializer_has(deltas: list[Delta]) -> None:
    """Wherever an answer is cancelled, its events give the items that the serializer writes into the response."""
    serializer = ResponsesSerializer(id="resp_1", model="m", records=True)
    accumulator, writer = StreamAccumulator(partial_tool_calls=True), ReplyWriter(serializer)
    for delta in deltas:
        if (chunk := accumulator.feed(delta)) is not None:
            writer.feed(chunk)
    serializer.cancel()
    *before, end = [event.payload for event in serializer.take_events()]
    assert end["type"] == "response.cancelled"
    assert partial_output(before) == end["response"]["output"]
