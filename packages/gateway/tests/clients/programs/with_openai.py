"""OpenAI's own client for Python, and its accumulators."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import openai
from answering import Heard, answer_all


def ask(command: dict[str, Any], heard: Heard) -> None:
    client = openai.OpenAI(base_url=command["base_url"], api_key=command["key"], max_retries=0)
    (chat if command["api"] == "chat" else responses)(client, command, heard)


def chat(client: Any, command: dict[str, Any], heard: Heard) -> None:
    messages = [{"role": "user", "content": command["prompt"]}]
    tools = {"tools": command["tools"]} if command["tools"] else {}
    with client.chat.completions.stream(
        model=command["model"], messages=messages, **tools, **command["options"]
    ) as stream:
        for event in stream:
            if event.type == "content.delta":
                heard.text.append(event.delta)
            elif event.type == "chunk":
                for choice in event.chunk.choices:
                    heard.reasoning.append(getattr(choice.delta, "reasoning_content", None) or "")
        choice = stream.get_final_completion().choices[0]
    assert (choice.message.content or "") == "".join(heard.text)
    heard.calls += [[call.id, call.function.name, call.function.arguments] for call in choice.message.tool_calls or ()]
    heard.finish = choice.finish_reason


def responses(client: Any, command: dict[str, Any], heard: Heard) -> None:
    tools = [{"type": "function", **tool["function"]} for tool in command["tools"]]
    last = None
    with client.responses.stream(
        model=command["model"], input=command["prompt"], **({"tools": tools} if tools else {}), **command["options"]
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                heard.text.append(event.delta)
            elif event.type == "response.reasoning_summary_text.delta":
                heard.reasoning.append(event.delta)
            last = event
    if last is None or last.type not in ("response.completed", "response.incomplete"):
        failed = getattr(getattr(last, "response", None), "error", None)
        raise RuntimeError(f"{getattr(last, 'type', 'nothing')}: {failed and failed.message}")
    heard.calls += [
        [item.call_id, item.name, item.arguments] for item in last.response.output if item.type == "function_call"
    ]
    heard.finish = last.response.status


answer_all(ask, {name: version(name) for name in ("openai",)})
