"""What goes wrong on the Responses API in the field: bytes in, whole answers out, however the bytes are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, assert_any_cut, assert_any_cut_error, codes
from streamfold import IncompleteStreamError, Reply, StreamError, ToolCall, UpstreamError
from tables import each_row

PARIS = '{"city":"Paris"}'
OSLO = '{"city":"Oslo"}'


def say(kind: str, **members: Any) -> bytes:
    """One event of this type, with its `event:` line."""
    kind = kind if kind in ("error", "keepalive") else f"response.{kind}"
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def response(kind: str, *items: Any, **members: Any) -> bytes:
    """The event that has a whole response, with these items."""
    return say(kind, response={"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
                               "status": kind, "output": list(items), **members})  # fmt: skip


CREATED = response("created", status="in_progress")


def call(at: int, name: str, arguments: str, **members: Any) -> dict[str, Any]:
    """A function call as an item."""
    item = {"id": f"fc_{at}", "type": "function_call", "status": "completed"}
    return {**item, "call_id": f"call_{at}", "name": name, "arguments": arguments, **members}


def message(text: str, at: int = 0, **members: Any) -> dict[str, Any]:
    """An assistant's message as an item."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"id": f"msg_{at}", "type": "message", "role": "assistant"}
    return {**item, "status": "completed", "content": content, **members}


def added(at: int, item: dict[str, Any]) -> bytes:
    return say("output_item.added", output_index=at, item=item)


def opened(at: int, name: str) -> bytes:
    return added(at, call(at, name, "", status="in_progress"))


def piece(at: int, arguments: str) -> bytes:
    return say("function_call_arguments.delta", output_index=at, item_id=f"fc_{at}", delta=arguments)


def whole(at: int, arguments: str) -> bytes:
    return say("function_call_arguments.done", output_index=at, item_id=f"fc_{at}", arguments=arguments)


def done(at: int, item: dict[str, Any]) -> bytes:
    return say("output_item.done", output_index=at, item=item)


def text(at: int, delta: str, content: int = 0) -> bytes:
    return say("output_text.delta", output_index=at, item_id=f"msg_{at}", content_index=content, delta=delta)


def read(*events: bytes, **decoder: Any) -> Reply:
    """The reply, the same for every cut of the bytes."""
    return assert_any_cut(b"".join(events), adapter="responses", **decoder)


def fail(*events: bytes) -> StreamError:
    """The error, the same for every cut of the bytes. No call is handed out before it."""
    return assert_any_cut_error(b"".join(events), adapter="responses")


F = ToolCall("call_0", "f", {"city": "Paris"}, PARIS)
G = ToolCall("call_1", "g", {"city": "Oslo"}, OSLO)


def test_i1_interleaved_calls():
    """Two calls whose pieces alternate stay two calls."""
    reply = read(
        CREATED, opened(0, "f"), opened(1, "g"), piece(0, '{"city":'), piece(1, '{"city":"Os'), piece(0, '"Paris"}'),
        piece(1, 'lo"}'), whole(1, OSLO), whole(0, PARIS),
        response("completed", call(0, "f", PARIS), call(1, "g", OSLO)),
    )  # fmt: skip
    assert (reply.tool_calls, reply.finish_reason, codes(reply)) == ([F, G], "tool_calls", [])


@pytest.mark.parametrize(
    "events",
    [
        [opened(0, "f"), whole(0, PARIS)],
        [opened(0, "f"), done(0, call(0, "f", PARIS))],
        [opened(0, "f"), whole(0, PARIS), done(0, call(0, "f", PARIS))],
    ],
    ids=["arguments done", "item done", "both"],
)
def test_i2_no_pieces(events: list[bytes]):
    """Arguments that come only whole are the arguments."""
    reply = read(CREATED, *events, response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], [])


def test_i3_only_the_end_has_the_call():
    """A call that only the whole response has is a call."""
    reply = read(CREATED, response("completed", call(0, "f", PARIS)))
    assert (reply.tool_calls, reply.finish_reason, codes(reply)) == ([F], "tool_calls", [])


def test_i3_text_that_only_the_end_has():
    """So is a text."""
    reply = read(CREATED, response("completed", message("Hello")))
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hello", "stop", [])


def test_i4_done_without_added():
    """An item that is done without having begun is there all the same."""
    reply = read(CREATED, done(0, call(0, "f", PARIS)), done(1, message("Hi", 1)), response("completed"))
    assert (reply.tool_calls, reply.text, codes(reply)) == ([F], "Hi", [])


