"""langchain-openai. Chunks are read one by one, which is far cheaper than adding them up as its tutorials do."""

from __future__ import annotations

from langchain_openai import ChatOpenAI
from payloads import TOOLS

from . import KEY, MODEL, Answer, Ask, Fragments

PACKAGES = ("langchain-openai", "openai")


def prepare(url: str, api: str, _: str | None) -> Ask:
    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY, max_retries=0, use_responses_api=api == "responses")
    bound = model.bind_tools(TOOLS)

    async def ask() -> Answer:
        text, calls, chunks = [], Fragments(), 0
        async for chunk in bound.astream("Hi"):
            chunks += 1
            text.append(chunk.text)
            for call in chunk.tool_call_chunks:
                calls.add(call["index"], call["id"], call["name"], call["args"])
        return "".join(text), calls.whole(), chunks

    return ask
