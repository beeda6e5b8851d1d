"""Rewrites streams of Gemini's API.

The patcher writes text, thoughts, tool calls and the end of the response from the decoder's deltas. From the server's
chunks, it copies other parts (code and its results, images), the signatures of texts, and all fields that no delta
contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamfold import Reply
from streamfold.adapters import ExtraPart, ReasoningDelta, RefusalDelta, TextDelta
from streamfold.serving import GeminiSerializer

from .base import UNMODELLED, StreamPatcher, dict_or_empty, dicts_in

_WRITTEN = frozenset({"candidates", "modelVersion", "responseId", "usageMetadata", "error"})
_WRITTEN_OF_CANDIDATE = frozenset({"content", "finishReason", "index"})


class GeminiStreamPatcher(GeminiSerializer, StreamPatcher):
    """Rewrites a streamed response, including the parts and fields of its chunks that no delta contains.

    Args:
        request: the body of the client's request.
        others: see `GeminiSerializer`.
    """

    def __init__(self, *, request: Mapping[str, Any], **others: Any) -> None:
        super().__init__(id="", model="", **others)
        self._rest: dict[str, Any] = {}
        self._candidate_rest: dict[str, Any] = {}
        self._text_rest: dict[str, Any] = {}
        self._calls_there: list[dict[str, Any]] = []  # the server's parts with calls

    @staticmethod
    def tools(request: Mapping[str, Any]) -> Iterable[Any]:
        for tool in dicts_in(request.get("tools")):
            for function in dicts_in(tool.get("functionDeclarations") or tool.get("function_declarations")):
                schema = function.get("parametersJsonSchema") or {"type": "object", "properties": {}}
                yield {"type": "function", "function": {"name": function.get("name"), "parameters": schema}}

    def accepts(self, payload: Any, name: str) -> bool:
        return isinstance(payload, dict) and all(map(_is_candidate, dicts_in(payload.get("candidates"))))

    def extras_of(self, payload: Any) -> list[ExtraPart]:
        if not isinstance(payload, dict):
            return []
        if not self.begun:
            self.id = str(payload.get("responseId") or self.id)
            self.model = str(payload.get("modelVersion") or self.model)
        rest = {name: value for name, value in payload.items() if name not in _WRITTEN}
        about: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        for candidate in dicts_in(payload.get("candidates"))[:1]:
            about = {name: value for name, value in candidate.items() if name not in _WRITTEN_OF_CANDIDATE}
            parts = dicts_in(dict_or_empty(candidate.get("content")).get("parts"))
        parts = [part for part in parts if part.keys() != {"text"}]
        return [ExtraPart(UNMODELLED, (rest, about, parts))] if rest or about or parts else []

    def follows(self, payload: Any) -> bool:
        self._rest, self._candidate_rest, self._text_rest, self.begun = {}, {}, {}, True
        return self.open_call is None and not self.waiting

    def _see_part(self, part: dict[str, Any]) -> None:
        if isinstance(part.get("functionCall"), dict):
            self._calls_there.append(part)
            return
        if isinstance(answered := part.get("functionResponse"), dict):  # the server ran the call itself
            name = answered.get("name")
            for call in [one for one in self._calls_there if one["functionCall"].get("name") == name][:1]:
                self._calls_there.remove(call)
                self.write_part(call)
        if "text" in part and (part["text"] or len(part) == 1):
            self._text_rest = {name: value for name, value in part.items() if name not in ("text", "thought")}
        else:  # of another kind, or only a signature
            self.write_part(part)

    def write_text(self, delta: TextDelta) -> None:
        rest, self._text_rest = self._text_rest, {}
        self.write_part({"text": delta.text, **rest})

    def write_reasoning(self, delta: ReasoningDelta) -> None:
        if delta.text:
            rest, self._text_rest = self._text_rest, {}
            self.write_part({"text": delta.text, "thought": True, **rest})

    def write_refusal(self, delta: RefusalDelta) -> None:
        """Writes nothing, because the refusal is a field of a chunk that was already written."""

    def write_extra(self, name: str, value: Any) -> None:
        """Writes the server's fields and parts, and the reason for a blocked prompt. Ignores other `ExtraPart`s, which
        were written with the server's chunks."""
        if name == UNMODELLED:
            rest, about, parts = value
            self._rest |= rest
            self._candidate_rest |= about
            for part in parts:
                self._see_part(part)
        elif name == "promptFeedback":
            super().write_extra(name, value)

    def written_finish_reason(self) -> str | None:
        return None if self.finish_reason is None and not self.fill_finish_reason else super().written_finish_reason()

    def send(self, payload: dict[str, Any], event_name: str | None = None) -> None:
        if candidates := payload.get("candidates"):
            payload = {**payload, "candidates": [{**self._candidate_rest, **candidates[0]}]}
            self._candidate_rest = {}
        rest, self._rest = self._rest, {}
        super().send({**rest, **payload}, event_name)

    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        candidates = dicts_in(body.get("candidates"))
        parts = [part for one in candidates[:1] for part in dicts_in(dict_or_empty(one.get("content")).get("parts"))]
        given = [part["functionCall"].get("name") for part in parts if isinstance(part.get("functionCall"), dict)]
        if given == [call.name for call in reply.tool_calls] or not candidates:
            return body
        kept = [part for part in parts if part.keys() - {"text"} and "functionCall" not in part]
        calls = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.tool_calls]
        made = [*kept, *([{"text": reply.text}] if reply.text else []), *calls]
        content = {**dict_or_empty(candidates[0].get("content")), "parts": made}
        return {**body, "candidates": [{**candidates[0], "content": content}, *candidates[1:]]}


def _is_candidate(candidate: dict[str, Any]) -> bool:
    content = candidate.get("content", {})
    if not isinstance(content, dict):
        return False
    calls = [part.get("functionCall") or {} for part in dicts_in(content.get("parts"))]
    return all(isinstance(call, dict) and isinstance(call.get("args"), dict | None) for call in calls)
