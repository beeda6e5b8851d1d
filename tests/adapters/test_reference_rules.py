"""What two earlier designs of such a library promised, as far as a client can keep it.

The numbers in the names are the rows of those designs: 000 is a note on how streamed calls are put together, 003 a
connector whose rules are kept where they were good (003-1, 003-14, 003-17) and turned round where they lost something.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from folding import (
    DONE,
    assert_any_cut,
    bytewise,
    call,
    calls,
    chunk,
    codes,
    entry,
    event,
    fin,
    fold,
    fold_chunks,
    fold_error,
    text,
)
from streamfold import (
    IncompleteStreamError,
    InvalidToolArgumentsError,
    ProtocolError,
    StreamChunk,
    StreamDecoder,
    ToolCall,
    UpstreamError,
    Usage,
)

END = fin("tool_calls") + DONE
ONE_CALL = call(entry(0, "call_a", "f", '{"x"')) + call(entry(0, arguments=":1}"))


def test_000_1_index_separates_calls():
    """The four chunks of the note are one call with both of its arguments."""
    reply = assert_any_cut(
        call(entry(0, "call_abc", "extract_info", "", type="function"))
        + call(entry(0, arguments='{"body_part":'))
        + call(entry(0, arguments='"肩部","symptom'))
        + call(entry(0, arguments='_type":"疼痛"}'))
        + END
    )
    raw = '{"body_part":"肩部","symptom_type":"疼痛"}'
    assert reply.tool_calls == [
        ToolCall("call_abc", "extract_info", {"body_part": "肩部", "symptom_type": "疼痛"}, raw)
    ]


def test_000_2_id_and_name_only_in_the_first_fragment():
    """Fragments without id and name leave those of the first one alone."""
    reply = assert_any_cut(
        call(entry(0, "call_a", "f", '{"x"'))
        + call(entry(1, "call_b", "g", "{"))
        + call(entry(0, arguments=":1}"))
        + call(entry(1, arguments="}"))
        + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {})]


def test_000_3_arguments_are_parsed_once_after_the_end(monkeypatch: pytest.MonkeyPatch):
    """Arguments are joined, and parsed once per call when the stream has ended; a cut stream parses nothing."""
    parsed: list[str] = []

    def parse_object(argument: str) -> Any:
        parsed.append(argument)
        return json.loads(argument)

    monkeypatch.setattr("streamfold.text.arguments.parse_object", parse_object)
    monkeypatch.setattr("streamfold.engine.opencall.parse_object", parse_object)
    body = ONE_CALL + call(entry(1, "call_b", "g", "{}")) + fin("tool_calls")
    decoder = StreamDecoder("chat")
    for piece in bytewise(body):
        decoder.feed(piece)
    assert parsed == []
    decoder.feed(DONE)
    assert parsed == ['{"x":1}', "{}"]
    fold_error(ONE_CALL)
    assert parsed == ['{"x":1}', "{}"]


def test_000_4_calls_are_sorted_by_index():
    """The order of the calls is that of their indices, not that of their arrival."""
    reply = assert_any_cut(call(entry(1, "call_b", "g", '{"y":2}')) + call(entry(0, "call_a", "f", '{"x":1}')) + END)
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_000_5_empty_arguments():
    """Empty arguments are an empty object."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", "")) + END)
    assert reply.tool_calls == [ToolCall("call_a", "f", {}, "")]


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_000_6_reasons_that_hand_out_calls(reason: str):
    """`stop` and `tool_calls` both hand out calls."""
    reply = assert_any_cut(ONE_CALL + fin(reason) + DONE)
    assert calls(reply) == [("call_a", "f", {"x": 1})]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_000_6_reasons_that_hand_out_none(reason: str):
    """A cut or filtered answer hands out no calls, and its calls are not even parsed."""
    reply = assert_any_cut(ONE_CALL + fin(reason) + DONE)
    assert reply.tool_calls == []
    assert reply.finish_reason == reason
    assert codes(reply) == ["calls_dropped"]


