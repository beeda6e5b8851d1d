"""What the programs share: commands come as JSON lines, and each is answered with one line that says what was read.

    {"base_url": ..., "key": ..., "wire": "chat", "model": ..., "prompt": ..., "tools": [...], "options": {...},
     "loop": false}
    {"text": ..., "pieces": n, "reasoning": ..., "calls": [[id, name, arguments]], "finish": ..., "usage": ...,
     "error": null}

With `loop`, calls are answered with RESULT, and the model is asked once more: the text is that of both answers. An
error is its class, its status if it has one, and its words. What was read before it is in the answer too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["RESULT", "Heard", "answer_all", "in_anthropics_words"]

RESULT = "18 degrees"


def in_anthropics_words(command: dict[str, Any]) -> dict[str, Any]:
    """Tools and options as the Messages API has them. Thinking is asked for where the answer has room for it."""
    options, tools = command["options"], [tool["function"] for tool in command["tools"]]
    said: dict[str, Any] = {"max_tokens": options.get("max_tokens", 4000)}
    if "max_tokens" not in options:
        said["thinking"] = {"type": "enabled", "budget_tokens": 2000}
    if tools:
        said["tools"] = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in tools
        ]
    if options.get("tool_choice") == "required":
        said["tool_choice"] = {"type": "any"}
    return said


class Heard:
    """What a client has read of an answer so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[list[Any]] = []
        self.finish: str | None = None
        self.usage: Any = None

    def told(self, error: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "text": "".join(self.text),
            "pieces": len(self.text),
            "reasoning": "".join(self.reasoning),
            "calls": self.calls,
            "finish": self.finish,
            "usage": self.usage,
            "error": error,
        }


def answer_all(ask: Callable[[dict[str, Any], Heard], None], versions: dict[str, str]) -> None:
    """Answers commands until there are no more."""
    out = os.fdopen(os.dup(1), "w")  # what a library prints must not get between the answers
    os.dup2(2, 1)
    out.write(json.dumps(versions) + "\n")
    out.flush()
    for line in sys.stdin:
        heard, error = Heard(), None
        try:
            ask(json.loads(line), heard)
        except Exception as exc:  # whatever a client raises is its answer
            error = {
                "type": type(exc).__name__,
                "status": getattr(exc, "status_code", None),
                "message": str(exc),
            }
        out.write(json.dumps(heard.told(error)) + "\n")
        out.flush()
