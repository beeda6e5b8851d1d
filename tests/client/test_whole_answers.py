"""`chat(stream=False)`: the answer comes in one piece, and is the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import (
    APIError,
    BadRequestError,
    ChatStream,
    ConfigError,
    Fallback,
    IncompleteStreamError,
    ProtocolError,
    Provider,
    RateLimitError,
    Reply,
    StreamDecoder,
    StreamError,
    Tool,
    ToolCall,
)
from streamfold.middleware import Middleware
from streamfold.recording import Recording
from streamfold.requests import Request
from streamfold.sync import Provider as SyncProvider
from streamfold.testing import ScriptedProvider, say
from tables import each_row
from whole_bodies import whole_body

FIXTURES = Path(__file__).parents[2] / "fixtures"
# What a stream does wrong, or in pieces of its own, so that it is not known what would come in one piece.
ODD = {
    "calls/empty_id_and_name", "calls/index_always_zero", "calls/index_as_text", "calls/index_negative",
    "calls/name_in_pieces", "calls/no_index_parallel", "chunks/changing_meta", "chunks/message_beside_delta",
    "dashscope/thinking_call", "ends/done_in_quotes", "gemini/signatures", "litellm/responses_bridge_think_say_call",
    "lmstudio/call_in_pieces", "minimax/message_at_the_end", "mistral/thinking", "openai/audio",
    "reasoning/other_names", "responses/bare", "sse/byte_order_mark", "sse/data_lines", "sse/events_without_data",
    "sse/whole_answer_as_json",
}  # fmt: skip
APIS = {
    "chat": "openai/parallel_calls",
    "kimi": "kimi/thinking_calls",
    "responses": "openai/responses_parallel_calls",
    "anthropic": "anthropic/parallel_calls",
    "gemini": "gemini/native_parallel_calls",
    "interactions": "gemini-interactions/thoughts_and_calls",
}


def recordings() -> Iterable[tuple[str, Recording]]:
    """The answers of fixtures/ that end in order, and have nothing that needs a warning."""
    for file in sorted(FIXTURES.rglob("*.sse")):
        recording = Recording.load(file.with_suffix(""))
        name = file.relative_to(FIXTURES).with_suffix("").as_posix()
        if not recording.broken and "error" not in recording.expect and name not in ODD:
            yield name, recording
            if name.startswith("kimi/"):
                yield name, replace(recording, adapter="kimi")


def decoded(recording: Recording, body: bytes, size: int = 1 << 20) -> Reply:
    decoder = StreamDecoder(recording.adapter, **recording.options())
    for at in range(0, len(body), size):
        decoder.feed(body[at : at + size])
    decoder.close()
    return decoder.reply


def call_of(call: ToolCall) -> tuple[Any, ...]:
    return call.id, call.name, call.arguments, call.kind, call.error


def told(reply: Reply) -> dict[str, Any]:
    """All that a reply says but the clock, and but the white space in the arguments of calls."""
    message = replace(reply.message, tool_calls=())
    return {
        "text": reply.text, "reasoning": reply.reasoning, "refusal": reply.refusal, "usage": reply.usage,
        "finish": (reply.finish_reason, reply.raw_finish_reason), "id": (reply.id, reply.model),
        "calls": [*map(call_of, reply.tool_calls)], "in message": [*map(call_of, reply.message.tool_calls)],
        "hosted": reply.hosted, "citations": reply.citations, "files": reply.files, "phases": reply.phases,
        "warnings": reply.warnings, "message": (message.role, message.content, message.reasoning, message.refusal),
    }  # fmt: skip


# What Perplexity's model thinks while it searches is in events alone.
ONLY_STREAMED = [("perplexity/research", "reasoning"), ("perplexity/research", "message")]


def test_the_same_answer_streamed_and_whole() -> None:
    """Text, reasoning, calls, usage, finish reason, hosted parts, citations, message: every answer in fixtures/."""
    apis, wrong = dict.fromkeys(APIS, 0), []
    for name, recording in recordings():
        streamed = decoded(recording, recording.body)
        if not streamed.warnings:
            apis[recording.adapter] += 1
            whole = told(decoded(recording, whole_body(recording.adapter, recording.body), 700))
            unequal = [(name, what) for what, value in told(streamed).items() if whole[what] != value]
            wrong += [each for each in unequal if each not in ONLY_STREAMED]
    assert not wrong
    assert min(apis.values()) >= 3, apis


@each_row("api", APIS)
def test_a_whole_answer_cut_anywhere(api: str) -> None:
    """No byte less is an answer: no half text that counts, no call, no warning instead of an error.

    The text so far is in the partial answer, as that of a stream is.
    """
    recording = Recording.load(FIXTURES / APIS[api])
    body = whole_body(api, recording.body)
    text, longest = decoded(recording, body).text, ""
    for end in range(len(body)):
        decoder = StreamDecoder(api, **recording.options())
        assert not decoder.feed(body[:end])
        assert not [
            chunk for chunk in decoder.end(interrupted=None if end % 2 else "the connection broke") if chunk.finished
        ]
        with pytest.raises((IncompleteStreamError, ProtocolError)) as caught:
            decoder.close()
        assert caught.value.partial is not None
        assert not caught.value.partial.tool_calls
        assert text.startswith(caught.value.partial.text)
        longest = max(longest, caught.value.partial.text, key=len)
    assert longest == text


FAILED: dict[str, tuple[str, Any]] = {
    "responses": ("responses", {
        "object": "response", "status": "failed", "error": {"code": "server_error", "message": "boom"},
        "output": [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Half"}]}],
    }),
    "responses, under way": ("responses", {
        "object": "response", "status": "in_progress",
        "output": [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Half"}]}],
    }),
    "gemini": ("gemini", {"candidates": [
        {"content": {"parts": [{"text": "Half"}]}, "finishReason": "MALFORMED_FUNCTION_CALL"}
    ]}),
    "gemini, a list": ("gemini", [{"candidates": [{"content": {"parts": [{"text": "Half"}]}}]}]),
    "gemini, an error in the list": ("gemini", [
        {"candidates": [{"content": {"parts": [{"text": "Half"}]}}]}, {"error": {"code": 503, "message": "boom"}}
    ]),
    "chat": ("chat", {"choices": [{"message": {"content": "Half"}, "finish_reason": "error"}]}),
}  # fmt: skip


@each_row("case", FAILED)
async def test_a_whole_answer_that_failed_keeps_its_text(case: str) -> None:
    """By itself and from a provider, also where a stream was requested, of which nothing was shown."""
    adapter, body = FAILED[case]
    decoder = StreamDecoder(adapter)
    assert decoder.feed(json.dumps(body).encode()) == []
    assert "".join(chunk.delta for chunk in decoder.end()) == "Half"
    with pytest.raises(StreamError) as caught:
        decoder.close()
    assert (caught.value.partial and caught.value.partial.text) == "Half"
    server = Server(httpx.Response(200, json=body), httpx.Response(200, json=body))
    for streamed in (False, True):
        with pytest.raises(StreamError) as caught:
            await server.provider(adapter).chat("Hello", stream=streamed)
        assert (caught.value.partial and caught.value.partial.text) == "Half"


# --- the request ------------------------------------------------------------------------------------------------------


def provider_of(api: str, http_client: httpx.AsyncClient | None = None, **rest: Any) -> Provider:
    config = {"adapter": api, "base_url": "https://a.test/v1", "model": "m", "api_key": "k", "max_retries": 0}
    return Provider.from_config({**config, **rest}, http_client=http_client)


@each_row(
    ("api", "quirks", "path", "accept", "members"),
    [
        ("chat", {}, "/v1/chat/completions", "application/json", {"stream": False}),
        ("kimi", {}, "/v1/chat/completions", "application/json", {"stream": False}),
        ("responses", {}, "/v1/responses", "application/json", {"stream": False}),
        ("anthropic", {}, "/v1/messages", "application/json", {"stream": False}),
        ("anthropic", {"platform": "vertex"}, "/v1/models/m:rawPredict", "application/json", {"stream": False}),
        ("anthropic", {"platform": "bedrock"}, "/v1/model/m/invoke", "application/json", {}),
        ("gemini", {}, "/v1/models/m:generateContent", "application/json", {}),
    ],
)
async def test_the_request(api: str, quirks: Any, path: str, accept: str, members: Any) -> None:
    """Each API has its own way to say it, and nothing else in the request differs."""
    provider = provider_of(api, quirks=quirks)
    whole, streamed = provider.preview("Hi", stream=False), provider.preview("Hi")
    body = whole.json()
    assert whole.url == f"https://a.test{path}"
    assert whole.headers["Accept"] == accept
    assert {name: body[name] for name in ("stream", "stream_options") if name in body} == members
    rest = {name: value for name, value in streamed.json().items() if name not in ("stream", "stream_options")}
    assert {name: value for name, value in body.items() if name != "stream"} == rest
    await provider.aclose()


async def test_an_answer_in_the_background_is_streamed() -> None:
    """Asked for whole, OpenAI would return a response that has only begun."""
    preview = provider_of("responses").preview("Hi", stream=False, extra_body={"background": True, "store": True})
    assert preview.json()["stream"] is True


# --- the answer -------------------------------------------------------------------------------------------------------


class Server(httpx.MockTransport):
    """Answers in turn, and keeps the requests."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers, self.bodies = list(answers), list[Any]()
        super().__init__(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def provider(self, api: str = "chat", **rest: Any) -> Provider:
        return provider_of(api, httpx.AsyncClient(transport=self), **rest)


def completion(text: str = "Hi") -> httpx.Response:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return httpx.Response(200, json={"id": "c1", "object": "chat.completion", "model": "m", "choices": choices})


def stream(text: str = "Hi") -> httpx.Response:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return httpx.Response(200, content=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())


def refused(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, "type": "invalid_request_error"}})


