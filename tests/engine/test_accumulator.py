"""`StreamAccumulator` alone: deltas in, chunks and a reply out."""

from __future__ import annotations

from typing import Any

from folding import codes
from streamfold import (
    Message,
    Reply,
    StreamChunk,
    ToolCall,
    Usage,
)
from streamfold.deltas import (
    Delta,
    ExtraPart,
    Finish,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    Warn,
)
from streamfold.engine.accumulator import StreamAccumulator
from streamfold.types.warnings import ReplyWarning
from tables import each_row

A_CALL = ToolCallDelta(0, "a", "f", '{"x":1}')
MADE = ToolCall("a", "f", {"x": 1}, '{"x":1}')
STOP = Finish("stop", "stop")
TOOL_CALLS = Finish("tool_calls", "tool_calls")


def run(*deltas: Delta, **options: Any) -> tuple[list[StreamChunk], Reply]:
    """The chunks and the reply of these deltas; the input ends after them."""
    fold = StreamAccumulator(**options)
    chunks = [chunk for delta in deltas if (chunk := fold.feed(delta)) is not None]
    if (chunk := fold.finish()) is not None:
        chunks.append(chunk)
    return chunks, fold.reply


# --- text -----------------------------------------------------------------------------------------------------------


def test_surrogate_halves_are_joined_across_other_deltas():
    """Text, reasoning and refusal each wait for the other half of their own."""
    chunks, reply = run(
        TextDelta("\ud83d"),
        ReasoningDelta("\ud83e"),
        RefusalDelta("\ud83d"),
        A_CALL,
        TextDelta(""),
        ReasoningDelta("\udd14"),
        TextDelta("\udc4b"),
        RefusalDelta("\udc4e"),
        STOP,
        StreamEnd(),
    )
    assert [(chunk.delta, chunk.reasoning) for chunk in chunks] == [("", "\U0001f914"), ("\U0001f44b", ""), ("", "")]
    assert (reply.text, reply.reasoning, reply.refusal) == ("\U0001f44b", "\U0001f914", "\U0001f44e")


@each_row(
    ("pieces", "deltas"),
    [
        (["a\ud83d"], ["a", "\ufffd"]),
        (["a\ud83d", "b"], ["a", "\ufffdb", ""]),
        (["\udc4b", "b"], ["\ufffd", "b", ""]),
        (["\ud83d", "\ud83d", "\udc4b"], ["\ufffd", "\U0001f44b", ""]),
        (["a\ud83db"], ["a\ufffdb", ""]),
    ],
)
def test_a_half_that_stays_alone(pieces: list[str], deltas: list[str]):
    """Half a character that stays alone becomes U+FFFD, so that text can always be encoded."""
    chunks, reply = run(*(TextDelta(piece) for piece in pieces), STOP, StreamEnd())
    assert [chunk.delta for chunk in chunks] == deltas
    assert reply.text == "".join(deltas)
    reply.text.encode()


# --- calls ----------------------------------------------------------------------------------------------------------


def test_extra_members_stay_with_their_call():
    """Members that a provider wants back are on the call, and on the message for the history."""
    signature = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    _, reply = run(ToolCallDelta(0, "a", "f", "{}", extra=signature), TOOL_CALLS, StreamEnd())
    assert reply.tool_calls[0].extra == signature
    assert reply.message.tool_calls[0].extra == signature


# --- fresh ids ------------------------------------------------------------------------------------------------------


def ids(*deltas: Delta) -> list[str]:
    """The ids of the calls of these deltas."""
    return [made.id for made in run(*deltas, TOOL_CALLS, StreamEnd())[1].tool_calls]


def test_fresh_ids_differ_between_answers():
    """The same call in another answer gets another id, so that ids do not meet in a history."""
    answers = [Meta("r1", "m", 1), Meta("r2", "m", 1), Meta("r1", "m", 2), Meta("r1", "n", 1)]
    assert len({ids(meta, ToolCallDelta(0, None, "f", "{}"))[0] for meta in answers}) == 4


def test_fresh_ids_do_not_meet_the_servers_ids():
    """A made-up id is never one that the server used for another call."""
    [fresh] = ids(ToolCallDelta(0, None, "f", "{}"))
    first, second = ids(ToolCallDelta(0, None, "f", "{}"), ToolCallDelta(1, fresh, "g", "{}"))
    assert second == fresh
    assert first not in ("", fresh)


# --- the reply ------------------------------------------------------------------------------------------------------


def test_the_reply():
    """The reply has all that came, each in its place."""
    usage = Usage(1, 2, 3, cached_tokens=1)
    _, reply = run(
        Meta("", "m1", 5),
        Meta("r1", "m2"),
        ReasoningDelta("hm"),
        TextDelta("Hi"),
        RefusalDelta("No"),
        RefusalDelta("."),
        ExtraPart("annotations", {"url": "u"}),
        ExtraPart("annotations", {"url": "v"}),
        A_CALL,
        Warn("extra_choice", "choice 1"),
        Warn("extra_choice", "choice 1"),
        usage,
        TOOL_CALLS,
        StreamEnd(),
    )
    assert reply == Reply(
        text="Hi",
        reasoning="hm",
        refusal="No.",
        tool_calls=[MADE],
        finish_reason="tool_calls",
        raw_finish_reason="tool_calls",
        usage=usage,
        warnings=[ReplyWarning("extra_choice", "choice 1")],
        id="r1",
        model="m1",
        extras={"annotations": [{"url": "u"}, {"url": "v"}]},
        reasoned=True,
    )


def test_message():
    """The message of a reply is the turn for the history: text, calls, reasoning and what else there was."""
    _, reply = run(
        ReasoningDelta("hm"),
        TextDelta("Hi"),
        ToolCallDelta(0, "a", "f", '{ "x":1 }'),
        ExtraPart("annotations", 1),
        TOOL_CALLS,
        StreamEnd(),
    )
    assert reply.message == Message(
        "assistant",
        "Hi",
        (ToolCall("a", "f", {"x": 1}, '{ "x":1 }'),),
        reasoning="hm",
        extras={"annotations": [1]},
    )


def test_message_without_text():
    """A turn of calls alone has no content, and a refusal is not content."""
    assert run(A_CALL, TOOL_CALLS, StreamEnd())[1].message == Message("assistant", None, (MADE,))
    assert run(RefusalDelta("No."), STOP, StreamEnd())[1].message == Message("assistant", None, refusal="No.")


def test_message_of_repaired_and_invalid_arguments():
    """The history gets the text that was parsed, and of a call that can't be parsed the model's own text."""
    _, reply = run(
        ToolCallDelta(0, "a", "f", '{}{"x":1}'), ToolCallDelta(1, "b", "g", "{'y':2}"), TOOL_CALLS, StreamEnd()
    )
    assert [call.raw_arguments for call in reply.message.tool_calls] == ['{"x":1}', "{'y':2}"]
    assert codes(reply) == ["repaired_arguments", "invalid_arguments"]
