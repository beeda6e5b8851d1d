"""Answers that take several requests, on the wire formats that have them, and a server that sends them.

An answer is a list of steps. Cut into parts, each part is the body of one response; uncut, it is what one response
would have been. The server checks that each request continues the part before it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from streamfold import Provider

Wire = Literal["gemini", "anthropic", "interactions"]
WIRES: tuple[Wire, ...] = ("gemini", "anthropic", "interactions")
MODELS = {"gemini": "gemini-4-argon", "anthropic": "claude-opus-4-8", "interactions": "gemini-4-argon"}
PROVIDERS = {"gemini": "gemini", "anthropic": "anthropic", "interactions": "gemini-interactions"}


@dataclass(frozen=True)
class Step:
    """One piece of an answer: text, reasoning, or a whole call."""

    kind: Literal["text", "reasoning", "call"]
    text: str = ""
    id: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


Events = list[dict[str, Any]]


def gemini_events(steps: Sequence[Step], number: int, *, last: bool, stop: str = "STOP") -> Events:
    """The chunks of one response; `number` is its place among the parts."""

    def chunk(parts: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": parts}
        return {
            "candidates": [{"content": content, "index": 0, **members}],
            "usageMetadata": {"promptTokenCount": 10 * (number + 1), "candidatesTokenCount": number + 1,
                              "totalTokenCount": 11 * (number + 1)},
            "modelVersion": f"m{number}",
            "responseId": f"r{number}",
        }  # fmt: skip

    events = []
    for step in steps:
        match step.kind:
            case "text":
                events.append(chunk([{"text": step.text}]))
            case "reasoning":
                events.append(chunk([{"text": step.text, "thought": True}]))
            case "call":
                call = {"id": step.id, "name": step.text, "args": step.arguments}
                events.append(chunk([{"functionCall": call}]))
    end = {"finishReason": stop} if last else {"finishReason": "CONTINUATION", "continuationToken": token(number)}
    return [*events, chunk([], **end)]


def token(number: int) -> str:
    return f"VE9LRU4{number}="


def claude_blocks(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The blocks of an answer. Each step is a block."""
    blocks: list[dict[str, Any]] = []
    for step in steps:
        match step.kind:
            case "text":
                blocks.append({"type": "text", "text": step.text})
            case "reasoning":
                blocks.append({"type": "thinking", "thinking": step.text, "signature": "c2ln"})
            case "call":
                blocks.append({"type": "tool_use", "id": step.id, "name": step.text, "input": step.arguments})
    return blocks


def claude_events(steps: Sequence[Step], number: int, *, last: bool, stop: str = "") -> Events:
    called = any(step.kind == "call" for step in steps)
    stop = (stop or ("tool_use" if called else "end_turn")) if last else "pause_turn"
    usage = {"input_tokens": 10 * (number + 1), "output_tokens": 1}
    message = {"id": f"r{number}", "type": "message", "role": "assistant", "content": [], "model": f"m{number}"}
    events: Events = [{"type": "message_start", "message": {**message, "usage": usage}}]
    for at, block in enumerate(claude_blocks(steps)):
        match block["type"]:
            case "text":
                begun, piece = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
            case "thinking":
                begun = {"type": "thinking", "thinking": "", "signature": ""}
                piece = {"type": "thinking_delta", "thinking": block["thinking"]}
            case _:
                begun = {**block, "input": {}}
                piece = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        events.append({"type": "content_block_delta", "index": at, "delta": piece})
        if block["type"] == "thinking":
            signed = {"type": "signature_delta", "signature": block["signature"]}
            events.append({"type": "content_block_delta", "index": at, "delta": signed})
        events.append({"type": "content_block_stop", "index": at})
    counted = {"output_tokens": number + 1}
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": counted})
    return [*events, {"type": "message_stop"}]


