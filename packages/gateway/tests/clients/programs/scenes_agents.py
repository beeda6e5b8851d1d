"""The scenes by openai-agents."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

import openai
from answering import Heard, answer_all
from scenes_tools import City, tools

import agents

agents.set_tracing_disabled(True)


async def answer(command: dict[str, Any], heard: Heard) -> None:
    async with openai.AsyncOpenAI(
        base_url=command["base_url"] + "/v1", api_key=command["key"], max_retries=0
    ) as client:
        chat = command["api"] == "chat"
        kind = agents.OpenAIChatCompletionsModel if chat else agents.OpenAIResponsesModel
        agent = agents.Agent(
            name="assistant",
            model=kind(command["model"], client),
            model_settings=agents.ModelSettings(include_usage=True),
            tools=[agents.function_tool(tool) for tool in tools(heard)] if command["task"] == "tools" else [],
            output_type=City if command["task"] == "object" else None,
        )
        if command["stream"]:
            result: Any = agents.Runner.run_streamed(agent, command["prompt"])
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    heard.text.append(event.data.delta)
        else:
            result = await agents.Runner.run(agent, command["prompt"])
        texts = [item for item in result.new_items if item.type == "message_output_item"]
        if command["task"] == "object":
            heard.text[:] = [result.final_output.model_dump_json()]
        elif not command["stream"]:
            heard.text += [agents.ItemHelpers.text_message_output(item) for item in texts]
        for item in result.new_items:
            if item.type == "reasoning_item":
                heard.reasoning += [part.text for part in item.raw_item.summary]
        usage = result.context_wrapper.usage
        heard.usage = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "total": usage.total_tokens,
            "cached": usage.input_tokens_details.cached_tokens,
            "reasoning": usage.output_tokens_details.reasoning_tokens,
        }


def ask(command: dict[str, Any], heard: Heard) -> None:
    asyncio.run(answer(command, heard))


answer_all(ask, {name: version(name) for name in ("openai-agents", "openai")})