@pytest.mark.parametrize(
    "body",
    [
        text("Hello") + text(" there") + fin("stop") + DONE,
        text("Hello") + ONE_CALL + END,
        ONE_CALL + text("Hello") + fin("stop"),
        chunk({"content": "Hello"}, "stop"),
        chunk({"content": "Hello", "tool_calls": [entry(0, "call_a", "f", "{}")]}, "tool_calls") + DONE,
        ONE_CALL + DONE,
        chunk({"reasoning_content": "hm"}) + text("Hello") + fin("length") + DONE,
    ],
)
def test_000_7_one_finished_chunk_at_the_end(body: bytes):
    """Text is on every chunk, calls are on the finished one alone, and that one is the last."""
    for pieces in (None, bytewise(body)):
        chunks, reply = fold_chunks(body, pieces)
        assert [made.finished for made in chunks[:-1]] == [False] * (len(chunks) - 1)
        assert chunks[-1].finished
        assert [made for made in chunks if made.tool_calls] == ([chunks[-1]] if reply.tool_calls else [])
        assert [made for made in chunks if made.usage or made.finish_reason] == [chunks[-1]]


def test_000_8_invalid_arguments_of_one_call():
    """Arguments that are not JSON spoil one call and no other."""
    reply = assert_any_cut(call(entry(0, "call_a", "f", '{"x":')) + call(entry(1, "call_b", "g", '{"y":2}')) + END)
    assert calls(reply) == [("call_a", "f", {"_raw": '{"x":', "_error": "invalid_json"}), ("call_b", "g", {"y": 2})]


@pytest.mark.parametrize("interrupted", [None, "the read timed out", "cancelled"])
def test_000_9_an_interrupted_stream_hands_out_no_calls(interrupted: str | None):
    """However a stream breaks off, half of a call is not a call, and neither is a whole one."""
    for cut in (call(entry(0, "call_a", "f", '{"x"')), ONE_CALL):
        decoder = StreamDecoder("chat")
        assert decoder.feed(cut) == []
        with pytest.raises(IncompleteStreamError) as caught:
            decoder.close(interrupted=interrupted)
        assert caught.value.partial is not None
        assert caught.value.partial.tool_calls == []


def test_000_10_no_fragments_are_shown():
    """A chunk has no place for a fragment of a call, so nobody can put one together wrongly."""
    names = [field.name for field in fields(StreamChunk)]
    assert names == ["delta", "tool_calls", "finished", "reasoning", "finish_reason", "usage", "details"]
    chunks, _ = fold_chunks(ONE_CALL + END, bytewise(ONE_CALL + END))
    assert chunks == [
        StreamChunk(
            tool_calls=[ToolCall("call_a", "f", {"x": 1}, '{"x":1}')], finished=True, finish_reason="tool_calls"
        )
    ]
    assert [chunk.fragments for chunk in chunks] == [()]


def test_000_gap_usage_after_the_finish():
    """Usage in a chunk of its own after the finish reason is on the finished chunk."""
    tokens = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    chunks, _ = fold_chunks(ONE_CALL + fin("tool_calls") + event({"id": "c1", "choices": [], "usage": tokens}) + DONE)
    assert chunks[-1].usage == Usage(3, 5, 8, raw=tokens)


def test_000_gap_finish_in_the_chunk_of_the_last_delta():
    """A finish reason beside text or beside a fragment takes nothing from either."""
    reply = assert_any_cut(chunk({"content": "Hello", "tool_calls": [entry(0, "call_a", "f", "{}")]}, "tool_calls"))
    assert reply.text == "Hello"
    assert calls(reply) == [("call_a", "f", {})]
    assert codes(reply) == []


