"""Other people's clients before a stored answer, with and without a `RepairTransport` between the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2

from sdks import anthropic, genai, openai
from streamfold import Provider
from streamfold.recording import Recording
from streamfold_repair import httpx as on_httpx
from streamfold_repair import httpx2 as on_httpx2

MESSAGES: Any = [{"role": "user", "content": "Hello"}]


@dataclass
class Seen:
    """What a program sees of an answer through its client.

    Attributes:
        calls: name and arguments of each, as text.
        whole: the client's own object for the whole answer.
        error: what the client raised.
    """

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    whole: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    extensions: dict[str, Any] = field(default_factory=dict)


def stored(http: Any, body: bytes | Iterable[bytes], kind: str = "text/event-stream", status: int = 200) -> Any:
    """A transport of httpx or httpx2 that answers every request with this body."""
    pieces = [body] if isinstance(body, bytes) else list(body)

    class Stored(http.AsyncBaseTransport, http.BaseTransport):  # type: ignore[misc, name-defined]
        requests: list[Any] = []  # noqa: RUF012

        async def handle_async_request(self, request: Any) -> Any:
            self.requests.append(request)
            return http.Response(status, headers={"content-type": kind}, content=self._pieces())

        def handle_request(self, request: Any) -> Any:
            self.requests.append(request)
            return http.Response(status, headers={"content-type": kind}, content=iter(pieces))

        async def _pieces(self) -> Any:
            for piece in pieces:
                yield piece

    return Stored()


def openai_client(transport: Any) -> openai.AsyncOpenAI:
    """OpenAI's client over a transport of httpx."""
    http = httpx.AsyncClient(transport=transport)
    return openai.AsyncOpenAI(api_key="sk-none", base_url="http://test/v1", http_client=http, max_retries=0)  # type: ignore[arg-type]


async def chat(transport: Any, **request: Any) -> Seen:
    """A streamed completion, read with the helper of OpenAI's client."""
    client, seen = openai_client(transport), Seen()
    try:
        async with client.chat.completions.stream(model="m", messages=MESSAGES, **request) as stream:
            assert isinstance(stream, openai.lib.streaming.chat.AsyncChatCompletionStream)
            seen.extensions = stream._response.extensions
            async for _ in stream:
                pass
            whole = await stream.get_final_completion()
    except openai.LengthFinishReasonError as error:
        return _cut(seen, error.completion, "length")
    except openai.ContentFilterFinishReasonError:
        return _cut(seen, None, "content_filter")
    except Exception as error:  # whatever the client makes of it
        seen.error = error
        return seen
    if not whole.choices:
        return seen
    message = whole.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    seen.text, seen.calls, seen.finish = message.content or "", calls, whole.choices[0].finish_reason
    seen.whole = whole.model_dump(warnings=False)
    return seen


def _cut(seen: Seen, whole: Any, reason: str) -> Seen:
    """The helper raises for an answer that was cut off, once it has been read."""
    seen.finish = reason
    seen.text = "" if whole is None else whole.choices[0].message.content or ""
    return seen


async def responses(transport: Any, **request: Any) -> Seen:
    """A streamed response, read with the helper of OpenAI's client."""
    client, seen = openai_client(transport), Seen()
    try:
        async with client.responses.stream(model="m", input="Hello", **request) as stream:
            seen.extensions = stream._response.extensions
            last: Any = None
            async for event in stream:
                last = event
            whole = last.response if last.type == "response.incomplete" else await stream.get_final_response()
    except Exception as error:
        seen.error = error
        return seen
    calls = [(item.name, item.arguments) for item in whole.output if item.type == "function_call"]
    custom = [item for item in whole.output if item.type == "custom_tool_call"]
    calls += [(item.name, item.input) for item in custom]
    seen.text, seen.calls, seen.finish = whole.output_text, calls, whole.status
    seen.whole = whole.model_dump(warnings=False)
    return seen


async def messages(transport: Any, **request: Any) -> Seen:
    """A streamed message, read with the helper of Anthropic's client, over a transport of httpx2."""
    http = httpx2.AsyncClient(transport=transport)
    client = anthropic.AsyncAnthropic(api_key="none", base_url="http://test", http_client=http, max_retries=0)
    seen = Seen()
    try:
        async with client.messages.stream(model="m", max_tokens=9, messages=MESSAGES, **request) as stream:
            seen.extensions = stream.response.extensions
            whole = await stream.get_final_message()
    except Exception as error:
        seen.error = error
        return seen
    seen.text = "".join(block.text for block in whole.content if block.type == "text")
    seen.calls = [(block.name, json.dumps(block.input)) for block in whole.content if block.type == "tool_use"]
    seen.finish, seen.whole = whole.stop_reason, whole.model_dump(warnings=False)
    return seen


