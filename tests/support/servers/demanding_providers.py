"""Providers that answer with calls three times, and refuse a turn that comes back without what they said beside them.

Each checks what its original checks, and answers a 400 in its words: reasoning (Moonshot, DeepSeek), thinking blocks
with their signature (Anthropic), thought signatures (Google, on both of its APIs), encrypted items (Responses).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from streamfold import Provider, Usage
from streamfold.deltas import Delta, Finish, ReasoningDelta, TextDelta
from streamfold.serving import StreamSerializer
from streamfold.serving.anthropic import AnthropicSerializer
from streamfold.serving.chat import ChatSerializer
from streamfold.serving.gemini import GeminiSerializer
from streamfold.serving.responses import ResponsesSerializer
from streamfold.types import ExtraPart, ToolCallDelta

TURNS = 3

# What each of them is: the configuration of its provider, and the refusal that it gives.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "kimi": (
        {"profile": "kimi", "model": "kimi-k2.6"},
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
    ),
    "deepseek": (
        {"profile": "deepseek", "model": "deepseek-v4-pro"},
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ),
    "gemini": (
        {"profile": "gemini", "model": "gemini-3-pro-preview"},
        "Function call is missing a thought_signature in functionCall parts.",
    ),
    "gemini-openai": (
        {"profile": "gemini-openai", "model": "gemini-3-pro-preview"},
        "Function call is missing a thought_signature in functionCall parts.",
    ),
    "anthropic": (
        {"profile": "anthropic", "model": "claude-sonnet-4-5", "options": {"reasoning_effort": "high"}},
        "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    ),
    "responses": (
        {"adapter": "responses", "base_url": "http://upstream/v1", "model": "gpt-5"},
        "Item of type 'function_call' was provided without its required 'reasoning' item.",
    ),
}


@dataclass
class Demanding:
    """One provider.

    Attributes:
        kind: one of `KINDS`.
        refused: how often it has answered a 400.
        bodies: the requests.
    """

    kind: str
    refused: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def provider(self, client: httpx.AsyncClient, **config: Any) -> Provider:
        """A provider that sends to it."""
        given = {**KINDS[self.kind][0], "max_retries": 0, "name": "main", **config}
        if "profile" in given:
            given["api_key"] = "key-of-the-gateway"
        turn_cache = given.pop("turn_cache", None)
        return Provider.from_config(given, http_client=client, turn_cache=turn_cache)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        said = list(_said(self.kind, body))
        if said != [_kept(self.kind, number) for number in range(len(said))]:
            self.refused += 1
            return httpx.Response(
                400, json={"error": {"message": KINDS[self.kind][1], "type": "invalid_request_error"}}
            )
        return httpx.Response(
            200, content=_written(self.kind, len(said)), headers={"content-type": "text/event-stream"}
        )


def call_id(kind: str, number: int) -> str:
    """Kimi's ids, and those of servers that count from the beginning of each answer, are no names of a turn."""
    return {"kimi": f"functions.look:{number}", "deepseek": "call_0"}.get(kind, f"call_of_{kind}_{number}")


def _kept(kind: str, number: int) -> str:
    """What must come back with the turn of this number."""
    return f"{kind} reasons about step {number}" if kind in ("kimi", "deepseek") else f"c2lnbmF0dXJl{number:04}"


def _said(kind: str, body: dict[str, Any]) -> Iterator[Any]:
    """What has come back with each turn that has calls."""
    match kind:
        case "gemini":
            for content in body["contents"]:
                calls = [part for part in content["parts"] if "functionCall" in part]
                yield from (part.get("thoughtSignature") for part in calls[:1])
        case "anthropic":
            thinks = body.get("thinking", {}).get("type") == "enabled"  # else none is needed
            turns = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
            for number, blocks in enumerate(turns):
                found = {block["type"]: block for block in blocks if isinstance(block, dict)}
                if "tool_use" in found:
                    yield found.get("thinking", {}).get("signature") if thinks else _kept(kind, number)
        case "responses":
            kept = None
            for item in body["input"]:
                if item["type"] == "function_call":
                    yield kept
                kept = item.get("encrypted_content") if item["type"] in ("reasoning", "function_call_output") else kept
        case _:
            for message in body["messages"]:
                if calls := message.get("tool_calls"):
                    google = calls[0].get("extra_content", {}).get("google", {})
                    yield (
                        google.get("thought_signature") if kind == "gemini-openai" else message.get("reasoning_content")
                    )


def _written(kind: str, number: int) -> bytes:
    serializer = _serializer(kind, number)
    end = Finish("tool_calls", "tool_calls") if number < TURNS else Finish("stop", "stop")
    return b"".join(
        [serializer.begin(), serializer.feed_all([*_deltas(kind, number), Usage(7, 3, 10), end]), serializer.finish()]
    )


def _serializer(kind: str, number: int) -> StreamSerializer:
    about: dict[str, Any] = {"id": f"answer_{number}", "model": "m", "created": 1}
    match kind:
        case "gemini":
            return GeminiSerializer(**about)
        case "anthropic":
            return AnthropicSerializer(**about, thinking=True)
        case "responses":
            return ResponsesSerializer(**about)
    return ChatSerializer(**about)


def _deltas(kind: str, number: int) -> Iterator[Delta]:
    kept = _kept(kind, number)
    reasons = kept if kind in ("kimi", "deepseek") else f"thinking {number}"
    yield ReasoningDelta(reasons)
    if kind == "anthropic":
        yield ExtraPart("signature", kept)
    if kind == "responses":
        yield ExtraPart("output", {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": kept})
    if number == TURNS:
        yield TextDelta("That is all.")
        return
    yield TextDelta(f"Step {number}.")
    signed: dict[str, Any] | None = None
    if kind == "gemini":
        signed = {"thoughtSignature": kept}
    if kind == "gemini-openai":
        signed = {"extra_content": {"google": {"thought_signature": kept}}}
    # A number that a client in JavaScript writes as 1, and a text that many write with other escapes.
    arguments = f'{{"at": {number}.0, "what": "\\u00e4"}}'
    name = "look"
    yield ToolCallDelta(0, call_id(kind, number), name, arguments, whole=True, extra=signed)
