"""The scenes by AutoGen: its model client for texts and formats, its agent for tools."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from answering import Heard, answer_all
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage, ThoughtEvent
from autogen_core.models import CreateResult, UserMessage
from autogen_ext.models.anthropic import AnthropicChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient
from scenes_tools import City, tools

INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


def client(command: dict[str, Any]) -> Any:
    kind, path = (
        (OpenAIChatCompletionClient, "/v1") if command["api"] == "chat" else (AnthropicChatCompletionClient, "")
    )
    settings: dict[str, Any] = {"api_key": command["key"], "base_url": command["base_url"] + path, "max_retries": 0}
    if command["api"] == "messages" and command["task"] != "object":
        settings |= {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    return kind(model=command["model"], model_info={**INFO, "multiple_system_messages": True}, **settings)


async def create(model: Any, command: dict[str, Any], heard: Heard) -> None:
    options: dict[str, Any] = {"json_output": City} if command["task"] == "object" else {}
    messages = [UserMessage(content=command["prompt"], source="user")]
    if command["stream"]:
        if command["api"] == "chat":
            options["include_usage"] = True
        result = [each async for each in model.create_stream(messages, **options)][-1]
    else:
        result = await model.create(messages, **options)
    assert isinstance(result, CreateResult)
    heard.text.append(result.content)
    heard.reasoning.append(result.thought or "")
    heard.finish, heard.usage = result.finish_reason, asdict(result.usage)


async def run(model: Any, command: dict[str, Any], heard: Heard) -> None:
    agent = AssistantAgent(
        "assistant",
        model,
        tools=tools(heard),
        reflect_on_tool_use=True,
        model_client_stream=command["stream"],
    )
    async for event in agent.run_stream(task=command["prompt"]):
        answered = isinstance(event, TextMessage) and event.source == "assistant" and not command["stream"]
        if answered or isinstance(event, ModelClientStreamingChunkEvent):
            heard.text.append(event.content)
        elif isinstance(event, ThoughtEvent):
            heard.reasoning.append(event.content)
        elif isinstance(event, TaskResult):
            heard.usage = [asdict(message.models_usage) for message in event.messages if message.models_usage]


async def answer(command: dict[str, Any], heard: Heard) -> None:
    model = client(command)
    try:
        await (run if command["task"] == "tools" else create)(model, command, heard)
    finally:
        await model.close()


def ask(command: dict[str, Any], heard: Heard) -> None:
    asyncio.run(answer(command, heard))


answer_all(ask, {name: version(name) for name in ("autogen-ext", "autogen-agentchat", "openai", "anthropic")})
