"""Text that arrives in one read is one chunk, if that is wanted."""

from __future__ import annotations

import pytest

from folding import DONE, chunk, fin, text
from streamfold import StreamDecoder
from streamfold.engine.decoder import merge_chunks


def thought(said: str) -> bytes:
    return chunk({"content": None, "reasoning_content": said})


def test_text_of_one_read_is_one_chunk() -> None:
    """Consecutive text of one `feed` is one chunk, consecutive reasoning is another, and the order stays."""
    events = [
        thought("I "), thought("see. "), text("Hel"), text("lo"),
        text("!"), thought("So."), text("Bye"),
    ]  # fmt: skip
    decoder = StreamDecoder("chat", coalesce=True)
    made = [*decoder.feed(b"".join(events)), *decoder.feed(fin("stop") + DONE)]
    assert [chunk.reasoning or chunk.delta for chunk in made] == ["I see. ", "Hello!", "So.", "Bye", ""]
    assert made[-1].finished


@pytest.mark.parametrize("coalesce", [True, False])
def test_an_event_in_a_read_of_its_own_is_a_chunk(coalesce: bool) -> None:
    """A reader who keeps up gets each event as it comes; without `coalesce` everybody does."""
    events = [text(word) for word in (" a", " b", " c", " d")]
    decoder = StreamDecoder("chat", coalesce=coalesce)
    assert [chunk.delta for raw in events for chunk in decoder.feed(raw)] == [" a", " b", " c", " d"]
    decoder = StreamDecoder("chat", coalesce=coalesce)
    made = [chunk.delta for chunk in decoder.feed(b"".join(events))]
    assert made == ([" a b c d"] if coalesce else [" a", " b", " c", " d"])


def test_what_is_more_than_text_is_not_joined() -> None:
    """A chunk behind the beginning of a call, behind a mark, and the finished one begin another."""
    calls = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
    decoder = StreamDecoder("chat", coalesce=True)
    made = decoder.feed(text("a") + text("b") + calls + text("c") + text("d") + fin("tool_calls") + DONE)
    assert [(chunk.delta, chunk.preceding_calls, chunk.finished) for chunk in made] == [
        ("ab", 0, False), ("cd", 1, False), ("", 1, True)
    ]  # fmt: skip
    assert merge_chunks([]) == []
