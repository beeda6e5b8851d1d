"""Small promises about what is sent, shown and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import ConfigError, Limits, Message, Provider, Reply, StreamDecoder, ToolCall, image, tool_result, user
from streamfold.serving.anthropic import AnthropicSerializer
from streamfold.serving.reply_deltas import reply_deltas

CHECKS = [{"id": "sc_1", "code": "malicious_instructions", "message": "Look at this."}]
ACTION = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"type": "screenshot"},
}
SHOT = image("data:image/png;base64,iVBORw0KGgo=")


def provider(adapter: str, **quirks: Any) -> Provider:
    config = {"base_url": "https://a.test/v1", "model": "m", "api_key": "k", "adapter": adapter, "quirks": quirks}
    return Provider.from_config(config)


def computer_call() -> Reply:
    decoder = StreamDecoder("responses")
    item = {**ACTION, "pending_safety_checks": CHECKS}
    decoder.feed(json.dumps({"id": "r", "object": "response", "status": "completed", "output": [item]}).encode())
    decoder.close()
    return decoder.reply


@pytest.mark.parametrize("acknowledge", [True, CHECKS])
def test_safety_checks_are_shown_and_acknowledged(acknowledge: Any) -> None:
    """A call of the computer shows its checks; the result says which of them a person has acknowledged."""
    reply = computer_call()
    [call] = reply.tool_calls
    assert call.pending_safety_checks == tuple(CHECKS)
    preview = provider("responses").preview(
        [user("Go"), reply.message, tool_result(call, SHOT, acknowledge=acknowledge)]
    )
    assert preview.json()["input"][-1]["acknowledged_safety_checks"] == CHECKS
    assert preview.warnings == ()
    silent = provider("responses").preview([user("Go"), reply.message, tool_result(call, SHOT)])
    assert "acknowledged_safety_checks" not in silent.json()["input"][-1]


def test_only_calls_of_the_computer_have_safety_checks() -> None:
    """Others can't be acknowledged."""
    call = ToolCall("c", "f", {}, "{}")
    assert call.pending_safety_checks == ()
    with pytest.raises(ConfigError, match="is only for computer calls: 'f' is a function call"):
        tool_result(call, "x", acknowledge=True)


@pytest.mark.parametrize(
    ("adapter", "quirks"),
    [("chat", {"message_names": False}), ("kimi", {}), ("responses", {}), ("anthropic", {}), ("gemini", {})],
)
def test_a_name_without_a_place_is_dropped_with_a_warning(adapter: str, quirks: Any) -> None:
    """Clients write a name into every message: no provider is out of their reach for that."""
    preview = provider(adapter, **quirks).preview([Message("user", "Hello", name="Ada")])
    if adapter == "kimi":
        assert "Ada" in preview.body.decode()
        return
    assert "Ada" not in preview.body.decode()
    [warning] = preview.warnings
    assert warning.code == "provider_data_dropped"
    assert "messages[0].name" in warning.detail


def test_a_text_without_citations_says_nothing_of_them() -> None:
    """Anthropic leaves the member out, and a client of it refuses null."""
    body = AnthropicSerializer(id="m", model="c").serialize_whole(reply_deltas(Reply(text="Hi", finish_reason="stop")))
    assert body["content"] == [{"type": "text", "text": "Hi"}]


def function_call(arguments: str, *, status: str = "completed") -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": arguments, "status": status}


def test_what_is_repeated_is_counted_once() -> None:
    """Arguments that come in pieces and again as a whole, and items that the end lists again, are one."""
    raw = json.dumps({"text": "x" * 100})
    item = function_call(raw)
    found = {"type": "file_search_call", "id": "fs", "status": "completed", "queries": ["y" * 400]}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": function_call("", status="in_progress")},
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 0, "delta": raw[:9]},
        {"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 0, "delta": raw[9:]},
        {"type": "response.function_call_arguments.done", "item_id": "fc", "output_index": 0, "arguments": raw},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 1, "item": found},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item, found]}},
    ]
    decoder = StreamDecoder("responses", limits=Limits(all_arguments_chars=len(raw), other_chars=1000))
    decoder.feed(b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))
    decoder.close()
    assert [call.raw_arguments for call in decoder.reply.tool_calls] == [raw]


@pytest.mark.parametrize("delta", [{"content": 5}, [{"content": "x"}], {"content": [5]}])
def test_a_content_that_is_no_text_is_a_warning(delta: Any) -> None:
    """What can't be read is not passed over in silence."""
    decoder = StreamDecoder("chat")
    choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
    decoder.feed(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
    decoder.close()
    assert [warning.code for warning in decoder.reply.warnings] == ["malformed_event", "empty_answer"]
