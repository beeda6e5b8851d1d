"""langchain-openai: a chat model with bound tools, and the sum of its chunks."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from answering import Heard, answer_all
from langchain_openai import ChatOpenAI
from langchains import converse


def ask(command: dict[str, Any], heard: Heard) -> None:
    model: Any = ChatOpenAI(
        model=command["model"],
        base_url=command["base_url"],
        api_key=command["key"],
        max_retries=0,
        use_responses_api=command["api"] == "responses",
        stream_usage=True,
    )
    options = dict(command["options"])
    if command["tools"]:
        model = model.bind_tools(command["tools"], tool_choice=options.pop("tool_choice", None))
    converse(model, command, options, heard)


answer_all(ask, {name: version(name) for name in ("langchain-openai", "openai")})
