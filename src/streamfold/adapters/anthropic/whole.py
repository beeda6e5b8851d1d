"""A message of the Messages API as one value: the body of an answer that is not streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...values import Finish, FinishReason, Reply, ToolCall, Usage, unlisted_steps
from .carried import carried_id, opaque_block
from .decode import STOP_REASONS

__all__ = ["CALL_MEMBERS", "REQUIRED_MEMBERS", "message_skeleton", "stop_reason_of", "whole_message", "written_usage"]

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "unknown": "end_turn",
}
_OWN_REASONS = frozenset(STOP_REASONS) - {"content_filter"}
_THINKING = ("thinking", "redacted_thinking")
CALL_MEMBERS = ("caller", "toolset_name")  # of a call, beside id, name and input
# What the schema of a whole answer requires in blocks, with what stands for nothing. Clients send it back.
REQUIRED_MEMBERS: dict[str, dict[str, Any]] = {
    "text": {"citations": None},
    "tool_use": {"caller": {"type": "direct"}},
}


def whole_message(reply: Reply, *, id: str, model: str, thinking: bool = True) -> dict[str, Any]:  # noqa: A002
    """Returns the body of an answer that is not streamed."""
    blocks = (block for block in _blocks(reply) if thinking or block["type"] not in _THINKING)
    content = [{**REQUIRED_MEMBERS.get(block["type"], {}), **block} for block in blocks]
    finish = Finish(reply.finish_reason, reply.raw_finish_reason or "")
    reason = stop_reason_of(finish, calls=bool(reply.tool_calls))
    stops = [stop for stop in reply.extras.get("stop_sequence", []) if isinstance(stop, str)]
    if stops and reason == "end_turn":
        reason = "stop_sequence"
    message = message_skeleton(id, model, content, reason, reply.usage)
    return {
        **message,
        "stop_sequence": stops[-1] if stops else None,
        "stop_details": _last_object(reply.extras.get("stop_details")),
        "container": _last_object(reply.extras.get("container")),
        "usage": {**_usage_details(reply.usage or Usage()), **message["usage"]},
    }


def _last_object(values: list[Any] | None) -> dict[str, Any] | None:
    return next((value for value in reversed(values or []) if isinstance(value, dict)), None)


def _usage_details(usage: Usage) -> dict[str, Any]:
    """The members of a whole answer's usage that are null where nobody counted: https://platform.claude.com/docs/en/api/messages."""
    objects = {name: _last_object([usage.raw.get(name)]) for name in ("cache_creation", "server_tool_use")}
    words = {name: usage.raw.get(name) for name in ("inference_geo", "service_tier")}
    thought = usage.reasoning_tokens
    return {
        **objects,
        **{name: word if isinstance(word, str) else None for name, word in words.items()},
        "output_tokens_details": None if thought is None else {"thinking_tokens": thought},
    }


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    """The blocks of an answer: those that it came as, if it came on this wire, else new ones."""
    calls = {call.id: _tool_use(call) for call in reply.tool_calls}
    came_as = [block for block in reply.extras.get("blocks", []) if isinstance(block, dict) and block.get("type")]
    said = "".join(str(block.get("text", "")) for block in came_as if block["type"] == "text")
    if came_as and said == reply.text and calls.keys() == {b.get("id") for b in came_as if b["type"] == "tool_use"}:
        kept = (block for block in came_as if block["type"] != "text" or block.get("text"))
        return [calls[block["id"]] if block["type"] == "tool_use" else block for block in kept]
    thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": ""}] if reply.reasoned else []
    return [*thinking, *_made_blocks(reply, calls)]


def _made_blocks(reply: Reply, calls: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """New blocks for an answer of another wire, with what only its provider can read before what it belongs to."""
    said = reply.text + (reply.refusal or "")
    for item in reply.extras.get("output", []):
        match item:
            case {"type": "reasoning", "encrypted_content": str()}:
                yield opaque_block("output", item)
            case {"type": "message"} if said:
                yield {"type": "text", "text": said}
                said = ""
    if said:
        yield {"type": "text", "text": said}
    for call in reply.tool_calls:
        if extra := {name: value for name, value in (call.extra or {}).items() if name not in CALL_MEMBERS}:
            yield opaque_block("call", extra)
        yield calls[call.id]


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": carried_id(call.id), "name": call.name, "input": call.arguments}


def message_skeleton(
    message_id: str, model: str, content: list[dict[str, Any]], reason: str | None, usage: Usage | None
) -> dict[str, Any]:
    """Returns a message with all members that clients demand."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": written_usage(usage),
    }


def written_usage(usage: Usage | None) -> dict[str, Any]:
    """Returns the four counts, which clients demand; a count that no server sent is 0.

    Those of an answer with a compaction are as Anthropic sent them: clients take the top level for the context's size.
    """
    usage = usage or Usage()
    if unlisted_steps(usage.raw):
        counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        steps = {"iterations": usage.raw["iterations"]}
        return {**{name: usage.raw.get(name) or 0 for name in counts}, **steps, **_requests(usage)}
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
        **_requests(usage),
    }


def _requests(usage: Usage) -> dict[str, Any]:
    """How many requests the server's tools made; no client demands it."""
    found = {f"{kind}_requests": number for kind, number in usage.tools.items() if kind in ("web_search", "web_fetch")}
    return {"server_tool_use": found} if found else {}


def stop_reason_of(finish: Finish, *, calls: bool) -> str:
    """Returns the stop reason of a message."""
    reason, raw = finish.reason, finish.raw
    if raw in _OWN_REASONS and (reason == "unknown" or (finish.cut and STOP_REASONS.get(raw) == reason)):
        return raw  # the server's own word: `pause_turn` asks the client to send the message back
    if finish.cut:
        return _STOP_REASONS[reason]
    return "tool_use" if calls else "end_turn" if reason == "tool_calls" else _STOP_REASONS[reason]
