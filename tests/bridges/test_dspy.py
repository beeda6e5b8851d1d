"""The bridge to DSPy, under its own modules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("dspy", reason="the session `bridges` of nox installs dspy")
pytest.importorskip("dspy_lm", reason="the examples are not part of what is installed")

import dspy
from dspy_lm import StreamfoldLM

from served_apps import serving_app
from streamfold import ChatModel, IncompleteStreamError, Provider
from streamfold.testing import ScriptedProvider, call, fail, say, think, usage
from streamfold_gateway import gateway

# DSPy 3.4 warns of classes like this one and of its own adapters' messages.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]
PROVIDERS = ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro-preview"]
FIELDS = [think("Hm."), say('{"city": "Paris", ', '"degrees": 18}'), usage(10, 5)]


class Weather(dspy.Signature):
    """Reads the weather in a text."""

    text: str = dspy.InputField()
    city: str = dspy.OutputField()
    degrees: int = dspy.OutputField()


class Ask(dspy.Signature):
    """Answers with tools."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    outputs: dspy.ToolCalls = dspy.OutputField()


def get_weather(city: str) -> str:
    """Returns the weather of a city."""
    return f"{city}: 18 C"


@contextmanager
def bridge(model: ChatModel, **options: Any) -> Iterator[StreamfoldLM]:
    made = StreamfoldLM(model, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_structured_output_and_usage(provider: str, anyio_backend: str) -> None:
    """The fields of a signature are asked for as a schema and read, in both worlds; tokens are counted."""
    script = ScriptedProvider(FIELDS, FIELDS, provider=provider)
    with (
        bridge(script, temperature=0.5, max_tokens=100) as lm,
        dspy.context(lm=lm, adapter=dspy.JSONAdapter(), track_usage=True),
    ):
        found = dspy.Predict(Weather)(text="18 C in Paris.")
        again = await dspy.Predict(Weather).acall(text="18 C in Paris.")
    assert (found.city, found.degrees) == (again.city, again.degrees) == ("Paris", 18)
    [counted] = found.get_lm_usage().values()
    assert (counted["prompt_tokens"], counted["completion_tokens"], counted["total_tokens"]) == (10, 5, 15)
    wanted: Any = script.requests[0].options
    assert wanted.response_format is not None or provider.startswith("anthropic")
    assert wanted.max_output_tokens == 100


@pytest.mark.parametrize("provider", PROVIDERS)
def test_native_tool_calls(provider: str, anyio_backend: str) -> None:
    """Tools are sent as tools, and the calls of the answer are those of the field."""
    script = ScriptedProvider([call("get_weather", city="Paris"), call("get_weather")], provider=provider)
    adapter = dspy.ChatAdapter(use_native_function_calling=True)
    with bridge(script) as lm, dspy.context(lm=lm, adapter=adapter):
        found = dspy.Predict(Ask)(question="Weather?", tools=[dspy.Tool(get_weather)])
    assert [(each.name, each.args) for each in found.outputs.tool_calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {}),
    ]
    assert [each.name for each in script.requests[0].tools] == ["get_weather"]


def test_an_agent_of_dspy(anyio_backend: str) -> None:
    """ReAct's turns are answered one after the other."""
    steps = [
        {"next_thought": "t", "next_tool_name": "get_weather", "next_tool_args": {"city": "Paris"}},
        {"next_thought": "t", "next_tool_name": "finish", "next_tool_args": {}},
        {"reasoning": "r", "answer": "18 C"},
    ]
    script = ScriptedProvider(*map(json.dumps, steps))
    with bridge(script) as lm, dspy.context(lm=lm, adapter=dspy.JSONAdapter(use_native_function_calling=False)):
        found = dspy.ReAct("question -> answer", tools=[get_weather])(question="Weather?")
    assert found.answer == "18 C"
    assert "Paris: 18 C" in str(script.requests[1].messages)


def test_a_broken_answer_is_an_error(anyio_backend: str) -> None:
    """No fields are made of half an answer."""
    script = ScriptedProvider([say('{"city": "Paris", "degrees": 1'), fail(IncompleteStreamError)], provider="openai")
    with (
        bridge(script) as lm,
        dspy.context(lm=lm, adapter=dspy.JSONAdapter(use_native_function_calling=False)),
        pytest.raises(Exception) as caught,
    ):
        dspy.Predict(Weather)(text="18 C in Paris.")
    errors = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert any(isinstance(error, IncompleteStreamError) for error in errors)


def test_several_answers_at_once_are_refused(anyio_backend: str) -> None:
    """One stream carries one answer."""
    with bridge(ScriptedProvider("Hi")) as lm, pytest.raises(ValueError, match="n is always 1"):
        lm("Hi", n=2)


def test_a_model_over_http(anyio_backend: str) -> None:
    """A server on loopback, as a program has it."""
    script = ScriptedProvider(FIELDS, provider="gemini:gemini-3-pro-preview")
    with serving_app(gateway({"main": script.provider})) as url:
        config = {"adapter": "chat", "base_url": f"{url}/v1", "api_key": "k", "model": "main"}
        with bridge(Provider.from_config(config)) as lm, dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            found = dspy.Predict(Weather)(text="18 C in Paris.")
    assert (found.city, found.degrees) == ("Paris", 18)
