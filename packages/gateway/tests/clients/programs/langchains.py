"""What the programs with LangChain share: a conversation with a model, and the sum of its chunks."""

from __future__ import annotations

import json
from typing import Any

from answering import RESULT, Heard
from langchain_core.messages import HumanMessage, ToolMessage

__all__ = ["converse"]


def converse(model: Any, command: dict[str, Any], options: dict[str, Any], heard: Heard) -> None:
    """Asks, and with `loop` answers the calls and asks once more."""
    history: list[Any] = [HumanMessage(command["prompt"])]
    whole = streamed(model, history, options, heard)
    if command["loop"]:
        results = [ToolMessage(RESULT, tool_call_id=call["id"]) for call in whole.tool_calls]
        streamed(model, [*history, whole, *results], options, heard)
    # It parses the arguments; what it could not parse is kept apart, with its text.
    heard.calls += [
        [call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False)] for call in whole.tool_calls
    ]
    heard.calls += [[call["id"], call["name"], call["args"]] for call in whole.invalid_tool_calls]
    told = whole.response_metadata
    heard.finish = told.get("finish_reason") or told.get("status") or told.get("stop_reason")


def streamed(model: Any, history: list[Any], options: dict[str, Any], heard: Heard) -> Any:
    """An answer, put together as its chunks are added."""
    whole: Any = None
    for chunk in model.stream(history, **options):
        if chunk.text:
            heard.text.append(chunk.text)
        heard.reasoning += [
            block.get("reasoning", "") for block in chunk.content_blocks if block["type"] == "reasoning"
        ]
        whole = chunk if whole is None else whole + chunk
    return whole