def interactions_events(steps: Sequence[Step], number: int, *, last: bool, stop: str = "") -> Events:
    about = {"id": f"r{number}", "model": f"m{number}", "object": "interaction"}
    events: Events = [{"event_type": "interaction.created", "interaction": {**about, "status": "in_progress"}}]
    for index, step in enumerate(steps):
        match step.kind:
            case "text":
                begun: dict[str, Any] = {"type": "model_output"}
                pieces: list[dict[str, Any]] = [{"type": "text", "text": step.text}]
            case "reasoning":
                begun = {"type": "thought"}
                pieces = [{"type": "thought_summary", "content": {"type": "text", "text": step.text}},
                          {"type": "thought_signature", "signature": "c2ln"}]  # fmt: skip
            case "call":
                begun = {"type": "function_call", "id": step.id, "name": step.text, "arguments": {}}
                pieces = [{"type": "arguments_delta", "arguments": json.dumps(step.arguments)}]
        events.append({"event_type": "step.start", "index": index, "step": begun})
        events += [{"event_type": "step.delta", "index": index, "delta": piece} for piece in pieces]
        events.append({"event_type": "step.stop", "index": index})
    called = any(step.kind == "call" for step in steps)
    status = stop or ("requires_action" if called else "completed")
    end = {"status": status} if last else {"status": "requires_continuation", "continuation_token": token(number)}
    usage = {"total_input_tokens": 10 * (number + 1), "total_output_tokens": number + 1,
             "total_tokens": 11 * (number + 1)}  # fmt: skip
    return [*events, {"event_type": "interaction.completed", "interaction": {**about, **end, "usage": usage}}]


def events_of(wire: Wire, steps: Sequence[Step], number: int = 0, *, last: bool = True, stop: str = "") -> list[bytes]:
    """The events of one response as bytes."""
    if wire == "gemini":
        made = gemini_events(steps, number, last=last, stop=stop or "STOP")
        return [f"data: {json.dumps(event)}\r\n\r\n".encode() for event in made]
    if wire == "interactions":
        made = interactions_events(steps, number, last=last, stop=stop)
        return [f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n".encode() for event in made]
    made = claude_events(steps, number, last=last, stop=stop)
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in made]


@dataclass
class Failing:
    """How one request fails: with a status, or in the body before this event (None: at its end).

    `complete`: enough of it came, so that the next request asks for the next part.
    """

    status: int = 0
    cut: int | None = None
    complete: bool = False


class _Body(httpx.AsyncByteStream):
    def __init__(self, events: Sequence[bytes], broken: bool, server: PartedServer) -> None:
        self._events, self._broken, self._server = events, broken, server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._server.open += 1
        try:
            for event in self._events:
                yield event
            if self._broken:
                raise httpx.ReadError("the connection was reset")
        finally:
            self._server.open -= 1


class PartedServer:
    """Answers with the parts, one for each request, and checks that a request continues the part before.

    Args:
        failures: called with the number of the part and of the try, both from 0; returns how that request fails.

    Attributes:
        bodies: the requests.
        open: how many bodies are being read.
    """

    def __init__(
        self,
        wire: Wire,
        parts: Sequence[Sequence[Step]],
        failures: Callable[[int, int], Failing | None] = lambda part, attempt: None,
        *,
        stop: str = "",
    ) -> None:
        self.wire, self.parts, self.stop, self._failures = wire, parts, stop, failures
        self.bodies: list[dict[str, Any]] = []
        self.open = self._part = self._try = 0

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.answer))

    def provider(self, **config: Any) -> Provider:
        given = {"api_key": "k", "model": MODELS[self.wire], "max_retries": 0, **config}
        return Provider.from_config(PROVIDERS[self.wire], http_client=self.client(), **given)

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        self._check(body)
        number, failing = self._part, self._failures(self._part, self._try)
        self._try += 1
        if failing and failing.status:
            return httpx.Response(failing.status, json={"error": {"message": "busy", "type": "overloaded_error"}})
        last = number == len(self.parts) - 1
        events = events_of(self.wire, self.parts[number], number, last=last, stop=self.stop if last else "")
        if failing is None or failing.complete:
            self._part, self._try = number + 1, 0
        shown = events if failing is None else events[: failing.cut]
        headers = {"content-type": "text/event-stream", "request-id": f"req_{number}"}
        return httpx.Response(200, headers=headers, stream=_Body(shown, failing is not None, self))

    def _check(self, body: dict[str, Any]) -> None:
        first, before = self.bodies[0], self._part
        if self.wire == "gemini":
            wanted = {} if before == 0 else {"continuationToken": token(before - 1)}
            assert body == {**first, **wanted}
            return
        if self.wire == "interactions":
            wanted = {} if before == 0 else {"continuation_token": token(before - 1)}
            if wanted and first["store"]:
                wanted["previous_interaction_id"] = f"r{before - 1}"
                first = {name: value for name, value in first.items() if name != "input"}
            assert body == {**first, **wanted}
            return
        said = claude_blocks([step for part in self.parts[:before] for step in part])
        turn = [{"role": "assistant", "content": said}] if said else []
        assert body == {**first, "messages": [*first["messages"], *turn]}
