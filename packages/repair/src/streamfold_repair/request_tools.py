"""Parses the tools and the tool choice in a client's request. The server validates the request itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamfold import ConfigError, Tool
from streamfold.serving import ReadToolChoice, as_tools, read_tool_choice


def tools_asked(entries: Iterable[Any]) -> tuple[Tool, ...]:
    """Returns the function tools of a request."""
    return tuple(_functions(entries))


def choice_asked(choice: Any, tools: tuple[Tool, ...]) -> ReadToolChoice:
    """Returns the tool choice of a request; "auto" if the request makes no choice among its function tools."""
    if isinstance(choice, Mapping) and choice.get("type") == "none":  # Anthropic's word
        return "none"
    try:
        return read_tool_choice(read_tool_choice(choice, tools), tools)  # hosted tools have no name to go by
    except ConfigError:
        return "auto"


def _functions(entries: Iterable[Any]) -> Iterator[Tool]:
    for entry in entries:
        try:
            yield from as_tools([entry])
        except ConfigError:
            continue  # a tool of another kind
