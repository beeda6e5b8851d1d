"""Spans and metrics by the conventions for generative AI."""

from __future__ import annotations

import json
import sys
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from answering_provider import GOOD, USAGE, client, provider
from folding import DONE, call, entry, event, fin, text
from streamfold import ConfigError, ServerError, Tool, ToolCall, assistant, image, run_tools, tool, tool_result, user
from streamfold.testing import ScriptedProvider, usage
from streamfold.testing import call as calls
from streamfold.tools import RunHooks
from streamfold_integrations.otel import otel_hooks, otel_run_hooks


class Telemetry:
    """Where spans and measurements go."""

    def __init__(self, **options: Any) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.hooks = otel_hooks(tracer_provider=tracers, meter_provider=meters, **options)
        self.run_hooks = otel_run_hooks("helper", tracer_provider=tracers, **options)

    def span(self) -> Any:
        (span,) = self.spans()
        return span

    def spans(self) -> Any:
        return self._spans.get_finished_spans()

    def points(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        data = self._reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return {m.name: [(p.sum, dict(p.attributes)) for p in m.data.data_points] for m in metrics}


COMMON = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "main",
    "gen_ai.request.model": "m",
    "server.address": "test",
    "server.port": 80,
}


async def test_one_span_for_an_answer_with_its_attempts() -> None:
    """A client span from the request to the end, with what was asked and what came, and the retry as an event."""
    telemetry = Telemetry()
    async with client(503, GOOD) as http_client:
        reply = await provider(http_client, telemetry.hooks).chat(
            "Hello", temperature=0.5, max_output_tokens=9, stop="end", seed=1
        )
    span = telemetry.span()
    attributes = dict(span.attributes)
    first_chunk = attributes.pop("gen_ai.response.time_to_first_chunk")
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert attributes == {
        **COMMON,
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.seed": 1,
        "gen_ai.request.stop_sequences": ("end",),
        "gen_ai.response.id": "c1",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
    }
    assert [(event.name, event.attributes["error.type"]) for event in span.events] == [("retry", "ServerError")]
    points = telemetry.points()
    assert points["gen_ai.client.token.usage"] == [
        (7, {**COMMON, "gen_ai.response.model": "m", "gen_ai.token.type": "input"}),
        (2, {**COMMON, "gen_ai.response.model": "m", "gen_ai.token.type": "output"}),
    ]
    ((rate, _),) = points["streamfold.client.output_tokens_per_second"]
    assert rate > 0
    assert points["gen_ai.client.operation.time_to_first_chunk"] == [(first_chunk, COMMON)]
    ((seconds, about),) = points["gen_ai.client.operation.duration"]
    assert seconds > 0
    assert about == COMMON
    assert reply.text == "Hi"


async def test_a_run_of_tools() -> None:
    """A run has a span, with those of its answers and calls below it; contents only on request."""

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    for content in (False, True):
        telemetry = Telemetry(content=content)
        model = ScriptedProvider(
            [calls("add", a=1, b=22), calls("sub"), usage(10, 2)],
            [calls("add", a=3, b=4), usage(20, 3)],
            ["Done.", usage(30, 1)],
            hooks=[telemetry.hooks],
        )
        before = trace.get_current_span()
        run = run_tools(model, "x", [add], hooks=telemetry.run_hooks)
        async for _ in run:
            assert trace.get_current_span() is before
        *below, agent = telemetry.spans()
        assert agent.name == "invoke_agent helper"
        assert agent.attributes["gen_ai.conversation.id"] == run.id
        assert agent.attributes["gen_ai.response.finish_reasons"] == ("stop",)
        assert agent.attributes["gen_ai.usage.input_tokens"] == 60
        assert agent.attributes["gen_ai.usage.output_tokens"] == 6
        assert {span.parent.span_id for span in below} == {agent.context.span_id}
        names = sorted(span.name for span in below)
        assert [name.partition(" ")[0] for name in names[:3]] == ["chat"] * 3
        assert names[3:] == ["execute_tool add", "execute_tool add", "execute_tool sub"]
        first = next(span for span in below if span.name == "execute_tool add")
        shown = {"gen_ai.tool.call.arguments": '{"a": 1, "b": 22}', "gen_ai.tool.call.result": "23"}
        assert dict(first.attributes) == {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "add",
            "gen_ai.tool.call.id": run.replies[0].tool_calls[0].id,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": "Adds.",
            **(shown if content else {}),
        }
        (unknown,) = (span for span in below if span.name == "execute_tool sub")
        assert (unknown.status.status_code, unknown.attributes["error.type"]) == (StatusCode.ERROR, "tool_error")


