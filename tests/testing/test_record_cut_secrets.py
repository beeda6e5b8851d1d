"""Secrets that an answer cuts in pieces: none can be put together from a recording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import APIError, Provider
from streamfold.recording import RecordTransport
from tables import each_row

KEY = "abcdefghij0123456789KLMNOPQRST"


def chat(text: str, **rest: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **rest}]}


def chat_late(text: str) -> dict[str, Any]:
    """A choice whose index stands behind its text."""
    return {"choices": [{"delta": {"content": text}, "index": 0}]}


def chat_other(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 1, "delta": {"content": text}}]}


def arguments(text: str) -> dict[str, Any]:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def responses(text: str) -> dict[str, Any]:
    return {"delta": text, "type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0}


def anthropic(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}, "index": 0}


def gemini(*texts: str, thought: bool = False) -> dict[str, Any]:
    parts = [{**({"thought": True} if thought else {}), "text": text} for text in texts]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]}


def interactions(kind: str, **said: Any) -> dict[str, Any]:
    return {"index": 0, "delta": {**said, "type": kind}, "event_type": "step.delta"}


def sse(*events: dict[str, Any]) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


A, B, C = KEY[:9], KEY[9:20], KEY[20:]
BODIES: dict[str, tuple[str, str]] = {
    "chat": ("chat", sse(chat(f"so: {A}"), chat(B), chat(f"{C}."))),
    "chat, the index behind the text": ("chat", sse(chat_late(f"so: {A}"), chat_late(B), chat_late(f"{C}."))),
    "two choices in turns": ("chat", sse(chat(A), chat_other("x"), chat(B), chat_other("y"), chat(f"{C}."))),
    "arguments": ("chat", sse(arguments(f'{{"a":"{A}'), arguments(B), arguments(f'{C}"}}'))),
    "responses": ("responses", sse(responses(A), responses(B), responses(C))),
    "anthropic": ("anthropic", sse(anthropic(A), anthropic(B), anthropic(C))),
    "gemini": ("gemini", sse(gemini(A), gemini(B), gemini(C))),
    "parts of one event": ("gemini", sse(gemini(A, B, C))),
    "later parts": ("gemini", sse(gemini("so", A), gemini(B, C))),
    "one part, then two": ("gemini", sse(gemini(A, B), gemini(C))),
    "parts between thoughts": ("gemini", sse(gemini(A), gemini("hm", thought=True), gemini(B), gemini(C))),
    "thoughts between parts": (
        "gemini", sse(gemini(A, thought=True), gemini("x"), gemini(B, thought=True), gemini(C, thought=True)),
    ),
    "interactions": ("interactions", sse(*(interactions("text", text=text) for text in (A, B, C)))),
    "interactions, thoughts": (
        "interactions",
        sse(*(interactions("thought_summary", content={"text": text, "type": "text"}) for text in (A, B, C))),
    ),
    "interactions, arguments": (
        "interactions",
        sse(*(interactions("arguments_delta", arguments=text) for text in (f'{{"a":"{A}', B, f'{C}"}}'))),
    ),
    "an array": ("gemini", json.dumps([gemini(A), gemini(B), gemini(C)])),
    "lines of JSON": ("chat", "\n".join(json.dumps(chat(text)) for text in (A, B, C))),
}  # fmt: skip


def lengths(body: str) -> Iterable[int]:
    """Where the body may end: whole, and at each byte after the last piece of the key."""
    return [len(body), *range(body.rindex(C) + len(C), len(body))]


async def recorded(folder: Path, adapter: str, body: str) -> str:
    upstream = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())
    )
    config: dict[str, Any] = {"base_url": "http://x.example/v1", "model": "m", "adapter": adapter, "max_retries": 0}
    async with httpx.AsyncClient(transport=RecordTransport(upstream, folder, name="one")) as client:
        with suppress(APIError):
            await Provider.from_config({**config, "api_key": KEY}, http_client=client).chat("Hi")
    return "".join(path.read_text("utf-8") for path in folder.rglob("*.sse"))


@pytest.mark.slow
@each_row("case", BODIES)
async def test_a_key_in_pieces_is_in_no_recording(case: str, tmp_path: Path) -> None:
    """However the events and their parts cut it, and wherever the answer breaks off behind it."""
    adapter, body = BODIES[case]
    for end in lengths(body):
        kept = await recorded(tmp_path / case.replace(" ", "-") / str(end), adapter, body[:end])
        joined = "".join(re.findall(r"[A-Za-z0-9]{9,}", kept.replace("response.output_text.delta", "")))
        assert not re.search(f"{A}.*{B}.*{C}", joined), end
        assert all(piece not in kept for piece in (A, B, C)), end
