"""Whole answers of the four wire formats, for servers that accept a request and for turns that come from a provider."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Call = tuple[str, str, str]  # id, name, arguments as JSON text
SIGNATURE = "EqQBCkYIBxgCKkBzaWduYXR1cmUtb2YtYS1tYWtlcg=="


def reply(api: str, text: str = "Done.", reasoning: str = "", calls: Sequence[Call] = ()) -> Mapping[str, Any]:
    """Returns the body of a whole answer in a wire format."""
    return {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini}[api](
        text, reasoning, calls
    )


def _chat(text: str, reasoning: str, calls: Sequence[Call]) -> Mapping[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}
            for own, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {"id": "c-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _responses(text: str, reasoning: str, calls: Sequence[Call]) -> Mapping[str, Any]:
    output: list[dict[str, Any]] = []
    if reasoning:
        summary = [{"type": "summary_text", "text": reasoning}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAAAABo"})
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    for number, (own, name, arguments) in enumerate(calls):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": own, "name": name, "arguments": arguments}
        output.append(item | {"status": "completed"})
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": output,
        "usage": usage,
    }


def _anthropic(text: str, reasoning: str, calls: Sequence[Call]) -> Mapping[str, Any]:
    content: list[dict[str, Any]] = []
    if reasoning:
        content.append({"type": "thinking", "thinking": reasoning, "signature": SIGNATURE})
    if text:
        content.append({"type": "text", "text": text})
    for own, name, arguments in calls:
        content.append({"type": "tool_use", "id": own, "name": name, "input": json.loads(arguments)})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def _gemini(text: str, reasoning: str, calls: Sequence[Call]) -> Mapping[str, Any]:
    parts: list[dict[str, Any]] = []
    if reasoning:
        parts.append({"text": reasoning, "thought": True})
    if text:
        parts.append({"text": text})
    for number, (own, name, arguments) in enumerate(calls):
        part: dict[str, Any] = {"functionCall": {"id": own, "name": name, "args": json.loads(arguments)}}
        if not number:
            part["thoughtSignature"] = "CgIBAg=="
        parts.append(part)
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r-1"}
