"""`Fold` alone: deltas in, chunks and a reply out."""

from __future__ import annotations

from typing import Any

import pytest

from folding import codes
from streamfold import (
    EmptyResponseError,
    IncompleteStreamError,
    Limits,
    Message,
    ProtocolError,
    Reply,
    StreamChunk,
    StreamfoldError,
    ToolCall,
    UpstreamError,
    Usage,
)
from streamfold.engine.fold import Fold
from streamfold.values import ErrorInfo
from streamfold.values.deltas import Call, Delta, Done, Extra, Failure, Finish, Meta, Reasoning, Refusal, Text, Warn
from streamfold.values.replies import ProtocolWarning
from tables import each_row

A_CALL = Call(0, "a", "f", '{"x":1}')
MADE = ToolCall("a", "f", {"x": 1}, '{"x":1}')
STOP = Finish("stop", "stop")
TOOL_CALLS = Finish("tool_calls", "tool_calls")


def run(*deltas: Delta, **options: Any) -> tuple[list[StreamChunk], Reply]:
    """The chunks and the reply of these deltas; the input ends after them."""
    fold = Fold(**options)
    chunks = [chunk for delta in deltas if (chunk := fold.feed(delta)) is not None]
    if (chunk := fold.finish()) is not None:
        chunks.append(chunk)
    return chunks, fold.reply


# --- when it ends ---------------------------------------------------------------------------------------------------


def test_finish_reason_and_done():
    """A finish reason and `Done` finish the answer; usage between the two is on the finished chunk."""
    usage = Usage(1, 2, 3)
    chunks, reply = run(Text("Hel"), Text("lo"), STOP, usage, Done())
    assert chunks == [
        StreamChunk("Hel"),
        StreamChunk("lo"),
        StreamChunk(finished=True, finish_reason="stop", usage=usage),
    ]
    assert reply == Reply(text="Hello", finish_reason="stop", raw_finish_reason="stop", usage=usage)


def test_finish_reason_and_the_end_of_the_input():
    """A finish reason and the end of the input finish the answer as well."""
    assert run(Text("Hello"), STOP) == run(Text("Hello"), STOP, Done())


def test_the_last_usage_counts():
    """Of several usages the last one counts; they are never added up."""
    assert run(Text("Hi"), Usage(1, 1, 2), Usage(1, 2, 3), STOP, Done())[1].usage == Usage(1, 2, 3)


def test_no_usage_is_made_up():
    """Without usage there is none."""
    chunks, reply = run(Text("Hi"), STOP)
    assert chunks[-1].usage is None
    assert reply.usage is None


def test_finish_reason_and_a_broken_connection():
    """After the finish reason a broken connection is a warning."""
    fold = Fold()
    fold.feed(A_CALL)
    fold.feed(TOOL_CALLS)
    assert fold.finish("connection reset") == StreamChunk(tool_calls=[MADE], finished=True, finish_reason="tool_calls")
    assert fold.reply.warnings == [ProtocolWarning("interrupted_after_finish", "connection reset")]


def test_finish_reason_and_a_failure():
    """After the finish reason a failure is a warning, and finishes the answer at once."""
    fold = Fold()
    fold.feed(A_CALL)
    fold.feed(TOOL_CALLS)
    assert fold.feed(Failure(ErrorInfo("billing failed"))) == StreamChunk(
        tool_calls=[MADE], finished=True, finish_reason="tool_calls"
    )
    assert fold.reply.warnings == [ProtocolWarning("error_after_finish", "billing failed")]


def test_nothing_follows_the_finished_chunk():
    """There is one finished chunk, whatever is fed after it."""
    fold = Fold()
    fold.feed(Text("Hi"))
    fold.feed(STOP)
    assert fold.feed(Done()) == StreamChunk(finished=True, finish_reason="stop")
    reply = fold.reply
    assert fold.finish() is None
    assert fold.finish("connection reset") is None
    assert fold.feed(Done()) is None
    assert fold.feed(Failure(ErrorInfo("late"))) is None
    assert fold.reply is reply
    assert fold.reply == Reply(text="Hi", finish_reason="stop", raw_finish_reason="stop")


