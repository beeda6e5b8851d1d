"""Spans and metrics that follow OpenTelemetry's conventions for generative AI. The module needs the extra `otel`.

    provider = Provider.from_config("kimi:kimi-k2.6", hooks=[otel_hooks()])
    reply = await run_tools(provider, "How warm is it in Oslo?", [get_weather], hooks=otel_run_hooks("weather"))

The conventions: https://github.com/open-telemetry/semantic-conventions-genai (gen-ai-spans, gen-ai-agent-spans,
gen-ai-metrics), still in development in November 2026. A span covers one response and all attempts to get it, from the
first request to the end of the stream. The span of a tool run is the parent of the spans of its responses and tool
calls. Messages, arguments and results are recorded only with `content=True`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from streamfold import ConfigError, Hooks, Message, Tool, ToolCall, ToolResult, ToolRun, Usage
from streamfold.tools import RunHooks
from streamfold.types import RequestInfo

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from streamfold import APIError, Reply
    from streamfold.types import Attempt

__all__ = ["otel_hooks", "otel_run_hooks"]

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [float(4**power) for power in range(14)]
_RATES = [float(2**power) for power in range(13)]

# Names that the conventions define for some endpoints. Other endpoints have the name from their configuration.
_WELL_KNOWN = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "models.ai.azure.com": "azure.ai.inference",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "amazonaws.com": "aws.bedrock",
    "api.aws": "aws.bedrock",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
}


def otel_hooks(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> Hooks:
    """Returns hooks that create a client span for each response, and that record the response's duration, its time to
    the first chunk and its token counts as metrics.

    A span contains the options that were sent to the provider, after streamfold adapted them to the endpoint.

    Args:
        tracer_provider, meter_provider: OpenTelemetry's tracer and meter providers. By default, the application's
            global ones are used.
        content: true: record messages, tools and replies in the span, as JSON. They may contain private data of users,
            so the default is false.

    Raises:
        ConfigError: the extra `otel` is not installed.
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError as exc:
        raise ConfigError("otel_hooks() needs the extra: pip install 'streamfold-integrations[otel]'") from exc

    tracer = trace.get_tracer("streamfold", tracer_provider=tracer_provider)
    watcher = _Watcher(tracer, metrics.get_meter("streamfold", meter_provider=meter_provider), content=content)
    return Hooks(
        watcher.request,
        watcher.first_chunk_came,
        watcher.retried,
        watcher.finished,
        watcher.failed,
        watcher.closed,
        sending=watcher.sending,
    )


class _Watcher:
    def __init__(self, tracer: Tracer, meter: Meter, *, content: bool) -> None:
        def histogram(name: str, unit: str, description: str, bounds: list[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        self._duration = histogram(
            "gen_ai.client.operation.duration", "s", "Duration of a response, with all its attempts.", _SECONDS
        )
        self._first_chunk = histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "Time from the request to the first chunk of its response.",
            _SECONDS,
        )
        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Input and output tokens.", _TOKENS)
        # The conventions have the time per output chunk; chunks are pieces of any size.
        self._rate = histogram(
            "streamfold.client.output_tokens_per_second",
            "{token}/s",
            "Output tokens per second after the first chunk of a response.",
            _RATES,
        )
        self._tracer, self._content = tracer, content
        self._key = f"otel {id(self)}"  # an answer may have several watchers

    def request(self, info: RequestInfo) -> None:
        from opentelemetry.trace import SpanKind

        if self._key in info.notes:  # a further attempt
            return
        attributes = _dimensions(info) | _option_attributes(info)
        if self._content:
            attributes.update(_content(info))
        span = self._tracer.start_span(f"chat {info.model}", kind=SpanKind.CLIENT, attributes=attributes)
        info.notes[self._key] = (span, perf_counter())

    def sending(self, info: RequestInfo) -> AbstractContextManager[object]:
        from opentelemetry.trace import use_span

        # The span of an HTTP client, and the headers that it sends, are inside of this one.
        return use_span(self._span(info), record_exception=False, set_status_on_exception=False)

    def first_chunk_came(self, info: RequestInfo, seconds: float) -> None:
        self._span(info).set_attribute("gen_ai.response.time_to_first_chunk", seconds)
        self._first_chunk.record(seconds, _dimensions(info))
        info.notes[f"{self._key} first chunk"] = perf_counter()

    def retried(self, info: RequestInfo, attempt: Attempt) -> None:
        self._span(info).add_event("retry", {"error.type": attempt.error or "", "error.message": attempt.problem})

    def finished(self, info: RequestInfo, reply: Reply) -> None:
        span = self._span(info)
        about_reply = {"gen_ai.response.id": reply.id, "gen_ai.response.model": reply.model}
        span.set_attributes(_option_attributes(info) | _usage_attributes(reply.usage))
        span.set_attributes({name: value for name, value in about_reply.items() if value is not None})
        span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason])
        if self._content:
            answer = {**_message(reply.message), "finish_reason": reply.finish_reason}
            span.set_attribute("gen_ai.output.messages", json.dumps([answer], ensure_ascii=False))
        about = _dimensions(info) | ({"gen_ai.response.model": reply.model} if reply.model else {})
        if (usage := reply.usage) is not None:
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None:
                    self._tokens.record(count, {**about, "gen_ai.token.type": kind})
            first = info.notes.get(f"{self._key} first chunk")
            if first is not None and usage.output_tokens and (seconds := perf_counter() - first) > 0:
                self._rate.record(usage.output_tokens / seconds, about)

    def failed(self, info: RequestInfo, error: APIError) -> None:
        from opentelemetry.trace import Status, StatusCode

        span, kind = self._span(info), type(error).__name__
        info.notes[f"{self._key} error"] = kind
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, error.message))

    def closed(self, info: RequestInfo) -> None:
        if self._key not in info.notes:  # closed before anything was sent
            return
        span, began = info.notes[self._key]
        kind = info.notes.get(f"{self._key} error")
        self._duration.record(perf_counter() - began, _dimensions(info) | ({"error.type": kind} if kind else {}))
        span.end()

    def _span(self, info: RequestInfo) -> Span:
        span: Span = info.notes[self._key][0]
        return span


