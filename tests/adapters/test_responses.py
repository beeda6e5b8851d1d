"""Events of the Responses API to deltas and replies: literals in, whole values out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx_sse import ServerSentEvent
from hypothesis import example, given, settings
from hypothesis import strategies as st

from folding import codes, event, fold, fold_error
from odd_values import VALUES, check_types, outcome, paths, replaced
from scale import examples
from streamfold import (
    EmptyResponseError,
    HostedPart,
    IncompleteStreamError,
    Limits,
    ProtocolError,
    StreamError,
    ToolCall,
    UpstreamError,
)
from streamfold.adapters.responses import ResponsesAdapter
from streamfold.deltas import (
    CallSummary,
    Delta,
    ExtraPart,
    Failure,
    Finish,
    ItemSummary,
    Meta,
    PartRef,
    ReasoningDelta,
    RefusalDelta,
    Sequence,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    Usage,
    Warn,
)
from streamfold.engine.accumulator import text_buffers
from streamfold.engine.deduplication import TextDeduplicator
from streamfold.errors import ErrorInfo
from tables import each_row

X = '{"x":1}'
AT: dict[str, Any] = {"output_index": 2, "item_id": "it_1"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": X, "status": "completed"}
MESSAGE = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [{"type": "url_citation"}]}],
}  # fmt: skip
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None,
    "incomplete_details": None, "output": [REASONING, MESSAGE, CALL],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}  # fmt: skip
WHOLE: list[Delta] = [
    Meta("resp_1", "m", 1),
    ItemSummary(
        [
            [
                ReasoningDelta("Hm.", PartRef(0, "rs_1", 0, "summary"), whole=True),
                ExtraPart("output", REASONING, place=0),
            ],
            [TextDelta("Hi", PartRef(1, "msg_1"), whole=True), ExtraPart("output", MESSAGE, place=1)],
            [
                ToolCallDelta(2, "call_1", "f", X, whole=True, item="fc_1", ended=True),
                ExtraPart("output", CALL, place=2),
            ],
        ]
    ),
    ReasoningDelta("Hm.", whole=True),
    TextDelta("Hi", whole=True),
    ReasoningDelta("Hm.", PartRef(0, "rs_1", 0, "summary"), whole=True),
    TextDelta("Hi", PartRef(1, "msg_1"), whole=True),
    ExtraPart("annotations", [{"type": "url_citation"}], whole=True),
    ExtraPart("output", [REASONING, MESSAGE, CALL], whole=True),
    CallSummary([ToolCallDelta(2, "call_1", "f", X, whole=True, item="fc_1", ended=True)]),
    Usage(3, 2, 5, raw={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}),
]


def decode(payload: Any, name: str = "message") -> list[Delta]:
    """The deltas of one event, without the number that it does not have."""
    data = payload if isinstance(payload, str) else json.dumps(payload)
    return [delta for delta in ResponsesAdapter().decode(ServerSentEvent(name, data)) if delta != Sequence(None)]


@each_row(
    ("kind", "members", "deltas"),
    [
        ("created", {"response": {"id": "r", "created_at": 1.5, "model": "m"}}, [Meta("r", "m", 1.5)]),
        ("in_progress", {"response": {"id": "r"}}, [Meta("r")]),
        ("queued", {}, [Meta()]),
        ("output_text.delta", {"delta": "a", "content_index": 1}, [TextDelta("a", PartRef(2, "it_1", 1))]),
        ("output_text.done", {"text": "ab", "content_index": 1}, [TextDelta("ab", PartRef(2, "it_1", 1), True)]),
        ("refusal.delta", {"delta": "a", "content_index": 0}, [RefusalDelta("a", PartRef(2, "it_1"))]),
        ("refusal.done", {"refusal": "ab"}, [RefusalDelta("ab", PartRef(2, "it_1"), True)]),
        (
            "reasoning_summary_text.delta",
            {"delta": "a", "summary_index": 1},
            [ReasoningDelta("a", PartRef(2, "it_1", 1, "summary"))],
        ),
        ("reasoning_summary_text.done", {"text": "a"}, [ReasoningDelta("a", PartRef(2, "it_1", 0, "summary"), True)]),
        (
            "reasoning_summary_part.done",
            {"part": {"type": "summary_text", "text": "a"}, "summary_index": 1},
            [ReasoningDelta("a", PartRef(2, "it_1", 1, "summary"), True)],
        ),
        ("reasoning_text.delta", {"delta": "a", "content_index": 0}, [ReasoningDelta("a", PartRef(2, "it_1", 0,
         "text"))]),
        ("reasoning_text.done", {"text": "a"}, [ReasoningDelta("a", PartRef(2, "it_1", 0, "text"), True)]),
        ("reasoning.delta", {"delta": "a"}, [ReasoningDelta("a", PartRef(2, "it_1", 0, "other"))]),
        ("reasoning.delta", {"delta": {"text": "a"}}, [ReasoningDelta("a", PartRef(2, "it_1", 0, "other"))]),
        ("reasoning.done", {"text": "a"}, [ReasoningDelta("a", PartRef(2, "it_1", 0, "other"), True)]),
        (
            "content_part.done",
            {"part": {"type": "output_text", "text": "a"}, "content_index": 3},
            [TextDelta("a", PartRef(2, "it_1", 3), True)],
        ),
        (
            "content_part.done",
            {"part": {"type": "reasoning_text", "text": "a"}},
            [ReasoningDelta("a", PartRef(2, "it_1", 0, "text"), True)],
        ),
        ("content_part.done", {"part": {"type": "refusal", "refusal": "a"}}, [RefusalDelta("a", PartRef(2, "it_1"),
         True)]),
        ("content_part.added", {"part": {"type": "output_text", "text": ""}}, [Meta()]),
        ("function_call_arguments.delta", {"delta": "{"}, [ToolCallDelta(2, arguments="{", item="it_1")]),
        ("function_call_arguments.done", {"arguments": X}, [ToolCallDelta(2, arguments=X, whole=True, item="it_1")]),
        (
            "function_call_arguments.done",
            {"arguments": X, "name": "f", "call_id": "c"},
            [ToolCallDelta(2, "c", "f", X, whole=True, item="it_1")],
        ),
        (
            "function_call_arguments.done",
            {"arguments": {"x": "é"}},
            [
                Warn("repaired_arguments", "the server sent the arguments as an object instead of text"),
                ToolCallDelta(2, arguments='{"x": "é"}', whole=True, item="it_1"),
            ],
        ),
        ("output_item.added", {"item": {**CALL, "arguments": ""}}, [ToolCallDelta(2, "call_1", "f", item="fc_1",
         begins=True)]),
        ("output_item.added", {"item": CALL}, [ToolCallDelta(2, "call_1", "f", X, whole=True, item="fc_1",
         begins=True)]),
        (
            "output_item.added",
            {"item": {**CALL, "arguments": "{}"}},
            [ToolCallDelta(2, "call_1", "f", item="fc_1", begins=True)],
        ),
        (
            "output_item.added",
            {"item": {**CALL, "arguments": '{"x'}},
            [ToolCallDelta(2, "call_1", "f", '{"x', item="fc_1", begins=True)],
        ),
        ("output_item.added", {"item": MESSAGE}, [Meta()]),
        (
            "output_item.done",
            {"item": CALL},
            [ToolCallDelta(2, "call_1", "f", X, whole=True, item="fc_1", ended=True), ExtraPart("output", CALL)],
        ),
        (
            "output_item.done",
            {"item": {**CALL, "namespace": "crm", "caller": {"type": "direct"}, "other": 1}},
            [
                ToolCallDelta(
                    2, "call_1", "f", X, True, {"namespace": "crm", "caller": {"type": "direct"}}, "fc_1", ended=True
                ),
                ExtraPart("output", {**CALL, "namespace": "crm", "caller": {"type": "direct"}, "other": 1}),
            ],
        ),
        ("output_item.done", {"item": MESSAGE}, [TextDelta("Hi", PartRef(2, "msg_1"), True), ExtraPart("output",
         MESSAGE)]),
        (
            "output_item.done",
            {"item": REASONING},
            [ReasoningDelta("Hm.", PartRef(2, "rs_1", 0, "summary"), True), ExtraPart("output", REASONING)],
        ),
        (
            "output_item.done",
            {"item": {"type": "reasoning", "encrypted_content": "g"}},
            [ReasoningDelta(""), ExtraPart("output", {"type": "reasoning", "encrypted_content": "g"})],
        ),
        (
            "output_item.done",
            {"item": {"type": "program"}},
            [HostedPart("program", "call", raw={"type": "program"}), ExtraPart("output", {"type": "program"})],
        ),
        ("output_text.annotation.added", {"annotation": {"url": "u"}}, [ExtraPart("annotations", {"url": "u"})]),
        ("audio.delta", {"delta": "AAAA"}, [ExtraPart("audio", {"data": "AAAA"})]),
        ("audio.transcript.delta", {"delta": "Hi"}, [ExtraPart("audio", {"transcript": "Hi"})]),
        ("image_generation_call.partial_image", {"partial_image_b64": "AAAA"}, []),
        (
            "mcp_call_arguments.done",
            {"arguments": X},
            [ExtraPart("item_pieces", {"id": "it_1", "type": "mcp_call", "text": X, "whole": True})],
        ),
        (
            "custom_tool_call_input.delta",
            {"delta": "x"},
            [ExtraPart("item_pieces", {"id": "it_1", "type": "custom_tool_call", "text": "x", "whole": False})],
        ),
        ("mcp_list_tools.failed", {}, []),
    ],
)  # fmt: skip
def test_event(kind: str, members: dict[str, Any], deltas: list[Delta]):
    """Each event is read as the facts that it holds."""
    assert decode({"type": f"response.{kind}", **AT, **members}) == deltas


@each_row(
    ("kind", "members", "end"),
    [
        ("completed", {}, Finish("stop", "completed")),
        ("done", {}, Finish("stop", "completed")),
        ("completed", {"status": None}, Finish("stop", "completed")),
        ("completed", {"status": "in_progress"}, Finish("stop", "completed")),
        ("completed", {"status": "incomplete"}, Finish("length", "incomplete")),
        (
            "incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            Finish("length", "max_output_tokens"),
        ),
        ("completed", {"incomplete_details": {"reason": "content_filter"}}, Finish("content_filter", "content_filter")),
        ("incomplete", {"incomplete_details": {"reason": "max_messages"}}, Finish("length", "max_messages")),
        ("incomplete", {}, Finish("length", "incomplete")),
        ("completed", {"output": [{**CALL, "status": "incomplete"}]}, Finish("length", "completed")),
        (
            "failed",
            {"error": {"code": "server_error", "message": "boom"}},
            Failure(ErrorInfo("boom", None, "server_error"), {"code": "server_error", "message": "boom"}),
        ),
        ("completed", {"error": {"message": "boom"}}, Failure(ErrorInfo("boom"), {"message": "boom"})),
        ("completed", {"status": "failed"}, Failure(ErrorInfo("the response failed, and the server gave no reason"))),
        ("cancelled", {}, Failure(ErrorInfo("the response was cancelled", "cancelled"))),
        ("completed", {"status": "cancelled"}, Failure(ErrorInfo("the response was cancelled", "cancelled"))),
    ],
)
def test_end(kind: str, members: dict[str, Any], end: Delta):
    """The worst that event and response say of the end is how it ended."""
    deltas = decode({"type": f"response.{kind}", "response": {**RESPONSE, **members}})
    assert deltas[-2:] == [end, StreamEnd()]


def test_the_members_of_a_response_beside_the_type():
    """Some gateways leave out the object around them."""
    whole = [*WHOLE, Finish("stop", "completed"), StreamEnd()]
    assert decode({**RESPONSE, "type": "response.completed"}) == whole
    assert decode(RESPONSE) == whole


@each_row(
    ("payload", "name", "info"),
    [
        ({"type": "error", "message": "m", "code": "c", "param": None}, "error", ErrorInfo("m", None, "c")),
        ({"type": "error", "error": {"message": "m", "type": "t", "code": "c"}}, "error", ErrorInfo("m", "t", "c")),
        ({"type": "response.error", "error": {"message": "m"}}, "message", ErrorInfo("m")),
        ({"error": {"message": "m", "code": 429}}, "message", ErrorInfo("m", status=429)),
        ({"error": "m"}, "message", ErrorInfo("m")),
        ({"message": "m", "code": 500}, "message", ErrorInfo("m", status=500)),
        ({"detail": "m"}, "message", ErrorInfo("m")),
        ({"type": "server_error", "message": "m"}, "message", ErrorInfo("m", "server_error")),
        ({"type": "boom", "message": "m"}, "error", ErrorInfo("m", "boom")),
        ([{"error": {"message": "m"}}], "message", ErrorInfo("m")),
        ("plain words", "error", ErrorInfo("plain words")),
        ("", "error", ErrorInfo("the server gave no message")),
    ],
)
def test_errors(payload: Any, name: str, info: ErrorInfo):
    """An error is one in any of its shapes."""
    (failure,) = decode(payload, name)
    assert isinstance(failure, Failure)
    assert failure.info == info


def test_an_error_event_that_is_none():
    """The type counts, whatever the `event:` line says."""
    assert decode({"type": "response.output_text.delta", "delta": "a"}, "error") == [TextDelta("a", PartRef())]


@each_row("data", ["{", "5", "null", '"x"', '{"choices":[]}'])
def test_not_this_api(data: str):
    """What is no event of this API is said to be none."""
    with pytest.raises(ValueError):
        decode(data)


# --- bodies that are no streams --------------------------------------------------------------------------------------


def test_a_response_as_plain_json():
    """A server that does not stream: the answer is in the body."""
    reply = fold(json.dumps(RESPONSE).encode(), adapter="responses")
    assert (reply.text, reply.reasoning, reply.tool_calls) == ("Hi", "Hm.", [ToolCall("call_1", "f", {"x": 1}, X)])
    assert (reply.finish_reason, reply.raw_finish_reason, codes(reply)) == ("tool_calls", "completed", [])
    assert reply.extras["output"] == RESPONSE["output"]


def test_a_body_without_a_status():
    """The answer is taken, and the reply says what is missing."""
    reply = fold(b'{"output":[{"type":"message","content":"Hi"}]}', adapter="responses")
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hi", "unknown", ["missing_finish_reason"])


@each_row(
    ("body", "message"),
    [
        (b'{"error":{"message":"no quota","code":"insufficient_quota"}}', "no quota"),
        (b'{"detail":"no such model"}', "no such model"),
        (b'{"id":"r","object":"response","status":"failed","error":{"message":"boom"},"output":[]}', "boom"),
        (
            b'{"id":"r","object":"response","status":"queued","output":[]}',
            "the response is not finished: its status is queued",
        ),
    ],
)
def test_an_error_as_plain_json(body: bytes, message: str):
    """An error body in any shape, and a response that goes on without us."""
    error = fold_error(body, adapter="responses")
    assert isinstance(error, UpstreamError)
    assert error.message == message


def test_the_wrong_api():
    """A Chat Completions answer is recognised, and the message says what to do."""
    for body in (b'{"choices":[{"message":{"content":"Hi"}}]}', b'data: {"choices":[{"delta":{}}]}\n\n'):
        error = fold_error(body, adapter="responses")
        assert isinstance(error, ProtocolError)
        assert "the adapter 'chat'" in error.message


def test_nothing_at_all():
    """Only the end, or nothing: not an answer."""
    assert isinstance(fold_error(b"data: [DONE]\n\n", adapter="responses"), EmptyResponseError)
    assert isinstance(fold_error(b"", adapter="responses"), EmptyResponseError)
    assert isinstance(fold_error(event({"type": "response.created"}), adapter="responses"), IncompleteStreamError)


# --- what is said twice ----------------------------------------------------------------------------------------------


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


def test_pieces_that_name_no_part():
    """They belong to one part until a whole ends it, and to that whole's part if it names one."""
    nameless, one = PartRef(), PartRef(0, "msg_1")
    pieces = [TextDelta("Hel", nameless), TextDelta("lo", nameless)]
    assert feed(*pieces, TextDelta("Hello", nameless, True), TextDelta("Hello", nameless, True)) == pieces
    assert (
        feed(*pieces, TextDelta("Hello", one, True), TextDelta("Hello", one, True), TextDelta("Hello", None, True))
        == pieces
    )
    again = [*pieces, TextDelta("Hello", nameless, True), TextDelta("Bye", nameless), TextDelta("Bye", nameless, True)]
    assert feed(*again, TextDelta("HelloBye", None, True)) == [*pieces, TextDelta("Bye", nameless)]


