"""LiteLLM's proxy: what it makes of the answers of llama.cpp, and of those of a server of ours."""

from __future__ import annotations

import json
import os
from typing import Any

import anyio
import pytest
from litellm_proxy import KEY, LiteLLM

from folding import DONE, call, chunk, entry, event, fin, text
from servers import END, STREAM, Connection, answer, framed, sends, sends_each, serving
from streamfold import (
    APIConnectionError,
    APIStatusError,
    AuthenticationError,
    ModelNotFoundError,
    Provider,
    RateLimitError,
    ServerError,
    Tool,
    UpstreamError,
    tool_result,
    user,
)

if not os.environ.get("STREAMFOLD_LITELLM"):
    pytest.skip("LiteLLM is not there: nox -s servers", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

F = Tool(
    "f",
    "The time in a zone.",
    {
        "type": "object",
        "properties": {"zone": {"type": "string", "enum": ["utc", "local"]}},
        "required": ["zone"],
        "additionalProperties": False,
    },
)
ROLE = chunk({"role": "assistant", "content": None})
CALLS = [
    call(entry(0, "functions.f:0", "f", '{"zone"', type="function")),
    call(entry(1, "functions.f:1", "f", '{"zone":"lo', type="function")),
    call(entry(0, arguments=':"utc"}')),
    call(entry(1, arguments='cal"}')),
]
USAGE = event({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


@pytest.fixture(params=["chat", "responses", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def provider(litellm: LiteLLM, api: str, model: str, **rest: Any) -> Provider:
    base = {"adapter": api, "base_url": litellm.base_url, "model": model, "api_key": KEY, "max_retries": 0}
    return Provider.from_config({**base, **rest})


@pytest.mark.parametrize("model", ["tiny", "tiny-bridge", "tiny-messages"])
async def test_llamacpp_behind_it(litellm: LiteLLM, api: str, model: str) -> None:
    """Text and usage, a demanded call whole, and the turn with the call taken back; on three APIs to the server."""
    async with provider(litellm, api, model) as tiny:
        async with tiny.chat_stream("hello", max_output_tokens=40) as stream:
            deltas = [chunk.delta async for chunk in stream]
        assert "".join(deltas) == stream.reply.text != ""
        assert stream.reply.finish_reason in ("stop", "length")
        assert stream.reply.usage is not None
        assert stream.reply.usage.output_tokens
        history = [user("what time is it?")]
        reply = await tiny.chat(history, [F], tool_choice="required", max_output_tokens=1500)
        assert reply.finish_reason == "tool_calls"
        assert all(call.arguments in ({"zone": "utc"}, {"zone": "local"}) for call in reply.tool_calls)
        assert reply.tool_calls
        history += [reply.message, *(tool_result(call, "noon") for call in reply.tool_calls)]
        assert (await tiny.chat(history, [F], tool_choice="none", max_output_tokens=20)).tool_calls == []


async def test_mixed_calls(litellm: LiteLLM, api: str) -> None:
    """Calls whose fragments come mixed stay apart, with their ids; the usage comes in a chunk with an empty choice."""
    script = sends(STREAM, framed(ROLE, text("Grüße"), *CALLS, fin("tool_calls"), USAGE, DONE), END)
    async with serving(script, litellm.upstream), provider(litellm, api, "scripted-bridge") as bridge:
        reply = await bridge.chat("Hello", [F])
    assert reply.text == "Grüße"
    if api == "anthropic":  # LiteLLM puts fragments into the wrong blocks here: a wrong call must not look right
        assert [(call.name, call.error) for call in reply.tool_calls] == [("f", "invalid_json")] * 2
        return
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [
        ("functions.f:0", {"zone": "utc"}),
        ("functions.f:1", {"zone": "local"}),
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 2)
    assert reply.warnings == []


@pytest.mark.parametrize("how", ["breaks off", "error"])
async def test_a_server_that_fails_behind_it(litellm: LiteLLM, api: str, how: str) -> None:
    """An error in the 200 stream it becomes, and so it is one of ours: with the text so far, and without the call."""
    seen = anyio.Event()

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(ROLE, call(entry(0, "a", "f", '{"zone":"utc"}')), text("Hel")))
        await seen.wait()
        if how == "error":
            await peer.send(framed(event({"error": {"message": "full", "code": 500}})), END)

    async with serving(script, litellm.upstream), provider(litellm, api, "scripted-bridge") as bridge:
        with pytest.raises(UpstreamError, match="full" if how == "error" else "litellm") as caught:
            await read(bridge, seen)
    error = caught.value
    assert error.partial is not None
    assert (error.partial.text, error.partial.tool_calls, error.retryable) == ("Hel", [], True)


async def read(bridge: Provider, seen: anyio.Event) -> None:
    """Reads an answer that has no calls, and says when its text has begun."""
    async for part in bridge.chat_stream("Hello", [F]):
        assert part.tool_calls is None
        if part.delta:
            seen.set()


async def test_an_end_that_is_made_up(litellm: LiteLLM, api: str) -> None:
    """An answer that just ends gets a finish reason from it, and can't be told from a whole one; half a call can."""
    script = sends(STREAM, framed(ROLE, text("Hel"), CALLS[0]), END)
    async with serving(script, litellm.upstream), provider(litellm, api, "scripted-bridge") as bridge:
        reply = await bridge.chat("Hello", [F])
    made_up = {"chat": "stop", "responses": "completed", "anthropic": "end_turn"}
    assert (reply.text, reply.raw_finish_reason) == ("Hel", made_up[api])
    assert [call.error for call in reply.tool_calls] == ["invalid_json"]


async def test_refusals(litellm: LiteLLM, api: str) -> None:
    """Its own, with its words: an unknown model, and a wrong key, which has no status of its own without a database."""
    async with provider(litellm, api, "nobody") as unknown:
        with pytest.raises(ModelNotFoundError, match="nobody"):
            await unknown.chat("Hello")
    async with provider(litellm, api, "tiny", api_key="sk-wrong") as wrong:
        with pytest.raises(APIStatusError) as caught:
            await wrong.chat("Hello")
    assert 400 <= caught.value.status_code < 500
    assert "sk-wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        ("401 No", {"message": "no such key", "code": "invalid_api_key"}, AuthenticationError),
        ("429 Slow", {"message": "slower"}, RateLimitError),
        ("500 Oh", {"message": "oh no"}, ServerError),
    ],
)
async def test_statuses_behind_it(litellm: LiteLLM, status: str, error: dict[str, str], kind: type) -> None:
    """Those of the server behind it come through, with that server's words."""
    script = sends_each(answer(status, json.dumps({"error": error}).encode(), "Content-Type: application/json"))
    async with serving(script, litellm.upstream), provider(litellm, "chat", "scripted") as scripted:
        with pytest.raises(kind, match=error["message"]) as caught:
            await scripted.chat("Hello")
    assert caught.value.status_code == int(status[:3])


async def test_mocks(litellm: LiteLLM) -> None:
    """The failures that it can make itself."""
    async with provider(litellm, "chat", "mock-429") as busy:
        with pytest.raises(RateLimitError, match="mock rate limit"):
            await busy.chat("Hello")
    async with provider(litellm, "chat", "mock-500") as broken:
        with pytest.raises(ServerError, match="mock internal server error"):
            await broken.chat("Hello")


async def test_a_status_whose_body_is_an_event(litellm: LiteLLM) -> None:
    """A stream that can't even begin is a status with an event for a body: its message alone is the message."""

    async def script(peer: Connection) -> None:
        await peer.request()  # and hangs up

    async with serving(script, litellm.upstream), provider(litellm, "responses", "mock-500") as broken:
        with pytest.raises(ServerError) as caught:
            await broken.chat("Hello")
    assert caught.value.message == "Error processing stream start (HTTP 500)"


async def test_nobody_behind_it(litellm: LiteLLM, api: str) -> None:
    """A server that is not there is a ServerError, which is worth another try."""
    async with provider(litellm, api, "scripted-bridge") as alone:
        with pytest.raises(ServerError) as caught:
            await alone.chat("Hello")
    assert caught.value.retryable
    assert not isinstance(caught.value, APIConnectionError)


@pytest.mark.parametrize("how", ["leave", "cancel"])
async def test_leaving(litellm: LiteLLM, api: str, how: str) -> None:
    """Whoever leaves in the middle of an answer closes the connection behind the proxy as well."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(STREAM, framed(ROLE))
        while True:
            await peer.send(framed(text("more")))
            await anyio.sleep(0.01)

    async with serving(script, litellm.upstream) as server, provider(litellm, api, "scripted-bridge") as bridge:
        if how == "leave":
            async with bridge.chat_stream("Hello") as stream:
                await anext(stream)
        else:
            async with anyio.create_task_group() as tasks:
                async for _ in bridge.chat_stream("Hello"):
                    tasks.cancel_scope.cancel()
        assert server.connections == 1
        await server.all_closed()
