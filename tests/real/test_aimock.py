"""aimock: exact answers on four APIs, and failures on demand."""

from __future__ import annotations

from typing import Any

import pytest

from streamfold import (
    APIError,
    AuthenticationError,
    IncompleteStreamError,
    ProtocolError,
    Provider,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    Tool,
)
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

TIME = Tool("get_time", "The time.", {"type": "object", "properties": {"zone": {"type": "string"}}})


@pytest.fixture(params=["chat", "responses", "anthropic", "gemini"])
def config(request: pytest.FixtureRequest, aimock: str) -> dict[str, Any]:
    """The server as a provider, on each API."""
    base_url = f"{aimock}beta" if request.param == "gemini" else aimock
    return {"adapter": request.param, "base_url": base_url, "model": "o3-mini", "max_retries": 0, "api_key": "unused"}


async def test_characters_that_are_cut(config: dict[str, Any]) -> None:
    """Every character arrives, although the server cuts some of them in two."""
    async with Provider.from_config(config) as provider, provider.chat_stream("unicode") as stream:
        deltas = [chunk.delta async for chunk in stream]
    assert "".join(deltas) == stream.reply.text == "Grüße, 世界! 👋🏽 ½ π, 日本語 🇫🇷"


async def test_parallel_calls(config: dict[str, Any]) -> None:
    """Both calls, whole, on the last chunk alone."""
    async with Provider.from_config(config) as provider, provider.chat_stream("two calls", [TIME]) as stream:
        chunks = [chunk async for chunk in stream]
    assert [chunk for chunk in chunks if chunk.tool_calls] == chunks[-1:]
    assert [call.arguments for call in chunks[-1].tool_calls or ()] == [{"zone": "utc"}, {"zone": "local — 現地"}]


async def test_reasoning_text_and_call(config: dict[str, Any]) -> None:
    """Each in its own place."""
    async with Provider.from_config(config) as provider:
        reply = await provider.chat("think and call", [TIME])
    assert (reply.reasoning, reply.text) == ("The time is asked for.", "One moment.")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("get_time", {})]
    # On Gemini's API it ends with a word that Google does not have; the arguments, an empty object, came whole.
    doubts = ["unknown_finish_reason"] if config["adapter"] == "gemini" else []
    assert [warning.code for warning in reply.warnings] == doubts


async def test_no_money(config: dict[str, Any]) -> None:
    """An empty account is no matter of trying again, whatever its status."""
    if config["adapter"] == "gemini":
        pytest.skip("on this API it says so in no word of Google's")
    async with Provider.from_config(config, max_retries=5) as provider:
        with pytest.raises(QuotaExceededError, match="pay first") as caught:
            await provider.chat("no money")
    assert caught.value.attempts == ()


@each_row(
    ("question", "kind", "status", "message", "retryable", "after"),
    [
        ("no key", AuthenticationError, 401, "no such key", False, None),
        ("too fast", RateLimitError, 429, "slower", True, 3),
        ("broken", ServerError, 500, "oh no", True, None),
        ("busy", ServerError, 503, "full", True, None),
    ],
)
async def test_statuses(
    config: dict[str, Any], question: str, kind: type, status: int, message: str, retryable: bool, after: float | None
) -> None:
    """Each is its error, with the server's words and its retry-after."""
    async with Provider.from_config(config) as provider:
        with pytest.raises(kind, match=message) as caught:
            await provider.chat(question)
    error = caught.value
    assert (error.status_code, error.retryable, error.retry_after) == (status, retryable, after)


async def test_cut_off(config: dict[str, Any]) -> None:
    """A call that is cut off is never a call."""
    if config["adapter"] == "gemini":
        pytest.skip("a call comes in one event here")
    async with Provider.from_config(config) as provider:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("cut off", [TIME])
    assert caught.value.partial is not None
    assert caught.value.partial.tool_calls == []


async def test_hanging_up(config: dict[str, Any]) -> None:
    """What had come is in the error."""
    async with Provider.from_config(config) as provider:
        with pytest.raises(IncompleteStreamError) as caught:
            await provider.chat("hang up")
    assert caught.value.partial is not None
    assert "This answer stops when the server hangs up.".startswith(caught.value.partial.text)


async def test_malformed(config: dict[str, Any]) -> None:
    """A body that is no answer is an error of ours."""
    async with Provider.from_config(config) as provider:
        with pytest.raises(APIError) as caught:
            await provider.chat("malformed")
    assert isinstance(caught.value, ProtocolError | IncompleteStreamError)


async def test_length(config: dict[str, Any]) -> None:
    """The limit of tokens is told, on either API."""
    async with Provider.from_config(config) as provider:
        assert (await provider.chat("too long")).finish_reason == "length"


async def test_leaving(config: dict[str, Any]) -> None:
    """Leaving in the middle is quiet, and the next answer comes."""
    async with Provider.from_config(config) as provider:
        async with provider.chat_stream("slowly") as stream:
            await anext(stream)
        assert (await provider.chat("anything")).text == "I have no answer to that."
