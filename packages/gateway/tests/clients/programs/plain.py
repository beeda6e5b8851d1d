"""The two APIs read by hand, for clients that know server-sent events and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from answering import Heard

__all__ = ["PATHS", "Refused", "body", "read"]

PATHS = {"chat": "/chat/completions", "responses": "/responses"}


class Refused(Exception):
    """The server said no, or that it failed."""

    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code


def body(command: dict[str, Any]) -> dict[str, Any]:
    """The request."""
    said: dict[str, Any] = {"messages": [{"role": "user", "content": command["prompt"]}], "tools": command["tools"]}
    if command["api"] == "responses":
        tools = [{"type": "function", **tool["function"]} for tool in command["tools"]]
        said = {"input": command["prompt"], "tools": tools}
    if not command["tools"]:
        del said["tools"]
    return {"model": command["model"], "stream": True, **said, **command["options"]}


def read(api: str, events: Iterable[str], heard: Heard) -> None:
    """Reads the data of events. Calls are handed out at the end of the answer: they come in pieces.

    Raises Refused for an error event, and EOFError where the answer has no end.
    """
    calls: list[list[Any]] = []
    if not any((_chat if api == "chat" else _responses)(data, heard, calls) for data in events):
        raise EOFError("the stream ended without its end")
    heard.calls += calls


def _chat(data: str, heard: Heard, calls: list[list[Any]]) -> bool:
    if data == "[DONE]":
        return True
    chunk = json.loads(data)
    if "error" in chunk:
        raise Refused(chunk["error"]["message"], chunk["error"].get("status"))
    for choice in chunk["choices"]:
        delta = choice["delta"]
        heard.text += [delta["content"]] if delta.get("content") else []
        heard.reasoning.append(delta.get("reasoning_content") or "")
        for entry in delta.get("tool_calls", ()):
            if "id" in entry:
                calls.append([entry["id"], entry["function"]["name"], ""])
            calls[entry["index"]][2] += entry["function"]["arguments"]
        heard.finish = choice["finish_reason"] or heard.finish
    return False


def _responses(data: str, heard: Heard, calls: list[list[Any]]) -> bool:
    event = json.loads(data)
    match event["type"].removeprefix("response."):
        case "output_text.delta":
            heard.text.append(event["delta"])
        case "reasoning_summary_text.delta":
            heard.reasoning.append(event["delta"])
        case "output_item.done" if event["item"]["type"] == "function_call":
            item = event["item"]
            calls.append([item["call_id"], item["name"], item["arguments"]])
        case "failed":
            error = event["response"]["error"]
            raise Refused(error["message"], error.get("status"))
        case "completed" | "incomplete" as status:
            heard.finish = status
            return True
    return False
