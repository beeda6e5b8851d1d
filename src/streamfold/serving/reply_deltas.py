"""Converts replies and errors to deltas, from which serializers write responses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from ..deltas import Delta, Failure, Finish, Meta, ReasoningDelta, RefusalDelta, TextDelta, Warn
from ..errors import APIError, APIStatusError, APITimeoutError, ErrorInfo, UpstreamError
from ..jsontext import replace_non_finite, str_or_none
from ..types import CallKind, ExtraPart, PartRef, Reply, ReplyWarning, ToolCall, ToolCallDelta


def end_deltas(reply: Reply, *, has_items: bool = False) -> list[Delta]:
    """Returns the deltas for the end of an answer: complete tool calls, and all data that the chunks didn't contain.

    Args:
        has_items: True if the client has received nothing yet, and the reply has Responses API items. The deltas then
            also contain the text of these items.
    """
    deltas: list[Delta] = []
    if reply.reasoned and not reply.reasoning:
        deltas.append(ReasoningDelta(""))
    if reply.refusal and not has_items:
        deltas.append(RefusalDelta(reply.refusal))
    for name, values in reply.extras.items():
        if name != "output":
            found = _cited_in_whole_text(reply, values) if name == "annotations" else values
            deltas += [ExtraPart(name, value) for value in found]
    deltas += _items_and_calls(reply, with_texts=has_items)
    if reply.usage is not None:
        deltas.append(reply.usage)
    deltas += [Warn(warning.code, warning.detail) for warning in reply.warnings]
    if reply.finish_reason != "unknown" or reply.raw_finish_reason:
        deltas.append(Finish(reply.finish_reason, reply.raw_finish_reason or ""))
    return deltas


def _cited_in_whole_text(reply: Reply, annotations: list[Any]) -> list[Any]:
    """Returns citations whose positions count from the start of the answer's text. In the Responses API, positions
    count from the start of a part of the text."""
    found, text = [], ""
    for item in _items(reply):
        parts = item.get("content") if item.get("type") == "message" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and isinstance(said := part.get("text"), str):
                cited = part.get("annotations")
                found += [_moved(one, len(text)) for one in cited] if isinstance(cited, list) else []
                text += said
    return found if text == reply.text and len(found) == len(annotations) else annotations


def _moved(cited: Any, by: int) -> Any:
    match cited:
        case {"start_index": int(start), "end_index": int(end)}:
            return {**cited, "start_index": start + by, "end_index": end + by}
    return cited


def reply_deltas(reply: Reply) -> list[Delta]:
    """Converts a complete reply to deltas."""
    deltas: list[Delta] = [Meta(reply.id, reply.model)]
    if has_items(reply):
        return deltas + end_deltas(reply, has_items=True)
    if reply.reasoning:
        deltas.append(ReasoningDelta(reply.reasoning))
    if reply.text:
        deltas.append(TextDelta(reply.text))
    return deltas + end_deltas(reply)


def has_items(reply: Reply) -> bool:
    """Returns True if the Responses API items in `reply.extras` contain the same text, refusal and reasoning as the
    reply."""
    said = [delta for item in _items(reply) for delta in _texts(item)]
    texts = [
        "".join(one.text for one in said if isinstance(one, kind)) for kind in (TextDelta, RefusalDelta, ReasoningDelta)
    ]
    shown = [reply.text, reply.refusal or "", "".join(reply.reasoning.split())]
    return bool(said) and [*texts[:2], "".join(texts[2].split())] == shown


def keep_call_kinds(reply: Reply, kinds: Collection[CallKind]) -> Reply:
    """Returns the reply without the tool calls whose kind isn't in `kinds`. Adds a warning with the names of these tool
    calls."""
    lost = [call.name for call in reply.tool_calls if call.kind not in kinds]
    if not lost:
        return reply
    detail = f"{', '.join(lost)}: this API supports only calls of {' and '.join(kinds)} tools"
    calls = [call for call in reply.tool_calls if call.kind in kinds]
    return replace(reply, tool_calls=calls, warnings=[*reply.warnings, ReplyWarning("calls_dropped", detail)])


def without_non_finite(reply: Reply) -> Reply:
    """Replaces every NaN and Infinity in a reply with null, and adds a warning.

    Some servers send NaN or 1e400 in usage and other fields. Valid JSON can't contain these values.
    """
    calls = [replace(call, extra=replace_non_finite(call.extra)) for call in reply.tool_calls]
    extras = replace_non_finite(reply.extras)
    usage = reply.usage
    if usage is not None and (raw := replace_non_finite(usage.raw)) is not usage.raw:
        usage = replace(usage, raw=raw)
    lost = [f"tool_calls[{at}]" for at, call in enumerate(reply.tool_calls) if calls[at].extra is not call.extra]
    lost += [name for name, value in reply.extras.items() if extras[name] is not value]
    lost += ["usage"] if usage is not reply.usage else []
    if not lost:
        return reply
    warning = ReplyWarning(
        "provider_data_dropped", f"{', '.join(lost)}: JSON can't express NaN and Infinity, so null was sent"
    )
    return replace(reply, tool_calls=calls, extras=extras, usage=usage, warnings=[*reply.warnings, warning])


def error_delta(error: APIError) -> Failure:
    """Converts an exception to the delta that ends a failed answer. The delta contains the provider's error object."""
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
    # From these types, clients can tell whether to retry.
    return replace(made, type="server_error" if error.retryable else "upstream_error")


