"""Rewrites streams of the Messages API.

The patcher writes text, thinking, tool calls and the end of the message from the decoder's deltas, in the server's
content blocks. From the server's events, it copies blocks of hosted tools, citations, signatures, and all fields that
no delta contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamfold import Reply
from streamfold.adapters import ExtraPart, int_or_none
from streamfold.serving import ANTHROPIC_STOP_REASONS, AnthropicSerializer, reply_deltas

from .base import UNMODELLED, StreamPatcher, dict_or_empty, dicts_in

_WRITTEN = ("text", "thinking", "tool_use")
_PIECES = ("text_delta", "thinking_delta", "input_json_delta")
_EVENTS = frozenset(
    {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "error",
    }
)  # fmt: skip


class AnthropicStreamPatcher(AnthropicSerializer, StreamPatcher):
    """Rewrites a streamed message, including the blocks and fields that no delta contains.

    Args:
        request: the body of the client's request.
        others: see `AnthropicSerializer`.
    """

    reason_names_calls = True

    def __init__(self, *, request: Mapping[str, Any], **others: Any) -> None:
        super().__init__(id="", model=str(request.get("model") or ""), **others)
        self._message: dict[str, Any] = {}
        self._blocks = 0  # the number of the server's blocks that have begun
        self._is_open = False  # whether the last of them is open
        self._end_of_message: dict[str, Any] = {}
        self._starts: dict[str, dict[str, Any]] = {}  # other fields of the next block of each kind
        self._silent: dict[Any, Any] = {}  # the kinds of blocks without text, by server position
        self._foreign: dict[Any, int] = {}  # the written positions of blocks of other kinds, by server position
        self._written_there: set[Any] = set()  # the server positions of the blocks that are written from deltas

    @staticmethod
    def tools(request: Mapping[str, Any]) -> Iterable[Any]:
        for tool in dicts_in(request.get("tools")):
            if isinstance(tool.get("input_schema"), dict):
                function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
                yield {"type": "function", "function": function}

    def accepts(self, payload: Any, name: str) -> bool:
        kind = str(payload.get("type")) if isinstance(payload, dict) else None
        if kind is None or (name != kind and kind in _EVENTS):  # clients use the event name
            return False
        match payload:
            case {"type": "message_start", "message": {"content": [], "usage": dict()}}:
                return not self._message
            case {"type": "content_block_start", "index": int(number), "content_block": {"type": str()}}:
                self._blocks += 1
                is_open, self._is_open = self._is_open, True
                return bool(self._message) and not is_open and number == self._blocks - 1
            case {"type": "content_block_delta", "index": int(number), "delta": {"type": str()}}:
                return self._is_open and number == self._blocks - 1
            case {"type": "content_block_stop", "index": int(number)}:
                is_open, self._is_open = self._is_open, False
                return not self._message or (is_open and number == self._blocks - 1)  # otherwise clients ignore it
            case {"type": "message_delta", "delta": dict()} | {"type": "message_stop"}:
                return bool(self._message) and not self._is_open
        return kind not in _EVENTS

    def passes_over(self, raw: bytes) -> bool:
        return raw.startswith(b"event:") and not any(name.encode() in raw for name in _EVENTS)

    def follows(self, payload: Any) -> bool:
        match payload:
            case {"type": "message_start"}:
                self.begun = True
            case {"type": "content_block_start", "content_block": {"type": "text" | "thinking" as kind}}:
                self.switch_block(kind)
        return not (self.begun and (self.waiting or payload.get("index", self.position) != self.position))

    def extras_of(self, payload: Any) -> list[ExtraPart]:
        if not isinstance(payload, dict):
            return []
        extras, number = [ExtraPart(UNMODELLED, payload)], int_or_none(payload.get("index"))
        match payload:
            case {"type": "message_start", "message": dict(message)} if not self.begun:
                self._message = message
                self.id, self.model = str(message.get("id") or ""), str(message.get("model") or self.model)
            case {"type": "message_delta"}:
                for name, value in payload.items():
                    known = self._end_of_message.get(name)
                    if isinstance(known, dict) and isinstance(value, dict):
                        known.update(value)
                    else:
                        self._end_of_message[name] = dict(value) if isinstance(value, dict) else value
            case {"type": "content_block_start", "content_block": {"type": kind}}:
                (self._written_there.add if kind in _WRITTEN else self._written_there.discard)(number)
                return extras
            case {"type": "content_block_delta", "delta": {"type": kind, **said}}:
                if any(said.values()):
                    self._silent.pop(number, None)
                if kind not in _PIECES or number not in self._written_there:
                    return extras
            case {"type": "content_block_stop"}:
                return extras
            case {"type": str(kind)} if kind not in _EVENTS and kind != "ping":
                return extras
        return []

    def _see_start(self, number: Any, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind in _WRITTEN:
            self._starts[str(kind)] = {name: value for name, value in block.items() if name not in ("type", kind)}
            if kind != "tool_use" and not block.get(kind):
                self._silent[number] = kind
            return
        self.ensure_started()
        self.stop_block()
        self.position += 1
        self._foreign[number] = self.position
        self.send({"type": "content_block_start", "index": self.position, "content_block": block})

    def _see_stop(self, number: Any) -> None:
        if number in self._foreign:
            self.send({"type": "content_block_stop", "index": self._foreign.pop(number)})
        elif (kind := self._silent.pop(number, "")) in self._starts:  # an empty block, which some clients need
            self.stop_block()
            self.switch_block(kind)
            self.stop_block()
        elif self.open_kind in ("text", "thinking"):
            self.stop_block()

    def start_message(self) -> dict[str, Any]:
        usage = {"input_tokens": 0, "output_tokens": 0}  # clients require these two counts; others aren't invented
        start = {**super().start_message(), "usage": usage}
        return {**start, **self._message, "content": [], "stop_reason": None}

    def start_block(self, kind: Any, members: dict[str, Any]) -> None:
        said = self._starts.pop(kind, {}) if kind != "tool_use" else (self.open_call and self.open_call.extra) or {}
        super().start_block(kind, {**said, **members})

    def write_extra(self, name: str, value: Any) -> None:
        """Writes the server's content block or a part of it. Ignores other `ExtraPart`s, which were written with the
        events."""
        if name != UNMODELLED:
            return
        number = int_or_none(value.get("index"))
        match value:
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._see_start(number, block)
            case {"type": "content_block_delta", "delta": dict(delta)} if number in self._foreign:
                self.send({"type": "content_block_delta", "index": self._foreign[number], "delta": delta})
            case {"type": "content_block_delta", "delta": {"type": "signature_delta", **signed}}:
                super().write_extra("signature", signed.get("signature"))
            case {"type": "content_block_delta", "delta": {"type": "citations_delta"} as delta}:
                self.switch_block("text")
                self.write_block_delta(delta)
            case {"type": "content_block_delta", "delta": dict()}:
                pass  # the deltas of the event have been written
            case {"type": "content_block_stop"}:
                self._see_stop(number)
            case _:  # an unknown event
                self.send(value)

    def write_end(self) -> None:
        for number in list(self._silent) if self.open_call is None else ():
            self._see_stop(number)
        super().write_end()

    def end_message(self, delta: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
        said, reason, finish = self._end_of_message, delta["stop_reason"], self.finish_reason
        if finish is not None and finish.raw and reason is not None and not self.has_calls:
            own, written = ANTHROPIC_STOP_REASONS.get(finish.raw), ANTHROPIC_STOP_REASONS.get(reason)
            if finish.reason == "unknown" or own == written:  # otherwise it contradicts the written blocks
                reason = finish.raw
        least = {"output_tokens": usage["output_tokens"]}  # the counts in message_start stay valid
        delta = {**delta, **dict_or_empty(said.get("delta")), "stop_reason": reason}
        return {**said, "type": "message_delta", "delta": delta, "usage": dict_or_empty(said.get("usage")) or least}

    def patch_body(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        blocks = [block for block in dicts_in(body.get("content")) if block.get("type") == "tool_use"]
        given = [(block.get("id"), block.get("name"), block.get("input")) for block in blocks]
        if given == [(call.id, call.name, call.arguments) for call in reply.tool_calls]:
            return body
        made = AnthropicSerializer(id="", model="", fill_finish_reason=True).serialize_whole(reply_deltas(reply))
        return {**body, "content": made["content"], "stop_reason": made["stop_reason"]}
