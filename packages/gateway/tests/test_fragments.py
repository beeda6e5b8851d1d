"""Calls reach the clients of the gateway as they are written, and no client takes half of one for a call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest

import scale
from folding import DONE, call, entry, fin, fragments, text
from gateways import MESSAGES, PATHS, asking, behind, served_before
from mirror import looks_whole, openai_chat, openai_response, payloads, read, written_calls
from sdks import anthropic, openai
from servers import END, STREAM, Connection, framed
from streamfold import StreamError, UpstreamError

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

EACH = pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
TOOL = {"name": "write", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
HEAD = text("I write. ") + fragments("0 call_1 write ''", '0 - - {"path":"a.py","content":"on')
TAIL = call(entry(0, arguments='e\\ntwo"}')) + fin("tool_calls") + DONE
WHOLE = '{"path":"a.py","content":"one\\ntwo"}'


def asked(api: str, **members: Any) -> tuple[str, dict[str, Any]]:
    """Path and body of a request with one tool."""
    path = MESSAGES if api == "anthropic" else PATHS[api]
    tools: dict[str, Any] = {
        "chat": {"type": "function", "function": TOOL},
        "responses": {"type": "function", **TOOL},
        "anthropic": {"name": TOOL["name"], "input_schema": TOOL["parameters"]},
    }
    more = {"max_tokens": 100} if api == "anthropic" else {}
    return path, asking(path, tools=[tools[api]], **more, **members)


async def streamed(api: str, *bodies: bytes) -> bytes:
    async with behind(*bodies) as client:
        path, body = asked(api, stream=True)
        return (await client.post(path, json=body)).content


def accumulated(api: str, body: bytes) -> Any:
    """What the accumulator of the API's own SDK makes of a stream."""
    if api == "chat":
        return openai_chat(body)
    if api == "responses":
        return openai_response(body)
    head = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=head, content=body))
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(api_key="k", base_url="http://x", http_client=http, max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]) as stream,
    ):
        return stream.get_final_message()


@EACH
async def test_fragments_arrive_before_the_rest_is_written(api: str, anyio_backend_name: str) -> None:
    """The provider goes on when the client has read what is there so far."""
    if anyio_backend_name != "asyncio":
        pytest.skip("uvicorn runs on asyncio alone")
    seen = anyio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(HEAD))
        await seen.wait()
        await connection.send(framed(TAIL), END)

    got = b""
    with anyio.fail_after(20):
        async with served_before(script) as (client, _, _):
            path, body = asked(api, stream=True)
            async with client.stream("POST", path, json=body) as answer:
                async for data in answer.aiter_bytes():
                    got += data
                    if got.endswith(b"\n\n") and written_calls(got).get("call_1", "").endswith('"o'):
                        assert not looks_whole(written_calls(got)["call_1"])
                        seen.set()
    assert written_calls(got) == {"call_1": WHOLE}
    assert [made.raw_arguments for made in read(api, got).tool_calls] == [WHOLE]


@EACH
async def test_an_answer_that_is_not_streamed_is_what_it_was(api: str) -> None:
    """It is sent when it is whole, and has no part of a call that is not handed out."""
    async with behind(HEAD + TAIL, HEAD + fin("length") + DONE) as client:
        path, body = asked(api)
        whole, cut = (await client.post(path, json=body)).content, (await client.post(path, json=body)).content
    assert read(api, whole).tool_calls[0].arguments == json.loads(WHOLE)
    reply = read(api, cut)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("I write. ", [], "length")


@EACH
async def test_an_answer_that_breaks_off_anywhere(api: str) -> None:
    """It ends with an error, for our reader and for the official client; no call looks whole."""
    whole = HEAD + call(entry(1, "call_2", "write", '{"path":"b"}')) + TAIL
    end = len(whole) - len(fin("tool_calls") + DONE)
    for at in scale.some(range(len(text("I write. ")), end), 12):
        body = await streamed(api, whole[:at])
        assert not any(map(looks_whole, written_calls(body).values()))
        with pytest.raises(StreamError):
            read(api, body)
        if api == "anthropic":
            with pytest.raises(anthropic.APIError):
                accumulated(api, body)
        elif api == "chat":
            with pytest.raises(openai.APIError):
                openai_chat(body)
        else:
            assert payloads(body)[-1]["type"] == "response.failed"


@EACH
async def test_a_call_that_ends_as_another(api: str, caplog: pytest.LogCaptureFixture) -> None:
    """The answer fails, as the log says, and the call that was begun is not ended."""
    body = await streamed(api, HEAD + fin("who_knows") + DONE)
    assert not any(map(looks_whole, written_calls(body).values()))
    with pytest.raises(UpstreamError, match="the tool calls of write changed or disappeared at the end of the answer"):
        read(api, body)
    assert "ProtocolError" in caplog.text


@EACH
async def test_a_model_of_a_programs_own_gives_whole_calls(api: str) -> None:
    """It may change what another model says, and would not know of fragments."""
    from streamfold import ChatStream, Provider
    from streamfold_gateway import gateway

    class Filter:
        name = "filter"

        def __init__(self, inner: Provider) -> None:
            self.inner = inner

        def chat_stream(self, *args: Any, **options: Any) -> ChatStream:
            assert "partial_tool_calls" not in options
            return self.inner.chat_stream(*args, **options)

    async def body() -> AsyncIterator[bytes]:
        yield HEAD + TAIL

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body()))
    config = {"base_url": "http://upstream/v1", "model": "m", "adapter": "chat"}
    async with httpx.AsyncClient(transport=transport) as upstream:
        app = gateway({"main": Filter(Provider.from_config(config, http_client=upstream))})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            path, asking_ = asked(api, stream=True)
            answer = (await client.post(path, json=asking_)).content
    assert written_calls(answer) == {"call_1": WHOLE}
