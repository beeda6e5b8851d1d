"""Converts events of the Responses API to deltas.

The API sends most content twice: in pieces, and then complete. `deduplication.py` and `tool_call_assembly.py` in
`streamfold.engine` compare the two.

https://platform.openai.com/docs/api-reference/responses-streaming lists the events. The decoder ignores progress events
of hosted tools, and events with an empty item or content part, because later events repeat their content.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...deltas import Delta, Failure, Meta, ReasoningDelta, RefusalDelta, Sequence, StreamEnd, TextDelta
from ...errors import ErrorInfo, error_info
from ...jsontext import ERROR_KEYS, clean_json, int_or_none, is_empty, parse_object, parse_or_text, str_or_none
from ...types import PLAIN_ITEMS, ExtraPart, PartRef, ToolCallDelta, item_part
from ..odd_payloads import arguments_text, decode_odd_payload
from .output_items import (
    UNFINISHED,
    as_object,
    compacted_response,
    function_call,
    item_done,
    part_text,
    response_meta,
    said_text,
    whole_response,
)

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent


class TextEvent(NamedTuple):
    """A type of event that contains text, and how to decode it."""

    kind: type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta]
    member: str
    number: str = "content_index"
    whole: bool = False
    form: str = ""


TEXT_EVENTS = {
    "response.output_text.delta": TextEvent(TextDelta, "delta"),
    "response.output_text.done": TextEvent(TextDelta, "text", whole=True),
    "response.refusal.delta": TextEvent(RefusalDelta, "delta"),
    "response.refusal.done": TextEvent(RefusalDelta, "refusal", whole=True),
    "response.reasoning_summary_text.delta": TextEvent(ReasoningDelta, "delta", "summary_index", form="summary"),
    "response.reasoning_summary_text.done": TextEvent(
        ReasoningDelta, "text", "summary_index", whole=True, form="summary"
    ),
    "response.reasoning_text.delta": TextEvent(ReasoningDelta, "delta", form="text"),
    "response.reasoning_text.done": TextEvent(ReasoningDelta, "text", whole=True, form="text"),
    # Of gateways that follow https://www.openresponses.org, and not of OpenAI
    "response.reasoning.delta": TextEvent(ReasoningDelta, "delta", form="other"),
    "response.reasoning.done": TextEvent(ReasoningDelta, "text", whole=True, form="other"),
}


class ResponsesEventReader:
    """Decodes responses of the Responses API."""

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        payload, failed = parse_or_text(event.data), event.event == "error"
        if not isinstance(payload, dict):
            return decode_odd_payload(payload, failed=failed)
        get = payload.get
        out: list[Delta] = [Sequence(int_or_none(get("sequence_number")))]
        # The `event:` line repeats the type, or is missing. If the two differ, the type is right.
        kind = get("type")
        if type(kind) is str and (text := TEXT_EVENTS.get(kind)) is not None:
            said = get(text.member)
            if said and (type(said) is str or (said := said_text(said))):
                out.append(text.kind(said, _place(payload, text.number, text.form), text.whole))
        elif type(kind) is str and (read := _EVENTS.get(kind)) is not None:
            read(payload, out)
        elif type(kind) is str and kind.startswith("response.") and not kind.endswith("error"):
            pass  # other events repeat its content
        elif failed or _is_error(payload):
            out.append(_failure(payload))
        elif not kind and payload.get("object") == "response":
            whole_response(payload, "", out)
        elif not kind and "choices" in payload:
            raise ValueError("this is a Chat Completions response: use the adapter 'chat'")
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        """Converts a JSON response body to deltas. Raises ValueError for a Chat Completions response."""
        if isinstance(body, dict) and body.get("object") == "response.compaction":
            return compacted_response(body)
        if isinstance(body, dict) and (body.get("object") == "response" or isinstance(body.get("output"), list)):
            out: list[Delta] = []
            whole_response(body, "", out)
            if body.get("status") in UNFINISHED:  # the server continues it in the background
                out.append(Failure(ErrorInfo(f"the response is not finished: its status is {body['status']}"), body))
            return out if isinstance(out[-1], StreamEnd) else [*out, StreamEnd()]
        if isinstance(body, dict) and "choices" in body and not _is_error(body):
            raise ValueError("this is a Chat Completions response: use the adapter 'chat'")
        return [_failure(body)]


def _place(payload: dict[str, Any], number: str, form: str = "") -> PartRef:
    get = payload.get
    try:
        # llama.cpp sends `item_id`, but no `output_index` (fixtures/llamacpp).
        return _part(get("output_index"), get("item_id"), get(number), form)
    except TypeError:  # an object or a list as a position or an id
        return PartRef(form=form)


@lru_cache(64, typed=True)  # nearly every text is in the same part as the text before
def _part(output: Any, item: Any, number: Any, form: str) -> PartRef:
    return PartRef(int_or_none(output), str_or_none(item), int_or_none(number) or 0, form)


def _begun(item: dict[str, Any], output: int | None, out: list[Delta]) -> ToolCallDelta:
    """Decodes the event that begins a tool call. Depending on the server, its arguments are empty, complete or a first
    piece."""
    arguments = item.get("arguments")
    if not arguments or (isinstance(arguments, str) and is_empty(arguments)):
        item = {**item, "arguments": ""}
    call, whole = function_call(item, output, out), False
    if call.arguments.lstrip()[:1] in ("{", "[", '"'):
        with suppress(ValueError):  # not JSON: only the first piece
            whole = parse_object(call.arguments) is not None
    return replace(call, ended=None, begins=True, whole=whole)


def _arguments(payload: dict[str, Any], out: list[Delta], member: str = "delta") -> None:
    get = payload.get
    call_id = get("call_id")  # DeepSeek sends it instead of the item's id (lidge-jun/opencodex#1361)
    name = get("name")  # OpenRouter and transformers send it with the complete arguments
    arguments = arguments_text(get(member), out)
    out.append(
        ToolCallDelta(
            int_or_none(get("output_index")),
            None if call_id is None else str_or_none(call_id),
            None if name is None else str_or_none(name),
            arguments,
            member == "arguments",
            None,
            str_or_none(get("item_id")) or "",
        )
    )


def _item_added(payload: dict[str, Any], out: list[Delta]) -> None:
    item = as_object(payload.get("item"))
    kind = item.get("type")
    if kind == "function_call":
        out.append(_begun(item, int_or_none(payload.get("output_index")), out))
        return
    out.append(Meta())  # the response has begun
    if item and kind not in PLAIN_ITEMS and (part := item_part(item)) is not None:
        out += [
            part,
            ExtraPart("item_pieces", {"item": clean_json(item)}, place=int_or_none(payload.get("output_index"))),
        ]


def _part_added(payload: dict[str, Any], out: list[Delta]) -> None:
    out.append(Meta())


def _item_done(payload: dict[str, Any], out: list[Delta]) -> None:
    if item := as_object(payload.get("item")):
        out += item_done(item, int_or_none(payload.get("output_index")))


def _part_done(payload: dict[str, Any], out: list[Delta], number: str = "content_index") -> None:
    text = part_text(as_object(payload.get("part")), _place(payload, number))
    out += [text] if text else []


def _item_piece(kind: str, member: str, payload: dict[str, Any], out: list[Delta]) -> None:
    if isinstance(text := payload.get(member), str):
        said = {"id": str_or_none(payload.get("item_id")), "type": kind, "text": text, "whole": member != "delta"}
        out.append(ExtraPart("item_pieces", said, place=int_or_none(payload.get("output_index"))))


def _annotation(payload: dict[str, Any], out: list[Delta]) -> None:
    if payload.get("annotation"):
        out.append(ExtraPart("annotations", clean_json(payload["annotation"])))


def _thought(payload: dict[str, Any], out: list[Delta]) -> None:
    """Decodes a thought that Perplexity sends during research. No output item repeats this text.

    https://docs.perplexity.ai/docs/agent-api/output-control
    """
    if isinstance(thought := payload.get("thought"), str) and thought:
        number = int_or_none(payload.get("sequence_number")) or 0
        out.append(ReasoningDelta(thought, PartRef(number=number, form="thought"), whole=True))


def _audio(member: str, payload: dict[str, Any], out: list[Delta]) -> None:
    out.append(ExtraPart("audio", {member: clean_json(payload.get("delta"))}))


def _begins(payload: dict[str, Any], out: list[Delta]) -> None:
    out.append(response_meta(as_object(payload.get("response"))))


def _ends(said: str, payload: dict[str, Any], out: list[Delta]) -> None:
    whole_response(as_object(payload.get("response")) or payload, said, out)


def _is_error(payload: dict[str, Any]) -> bool:
    kind = payload.get("type")
    if payload.get("error") or (isinstance(kind, str) and kind.endswith("error")):
        return True
    return not kind and any(payload.get(key) for key in ERROR_KEYS)


def _failure(payload: Any) -> Failure:
    """Decodes an error in a response body or in an event. OpenAI's documentation has the error's fields at the top
    level, but the API sends them under `error`."""
    error = payload
    if isinstance(payload, dict) and payload.get("type") in ("error", "response.error"):  # the event's type
        error = {name: value for name, value in payload.items() if name != "type"}
    return Failure(error_info(error), payload)


_EVENTS: dict[str, Callable[[dict[str, Any], list[Delta]], None]] = {
    "response.created": _begins,
    "response.queued": _begins,
    "response.in_progress": _begins,
    "response.output_item.added": _item_added,
    "response.content_part.added": _part_added,
    "response.reasoning_summary_part.added": _part_added,
    "response.function_call_arguments.delta": _arguments,
    "response.function_call_arguments.done": partial(_arguments, member="arguments"),
    "response.content_part.done": _part_done,
    "response.reasoning_summary_part.done": partial(_part_done, number="summary_index"),
    "response.output_item.done": _item_done,
    "response.output_text.annotation.added": _annotation,
    "response.audio.delta": partial(_audio, "data"),
    "response.audio.transcript.delta": partial(_audio, "transcript"),
    "response.custom_tool_call_input.delta": partial(_item_piece, "custom_tool_call", "delta"),
    "response.custom_tool_call_input.done": partial(_item_piece, "custom_tool_call", "input"),
    "response.mcp_call_arguments.delta": partial(_item_piece, "mcp_call", "delta"),
    "response.mcp_call_arguments.done": partial(_item_piece, "mcp_call", "arguments"),
    "response.code_interpreter_call_code.delta": partial(_item_piece, "code_interpreter_call", "delta"),
    "response.code_interpreter_call_code.done": partial(_item_piece, "code_interpreter_call", "code"),
    **{
        f"response.reasoning.{step}": _thought
        for step in ("started", "search_queries", "search_results", "fetch_url_queries", "fetch_url_results", "stopped")
    },
    # Only gateways send the last two.
    **{f"response.{said}": partial(_ends, said) for said in ("completed", "incomplete", "failed", "cancelled", "done")},
}
