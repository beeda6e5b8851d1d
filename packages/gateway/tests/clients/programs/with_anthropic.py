"""Anthropic's own client for Python, and its accumulator."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import anthropic
from answering import RESULT, Heard, answer_all, in_anthropics_words


def ask(command: dict[str, Any], heard: Heard) -> None:
    client = anthropic.Anthropic(
        base_url=command["base_url"].removesuffix("/v1"), api_key=command["key"], max_retries=0
    )
    history: list[Any] = [{"role": "user", "content": command["prompt"]}]
    message = streamed(client, command, history, heard)
    calls = [block for block in message.content if block.type == "tool_use"]
    heard.calls += [[block.id, block.name, json.dumps(block.input, ensure_ascii=False)] for block in calls]
    if command["loop"]:
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": RESULT} for block in calls]
        history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        streamed(client, command, history, heard)


def streamed(client: Any, command: dict[str, Any], history: list[Any], heard: Heard) -> Any:
    with client.messages.stream(model=command["model"], messages=history, **in_anthropics_words(command)) as stream:
        for event in stream:
            if event.type == "text":
                heard.text.append(event.text)
            elif event.type == "thinking":
                heard.reasoning.append(event.thinking)
        message = stream.get_final_message()
    heard.finish = message.stop_reason
    return message


answer_all(ask, {name: version(name) for name in ("anthropic",)})
