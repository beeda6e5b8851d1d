"""Texts that come twice are shown once, and events that come again are skipped."""

from __future__ import annotations

from folding import event
from streamfold import Limits, StreamDecoder
from streamfold.deltas import Delta, Finish, PartRef, ReasoningDelta, Sequence, TextDelta, Warn
from streamfold.engine.accumulator import text_buffers
from streamfold.engine.deduplication import TextDeduplicator


def feed(*deltas: TextDelta | ReasoningDelta) -> list[Delta]:
    buffers = text_buffers(Limits())
    parts = TextDeduplicator(buffers)
    shown: list[Delta] = []
    for delta in deltas:
        for made in parts.feed(delta):
            shown.append(made)
            if not isinstance(made, Warn):
                buffers[type(made)].add(made.text)
    return shown


A, B = PartRef(0, "msg_1", 0), PartRef(1, "msg_2", 0)


def test_the_missing_end_of_a_text_is_shown():
    """What only the whole has is shown, with a warning."""
    shown = feed(TextDelta("Hel", A), TextDelta("Hello", A, whole=True), TextDelta("Hello", whole=True))
    assert shown == [
        TextDelta("Hel", A),
        Warn("text_mismatch", "the end of a text was missing in the deltas and arrived only with the complete text"),
        TextDelta("lo", A),
    ]


def test_a_repeated_event_is_skipped_whole():
    """A resumed stream does not repeat what it says."""

    class Adapter:
        name, path, framing = "numbered", "/", None

        def decode(self, event):
            number, _, text = event.data.partition(" ")
            return [Sequence(int(number)), TextDelta(text), *([Finish("stop", "end")] if text == "b" else [])]

    decoder = StreamDecoder(Adapter())  # type: ignore[arg-type]
    chunks = decoder.feed(b"data: 0 a\n\ndata: 0 a\n\ndata: 1 b\n\n") + decoder.close()
    assert [chunk.delta for chunk in chunks] == ["a", "b", ""]
    assert [warning.code for warning in decoder.reply.warnings] == ["repeated_event"]


def test_texts_of_two_items_stay_apart():
    """Text of an item that begins inside another one is shown when that one is done."""
    parts = TextDeduplicator(text_buffers(Limits()))
    shown = [parts.feed(text) for text in (TextDelta("a", A), TextDelta("x", B), TextDelta("b", A), TextDelta("y", B))]
    assert shown == [[TextDelta("a", A)], [], [TextDelta("b", A)], []]
    assert (parts.finish_item(0), parts.feed(TextDelta("z", B))) == ([TextDelta("xy", PartRef(1))], [TextDelta("z", B)])


def test_nothing_that_waits_is_lost():
    """An answer that breaks off has the text of every item."""
    said = [("a", A), ("x", B), ("b", A), ("y", B)]
    texts = [
        {"type": "response.output_text.delta", "output_index": part.output, "item_id": part.item, "delta": piece}
        for piece, part in said
    ]
    decoder = StreamDecoder("responses")
    shown = decoder.feed(b"".join(event(text) for text in texts))
    assert [chunk.delta for chunk in shown] == ["a", "b"]
    assert [chunk.delta for chunk in decoder.end()] == ["xy"]
    assert decoder.partial().text == "abxy"


def test_what_only_the_final_list_has_keeps_its_order():
    """Texts and calls that a server says only at the end are read item by item, as in an answer that isn't streamed."""
    items = [
        {"id": "m_1", "type": "message", "content": [{"type": "output_text", "text": "One"}]},
        {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"id": "m_2", "type": "message", "content": [{"type": "output_text", "text": "Two"}]},
    ]
    decoder = StreamDecoder("responses")
    completed = {"type": "response.completed", "response": {"status": "completed", "output": items}}
    chunks = decoder.feed(event(completed)) + decoder.close()
    assert [(chunk.delta, chunk.preceding_calls) for chunk in chunks[:-1]] == [("One", 0), ("Two", 1)]
    assert [call.id for call in decoder.reply.tool_calls] == ["c1"]
    assert (decoder.reply.text, decoder.reply.warnings) == ("OneTwo", [])