async def test_a_run_that_pauses_fails_or_is_left() -> None:
    """Each of them ends the span of the run; reading on after a pause begins another one of the conversation."""

    @tool(needs_approval=True)
    def drop() -> str:
        return "dropped"

    telemetry = Telemetry()
    run = run_tools(ScriptedProvider(calls("drop"), "Done."), "x", [drop], hooks=telemetry.run_hooks)
    async for _ in run:
        pass
    run.approve(run.pending[0].call.id)
    async for _ in run:
        pass
    assert [span.name for span in telemetry.spans()] == [
        "invoke_agent helper",
        "execute_tool drop",
        "invoke_agent helper",
    ]

    telemetry = Telemetry()
    async with client(500) as http_client:
        model = provider(http_client, telemetry.hooks, max_retries=0)
        with pytest.raises(ServerError):
            await run_tools(model, "x", [drop], hooks=telemetry.run_hooks)
    assert [span.attributes["error.type"] for span in telemetry.spans()] == ["ServerError", "ServerError"]

    telemetry = Telemetry()
    async with run_tools(ScriptedProvider("One two."), "x", [drop], hooks=telemetry.run_hooks) as run:
        await anext(run)
    assert telemetry.span().name == "invoke_agent helper"


async def test_hooks_of_a_run_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """They are logged, and change nothing."""

    def broken(*_: Any) -> Any:
        raise ValueError("no")

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    model = ScriptedProvider(calls("add", a=1, b=2), "Done.")
    reply = await run_tools(model, "x", [add], hooks=RunHooks(broken, broken, broken))
    assert reply.text == "Done."
    assert {record.getMessage() for record in caplog.records} == {
        f"the hook {name} of a run failed" for name in ("reading", "calling", "on_stop")
    }


async def test_options_as_they_were_sent() -> None:
    """A span has the options that the endpoint got: what was changed or left out for it isn't shown as asked."""
    telemetry = Telemetry()
    async with client(GOOD) as http_client:
        model = provider(http_client, telemetry.hooks, model="gpt-5.5")
        reply = await model.chat("x", temperature=0.5, top_p=0.5, seed=1)
    attributes = telemetry.span().attributes
    asked = [name for name in ("temperature", "top_p", "seed") if f"gen_ai.request.{name}" in attributes]
    assert (asked, {warning.code for warning in reply.warnings}) == (["seed"], {"option_dropped"})


async def test_names_of_the_conventions() -> None:
    """Makers that the conventions know have their names there, tokens written to a cache are counted apart."""
    hosts = {
        "https://api.anthropic.com/v1": "anthropic",
        "https://bedrock-runtime.us-east-1.amazonaws.com": "aws.bedrock",
        "https://bedrock-mantle.us-east-1.api.aws/v1": "aws.bedrock",
        "https://europe-west1-aiplatform.googleapis.com/v1": "gcp.vertex_ai",
        "https://mine.openai.azure.com/openai/v1": "azure.ai.openai",
        "https://api.anthropic.com.example/v1": "main",
    }
    counts = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cache_write_tokens": 4}}
    body = text("Hi") + fin("stop") + event({"choices": [], "usage": counts}) + DONE
    for base_url, name in hosts.items():
        telemetry = Telemetry()
        async with client(body) as http_client:
            await provider(http_client, telemetry.hooks, base_url=base_url).chat("Hello")
        attributes = telemetry.span().attributes
        assert (attributes["gen_ai.provider.name"], attributes["gen_ai.usage.cache_creation.input_tokens"]) == (name, 4)


