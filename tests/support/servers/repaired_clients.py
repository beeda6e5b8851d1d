"""Other people's clients before a stored answer, with and without a `RepairTransport` between the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import httpx2

from fixture_answers import Seen, stored
from sdks import anthropic, genai, openai
from streamfold_repair import httpx as on_httpx
from streamfold_repair import httpx2 as on_httpx2

MESSAGES: Any = [{"role": "user", "content": "Hello"}]


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
