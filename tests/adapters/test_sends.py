"""The options that an adapter says it sends are those that its requests have, at every endpoint of the catalogue."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import scale
from streamfold import ConfigError, Tool
from streamfold.adapters import EncodingReport, find_adapter
from streamfold.config.catalogue import provider_files
from streamfold.config.file import read_profile
from streamfold.requests import NO_OPTIONS, Request, with_endpoint_defaults
from tables import each_row

LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "max_output_tokens": {"max_output_tokens": 2048},
    "stop": {"stop": ["END"]},
    "seed": {"seed": 7},
    "parallel_tool_calls": {"parallel_tool_calls": False},
    "reasoning_effort": {"reasoning_effort": "low"},
    "compact_threshold": {"compact_threshold": 90_000},
    "response_format": {"response_format": SCHEMA},
    "tools": {"tools": [LOOK]},
    "tool_choice": {"tool_choice": "required"},
}
FILE = tomllib.loads((Path(__file__).parents[2] / "providers" / "families.toml").read_text())
MODELS = ["any", *(model for family in FILE["families"] for model in family.get("examples", ()))]


def both(option: str, model: str) -> tuple[Request, Request]:
    """A request without an option, and the same with it."""

    def read(tools: Any = (), tool_choice: Any = "auto", **options: Any) -> Request:
        return Request.read(model, "Hello", tools, tool_choice, options)

    base: dict[str, Any] = {"tools": [LOOK]} if option in ("tool_choice", "parallel_tool_calls") else {}
    return read(**base), read(**{**base, **OPTIONS[option]})


@each_row("name", ["anthropic", "chat", "gemini", "interactions", "kimi", "responses"])
def test_the_declaration_is_what_encode_writes(name: str) -> None:
    """Each option that it names changes the body, and no other one does."""
    adapter = find_adapter(name)()
    family = adapter.prepare(both("tools", "any")[0]).request.family
    bodies = {
        option: [adapter.encode(replace(each, family=family), EncodingReport()) for each in both(option, "any")]
        for option in OPTIONS
    }
    assert {option for option, (without, having) in bodies.items() if without != having} == set(adapter.sends)


@each_row("name", sorted(provider_files()))
def test_no_option_is_lost_silently(name: str) -> None:
    """Of every endpoint and model: an option changes the body, or there is a warning about it, or an error."""
    profile = read_profile(name)
    for model in scale.some(MODELS, 3):
        adapter, family = profile.make_adapter(model), profile.family_of(model)
        for option in OPTIONS:
            pair = [with_endpoint_defaults(each, model, NO_OPTIONS, "here", family) for each in both(option, model)]
            with suppress(ConfigError):
                without, having = map(adapter.prepare, pair)
                assert having.body != without.body or set(having.warnings) - set(without.warnings), (model, option)
