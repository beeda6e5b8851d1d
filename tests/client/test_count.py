"""How many tokens a prompt has, as the provider counts them: one request, its retries, its errors."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import anyio
import httpx
import pytest

from amazon import signature_problem
from servers import Connection, answer, falls_silent, sends, serving
from streamfold import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    BadRequestError,
    ConfigError,
    Hooks,
    IncompleteStreamError,
    ProtocolError,
    Provider,
    RateLimitError,
    Tool,
    system,
    user,
)
from tables import each_row

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(httpx|httpcore):ResourceWarning")
TOOLS = [Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})]
TALK = [system("Be brief."), user("Hi")]
ANTHROPIC = {"adapter": "anthropic", "model": "claude-sonnet-4-5", "key_header": "x-api-key", "api_key": "key-4711"}
GEMINI = {"adapter": "gemini", "model": "gemini-3-flash-preview"}


async def asked(config: dict[str, Any], reply: Any, *messages: Any, **options: Any) -> tuple[int, httpx.Request]:
    """The count, and the request that was sent for it."""
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=reply)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        provider = Provider.from_config({"base_url": "http://a.test/v1", **config}, http_client=client)
        number = await provider.count_tokens([*TALK, *messages], TOOLS, **options)
    [request] = seen
    return number, request


async def test_anthropic() -> None:
    """Only what belongs to the prompt is sent: no limit, no sampling, no stream."""
    options: Any = {"temperature": 0.5, "max_output_tokens": 3000, "stop": "x", "reasoning_effort": "low"}
    number, request = await asked(ANTHROPIC, {"input_tokens": 12}, parallel_tool_calls=False, **options)
    body = json.loads(request.content)
    assert number == 12
    assert str(request.url) == "http://a.test/v1/messages/count_tokens"
    assert request.headers["x-api-key"] == "key-4711"
    assert request.headers["accept"] == "application/json"
    assert sorted(body) == ["messages", "model", "system", "thinking", "tool_choice", "tools"]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]


async def test_claude_on_vertex() -> None:
    """One address for all models, with the model in the body."""
    quirks = {"platform": "vertex"}
    _, request = await asked({**ANTHROPIC, "quirks": quirks}, {"input_tokens": 12})
    body = json.loads(request.content)
    assert request.url.path == "/v1/models/count-tokens:rawPredict"
    assert (body["model"], body["anthropic_version"]) == ("claude-sonnet-4-5", "vertex-2023-10-16")


@pytest.mark.slow
async def test_claude_on_bedrock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole body of a request, in base64; signed as requests are."""
    for name, value in {"ACCESS_KEY_ID": "AKIACANARY4711CANARY", "SECRET_ACCESS_KEY": "secret/Canary4711+xyz"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    async with serving(sends(answer("200 OK", b'{"inputTokens": 34}'))) as server:
        base_url = f"http://127.0.0.1:{server.port}"
        async with Provider.from_config("bedrock", base_url=base_url, model="anthropic.claude-x:0") as provider:
            assert await provider.count_tokens("Hi") == 34
        [request] = server.requests
        assert signature_problem(request, region="us-east-1") is None
    assert request.startswith(b"POST /model/anthropic.claude-x:0/count-tokens ")
    inner = json.loads(b64decode(json.loads(request.partition(b"\r\n\r\n")[2])["input"]["invokeModel"]["body"]))
    assert inner["anthropic_version"] == "bedrock-2023-05-31"
    assert inner["messages"]


@pytest.mark.parametrize("form", ["request", "members"])
async def test_gemini(form: str) -> None:
    """The prompt with its system instruction and tools, in the form that the platform takes."""
    reply = {"totalTokens": 21, "cachedContentTokenCount": 3}
    number, request = await asked({**GEMINI, "quirks": {"count_form": form}}, reply, temperature=0.5)
    body = json.loads(request.content)
    assert number == 21
    assert str(request.url) == "http://a.test/v1/models/gemini-3-flash-preview:countTokens"
    if form == "request":
        body = body["generateContentRequest"]
        assert body.pop("model") == "models/gemini-3-flash-preview"
    assert sorted(body) == ["contents", "generationConfig", "systemInstruction", "tools"]


async def catalogue_count(spec: str, reply: Any, **options: Any) -> tuple[int, str, Any]:
    """The count of a provider of the catalogue, and the path and body of the request for it."""
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=reply)

    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        provider = Provider.from_config(spec, api_key="k", http_client=client)
        number = await provider.count_tokens(TALK, TOOLS, temperature=0.5, max_output_tokens=99, **options)
    [request] = seen
    return number, request.url.path, json.loads(request.content)