@pytest.mark.parametrize("pieces", [[PARIS], ['{"city"', ':"Paris"}'], []], ids=["again", "in pieces", "only there"])
def test_i5_arguments_at_the_beginning(pieces: list[str]):
    """Arguments that are there when the call begins, and come again as pieces, are not doubled."""
    reply = read(CREATED, added(0, call(0, "f", PARIS)), *(piece(0, part) for part in pieces), response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], [])


def test_i5_the_first_piece_at_the_beginning():
    """If it is only their first piece, the others follow it."""
    reply = read(
        CREATED, added(0, call(0, "f", '{"ci')), piece(0, 'ty":"Paris"}'), whole(0, PARIS), response("completed")
    )
    assert (reply.tool_calls, codes(reply)) == ([F], [])


@pytest.mark.parametrize("empty", ["{}", {}], ids=["text", "object"])
def test_i5_an_empty_object_at_the_beginning(empty: Any):
    """An empty object that is still to be filled never stands for the arguments."""
    reply = read(CREATED, added(0, {**call(0, "f", ""), "arguments": empty}), piece(0, PARIS), response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], [])


def test_i6_done_disagrees_with_the_pieces():
    """The pieces lost their first brace; the whole has it, and the reply says that they differ (vLLM)."""
    reply = read(CREATED, opened(0, "f"), piece(0, PARIS[1:]), whole(0, PARIS), response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], ["arguments_mismatch"])


def test_i6_both_are_broken():
    """If neither can be read, the call can't be run, and says so."""
    reply = read(CREATED, opened(0, "f"), piece(0, '{"city"'), whole(0, '"city":'), response("completed"))
    assert [made.error for made in reply.tool_calls] == ["invalid_json"]
    assert codes(reply) == ["arguments_mismatch", "invalid_arguments"]


def test_i7_output_index_out_of_order_with_gaps():
    """Calls are in the order of their numbers, whatever came first and whatever stands between them."""
    reply = read(
        CREATED, added(0, {"id": "rs_0", "type": "reasoning", "summary": []}), opened(5, "g"), opened(2, "f"),
        piece(5, '{"city":'), piece(2, PARIS), piece(5, '"Oslo"}'), response("completed"),
    )  # fmt: skip
    assert [(made.id, made.name, made.raw_arguments) for made in reply.tool_calls] == [
        ("call_2", "f", PARIS),
        ("call_5", "g", OSLO),
    ]
    assert codes(reply) == []


@pytest.mark.parametrize("items", [[{}, {}], [{"item_id": "x"}, {"item_id": "y"}]], ids=["no item", "another item"])
def test_i8_pieces_without_the_item(items: list[dict[str, str]]):
    """Pieces belong to the call at their position, when they name no item or one that nobody knows."""
    pieces = [
        say("function_call_arguments.delta", output_index=at, delta=part, **items[at])
        for at, part in [(0, '{"city":'), (1, '{"city":"Os'), (0, '"Paris"}'), (1, 'lo"}')]
    ]
    reply = read(CREATED, opened(0, "f"), opened(1, "g"), *pieces, response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F, G], [])


def test_i8_pieces_with_the_call_alone():
    """DeepSeek's pieces name the call and nothing else."""
    pieces = [
        say("function_call_arguments.delta", call_id=call_id, delta=part)
        for call_id, part in [("call_0", '{"city":'), ("call_1", OSLO), ("call_0", '"Paris"}')]
    ]
    reply = read(CREATED, opened(0, "f"), opened(1, "g"), *pieces, response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F, G], [])


def test_i8_another_item_id_in_every_event():
    """GitHub's Copilot draws the ids of items anew for every event: the position tells."""
    reply = read(
        CREATED,
        added(0, {**call(0, "f", ""), "id": "x1"}),
        say("function_call_arguments.delta", output_index=0, item_id="x2", delta=PARIS),
        say("function_call_arguments.done", output_index=0, item_id="x3", arguments=PARIS),
        done(0, {**call(0, "f", PARIS), "id": "x4"}),
        say("output_text.delta", output_index=1, item_id="x5", content_index=0, delta="Hi"),
        say("output_text.done", output_index=1, item_id="x6", content_index=0, text="Hi"),
        response("completed", {**call(0, "f", PARIS), "id": "x7"}, message("Hi")),
    )
    assert (reply.tool_calls, reply.text, codes(reply)) == ([F], "Hi", [])


