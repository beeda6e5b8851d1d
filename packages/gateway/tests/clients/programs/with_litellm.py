"""litellm as a client: its table of prices from its package, no reports to anybody."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from answering import RESULT, Heard, answer_all

litellm.telemetry = False


def ask(command: dict[str, Any], heard: Heard) -> None:
    # On the Responses API it asks for whole answers of models that it does not know, and cuts them up itself.
    known = {"litellm_provider": "openai", "mode": "chat", "supports_native_streaming": True}
    litellm.register_model({f"openai/{command['model']}": known, command["model"]: known})
    given: dict[str, Any] = {
        "model": f"openai/{command['model']}",
        "api_base": command["base_url"],
        "api_key": command["key"],
        "stream": True,
        "num_retries": 0,
        "max_retries": 0,
        **command["options"],
    }
    if command["api"] == "messages":
        given |= {"model": f"anthropic/{command['model']}", "api_base": command["base_url"] + "/messages"}
        if "max_tokens" not in command["options"]:
            thinking = {"type": "enabled", "budget_tokens": 2000}
            given |= {"thinking": thinking, "allowed_openai_params": ["thinking"], "max_tokens": 4000}
    (responses if command["api"] == "responses" else chat)(given, command, heard)


def chat(given: dict[str, Any], command: dict[str, Any], heard: Heard) -> None:
    messages: list[Any] = [{"role": "user", "content": command["prompt"]}]
    message = chat_once(given, messages, command, heard)
    heard.calls += [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls or ()]
    if command["loop"]:
        results = [{"role": "tool", "tool_call_id": call_id, "content": RESULT} for call_id, *_ in heard.calls]
        chat_once(given, [*messages, message.model_dump(), *results], command, heard)


def chat_once(given: dict[str, Any], messages: list[Any], command: dict[str, Any], heard: Heard) -> Any:
    chunks = []
    for chunk in litellm.completion(messages=messages, tools=command["tools"] or None, **given):
        chunks.append(chunk)
        for choice in chunk.choices:
            heard.text += [choice.delta.content] if choice.delta.content else []
            heard.reasoning.append(getattr(choice.delta, "reasoning_content", None) or "")
            heard.finish = choice.finish_reason or heard.finish
    whole: Any = litellm.stream_chunk_builder(chunks)
    return whole.choices[0].message


def responses(given: dict[str, Any], command: dict[str, Any], heard: Heard) -> None:
    history: list[Any] = [{"role": "user", "content": command["prompt"]}]
    response = responses_once(given, history, command, heard)
    calls = [item for item in response.output if item.type == "function_call"]
    heard.calls += [[item.call_id, item.name, item.arguments] for item in calls]
    if command["loop"]:
        history += [item.model_dump(exclude_none=True) for item in response.output]
        history += [{"type": "function_call_output", "call_id": item.call_id, "output": RESULT} for item in calls]
        responses_once(given, history, command, heard)


def responses_once(given: dict[str, Any], history: list[Any], command: dict[str, Any], heard: Heard) -> Any:
    tools = [{"type": "function", **tool["function"]} for tool in command["tools"]]
    last: Any = None
    for event in litellm.responses(input=history, tools=tools or None, **given):
        if event.type == "response.output_text.delta":
            heard.text.append(event.delta)
        elif event.type == "response.reasoning_summary_text.delta":
            heard.reasoning.append(event.delta)
        last = event
    if last is None or last.type not in ("response.completed", "response.incomplete"):
        raise RuntimeError(f"{getattr(last, 'type', 'nothing')}: {getattr(last, 'response', None)}")
    heard.finish = last.response.status
    return last.response


answer_all(ask, {name: version(name) for name in ("litellm", "openai")})