@each_row("whole", [True, False])
async def test_a_server_that_does_the_other_thing(whole: bool) -> None:
    """A stream where a whole answer was asked for, and a whole answer where a stream was."""
    server = Server(stream() if whole else completion())
    reply = await server.provider().chat("Hello", stream=not whole)
    assert (reply.text, reply.finish_reason, reply.warnings) == ("Hi", "stop", [])
    assert server.bodies[0]["stream"] is not whole


@each_row("body", [b'{"type": "message", "id": "msg_1"', b"<html><title>Sign in</title>"])
async def test_bedrock_sends_json(body: bytes) -> None:
    """The framing is that of streams. A whole message is JSON, cut or not, and a proxy's page is a page."""
    message = {
        "type": "message", "id": "msg_1", "model": "m", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 3, "output_tokens": 1},
    }  # fmt: skip
    server = Server(httpx.Response(200, json=message), httpx.Response(200, content=body))
    provider = server.provider("anthropic", quirks={"platform": "bedrock"})
    reply = await provider.chat("Hello", stream=False)
    assert (reply.text, reply.usage and reply.usage.total_tokens, reply.warnings) == ("Hi", 4, [])
    with pytest.raises(StreamError, match=r"in the middle of a JSON response|a web page"):
        await provider.chat("Hello", stream=False)


