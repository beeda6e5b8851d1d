"""Converts the events of the Interactions API to deltas: https://ai.google.dev/gemini-api/docs/interactions/streaming.

A response is a list of steps. An event `step.start` begins a step, and events `step.delta` with the same index add
content to it. Later requests send each step back unchanged, with its signature. Before May 2026, the API sent contents
instead of steps. streamfold also supports this version
(https://ai.google.dev/gemini-api/docs/interactions/breaking-changes-may-2026).
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...deltas import (
    Block,
    BlockEnd,
    BlockPiece,
    BlockSummary,
    Delta,
    Failure,
    Finish,
    Meta,
    RanOnServer,
    Sequence,
    StreamEnd,
    ToolRequests,
    UsageUpdate,
    Warn,
    unknown_finish,
)
from ...jsontext import (
    as_count,
    clean_json,
    dump_compact,
    int_or_none,
    join_surrogates,
    parse_or_text,
    partial_event,
    str_or_none,
)
from ...types import (
    STEP_MEDIA,
    STEP_TOOLS,
    ExtraPart,
    FinishReason,
    ToolCall,
    ToolCallDelta,
    from_base64,
    guess_finish_reason,
    to_base64,
)
from ..content_blocks import arguments_object
from ..google_usage import INTERACTIONS_USAGE
from ..odd_payloads import decode_odd_payload
from .errors import failed_interaction, read_interactions_error

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

# The field `status` in https://ai.google.dev/api/interactions-api. The status "failed" raises an error.
STATUSES: dict[str, FinishReason] = {
    "completed": "stop",
    "requires_action": "tool_calls",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",  # the next request continues with `continuation_token`
    "cancelled": "unknown",
}
UNFINISHED = ("in_progress", "queued", "idle")


class InteractionsEventReader:
    """Converts responses of the Interactions API to deltas."""

    def decode(self, event: ServerSentEvent) -> list[Delta]:
        payload, failed = parse_or_text(event.data), event.event == "error"
        if not isinstance(payload, dict):
            return decode_odd_payload(payload, failed=failed, needs_finish=True, read_error=read_interactions_error)
        kind, index = payload.get("event_type"), int_or_none(payload.get("index"))
        if type(kind) is not str:
            kind = event.event
        out: list[Delta] = []
        match kind:
            case "step.delta":  # nearly every event
                _step_delta(index, payload.get("delta"), out)
            case _ if kind == "error" or payload.get("error"):
                out.append(Failure(read_interactions_error(payload), payload))
            case "step.start":
                _begin(index, _object(payload, "step"), out)
            case "step.stop" | "content.stop":  # until May 2026, events were named `content.`
                out.append(BlockEnd(index))
            case "content.start":
                _content_start(index, _object(payload, "content"), out)
            case "content.delta":
                _step_delta(index, payload.get("delta"), out)
            case "interaction.created" | "interaction.start":
                out.append(Sequence(None, ""))  # without event ids, a client can only resume from the start
                out.append(_meta(_object(payload, "interaction")))
            case "interaction.status_update":
                out.append(Meta(str_or_none(payload.get("interaction_id"))))
                if isinstance(usage := payload.get("usage"), dict):
                    out.append(UsageUpdate(usage, INTERACTIONS_USAGE.read, whole=True))
            case "interaction.completed" | "interaction.complete":
                interaction = _object(payload, "interaction")
                out.append(_meta(interaction))
                if steps := _steps(interaction.get("steps")):
                    out.append(BlockSummary(steps))
                _end(interaction, out)
            case _ if _is_interaction(payload):
                _whole(payload, out)
            case "message" if payload:  # the SSE event has no name
                raise ValueError("the event has no event_type")
        if "metadata" in payload:
            _running_usage(payload, out)
        if event_id := str_or_none(payload.get("event_id")):
            out.append(Sequence(None, event_id))
        return out

    def decode_cut(self, event: ServerSentEvent) -> list[Delta]:
        """Converts the last event of a truncated response. Its field `type` may be missing, because the API sends it
        after the text."""
        payload = partial_event(event.data)
        delta = payload.get("delta") if isinstance(payload, dict) else None
        if not isinstance(delta, dict):
            return self.decode(type(event)(event.event, json.dumps(payload)))
        kind, begun = delta.get("type"), str(delta.get("type") or "")
        if isinstance(delta.get("text"), str) and "text".startswith(begun):
            kind = "text"
        elif isinstance(delta.get("content"), dict) and "thought_summary".startswith(begun):
            kind = "thought_summary"
        out: list[Delta] = []
        _step_delta(int_or_none(payload.get("index")), {**delta, "type": kind}, out)
        return out

    def decode_body(self, body: Any) -> list[Delta]:
        if not isinstance(body, dict) or body.get("error") or not _is_interaction(body):
            return [Failure(read_interactions_error(body), body)]
        out: list[Delta] = []
        _whole(body, out)
        return out


def _is_interaction(payload: dict[str, Any]) -> bool:
    return payload.get("object") == "interaction" or isinstance(payload.get("steps"), list)


def _whole(interaction: dict[str, Any], out: list[Delta]) -> None:
    out.append(_meta(interaction))
    for _, deltas in _steps(interaction.get("steps")):
        out += deltas
    _end(interaction, out)
    if any(isinstance(delta, Finish) for delta in out):
        out.append(StreamEnd())


def _steps(steps: Any) -> list[tuple[int, list[Delta]]]:
    """Converts complete steps to lists of deltas, each with the step's index. Skips steps with user input, which stored
    interactions also contain."""
    own = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    found = []
    for index, step in enumerate(step for step in own if step.get("type") != "user_input"):
        out: list[Delta] = []
        _begin(index, step, out)
        found.append((index, [*out, BlockEnd(index)]))
    return found


# --- the start and the end of an interaction --------------------------------------------------------------------------


def _meta(interaction: dict[str, Any]) -> Meta:
    model = str_or_none(interaction.get("model")) or str_or_none(interaction.get("agent"))
    return Meta(str_or_none(interaction.get("id")), model, str_or_none(interaction.get("created")))


def _object(payload: dict[str, Any], name: str) -> dict[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}


def _running_usage(payload: dict[str, Any], out: list[Delta]) -> None:
    """Puts an event's token counts before its other deltas, because the other deltas may contain the finish reason."""
    metadata = _object(payload, "metadata")
    usage = metadata.get("usage") or metadata.get("total_usage")
    if isinstance(usage, dict):
        out.insert(0, UsageUpdate(usage, INTERACTIONS_USAGE.read, whole=True))


