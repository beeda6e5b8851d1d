"""Converts the events of the Messages API to deltas: https://docs.anthropic.com/en/docs/build-with-claude/streaming.

The decoder reads an event's type from the field `type` of its JSON, because some servers send no SSE field `event`. The
decoder ignores pings, unknown events and unknown fields. `engine/blocks.py` builds content blocks from the deltas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ...deltas import (
    Block,
    BlockEnd,
    BlockPiece,
    Delta,
    Failure,
    Finish,
    MessageStart,
    Meta,
    RefusalDelta,
    ServedBy,
    StreamEnd,
    ToolRequests,
    UsageUpdate,
    Warn,
    unknown_finish,
)
from ...errors import ErrorInfo, error_info
from ...jsontext import (
    as_count,
    clean_json,
    count_or_none,
    count_or_zero,
    dump_compact,
    int_or_none,
    parse_or_text,
    str_or_none,
)
from ...types import (
    PAUSED,
    ExtraPart,
    FinishReason,
    ToolCall,
    ToolCallDelta,
    Usage,
    guess_finish_reason,
    unlisted_steps,
)
from ..content_blocks import arguments_object
from ..odd_payloads import decode_odd_payload

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

# https://docs.anthropic.com/en/api/handling-stop-reasons
STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",  # aimock 1.43
    "pause_turn": "unknown",  # the next request continues the message
    "compaction": "unknown",  # the request asked for a pause after the compaction
}


class AnthropicEventReader:
    """Converts responses of the Messages API to deltas."""

    cache_included: bool = False  # `AnthropicQuirks.cache_included`

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        payload, failed = parse_or_text(event.data), event.event == "error"
        if not isinstance(payload, dict):
            return decode_odd_payload(payload, failed=failed)
        kind = payload.get("type")
        if failed or ("error" in payload and (payload["error"] or kind is None)):
            return [_failure(payload)]  # whatever else the event contains
        out: list[Delta] = []
        match kind:
            case "content_block_delta":  # nearly every event
                _piece(int_or_none(payload.get("index")), _object(payload, "delta"), out)
            case "content_block_start":
                _block_start(int_or_none(payload.get("index")), payload.get("content_block"), out)
            case "content_block_stop":
                out.append(BlockEnd(int_or_none(payload.get("index"))))
            case "message_start":
                message = _object(payload, "message")
                out.append(MessageStart(str_or_none(message.get("id"))))
                self._message(message, out)
            case "message_delta":
                _dropped_thinking(payload, out)
                self._usage(payload, out)
                _end(_object(payload, "delta"), out)
                _add_extras(payload, ("context_management", "container"), out)
            case "message_stop":
                _add_extras(payload, ("amazon-bedrock-invocationMetrics",), out)
                out.append(StreamEnd())
            case "error":
                out.append(_failure(payload))
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        if not isinstance(body, dict) or body.get("type") != "message":
            return [_failure(body)]
        out: list[Delta] = []
        self._message(body, out)
        out.append(StreamEnd())
        return out

    def _message(self, message: dict[str, Any], out: list[Delta]) -> None:
        """Converts a complete message, or the message in the event `message_start`. This event has content only in
        programmatic tool calling, if the response continues after tool calls that the model's code has made."""
        out.append(Meta(message.get("id"), message.get("model")))
        blocks = message.get("content") or []
        if not isinstance(blocks, list):
            raise ValueError(f"content must be a list, not {type(blocks).__name__}")
        for block in blocks:
            _block_start(None, block, out)
            out.append(BlockEnd(None))
        if message.get("error"):
            out.append(_failure({"error": message["error"]}))
        _dropped_thinking(message, out)
        _end(message, out)
        self._usage(message, out)

    def _usage(self, said: dict[str, Any], out: list[Delta]) -> None:
        if isinstance(usage := said.get("usage"), dict):
            out.append(UsageUpdate(clean_json(usage), _read_usage_with_cache if self.cache_included else _read_usage))
            if isinstance(tools := usage.get("server_tool_use"), dict):
                for name, number in tools.items():
                    out.append(ToolRequests(str(name).removesuffix("_requests"), as_count(number) or 0))


def _failure(payload: Any) -> Failure:
    return Failure(error_info(payload), payload)


def _dropped_thinking(said: dict[str, Any], out: list[Delta]) -> None:
    """Adds a warning for each thinking block in the request that the API has ignored. The API names these blocks only
    if the request has the beta header in `BINDING_BETA`.

    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
    """
    found = said.get("input_transformations")
    for entry in found if isinstance(found, list) else ():
        match entry:
            case {"type": "thinking_dropped", "path": str(path), "reason": str(reason)}:
                out.append(Warn("reasoning_dropped", f"the provider left out the thinking {path} ({reason})"))


def _block_start(number: int | None, block: Any, out: list[Delta]) -> None:
    out.append(_block(number, block))
    match block:
        case {"type": "fallback", "to": {"model": str(model)}} if model:
            out.append(ServedBy(model))


def _block(number: int | None, value: Any) -> Block:
    if not isinstance(value, dict):
        raise ValueError(f"a content block must be an object, not {value!r:.80}")
    value = clean_json(value)
    match value.get("type"):
        case "text":
            set_members = {name: item for name, item in value.items() if item is not None}
            return Block(number, "text", set_members, "text")
        case "thinking":
            return Block(number, "reasoning", value, "thinking")
        case "tool_use":
            given = value.get("input")
            text = given if isinstance(given, str) else dump_compact(given) if given else ""
            extra = {name: item for name, item in value.items() if name not in ("type", "id", "name", "input")}
            call_id, name = str_or_none(value.get("id")), str_or_none(value.get("name"))
            call = ToolCallDelta(None, call_id, name, text, extra=extra or None)
            return Block(number, "call", value, "input", call, _write_call)
    return Block(number, "other", value)


