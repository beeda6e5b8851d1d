"""Turns chunks, replies and errors back into deltas, for an emitter to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...text import finite
from ...values import (
    APIError,
    APIStatusError,
    APITimeoutError,
    Call,
    Delta,
    ErrorInfo,
    Extra,
    Failure,
    Finish,
    Meta,
    ProtocolWarning,
    Reasoning,
    Refusal,
    Reply,
    StreamChunk,
    Text,
    ToolCall,
    UpstreamError,
    Warn,
)

__all__ = ["arguments_text", "chunk_deltas", "end_deltas", "error_delta", "functions_only", "jsonable", "reply_deltas"]


def chunk_deltas(chunk: StreamChunk) -> Iterator[Delta]:
    """Returns the visible part of a chunk as deltas. The rest of the last chunk is in the reply: see `end_deltas`."""
    if chunk.reasoning:
        yield Reasoning(chunk.reasoning)
    if chunk.delta:
        yield Text(chunk.delta)


def end_deltas(reply: Reply) -> Iterator[Delta]:
    """Returns what is known only at the end of an answer: whole calls, and everything that has no chunk of its own."""
    if reply.reasoned and not reply.reasoning:
        yield Reasoning("")
    if reply.refusal:
        yield Refusal(reply.refusal)
    items = _items(reply)
    for item in items:
        yield Extra("output", item)
    for name, values in reply.extras.items():
        if name != "output":
            for value in values:
                yield Extra(name, value)
    for number, call in enumerate(reply.tool_calls):
        yield _whole(number, call, items)
    if reply.usage is not None:
        yield reply.usage
    for warning in reply.warnings:
        yield Warn(warning.code, warning.detail)
    if reply.finish_reason != "unknown" or reply.raw_finish_reason:
        yield Finish(reply.finish_reason, reply.raw_finish_reason or "")


def reply_deltas(reply: Reply) -> Iterator[Delta]:
    """Returns a whole answer as deltas."""
    yield Meta(reply.id, reply.model)
    yield from chunk_deltas(StreamChunk(reply.text, reasoning=reply.reasoning))
    yield from end_deltas(reply)


def functions_only(reply: Reply) -> Reply:
    """Returns the reply without calls that are no functions: the items that they came as are written instead."""
    calls = [call for call in reply.tool_calls if call.kind == "function"]
    return reply if len(calls) == len(reply.tool_calls) else replace(reply, tool_calls=calls)


def jsonable(reply: Reply) -> Reply:
    """Returns the reply as it is written: its functions, null for every NaN and Infinity, and a warning about these.

    Some servers write NaN or 1e400 into usage and other members of an answer, and JSON has neither.
    """
    reply = functions_only(reply)
    calls = [replace(call, extra=finite(call.extra)) for call in reply.tool_calls]
    extras = finite(reply.extras)
    usage = reply.usage and replace(reply.usage, raw=finite(reply.usage.raw))
    lost = [f"tool_calls[{at}]" for at, call in enumerate(reply.tool_calls) if calls[at].extra is not call.extra]
    lost += [name for name, value in reply.extras.items() if extras[name] is not value]
    lost += ["usage"] if usage and reply.usage and usage.raw is not reply.usage.raw else []
    if not lost:
        return reply
    warning = ProtocolWarning("extras_dropped", f"{', '.join(lost)}: JSON has no NaN and no Infinity; null was sent")
    return replace(reply, tool_calls=calls, extras=extras, usage=usage, warnings=[*reply.warnings, warning])


def error_delta(error: APIError) -> Failure:
    """Returns the failure to write for an error. A server's own error object is passed on as it was."""
    return Failure(_info(error))


def _info(error: APIError) -> ErrorInfo:
    match error:
        case APIStatusError(info=ErrorInfo() as info, status_code=status):
            return replace(info, status=status)
        case APIError(info=ErrorInfo() as info):
            return info
        case UpstreamError(type=kind, code=code, status_code=status):
            return ErrorInfo(error.message, kind, code, status)
        case APIStatusError(code=code, status_code=status):
            made = ErrorInfo(error.message, None, code, status)
        case APITimeoutError():
            made = ErrorInfo(error.message, "timeout_error")
        case _:
            made = ErrorInfo(error.message)
    if made.retryable == error.retryable and (made.type or made.code):
        return made
    # A client that knows the words can tell from them whether to retry.
    return replace(made, type="server_error" if error.retryable else "upstream_error")


def _whole(number: int, call: ToolCall, items: list[dict[str, Any]]) -> Call:
    item = next((item for item in items if item.get("call_id") == call.id and item.get("type") == "function_call"), {})
    item_id = item.get("id")
    item_id = item_id if isinstance(item_id, str) and item_id else None
    return Call(number, call.id, call.name, arguments_text(call), True, call.extra, item_id)


def arguments_text(call: ToolCall) -> str:
    """Returns the arguments of a call as JSON text: clients parse it."""
    if call.kind == "custom":  # its text is not JSON: where it is a call like any other, it is a member
        return json.dumps(call.arguments, ensure_ascii=False)
    return call.raw_arguments if call.raw_arguments.strip() else "{}"  # none does not parse (QwenLM/qwen-code#6249)


def _items(reply: Reply) -> list[dict[str, Any]]:
    return [item for item in reply.extras.get("output", []) if isinstance(item, dict)]
