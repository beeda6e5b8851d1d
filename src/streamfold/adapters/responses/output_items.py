"""Converts output items to deltas: each finished item, and all items of the final response."""

from __future__ import annotations

from typing import Any

from ...deltas import (
    CallSummary,
    Delta,
    Failure,
    Finish,
    ItemSummary,
    Meta,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolRequests,
    Warn,
    unknown_finish,
)
from ...errors import ErrorInfo, error_info
from ...jsontext import as_count, clean_json, str_or_none
from ...requests import CALL_EXTRAS
from ...types import PLAIN_ITEMS, ExtraPart, FinishReason, PartRef, ToolCallDelta, item_part
from ..odd_payloads import arguments_text
from ..openai_usage import read_openai_usage

UNFINISHED = ("queued", "in_progress")
_COMPLETE = (None, "completed", "complete", "done", "finished", "success", "succeeded")  # the first two are OpenAI's
_ENDS = ("failed", "cancelled", "incomplete", "completed")  # the worst first


def item_done(item: dict[str, Any], output: int | None) -> list[Delta]:
    """Returns a finished item's deltas. The last delta contains the item itself, which later requests send back."""
    kind = item.get("type")
    out: list[Delta] = []
    if kind == "function_call":
        out.append(function_call(item, output, out))
    texts = _item_texts(item, output)
    if kind == "reasoning" and not texts:
        out.append(ReasoningDelta(""))  # the model reasoned, and the server doesn't show it
    if kind not in PLAIN_ITEMS and (part := item_part(item)) is not None:
        out.append(part)
    return [*out, *texts, ExtraPart("output", clean_json(item), place=output)]


def _item_texts(item: dict[str, Any], output: int | None) -> list[TextDelta | ReasoningDelta | RefusalDelta]:
    kind, item_id = item.get("type"), str_or_none(item.get("id"))
    if kind == "message":
        content = item.get("content")
        parts = [{"text": content}] if isinstance(content, str) else _list(content)
        numbered = [(as_object(part), PartRef(output, item_id, number)) for number, part in enumerate(parts)]
        return [text for part, place in numbered if (text := part_text(part, place)) is not None]
    if kind == "reasoning":
        form, parts = "summary", _list(item.get("summary"))
        if not any(said_text(part) for part in parts):
            form, parts = "text", _list(item.get("content"))
        texts = [(number, said_text(part)) for number, part in enumerate(parts)]
        return [
            ReasoningDelta(text, PartRef(output, item_id, number, form), whole=True) for number, text in texts if text
        ]
    return []


def part_text(part: dict[str, Any], place: PartRef) -> TextDelta | ReasoningDelta | RefusalDelta | None:
    """Returns the complete text of a content part as a delta, or None if the content part has no text."""
    kind, text = part.get("type"), part.get("text")
    if kind == "refusal" and isinstance(refusal := part.get("refusal"), str) and refusal:
        return RefusalDelta(refusal, place, whole=True)
    if not text or not isinstance(text, str):
        return None
    if form := "text" if kind == "reasoning_text" else "summary" if kind == "summary_text" else "":
        return ReasoningDelta(text, place._replace(form=form), whole=True)
    return TextDelta(text, place, whole=True)


def function_call(item: dict[str, Any], output: int | None, out: list[Delta]) -> ToolCallDelta:
    """Returns the tool call in an output item. Adds warnings to `out`.

    `call_id` is the id of the tool call, and `id` is the id of the item.
    """
    wanted_back = {name: clean_json(item[name]) for name in CALL_EXTRAS if item.get(name)}
    arguments, status = arguments_text(item.get("arguments"), out), str_or_none(item.get("status"))
    # OpenAI sends complete calls that a hosted program makes with the status "in_progress" (July 2026).
    ended = status in _COMPLETE or (status == "in_progress" and len(arguments) > len("{}"))
    return ToolCallDelta(
        output,
        str_or_none(item.get("call_id")),
        str_or_none(item.get("name")),
        arguments,
        whole=True,
        extra=wanted_back or None,
        item=str_or_none(item.get("id")) or "",
        ended=ended,
    )


def whole_response(response: dict[str, Any], said: str, out: list[Delta]) -> None:
    """Adds the deltas of the final response to `out`. The final response repeats all items.

    Args:
        said: the status that the event's name contains, or `""` if unknown.
    """
    out.append(response_meta(response))
    items = [item for item in _list(response.get("output")) if isinstance(item, dict)]
    if items:  # if the list is empty, the earlier events have delivered all items
        _whole_output(items, out)
    if usage := as_object(response.get("usage")):
        out.append(read_openai_usage(usage))
        _add_tool_requests(usage, response.get("tool_usage"), out)
    if end := _end(response, said, items):
        if isinstance(end, Finish) and end.reason == "unknown":
            out.append(unknown_finish(end.raw or ""))
        out += [end, StreamEnd()]