def test_done_without_a_finish_reason():
    """`Done` without a finish reason finishes the answer for a reason unknown; calls are handed out."""
    chunks, reply = run(A_CALL, Done())
    assert chunks == [StreamChunk(tool_calls=[MADE], finished=True, finish_reason="unknown")]
    assert reply.raw_finish_reason is None
    assert codes(reply) == ["missing_finish_reason"]


@pytest.mark.parametrize(
    ("interrupted", "message"),
    [
        (None, "the stream ended before the answer was finished"),
        ("connection reset", "connection reset before the answer was finished"),
    ],
)
def test_the_end_of_the_input_before_a_finish_reason(interrupted: str | None, message: str):
    """Without a finish reason the end of the input is an error, however it ended, and there is no reply."""
    fold = Fold()
    fold.feed(Text("Hel"))
    fold.feed(A_CALL)
    with pytest.raises(IncompleteStreamError) as caught:
        fold.finish(interrupted)
    assert caught.value.message == message
    assert caught.value.retryable
    assert not fold.finished
    assert fold.partial() == Reply(text="Hel")
    with pytest.raises(StreamfoldError, match="no reply yet"):
        _ = fold.reply


@pytest.mark.parametrize(("reason", "why"), [("length", "cut off"), ("content_filter", "filtered")])
def test_length_and_content_filter(reason: Any, why: str):
    """An answer that was cut off or filtered hands out no calls, and names those it dropped."""
    chunks, reply = run(Text("Hi"), A_CALL, Call(1, "b", "g", '{"y"'), Finish(reason, "the server's word"), Done())
    assert chunks[-1] == StreamChunk(finished=True, finish_reason=reason)
    assert reply.tool_calls == []
    assert reply.raw_finish_reason == "the server's word"
    assert codes(reply) == ["calls_dropped"]
    assert why in reply.warnings[0].detail
    assert reply.warnings[0].detail.endswith(": f, g")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_length_and_content_filter_without_calls(reason: Any):
    """Without calls a cut answer is no cause for a warning."""
    assert codes(run(Text("Hi"), Finish(reason, reason), Done())[1]) == []


def test_stop_with_calls():
    """Calls decide what `stop` means; the raw word is kept."""
    chunks, reply = run(A_CALL, STOP, Done())
    assert chunks == [StreamChunk(tool_calls=[MADE], finished=True, finish_reason="tool_calls")]
    assert reply.raw_finish_reason == "stop"
    assert codes(reply) == []


def test_a_failure():
    """A failure before the finish reason is the server's error, and there are no calls."""
    fold = Fold()
    fold.feed(Text("Hi"))
    fold.feed(A_CALL)
    body = {"error": {"message": "slow down"}}
    with pytest.raises(UpstreamError) as caught:
        fold.feed(Failure(ErrorInfo("slow down", "rate_limit_error", "too_fast", 429), body))
    error = caught.value
    assert (error.message, error.type, error.code, error.status_code) == (
        "slow down",
        "rate_limit_error",
        "too_fast",
        429,
    )
    assert error.retryable
    assert error.body is body
    assert fold.partial() == Reply(text="Hi")


def test_nothing_at_all():
    """The end of an input without any delta is an empty response."""
    with pytest.raises(EmptyResponseError, match="no event came before its end"):
        Fold().finish()


def test_done_and_nothing_else():
    """`Done` alone is an empty response, and a warning before it does not change that."""
    with pytest.raises(EmptyResponseError, match="sent nothing"):
        Fold().feed(Done())
    fold = Fold()
    fold.feed(Warn("extra_choice", "choice 1"))
    with pytest.raises(EmptyResponseError):
        fold.feed(Done())


def test_a_broken_connection_before_anything():
    """A connection that breaks before anything came is a broken connection, not an empty answer."""
    with pytest.raises(IncompleteStreamError, match="connection reset"):
        Fold().finish("connection reset")


def test_an_early_finish_reason():
    """A finish reason is not the end: more calls may follow, and the last reason counts."""
    chunks, reply = run(A_CALL, TOOL_CALLS, Call(1, "b", "g", "{}"), STOP, Done())
    assert [chunk.tool_calls for chunk in chunks] == [[MADE, ToolCall("b", "g", {}, "{}")]]
    assert reply.raw_finish_reason == "stop"


