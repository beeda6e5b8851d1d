"""streamfold as it is installed: over httpx."""

from __future__ import annotations

from payloads import TOOLS

from streamfold import Provider

from . import KEY, MODEL, Answer, Ask

PACKAGES = ("httpx", "pydantic")


def prepare(url: str, api: str, dialect: str | None, **config: str) -> Ask:
    provider = Provider.from_config(
        {"adapter": api, "base_url": url, "model": MODEL, "api_key": KEY, "dialect": dialect, **config}
    )

    async def ask() -> Answer:
        text, chunks = [], 0
        async for chunk in provider.chat_stream("Hi", TOOLS):
            chunks += 1
            text.append(chunk.delta)
        return "".join(text), [(call.id, call.name, call.arguments) for call in chunk.tool_calls or ()], chunks

    return ask
