"""Anthropic's own library: `create(stream=True)`, whose fragments the user puts together."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from payloads import TOOLS

from . import KEY, MODEL, Answer, Ask, Fragments

PACKAGES = ("anthropic",)


def prepare(url: str, api: str, _: str | None) -> Ask:
    client = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key=KEY, max_retries=0)
    functions = [tool["function"] for tool in TOOLS]
    tools = [
        {"name": found["name"], "description": found["description"], "input_schema": found["parameters"]}
        for found in functions
    ]

    async def ask() -> Answer:
        text, calls, chunks = [], Fragments(), 0
        messages = [{"role": "user", "content": "Hi"}]
        stream = await client.messages.create(model=MODEL, max_tokens=4096, messages=messages, tools=tools, stream=True)
        async for event in stream:
            chunks += 1
            match event.type:
                case "content_block_delta" if event.delta.type == "text_delta":
                    text.append(event.delta.text)
                case "content_block_delta" if event.delta.type == "input_json_delta":
                    calls.add(event.index, None, None, event.delta.partial_json)
                case "content_block_start" if event.content_block.type == "tool_use":
                    calls.begin(event.index, event.content_block.id, event.content_block.name)
        return "".join(text), calls.whole(), chunks

    return ask