def test_cut_arguments_under_tool_calls():
    """Arguments that were cut although the reason says otherwise are handed out so that they can't be run."""
    chunks, reply = run(Call(0, "a", "f", '{"x":'), TOOL_CALLS, Done())
    [made] = reply.tool_calls
    assert made == ToolCall("a", "f", {"_raw": '{"x":', "_error": "invalid_json"}, '{"x":')
    assert made.error == "invalid_json"
    assert chunks[-1].tool_calls == [made]
    assert codes(reply) == ["invalid_arguments"]


@pytest.mark.parametrize("finish", [TOOL_CALLS, STOP])
def test_tool_choice_none(finish: Finish):
    """After the tool choice `none` calls are dropped with a warning, and the reason is `stop`."""
    chunks, reply = run(Text("Hi"), A_CALL, finish, Done(), tool_choice="none")
    assert chunks[-1] == StreamChunk(finished=True, finish_reason="stop")
    assert reply.tool_calls == []
    assert reply.raw_finish_reason == finish.raw
    assert reply.warnings == [ProtocolWarning("calls_dropped", "the request forbade tool calls: f")]


def test_tool_choice_none_without_calls():
    """After the tool choice `none` an answer without calls is an answer."""
    assert run(Text("Hi"), STOP, Done(), tool_choice="none") == run(Text("Hi"), STOP, Done())


def test_tool_calls_without_calls():
    """A finish reason that promises calls stays, with a warning, where there are none."""
    chunks, reply = run(Text("Hi"), TOOL_CALLS, Done())
    assert chunks[-1] == StreamChunk(finished=True, finish_reason="tool_calls")
    assert codes(reply) == ["missing_tool_calls"]


@each_row(
    ("deltas", "expected"),
    [
        ([Meta("r1")], ["empty_answer"]),
        ([Reasoning("hm")], ["empty_answer"]),
        ([Text("Hi")], []),
        ([Refusal("No.")], []),
        ([A_CALL], []),
    ],
)
def test_an_empty_answer(deltas: list[Delta], expected: list[str]):
    """A finished answer without text, refusal and calls is worth a warning."""
    assert codes(run(*deltas, STOP, Done())[1]) == expected


# --- text -----------------------------------------------------------------------------------------------------------


def test_one_chunk_for_each_text():
    """Text and reasoning pass through at once and apart; what has neither makes no chunk."""
    chunks, reply = run(
        Meta("r1", "m", 1), Reasoning("h"), Text("a"), Text(""), Reasoning("m"), Text("b"), Usage(1), STOP, Done()
    )
    assert chunks[:-1] == [
        StreamChunk(reasoning="h"),
        StreamChunk("a"),
        StreamChunk(reasoning="m"),
        StreamChunk("b"),
    ]
    assert (reply.text, reply.reasoning) == ("ab", "hm")


def test_surrogate_halves_are_joined():
    """The halves of a character that came in two pieces are one character, shown with the second half."""
    chunks, reply = run(Text("a\ud83d"), Text("\udc4bb"), STOP, Done())
    assert [chunk.delta for chunk in chunks] == ["a", "\U0001f44bb", ""]
    assert reply.text == "a\U0001f44bb"


def test_a_whole_surrogate_pair_in_one_piece():
    """Both halves in one piece are joined as well."""
    assert run(Text("\ud83d\udc4b"), STOP, Done())[1].text == "\U0001f44b"


