"""The Responses API, written: deltas in, the very events out, in the order that the API has settled."""

from __future__ import annotations

from typing import Any

import pytest

from folding import fold_error
from mirror import (
    check_open_responses,
    check_response_events,
    emit,
    emit_reply,
    openai_response,
    payloads,
    read,
    serializer,
    types,
)
from sdks import openai
from streamfold import Reply, ToolCall, Usage
from streamfold.deltas import (
    Delta,
    ExtraPart,
    Failure,
    Finish,
    Meta,
    PartRef,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from streamfold.errors import ErrorInfo
from streamfold.serving.responses.serializer import ResponsesSerializer
from tables import each_row

STOP = Finish("stop", "stop")
CALLED = Finish("tool_calls", "tool_calls")
BEGIN = ["created", "in_progress"]
MESSAGE = ["output_item.added", "content_part.added", "output_text.delta"]
MESSAGE_END = ["output_text.done", "content_part.done", "output_item.done"]
REASONING = ["output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"]
REASONING_END = ["reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"]
CALL = ["output_item.added", "function_call_arguments.delta"]
CALL_END = ["function_call_arguments.done", "output_item.done"]


def written(deltas: list[Delta], **rest: Any) -> dict[str, Any]:
    """The response that these deltas make, after every check that there is of its events."""
    body = emit("responses", deltas, **rest)
    check_open_responses(body)
    openai_response(body)
    return check_response_events(body)


def test_a_text_to_the_event() -> None:
    """Item and part are opened, told in pieces, repeated whole, and closed."""
    found = payloads(emit("responses", [TextDelta("Hé"), TextDelta("!"), Usage(1, 2, 3, 1, 1), STOP]))
    at = {"item_id": "msg_0_0", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "Hé!", "annotations": [], "logprobs": []}
    item = {"id": "msg_0_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    assert found[2:-1] == [
        {
            "type": "response.output_item.added",
            "sequence_number": 2,
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", "sequence_number": 3, **at, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", "sequence_number": 4, **at, "delta": "Hé", "logprobs": []},
        {"type": "response.output_text.delta", "sequence_number": 5, **at, "delta": "!", "logprobs": []},
        {"type": "response.output_text.done", "sequence_number": 6, **at, "text": "Hé!", "logprobs": []},
        {"type": "response.content_part.done", "sequence_number": 7, **at, "part": part},
        {"type": "response.output_item.done", "sequence_number": 8, "output_index": 0, "item": item},
    ]
    last = found[-1]["response"]
    assert (last["id"], last["status"], last["output"]) == ("resp_0", "completed", [item])
    assert last["usage"] == {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 3,
    }


def test_every_event_is_named_by_its_type() -> None:
    """The `event:` line and the type are the same, and nothing follows the last one."""
    body = emit("responses", [TextDelta("Hi"), STOP]).decode()
    names = [line[7:] for line in body.split("\n") if line.startswith("event: ")]
    assert names == [payload["type"] for payload in payloads(body.encode())]
    assert "[DONE]" not in body


def test_what_is_next_closes_what_was_open() -> None:
    """Reasoning, text, calls: each item is done before the next one begins."""
    said: list[Delta] = [
        ReasoningDelta("Hm."),
        TextDelta("Hi"),
        ToolCallDelta(0, "a", "f", '{"x":1}', whole=True),
        ToolCallDelta(1, "b", "g", "{}", whole=True),
        CALLED,
    ]
    assert types(emit("responses", said)) == [
        *BEGIN, *REASONING, *REASONING_END, *MESSAGE, *MESSAGE_END, *CALL, *CALL_END, *CALL, *CALL_END, "completed",
    ]  # fmt: skip
    assert [item["type"] for item in written(said)["output"]] == [
        "reasoning", "message", "function_call", "function_call",
    ]  # fmt: skip


def test_calls_in_mixed_pieces_are_one_item_each() -> None:
    """One after the other, as OpenAI's items never overlap: the second waits until the first is complete."""
    said: list[Delta] = [
        ToolCallDelta(0, "a", "f", ""),
        ToolCallDelta(1, "b", "g", '{"y"'),
        ToolCallDelta(0, arguments='{"x"'),
        ToolCallDelta(1, arguments=":2}"),
        ToolCallDelta(0, arguments=":1}"),
        CALLED,
    ]
    assert types(emit("responses", said)) == [
        *BEGIN, *CALL, CALL[1], *CALL_END, *CALL, CALL[1], *CALL_END, "completed",
    ]  # fmt: skip
    assert [(item["call_id"], item["arguments"]) for item in written(said)["output"]] == [
        ("a", '{"x":1}'),
        ("b", '{"y":2}'),
    ]


def test_text_after_a_call_is_a_message_of_its_own() -> None:
    """It is not lost, and waits until the call is complete."""
    said: list[Delta] = [
        ToolCallDelta(0, "a", "f", '{"x"'),
        TextDelta("\n"),
        TextDelta("Done."),
        ToolCallDelta(0, arguments=":1}"),
        CALLED,
    ]
    body = emit("responses", said)
    assert types(body) == [*BEGIN, *CALL, CALL[1], *CALL_END, *MESSAGE, *MESSAGE_END, "completed"]
    assert written(said)["output"][1]["content"][0]["text"] == "\nDone."
    reply = read("responses", body)
    assert (reply.text, reply.tool_calls) == ("\nDone.", [ToolCall("a", "f", {"x": 1}, '{"x":1}')])


@each_row(
    ("said", "kinds", "text"),
    [
        ([TextDelta("\n\n"), ToolCallDelta(0, "a", "f", "{}", whole=True)], ["function_call"], ""),
        (
            [TextDelta("\n"), TextDelta(" Hi"), ToolCallDelta(0, "a", "f", "{}", whole=True)],
            ["message", "function_call"],
            "\n Hi",
        ),
        (
            [TextDelta("\n"), ToolCallDelta(0, "a", "f", "{}", whole=True), TextDelta("Hi")],
            ["function_call", "message"],
            "\nHi",
        ),
        (
            [TextDelta("Hi"), TextDelta("\n\n"), ToolCallDelta(0, "a", "f", "{}", whole=True)],
            ["message", "function_call"],
            "Hi\n\n",
        ),
        ([TextDelta("\n")], ["message"], "\n"),
        ([ReasoningDelta("Hm."), TextDelta("\n")], ["reasoning", "message"], "\n"),
        (
            [TextDelta("Hi"), ToolCallDelta(0, "a", "f", "{}", whole=True), TextDelta("\n")],
            ["message", "function_call", "message"],
            "Hi\n",
        ),
        (
            [TextDelta("Hi"), ReasoningDelta("Hm."), TextDelta("\n"), ToolCallDelta(0, "a", "f", "{}", whole=True)],
            ["message", "reasoning", "function_call", "message"],
            "Hi\n",
        ),
        ([TextDelta("\n"), ToolCallDelta(0, "a", "f", "{}", whole=True), TextDelta("\n")], ["function_call"], ""),
    ],
)
def test_white_space_is_no_message(said: list[Delta], kinds: list[str], text: str) -> None:
    """It waits for the text that it belongs to, and is left out where there are only calls."""
    body = emit("responses", [*said, STOP])
    assert [item["type"] for item in written([*said, STOP])["output"]] == kinds
    assert read("responses", body).text == text


def test_a_refusal_is_a_part_of_its_own() -> None:
    """It is told in events of its own, in the message that has begun or in a new one."""
    said: list[Delta] = [TextDelta("Well,"), RefusalDelta("no"), RefusalDelta("!"), STOP]
    assert types(emit("responses", said)) == [
        *BEGIN, *MESSAGE, *MESSAGE_END[:2], "content_part.added", "refusal.delta", "refusal.delta", "refusal.done",
        "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    [item] = written(said)["output"]
    assert [part.get("text", part.get("refusal")) for part in item["content"]] == ["Well,", "no!"]


def test_reasoning_that_is_not_shown() -> None:
    """It is an item without a summary: that the model reasoned is a fact of its own."""
    assert [
        (item["type"], item.get("summary")) for item in written([ReasoningDelta(""), TextDelta("Hi"), STOP])["output"]
    ] == [
        ("reasoning", []),
        ("message", None),
    ]


def test_reasoning_that_its_provider_can_read_again() -> None:
    """Encrypted reasoning goes on, with its id, as long as what it belongs before has not begun."""
    first, second = ({"type": "reasoning", "id": f"rs_{n}", "encrypted_content": f"E{n}"} for n in (1, 2))
    call = ToolCallDelta(0, "a", "f", "{}", whole=True)
    output = written([ReasoningDelta("Hm."), ExtraPart("output", first), ExtraPart("output", second), call, CALLED])[
        "output"
    ]
    assert [(item["id"], item.get("encrypted_content")) for item in output] == [
        ("rs_0_0", "E1"),
        ("rs_2", "E2"),
        ("fc_0_2", None),
    ]
    late = written([TextDelta("Hi"), ExtraPart("output", first), STOP])["output"]
    assert [item["type"] for item in late] == ["message"]


def test_citations() -> None:
    """They are events, and in the part; those of Chat Completions lose their envelope."""
    nested = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
    flat = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    said: list[Delta] = [TextDelta("Hi"), ExtraPart("annotations", nested), ExtraPart("annotations", flat), STOP]
    assert types(emit("responses", said))[5:7] == ["output_text.annotation.added"] * 2
    [item] = written(said)["output"]
    assert item["content"][0]["annotations"] == [flat, flat]
    assert read("responses", emit("responses", said)).extras["annotations"] == [flat, flat]


def test_places_are_kept() -> None:
    """Two messages, and two parts of one, stay what they were; ids of items and calls are those that came."""
    said: list[Delta] = [
        Meta("resp_9", "k2", 5),
        ReasoningDelta("A", PartRef(0, "rs_9", 0, "summary")),
        ReasoningDelta("B", PartRef(0, "rs_9", 1, "summary")),
        TextDelta("One", PartRef(1, "msg_8", 0)),
        TextDelta("Two", PartRef(1, "msg_8", 1)),
        TextDelta("Three", PartRef(2, "msg_9", 0)),
        ToolCallDelta(0, "call_9", "f", "{}", item="fc_9", extra={"namespace": "n", "other": 1}),
        CALLED,
    ]
    response = written(said)
    assert (response["id"], response["model"], response["created_at"]) == ("resp_9", "k2", 5)
    assert [item["id"] for item in response["output"]] == ["rs_9", "msg_8", "msg_9", "fc_9"]
    assert [len(item.get("summary", item.get("content", ()))) for item in response["output"]] == [2, 2, 1, 0]
    assert response["output"][3] == {
        "id": "fc_9", "type": "function_call", "status": "completed", "call_id": "call_9", "name": "f",
        "arguments": "{}", "namespace": "n",
    }  # fmt: skip


def test_another_id_for_each_event_is_still_one_message() -> None:
    """Where a server numbers its items, the number says what belongs together (GitHub's Copilot draws ids anew)."""
    said: list[Delta] = [TextDelta("a", PartRef(0, "x1")), TextDelta("b", PartRef(0, "x2")), STOP]
    assert [item["content"][0]["text"] for item in written(said)["output"]] == ["ab"]


@pytest.mark.parametrize(("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut(reason: Any, why: str) -> None:
    """What was open is incomplete; of a call that is cut nothing is done."""
    said: list[Delta] = [TextDelta("Hi"), ToolCallDelta(0, "a", "f", '{"x'), Finish(reason, reason)]
    body = emit("responses", said)
    assert types(body) == [*BEGIN, *MESSAGE, *MESSAGE_END, *CALL, "output_item.done", "incomplete"]
    response = check_response_events(body)
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": why})
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    reply = read("responses", body)
    assert (reply.finish_reason, reply.text, reply.tool_calls) == (reason, "Hi", [])
    [item] = check_response_events(emit("responses", [TextDelta("Hi"), Finish(reason, reason)]))["output"]
    assert item["status"] == "incomplete"


def test_an_error_closes_nothing() -> None:
    """Open items are incomplete and not done, because clients keep what is done; then the response has failed."""
    made = serializer("responses")
    said: list[Delta] = [ToolCallDelta(0, "a", "f", '{"x'), TextDelta("Hi")]
    body = made.feed_all(said) + made.feed(Failure(ErrorInfo("overloaded", "server_error", "busy", 503)))
    assert types(body) == [*BEGIN, *CALL, *MESSAGE, "error", "failed"]
    response = check_response_events(body)
    assert response["error"] == {"code": "busy", "message": "overloaded", "type": "server_error", "status": 503}
    assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]
    assert response["output"][1]["content"][0]["text"] == "Hi"
    assert made.feed(TextDelta("x")) + made.finish() == b""
    error = fold_error(body, adapter="responses")
    assert (error.message, error.partial and error.partial.text) == ("overloaded", "Hi")


def test_an_error_before_anything() -> None:
    """It is a response too, and an event for which OpenAI's client raises an error."""
    body = serializer("responses").feed(Failure(ErrorInfo("no", None, "rate_limit_exceeded", 429)))
    assert types(body) == [*BEGIN, "error", "failed"]
    check_open_responses(body)
    with pytest.raises(openai.APIError, match=r"^no$") as caught:
        openai_response(body)
    assert caught.value.code == "rate_limit_exceeded"


def test_the_response_repeats_its_request() -> None:
    """What was asked for, else the API's own defaults; never who stored it, or what it went on from."""
    request = {
        "model": "x", "input": "secret", "instructions": "Be brief.", "temperature": 0.5, "max_output_tokens": 9,
        "tools": [{"type": "function", "name": "f", "parameters": {}}], "tool_choice": "required", "store": True,
        "reasoning": {"effort": "low"}, "metadata": {"a": "b"}, "parallel_tool_calls": False, "top_p": None,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "unknown": 1,
    }  # fmt: skip
    response = written([TextDelta("Hi"), STOP], request=request)
    told = {"instructions": "Be brief.", "temperature": 0.5, "max_output_tokens": 9, "top_p": 1.0, "store": False}
    assert {name: response[name] for name in told} == told
    assert response["tools"] == [
        {"type": "function", "name": "f", "parameters": {}, "description": None, "strict": None}
    ]
    assert (response["tool_choice"], response["parallel_tool_calls"]) == ("required", False)
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert "unknown" not in response
    assert "input" not in response


def test_the_form_of_the_answer_is_repeated() -> None:
    """A schema is echoed with all of its members."""
    wanted = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    made = ResponsesSerializer(id="resp_0", model="m", request={"text": {"format": wanted}})
    body = made.feed(TextDelta("{}")) + made.feed(STOP) + made.finish()
    assert check_response_events(body)["text"] == {"format": {**wanted, "strict": False, "description": None}}
    assert openai_response(body).text.format.name == "n"


def test_an_empty_answer() -> None:
    """It has begun and is completed, with nothing in it."""
    assert types(emit("responses", [STOP])) == [*BEGIN, "completed"]
    assert written([STOP])["output"] == []


def test_a_reply_as_a_whole() -> None:
    """Calls keep the ids of their items; arguments that are blank are an empty object, for clients that parse them."""
    item = {"type": "function_call", "id": "fc_7", "call_id": "call_7", "name": "f", "arguments": ""}
    reply = Reply(
        text="Hi",
        refusal="But no.",
        tool_calls=[ToolCall("call_7", "f", {}, "", {"caller": {"type": "direct"}}), ToolCall("call_8", "g", {}, "{}")],
        finish_reason="tool_calls",
        raw_finish_reason="completed",
        id="resp_7",
        model="gpt",
        extras={"output": [item]},
    )
    body = emit_reply("responses", reply)
    output = check_response_events(body)["output"]
    assert [item["id"] for item in output] == ["msg_7_0", "fc_7", "fc_7_2"]
    assert output[1]["caller"] == {"type": "direct"}
    assert output[1]["arguments"] == "{}"
    assert read("responses", body).refusal == "But no."
