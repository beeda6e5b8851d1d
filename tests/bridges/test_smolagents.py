"""The bridge to smolagents, under its own agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="the session `bridges` of nox installs smolagents")
pytest.importorskip("smolagents_model", reason="the examples are not part of what is installed")

from smolagents import CodeAgent, ToolCallingAgent, tool
from smolagents.agents import AgentError
from smolagents.models import ChatMessage, ChatMessageStreamDelta, MessageRole, agglomerate_stream_deltas
from smolagents_model import StreamfoldModel

from served_apps import serving_app
from streamfold import ChatModel, IncompleteStreamError, Provider
from streamfold.testing import ScriptedProvider, call, fail, say, think, usage
from streamfold_gateway import gateway

PROVIDERS = ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro-preview"]
WEATHER = [think("Hm."), say("Let me ", "see."), call("get_weather", city="Paris"), usage(10, 5)]
FINAL = [call("final_answer", answer="It is 18 C."), usage(20, 6)]
CITIES = list[str]()


@tool
def get_weather(city: str) -> str:
    """Returns the weather of a city.

    Args:
        city: The name of the city.
    """
    CITIES.append(city)
    return f"{city}: 18 C"


@pytest.fixture(autouse=True)
def no_calls_before() -> None:
    CITIES.clear()


@contextmanager
def bridge(model: ChatModel) -> Iterator[StreamfoldModel]:
    made = StreamfoldModel(model)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agent_calls_its_tools(provider: str, stream: bool) -> None:
    """A run calls each tool once and counts the tokens, streamed or not; the tool choice is forced."""
    script = ScriptedProvider(WEATHER, FINAL, provider=provider)
    with bridge(script) as model:
        agent = ToolCallingAgent([get_weather], model, stream_outputs=stream, verbosity_level=0)
        assert agent.run("Weather in Paris?") == "It is 18 C."
    assert CITIES == ["Paris"]
    used = agent.monitor.get_total_token_counts()
    assert (used.input_tokens, used.output_tokens) == (30, 11)
    assert [each.name for each in script.requests[0].tools] == ["get_weather", "final_answer"]
    assert script.requests[0].options.stop or script.requests[0].warnings
    assert "Paris: 18 C" in str(script.requests[1].messages)


def test_text_is_streamed_and_calls_come_at_the_end() -> None:
    """The deltas are the pieces of the text, then the complete calls with the usage."""
    script = ScriptedProvider([say("a", "b"), call("get_weather", city="Rome"), call("get_weather"), usage(1, 2)])
    with bridge(script) as model:
        question = ChatMessage(MessageRole.USER, [{"type": "text", "text": "Hi"}])
        deltas: list[ChatMessageStreamDelta] = list(model.generate_stream([question], tools_to_call_from=[get_weather]))
    assert [delta.content for delta in deltas] == ["a", "b", None]
    message = agglomerate_stream_deltas(deltas)
    assert [each.function.arguments for each in message.tool_calls] == ['{"city": "Rome"}', "{}"]
    assert (message.token_usage.input_tokens, message.token_usage.output_tokens) == (1, 2)


def test_structured_output_of_a_code_agent() -> None:
    """The response format of smolagents, Chat's form, is sent; the code in the answer is run."""
    script = ScriptedProvider('{"thought": "Easy.", "code": "final_answer(6 * 7)"}')
    with bridge(script) as model:
        agent = CodeAgent([], model, use_structured_outputs_internally=True, verbosity_level=0)
        assert agent.run("6 * 7?") == 42
    wanted: Any = script.requests[0].options.response_format
    assert wanted.name == "ThoughtAndCodeAnswer"


@pytest.mark.parametrize("stream", [False, True])
def test_a_broken_answer_runs_no_tool(stream: bool) -> None:
    """The agent sees an error, and the next step is another request."""
    script = ScriptedProvider([*WEATHER, fail(IncompleteStreamError)])
    with bridge(script) as model:
        agent = ToolCallingAgent([get_weather], model, stream_outputs=stream, verbosity_level=0)
        with pytest.raises(AgentError, match=r"ended|broke|incomplete"):
            agent.run("Weather in Paris?")
    assert CITIES == []


def test_a_model_over_http() -> None:
    """A server on loopback, as a program has it."""
    script = ScriptedProvider(WEATHER, FINAL, provider="anthropic:claude-sonnet-4-5")
    with serving_app(gateway({"main": script.provider})) as url:
        config = {"adapter": "gemini", "base_url": f"{url}/v1beta", "api_key": "k", "model": "main"}
        with bridge(Provider.from_config(config)) as model:
            agent = ToolCallingAgent([get_weather], model, verbosity_level=0)
            assert agent.run("Weather in Paris?") == "It is 18 C."
    assert CITIES == ["Paris"]