def test_003_1_empty_values_overwrite_nothing():
    """A later value that is empty overwrites nothing, arguments are appended, and Gemini's signature is kept."""
    signature = {"google": {"thought_signature": "c2ln"}}
    reply = assert_any_cut(
        call(entry(0, "call_a", "f", '{"x"', type="function", extra_content=signature))
        + call(entry(0, "", "", ":1}", type=""))
        + END
    )
    [made] = reply.tool_calls
    assert made == ToolCall("call_a", "f", {"x": 1}, '{"x":1}')
    assert made.extra == {"extra_content": signature}


def test_003_2_missing_index_is_not_index_0():
    """Calls without an index are not all the call number 0."""
    reply = assert_any_cut(
        call(entry(None, "call_a", "f", '{"x":1}')) + call(entry(None, "call_b", "g", '{"y":2}')) + END
    )
    assert calls(reply) == [("call_a", "f", {"x": 1}), ("call_b", "g", {"y": 2})]


def test_003_3_id_and_name_make_no_complete_call():
    """A call that has its id, type and name is not complete yet."""
    head = call(entry(0, "call_a", "f", "", type="function"))
    chunks, reply = fold_chunks(head + call(entry(0, arguments='{"x":1}')) + END, None)
    assert [made.tool_calls for made in chunks] == [[ToolCall("call_a", "f", {"x": 1}, '{"x":1}')]]
    assert reply.tool_calls == chunks[-1].tool_calls
    assert type(fold_error(head)) is IncompleteStreamError


def test_003_4_a_call_is_handed_out_once():
    """Each call is on exactly one chunk, however many fragments it had; there are no growing snapshots of it."""
    body = call(entry(0, "call_a", "f")) + b"".join(call(entry(0, arguments=piece)) for piece in '{"x":1}') + END
    seen = [made.id for each in fold_chunks(body, bytewise(body))[0] for made in each.tool_calls or ()]
    assert seen == ["call_a"]


def test_003_5_calls_are_on_the_chunk_of_the_end():
    """The calls come with the finished chunk, which tells the caller that there are no more of them."""
    chunks, _ = fold_chunks(text("Hello") + ONE_CALL + END)
    assert [(made.finished, len(made.tool_calls or ())) for made in chunks] == [(False, 0), (True, 1)]


@pytest.mark.parametrize("rest", [{}, {"type": None}, {"type": ""}, {"type": "function"}])
def test_003_6_type_is_not_needed(rest: dict[str, Any]):
    """A call without a type is a call."""
    reply = assert_any_cut(call({**entry(0, "call_a", "f", "{}"), **rest}) + END)
    assert calls(reply) == [("call_a", "f", {})]


def test_003_7_the_order_is_stable():
    """Calls keep the model's order, by index or by appearance, however many there are."""
    numbers = range(24)
    by_index = b"".join(call(entry(number, f"call_{number}", "f", "{}")) for number in reversed(numbers))
    no_index = b"".join(call(entry(None, f"call_{number}", "f", "{}")) for number in numbers)
    for body in (by_index, no_index):
        assert [made.id for made in fold(body + END).tool_calls] == [f"call_{number}" for number in numbers]


def test_003_8_the_other_choices_are_ignored_aloud():
    """Choice 0 is read wherever it stands in the list; the others are ignored with a warning, and never mixed in."""

    def both(first: str, second: str, reason: str | None = None) -> bytes:
        return event(
            {
                "id": "c1",
                "model": "m",
                "choices": [
                    {"index": 1, "delta": {"content": second}, "finish_reason": reason},
                    {"index": 0, "delta": {"content": first}, "finish_reason": reason},
                ],
            }
        )

    reply = assert_any_cut(both("A1", "B1") + both("A2", "B2") + both("", "", "stop") + DONE)
    assert (reply.text, reply.finish_reason) == ("A1A2", "stop")
    assert codes(reply) == ["extra_choice"]


def test_003_9_data_inside_a_json_body():
    """A JSON body is not an event stream for having `data:` somewhere in its text."""
    message = {"role": "assistant", "content": "first line\ndata: [DONE]\n\ndata: {}"}
    completion = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    reply = assert_any_cut(json.dumps(completion, indent=1).encode())
    assert reply.text == "first line\ndata: [DONE]\n\ndata: {}"


