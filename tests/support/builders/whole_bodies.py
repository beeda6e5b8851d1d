"""A streamed answer as its provider sends it in one piece, put together by the rules that each provider documents.

Nothing of the library is used here, so that its own reading of both can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

__all__ = ["whole_body"]

Events = list[dict[str, Any]]


def whole_body(adapter: str, body: bytes) -> bytes:
    """The body of the answer that was not streamed."""
    lines = body.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    data = [line[5:].strip() for line in lines if line.startswith("data:")]
    return json.dumps(_WAYS[adapter]([json.loads(one) for one in data if one != "[DONE]"])).encode()


def _completion(events: Events) -> dict[str, Any]:
    """https://platform.openai.com/docs/api-reference/chat/object"""
    out: dict[str, Any] = {**events[0], "object": "chat.completion"}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": None}
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        out |= {name: value for name, value in event.items() if name not in ("object", "choices") and value}
        for sent in event.get("choices") or ():
            delta = dict(sent.get("delta") or {})
            for piece in delta.pop("tool_calls", None) or ():
                _merge(calls.setdefault(piece.get("index", 0), {}), {k: v for k, v in piece.items() if k != "index"})
            delta.pop("role", None)
            _merge(message, delta)
            _merge(choice, {k: v for k, v in sent.items() if k not in ("index", "delta")})
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    return {**out, "choices": [choice]}


def _merge(into: dict[str, Any], piece: dict[str, Any]) -> None:
    """Adds what a piece brings: texts and lists grow, objects are merged."""
    for name, value in piece.items():
        was = into.get(name)
        if isinstance(was, str) and isinstance(value, str) and name not in ("id", "type", "name", "finish_reason"):
            into[name] = was + value
        elif isinstance(was, list) and isinstance(value, list):
            into[name] = [*was, *value]
        elif (
            name == "content" and isinstance(was, list) and isinstance(value, str)
        ):  # Databricks mixes them in a stream
            into[name] = [*was, {"type": "text", "text": value}]
        elif isinstance(was, dict) and isinstance(value, dict):
            _merge(was, value)
        elif value is not None:
            into[name] = value if not isinstance(value, dict) else dict(value)


def _response(events: Events) -> dict[str, Any]:
    """https://platform.openai.com/docs/api-reference/responses/object: the last event repeats it."""
    response: dict[str, Any] = events[-1]["response"]
    return response


def _message(events: Events) -> dict[str, Any]:
    """https://docs.anthropic.com/en/docs/build-with-claude/streaming"""
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event:
            case {"type": "message_start", "message": begun}:
                message = dict(begun)
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(dict(block))
            case {"type": "content_block_delta", "index": at, "delta": {"citation": cited}}:
                blocks[at]["citations"] = [*(blocks[at].get("citations") or ()), cited]
            case {"type": "content_block_delta", "index": at, "delta": delta}:
                _merge(blocks[at], {name: value for name, value in delta.items() if name != "type"})
            case {"type": "message_delta", "delta": delta}:
                message |= delta
                message["usage"] = {**message.get("usage", {}), **event.get("usage", {})}
    for block in blocks:
        if text := block.pop("partial_json", ""):
            block["input"] = json.loads(text)
    return {**message, "content": blocks}


def _generated(events: Events) -> dict[str, Any]:
    """https://ai.google.dev/api/generate-content#generatecontentresponse"""
    out: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    parts: Events = []
    for event in events:
        out |= event
        for sent in event.get("candidates") or ():
            candidate |= sent
            parts += sent.get("content", {}).get("parts", [])
    joined: Events = []
    for kind, some in groupby(parts, key=lambda part: sorted(part)):
        group = list(some)
        if kind in (["text"], ["text", "thought"]):
            joined.append({**group[0], "text": "".join(part["text"] for part in group)})
        else:
            joined += group
    candidate["content"] = {"role": "model", "parts": joined}
    return {**out, "candidates": [candidate]}


def _interaction(events: Events) -> dict[str, Any]:
    """https://ai.google.dev/api/interactions-api"""
    steps: dict[int, dict[str, Any]] = {}
    for event in events:
        delta = event.get("delta", {})
        match event["event_type"], delta.get("type"):
            case "step.start", _:
                steps[event["index"]] = {**event["step"]}
            case "step.delta", "text":
                contents = steps[event["index"]].setdefault("content", [])
                if not contents or contents[-1]["type"] != "text":
                    contents.append({"type": "text", "text": ""})
                contents[-1]["text"] += delta["text"]
            case "step.delta", "text_annotation_delta":
                steps[event["index"]]["content"][-1].setdefault("annotations", []).extend(delta["annotations"])
            case "step.delta", "thought_summary":
                steps[event["index"]].setdefault("summary", []).append(delta["content"])
            case "step.delta", "arguments_delta":
                step = steps[event["index"]]
                step["text"] = step.get("text", "") + delta["arguments"]
            case "step.delta", _:
                steps[event["index"]] |= {
                    name: value for name, value in delta.items() if name != "type" and value != ""
                }
    for step in steps.values():
        if "text" in step:
            step["arguments"] = json.loads(step.pop("text"))
    return {**events[-1]["interaction"], "steps": [steps[index] for index in sorted(steps)]}


_WAYS: dict[str, Callable[[Events], dict[str, Any]]] = {
    "anthropic": _message,
    "chat": _completion,
    "gemini": _generated,
    "interactions": _interaction,
    "kimi": _completion,
    "responses": _response,
}
