"""`StreamChunk.preceding_calls`: where the text of a chunk stands among the calls of the answer."""

from __future__ import annotations

from folding import DONE, call, entry, fin, text
from streamfold import StreamDecoder
from tables import each_row

BODY = (
    text("a")
    + call(entry(0, "x", "f", "{"))
    + text("bc")
    + call(entry(0, arguments="}"))
    + text("d")
    + call(entry(1, "y", "g", "{}"))
    + text("e")
    + fin("tool_calls")
    + DONE
)


def places(*pieces: bytes) -> list[tuple[str, int]]:
    """Each character of the text with the number of calls that had begun before it."""
    decoder = StreamDecoder("chat")
    chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)] + decoder.close()
    return [(char, chunk.preceding_calls) for chunk in chunks for char in chunk.delta]


@each_row("size", [1, 7, 64, len(BODY)])
def test_the_number_of_calls_before_a_text(size: int) -> None:
    """It counts the calls that had begun, finished or not, however the body was cut."""
    pieces = [BODY[at : at + size] for at in range(0, len(BODY), size)]
    assert places(*pieces) == [("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 2)]