def test_i9_the_id_of_a_call_is_not_that_of_its_item():
    """`call_id` is what the result must name; `id` is the item's."""
    reply = read(CREATED, opened(0, "f"), piece(0, PARIS), response("completed", call(0, "f", PARIS)))
    assert reply.tool_calls[0].id == "call_0"
    assert reply.extras["output"][0]["id"] == "fc_0"


def test_i10_the_name_comes_once():
    """Only the beginning of the item has the name."""
    reply = read(CREATED, opened(0, "f"), piece(0, PARIS), whole(0, PARIS), response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], [])


def test_i10_the_name_comes_late():
    """Only the item that is done has the name."""
    reply = read(CREATED, piece(0, PARIS), done(0, call(0, "f", PARIS)), response("completed"))
    assert (reply.tool_calls, codes(reply)) == ([F], [])


def test_i11_response_failed():
    """The server's own words, what had come, whether a retry is safe; and no call."""
    error = {"code": "server_error", "message": "The model broke down."}
    got = fail(CREATED, text(0, "Hel"), opened(1, "f"), piece(1, PARIS), response("failed", error=error, usage=None))
    assert isinstance(got, UpstreamError)
    assert (got.message, got.code, got.retryable) == ("The model broke down.", "server_error", True)
    assert got.partial is not None
    assert (got.partial.text, got.body) == ("Hel", error)


@each_row(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "length"), (None, "length")],
)
def test_i12_response_incomplete(reason: str | None, finish: str):
    """The answer is finished, and its calls are not handed out: they may be cut. The reply names them."""
    reply = read(
        CREATED, text(0, "Hel"), opened(1, "f"), piece(1, '{"city":"Par'),
        response("incomplete", incomplete_details={"reason": reason} if reason else None, usage={"input_tokens": 3}),
    )  # fmt: skip
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Hel", [], finish)
    assert reply.raw_finish_reason == (reason or "incomplete")
    assert reply.usage is not None
    assert reply.usage.input_tokens == 3
    assert [(warning.code, warning.detail.rpartition(": ")[2]) for warning in reply.warnings] == [
        ("calls_dropped", "f")
    ]


@each_row(
    "event",
    [
        say("error", code="rate_limit_exceeded", message="Slow down.", param=None, sequence_number=3),
        say("error", error={"type": "requests", "code": "rate_limit_exceeded", "message": "Slow down."}),
        b'data: {"error":{"code":"rate_limit_exceeded","message":"Slow down."}}\n\n',
        b'event: error\ndata: {"code":"rate_limit_exceeded","message":"Slow down."}\n\n',
        b'data: {"type":"rate_limit_error","message":"Slow down.","code":"rate_limit_exceeded"}\n\n',
    ],
    ids=["flat", "nested", "without type", "named by its event", "its own type"],
)
def test_i13_error_event(event: bytes):
    """An error in any of its shapes raises with the server's message and code."""
    got = fail(CREATED, text(0, "Hel"), event, response("failed", error={"code": "x", "message": "y"}))
    assert isinstance(got, UpstreamError)
    assert (got.message, got.code, got.retryable) == ("Slow down.", "rate_limit_exceeded", True)
    assert got.type != "error"
    assert got.partial is not None
    assert got.partial.text == "Hel"


@each_row(
    "events",
    [
        [text(0, "Hel")],
        [opened(0, "f"), piece(0, '{"city"')],
        [opened(0, "f"), piece(0, PARIS)],
        [opened(0, "f"), piece(0, PARIS), whole(0, PARIS), done(0, call(0, "f", PARIS))],
    ],
    ids=["in the text", "in the arguments", "after the arguments", "after the item"],
)
def test_i14_the_end_without_a_terminal_event(events: list[bytes]):
    """Without the event that ends it, the answer is incomplete, and its calls are not handed out."""
    assert isinstance(fail(CREATED, *events), IncompleteStreamError)


def test_i15_no_created_event():
    """Many gateways begin with the first text."""
    reply = read(text(0, "Hi"), response("completed", message("Hi")))
    assert (reply.text, reply.id, reply.model, codes(reply)) == ("Hi", "resp_1", "m", [])


def test_i16_unknown_events():
    """Events that nobody knows, and those that only say that something goes on, change nothing."""
    reply = read(
        response("queued", status="queued"), CREATED, response("in_progress", status="in_progress"),
        say("keepalive", sequence_number=4), say("something.new", delta="x", text="y"), b'data: {"type":"other"}\n\n',
        b"data: {}\n\n", text(0, "Hi"), say("web_search_call.searching", item_id="ws_1", output_index=1),
        response("completed", message("Hi")),
    )  # fmt: skip
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hi", "stop", [])