async def test_another_model_took_over() -> None:
    """The block that says so is in a whole message too: its model is the one that answered."""
    took = {"type": "fallback", "from": {"model": "m-1"}, "to": {"model": "m-2"}}
    message = {
        "type": "message", "id": "msg_1", "model": "m-1", "role": "assistant", "stop_reason": "end_turn",
        "content": [took, {"type": "text", "text": "Hi"}], "usage": {"input_tokens": 3, "output_tokens": 1},
    }  # fmt: skip
    reply = await Server(httpx.Response(200, json=message)).provider("anthropic").chat("Hello", stream=False)
    assert (reply.text, reply.model) == ("Hi", "m-2")


async def test_errors_before_and_in_the_answer() -> None:
    """A status, and an error that came with 200, are the errors that they are in a stream."""
    late = httpx.Response(200, json={"error": {"message": "overloaded", "code": 503}})
    server = Server(httpx.Response(429, json={"error": {"message": "slow"}}), late)
    with pytest.raises(RateLimitError, match="slow"):
        await server.provider().chat("Hello", stream=False)
    with pytest.raises(APIError, match="overloaded"):
        await server.provider().chat("Hello", stream=False)


@each_row(
    "message",
    [
        "parameter.enable_thinking must be set to false for non-streaming calls",
        "This model only support stream mode, please enable the stream parameter to access the model.",
        "enable thinking can not be support when `stream=False`.",
        "parameter.enable_thinking必须设置为false才能进行非流式调用",
    ],
)
async def test_a_model_that_only_streams(message: str) -> None:
    """The refused request is sent again as one for a stream, and so are the later ones for this model alone."""
    server = Server(refused(400, message), stream(), stream(), completion())
    provider = server.provider()
    texts = [(await provider.chat("Hello", stream=False, model=model)).text for model in ("m", "m", "other")]
    assert texts == ["Hi", "Hi", "Hi"]
    assert [body["stream"] for body in server.bodies] == [False, True, True, False]