def _end(interaction: dict[str, Any], out: list[Delta]) -> None:
    if isinstance(usage := interaction.get("usage"), dict):
        out.append(UsageUpdate(usage, INTERACTIONS_USAGE.read, whole=True))
        _tool_requests(usage.get("grounding_tool_count"), out)
    if answer_id := str_or_none(interaction.get("id")):
        out.append(ExtraPart("interaction_id", [answer_id], whole=True))
    status = str_or_none(interaction.get("status"))
    if status is None or status in UNFINISHED:
        return
    token = str_or_none(interaction.get("continuation_token"))
    if token and status == "requires_continuation":
        out += [ExtraPart("continuation_token", [token], whole=True), Finish("length", status, continues=True)]
        return
    reason = STATUSES.get(status) or guess_finish_reason(status)
    if reason == "error" or status == "failed":
        out.append(Failure(failed_interaction(interaction), interaction, reason=True))
        return
    if reason == "unknown" and status not in STATUSES:
        out.append(unknown_finish(status))
    out.append(Finish(reason, status, drops_calls=status == "cancelled"))


def _tool_requests(counts: Any, out: list[Delta]) -> None:
    for count in counts if isinstance(counts, list) else ():
        kind = count.get("type") if isinstance(count, dict) else None
        if isinstance(kind, str) and (requests := as_count(count.get("count"))) is not None:
            out.append(ToolRequests(STEP_TOOLS.get(kind, kind), requests))


