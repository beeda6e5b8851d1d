"""llama.cpp's own server: text, calls that its grammar makes, errors, and what it does when the client leaves."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from streamfold import BadRequestError, Provider, Tool
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

TIME = Tool(
    "get_time",
    "The time in a zone.",
    {
        "type": "object",
        "properties": {"zone": {"type": "string", "enum": ["utc", "local"]}},
        "required": ["zone"],
        "additionalProperties": False,
    },
)
DATE = Tool("get_date", "Today.", {"type": "object", "properties": {}, "additionalProperties": False})


@pytest.fixture(params=["chat", "responses", "anthropic"])
def config(request: pytest.FixtureRequest, llamacpp: str) -> dict[str, Any]:
    """The server as a provider, on each API."""
    return {"adapter": request.param, "base_url": llamacpp, "model": "tiny"}


async def test_text(config: dict[str, Any]) -> None:
    """Chunks, and the same text in the reply, with usage and a finish reason; a connection that is closed is no error.

    The server announces keep-alive and hangs up after each answer.
    """
    async with Provider.from_config(config) as provider:
        for _ in range(3):
            async with provider.chat_stream("hello", max_output_tokens=40) as stream:
                deltas = [chunk.delta async for chunk in stream]
            assert "".join(deltas) == stream.reply.text
            assert stream.reply.finish_reason in ("stop", "length")
            assert stream.reply.usage is not None


@each_row("tools", [[TIME], [DATE], [TIME, DATE]], ids=["one", "empty", "two"])
async def test_a_call(config: dict[str, Any], tools: list[Tool]) -> None:
    """A demanded call comes whole, however the server cut it, with arguments that fit the schema."""
    async with Provider.from_config(config) as provider:
        reply = await provider.chat("what time is it?", tools, tool_choice="required", max_output_tokens=1500)
    (call, *_) = reply.tool_calls
    assert call.error is None
    assert call.arguments in ([{"zone": "utc"}, {"zone": "local"}] if call.name == "get_time" else [{}])
    assert call.id
    assert reply.finish_reason == "tool_calls"


async def test_a_conversation_goes_back(config: dict[str, Any]) -> None:
    """The turn with the call, and its result, are taken by the server's own template."""
    from streamfold import tool_result, user

    async with Provider.from_config(config) as provider:
        history = [user("what time is it?")]
        reply = await provider.chat(history, [TIME], tool_choice="required", max_output_tokens=1500)
        history += [reply.message, *(tool_result(call, {"time": "noon"}) for call in reply.tool_calls)]
        assert (await provider.chat(history, [TIME], tool_choice="none", max_output_tokens=20)).tool_calls == []


async def test_too_long(config: dict[str, Any]) -> None:
    """The server's own words about a prompt that does not fit."""
    async with Provider.from_config(config, max_retries=0) as provider:
        with pytest.raises(BadRequestError, match="context") as caught:
            await provider.chat("word " * 5000)
    assert caught.value.status_code == 400


async def test_leaving_ends_the_work(config: dict[str, Any], llamacpp: str) -> None:
    """Who leaves in the middle stops the server from generating."""
    body = {"logit_bias": [[2, False]]} if config["adapter"] == "chat" else {}  # it never stops by itself
    async with Provider.from_config(config) as provider:
        async with provider.chat_stream("hello", extra_body=body) as stream:
            await anext(stream)
        async with httpx.AsyncClient(trust_env=False) as client:
            with anyio.fail_after(30):
                while True:
                    slots = (await client.get(llamacpp.removesuffix("/v1") + "/slots")).json()
                    if not any(slot["is_processing"] for slot in slots):
                        break
                    await anyio.sleep(0.05)