async def test_another_mistake_is_none_of_streams() -> None:
    server = Server(refused(400, "messages: too many"))
    with pytest.raises(BadRequestError, match="too many"):
        await server.provider().chat("Hello", stream=False)
    assert len(server.bodies) == 1


# --- through other models ---------------------------------------------------------------------------------------------


class Loud(Middleware):
    async def change_request(self, request: Request) -> Request:
        return replace(request, options=replace(request.options, temperature=0.5))


async def test_through_models_around_it() -> None:
    """Fallbacks, middleware and a memory pass on what was asked for."""
    busy, server = Server(refused(500, "busy")), Server(completion())
    memory = server.provider(turn_cache=True)
    model = Fallback(busy.provider(), Loud(Fallback(memory)))
    reply = await model.chat("Hello", stream=False, timeouts={"total": 30}, extra_headers={"x-a": "b"})
    assert reply.text == "Hi"
    assert [body["stream"] for body in (*busy.bodies, *server.bodies)] == [False, False]
    assert server.bodies[0]["temperature"] == 0.5
    assert (await model.chat("Hello")).text == "Hi"
    assert server.bodies[1]["stream"] is True


async def test_a_double_notes_it() -> None:
    double = ScriptedProvider(say("Hi"), say("Hi"))
    assert (await double.chat("Hello", stream=False)).text == (await double.chat("Hello")).text
    assert [request.body["stream"] for request in double.requests] == [False, True]


class Foreign:
    """A model of somebody else: it has the four members of a `ChatModel`, and knows nothing of whole answers."""

    def __init__(self, model: Provider) -> None:
        self.name, self._model = "foreign", model

    def chat_stream(self, messages: Any, tools: Any = None, *, tool_choice: Any = "auto", **options: Any) -> ChatStream:
        return self._model.chat_stream(messages, tools, tool_choice=tool_choice, **options)

    async def chat(self, messages: Any, tools: Any = None, *, tool_choice: Any = "auto", **options: Any) -> Reply:
        return await self._model.chat(messages, tools, tool_choice=tool_choice, **options)

    async def aclose(self) -> None:
        await self._model.aclose()


async def test_a_model_of_somebody_else_streams() -> None:
    server = Server(stream())
    assert (await Fallback(Foreign(server.provider())).chat("Hello", stream=False)).text == "Hi"
    assert server.bodies[0]["stream"] is True


def test_synchronous_code() -> None:
    server = Server(completion())
    with SyncProvider(server.provider()) as provider:
        assert provider.chat("Hello", stream=False).text == "Hi"
        assert provider.preview("Hello", stream=False).json()["stream"] is False
        with pytest.raises(ConfigError, match="stream must be True or False"):
            provider.chat("Hello", stream=0)  # type: ignore[arg-type]
    assert [body["stream"] for body in server.bodies] == [False]


async def test_tools_are_called() -> None:
    """A call of a whole answer is a call like any other."""
    recording = Recording.load(FIXTURES / APIS["chat"])
    server = Server(httpx.Response(200, content=whole_body("chat", recording.body)))
    reply = await server.provider().chat("Hello", [Tool("get_weather", "Looks.", {"type": "object"})], stream=False)
    assert [call.raw_arguments for call in reply.tool_calls] == [
        call.raw_arguments for call in recording.reply().tool_calls
    ]
