"""Serializes responses of the Messages API: content blocks, usage, stop reason and errors."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from ...adapters.anthropic import CALL_EXTRAS, STOP_REASONS
from ...deltas import Failure, Finish, ReasoningDelta, TextDelta
from ...errors import ErrorInfo
from ...jsontext import count_or_none, read_arguments
from ...types import FinishReason, Usage, unlisted_steps
from ..stream_serializer import SerializedCall, SerializerArguments, StreamSerializer, json_text
from .opaque_data import pack_call_id, pack_opaque_block

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "unknown": "end_turn",
}
_OWN_REASONS = frozenset(STOP_REASONS) - {"content_filter"}
# Fields that the schema of a complete answer requires in blocks, with the default. Clients send them back.
REQUIRED_MEMBERS: dict[str, dict[str, Any]] = {
    "tool_use": {"caller": {"type": "direct"}},
}
# Fields that the schema requires in the usage: https://platform.claude.com/docs/en/api/messages
_DETAILS: dict[str, type] = {"cache_creation": dict, "server_tool_use": dict, "inference_geo": str, "service_tier": str}


def written_usage(usage: Usage | None) -> dict[str, Any]:
    """Returns the usage object of a message. The four token counts that clients require are 0 if they are unknown.
    Other unknown counts are left out.

    Clients use the token counts as the size of the context. If Anthropic's server shortened the context (a compaction),
    the counts are therefore copied from the server's usage object.
    """
    usage = usage or Usage()
    if unlisted_steps(usage.raw):
        counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        steps = {"iterations": usage.raw["iterations"]}
        return {**{name: count_or_none(usage.raw, name) or 0 for name in counts}, **steps, **_further_counts(usage)}
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
        **_further_counts(usage),
    }


def _further_counts(usage: Usage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if usage.reasoning_tokens is not None:
        found["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    requests = {f"{kind}_requests": usage.tools[kind] for kind in ("web_search", "web_fetch") if kind in usage.tools}
    return {**found, "server_tool_use": requests} if requests else found


def stop_reason_of(finish: Finish, *, calls: bool) -> str:
    """Converts a finish reason to the stop reason of a message."""
    reason, raw = finish.reason, finish.raw
    if raw in _OWN_REASONS and (reason == "unknown" or (finish.cut and STOP_REASONS.get(raw) == reason)):
        return raw  # with `pause_turn`, for example, the client sends the message back
    if finish.cut:
        return _STOP_REASONS[reason]
    return "tool_use" if calls else "end_turn" if reason == "tool_calls" else _STOP_REASONS[reason]


_Open = Literal["text", "thinking", "tool_use"]


# https://docs.anthropic.com/en/api/errors. Clients decide by the type whether to retry.
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TYPES = frozenset({*_ERROR_TYPES.values(), "api_error", "conflict_error"})
_OF_THE_KEY = ("authentication_error", "permission_error")  # with a 5xx, these are about the server's key


class AnthropicSerializer(StreamSerializer):
    """Writes the events of one streamed message.

    In the Messages API, a message has at most one open content block. Content after a tool call is therefore delayed
    until the tool call is complete. Tool call arguments are sent in `input_json_delta` events, because Claude Code
    ignores `input` in `content_block_start`. A failed response ends without a `message_delta` event, so that clients
    treat the message as incomplete.

    Args:
        thinking: True to send the model's reasoning to the client. Only clients that requested thinking expect
            reasoning.
        opaque: True to send the client `redacted_thinking` blocks with data that a provider with another API needs in
            the next request. The client sends these blocks back. They aren't necessary if a turn cache stores the data.
            Some clients, such as agno, show these blocks to users.
        others: see `StreamSerializer`.
    """

    # Anthropic's clients make an object of a truncated input. Their tool runners then run the call, whatever the stop
    # reason is (anthropic 2.12, lib/tools/_beta_runner.py).
    calls_may_be_cut = arguments_are_text = False
    keeps_order = True

    def __init__(self, *, thinking: bool = True, opaque: bool = True, **others: Unpack[SerializerArguments]) -> None:
        super().__init__(**others)
        self._thinking = thinking
        self._opaque = opaque
        self.position = -1
        self.open_kind: str | None = None
        self._signature = ""
        self._hidden: list[dict[str, Any]] = []  # `redacted_thinking` blocks to write after the open block
        self._stop_sequence: str | None = None
        self._encrypted: set[str] = set()
        self._at_end: dict[str, Any] = {}  # fields of the message for its last event
        self._managed: dict[str, Any] | None = None

    def write_text(self, delta: TextDelta) -> None:
        self.switch_block("text")
        self.write_block_delta({"type": "text_delta", "text": delta.text})

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        if not self._thinking:
            return
        if self._signature and delta.text:  # a signed thinking block is complete
            self.stop_block()
        self.switch_block("thinking")
        if delta.text:
            self.write_block_delta({"type": "thinking_delta", "thinking": delta.text})

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        if first:
            own = {name: value for name, value in (call.extra or {}).items() if name in CALL_EXTRAS}
            if others := {name: value for name, value in (call.extra or {}).items() if name not in own}:
                self._opaque_block("call", others)
            self.stop_block()
            self.open_call = call
            self.start_block("tool_use", {"id": pack_call_id(call.id), "name": call.name, "input": {}, **own})
        self._arguments(piece)

    def close_call(self, call: SerializedCall) -> None:
        if self.open_call is call:
            self.stop_block()

    def end_open_call(self) -> None:
        self.stop_block()

    def write_extra(self, name: str, value: Any) -> None:
        match name, value:
            case "signature", str() if self._thinking:
                self.switch_block("thinking")  # even if the provider hides the signed reasoning
                self._signature = value
            case "text_end", {} if self.open_kind == "text":
                for citation in value.get("citations") or ():
                    self.write_block_delta({"type": "citations_delta", "citation": citation})
                self.stop_block()
            case "block", {"type": str()}:
                self._block(value)
            case "output", {"type": "reasoning", "encrypted_content": str(text)} if text not in self._encrypted:
                self._encrypted.add(text)  # the item comes again at the end
                self._opaque_block("output", value)
            case "stop_sequence", str():
                self._stop_sequence = value
            case (("container" | "stop_details"), {}):
                self._at_end[name] = value
            case "context_management", {}:
                self._managed = value

    def write_end(self) -> None:
        self.ensure_started()
        self.stop_block()
        finish = self.finish_reason or Finish("unknown", "")
        if finish.reason == "unknown" and not self.fill_finish_reason:
            reason = finish.raw or None
        else:
            reason = stop_reason_of(finish, calls=self.has_calls)
        if self._stop_sequence is not None and reason == "end_turn":
            reason = "stop_sequence"
        delta = {"stop_reason": reason, "stop_sequence": self._stop_sequence, **self._at_end}
        self.send(self.end_message(delta, written_usage(self.usage)))
        self._write_warnings()
        self.send({"type": "message_stop"})

    def end_message(self, delta: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        managed = {} if self._managed is None else {"context_management": self._managed}
        return {"type": "message_delta", "delta": delta, "usage": usage, **managed}

    def write_waiting(self) -> None:
        if self.open_call is not None:  # the block of a truncated call isn't closed
            self.open_kind = None
        super().write_waiting()

    def write_failure(self, failure: Failure) -> None:
        self._write_warnings()
        self.send(anthropic_error_body(failure.info))

    # --- blocks -------------------------------------------------------------------------------------------------------

    def write_start(self) -> None:
        self.begun = True
        self.send({"type": "message_start", "message": self.start_message()})

    def start_message(self) -> dict[str, Any]:
        about = {"id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": []}
        return {**about, "stop_reason": None, "stop_sequence": None, "usage": written_usage(None)}

    def switch_block(self, kind: _Open) -> None:
        """Opens a content block of this kind, unless such a block is already open."""
        if self.open_kind != kind or self._hidden:
            self.stop_block()
            self.start_block(kind, {"text": ""} if kind == "text" else {"thinking": "", "signature": ""})

    def _opaque_block(self, kind: str, value: Any) -> None:
        if self._opaque:
            self._block(pack_opaque_block(kind, value))

    def _block(self, block: dict[str, Any]) -> None:
        """Writes a complete block of a hosted tool, or a `redacted_thinking` block.

        If the connection breaks, Claude Code 2.1 retries the request only if it has received no complete block. A
        `redacted_thinking` block is therefore delayed until the next block begins, and a thinking block before it stays
        open.
        """
        if block["type"] == "redacted_thinking":
            self._hidden += [block] if self._thinking else []
            return
        self.stop_block()
        self._write_block(block)

    def _write_block(self, block: dict[str, Any]) -> None:
        given = block.get("input")
        # Clients collect the input of every tool from pieces.
        pieces = json_text(given) if isinstance(given, dict) and given else ""
        self.start_block(block["type"], {**block, "input": {}} if pieces else block)
        self._arguments(pieces)
        self._end_block()

    def _arguments(self, piece: str) -> None:
        if piece:
            self.write_block_delta({"type": "input_json_delta", "partial_json": piece})

    def start_block(self, kind: str, members: dict[str, Any]) -> None:
        self.ensure_started()
        self.position, self.open_kind = self.position + 1, kind
        block = {"type": kind, **members}
        self.send({"type": "content_block_start", "index": self.position, "content_block": block})

    def write_block_delta(self, delta: dict[str, Any]) -> None:
        self.send({"type": "content_block_delta", "index": self.position, "delta": delta})

    def stop_block(self) -> None:
        """Closes the open content block, and then writes the delayed `redacted_thinking` blocks."""
        if self.open_kind is not None:
            self._end_block()
        hidden, self._hidden = self._hidden, []
        for block in hidden:
            self._write_block(block)

    def _end_block(self) -> None:
        if self.open_kind == "thinking":
            self.write_block_delta({"type": "signature_delta", "signature": self._signature})
            self._signature = ""
        self.send({"type": "content_block_stop", "index": self.position})
        self.open_kind = self.open_call = None

    def send(self, payload: dict[str, Any], event_name: str | None = None) -> None:
        super().send(payload, event_name or payload["type"])

    def body(self) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        block: Any = None  # the last content block
        arguments: list[str] = []  # the pieces of its input
        for payload in self.collected:
            match payload:
                case {"message": message}:
                    whole = message
                case {"content_block": start}:
                    block = {**REQUIRED_MEMBERS.get(start["type"], {}), **start}
                    whole["content"].append(block)
                case {"delta": {"type": "input_json_delta", "partial_json": piece}}:
                    arguments.append(piece)
                case {"delta": {"type": "citations_delta", "citation": citation}}:
                    block["citations"] = [*block.get("citations", ()), citation]
                case {"delta": {"type": str(), **pieces}}:
                    block |= {name: block[name] + piece for name, piece in pieces.items()}
                case {"type": "content_block_stop"} if arguments:
                    block["input"] = read_arguments(arguments).value
                    arguments.clear()
                case {"delta": ends, **more}:
                    whole |= {**ends, **more, "type": "message"}
        raw = {} if self.usage is None else self.usage.raw
        details = {name: raw[name] if isinstance(raw.get(name), kind) else None for name, kind in _DETAILS.items()}
        usage = {**details, "output_tokens_details": None, **whole["usage"]}
        return {"stop_details": None, "container": None, **whole, "usage": usage}


def anthropic_error_body(info: ErrorInfo) -> dict[str, Any]:
    """Returns the JSON object for an error. A server sends this object as the body of an error response, or in the
    `error` event of a stream."""
    return {"type": "error", "error": {"type": _error_type(info), "message": info.message}}


def _error_type(info: ErrorInfo) -> str:
    by_status = _ERROR_TYPES.get(info.status or 0)
    if info.quota:
        return "billing_error"
    for word in (info.type, info.code):
        # OpenAI uses `invalid_request_error` for most 4xx. The type for the status is more precise, if there is one.
        if word in _TYPES and not (by_status and word == "invalid_request_error"):
            return "api_error" if word in _OF_THE_KEY and (info.status or 0) >= 500 else str(word)
    return by_status or ("invalid_request_error" if 400 <= (info.status or 0) < 500 else "api_error")
