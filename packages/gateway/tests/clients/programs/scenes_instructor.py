"""The scenes by instructor: structured output is a call, and several calls are a list of models."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import anthropic
import instructor
import openai
from answering import Heard, answer_all
from google import genai
from pydantic import BaseModel
from scenes_tools import City


class get_weather(BaseModel):
    """The weather."""

    city: str


class get_time(BaseModel):
    """The time."""


def ask(command: dict[str, Any], heard: Heard) -> None:
    address, key, parallel = command["base_url"], command["key"], command["task"] == "tools"
    options: dict[str, Any] = {"model": command["model"]}
    match command["api"]:
        case "chat":
            mode = instructor.Mode.PARALLEL_TOOLS if parallel else instructor.Mode.TOOLS
            client: Any = instructor.from_openai(
                openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0), mode
            )
        case "responses":
            mode = instructor.Mode.RESPONSES_TOOLS
            client = instructor.from_openai(openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0), mode)
        case "messages":
            mode = instructor.Mode.ANTHROPIC_PARALLEL_TOOLS if parallel else instructor.Mode.ANTHROPIC_TOOLS
            client = instructor.from_anthropic(anthropic.Anthropic(base_url=address, api_key=key, max_retries=0), mode)
            options["max_tokens"] = 4000
        case _:
            http = genai.types.HttpOptions(base_url=address)
            client = instructor.from_genai(genai.Client(api_key=key, http_options=http))
    messages = [{"role": "user", "content": command["prompt"]}]
    asked: dict[str, Any] = {"messages": messages, "max_retries": 1, **options}
    if parallel:
        for call in client.chat.completions.create(response_model=Iterable[get_weather | get_time], **asked):
            heard.calls.append([type(call).__name__, call.model_dump()])
    elif command["task"] == "object" and command["stream"]:
        for city in client.chat.completions.create_partial(response_model=City, **asked):
            heard.text[:] = [city.model_dump_json()]
    elif command["task"] == "object":
        city, answer = client.chat.completions.create_with_completion(response_model=City, **asked)
        heard.text.append(city.model_dump_json())
        heard.usage = counts(answer)
    else:
        answer = client.chat.completions.create(response_model=None, **asked)
        heard.text.append(text(answer))
        heard.usage = counts(answer)


def text(answer: Any) -> str:
    """The text of an answer of any API."""
    if hasattr(answer, "choices"):
        return str(answer.choices[0].message.content or "")
    if hasattr(answer, "content"):
        return "".join(block.text for block in answer.content if block.type == "text")
    return str(answer.output_text if hasattr(answer, "output_text") else answer.text)


def counts(answer: Any) -> dict[str, Any]:
    """Its counts of tokens."""
    usage = getattr(answer, "usage", None) or answer.usage_metadata
    return {name: value for name, value in usage.model_dump().items() if value}


answer_all(ask, {name: version(name) for name in ("instructor", "openai", "anthropic", "google-genai")})
