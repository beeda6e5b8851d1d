"""Serves an endpoint on loopback: routes, refusals, and the steps from a request to an answer."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import uvicorn

from simulated_endpoints import model
from simulated_endpoints.apis import CHAT, GEMINI, MESSAGES, RESPONSES, error_body
from simulated_endpoints.model import Answer, Json, Message, Request, Usage, dumps, loads


class Endpoint:
    """An honest endpoint. Others change one step each: what is read, decided, limited, said or counted."""

    name = "honest"
    does = "Serves the small model as it is."
    report = ""
    models: tuple[str, ...] = ("sim-1",)
    effort: str | None = None
    """How much the model thinks when a request doesn't say."""
    whole_calls = False
    """Streams each call in one piece."""
    pause = 0.0
    """Seconds between two events of a stream."""
    apis: tuple[str, ...] = ("chat", "responses", "messages", "gemini")

    def __init__(self) -> None:
        self.memory: dict[str, list[Message]] = {}
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._ids):012x}"

    def tokens(self, text: str) -> list[str]:
        """Splits a text as this endpoint's model does."""
        return model.tokens(text)

    def refuse(self, request: Request) -> str | None:
        """Returns why a request is refused with a 400."""
        if not request.messages:
            return "messages must not be empty"
        if request.max_tokens is not None and request.max_tokens < 1:
            return "max_tokens must be at least 1"
        if request.api == "messages" and request.max_tokens is None:
            return "max_tokens: Field required"
        if request.choice.startswith("=") and request.choice[1:] not in [tool.name for tool in request.tools]:
            return f"tool_choice names an unknown tool: {request.choice[1:]}"
        return None

    def see(self, request: Request) -> Request:
        """Returns what the model gets to read."""
        return request

    def decide(self, request: Request) -> Answer:
        """Returns what the model wants to say."""
        answer = model.decide(request)
        return replace(answer, reasoning=model.reasoning(request, request.effort or self.effort))

    def limit(self, request: Request, answer: Answer) -> Answer:
        """Applies `stop` and the limit of tokens."""
        return model.limit(request, answer, self.tokens)

    def alter(self, request: Request, answer: Answer) -> Answer:
        """Changes what the model said."""
        return answer

    def count(self, request: Request, seen: Request, answer: Answer) -> Usage:
        """Counts the request; the answer is counted already."""
        return replace(answer.usage, input=model.input_tokens(seen, self.tokens))

    def streamed(self, request: Request, answer: Answer) -> Answer:
        """Returns what a stream says in place of a whole answer."""
        return answer

    def served_model(self, request: Request) -> str:
        """Returns the model that the answer names."""
        return request.model

    def knows(self, name: str) -> bool:
        return name in self.models

    def respond(self, request: Request) -> Answer:
        seen = self.see(request)
        answer = self.limit(seen, self.decide(seen))
        answer = replace(
            answer, calls=tuple(replace(call, id=call.id or self.new_id("call_")) for call in answer.calls)
        )
        answer = self.alter(request, answer)
        answer = replace(answer, usage=self.count(request, seen, answer))
        return self.streamed(request, answer) if request.stream else answer


class _App:
    """An ASGI application for one endpoint, or for several, each below its name."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        self.endpoints = endpoints

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        endpoint, path = self.endpoints[0], scope["path"]
        if len(self.endpoints) > 1:
            _, name, path = path.split("/", 2)
            endpoint, path = next(one for one in self.endpoints if one.name == name), "/" + path
        status, kind, content = self.answer(endpoint, scope["method"], path, body)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        if isinstance(content, bytes):
            await send({"type": "http.response.body", "body": content})
            return
        async for event in self.paced(content, endpoint.pause):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def paced(self, events: Iterator[bytes], pause: float) -> AsyncIterator[bytes]:
        for event in events:
            yield event
            if pause:
                await asyncio.sleep(pause)

    def answer(
        self, endpoint: Endpoint, method: str, path: str, body: bytes
    ) -> tuple[int, bytes, bytes | Iterator[bytes]]:
        """Returns the status, the content type, and the body or the events of a stream."""
        json_type, stream_type = b"application/json", b"text/event-stream"
        if method == "GET":
            if path.rstrip("/").endswith("models"):
                return 200, json_type, dumps(self.listing(endpoint)).encode()
            name = path.rpartition("/")[2]
            known = endpoint.knows(name)
            return (
                (200 if known else 404),
                json_type,
                dumps({"id": name, "object": "model", "owned_by": "sim"} if known else {}).encode(),
            )
        api: Any = None
        named = ""
        if path.endswith("/chat/completions"):
            api = CHAT
        elif path.endswith("/responses"):
            api = RESPONSES
        elif path.endswith(("/messages", "/messages/count_tokens")):
            api = MESSAGES
        elif ":" in path.rpartition("/")[2]:
            api, (named, _, action) = GEMINI, path.rpartition("/")[2].partition(":")
        if api is None or api.name not in endpoint.apis:
            return 404, json_type, error_body(CHAT, 404, f"no such path: {path}")
        try:
            parsed = loads(body.decode())
            name = named or parsed["model"]
            request = api.read(parsed, name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return 400, json_type, error_body(api, 400, f"the request can't be read: {type(error).__name__}: {error}")
        if not endpoint.knows(name):
            return 404, json_type, error_body(api, 404, f"The model `{name}` does not exist")
        if api is GEMINI:
            request = replace(request, stream=action == "streamGenerateContent")
        previous = parsed.get("previous_response_id") if api is RESPONSES else None
        if previous:
            if previous not in endpoint.memory:
                return 400, json_type, error_body(api, 400, f"Previous response with id '{previous}' not found.")
            request = replace(request, messages=(*endpoint.memory[previous], *request.messages))
        if path.endswith("count_tokens"):
            return 200, json_type, dumps({"input_tokens": model.input_tokens(request, endpoint.tokens)}).encode()
        if path.endswith(":countTokens"):
            return 200, json_type, dumps({"totalTokens": model.input_tokens(request, endpoint.tokens)}).encode()
        refusal = endpoint.refuse(request)
        if refusal is not None:
            return 400, json_type, error_body(api, 400, refusal)
        answer = endpoint.respond(request)
        if request.stream:
            return 200, stream_type, api.stream(endpoint, request, answer)
        return 200, json_type, dumps(api.whole(endpoint, request, answer)).encode()

    def listing(self, endpoint: Endpoint) -> Json:
        data = [{"id": name, "object": "model", "created": 1764374400, "owned_by": "sim"} for name in endpoint.models]
        return {"object": "list", "data": data, "models": [{"name": f"models/{name}"} for name in endpoint.models]}


@contextmanager
def serving(*endpoints: Endpoint, port: int = 0) -> Iterator[str]:
    """Serves an endpoint on loopback as long as the block runs; yields its origin, without `/v1`.

    Of several endpoints, each is served below its name: `ORIGIN/NAME/v1`.
    """
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        _App(endpoints), log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
