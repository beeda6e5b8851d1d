"""`StreamChunk` is a plain value: it can be copied, pickled, changed and compared."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

from folding import DONE, fin, fragments, text
from streamfold import StreamChunk, StreamDecoder
from tables import each_row

ROUND_TRIPS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
    **{f"pickle {n}": (lambda value, n=n: pickle.loads(pickle.dumps(value, n))) for n in range(2, 6)},
}
HEAD = fragments('0 a f {"x":', "0 - - 1}") + text("after")


def chunks() -> list[StreamChunk]:
    decoder = StreamDecoder("chat", partial_tool_calls=True)
    return [*decoder.feed(text("before") + HEAD), *decoder.feed(fin("tool_calls") + DONE), *decoder.close()]


def shown(chunk: StreamChunk) -> tuple[Any, ...]:
    """All that a chunk says."""
    names = ("preceding_calls", "marks", "item", "silent", "details")
    return chunk, repr(chunk), repr(chunk.details), *(getattr(chunk, name) for name in names)


@each_row("how", ROUND_TRIPS)
def test_every_chunk_survives(how: str) -> None:
    """A copy of a chunk has its place among the calls, and the same piece of a call."""
    round_trip = ROUND_TRIPS[how]
    expected = [shown(chunk) for chunk in chunks()]
    copied = [(chunk, round_trip(chunk)) for chunk in chunks()]
    assert [shown(copy) for _, copy in copied] == expected
    assert [shown(chunk) for chunk, _ in copied] == expected
    assert [chunk.delta for chunk, _ in copied] == ["before", "", "", "after", ""]


def test_which_chunks_are_equal() -> None:
    """Steps that wrote different pieces differ; text is equal wherever it stands among the calls."""
    before, head, piece, after, last = chunks()
    assert head != piece != StreamChunk() != head
    assert [before, after] == [StreamChunk("before"), StreamChunk("after")]
    assert last == StreamChunk(tool_calls=last.tool_calls, finished=True, finish_reason="tool_calls")
    assert repr(piece).startswith("StreamChunk(call=ToolCallUpdate(number=0, tool='f', text='1}'")
    assert json.dumps(dataclasses.asdict(after), default=repr)
