"""OpenAI's own library: `create(stream=True)`, whose fragments the user puts together."""

from __future__ import annotations

from openai import AsyncOpenAI
from payloads import TOOLS

from . import KEY, MODEL, Answer, Ask, Fragments

PACKAGES = ("openai",)


def prepare(url: str, api: str, _: str | None) -> Ask:
    client = AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]

    async def chat() -> Answer:
        text, calls, chunks = [], Fragments(), 0
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Hi"}], tools=TOOLS, stream=True
        )
        async for chunk in stream:
            chunks += 1
            for choice in chunk.choices:
                if choice.delta.content:
                    text.append(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    calls.add(call.index, call.id, call.function.name, call.function.arguments)
        return "".join(text), calls.whole(), chunks

    async def responses() -> Answer:
        text, calls, chunks = [], Fragments(), 0
        async for event in await client.responses.create(model=MODEL, input="Hi", tools=tools, stream=True):
            chunks += 1
            match event.type:
                case "response.output_text.delta":
                    text.append(event.delta)
                case "response.function_call_arguments.delta":
                    calls.add(event.output_index, None, None, event.delta)
                case "response.output_item.added" if event.item.type == "function_call":
                    calls.begin(event.output_index, event.item.call_id, event.item.name)
        return "".join(text), calls.whole(), chunks

    return chat if api == "chat" else responses