async def test_responses() -> None:
    """The prompt alone: what is read of it for a count, and neither limit nor stream nor sampling."""
    reply = {"object": "response.input_tokens", "input_tokens": 31}
    number, path, body = await catalogue_count("openai-responses:gpt-5.6", reply, reasoning_effort="low")
    assert (number, path) == (31, "/v1/responses/input_tokens")
    assert sorted(body) == ["input", "model", "reasoning", "tool_choice", "tools"]
    assert body["input"][-1] == {"type": "message", "role": "user", "content": "Hi"}


async def test_chat_completions_beside_responses() -> None:
    """OpenAI counts by the Responses API alone, for models that are asked by Chat Completions too."""
    number, path, body = await catalogue_count("openai:gpt-4.1", {"input_tokens": 31})
    assert (number, path, body["model"]) == (31, "/v1/responses/input_tokens", "gpt-4.1")


async def test_kimi() -> None:
    """Messages and tools, as a request for an answer has them."""
    number, path, body = await catalogue_count("kimi:kimi-k2.6", {"data": {"total_tokens": 80}})
    assert (number, path) == (80, "/v1/tokenizers/estimate-token-count")
    assert sorted(body) == ["messages", "model", "tools"]
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


@each_row("adapter", ["chat", "kimi", "responses"])
async def test_an_api_that_can_not_count(adapter: str) -> None:
    """The error says which ones can; nothing is sent."""
    provider = Provider.from_config({"base_url": "http://127.0.0.1:9/v1", "adapter": adapter, "model": "m"})
    with pytest.raises(
        ConfigError, match=rf"'{adapter}' can't count tokens here\. Adapters that can: anthropic, gemini"
    ):
        await provider.count_tokens("Hi")


# --- the network ------------------------------------------------------------------------------------------------------


async def failure(script: Any, **config: Any) -> APIError:
    """How a count fails."""
    async with serving(script) as server, server.provider(**{**ANTHROPIC, **config}) as provider:
        with pytest.raises(APIError) as caught:
            await provider.count_tokens("Hi")
    return caught.value


async def test_a_failure_is_tried_again() -> None:
    """With the same pauses and the same number of tries as an answer; hooks for answers are not called."""
    called: list[str] = []

    async def busy(peer: Connection) -> None:
        await peer.request()
        first = len(peer.server.requests) == 1
        await peer.send(
            answer("529 Busy", b"{}", "retry-after: 0") if first else answer("200 OK", b'{"input_tokens": 5}')
        )

    hooks = Hooks(on_request=lambda info: called.append("request"), on_close=lambda info: called.append("close"))
    async with serving(busy) as server:
        config = {**ANTHROPIC, "base_url": server.base_url, "max_retries": 1}
        async with Provider.from_config(config, hooks=hooks) as provider:
            assert await provider.count_tokens("Hi") == 5
        assert len(server.requests) == 2
    assert called == []


@each_row(
    ("reply", "error", "words"),
    [
        (
            answer("400 No", b'{"error": {"type": "invalid_request_error", "message": "no key-4711"}}'),
            BadRequestError,
            "no",
        ),
        (answer("429 No", b"{}", "retry-after: 3"), RateLimitError, ""),
        (answer("200 OK", b'{"input_tokens": "5"}'), ProtocolError, "has no valid count 'input_tokens'"),
        (answer("200 OK", b"[]"), ProtocolError, "has no valid count 'input_tokens'"),
        (answer("200 OK", b"<html>"), ProtocolError, "invalid JSON"),
        (answer("200 OK", b""), ProtocolError, "invalid JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b'{"input_tok', IncompleteStreamError, "in the middle"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b'{"input_tok', APIConnectionError, "broke"),
        (b"", APIConnectionError, ""),
    ],
)
async def test_errors(reply: bytes, error: type[Exception], words: str) -> None:
    """The same classes as of an answer, with the provider's name, and without secrets."""
    found = await failure(sends(reply))
    assert type(found) is error
    assert words in str(found)
    assert str(found).startswith("custom: ")
    assert "key-4711" not in f"{found!r} {vars(found)}"


async def test_clocks() -> None:
    """A server that does not answer, or not to the end, is a timeout."""
    slow = falls_silent(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
    found = await failure(slow, timeouts={"first_event": 0.1})
    assert isinstance(found, APITimeoutError)
    assert found.phase == "first_event"


async def test_a_body_that_is_too_large() -> None:
    """It is given up as soon as it is."""
    found = await failure(falls_silent(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000), limits={"event_bytes": 1000})
    assert isinstance(found, ProtocolError)
    assert "limits.event_bytes" in str(found)


async def test_giving_up_closes_the_connection() -> None:
    """Nothing is left open behind a count that was cancelled."""

    async def silent(peer: Connection) -> None:
        await peer.request()
        await peer.gone()

    async with serving(silent) as server, server.provider(**ANTHROPIC) as provider:
        with anyio.move_on_after(0.1):
            await provider.count_tokens("Hi")
        await server.all_closed()