def compacted_response(response: dict[str, Any]) -> list[Delta]:
    """Returns the deltas of a response whose items are a compacted conversation."""
    items = [clean_json(item) for item in _list(response.get("output")) if isinstance(item, dict)]
    out: list[Delta] = [response_meta(response), ExtraPart("output", items, whole=True)]
    if usage := as_object(response.get("usage")):
        out.append(read_openai_usage(usage))
    return [*out, Finish("stop", "completed"), StreamEnd()]


def response_meta(response: dict[str, Any]) -> Meta:
    """Returns the id, model and creation time of a response, and the id of the response that it continues."""
    created = response.get("created_at")
    created = created if isinstance(created, int | float | str) else None
    previous = (str_or_none(response["previous_response_id"]) or "") if "previous_response_id" in response else None
    return Meta(str_or_none(response.get("id")), str_or_none(response.get("model")), created, previous)


def _whole_output(items: list[dict[str, Any]], out: list[Delta]) -> None:
    out.append(ItemSummary([item_done(item, output) for output, item in enumerate(items)]))
    kinds = [item.get("type") for item in items]
    texts = [text for output, item in enumerate(items) for text in _item_texts(item, output)]
    for kind in (ReasoningDelta, TextDelta, RefusalDelta):
        if joined := "".join([text.text for text in texts if type(text) is kind]):
            out.append(kind(joined, whole=True))
        elif kind is ReasoningDelta and "reasoning" in kinds:
            out.append(ReasoningDelta(""))
    out += texts
    parts = [as_object(part) for item in items if item.get("type") == "message" for part in _list(item.get("content"))]
    if annotations := [annotation for part in parts for annotation in _list(part.get("annotations"))]:
        out.append(ExtraPart("annotations", clean_json(annotations), whole=True))
    out.append(ExtraPart("output", clean_json(items), whole=True))
    for item in items:
        if item.get("type") not in PLAIN_ITEMS and (part := item_part(item)) is not None:
            out.append(part)
    if "function_call" in kinds:
        called = [(output, item) for output, item in enumerate(items) if item.get("type") == "function_call"]
        out.append(CallSummary([function_call(item, output, out) for output, item in called]))


def _end(response: dict[str, Any], said: str, items: list[dict[str, Any]]) -> Finish | Failure | None:
    """Returns how the response ended. If the event's name contradicts the response's status, an error or an incomplete
    end takes precedence, because the mock server aimock names every event "completed"."""
    status = str_or_none(response.get("status"))
    word_for_it = next((end for end in _ENDS if end in (said, status)), status)
    details = response.get("incomplete_details")
    reason = str_or_none(as_object(details).get("reason")) if details else None
    error = response.get("error")
    if error or word_for_it == "failed":
        body = {"error": error or "the response failed, and the server gave no reason"}
        return Failure(error_info(body), error)
    if word_for_it == "cancelled":
        return Failure(ErrorInfo("the response was cancelled", type="cancelled"))
    cut = any(item.get("status") == "incomplete" and item.get("type") in ("message", "function_call") for item in items)
    if reason or cut or word_for_it == "incomplete":
        # After other reasons (`max_messages`, `steered`), tool calls are missing, too.
        finish: FinishReason = "content_filter" if reason == "content_filter" else "length"
        return Finish(finish, reason or word_for_it or "incomplete")
    # Perplexity sends "requires_action" for a response with tool calls for the client.
    if word_for_it in ("completed", "requires_action") or said:
        return Finish("stop", "completed")
    return Finish("unknown", status) if status and status not in UNFINISHED else None


_COUNTED = {
    "code_interpreter": "code_execution", "image_gen": "image_generation",
    "search_web": "web_search", "fetch_url": "web_fetch", "sandbox": "code_execution",
}  # fmt: skip


def _add_tool_requests(usage: dict[str, Any], said: Any, out: list[Delta]) -> None:
    """Adds to `out` how many requests the server made to each hosted tool.

    OpenAI sends these numbers next to the usage object. xAI and Perplexity send them inside the usage object.
    """
    details, calls = usage.get("server_side_tool_usage_details"), usage.get("tool_calls_details")
    if isinstance(calls, dict):
        found = {name: as_object(about).get("invocation") for name, about in calls.items()}
    elif isinstance(details, dict):
        found = {str(name).removesuffix("_calls"): number for name, number in details.items()}
    elif isinstance(said, dict):
        found = {name: as_object(about).get("num_requests") for name, about in said.items()}
    else:
        return
    for name, number in found.items():
        if requests := as_count(number):
            out.append(ToolRequests(_COUNTED.get(name, name), requests))
        elif requests is None and number is not None:
            out.append(Warn("usage_invalid", f"the number of {name} requests is not a count: {number!r:.40}"))


def said_text(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("text")
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