# --- steps ------------------------------------------------------------------------------------------------------------


def _content_start(index: int | None, content: dict[str, Any], out: list[Delta]) -> None:
    """Converts the event that starts a content, in the API version before May 2026, to a step. Text and media become a
    step of the type `model_output`."""
    if content.get("type") == "text" or content.get("type") in STEP_MEDIA:
        content = {"type": "model_output", "content": [content] if content.get("text") != "" else []}
    _begin(index, content, out)


def _begin(index: int | None, step: dict[str, Any], out: list[Delta]) -> None:
    step = clean_json(step)
    if step.get("signature") == "":  # the API would refuse an empty signature in the next request
        step = {name: value for name, value in step.items() if name != "signature"}
    kind = step.get("type")
    if kind == "model_output":
        out.append(Block(index, "text", _without(step, "content"), "content", join=_join_output))
        _contents(index, step.get("content"), out)
    elif kind == "thought":
        out.append(Block(index, "reasoning", _without(step, "summary"), "summary", join=_join_thought))
        for content in _list(step.get("summary")):
            _summary(index, content, out)
    elif kind == "function_call":
        out.append(Block(index, "call", step, "arguments", _call(step), _write_call))
    elif step:
        out.append(Block(index, "other", step))
        if kind == "function_result":
            out.append(RanOnServer(str_or_none(step.get("call_id")), str_or_none(step.get("name"))))


def _without(step: dict[str, Any], name: str) -> dict[str, Any]:
    return {member: value for member, value in step.items() if member != name or not value}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [{"type": "text", "text": value}] if isinstance(value, str) else []


def _contents(index: int | None, contents: Any, out: list[Delta]) -> None:
    behind_text = False
    for content in _list(contents):
        if not _is_text(content):
            out.append(BlockPiece(index, "text", "content", content, "add"))
            behind_text = False
            continue
        text, sources = content["text"], content.get("annotations")
        others = {name: value for name, value in content.items() if name != "annotations"}
        if behind_text or not text or others.keys() != {"type", "text"}:
            out.append(BlockPiece(index, "text", "content", {**others, "text": ""}, "add"))
        if text:
            out.append(BlockPiece(index, "text", "content", text, "add"))
        if sources:
            out.append(BlockPiece(index, "text", "content", {"annotations": sources}, "add"))
        behind_text = True


def _call(step: dict[str, Any], *, whole: bool = False) -> ToolCallDelta:
    arguments = step.get("arguments")
    text = arguments if isinstance(arguments, str) else dump_compact(arguments) if arguments or whole else ""
    return ToolCallDelta(None, str_or_none(step.get("id")), str_or_none(step.get("name")), text, whole)