def test_a_part_that_only_the_end_has():
    """A part that was never shown is not lost, even if it can't be shown in its place any more."""
    first, second = PartRef(0, "msg_1"), PartRef(1, "msg_2")
    shown = feed(
        TextDelta("Two", second),
        TextDelta("OneTwo", None, True),
        TextDelta("One", first, True),
        TextDelta("Two", second, True),
    )
    assert shown == [
        TextDelta("Two", second),
        Warn(
            "text_mismatch",
            "the deltas of a text and the complete text differ: at character 0, the deltas have 'Two' and the complete"
            " text 'OneTwo'",
        ),
        TextDelta("One", first),
    ]


def test_an_end_that_comes_late():
    """The missing end of a text is put before the text that came after it, which has waited."""
    first, second = PartRef(0, "msg_1"), PartRef(1, "msg_2")
    shown = feed(TextDelta("Hel", first), TextDelta("Bye", second), TextDelta("Hello", first, True))
    assert shown == [
        TextDelta("Hel", first),
        Warn("text_mismatch", "the end of a text was missing in the deltas and arrived only with the complete text"),
        TextDelta("lo", first),
    ]
    assert feed(TextDelta("Hel", first), TextDelta("Hello", first, True))[-1] == TextDelta("lo", first)


def test_halves_of_a_character():
    """A text whose characters were cut in two is the same as its whole (fixtures/aimock/responses_unicode)."""
    part = PartRef(0, "msg_1")
    pieces = [TextDelta("a\ud83d", part), TextDelta("\udc4b", part)]
    assert feed(*pieces, TextDelta("a\U0001f44b", part, True), TextDelta("a\U0001f44b", None, True)) == pieces


