"""The bridge to the OpenAI Agents SDK, under the SDK's own runner."""

from __future__ import annotations

import pytest

pytest.importorskip("agents.run", reason="the session `bridges` of nox installs openai-agents")
pytest.importorskip("openai_agents", reason="the examples are not part of what is installed")

from openai_agents import StreamfoldModel, StreamfoldModelProvider
from pydantic import BaseModel

from agents import Agent, ModelSettings, RunConfig, Runner, function_tool, handoff, set_tracing_disabled
from served_apps import serving_app
from streamfold import IncompleteStreamError, Provider
from streamfold.testing import ScriptedProvider, call, fail, say, think, usage
from streamfold_gateway import gateway

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
each_provider = pytest.mark.parametrize(
    "provider", ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-sonnet-4-5", "gemini:gemini-3-pro-preview"]
)
WEATHER = [think("Hm."), say("Let me ", "see."), call("get_weather", city="Paris"), usage(10, 5)]
ANSWER = [say('{"city": "Paris",', ' "degrees": 18}'), usage(20, 6)]


class Weather(BaseModel):
    """The final answer."""

    city: str
    degrees: int


@pytest.fixture(autouse=True)
def untraced() -> None:
    """Nothing is sent to OpenAI."""
    set_tracing_disabled(True)


class Tools:
    """A tool that notes its calls."""

    def __init__(self) -> None:
        self.cities = list[str]()

        @function_tool
        def get_weather(city: str) -> str:
            """Returns the weather of a city."""
            self.cities.append(city)
            return f"{city}: 18 C"

        @function_tool
        def get_time() -> str:
            """Returns the time."""
            return "noon"

        self.weather, self.time = get_weather, get_time


@each_provider
async def test_tools_structured_output_and_usage(provider: str, anyio_backend: str) -> None:
    """A run calls the tool, sends its result back, and parses the answer; all tokens are counted."""
    model, tools = ScriptedProvider(WEATHER, ANSWER, provider=provider), Tools()
    agent = Agent(
        name="a",
        instructions="Be brief.",
        model=StreamfoldModel(model),
        tools=[tools.weather],
        output_type=Weather,
        model_settings=ModelSettings(temperature=0.5, max_tokens=100, parallel_tool_calls=False),
    )
    result = await Runner.run(agent, "Weather?")
    assert result.final_output == Weather(city="Paris", degrees=18)
    assert tools.cities == ["Paris"]
    used = result.context_wrapper.usage
    assert (used.requests, used.input_tokens, used.output_tokens, used.total_tokens) == (2, 30, 11, 41)
    first, second = model.requests
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert (second.messages[2].content, second.messages[3].content) == ("Let me see.", "Paris: 18 C")
    assert second.messages[2].tool_calls[0].id == second.messages[3].tool_call_id
    assert [tool.name for tool in first.tools] == ["get_weather"]
    assert first.options.max_output_tokens == 100


@each_provider
async def test_text_is_streamed_and_calls_come_once(provider: str, anyio_backend: str) -> None:
    """The events of the run have the text in its pieces; the tool is run once."""
    model, tools = ScriptedProvider(WEATHER, ANSWER, provider=provider), Tools()
    agent = Agent(name="a", model=StreamfoldModel(model), tools=[tools.weather], output_type=Weather)
    result = Runner.run_streamed(agent, "Weather?")
    deltas = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(deltas) == 'Let me see.{"city": "Paris", "degrees": 18}'
    assert len(deltas) >= 4
    assert result.final_output == Weather(city="Paris", degrees=18)
    assert tools.cities == ["Paris"]
    assert result.context_wrapper.usage.total_tokens == 41


async def test_an_agent_hands_over_to_another(anyio_backend: str) -> None:
    """Handoffs are tools of the model; a call without arguments is one."""
    model, tools = ScriptedProvider(call("transfer_to_b"), call("get_time"), "It is noon."), Tools()
    other = Agent(name="b", model=StreamfoldModel(model), tools=[tools.time])
    agent = Agent(name="a", model=StreamfoldModel(model), handoffs=[handoff(other)])
    result = await Runner.run(agent, "What time is it?")
    assert result.final_output == "It is noon."
    assert result.last_agent is other
    assert [message.content for message in model.requests[2].messages if message.role == "tool"][-1] == "noon"


async def test_a_broken_answer_runs_no_tool(anyio_backend: str) -> None:
    """The error of the stream is what the run raises."""
    model, tools = ScriptedProvider([*WEATHER, fail(IncompleteStreamError)], then=ANSWER), Tools()
    agent = Agent(name="a", model=StreamfoldModel(model), tools=[tools.weather])
    streamed = Runner.run_streamed(agent, "Weather?")
    with pytest.raises(IncompleteStreamError):
        [event async for event in streamed.stream_events()]
    assert tools.cities == []


async def test_what_only_openai_has_stored_is_refused(anyio_backend: str) -> None:
    """A conversation that is kept elsewhere would be answered without its beginning."""
    from agents import UserError

    agent = Agent(name="a", model=StreamfoldModel(ScriptedProvider("Hi")))
    with pytest.raises(UserError, match="refer to what OpenAI stored"):
        await Runner.run(agent, "Hi", previous_response_id="resp_1")


async def test_models_are_found_by_name_over_http(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's model provider makes a model for each name; here of a server on loopback."""
    script, tools = ScriptedProvider(WEATHER, ANSWER, provider="anthropic:claude-sonnet-4-5"), Tools()
    with serving_app(gateway({"main": script.provider})) as url:
        config = {"adapter": "responses", "base_url": f"{url}/v1", "api_key": "k", "model": "main"}
        original = Provider.from_config
        monkeypatch.setattr(Provider, "from_config", lambda name: original({**config, "model": name}))
        models = StreamfoldModelProvider("main")
        agent = Agent(name="a", tools=[tools.weather], output_type=Weather)
        result = await Runner.run(agent, "Weather?", run_config=RunConfig(model_provider=models))
        assert models.get_model("main") is models.get_model(None)
        await models.aclose()
    assert result.final_output == Weather(city="Paris", degrees=18)
    assert tools.cities == ["Paris"]
