"""Spans and metrics of OpenTelemetry, by its conventions for generative AI. Needs the extra `otel`.

    provider = Provider.from_config("kimi:kimi-k2.6", hooks=[otel_hooks()])

The conventions: https://github.com/open-telemetry/semantic-conventions-genai (gen-ai-spans, gen-ai-metrics), still in
development when this was written (2026-11). One span covers an answer with all its attempts, from the request to the
end of the stream. What was said is recorded only on demand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..values import ConfigError, Message, MessageLike, ToolCall
from .hooks import Asked, Hooks

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ..values import APIError, Attempt, Reply

__all__ = ["otel_hooks"]

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [float(4**power) for power in range(14)]

# The conventions' own names for some endpoints. Any other is called what its configuration is called.
_WELL_KNOWN = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.x.ai": "x_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}


def otel_hooks(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> Hooks:
    """Hooks that make a client span for each answer, and measure its duration, time to first chunk and tokens.

    Args:
        tracer_provider, meter_provider: the application's global ones if not given.
        content: whether messages, tools and answers are recorded in the span, as JSON. They may hold anything that a
            user typed, so this is off.

    Raises:
        ConfigError: the extra `otel` is not installed.
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError as exc:
        raise ConfigError("otel_hooks() needs the extra: pip install 'streamfold[otel]'") from exc

    meter = metrics.get_meter("streamfold", meter_provider=meter_provider)
    watcher = _Watcher(
        tracer=trace.get_tracer("streamfold", tracer_provider=tracer_provider),
        duration=meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of an answer, with all its attempts.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        first_chunk=meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            description="Time from the request to the first chunk of its answer.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        tokens=meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of the input and of the output.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        content=content,
    )
    return Hooks(
        watcher.request, watcher.first_chunk_came, watcher.retried, watcher.finished, watcher.failed, watcher.closed
    )


class _Watcher:
    def __init__(self, *, tracer: Any, duration: Any, first_chunk: Any, tokens: Any, content: bool) -> None:
        self._tracer, self._duration, self._first_chunk, self._tokens = tracer, duration, first_chunk, tokens
        self._content = content
        self._key = f"otel {id(self)}"  # several of these may watch one answer

    def request(self, asked: Asked) -> None:
        from opentelemetry.trace import SpanKind

        if self._key in asked.notes:  # a further attempt
            return
        attributes = _request_attributes(asked)
        if self._content:
            attributes.update(_content(asked))
        span = self._tracer.start_span(f"chat {asked.model}", kind=SpanKind.CLIENT, attributes=attributes)
        asked.notes[self._key] = (span, perf_counter())

    def first_chunk_came(self, asked: Asked, seconds: float) -> None:
        self._span(asked).set_attribute("gen_ai.response.time_to_first_chunk", seconds)
        self._first_chunk.record(seconds, _dimensions(asked))

    def retried(self, asked: Asked, attempt: Attempt) -> None:
        self._span(asked).add_event("retry", {"error.type": attempt.error or "", "error.message": attempt.problem})

    def finished(self, asked: Asked, reply: Reply) -> None:
        span = self._span(asked)
        span.set_attributes(_reply_attributes(reply))
        if self._content:
            span.set_attribute("gen_ai.output.messages", json.dumps([_answer(reply)], ensure_ascii=False))
        about = _dimensions(asked) | ({"gen_ai.response.model": reply.model} if reply.model else {})
        if reply.usage is not None:
            for kind, count in (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)):
                if count is not None:
                    self._tokens.record(count, {**about, "gen_ai.token.type": kind})

    def failed(self, asked: Asked, error: APIError) -> None:
        from opentelemetry.trace import Status, StatusCode

        span, kind = self._span(asked), type(error).__name__
        asked.notes[f"{self._key} error"] = kind
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, error.message))

    def closed(self, asked: Asked) -> None:
        if self._key not in asked.notes:  # it was closed before anything was sent
            return
        span, began = asked.notes[self._key]
        kind = asked.notes.get(f"{self._key} error")
        self._duration.record(perf_counter() - began, _dimensions(asked) | ({"error.type": kind} if kind else {}))
        span.end()

    def _span(self, asked: Asked) -> Span:
        span: Span = asked.notes[self._key][0]
        return span


def _dimensions(asked: Asked) -> dict[str, Any]:
    url = urlsplit(asked.url)
    host = url.hostname or ""
    name = next((name for known, name in _WELL_KNOWN.items() if host == known or host.endswith(f".{known}")), None)
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": name or asked.provider,
        "gen_ai.request.model": asked.model,
    }
    if host and "$" not in host:
        about |= {"server.address": host, "server.port": url.port or (443 if url.scheme == "https" else 80)}
    return about


def _request_attributes(asked: Asked) -> dict[str, Any]:
    options = asked.request.options
    stop = [options.stop] if isinstance(options.stop, str) else options.stop
    said = {
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.max_tokens": options.max_output_tokens,
        "gen_ai.request.seed": options.seed,
        "gen_ai.request.stop_sequences": stop,
        "gen_ai.output.type": None if options.response_format is None else "json",
    }
    return _dimensions(asked) | {name: value for name, value in said.items() if value is not None}


def _reply_attributes(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    said: dict[str, Any] = {
        "gen_ai.response.id": reply.id,
        "gen_ai.response.model": reply.model,
        "gen_ai.response.finish_reasons": [reply.finish_reason],
    }
    if usage is not None:
        said |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
    return {name: value for name, value in said.items() if value is not None}


# --- Content, where it is wanted -------------------------------------------------------------------------------------


def _content(asked: Asked) -> dict[str, str]:
    request = asked.request
    said: dict[str, Any] = {"gen_ai.input.messages": [_message(message) for message in request.messages]}
    if request.tools:
        said["gen_ai.tool.definitions"] = [
            {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ]
    return {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in said.items()}


def _message(message: MessageLike) -> dict[str, Any]:
    if not isinstance(message, Message):
        return {"role": message.get("role", ""), "parts": [{"type": "text", "content": message.get("content")}]}
    if message.role == "tool":
        result = {"type": "tool_call_response", "id": message.tool_call_id, "result": _plain(message.content)}
        return {"role": "tool", "parts": [result]}
    parts: list[dict[str, Any]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.content is not None:
        parts.append({"type": "text", "content": _plain(message.content)})
    return {"role": message.role, "parts": parts + [_call(call) for call in message.tool_calls]}


def _answer(reply: Reply) -> dict[str, Any]:
    return {**_message(reply.message), "finish_reason": reply.finish_reason}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def _plain(content: Any) -> str:
    """The text of a content. Of a picture, a file or a sound only that there was one."""
    if isinstance(content, str) or content is None:
        return content or ""
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
        texts.append(text if isinstance(text, str) else f"[{type(part).__name__}]")
    return "\n".join(texts)
