"""Events of the Interactions API as they are recorded: `body(created(), *steps, completed())` is an answer."""

from __future__ import annotations

import json
from typing import Any

USAGE = {
    "total_tokens": 20, "total_input_tokens": 8, "total_cached_tokens": 0, "total_output_tokens": 7,
    "total_tool_use_tokens": 2, "total_thought_tokens": 3,
}  # fmt: skip
DONE = b"event: done\ndata: [DONE]\n\n"


def event(kind: str, **members: Any) -> bytes:
    payload = json.dumps({**members, "event_type": kind}, ensure_ascii=False)
    return f"event: {kind}\ndata: {payload}\n\n".encode("utf-8", "surrogatepass")


def created(**members: Any) -> bytes:
    about = {"id": "v1_a", "status": "in_progress", "object": "interaction", "model": "m"}
    return event("interaction.created", interaction=about, **members)


def completed(status: str | None = "completed", **members: Any) -> bytes:
    about = {"id": "v1_a", "object": "interaction", "model": "m", "usage": USAGE, **members}
    return event("interaction.completed", interaction=about if status is None else {**about, "status": status})


def start(index: int, kind: str, **members: Any) -> bytes:
    return event("step.start", index=index, step={**members, "type": kind})


def delta(index: int, kind: str, **members: Any) -> bytes:
    return event("step.delta", index=index, delta={**members, "type": kind})


def stop(index: int) -> bytes:
    return event("step.stop", index=index)


def output(index: int, *texts: str) -> bytes:
    """A step with text, in these pieces."""
    pieces = b"".join(delta(index, "text", text=text) for text in texts)
    return start(index, "model_output") + pieces + stop(index)


def call(index: int, id: str, name: str, *pieces: str) -> bytes:  # noqa: A002
    """A call, with its arguments in these pieces."""
    written = b"".join(delta(index, "arguments_delta", arguments=piece) for piece in pieces)
    return start(index, "function_call", id=id, name=name, arguments={}, signature="") + written + stop(index)


def failed(message: str = "Too late.", code: str = "gateway_timeout") -> bytes:
    return event("error", error={"message": message, "code": code})


def answer(*events: bytes, status: str | None = "completed", **members: Any) -> bytes:
    """A whole stream around these steps."""
    return created() + b"".join(events) + completed(status, **members) + DONE