def test_surrogate_halves_are_joined_across_other_deltas():
    """Text, reasoning and refusal each wait for the other half of their own."""
    chunks, reply = run(
        Text("\ud83d"),
        Reasoning("\ud83e"),
        Refusal("\ud83d"),
        A_CALL,
        Text(""),
        Reasoning("\udd14"),
        Text("\udc4b"),
        Refusal("\udc4e"),
        STOP,
        Done(),
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
    chunks, reply = run(*(Text(piece) for piece in pieces), STOP, Done())
    assert [chunk.delta for chunk in chunks] == deltas
    assert reply.text == "".join(deltas)
    reply.text.encode()


def test_a_half_that_is_held_back_is_not_in_the_partial():
    """What is held back has not been shown, and is not in the partial answer either."""
    fold = Fold()
    fold.feed(Text("a\ud83d"))
    assert fold.partial().text == "a"


# --- calls ----------------------------------------------------------------------------------------------------------


def test_calls_are_on_the_finished_chunk_alone():
    """Calls wait for the end; they are not parsed into chunks on the way."""
    fold = Fold()
    assert fold.feed(Call(0, "a", "f")) is None
    assert fold.feed(Call(0, arguments='{"x":1}')) is None
    assert fold.feed(TOOL_CALLS) is None
    assert not fold.finished
    assert fold.feed(Done()) == StreamChunk(tool_calls=[MADE], finished=True, finish_reason="tool_calls")
    assert fold.finished


def test_calls_in_the_order_of_their_index():
    """The calls of the reply are in the model's order."""
    _, reply = run(Call(1, "b", "g", "{}"), Call(0, "a", "f", '{"x":1}'), TOOL_CALLS, Done())
    assert reply.tool_calls == [MADE, ToolCall("b", "g", {}, "{}")]


def test_extra_members_stay_with_their_call():
    """Members that a provider wants back are on the call, and on the message for the history."""
    signature = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    _, reply = run(Call(0, "a", "f", "{}", extra=signature), TOOL_CALLS, Done())
    assert reply.tool_calls[0].extra == signature
    assert reply.message.tool_calls[0].extra == signature


def test_a_call_without_a_name():
    """A call without a name is dropped with a warning that says which one."""
    _, reply = run(
        Call(0, "a", None, "{}"), Call(1, None, None, '{"y":2}'), Call(2, "c", "h", "{}"), TOOL_CALLS, Done()
    )
    assert reply.tool_calls == [ToolCall("c", "h", {}, "{}")]
    assert codes(reply) == ["calls_dropped"]
    assert reply.warnings[0].detail.endswith('a, {"y":2}')


def test_limits_of_calls_reach_the_fold():
    """A limit that is exceeded is an error."""
    fold = Fold(limits=Limits(tool_calls=1))
    fold.feed(A_CALL)
    with pytest.raises(ProtocolError, match=r"limits\.tool_calls"):
        fold.feed(Call(1, "b", "g"))


# --- fresh ids ------------------------------------------------------------------------------------------------------


def ids(*deltas: Delta) -> list[str]:
    """The ids of the calls of these deltas."""
    return [made.id for made in run(*deltas, TOOL_CALLS, Done())[1].tool_calls]


def test_fresh_ids_are_deterministic():
    """A recording folds to the same made-up ids every time."""
    deltas = [Meta("r1", "m", 1), Call(0, None, "f", "{}"), Call(1, None, "f", "{}")]
    assert ids(*deltas) == ids(*deltas)


def test_fresh_ids_differ_within_an_answer():
    """Equal calls of one answer get different ids."""
    made = ids(*(Call(index, None, "f", "{}") for index in range(20)))
    assert len(set(made)) == 20
    assert all(made)


def test_fresh_ids_differ_between_answers():
    """The same call in another answer gets another id, so that ids do not meet in a history."""
    answers = [Meta("r1", "m", 1), Meta("r2", "m", 1), Meta("r1", "m", 2), Meta("r1", "n", 1)]
    assert len({ids(meta, Call(0, None, "f", "{}"))[0] for meta in answers}) == 4


def test_fresh_ids_do_not_meet_the_servers_ids():
    """A made-up id is never one that the server used for another call."""
    [fresh] = ids(Call(0, None, "f", "{}"))
    first, second = ids(Call(0, None, "f", "{}"), Call(1, fresh, "g", "{}"))
    assert second == fresh
    assert first not in ("", fresh)


def test_missing_ids():
    """A call without an id gets one, with a warning; an id that was sent stays byte for byte."""
    _, reply = run(Call(0, " functions.f:0 ", "f", "{}"), Call(1, None, "g", "{}"), TOOL_CALLS, Done())
    assert reply.tool_calls[0].id == " functions.f:0 "
    assert reply.tool_calls[1].id
    assert reply.warnings == [ProtocolWarning("missing_id", "g came without an id")]


def test_duplicate_ids():
    """Of two calls with one id the first one keeps it, also if a third one comes."""
    _, reply = run(Call(0, "a", "f", "{}"), Call(1, "a", "g", "{}"), Call(2, "a", "h", "{}"), TOOL_CALLS, Done())
    assert reply.tool_calls[0].id == "a"
    assert len({made.id for made in reply.tool_calls}) == 3
    assert [made.name for made in reply.tool_calls] == ["f", "g", "h"]
    assert codes(reply) == ["duplicate_id", "duplicate_id"]


# --- the reply ------------------------------------------------------------------------------------------------------


def test_the_reply():
    """The reply has all that came, each in its place."""
    usage = Usage(1, 2, 3, cached_tokens=1)
    _, reply = run(
        Meta("", "m1", 5),
        Meta("r1", "m2"),
        Reasoning("hm"),
        Text("Hi"),
        Refusal("No"),
        Refusal("."),
        Extra("annotations", {"url": "u"}),
        Extra("annotations", {"url": "v"}),
        A_CALL,
        Warn("extra_choice", "choice 1"),
        Warn("extra_choice", "choice 1"),
        usage,
        TOOL_CALLS,
        Done(),
    )
    assert reply == Reply(
        text="Hi",
        reasoning="hm",
        refusal="No.",
        tool_calls=[MADE],
        finish_reason="tool_calls",
        raw_finish_reason="tool_calls",
        usage=usage,
        warnings=[ProtocolWarning("extra_choice", "choice 1")],
        id="r1",
        model="m1",
        extras={"annotations": [{"url": "u"}, {"url": "v"}]},
        reasoned=True,
    )


def test_the_partial():
    """The partial answer has what came so far, without calls, and is not changed by what comes after."""
    fold = Fold()
    for delta in (
        Meta("r1", "m"),
        Reasoning("hm"),
        Text("Hi"),
        A_CALL,
        Extra("audio", 1),
        Usage(1),
        Warn("extra_choice", "x"),
    ):
        fold.feed(delta)
    partial = fold.partial()
    fold.feed(Extra("audio", 2))
    fold.feed(Text("!"))
    assert partial == Reply(
        text="Hi",
        reasoning="hm",
        usage=Usage(1),
        warnings=[ProtocolWarning("extra_choice", "x")],
        id="r1",
        model="m",
        extras={"audio": [1]},
        reasoned=True,
    )


def test_no_reply_before_the_end():
    """Before the finished chunk there is no reply, and the error says when there will be one."""
    with pytest.raises(StreamfoldError, match="once the finished chunk has been handed out"):
        _ = Fold().reply


def test_message():
    """The message of a reply is the turn for the history: text, calls, reasoning and what else there was."""
    _, reply = run(
        Reasoning("hm"), Text("Hi"), Call(0, "a", "f", '{ "x":1 }'), Extra("annotations", 1), TOOL_CALLS, Done()
    )
    assert reply.message == Message(
        "assistant",
        "Hi",
        (ToolCall("a", "f", {"x": 1}, '{ "x":1 }'),),
        reasoning="hm",
        extras={"annotations": [1]},
    )


@pytest.mark.parametrize(("deltas", "reasoning"), [([], None), ([Reasoning("")], ""), ([Reasoning("hm")], "hm")])
def test_message_reasoning(deltas: list[Delta], reasoning: str | None):
    """Empty reasoning and no reasoning differ."""
    _, reply = run(*deltas, Text("Hi"), STOP, Done())
    assert reply.message.reasoning == reasoning


def test_message_without_text():
    """A turn of calls alone has no content, and a refusal is not content."""
    assert run(A_CALL, TOOL_CALLS, Done())[1].message == Message("assistant", None, (MADE,))
    assert run(Refusal("No."), STOP, Done())[1].message == Message("assistant", None, refusal="No.")


def test_message_of_repaired_and_invalid_arguments():
    """The history gets the text that was parsed, and of a call that can't be parsed the model's own text."""
    _, reply = run(Call(0, "a", "f", '{}{"x":1}'), Call(1, "b", "g", "{'y':2}"), TOOL_CALLS, Done())
    assert [call.raw_arguments for call in reply.message.tool_calls] == ['{"x":1}', "{'y':2}"]
    assert codes(reply) == ["repaired_arguments", "invalid_arguments"]
