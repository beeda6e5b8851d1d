"""Writes answers of Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

from typing import Any

from ...values import Failure, Finish, NamedTool, ReadToolChoice, Reasoning, Refusal, Reply, Text, ToolCall, Usage
from ..emitting.answers import arguments_text
from ..emitting.emitter import DONE, Emitter, WrittenCall, error_body, event

__all__ = ["ChatEmitter", "completion"]

_LISTS = ("annotations", "reasoning_details")  # members of a delta that are lists


class ChatEmitter(Emitter):
    """Writes the chunks of one streamed completion.

    The role comes once, with the first delta. A call opens with index, id, type, name and its first arguments in one
    entry; later entries have its index and arguments alone. One finish reason, then the usage if it was asked for, then
    `[DONE]`; after an error none of these.

    Args:
        include_usage: `stream_options.include_usage` of the request.
        others: see `Emitter`.
    """

    def __init__(self, *, include_usage: bool = False, **others: Any) -> None:
        super().__init__(**others)
        self.include_usage = include_usage
        self._kept: dict[int, dict[str, Any]] = {}  # what was written of calls beside the call itself, by their number

    def _open(self) -> None:
        self._delta({"content": ""})

    def _text(self, delta: Text) -> None:
        self._delta({"content": delta.text})

    def _reasoning(self, delta: Reasoning) -> None:
        self._delta({"reasoning_content": delta.text})

    def _refusal(self, delta: Refusal) -> None:
        self._delta({"refusal": delta.text})

    def _call_piece(self, call: WrittenCall, piece: str, *, first: bool) -> None:
        entry: dict[str, Any] = {"function": {"arguments": piece}}
        if first:
            entry = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": piece}}
        if (extra := _kept(call.extra)) and extra != self._kept.get(call.number):
            self._kept[call.number] = extra  # mostly with the first entry, but a provider may send it later
            entry |= extra
        self._delta({"tool_calls": [{"index": call.number, **entry}]})

    def _extra(self, name: str, value: Any) -> None:
        if name == "reasoning_details" and _tells_text(value):
            # Its text has been said, and would be read twice; without it a signature is worth nothing.
            if value.get("signature"):
                self._warn(
                    "extras_dropped", "signed reasoning_details are not streamed: they would repeat the reasoning"
                )
        elif name == "audio":
            self._delta({name: value})
        elif name in _LISTS:
            self._delta({name: [_nested(value)]})

    def _delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        if not self._begun:
            self._begun = True
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
        self._payload(payload)

    def _payload(self, payload: dict[str, Any]) -> None:
        self._out.append(event(payload))

    def _end(self) -> None:
        reason = _finish_reason(self._finish, self.tool_choice, calls=self.has_calls, mend=self.mend_finish)
        if reason or not self._begun:
            self._delta({}, reason)
        if self.include_usage and self._usage is not None:
            self._chunk([], written_usage(self._usage))
        self._write_warnings()
        self._out.append(DONE)

    def _fail(self, failure: Failure) -> None:
        self._write_warnings()
        self._out.append(event(error_body(failure.info)))


def completion(
    reply: Reply,
    *,
    id: str,  # noqa: A002 - the word on the wire
    model: str,
    created: int = 0,
    tool_choice: ReadToolChoice = "auto",
    mend_finish: bool = False,
) -> dict[str, Any]:
    """The body of an answer that is not streamed. It says what the streamed one says; for `mend_finish` see there."""
    calls = [] if tool_choice == "none" else reply.tool_calls
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    if reply.reasoned:
        message["reasoning_content"] = reply.reasoning
    if calls:
        message["tool_calls"] = [_whole_entry(call) for call in calls]
    for name in _LISTS:
        if values := reply.extras.get(name):
            message[name] = [_nested(value) for value in values]
    if pieces := reply.extras.get("audio"):
        message["audio"] = _joined(pieces)
    finish = Finish(reply.finish_reason, reply.raw_finish_reason or "")
    reason = _finish_reason(finish, tool_choice, calls=bool(calls), mend=mend_finish)
    body: dict[str, Any] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
    }
    return body if reply.usage is None else {**body, "usage": written_usage(reply.usage)}


def written_usage(usage: Usage) -> dict[str, Any]:
    """Returns usage under the names of this wire format, with further members if the server used the same names.

    The wire demands the three sums; one that no server sent is 0.
    """
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
    """Returns the finish reason to write: the server's own word if it is unknown, None if there was none."""
    if finish is None or finish.reason == "unknown":
        said = finish.raw if finish else None
        if said or not mend:
            return said or None
        finish = Finish("stop", "")
    if finish.reason == "tool_calls" and (not calls or isinstance(tool_choice, NamedTool)):
        return "stop"  # a call that the request named is no choice of the model's: OpenAI ends it so, streamed or not
    if finish.reason == "stop" and calls and not isinstance(tool_choice, NamedTool):
        return "tool_calls"
    return finish.reason


def _kept(extra: dict[str, Any] | None) -> dict[str, Any]:
    """The member in which Google's endpoint for this API has a signature; those of its own API are written so too."""
    match extra:
        case {"extra_content": kept}:
            return {"extra_content": kept}
        case {"thoughtSignature": str(signature)}:
            return {"extra_content": {"google": {"thought_signature": signature}}}
    return {}


def _whole_entry(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function, **_kept(call.extra)}


def _tells_text(detail: Any) -> bool:
    return isinstance(detail, dict) and any(isinstance(detail.get(name), str) for name in ("text", "summary"))


def _nested(value: Any) -> Any:
    """Returns a citation with its members under its type, as this wire format has it."""
    match value:
        case {"type": "url_citation" | "file_citation" as kind, **rest} if rest and kind not in rest:
            return {"type": kind, kind: rest}
    return value


def _joined(pieces: list[Any]) -> dict[str, Any]:
    """Joins the pieces of audio: texts are appended, as OpenAI's own client does it."""
    whole: dict[str, Any] = {}
    for piece in pieces:
        for name, value in piece.items() if isinstance(piece, dict) else ():
            joins = name in ("data", "transcript") and isinstance(value, str)
            whole[name] = whole.get(name, "") + value if joins else value
    return whole
