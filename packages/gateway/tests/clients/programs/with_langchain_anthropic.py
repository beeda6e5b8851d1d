"""langchain-anthropic: a chat model with bound tools, and the sum of its chunks."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from answering import Heard, answer_all, in_anthropics_words
from langchain_anthropic import ChatAnthropic
from langchains import converse


def ask(command: dict[str, Any], heard: Heard) -> None:
    said = in_anthropics_words(command)
    tools, choice = said.pop("tools", []), said.pop("tool_choice", {})
    model: Any = ChatAnthropic(
        model=command["model"],
        base_url=command["base_url"].removesuffix("/v1"),
        api_key=command["key"],
        max_retries=0,
        **said,
    )
    if tools:
        model = model.bind_tools(tools, tool_choice=choice.get("type"))
    converse(model, command, {}, heard)


answer_all(ask, {name: version(name) for name in ("langchain-anthropic", "anthropic")})
