"""What was right below a `RepairTransport` comes out byte by byte, as far as it was right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from folding import DONE, bytewise, call, chunk, entry, fin, text
from mirror import payloads
from streamfold.integrations.repair import Repairs


def named(*events: dict[str, Any], spaced: bool = True) -> bytes:
    """Events as the APIs with names for them send them, with members in an order that no writer of ours has."""
    separators = (", ", ": ") if spaced else (",", ":")
    return b"".join(
        f"event: {one.get('type')}\ndata: {json.dumps(one, separators=separators)}\n\n".encode() for one in events
    )


def begun(index: int, id_: str, name: str, arguments: str) -> dict[str, Any]:
    """The first entry of a call, with its type."""
    return {"type": "function", **entry(index, id_, name, arguments)}


CITY = '{"city": "Kraków"}'
ITEM = {"status": "completed", "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": CITY}
MESSAGE = {"id": "m_1", "type": "message", "role": "assistant", "content": [], "status": "in_progress"}
DELTA = {"type": "response.output_text.delta", "item_id": "m_1", "output_index": 0, "content_index": 0, "delta": "Hi"}
ARGUMENTS = {"item_id": "fc_1", "output_index": 1}
RIGHT: dict[str, tuple[str, bytes]] = {
    "chat": (
        "chat",
        b": hello\n\n"
        + chunk({"role": "assistant", "content": "Hi"})
        + b'data: {"choices": [{"delta": {"content": " there"}, "index": 0, "mine": null}], "object": '
        + b'"chat.completion.chunk"}\r\n\r\n'
        + b": ping\n\n"
        + call(begun(0, "c1", "f", '{"city": '), entry(0, arguments='"Krak'))
        + call(entry(0, arguments='\\u00f3w"}'))
        + call(begun(1, "c2", "g", "{}"))
        + fin("tool_calls")
        + b'data: {"id":"x","choices":[],"usage":{"total_tokens":3,"prompt_tokens":1,"completion_tokens":2}}\n\n'
        + DONE,
    ),
    "chat, no end of its own": ("chat", text("Hi") + fin("stop")[:-1]),
    "responses": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.in_progress", "response": {"id": "r1", "output": []}, "sequence_number": 1},
            {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE, "sequence_number": 2},
            {**DELTA, "sequence_number": 3, "mine": [1]},
            {"type": "response.of_next_year", "sequence_number": 4},
            {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE, "sequence_number": 5},
            {"type": "response.output_item.added", "output_index": 1, "item": {**ITEM, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **ARGUMENTS, "delta": CITY[:4]},
            {"type": "response.function_call_arguments.delta", **ARGUMENTS, "delta": CITY[4:]},
            {"type": "response.function_call_arguments.done", **ARGUMENTS, "arguments": CITY},
            {"type": "response.output_item.done", "output_index": 1, "item": ITEM},
            {"type": "response.completed", "response": {"output": [MESSAGE, ITEM], "status": "completed", "id": "r1"}},
        ),
    ),
    "responses, failed": (
        "responses",
        named(
            {"type": "response.created", "response": {"id": "r1", "output": []}, "sequence_number": 0},
            {"type": "response.failed", "response": {"id": "r1", "status": "failed", "error": {"message": "no"}}},
        ),
    ),
    "messages": (
        "anthropic",
        named(
            {
                "type": "message_start",
                "message": {"content": [], "id": "m", "model": "c", "usage": {"input_tokens": 1}},
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "mine": 1}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": CITY[:5]},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": CITY[5:]},
            },
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ),
    ),
    "gemini": (
        "gemini",
        named(
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}], "mine": 1},
            {
                "candidates": [
                    {"content": {"parts": [{"functionCall": {"args": {"a": 1}, "name": "f"}}]}, "finishReason": "STOP"}
                ],
                "usageMetadata": {"totalTokenCount": 3},
            },
        ),
    ),
    "nothing but an end": ("chat", DONE),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_goes_on_as_it_came(name: str) -> None:
    """Lifecycle, names of events, comments, line ends, unknown members and the order of members: all of it stays."""
    wire, body = RIGHT[name]
    for pieces in ([body], list(bytewise(body))):
        repair = Repairs().stream(wire, {"stream": True})
        assert b"".join(map(repair.feed, pieces)) + repair.close() == body
        assert repair.repaired.warnings == ()


def test_the_end_of_a_call_waits() -> None:
    """What goes on before the end of the answer is no call that could be run."""
    wire, body = RIGHT["responses"]
    repair, early = Repairs().stream(wire, {"stream": True}), b""
    *events, last, _ = body.split(b"\n\n")
    early = b"".join(repair.feed(event + b"\n\n") for event in events)
    assert early.endswith(events[6] + b"\n\n" + events[7] + b"\n\n")
    assert early + repair.feed(last + b"\n\n") == body
    cut = Repairs().stream(wire, {"stream": True})
    kinds = [one["type"] for one in payloads(cut.feed(b"\n\n".join([*events, b""])) + cut.close())]
    assert "response.function_call_arguments.done" not in kinds
    assert kinds[-1] == "error"


@pytest.mark.parametrize(
    ("wire", "good", "bad"),
    [
        ("chat", text("Hi") + call(begun(0, "a", "f", '{"x":')), call(begun(0, "b", "g", "{}")) + fin("tool_calls")),
        ("chat", text("Hi") + call(begun(0, "a", "f", '{"x":')), call(entry(0, arguments="1")) + fin("length")),
        ("chat", text("Hi"), b'data: {"choices":[{"index":0,"delta":{"content":["no"]}}]}\n\n'),
        ("responses", RIGHT["responses"][1].partition(b"event: response.output_item.added")[0], named(DELTA)),
        ("anthropic", RIGHT["messages"][1].partition(b"event: content_block_stop")[0], b""),
    ],
)
def test_the_rest_is_written_from_the_first_thing_to_mend_on(wire: str, good: bytes, bad: bytes) -> None:
    """What has gone on is not said again, and nothing of what comes behind it is lost."""
    repair = Repairs().stream(wire, {"stream": True})
    out = repair.feed(good)
    assert good.startswith(out)
    out += repair.feed(bad) + repair.close()
    once = [one for one in payloads(out) if str(one.get("type", "")).endswith(("created", ".added", "_start"))]
    assert len({json.dumps(one) for one in once}) == len({(one["type"], one.get("output_index")) for one in once})
    assert wire == "responses" or out.count(b"Hi") == good.count(b"Hi")