# --- whatever is left out --------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab \n\u4e2d\U0001f44b"), min_size=1, max_size=6)


@st.composite
def items_said(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """An item, and how it is said: in pieces, as wholes of its parts, as an item that is done, or only at the end."""
    said = draw(st.sets(st.sampled_from(["pieces", "wholes", "item"])))
    kind = draw(st.sampled_from(["message", "summary", "text", "call"]))
    texts = draw(st.lists(TEXTS, min_size=1, max_size=2))
    match kind:
        case "message":
            return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}, said
        case "call":
            return {"type": "function_call", "name": "f", "arguments": json.dumps({"x": texts[0]})}, said
        case _:
            member = "summary" if kind == "summary" else "content"
            parts = [
                {"type": "summary_text" if kind == "summary" else "reasoning_text", "text": text} for text in texts
            ]
            return {"type": "reasoning", "summary": [], member: parts}, said


def streamed(item: dict[str, Any], at: int, said: set[str], named: str) -> list[dict[str, Any]]:
    """The events of an item. `named`: whether they say where they belong by position, by item, or by both."""
    place = {"output_index": at} if named != "item" else {}
    here = {**place, **({"item_id": item["id"]} if named != "position" else {})}
    events: list[dict[str, Any]] = []
    if item["type"] == "function_call":
        head = {**item, "arguments": ""}
        events.append({"type": "output_item.added", **place, "item": head})
        parts = [("function_call_arguments", "arguments", "content_index", item["arguments"])]
    elif item["type"] == "message":
        parts = [("output_text", "text", "content_index", part["text"]) for part in item["content"]]
    elif item["summary"]:
        parts = [("reasoning_summary_text", "text", "summary_index", part["text"]) for part in item["summary"]]
    else:
        parts = [("reasoning_text", "text", "content_index", part["text"]) for part in item["content"]]
    for number, (name, member, counter, text) in enumerate(parts):
        where = {**here, counter: number}
        cuts = [text[: len(text) // 2], text[len(text) // 2 :]] if "pieces" in said else []
        events += [{"type": f"{name}.delta", **where, "delta": piece} for piece in cuts]
        events += [{"type": f"{name}.done", **where, member: text}] if "wholes" in said else []
    return events + ([{"type": "output_item.done", **place, "item": item}] if "item" in said else [])


MESSAGE_A = {"type": "message", "content": [{"type": "output_text", "text": "a"}]}


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(items_said(), min_size=1, max_size=4), st.sampled_from(["both", "position", "item"]), st.booleans())
@example([(MESSAGE_A, {"pieces"}), (MESSAGE_A, {"pieces"})], "both", True)  # the second waits when the list comes
def test_whatever_is_left_out(said: list[tuple[dict[str, Any], set[str]]], named: str, at_the_end: bool):
    """An answer that is said at least once in any way is the same answer, and nothing is odd about it."""
    items = [{**item, "id": f"it_{at}", "call_id": f"call_{at}"} for at, (item, _) in enumerate(said)]
    ways = [way if way or at_the_end else {"pieces"} for _, way in said]
    events = [event for at, item in enumerate(items) for event in streamed(item, at, ways[at], named)]
    end = {"status": "completed", "output": items if at_the_end else []}
    body = b"".join(
        event({**payload, "type": f"response.{payload['type']}"})
        for payload in [*events, {"type": "completed", "response": end}]
    )
    reply = fold(body, adapter="responses")
    parts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    reasoning = [part["text"] for item in items for part in item.get("summary") or [] if item["type"] == "reasoning"]
    assert sorted(reply.text) == sorted("".join(parts))
    if not at_the_end or all(ways):
        assert reply.text == "".join(parts)
    assert [(call.id, call.raw_arguments) for call in reply.tool_calls] == [
        (item["call_id"], item["arguments"]) for item in items if item["type"] == "function_call"
    ]
    assert all(text in reply.reasoning for text in reasoning)
    assert set(codes(reply)) <= {"empty_answer"} | ({"text_mismatch"} if not all(ways) else set())


# --- anything at all -------------------------------------------------------------------------------------------------

END = event({"type": "response.completed", "response": {"status": "completed"}})


@settings(deadline=None, max_examples=examples(100))
@given(st.builds(replaced, st.just(RESPONSE), st.sampled_from(paths(RESPONSE)), VALUES))
def test_any_value_in_place_of_any_member_of_a_body(odd: Any):
    """The same as a plain JSON body."""
    check_types(outcome(json.dumps(odd).encode(), adapter="responses"))


@each_row("depth", [100, 400, 600, 900, 5000])
@each_row(
    "body",
    [
        b'{"type":"response.output_item.done","item":%s}',
        b'{"type":"response.completed","response":{"output":[%s]}}',
        b'{"type":"response.output_item.done","item":{"type":"function_call","name":"f","arguments":%s}}',
        b'{"type":"response.output_text.annotation.added","annotation":%s}',
        b'{"type":"error","error":%s}',
    ],
    ids=["item", "response", "arguments", "annotation", "error"],
)
def test_nesting(body: bytes, depth: int):
    """JSON of any depth ends in an answer or in one of our errors."""
    payload = body % (b'{"message":' * depth + b'"x"' + b"}" * depth)
    check_types(outcome(b"data: " + payload + b"\n\n" + END, adapter="responses"))


@each_row(
    "payload",
    [
        {"type": "response.created", "response": {"id": "a\ud83d", "model": "a\ud83d"}},
        {"type": "response.output_text.delta", "delta": "a\ud83d"},
        {"type": "response.output_item.done", "item": {**CALL, "name": "a\ud83d", "call_id": "a\ud83d"}},
        {"type": "response.output_item.done", "item": {"type": "program", "code": "a\ud83d"}},
        {"type": "response.completed", "response": {"incomplete_details": {"reason": "a\ud83d"}}},
        {"type": "error", "message": "a\ud83d"},
    ],
)
def test_whatever_comes_out_can_be_encoded(payload: dict[str, Any]):
    """Half a character in any place never reaches what is printed or sent back."""
    ended = outcome(b"data: " + json.dumps(payload).encode() + b"\n\n" + END, adapter="responses")
    assert str(ended).encode()
    reply = ended.partial if isinstance(ended, StreamError) else ended
    assert reply is not None
    said = [reply.id, reply.model, reply.text, reply.raw_finish_reason, reply.extras]
    said += [[made.id, made.name, made.raw_arguments] for made in reply.tool_calls]
    assert json.dumps(said, ensure_ascii=False).encode()