def test_i17_refusal():
    """A refusal is not text, and comes once."""
    refusal = {"type": "refusal", "refusal": "I can't."}
    item = {"id": "msg_0", "type": "message", "role": "assistant", "content": [refusal]}
    at = {"output_index": 0, "item_id": "msg_0", "content_index": 0}
    reply = read(
        CREATED, say("refusal.delta", delta="I ca", **at), say("refusal.delta", delta="n't.", **at),
        say("refusal.done", refusal="I can't.", **at), say("content_part.done", part=refusal, **at), done(0, item),
        response("completed", item),
    )  # fmt: skip
    assert (reply.text, reply.refusal, reply.finish_reason, codes(reply)) == ("", "I can't.", "stop", [])


@pytest.mark.parametrize("only_whole", [False, True])
def test_i18_reasoning_summary_and_what_goes_back(only_whole: bool):
    """The summary is the reasoning; the encrypted item is kept as it came, in its place before what it belongs to."""
    reasoning = {
        "id": "rs_0", "type": "reasoning", "encrypted_content": "gAAAA",
        "summary": [{"type": "summary_text", "text": "**One**"}, {"type": "summary_text", "text": "**Two**"}],
    }  # fmt: skip
    pieces = [
        say("reasoning_summary_text.delta", output_index=0, item_id="rs_0", summary_index=n, delta=part)
        for n, part in [(0, "**O"), (0, "ne**"), (1, "**Two**")]
    ]
    items = [reasoning, call(1, "f", PARIS)]
    reply = read(CREATED, *([] if only_whole else pieces), done(0, reasoning), response("completed", *items))
    assert (reply.reasoning, reply.text, codes(reply)) == ("**One****Two**", "", [])
    assert reply.extras["output"] == items
    assert reply.message.extras["output"] == items


def test_i18_reasoning_text():
    """The model's own words are the reasoning where there is no summary."""
    item = {
        "id": "rs_0",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm, so."}],
    }
    at = {"output_index": 0, "item_id": "rs_0", "content_index": 0}
    reply = read(
        CREATED, say("reasoning_text.delta", delta="Hm, ", **at), say("reasoning_text.delta", delta="so.", **at),
        say("reasoning_text.done", text="Hm, so.", **at), done(0, item), text(1, "Yes."),
        response("completed", item, message("Yes.", 1)),
    )  # fmt: skip
    assert (reply.reasoning, reply.text, codes(reply)) == ("Hm, so.", "Yes.", [])