async def gemini(transport: Any, **request: Any) -> Seen:
    """A streamed answer of Gemini's API, read with Google's client: its parts, one after the other."""
    http = httpx.AsyncClient(transport=transport)
    options = genai.types.HttpOptions(base_url="http://test", httpx_async_client=http)
    client, seen = genai.Client(api_key="none", http_options=options), Seen()
    parts: list[dict[str, Any]] = []
    try:
        async for chunk in await client.aio.models.generate_content_stream(model="m", contents="Hello"):
            data = chunk.model_dump(
                exclude_none=True, exclude={"sdk_http_response", "automatic_function_calling_history"}
            )
            for candidate in data.pop("candidates", []):
                seen.finish = candidate.get("finish_reason") or seen.finish
                parts += (candidate.pop("content", None) or {}).get("parts") or []
                seen.whole |= candidate
            seen.whole |= data
    except Exception as error:
        seen.error = error
        return seen
    seen.text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    calls = [part["function_call"] for part in parts if "function_call" in part]
    seen.calls = [(call.get("name", ""), json.dumps(call.get("args", {}))) for call in calls]
    seen.finish = str(getattr(seen.finish, "value", seen.finish)).lower()
    seen.whole["parts"] = [part for part in parts if part != {"text": ""}]
    return seen


Client = Callable[..., Any]
CLIENTS: dict[str, tuple[Client, Any, Any]] = {
    "chat": (chat, httpx, on_httpx.RepairTransport),
    "responses": (responses, httpx, on_httpx.RepairTransport),
    "anthropic": (messages, httpx2, on_httpx2.RepairTransport),
    "gemini": (gemini, httpx, on_httpx.RepairTransport),
}


async def ask(adapter: str, body: bytes | Iterable[bytes], *, repaired: bool = True, **settings: Any) -> Seen:
    """Asks for an answer of a wire format and gets this body, with or without repairs."""
    client, http, transport = CLIENTS[adapter]
    tools = settings.pop("request", {})
    below = stored(http, body)
    seen: Seen = await client(transport(below, **settings) if repaired else below, **tools)
    return seen


def request_of(recording: Recording) -> dict[str, Any]:
    """What the request of a recording says that decides how its answer is read."""

    def function(name: str, **rest: Any) -> dict[str, Any]:
        inner = {"name": name, **rest}
        return {"type": "function", **({"function": inner} if recording.adapter == "chat" else inner)}

    schema = {"type": "object", "properties": {}}
    request: dict[str, Any] = {}
    if recording.tools:
        request["tools"] = [function(name, parameters=schema) for name in recording.tools]
    if recording.tool_choice != "auto":
        named = recording.tool_choice in recording.tools
        request["tool_choice"] = function(recording.tool_choice) if named else recording.tool_choice
    return request


def is_right(recording: Recording, seen: Seen) -> bool:
    """Whether a client's program sees what the answer means: its text, its calls, its end, or an error."""
    expect = recording.expect
    if "error" in expect:
        return seen.error is not None
    if seen.error is not None:
        return False
    cut = expect.get("finish_reason") in ("length", "content_filter")
    if cut:
        half = all(_meaning(text) == text for _, text in seen.calls)  # what was begun can't be run
        return seen.finish in ("length", "content_filter", "incomplete", "max_tokens", "refusal", "safety") and half
    wanted = [(call["name"], _meaning(call["arguments"])) for call in expect.get("calls", ())]
    calls = [(name, _meaning(text)) for name, text in seen.calls]
    if recording.adapter == "responses":  # calls come in the order in which they began
        calls, wanted = sorted(calls, key=repr), sorted(wanted, key=repr)
    return seen.text == expect.get("text", "") and calls == wanted


def _meaning(arguments: Any) -> Any:
    try:
        return (json.loads(arguments or "{}") if isinstance(arguments, str) else arguments) or {}
    except ValueError:
        return arguments


def provider_of(recording: Recording) -> Provider:
    """A provider whose every answer is this recording."""
    client = httpx.AsyncClient(transport=stored(httpx, recording.body))
    config = {"adapter": recording.adapter, "base_url": "http://test/v1", "model": "m", "max_retries": 0}
    return Provider.from_config({**config, "dialect": recording.dialect or None}, http_client=client)