def _dimensions(info: RequestInfo) -> dict[str, Any]:
    url = urlsplit(info.url)
    host = url.hostname or ""
    named = (name for end, name in _WELL_KNOWN.items() if host == end or host.endswith((f".{end}", f"-{end}")))
    about: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": next(named, info.provider),
        "gen_ai.request.model": info.model,
    }
    if host and "$" not in host:
        about |= {"server.address": host, "server.port": url.port or (443 if url.scheme == "https" else 80)}
    return about


def _option_attributes(info: RequestInfo) -> dict[str, Any]:
    request = info.sent or info.request
    options = request.options
    stop = [options.stop] if isinstance(options.stop, str) else options.stop
    values = {
        "gen_ai.request.stream": request.stream,
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.max_tokens": options.max_output_tokens,
        "gen_ai.request.seed": options.seed,
        "gen_ai.request.stop_sequences": stop,
        "gen_ai.output.type": None if options.response_format is None else "json",
    }
    return {name: value for name, value in values.items() if value is not None}


def _usage_attributes(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    values = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    return {name: value for name, value in values.items() if value is not None}


# --- Runs of tools -------------------------------------------------------------------------------------------------


def otel_run_hooks(
    agent: str | None = None, *, tracer_provider: TracerProvider | None = None, content: bool = False
) -> RunHooks:
    """Returns hooks for `run_tools` that create a span for the run (`invoke_agent`) and for each tool call
    (`execute_tool`).

    If the model provider has `otel_hooks`, the spans of its responses are children of the run's span. When a run
    pauses, its span ends. A resumed run gets a new span with the same conversation id.

    Args:
        agent: the name of the agent, which the spans contain.
        tracer_provider: OpenTelemetry's tracer provider; by default, the application's global tracer provider.
        content: true: record the arguments and results of tool calls in the spans.

    Raises:
        ConfigError: the extra `otel` is not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError as exc:
        raise ConfigError("otel_run_hooks() needs the extra: pip install 'streamfold-integrations[otel]'") from exc

    tracer = trace.get_tracer("streamfold", tracer_provider=tracer_provider)
    spans: WeakKeyDictionary[ToolRun, tuple[Span, int]] = WeakKeyDictionary()  # with the number of earlier replies

    def reading(run: ToolRun) -> AbstractContextManager[object]:
        if run not in spans:
            attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": run.chat_id or run.id}
            attributes |= {"gen_ai.agent.name": agent} if agent else {}
            name = f"invoke_agent {agent}" if agent else "invoke_agent"
            spans[run] = tracer.start_span(name, attributes=attributes), len(run.replies)
        return trace.use_span(spans[run][0], record_exception=False, set_status_on_exception=False)

    @contextmanager
    def calling(run: ToolRun, call: ToolCall, tool: Tool | None) -> Iterator[Callable[[ToolResult], object]]:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if tool is not None and tool.description:
            attributes["gen_ai.tool.description"] = tool.description
        if content:
            attributes["gen_ai.tool.call.arguments"] = call.raw_arguments
        with tracer.start_as_current_span(f"execute_tool {call.name}", attributes=attributes) as span:

            def on_result(result: ToolResult) -> None:
                if content:
                    span.set_attribute("gen_ai.tool.call.result", _plain(result.message.content))
                if result.message.error:
                    span.set_attribute("error.type", "tool_error")
                    span.set_status(trace.StatusCode.ERROR)

            yield on_result

    def on_stop(run: ToolRun, error: BaseException | None) -> None:
        span, first = spans.pop(run, (None, 0))
        if span is None:
            return
        usages = [reply.usage for reply in run.replies[first:] if reply.usage is not None]
        if usages:
            span.set_attributes(_usage_attributes(sum(usages[1:], usages[0])))
        if run.replies:
            span.set_attribute("gen_ai.response.finish_reasons", [run.replies[-1].finish_reason])
        if error is not None:  # without its text, which may hold content
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
        span.end()

    return RunHooks(reading, calling, on_stop)


# --- Content, on demand --------------------------------------------------------------------------------------------


def _content(info: RequestInfo) -> dict[str, str]:
    request = info.request
    values: dict[str, Any] = {"gen_ai.input.messages": [_message(message) for message in request.messages]}
    if request.tools:
        values["gen_ai.tool.definitions"] = [
            {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ]
    return {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in values.items()}


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        result = {"type": "tool_call_response", "id": message.tool_call_id, "response": _plain(message.content)}
        return {"role": "tool", "parts": [result]}
    parts: list[dict[str, Any]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.content is not None:
        parts.append({"type": "text", "content": _plain(message.content)})
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}


def _plain(content: Any) -> str:
    """Returns the text of a message's content. For an image, a file or audio, the text contains a placeholder."""
    if isinstance(content, str) or content is None:
        return content or ""
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
        texts.append(text if isinstance(text, str) else f"[{type(part).__name__}]")
    return "\n".join(texts)
