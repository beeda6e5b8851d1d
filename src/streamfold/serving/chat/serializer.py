"""Serializes Chat Completions responses: https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar, Unpack

from ...deltas import Failure, Finish, ReasoningDelta, RefusalDelta, TextDelta
from ...types import CallKind, NamedTool, ReadToolChoice, Usage, item_part
from ..stream_serializer import DONE, SerializedCall, SerializerArguments, StreamSerializer, openai_error_body


class ChatSerializer(StreamSerializer):
    """Writes the chunks of one streamed completion.

    The first chunk contains the role. A tool call's first chunk contains its index, id, type and name, and the first
    piece of the arguments. The tool call's later chunks contain only the index and more pieces of the arguments. The
    last events are the chunk with the finish reason, a chunk with the usage if the client requested it, and `[DONE]`. A
    failed stream ends with an error object instead.

    Args:
        include_usage: True if the client requested the usage (`stream_options.include_usage`).
        others: see `StreamSerializer`.
    """

    call_kinds: ClassVar[tuple[CallKind, ...]] = ("function", "custom")
    end_words = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})

    def __init__(self, *, include_usage: bool = False, **others: Unpack[SerializerArguments]) -> None:
        super().__init__(**others)
        self.include_usage = include_usage
        self._kept: dict[int, dict[str, Any]] = {}  # the extra fields written for each call, by its number

    def write_start(self) -> None:
        self.write_delta({"content": ""})

    def write_text(self, delta: TextDelta) -> None:
        self.write_delta({"content": delta.text})

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        self.write_delta({"reasoning_content": delta.text})

    def write_refusal(self, delta: RefusalDelta) -> None:
        self.write_delta({"refusal": delta.text})

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        entry = _entry(call, piece) if first else {"function": {"arguments": piece}}
        if (extra := _kept(call.extra)) and extra != self._kept.get(call.number):
            self._kept[call.number] = extra  # usually with the first piece, but some providers send it later
            entry |= extra
        self.write_delta({"tool_calls": [{"index": call.number, **entry}]})

    def write_extra(self, name: str, value: Any) -> None:
        match name, value:
            case "reasoning_details", {"text": str()} | {"summary": str()} if self._streams:
                # Clients have received the text already. A signature is valid only together with its text.
                if value.get("signature"):
                    detail = "signed reasoning_details are not streamed: they would repeat the reasoning"
                    self._warn("provider_data_dropped", detail)
            case "output", dict():
                self._item(value)
            case "audio", _:
                self.write_delta({name: value})
            case "annotations", {"type": "url_citation" | "file_citation" as kind, **rest} if rest and kind not in rest:
                self.write_delta({name: [{"type": kind, kind: rest}]})  # nested under its type, as in this API
            case "annotations" | "reasoning_details", _:
                self.write_delta({name: [value]})

    def _item(self, item: dict[str, Any]) -> None:
        """Writes an output item of the Responses API if it calls a custom tool. Chat Completions has no equivalent of
        other items."""
        part = item_part(item)
        if part is None or part.kind != "custom" or part.runs != "client" or self.tool_choice == "none":
            return
        call_id = part.call_id or part.id or ""
        # The provider may send the same item again at the end.
        if not any(call.custom and call.id == call_id for call in self.calls.values()):
            self.reserve_call(call_id, part.name or "", str(part.input or ""))

    def write_delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        """Writes a chunk with one choice, which contains this delta."""
        if not self.begun:
            self.begun = True
            delta = {"role": "assistant", **delta}
        self._chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason}], None)

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> None:
        payload: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
        if self.include_usage:  # "All other chunks will also include a usage field, but with a null value."
            payload["usage"] = usage
        self.send(payload)

    def body(self) -> dict[str, Any]:
        by_name: dict[str, list[Any]] = {"role": [""], "content": [""], "refusal": [""]}
        reason = None
        for choice in [choice for payload in self.collected for choice in payload["choices"]]:
            reason = choice["finish_reason"]
            for name, piece in choice["delta"].items():
                by_name.setdefault(name, []).append(piece)
        message = {name: _joined(pieces) for name, pieces in by_name.items()}
        message |= {name: message[name] or None for name in ("content", "refusal")}
        if calls := [call for call in self.calls.values() if call.opened]:
            message["tool_calls"] = [{**_entry(call, call.arguments), **_kept(call.extra)} for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        about = {"id": self.id, "object": "chat.completion", "created": self.created, "model": self.model}
        usage = {} if self.usage is None else {"usage": self.usage_object(self.usage)}
        return {**about, "choices": [choice], **usage}

    def usage_object(self, usage: Usage) -> dict[str, Any]:
        """Returns the usage object that the client receives."""
        return written_usage(usage)

    def write_end(self) -> None:
        reason = _finish_reason(
            self.finish_reason, self.tool_choice, calls=self.has_calls, mend=self.fill_finish_reason
        )
        if reason or not self.begun:
            self.write_delta({}, reason)
        if self.include_usage and self.usage is not None:
            self._chunk([], self.usage_object(self.usage))
        self._write_warnings()
        self._out.append(DONE)

    def write_failure(self, failure: Failure) -> None:
        self._write_warnings()
        self.send(openai_error_body(failure.info))


def written_usage(usage: Usage) -> dict[str, Any]:
    """Returns the usage object of Chat Completions. If the provider's usage object has the same field names, its other
    fields are copied. The API requires the counts of prompt tokens, completion tokens and total tokens, so an unknown
    count is 0."""
    raw = dict(usage.raw) if "prompt_tokens" in usage.raw or "completion_tokens" in usage.raw else {}
    raw["prompt_tokens"] = usage.input_tokens or 0
    raw["completion_tokens"] = usage.output_tokens or 0
    raw["total_tokens"] = usage.total_tokens or 0
    details = (
        ("prompt_tokens_details", "cached_tokens", usage.cached_tokens),
        ("prompt_tokens_details", "cache_write_tokens", usage.cache_write_tokens),
        ("completion_tokens_details", "reasoning_tokens", usage.reasoning_tokens),
    )
    for group, name, count in details:
        if count is not None:
            inner = raw.get(group)
            raw[group] = {**(inner if isinstance(inner, dict) else {}), name: count}
    return raw


def _finish_reason(finish: Finish | None, tool_choice: ReadToolChoice, *, calls: bool, mend: bool) -> str | None:
    """Returns the finish reason for the client. A provider's finish reason that streamfold doesn't know is returned
    unchanged. If the provider sent no finish reason, returns `stop` or `tool_calls` if `mend` is True, and None
    otherwise.
    """
    if finish is None or finish.reason == "unknown":
        said = finish.raw if finish else None
        if said or not mend:
            return said or None
        finish = Finish("stop", "")
    if finish.reason == "tool_calls" and (not calls or isinstance(tool_choice, NamedTool)):
        return "stop"  # as OpenAI does if the request named the tool
    if finish.reason == "stop" and calls and not isinstance(tool_choice, NamedTool):
        return "tool_calls"
    return finish.reason


def _kept(extra: dict[str, Any] | None) -> dict[str, Any]:
    """Converts Gemini's thought signature to the format of Google's Chat Completions endpoint."""
    match extra:
        case {"extra_content": kept}:
            return {"extra_content": kept}
        case {"thoughtSignature": str(signature)}:
            return {"extra_content": {"google": {"thought_signature": signature}}}
    return {}


def _entry(call: SerializedCall, arguments: str) -> dict[str, Any]:
    if call.custom:  # https://github.com/openai/openai-openapi/issues/576
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _joined(pieces: list[Any]) -> Any:
    """Joins the pieces of a message field. Joining all pieces of a text in one step is much faster than joining two at
    a time."""
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else reduce(_appended, pieces)


def _appended(before: Any, piece: Any) -> Any:
    """Appends the next piece to a message field, by the same rules as OpenAI's client."""
    match before, piece:
        case (str(), str()) | (list(), list()):
            return before + piece
        case dict(), dict():  # audio: its fields `data` and `transcript` arrive in pieces
            texts = {name: before.get(name, "") + piece[name] for name in ("data", "transcript") if name in piece}
            return {**before, **piece, **texts}
    return piece