def _write_call(step: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    return {**step, "id": call.id, "name": call.name, "arguments": arguments_object(call)}


# --- deltas -----------------------------------------------------------------------------------------------------------


@lru_cache(64)
def _output(index: int | None) -> Block:
    return Block(index, "text", {"type": "model_output"}, "content", join=_join_output)


@lru_cache(64)
def _thought(index: int | None) -> Block:
    return Block(index, "reasoning", {"type": "thought"}, "summary", join=_join_thought)


def _step_delta(index: int | None, delta: Any, out: list[Delta]) -> None:
    if not isinstance(delta, dict):
        raise ValueError(f"a delta must be an object, not {type(delta).__name__}")
    match delta.get("type"):
        case "text":
            if isinstance(text := delta.get("text"), str) and text:
                out.append(BlockPiece(index, "text", "content", text, "add", _output(index)))
        case "text_annotation_delta":
            if isinstance(found := delta.get("annotations"), list) and found:
                value = {"annotations": clean_json(found)}
                out.append(BlockPiece(index, "text", "content", value, "add", _output(index)))
        case "thought_summary":
            _summary(index, delta.get("content"), out)
        case "thought_signature":  # the API sends an empty signature after each summary
            if isinstance(signature := delta.get("signature"), str) and signature:
                out.append(BlockPiece(index, "reasoning", "signature", signature, "set", _thought(index)))
        case "arguments_delta":
            piece = delta.get("arguments")
            if isinstance(piece, dict) and piece:
                out.append(Warn("repaired_arguments", "the server sent the arguments as an object instead of text"))
                piece = dump_compact(piece)
            if isinstance(piece, str) and piece:
                out.append(BlockPiece(index, "call", "arguments", piece, "json"))
        case "function_call":  # only until May 2026
            begun = Block(index, "call", {"type": "function_call"}, "arguments", ToolCallDelta(None), _write_call)
            out.append(BlockPiece(index, "call", "arguments", _call(clean_json(delta), whole=True), "call", begun))
        case str(kind) if kind in STEP_MEDIA:
            out.append(BlockPiece(index, "text", "content", clean_json(delta), "add", _output(index)))
        case str(kind):
            _members(index, kind, delta, out)
            if kind == "function_result" and (call_id := str_or_none(delta.get("call_id"))):
                out.append(RanOnServer(call_id, str_or_none(delta.get("name"))))


def _summary(index: int | None, content: Any, out: list[Delta]) -> None:
    if not isinstance(content, dict):
        return
    text = content.get("text")
    if not isinstance(text, str):
        out.append(BlockPiece(index, "reasoning", "summary", clean_json(content), "add", _thought(index)))
        return
    if text:
        out.append(BlockPiece(index, "reasoning", "summary", text, "add", _thought(index)))
        more = {name: value for name, value in content.items() if name not in ("type", "text")}
        if more:
            out.append(BlockPiece(index, "reasoning", "summary", clean_json(more), "add"))


def _members(index: int | None, kind: str, delta: dict[str, Any], out: list[Delta]) -> None:
    begun = Block(index, "other", {"type": kind}) if kind.endswith(("_call", "_result")) else None
    for name, value in clean_json(delta).items():
        if name != "type" and value is not None and (name, value) != ("signature", ""):
            out.append(BlockPiece(index, "other", name, value, "set", begun))
            begun = None


# --- joining the pieces of a step -------------------------------------------------------------------------------------


def _join_output(step: dict[str, Any]) -> dict[str, Any]:
    contents: list[Any] = []
    piece: Any
    for is_text, group in groupby(step.get("content") or (), lambda piece: isinstance(piece, str)):
        for piece in ["".join(group)] if is_text else list(group):
            last: Any = contents[-1] if contents else None
            has_sources = isinstance(piece, dict) and piece.keys() == {"annotations"}
            if (is_text or has_sources) and not _is_text(last):
                last = {"type": "text", "text": ""}
                contents.append(last)
            if is_text:
                contents[-1] = {**last, "text": join_surrogates(last["text"] + piece)}
            elif has_sources:
                contents[-1] = {**last, "annotations": [*(last.get("annotations") or []), *piece["annotations"]]}
            elif _is_audio(last) and _is_audio(piece):
                contents[-1] = {**last, **piece, "data": _joined_base64(last["data"], piece["data"])}
            else:
                contents.append(piece)
    return {**step, "content": contents} if "content" in step else step


def _is_text(content: Any) -> bool:
    return isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str)


def _is_audio(content: Any) -> bool:
    return isinstance(content, dict) and content.get("type") == "audio" and bool(content.get("data"))


def _joined_base64(before: Any, data: Any) -> str:
    try:
        return to_base64(from_base64(before) + from_base64(data))
    except (TypeError, ValueError):  # not base64
        return f"{before}{data}"


def _join_thought(step: dict[str, Any]) -> dict[str, Any]:
    contents: list[Any] = []
    for piece in step.get("summary") or ():
        if isinstance(piece, str):
            contents.append({"type": "text", "text": join_surrogates(piece)})
        elif "type" not in piece and contents:
            contents[-1] = {**contents[-1], **piece}
        else:
            contents.append(piece)
    return {**step, "summary": contents} if "summary" in step else step
