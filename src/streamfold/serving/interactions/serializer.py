"""Serializes responses of Google's Interactions API: https://ai.google.dev/gemini-api/docs/interactions/streaming."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, Unpack

from ...adapters.interactions import INTERACTIONS_USAGE, STATUSES, interactions_error_body
from ...deltas import Failure, ReasoningDelta, TextDelta
from ...jsontext import read_arguments
from ...types import STEP_MEDIA, FinishReason, step_text
from ..stream_serializer import SerializedCall, SerializerArguments, StreamSerializer

_Text: TypeAlias = Literal["model_output", "thought"]
_DONE = b"event: done\ndata: [DONE]\n\n"
_WORDS: dict[FinishReason, str] = {
    "stop": "completed",
    "tool_calls": "requires_action",
    "length": "incomplete",
    "content_filter": "incomplete",
}


class InteractionsSerializer(StreamSerializer):
    """Writes the events of one streamed interaction.

    Text after a tool call begins a new step. If the provider has the Interactions API, each step ends where the
    provider's step ends, so that a signature follows its content. The final interaction object contains the warnings in
    a field.

    Args:
        thinking: True to send the text of the model's reasoning to the client. Thought steps and their signatures are
            always sent.
        others: see `StreamSerializer`.
    """

    arguments_are_text = False  # only an answer that isn't streamed has an object
    keep_alive = b"\n"  # clients ignore an empty line

    def __init__(self, *, thinking: bool = True, **others: Unpack[SerializerArguments]) -> None:
        super().__init__(**others)
        self._thinking = thinking
        self._next = 0
        self._open: tuple[_Text, int] | None = None
        self._call_indexes: dict[int, int] = {}  # the steps of the calls that have not ended
        self._own: list[dict[str, Any]] = []  # the provider's steps, for an answer that isn't streamed

    def _event(self, kind: str, **members: Any) -> None:
        self.begun = True
        self.send({**members, "event_type": kind}, kind)

    def _interaction(self, status: str) -> dict[str, Any]:
        created = datetime.fromtimestamp(self.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"id": self.id, "status": status, "object": "interaction", "model": self.model}
        return {**about, **({"created": created} if self.created else {})}

    def _delta(self, index: int, **members: Any) -> None:
        self._event("step.delta", index=index, delta=members)

    def _start(self, step: dict[str, Any]) -> int:
        self.ensure_started()
        index, self._next = self._next, self._next + 1
        self._event("step.start", index=index, step=step)
        return index

    def _stop(self) -> None:
        if self._open is not None:
            self._event("step.stop", index=self._open[1])
            self._open = None

    def _switch(self, kind: _Text) -> int:
        if self._open is None or self._open[0] != kind:
            self._stop()
            self._open = kind, self._start({"type": kind})
        return self._open[1]

    def write_start(self) -> None:
        self._event("interaction.created", interaction=self._interaction("in_progress"))
        self._event("interaction.status_update", interaction_id=self.id, status="in_progress")

    def write_text(self, delta: TextDelta) -> None:
        self._delta(self._switch("model_output"), type="text", text=delta.text)

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        if delta.text:
            index = self._switch("thought")  # a thought step may have no summary
            if self._thinking:
                self._delta(index, type="thought_summary", content={"type": "text", "text": delta.text})

    def write_call_piece(self, call: SerializedCall, piece: str, *, first: bool) -> None:
        if first:
            self._stop()
            step = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}}
            self._call_indexes[call.number] = self._start(step)
        if piece:
            self._delta(self._call_indexes[call.number], type="arguments_delta", arguments=piece)

    def close_call(self, call: SerializedCall) -> None:
        if (index := self._call_indexes.pop(call.number, None)) is not None:
            self._event("step.stop", index=index)

    def write_extra(self, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            return
        if name == "steps" and not self._streams:
            self._own.append(value)
        elif name == "step":
            self._end_of_step(value)

    def _end_of_step(self, step: dict[str, Any]) -> None:
        kind = step.get("type")
        if kind == "thought":
            if signature := step.get("signature"):
                self._delta(self._switch("thought"), type="thought_signature", signature=signature)
        elif kind == "model_output":
            contents = step.get("content")
            for content in contents if isinstance(contents, list) else ():
                if not isinstance(content, dict):
                    continue
                if sources := content.get("annotations"):
                    self._delta(self._switch("model_output"), type="text_annotation_delta", annotations=sources)
                if content.get("type") in STEP_MEDIA:
                    self._delta(self._switch("model_output"), **content)
        elif kind != "function_call":
            self._stop()
            self._event("step.stop", index=self._start(step))
            return
        self._stop()

    def write_waiting(self) -> None:
        self._stop()

    def _status(self) -> str | None:
        """Returns the interaction's status for the client. Returns None if the provider sent no finish reason and
        `fill_finish_reason` is False."""
        finish = self.finish_reason
        if finish is None:
            filled = "requires_action" if self.has_calls else "completed"
            return filled if self.fill_finish_reason else None
        if STATUSES.get(finish.raw) == finish.reason:
            return finish.raw
        return _WORDS.get(finish.reason, "requires_action" if self.has_calls else "incomplete")

    def write_end(self) -> None:
        self.ensure_started()
        self._stop()
        for index in self._call_indexes.values():
            self._event("step.stop", index=index)
        if (status := self._status()) is not None:
            interaction = self._interaction(status)
            if self.usage is not None:
                interaction["usage"] = {INTERACTIONS_USAGE.tools: 0, **INTERACTIONS_USAGE.write(self.usage)}
            if self._warnings:
                interaction["streamfold_warnings"] = list(self._warnings)
            self._event("interaction.completed", interaction=interaction)
        if self._streams:
            self._out.append(_DONE)

    def write_failure(self, failure: Failure) -> None:
        self._event("error", **interactions_error_body(failure.info))

    def body(self) -> dict[str, Any]:
        steps: dict[int, dict[str, Any]] = {}
        whole: dict[str, Any] = {}
        for sent in self.collected:
            if sent["event_type"] == "step.start":
                steps[sent["index"]] = dict(sent["step"])
            elif sent["event_type"] == "step.delta":
                _grow(steps[sent["index"]], sent["delta"])
            whole = sent.get("interaction") or whole
        written = [done for step in steps.values() if (done := _whole_step(step)) is not None]
        if self._own and "".join(map(step_text, self._own)) == "".join(map(step_text, written)):
            written = self._own
        return {**whole, "steps": written}


def _grow(step: dict[str, Any], delta: dict[str, Any]) -> None:
    """Adds a delta to a step. The arguments of a tool call are collected as JSON text."""
    match delta["type"]:
        case "text":
            step.setdefault("content", [{"type": "text", "text": ""}])[-1]["text"] += delta["text"]
        case "thought_summary":
            before = step.get("summary", [{"text": ""}])[-1]["text"]
            step["summary"] = [{"type": "text", "text": before + delta["content"]["text"]}]
        case "thought_signature":
            step["signature"] = delta["signature"]
        case "arguments_delta":
            step["arguments"] = (step["arguments"] or "") + delta["arguments"]


def _whole_step(step: dict[str, Any]) -> dict[str, Any] | None:
    """Returns a step with the tool call's arguments as an object. Returns None if the arguments aren't a JSON object,
    because clients don't check the arguments before they run a tool."""
    if step["type"] != "function_call":
        return step
    read = read_arguments([step["arguments"] or "{}"], repair=False)
    return {**step, "arguments": read.value} if read.valid else None
