"""Google's client, google-genai, on the Interactions API; the steps of a turn are kept by this program."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from answering import RESULT, Heard, answer_all
from google import genai
from google.genai import types


def ask(command: dict[str, Any], heard: Heard) -> None:
    base_url = command["base_url"].removesuffix("/v1")
    options = types.HttpOptions(base_url=base_url, retry_options=types.HttpRetryOptions(attempts=1))
    with genai.Client(api_key=command["key"], http_options=options) as client:
        question = {"type": "user_input", "content": [{"type": "text", "text": command["prompt"]}]}
        steps = streamed(client, command, [question], heard)
        calls = [step for step in steps if step["type"] == "function_call"]
        heard.calls += [[step["id"], step["name"], step["text"]] for step in calls]
        if command["loop"]:
            turn = [written(step) for step in steps if step["type"] in ("model_output", "function_call")]
            results = [
                {"type": "function_result", "call_id": step["id"], "name": step["name"], "result": RESULT}
                for step in calls
            ]
            streamed(client, command, [question, *turn, *results], heard)


def written(step: dict[str, Any]) -> dict[str, Any]:
    if step["type"] == "model_output":
        return {"type": "model_output", "content": [{"type": "text", "text": step["text"]}]}
    arguments = json.loads(step["text"] or "{}")
    return {"type": "function_call", "id": step["id"], "name": step["name"], "arguments": arguments}


def streamed(client: genai.Client, command: dict[str, Any], said: list[Any], heard: Heard) -> list[dict[str, Any]]:
    options, functions = command["options"], [tool["function"] for tool in command["tools"]]
    config: dict[str, Any] = {"thinking_summaries": "auto"}
    if "max_tokens" in options:
        config["max_output_tokens"] = options["max_tokens"]
    if options.get("tool_choice") == "required":
        config["tool_choice"] = "any"
    tools = {"tools": [{"type": "function", **function} for function in functions]} if functions else {}
    steps: dict[int, dict[str, Any]] = {}
    heard.finish = None
    stream: Any = client.interactions.create(
        model=command["model"], input=said, store=False, stream=True, generation_config=config, **tools
    )
    for event in stream:
        match event.event_type:
            case "step.start":
                steps[event.index] = {**event.step.model_dump(include={"type", "id", "name"}), "text": ""}
            case "step.delta" if event.delta.type == "text":
                steps[event.index]["text"] += event.delta.text
                heard.text.append(event.delta.text)
            case "step.delta" if event.delta.type == "thought_summary":
                heard.reasoning.append(event.delta.content.text)
            case "step.delta" if event.delta.type == "arguments_delta":
                steps[event.index]["text"] += event.delta.arguments
            case "error":
                raise RuntimeError(event.error.message)
            case "interaction.completed":
                heard.finish = event.interaction.status
    if heard.finish is None:
        raise RuntimeError("the stream ended before the interaction")
    return [steps[index] for index in sorted(steps)]


answer_all(ask, {"google-genai": version("google-genai")})