def test_i18_the_same_reasoning_told_twice():
    """A server that sends the same reasoning as a summary and in full shows it once."""
    parts = {
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    at = {"output_index": 0, "item_id": "rs_0"}
    reply = read(
        CREATED, say("reasoning_text.delta", delta="Hm.", content_index=0, **at),
        say("reasoning_summary_text.delta", delta="Hm.", summary_index=0, **at),
        say("reasoning.delta", delta="Hm.", content_index=0, **at),
        done(0, {"id": "rs_0", "type": "reasoning", **parts}), response("completed", {"type": "reasoning", **parts}),
    )  # fmt: skip
    assert (reply.reasoning, [code for code in codes(reply) if code != "empty_answer"]) == ("Hm.", [])


def test_i18_reasoning_that_is_not_shown():
    """Only encrypted reasoning: it reasoned, and what is not shown."""
    item = {"id": "rs_0", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    reply = read(CREATED, done(0, item), text(1, "Hi"), response("completed", item, message("Hi", 1)))
    assert (reply.reasoning, reply.message.reasoning, codes(reply)) == ("", "", [])


def test_i19_several_messages_and_parts():
    """Texts follow each other in the order of items and parts; `phase` is kept with its item."""
    first = message("One. ", 0, phase="commentary")
    first["content"].append({"type": "output_text", "text": "Two. ", "annotations": []})
    second = message("Three.", 1, phase="final_answer")
    reply = read(
        CREATED, text(0, "One"), text(0, ". "), text(0, "Two. ", content=1), done(0, first), text(1, "Three."),
        done(1, second), response("completed", first, second),
    )  # fmt: skip
    assert (reply.text, codes(reply)) == ("One. Two. Three.", [])
    assert [item["phase"] for item in reply.extras["output"]] == ["commentary", "final_answer"]


def test_i20_done_at_the_end():
    """What gateways put after the last event is not needed and does no harm."""
    assert read(text(0, "Hi"), response("completed", message("Hi")), DONE).text == "Hi"


def test_i20_done_and_no_terminal_event():
    """`[DONE]` ends an answer in order, for want of a reason with a warning."""
    reply = read(CREATED, opened(0, "f"), whole(0, PARIS), DONE)
    assert (reply.tool_calls, reply.finish_reason, codes(reply)) == ([F], "unknown", ["missing_finish_reason"])


@pytest.mark.parametrize("line", ["", "event: response.created\n", "event: message\n"])
def test_i20_the_type_counts(line: str):
    """The type inside the JSON is right where the `event:` line is missing or says something else."""
    events = text(0, "Hi") + response("completed", message("Hi"))
    lines = [line if row.startswith("event:") else f"{row}\n" for row in events.decode().splitlines()]
    assert read("".join(lines).encode()).text == "Hi"


def test_i21_repeated_events():
    """Events that come again, as when a stream is resumed, are skipped."""
    numbered = [
        say("output_text.delta", output_index=0, item_id="m", content_index=0, delta=part, sequence_number=n)
        for n, part in enumerate(["ha", "ha", "!"])
    ]
    end = response("completed", message("haha!"))
    reply = read(*numbered[:2], *numbered, end)
    assert (reply.text, codes(reply)) == ("haha!", ["repeated_event"])


def test_i21_missing_events():
    """A gap in the numbers is a warning."""
    reply = read(say("created", response={}, sequence_number=0), say("keepalive", sequence_number=4), text(0, "Hi"),
                 response("completed", message("Hi")))  # fmt: skip
    assert [(warning.code, warning.detail) for warning in reply.warnings] == [
        ("missing_event", "events 1 to 3 are missing")
    ]


def test_i21_numbers_that_number_nothing():
    """A server that gives every event the same number repeats nothing, and one that numbers a few misses nothing."""
    same = [
        say("output_text.delta", output_index=0, item_id="m", content_index=0, delta=part, sequence_number=0)
        for part in ["ha", "ha", "!", "!"]
    ]
    reply = read(say("created", response={}, sequence_number=0), *same, response("completed", message("haha!!")))
    assert (reply.text, codes(reply)) == ("haha!!", [])
    few = [text(0, "Hi"), say("keepalive", sequence_number=4), text(0, "!"), say("keepalive", sequence_number=9)]
    reply = read(*few, response("completed", message("Hi!")))
    assert (reply.text, codes(reply)) == ("Hi!", [])


def test_i22_usage():
    """Usage is the terminal event's; null is none, and never zero."""
    usage = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 5,
             "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 12}  # fmt: skip
    got = read(CREATED, text(0, "Hi"), response("completed", message("Hi"), usage=usage)).usage
    assert got is not None
    counts = (got.input_tokens, got.output_tokens, got.total_tokens, got.cached_tokens, got.reasoning_tokens)
    assert (counts, got.raw) == ((7, 5, 12, 3, 2), usage)
    incomplete = response("incomplete", message("Hi"), usage=None, incomplete_details={"reason": "max_output_tokens"})
    assert read(CREATED, text(0, "Hi"), incomplete).usage is None


def test_i23_an_item_is_incomplete():
    """A completed response whose call is not complete was cut: the call is not handed out."""
    cut = call(0, "f", '{"city":"Par', status="incomplete")
    reply = read(CREATED, opened(0, "f"), piece(0, '{"city":"Par'), done(0, cut), response("completed", cut))
    assert (reply.tool_calls, reply.finish_reason, reply.raw_finish_reason) == ([], "length", "completed")
    assert codes(reply) == ["calls_dropped"]


def test_i24_a_poor_stream():
    """Created, text, completed, and neither items nor ids: the text once, and the calls of the end."""
    events = [say("created", response={"id": "r"}), say("output_text.delta", delta="Hel"),
              say("output_text.delta", delta="lo"), say("output_text.done", text="Hello")]  # fmt: skip
    reply = read(*events, response("completed", message("Hello"), call(1, "g", OSLO)))
    assert (reply.text, reply.tool_calls, codes(reply)) == ("Hello", [G], [])
    reply = read(*events[:3], done(0, message("Hello")), say("completed"))
    assert (reply.text, reply.finish_reason, codes(reply)) == ("Hello", "stop", [])


@each_row(
    "item",
    [
        {"type": "custom_tool_call", "call_id": "call_9", "name": "view_image", "input": "free text"},
        {"type": "mcp_call", "id": "mcp_9", "name": "f", "arguments": PARIS, "server_label": "s", "output": "42"},
        {"type": "web_search_call", "id": "ws_9", "status": "completed", "action": {"type": "search"}},
        {"type": "tool_search_call", "call_id": "call_9", "arguments": {"q": "x"}, "status": "completed"},
        {"type": "from_the_future", "name": "f", "arguments": PARIS, "call_id": "call_9"},
    ],
    ids=lambda item: item["type"],
)
def test_i25_other_items_are_no_function_calls(item: dict[str, Any]):
    """What runs elsewhere, or is no function, is never handed out as a call; its item is kept as it came."""
    hints = [
        say("custom_tool_call_input.delta", output_index=0, item_id="x", delta="free"),
        say("custom_tool_call_input.done", output_index=0, item_id="x", input="free text"),
        say("mcp_call_arguments.delta", output_index=0, item_id="x", delta=PARIS),
        say("mcp_call_arguments.done", output_index=0, item_id="x", arguments=PARIS),
    ]
    events = [CREATED, added(0, item), *hints, done(0, item), text(1, "Hi")]
    reply = read(*events, response("completed", item, message("Hi", 1)))
    assert (reply.tool_calls, reply.text, reply.finish_reason, codes(reply)) == ([], "Hi", "stop", [])
    assert reply.extras["output"] == [item, message("Hi", 1)]


_SAME_IDS = {"same ids": {}, "no call ids": {"call_id": None}, "empty ids": {"call_id": "", "id": ""}}
_TWO = ('{"a":1}', '{"b":2}')


@pytest.mark.parametrize("ids", _SAME_IDS.values(), ids=list(_SAME_IDS))
@pytest.mark.parametrize("names", ["fg", "ff"])
def test_one_item_id_for_two_calls(names: str, ids: dict[str, Any]):
    """Two output indices are two calls, whatever their ids are: as in one piece, so in a stream, in any order."""
    items = [
        call(at, name, arguments, **{"id": "fc_0", "call_id": "call_0", **ids})
        for at, (name, arguments) in enumerate(zip(names, _TWO, strict=True))
    ]
    ways = [
        [
            added(at, {**item, "arguments": "", "status": "in_progress"}),
            *[
                say("function_call_arguments.delta", output_index=at, item_id=item["id"], delta=text)
                for text in (item["arguments"][:3], item["arguments"][3:])
            ],
            say("function_call_arguments.done", output_index=at, item_id=item["id"], arguments=item["arguments"]),
            say("output_item.done", output_index=at, item=item),
        ]
        for at, item in enumerate(items)
    ]
    in_turn = [event for pair in zip(*ways, strict=True) for event in pair]
    end = response("completed", *items)
    streams = [
        [*ways[0], *ways[1]],  # one after the other
        in_turn,
        [*ways[1], *ways[0]],
        [*in_turn[:6], *in_turn[8:]],  # no `arguments.done`
        in_turn[:6],  # heads and pieces alone
        [ways[0][4], ways[1][4]],  # items alone
    ]
    expected = list(zip(names, _TWO, strict=True))
    for events in streams:
        for last in (end, response("completed")):
            reply = assert_any_cut(CREATED + b"".join(events) + last, adapter="responses")
            assert [(each.name, each.raw_arguments) for each in reply.tool_calls] == expected
            assert not any(each.error for each in reply.tool_calls)
            assert len({each.id for each in reply.tool_calls}) == 2
            assert "arguments_mismatch" not in codes(reply)


@pytest.mark.parametrize("late", [("look",), ("lo", "ok"), ("l", "o", "o", "k")])
def test_a_text_is_done_before_its_last_piece(late: tuple[str, ...]):
    """What the whole has said is not said again by the pieces that come behind it."""

    def text(name: str, **members: Any) -> bytes:
        return say(f"output_text.{name}", output_index=0, item_id="msg_0", content_index=0, **members)

    pieces = [text("delta", delta=said) for said in late]
    first = [CREATED, text("delta", delta="I "), text("done", text="I look"), *pieces]
    for last in (response("completed", message("I look")), response("completed")):
        reply = assert_any_cut(b"".join([*first, last]), adapter="responses")
        assert (reply.text, codes(reply)) == ("I look", ["text_mismatch"])
    reply = assert_any_cut(b"".join([*first, text("delta", delta="ing"), response("completed")]), adapter="responses")
    assert reply.text == "I looking"
