"""A server of the Messages API that whose thinking is bound to what was sent before it.

Written from https://platform.claude.com/docs/en/build-with-claude/preserved-thinking and its page on prefix checks. A
signature has the digest of the system prompt, of the tools in the order of their names, and of everything before the
block that isn't thinking; and the signature of the thinking before it, as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

import httpx

BETA = "thinking-binding-controls-2026-08-01"
REFUSAL = (
    "messages.{at}.content.{nth}: Invalid `signature` in `thinking` block. The block is bound to a different"
    ' conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That'
    f" setting requires the `{BETA}` value in the `anthropic-beta` header. {{why}}"
)


@dataclass
class BindingServer:
    """Answers with thinking, a text, and calls of the tools that a user's message names in brackets: `[look]`.

    Attributes:
        random: answers have no thinking, several blocks of it, also between their parts, and encrypted ones.
        enforces: thinking whose prefix has changed is refused; else only if the request says what to do with it.
        bodies: the requests, as JSON, each with `betas`.
        refused: how many requests were refused.
    """

    enforces: bool = True
    random: Random | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = {**json.loads(request.content), "betas": request.headers.get("anthropic-beta", "").split(",")}
        self.bodies.append(body)
        wanted = (body.get("thinking") or {}).get("block_binding", {}).get("prefix_mismatch_behavior")
        if wanted and BETA not in body["betas"]:
            return self._error("thinking.block_binding: Extra inputs are not permitted")
        bad = next(invalid(body), None)
        dropped: list[dict[str, str]] = []
        if bad is not None and wanted == "drop_block":
            body, dropped = _without(body, bad[:2])
        elif bad is not None and (self.enforces or wanted == "error"):
            return self._error(REFUSAL.format(at=bad[0], nth=bad[1], why=bad[2]))
        answer = _answer(body, len(self.bodies), self.random)
        return httpx.Response(200, json={**answer, "input_transformations": dropped} if wanted else answer)

    def _error(self, message: str) -> httpx.Response:
        self.refused += 1
        error = {"type": "invalid_request_error", "message": message}
        return httpx.Response(400, json={"type": "error", "error": error})


def invalid(body: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yields the places of thinking that does not fit what is before it, and why."""
    last: str | None = None
    for at, turn in enumerate(body["messages"]):
        for nth, block in enumerate(_content(turn)):
            if not is_thinking(block):
                continue
            made, now = json.loads(_signature(block)), prefix(body, at, nth)
            changed = next((name for name in ("system", "tools", "messages") if made[name] != now[name]), None)
            if changed:
                yield at, nth, f"The `{changed}` differs from the one this block was created with."
            elif last is not None and made["after"] != _short(last):
                yield at, nth, "The `thinking` block that preceded this one when it was created is missing."
            last = _signature(block)


def is_thinking(block: Mapping[str, Any]) -> bool:
    """Whether a block is thinking, shown or encrypted."""
    return block.get("type") in ("thinking", "redacted_thinking")


def _signature(block: Mapping[str, Any]) -> str:
    return str(block["signature"] if block["type"] == "thinking" else block["data"])


def prefix(body: Mapping[str, Any], at: int, nth: int) -> dict[str, str]:
    """Returns the digests of what is before a block."""
    turns = [[turn["role"], [_plain(block) for block in _content(turn)]] for turn in body["messages"][:at]]
    if at < len(body["messages"]):
        turns.append([body["messages"][at]["role"], [_plain(block) for block in _content(body["messages"][at])[:nth]]])
    before = [[role, [block for block in blocks if block]] for role, blocks in turns]
    tools = sorted((_plain(tool) for tool in body.get("tools", [])), key=lambda tool: tool["name"])
    system = body.get("system", [])
    return {
        "system": _short([_plain(block) for block in system] if isinstance(system, list) else system),
        "tools": _short(tools),
        "messages": _short([turn for turn in before if turn[1]]),
    }


def _content(turn: Mapping[str, Any]) -> Sequence[Any]:
    content = turn["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(block: Mapping[str, Any]) -> Any:
    return None if is_thinking(block) else {k: v for k, v in block.items() if k != "cache_control"}


def _short(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _without(body: dict[str, Any], place: tuple[int, int]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Returns a body without a block of thinking and all thinking behind it, and what the answer says of that."""
    made, dropped = [], []
    for at, turn in enumerate(body["messages"]):
        content = []
        for nth, block in enumerate(_content(turn)):
            if is_thinking(block) and (at, nth) >= place:
                path, reason = f"messages.{at}.content.{nth}", "prefix_binding_mismatch"
                dropped.append({"type": "thinking_dropped", "path": path, "reason": reason})
            else:
                content.append(block)
        made.append({**turn, "content": content})
    return {**body, "messages": made}, dropped


def _answer(body: dict[str, Any], number: int, random: Random | None) -> dict[str, Any]:
    words = " ".join(str(block.get("text", "")) for block in _content(body["messages"][-1]))
    called = [tool["name"] for tool in body.get("tools", []) if f"[{tool['name']}]" in words]
    parts = [{"type": "text", "text": f"Answer {number}."}] + [
        {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": {"n": number}}
        for at, name in enumerate(called)
    ]
    thinks = [True] + [False] * len(parts) if random is None else [random.random() < 0.5 for _ in range(len(parts) + 1)]
    before = [block for turn in body["messages"] for block in _content(turn) if is_thinking(block)]
    last = _signature(before[-1]) if before else None
    blocks: list[dict[str, Any]] = []
    for at, thought in enumerate(thinks):
        if thought:
            whole = {**body, "messages": [*body["messages"], {"role": "assistant", "content": blocks}]}
            made = {**prefix(whole, len(body["messages"]), len(blocks)), "after": _short(last) if last else ""}
            last = json.dumps({**made, "number": number, "at": at})
            shown = {"type": "thinking", "thinking": f"Thought {number}.", "signature": last}
            encrypted = random is not None and random.random() < 0.2
            blocks.append({"type": "redacted_thinking", "data": last} if encrypted else shown)
        blocks += parts[at : at + 1]
    usage = {"input_tokens": 1, "output_tokens": 1}
    reason = "tool_use" if called else "end_turn"
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": blocks}
    return {**message, "stop_reason": reason, "usage": usage}
