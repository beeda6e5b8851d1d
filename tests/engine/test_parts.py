"""Texts that come twice are shown once, and events that come again are skipped."""

from __future__ import annotations

import pytest

from streamfold import StreamDecoder, ToolCall
from streamfold.engine.fold import Fold
from streamfold.engine.lanes import Lane
from streamfold.engine.parts import EventNumbers, Parts
from streamfold.values.deltas import Call, Delta, Finish, Part, Reasoning, Sequence, Summary, Text, Warn
from tables import each_row


def feed(*deltas: Text | Reasoning) -> list[Delta]:
    parts, lanes = Parts(lambda kind: lanes[kind]), {kind: Lane(1000, "text_chars") for kind in (Text, Reasoning)}
    shown: list[Delta] = []
    for delta in deltas:
        for made in parts.feed(delta):
            shown.append(made)
            if not isinstance(made, Warn):
                lanes[type(made)].add(made.text)
    return shown


A, B = Part(0, "msg_1", 0), Part(1, "msg_2", 0)


def test_a_whole_that_says_the_same_is_silent():
    """The usual case: pieces, then the whole of the part, of the item, and of the answer."""
    pieces = [Text("Hel", A), Text("lo", A), Text(" you", B)]
    wholes = [Text("Hello", A, whole=True), Text("Hello", A, whole=True), Text(" you", B, whole=True)]
    assert feed(*pieces, *wholes, Text("Hello you", whole=True)) == pieces


@pytest.mark.parametrize("part", [A, None], ids=["of the part", "of the answer"])
def test_a_whole_without_pieces_is_the_text(part: Part | None):
    """Some servers send no pieces at all."""
    assert feed(Text("Hello", part, whole=True), Text("Hello", whole=True)) == [Text("Hello", part)]


def test_the_missing_end_of_a_text_is_shown():
    """What only the whole has is shown, with a warning."""
    shown = feed(Text("Hel", A), Text("Hello", A, whole=True), Text("Hello", whole=True))
    assert shown == [Text("Hel", A), Warn("text_mismatch", "the end of a text came only with its whole"), Text("lo", A)]


def test_what_was_shown_stays():
    """Another text than the pieces can't be shown any more: a warning says where they part."""
    (piece, warning) = feed(Text("Help", A), Text("Hello", A, whole=True))
    assert piece == Text("Help", A)
    assert warning == Warn(
        "text_mismatch", "the pieces of a text and its whole differ: at character 3, 'p' was shown and 'lo' is said"
    )


def test_parts_by_position_or_by_item():
    """llama.cpp sends no position, Copilot another id each time, transformers the item again at another position."""
    for whole in (Part(None, "msg_1", 0), Part(0, "other", 0), Part(3, "msg_1", 0)):
        assert feed(Text("Hello", A), Text("Hello", whole, whole=True)) == [Text("Hello", A)]


def test_kinds_are_apart():
    """Reasoning and text of the same item are different texts."""
    both = [Reasoning("Hm", A), Text("Hm", A)]
    assert feed(*both, Reasoning("Hm", A, whole=True), Text("Hm", whole=True)) == both


def test_repeated_events():
    """An event that is the same to the byte under the same number came before; a number alone proves nothing."""
    numbers = EventNumbers()
    fed = [(0, "a"), (1, "b"), (1, "b"), (0, "a"), (2, "c"), (5, "d"), (4, "e"), (4, "f"), (4, "f")]
    assert [warning and warning.code for warning in (numbers.feed(Sequence(n), data) for n, data in fed)] == [
        None, None, "repeated_event", "repeated_event", None, "missing_event", None, None, "repeated_event",
    ]  # fmt: skip


@each_row(
    ("pieces", "whole", "call", "codes"),
    [
        ('{"x":1}', '{"x":1}', ToolCall("a", "f", {"x": 1}, '{"x":1}'), []),
        ("", '{"x":1}', ToolCall("a", "f", {"x": 1}, '{"x":1}'), []),
        ('{"x":1}', "", ToolCall("a", "f", {"x": 1}, '{"x":1}'), []),
        ('"x":1}', '{"x":1}', ToolCall("a", "f", {"x": 1}, '{"x":1}'), ["arguments_mismatch"]),
        ('{"x":1}', '"x":1}', ToolCall("a", "f", {"x": 1}, '{"x":1}'), ["arguments_mismatch"]),
        ('{"x":1}', '{"x":2}', ToolCall("a", "f", {"x": 2}, '{"x":2}'), ["arguments_mismatch"]),
        (
            '{"x"', '"x":1}', ToolCall("a", "f", {"_raw": '"x":1}', "_error": "invalid_json"}, '"x":1}'),
            ["arguments_mismatch", "invalid_arguments"],
        ),
    ],
    ids=["equal", "only the whole", "only the pieces", "pieces broken", "whole broken", "both read", "neither reads"],
)  # fmt: skip
def test_arguments_as_pieces_and_as_a_whole(pieces: str, whole: str, call: ToolCall, codes: list[str]):
    """The whole counts if it is an object, else the pieces if they are; a difference is always a warning."""
    fold = Fold()
    fold.feed(Call(0, "a", "f", pieces))
    fold.feed(Call(0, arguments=whole, whole=True))
    fold.feed(Summary([Call(0, "a", "f", whole, whole=True)]))
    fold.feed(Finish("stop", "completed"))
    fold.finish()
    assert fold.reply.tool_calls == [call]
    assert [warning.code for warning in fold.reply.warnings] == codes


def test_a_repeated_event_is_skipped_whole():
    """A resumed stream does not repeat what it says."""

    class Adapter:
        name, path, framing = "numbered", "/", None

        def decode(self, event):
            number, _, text = event.data.partition(" ")
            return [Sequence(int(number)), Text(text), *([Finish("stop", "end")] if text == "b" else [])]

    decoder = StreamDecoder(Adapter())  # type: ignore[arg-type]
    chunks = decoder.feed(b"data: 0 a\n\ndata: 0 a\n\ndata: 1 b\n\n") + decoder.close()
    assert [chunk.delta for chunk in chunks] == ["a", "b", ""]
    assert [warning.code for warning in decoder.reply.warnings] == ["repeated_event"]