def _write_call(block: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    return {**block, "id": call.id, "name": call.name, "input": arguments_object(call)}


@lru_cache(64)
def _text_block(number: int | None) -> Block:
    return Block(number, "text", {"type": "text", "text": ""}, "text")


@lru_cache(64)
def _thinking_block(number: int | None) -> Block:
    return Block(number, "reasoning", {"type": "thinking", "thinking": ""}, "thinking")


def _piece(number: int | None, delta: dict[str, Any], out: list[Delta]) -> None:
    match delta.get("type"):
        case "text_delta" if isinstance(text := delta.get("text"), str):
            out.append(BlockPiece(number, "text", "text", text, opens=_text_block(number)))
        case "input_json_delta" if isinstance(text := delta.get("partial_json"), str):
            out.append(BlockPiece(number, "call", "input", text, "json"))
        case "thinking_delta" if isinstance(text := delta.get("thinking"), str):
            out.append(BlockPiece(number, "reasoning", "thinking", text, opens=_thinking_block(number)))
        case "signature_delta" if isinstance(signature := delta.get("signature"), str):
            # A second signature replaces the first.
            out.append(BlockPiece(number, "reasoning", "signature", signature, "set"))
        case "citations_delta" if "citation" in delta:
            out.append(BlockPiece(number, "text", "citations", clean_json(delta["citation"]), "add"))
        case "compaction_delta":  # the summary as text or encrypted; either may be null
            for name in ("content", "encrypted_content"):
                if isinstance(text := delta.get(name), str):
                    out.append(BlockPiece(number, "other", name, text))


def _add_extras(said: dict[str, Any], names: Iterable[str], out: list[Delta]) -> None:
    for name in names:
        if said.get(name) is not None:
            out.append(ExtraPart(name, [clean_json(said[name])], whole=True))


def _end(said: dict[str, Any], out: list[Delta]) -> None:
    _add_extras(said, ("stop_sequence", "stop_details", "container"), out)
    details = said.get("stop_details")
    if isinstance(details, dict) and isinstance(text := details.get("explanation"), str) and text:
        out.append(RefusalDelta(text))
    reason = str_or_none(said.get("stop_reason"))
    if reason is not None:
        meaning = STOP_REASONS.get(reason) or guess_finish_reason(reason)
        if meaning == "error":
            out.append(Failure(ErrorInfo(f"the model ended with the stop reason {reason!r}", reason), said))
        else:  # a guessed "length" is used, a guessed "content_filter" isn't
            if reason in PAUSED:  # tells the next request to continue this message
                out.append(ExtraPart("stop_reason", [reason], whole=True))
            listed = reason in STOP_REASONS or meaning == "length"
            if not listed:
                out.append(unknown_finish(reason))
            out.append(Finish(meaning if listed else "unknown", reason, more=True, continues=reason == "pause_turn"))


def _read_usage(numbers: Mapping[str, Any], *, cache_included: bool = False) -> Usage:
    """Converts a usage object. If its top-level counts omit some steps of the response, for example a compaction, the
    result is the sum of the counts of all steps.

    https://platform.claude.com/docs/en/build-with-claude/compaction#understanding-usage
    """
    usage = _read_counts(numbers, cache_included)
    steps = [_read_counts(step, cache_included) for step in unlisted_steps(numbers)]
    if not steps:
        return usage
    billed = sum(steps[1:], steps[0])
    return replace(billed, reasoning_tokens=usage.reasoning_tokens, raw=numbers)


_read_usage_with_cache = partial(_read_usage, cache_included=True)


def _read_counts(numbers: Mapping[str, Any], cache_included: bool) -> Usage:
    """Converts the token counts of a response, or of one of its steps. Adds the cached tokens to `input_tokens`,
    because Anthropic's `input_tokens` doesn't include them. Servers with the quirk `cache_included` already send the
    sum.

    https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching#tracking-cache-performance
    """
    counted, output = count_or_none(numbers, "input_tokens"), count_or_none(numbers, "output_tokens")
    if counted is not None and not cache_included:
        read, written = (count_or_zero(numbers, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
        counted = None if read is None or written is None else counted + read + written
    details = numbers.get("output_tokens_details")
    return Usage(
        input_tokens=counted,
        output_tokens=output,
        total_tokens=None if counted is None or output is None else counted + output,
        cached_tokens=count_or_none(numbers, "cache_read_input_tokens"),
        reasoning_tokens=count_or_none(details, "thinking_tokens") if isinstance(details, Mapping) else None,
        cache_write_tokens=count_or_none(numbers, "cache_creation_input_tokens"),
        raw=numbers,
        details=_details(numbers),
    )


def _details(numbers: Mapping[str, Any]) -> dict[str, int]:
    written, output = numbers.get("cache_creation"), numbers.get("output_tokens_details")
    found: dict[str, int | None] = {}
    if isinstance(written, Mapping):
        for age in ("5m", "1h"):
            found[f"cache_write_{age}_tokens"] = count_or_none(written, f"ephemeral_{age}_input_tokens")
    if isinstance(output, Mapping):
        found |= {f"output_{name}": count_or_none(output, name) for name in output if name != "thinking_tokens"}
    return {name: number for name, number in found.items() if number is not None}


def _object(payload: dict[str, Any], name: str) -> dict[str, Any]:
    value = payload.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, not {type(value).__name__}")
    return value
