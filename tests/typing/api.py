"""How a user's code is meant to check. This file is read by mypy in strict mode and never run."""

from __future__ import annotations

from typing import Any, assert_type

import httpx
from pydantic import BaseModel

from streamfold import (
    APIError,
    ChatStream,
    FinishReason,
    Limits,
    Message,
    NamedTool,
    Provider,
    Reply,
    StreamChunk,
    StreamDecoder,
    Timeouts,
    Tool,
    ToolCall,
    ToolChoice,
    Usage,
    assistant,
    system,
    tool,
    tool_result,
    user,
)


class Weather(BaseModel):
    """The weather in a city."""

    city: str


def get_time(zone: str) -> str:
    return zone


async def stream(provider: Provider) -> None:
    chat = provider.chat_stream(
        "Hello", [Tool.from_model(Weather), tool(get_time)], tool_choice=NamedTool("Weather"), temperature=0.5
    )
    assert_type(chat, ChatStream)
    async with chat as stream:
        async for chunk in stream:
            assert_type(chunk, StreamChunk)
            assert_type(chunk.delta, str)
            assert_type(chunk.finish_reason, FinishReason | None)
            assert_type(chunk.usage, Usage | None)
            for call in chunk.tool_calls or ():
                assert_type(call, ToolCall)
                assert_type(call.arguments, dict[str, Any])
                assert_type(call.parse_as(Weather), Weather)
        assert_type(stream.reply, Reply)


async def converse() -> None:
    async with Provider.from_config("kimi:kimi-k2.6", timeouts=Timeouts(read=5), limits=Limits()) as provider:
        assert_type(provider, Provider)
        history: list[Message] = [system("Be brief."), user("Hello"), assistant("Hi.")]
        try:
            reply = await provider.chat(history, tools=[{"type": "function", "function": {"name": "f"}}])
        except APIError as error:
            assert_type(error.partial, Reply | None)
            assert_type(error.retryable, bool)
            return
        history += [reply.message, *(tool_result(call, {"ok": True}) for call in reply.tool_calls)]


def configure(client: httpx.AsyncClient, choice: ToolChoice) -> Provider:
    provider = Provider.from_config(
        {"adapter": "chat", "base_url": "http://127.0.0.1/v1"}, http_client=client, model="m"
    )
    provider.chat_stream([{"role": "user", "content": "Hello"}], tool_choice=choice)
    return provider


def decode(body: bytes) -> list[StreamChunk]:
    decoder = StreamDecoder("chat")
    return decoder.feed(body) + decoder.close()