def _items(reply: Reply) -> list[dict[str, Any]]:
    return [item for item in reply.extras.get("output", []) if isinstance(item, dict)]


def _texts(item: dict[str, Any]) -> Iterator[TextDelta | RefusalDelta | ReasoningDelta]:
    parts = item.get("content") if item.get("type") == "message" else item.get("summary") or item.get("content")
    for number, part in enumerate(parts if isinstance(parts, list) else ()):
        place = PartRef(item=str_or_none(item.get("id")), number=number)
        match item.get("type"), part:
            case "message", {"refusal": str(text)}:
                yield RefusalDelta(text, place)
            case "message", {"text": str(text)}:
                yield TextDelta(text, place)
            case "reasoning", {"text": str(text)}:
                yield ReasoningDelta(text, place)


def _items_and_calls(reply: Reply, *, with_texts: bool) -> Iterator[Delta]:
    """Yields the Responses API items and the tool calls of an answer, in the order in which the model wrote them. A
    tool call that isn't a function call is yielded as an item.
    """
    items, written = _items(reply), 0
    calls = [_written_call(number, call, items) for number, call in enumerate(reply.tool_calls)]
    places = {call.id: number for number, call in enumerate(reply.tool_calls)}
    for item in items:
        yield from _texts(item) if with_texts else ()
        place = places.get(str_or_none(item.get("call_id")) or str_or_none(item.get("id")) or "", -1)
        for made in calls[written : max(written, place)]:  # calls that the list of items lacks, or has elsewhere
            yield from made
        yield ExtraPart("output", item)
        if place >= written:
            yield from calls[place]
            written = place + 1
    for made in calls[written:]:
        yield from made


def _written_call(number: int, call: ToolCall, items: list[dict[str, Any]]) -> list[Delta]:
    """Returns the deltas of a tool call. Returns no deltas if `_items_and_calls` yields the tool call as an item."""
    item = next((item for item in items if item.get("call_id") == call.id), None)
    if call.kind == "function":
        item_id = item.get("id") if item else None
        item_id = item_id if isinstance(item_id, str) and item_id else None
        return [ToolCallDelta(number, call.id, call.name, arguments_text(call), True, call.extra, item_id)]
    if call.kind != "custom" or item is not None:
        return []
    members = {"call_id": call.id, "name": call.name, "input": call.raw_arguments}
    return [ExtraPart("output", {"type": "custom_tool_call", "status": "completed", **members})]


def arguments_text(call: ToolCall) -> str:
    """Returns the JSON text of a tool call's arguments, or `{}` if the model wrote none."""
    # Some clients can't parse an empty text (QwenLM/qwen-code#6249).
    return call.raw_arguments if call.raw_arguments.strip() else "{}"
