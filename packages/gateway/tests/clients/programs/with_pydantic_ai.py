"""pydantic-ai's model for Anthropic's API, asked directly, without an agent."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import anyio
from answering import RESULT, Heard, answer_all, in_anthropics_words
from anthropic import AsyncAnthropic
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.tools import ToolDefinition


def ask(command: dict[str, Any], heard: Heard) -> None:
    anyio.run(answer, command, heard)


async def answer(command: dict[str, Any], heard: Heard) -> None:
    said = in_anthropics_words(command)
    base_url = command["base_url"].removesuffix("/v1")
    async with AsyncAnthropic(base_url=base_url, api_key=command["key"], max_retries=0) as client:
        model = AnthropicModel(command["model"], provider=AnthropicProvider(anthropic_client=client))
        settings = {"max_tokens": said["max_tokens"], "anthropic_thinking": said.get("thinking")}
        tools = [
            ToolDefinition(
                name=tool["name"], parameters_json_schema=tool["input_schema"], description=tool["description"]
            )
            for tool in said.get("tools", ())
        ]
        parameters = ModelRequestParameters(function_tools=tools, allow_text_output="tool_choice" not in said)
        history: list[Any] = [ModelRequest.user_text_prompt(command["prompt"])]
        response = await streamed(model, history, settings, parameters, heard)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        heard.calls += [
            [part.tool_call_id, part.tool_name, json.dumps(part.args_as_dict(), ensure_ascii=False)] for part in calls
        ]
        if command["loop"]:
            results = [ToolReturnPart(part.tool_name, RESULT, part.tool_call_id) for part in calls]
            await streamed(model, [*history, response, ModelRequest(results)], settings, parameters, heard)


async def streamed(model: Any, history: list[Any], settings: Any, parameters: Any, heard: Heard) -> Any:
    async with model_request_stream(
        model, history, model_settings=settings, model_request_parameters=parameters
    ) as stream:
        async for event in stream:
            match event:
                case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(text)) if text:
                    heard.text.append(text)
                case PartStartEvent(part=ThinkingPart(content=text)) if text:
                    heard.reasoning.append(text)
                case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                    heard.reasoning.append(text)
    response = stream.get()
    heard.finish = response.finish_reason
    return response


answer_all(ask, {name: version(name) for name in ("pydantic-ai-slim", "anthropic")})
