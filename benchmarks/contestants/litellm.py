"""litellm as a library, without its proxy. Its chunks have the shape of OpenAI's, and the user puts them together."""

from __future__ import annotations

import litellm
from payloads import TOOLS

from . import KEY, MODEL, Answer, Ask, Fragments

PACKAGES = ("litellm", "openai")


def prepare(url: str, api: str, _: str | None) -> Ask:
    model = f"openai/{MODEL}"
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]

    async def chat() -> Answer:
        text, calls, chunks = [], Fragments(), 0
        messages = [{"role": "user", "content": "Hi"}]
        stream = await litellm.acompletion(
            model=model, messages=messages, tools=TOOLS, stream=True, api_base=url, api_key=KEY
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
        stream = await litellm.aresponses(model=model, input="Hi", tools=tools, stream=True, api_base=url, api_key=KEY)
        async for event in stream:
            chunks += 1
            match str(getattr(event.type, "value", event.type)):
                case "response.output_text.delta":
                    text.append(event.delta)
                case "response.function_call_arguments.delta":
                    calls.add(event.output_index, None, None, event.delta)
                case "response.output_item.added" if _is_call(event.item):
                    calls.begin(event.output_index, _member(event.item, "call_id"), _member(event.item, "name"))
        return "".join(text), calls.whole(), chunks

    return chat if api == "chat" else responses


def _member(item: object, name: str) -> str:
    return item[name] if isinstance(item, dict) else getattr(item, name)


def _is_call(item: object) -> bool:
    return _member(item, "type") == "function_call"