async def test_the_span_is_current_while_a_request_is_sent() -> None:
    """An HTTP client's own span, and the header that names its parent, are inside; the caller's is current again."""
    telemetry, seen = Telemetry(), list[int]()

    def answer(_: httpx.Request) -> httpx.Response:
        seen.append(trace.get_current_span().get_span_context().span_id)
        status = 503 if len(seen) == 1 else 200
        return httpx.Response(status, headers={"content-type": "text/event-stream"}, content=GOOD)

    before = trace.get_current_span()
    http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with http_client, provider(http_client, telemetry.hooks).chat_stream("Hello") as stream:
        async for _ in stream:
            assert trace.get_current_span() is before
    assert seen == [telemetry.span().context.span_id] * 2


async def test_an_error() -> None:
    """The span and the duration say which kind of error it was."""
    telemetry = Telemetry()
    async with client(500) as http_client:
        with pytest.raises(ServerError):
            await provider(http_client, telemetry.hooks, max_retries=0).chat("Hello")
    span = telemetry.span()
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "ServerError")
    assert "canary" not in span.to_json()
    assert telemetry.points()["gen_ai.client.operation.duration"][0][1] == {**COMMON, "error.type": "ServerError"}


async def test_an_answer_that_is_left() -> None:
    """The span ends with the stream, whoever ended it."""
    telemetry = Telemetry()
    async with client(text("Hi") * 3) as sender, provider(sender, telemetry.hooks).chat_stream("Hello") as stream:
        await anext(stream)
    assert telemetry.span().end_time is not None


async def test_a_stream_that_was_never_read() -> None:
    """Nothing was sent, so there is nothing to tell."""
    telemetry = Telemetry()
    async with client(GOOD) as http_client:
        await provider(http_client, telemetry.hooks).chat_stream("Hello").aclose()
    assert telemetry.points() == {}


async def test_content_only_on_demand() -> None:
    """What was said is recorded where it is asked for, pictures by name alone; else nowhere."""
    made = ToolCall("call_1", "look", {"at": "sky"}, '{"at": "sky"}')
    history = [
        user("What is this?", image(b"\x89PNG\r\n\x1a\n0000")),
        assistant("Let me see.", tool_calls=[made]),
        tool_result(made, "a cloud"),
    ]
    body = text("A cloud.") + call(entry(0, "call_2", "look", "{}")) + fin("tool_calls") + USAGE + DONE
    said = {}
    for content in (True, False):
        telemetry = Telemetry(content=content)
        async with client(body) as http_client:
            tools = [Tool("look", "Looks.", {"type": "object", "properties": {}})]
            await provider(http_client, telemetry.hooks).chat(history, tools)
        said[content] = telemetry.span()
    attributes = said[True].attributes
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What is this?\n[ImagePart]"}]},
        {"role": "assistant", "parts": [
            {"type": "text", "content": "Let me see."},
            {"type": "tool_call", "id": "call_1", "name": "look", "arguments": {"at": "sky"}},
        ]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "a cloud"}]},
    ]  # fmt: skip
    assert json.loads(attributes["gen_ai.output.messages"]) == [{
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "A cloud."},
            {"type": "tool_call", "id": "call_2", "name": "look", "arguments": {}},
        ],
        "finish_reason": "tool_calls",
    }]  # fmt: skip
    assert json.loads(attributes["gen_ai.tool.definitions"])[0]["name"] == "look"
    assert "cloud" not in said[False].to_json()


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "azure.ai.openai"),
        ("https://notapi.openai.com.example/v1", "main"),
        ("https://${GATEWAY}/v1", "main"),
    ],
)
async def test_names_of_providers(base_url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conventions' own name where the endpoint has one, else the configuration's; no host that is a secret."""
    monkeypatch.setenv("GATEWAY", "hidden.example")
    telemetry = Telemetry()
    async with client(GOOD) as http_client:
        await provider(http_client, telemetry.hooks, base_url=base_url).chat("Hello")
    span = telemetry.span()
    assert span.attributes["gen_ai.provider.name"] == name
    assert "hidden" not in span.to_json()


async def test_it_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without OpenTelemetry the error names the extra."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'streamfold-integrations\[otel\]'"):
        otel_hooks()