def test_003_9_newline_delimited_json_is_refused():
    """Newline-delimited JSON is another format, and the error says so."""
    error = fold_error(b'{"message":{"content":"Hel"},"done":false}\n{"message":{"content":"lo"},"done":true}\n')
    assert type(error) is ProtocolError
    assert "newline-delimited JSON" in error.message


def test_003_9_done_is_an_end():
    """`[DONE]` is the end of the answer and not a line to skip."""
    reply = assert_any_cut(text("Hello") + fin("stop") + DONE + text(" there") + fin("length"))
    assert (reply.text, reply.finish_reason) == ("Hello", "stop")


def test_003_10_characters_and_line_ends_cut_in_two():
    """Neither a character of several bytes nor a CRLF is damaged by a cut in its middle."""
    body = (text("肩部👋") + call(entry(0, "call_a", "f", '{"x":"疼痛"}')) + END).replace(b"\n", b"\r\n")
    reply = assert_any_cut(body)
    assert reply.text == "肩部👋"
    assert calls(reply) == [("call_a", "f", {"x": "疼痛"})]
    assert codes(reply) == []


def test_003_11_the_last_event_without_its_blank_line():
    """Nothing is lost because the last blank line is missing."""
    reply = assert_any_cut((text("Hel") + chunk({"content": "lo"}, "stop")).rstrip(b"\n"))
    assert (reply.text, reply.finish_reason) == ("Hello", "stop")


def test_003_12_chunks_without_id_created_and_model():
    """A chunk needs neither an id nor a time nor a model."""
    reply = assert_any_cut(
        event({"choices": [{"delta": {"content": "Hello"}}]})
        + event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        + DONE
    )
    assert (reply.text, reply.id, reply.model) == ("Hello", None, None)


def test_003_12_an_error_object_is_an_error():
    """An error object in place of a chunk is the server's error, in its own words."""
    error = fold_error(text("Hel") + event({"error": {"message": "overloaded", "code": 503}}) + DONE)
    assert type(error) is UpstreamError
    assert (error.message, error.status_code, error.retryable) == ("overloaded", 503, True)
    assert error.partial is not None
    assert error.partial.text == "Hel"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thought", "thinking"])
def test_003_14_names_of_the_reasoning(name: str):
    """Reasoning has four names, and none of them is text."""
    reply = assert_any_cut(chunk({name: "Let me "}) + chunk({name: "think."}) + text("Hello") + fin("stop") + DONE)
    assert (reply.reasoning, reply.text) == ("Let me think.", "Hello")


def test_003_14_reasoning_under_two_names():
    """Reasoning that is sent under two names is read once."""
    reply = assert_any_cut(chunk({"reasoning": "hm", "reasoning_content": "hm"}) + text("Hello") + fin("stop") + DONE)
    assert reply.reasoning == "hm"


class City(BaseModel):
    """Arguments of a tool."""

    city: str
    days: int = 1


def test_003_17_arguments_as_a_type():
    """Arguments can be had as an instance of a model; what does not fit is an error fit to send back."""
    fits, lacks, broken = fold(
        call(entry(0, "call_a", "f", '{"city":"Paris","days":3}'))
        + call(entry(1, "call_b", "f", ""))
        + call(entry(2, "call_c", "f", '{"city":'))
        + END
    ).tool_calls
    assert fits.parse_as(City) == City(city="Paris", days=3)
    assert lacks.arguments == {}
    with pytest.raises(InvalidToolArgumentsError, match="invalid arguments for f: city: ") as caught:
        lacks.parse_as(City)
    assert caught.value.call is lacks
    with pytest.raises(InvalidToolArgumentsError, match="invalid arguments for f: arguments: Invalid JSON"):
        broken.parse_as(City)
