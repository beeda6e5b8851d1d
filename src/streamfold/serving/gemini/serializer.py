"""Serializes responses of Gemini's API: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, Unpack

from ...adapters.gemini import (
    ABOUT_CANDIDATE,
    FINISH_REASONS,
    GEMINI_USAGE,
    OTHER_REASONS,
    SIGNATURE,
    gemini_error_body,
    signature_of,
)
from ...deltas import Failure, ReasoningDelta, TextDelta
from ...jsontext import read_arguments
from ...types import FinishReason
from ..stream_serializer import DONE, SerializedCall, SerializerArguments, StreamSerializer, json_text

Framing: TypeAlias = Literal["events", "array"]

_REASONS: dict[FinishReason, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",  # the API has no finish reason for tool calls
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "unknown": "OTHER",
}
_SHOWN = ("text", "functionCall", "functionResponse")  # parts that deltas contain, or that aren't for the client


class GeminiSerializer(StreamSerializer):
    """Writes the chunks of one streamed response.

    In Gemini's API, a tool call isn't split into fragments. Content after a tool call is therefore delayed until the
    tool call is complete. The last chunk contains the warnings in a field. Warnings aren't sent as SSE comments,
    because Google's JavaScript client stops reading at a comment.

    Args:
        thinking: True to send the model's reasoning to the client. Only clients that requested thoughts expect
            reasoning.
        framing: "events" for server-sent events, or "array" for one JSON array, which clients get if their URL has no
            `alt=sse`.
        others: see `StreamSerializer`.
    """

    arguments_are_text = False
    keeps_order = True
    line_end = "\r\n"
    keep_alive = b"\r\n"  # clients ignore white space in both framings

    def __init__(
        self, *, thinking: bool = True, framing: Framing = "events", **others: Unpack[SerializerArguments]
    ) -> None:
        super().__init__(**others)
        self._thinking = thinking
        self._framing = framing
        self._is_malformed = False  # a call was truncated, and the finish reason doesn't say so
        self._trailing: list[dict[str, Any]] = []  # parts to write after the calls
        self._calls_passed = False
        self._about: dict[str, Any] = {}
        self._blocked: dict[str, Any] | None = None
        self._in_array = False  # a chunk has been written as an element of an array

    def write_start(self) -> None:
        self.write_part(None)

    def write_text(self, delta: TextDelta) -> None:
        self.write_part({"text": delta.text})

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        if self._thinking and delta.text:
            self.write_part({"text": delta.text, "thought": True})

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        if first:
            self.open_call = call

    def close_call(self, call: SerializedCall) -> None:
        # Without a part, `end_open_call` reports a malformed call.
        if self.open_call is call and (part := _call_part(call)) is not None:
            self.open_call = None
            self.write_part(part)

    def end_open_call(self) -> None:
        call, self.open_call = self.open_call, None
        if call is None:
            return
        if (part := _call_part(call)) is not None:
            self.write_part(part)
        elif not (self.finish_reason is not None and self.finish_reason.cut):
            self._is_malformed = True

    def write_extra(self, name: str, value: Any) -> None:
        if name in ABOUT_CANDIDATE or name == "continuationToken":
            self._about[name] = value
        elif name == "promptFeedback" and isinstance(value, dict):
            self._blocked = value
        elif name == "blocks" and isinstance(value, dict) and "type" not in value:  # blocks of Anthropic have a type
            self._block(value)

    def _block(self, part: dict[str, Any]) -> None:
        """Writes a part that a Gemini provider sent, if no delta contains it. If it is a text part, writes only its
        signature. The provider's parts arrive at the end of the response, after the text.
        """
        if "functionCall" in part:
            self._calls_passed = True
        if "text" in part and part.get(SIGNATURE) and (self._thinking or not part.get("thought")):
            part = {**part, "text": ""}
        elif any(name in part for name in _SHOWN):
            return
        if self._calls_passed:
            self._trailing.append(part)
        else:
            self.write_part(part)

    def write_part(self, part: dict[str, Any] | None) -> None:
        content = {"role": "model"} if part is None else {"parts": [part], "role": "model"}
        self._chunk([{"content": content, "index": 0}])

    def write_end(self) -> None:
        self.end_open_call()
        reason = "MALFORMED_FUNCTION_CALL" if self._is_malformed else self.written_finish_reason()
        for part in self._trailing:
            self.write_part(part)
        last: dict[str, Any] = {}
        # As in Google's answers, the chunk with the finish reason has an empty text. Without a part, Google's Python
        # client removes the turn from the conversation.
        content = {"parts": [{"text": ""}], "role": "model"}
        said = {} if reason is None else {"finishReason": reason}
        candidates = [{"content": content, **said, "index": 0, **self._about}]
        if self._blocked and not self.begun:
            last, candidates = {"promptFeedback": self._blocked}, []
        if self.usage is not None:
            last["usageMetadata"] = GEMINI_USAGE.write(self.usage)
        if self._warnings:
            last["streamfoldWarnings"] = list(self._warnings)
        self._chunk(candidates, last)
        if self._framing == "array":
            self._out.append(b"]")
        elif candidates and reason is None:
            self._out.append(DONE)

    def written_finish_reason(self) -> str | None:
        """Returns the finish reason for the client. If streamfold doesn't know the provider's finish reason, this is
        `OTHER`."""
        reason, raw = (self.finish_reason.reason, self.finish_reason.raw) if self.finish_reason else ("unknown", "")
        if reason == "unknown":
            return raw if raw in OTHER_REASONS or raw in FINISH_REASONS else _REASONS[reason]
        return raw if FINISH_REASONS.get(raw) == reason else _REASONS[reason]

    def write_failure(self, failure: Failure) -> None:
        error = gemini_error_body(failure.info)
        self.send(error)
        if self._framing == "array":
            self._out.append(b"]")
        else:
            # Google's JavaScript client ignores an error in an event, and raises one that follows the events.
            self._out.append(json_text(error).encode() + b"\r\n")

    def _chunk(self, candidates: list[dict[str, Any]], members: dict[str, Any] | None = None) -> None:
        self.begun = True
        about = {"modelVersion": self.model, "responseId": self.id}
        self.send({**({"candidates": candidates} if candidates else {}), **(members or {}), **about})

    def body(self) -> dict[str, Any]:
        parts, whole = list[dict[str, Any]](), dict[str, Any]()
        for chunk in self.collected:
            for candidate in chunk.get("candidates", ()):
                for part in candidate.get("content", {}).get("parts", ()):
                    _append(parts, part)
            whole |= chunk
        if candidates := whole.get("candidates"):
            whole["candidates"] = [{**candidates[0], "content": {"role": "model", "parts": parts}}]
        return whole

    def send(self, payload: dict[str, Any], event_name: str | None = None) -> None:
        if self._streams and self._framing == "array":
            self._out.append((",\r\n" if self._in_array else "[").encode() + json_text(payload).encode())
            self._in_array = True
        else:
            super().send(payload, event_name)


def _append(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Appends a part to a list of parts. Two consecutive text parts, or two consecutive thoughts, are merged."""
    if part == {"text": ""}:
        return
    before = parts[-1] if parts else {}
    if part.keys() == before.keys() <= {"text", "thought"}:
        parts[-1] = {**part, "text": before["text"] + part["text"]}
    else:
        parts.append(part)


def _call_part(call: SerializedCall) -> dict[str, Any] | None:
    """Returns the part for a tool call. Returns None if the tool call's arguments aren't a JSON object, because clients
    don't check the arguments before they run a tool."""
    read = read_arguments([call.arguments], repair=False)
    if not read.valid:
        return None
    part: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": read.value}}
    signature = signature_of(call.extra)
    return {**part, SIGNATURE: signature} if signature else part
