"""The scenes by agno, by the model class that it has for each API."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.models.google import Gemini
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.run.agent import RunCompletedEvent, RunContentEvent, RunErrorEvent, RunOutput
from agno.run.base import RunStatus
from answering import Heard, answer_all
from google.genai import types
from scenes_tools import City, tools


def model(command: dict[str, Any]) -> Any:
    address, name, key = command["base_url"], command["model"], command["key"]
    match command["api"]:
        case "chat":
            return OpenAIChat(id=name, api_key=key, base_url=f"{address}/v1", max_retries=0)
        case "responses":
            return OpenAIResponses(
                id=name, api_key=key, base_url=f"{address}/v1", max_retries=0, reasoning_summary="auto"
            )
        case "messages":
            thinking = {} if command["task"] == "object" else {"type": "enabled", "budget_tokens": 2000}
            params = {"base_url": address, "max_retries": 0}
            return Claude(id=name, api_key=key, client_params=params, thinking=thinking or None)
        case _:
            params = {"http_options": types.HttpOptions(base_url=address)}
            return Gemini(id=name, api_key=key, client_params=params, include_thoughts=True)


class RunFailed(Exception):
    """A run that says so in its output, and raises nothing."""


def ask(command: dict[str, Any], heard: Heard) -> None:
    agent = Agent(
        model=model(command),
        tools=tools(heard) if command["task"] == "tools" else [],
        output_schema=City if command["task"] == "object" else None,
        telemetry=False,
    )
    if command["stream"]:
        ended: Any = None
        for event in agent.run(command["prompt"], stream=True, stream_events=True):
            if isinstance(event, RunErrorEvent):
                raise RunFailed(f"{event.error_type}: {event.content}")
            if isinstance(event, RunContentEvent):
                heard.text.append(event.content if isinstance(event.content, str) else "")
                heard.reasoning.append(event.reasoning_content or "")
            elif isinstance(event, RunCompletedEvent):
                ended = event
    else:
        ended = agent.run(command["prompt"])
        assert isinstance(ended, RunOutput)
        if ended.status == RunStatus.error:
            raise RunFailed(str(ended.content))
        heard.text.append(ended.content if isinstance(ended.content, str) else "")
        heard.reasoning.append(ended.reasoning_content or "")
    if isinstance(ended.content, City):
        heard.text[:] = [ended.content.model_dump_json()]
    counts = ended.metrics
    names = ("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "reasoning_tokens")
    heard.usage = {name: getattr(counts, name) for name in names}


answer_all(ask, {name: version(name) for name in ("agno", "openai", "anthropic", "google-genai")})
