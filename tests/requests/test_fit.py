"""What becomes of options that a model or its endpoint does not take: exact, renamed, clamped, emulated, dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamfold import ConfigError, Provider, Tool
from streamfold.requests import (
    EFFORTS,
    Family,
    OptionRules,
    Options,
    fit_options,
    fit_sampling,
    is_reasoning_enabled,
    nearest_effort,
)
from tables import each_row

TOOL = Tool("look", "looks", {"type": "object", "properties": {}})
CHAT = OptionRules(chat=True)
FORCED: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "disable_thinking_for_forced_tools": True}


def fitted(family: Family, rules: OptionRules = CHAT, *, tools: bool = False, **asked: Any) -> tuple[Any, list[str]]:
    """The options that differ from those asked for, and the codes of the warnings."""
    options, warnings = fit_options(Options(**asked), family, rules, model="m", tools=tools)
    options, sampling = fit_sampling(options, family, rules, model="m")
    names = [*asked, "cut_at"]
    changed = {name: getattr(options, name) for name in names if getattr(options, name) != asked.get(name)}
    return changed, [warning.code for warning in (*warnings, *sampling)]


ALWAYS = Family(thinking="always", efforts=("low", "high"))
NO_LEVELS, LEAST = OptionRules(efforts=False), OptionRules(least_output_tokens=16)
SHORT, SEEN = OptionRules(stop_bytes=1), OptionRules(blank_stops=False)
SWITCH = Family(thinking="default", efforts=())


@each_row(
    ("family", "rules", "asked", "changed", "codes"),
    [
        # unknown: sent
        (Family(), CHAT, {"temperature": 9, "seed": 1, "stop": "x", "reasoning_effort": "max"}, {}, []),
        # sampling
        (Family(sampling="no"), CHAT, {"temperature": 1}, {"temperature": None}, ["option_dropped"]),
        (Family(sampling="default"), CHAT, {"temperature": 1, "top_p": 1}, {"temperature": None, "top_p": None}, []),
        (Family(sampling="default"), CHAT, {"top_p": 0.5}, {"top_p": None}, ["option_dropped"]),
        (Family(sampling="one_of"), CHAT, {"temperature": 0.2, "top_p": 0.9}, {"top_p": None}, ["option_dropped"]),
        (Family(sampling="one_of"), CHAT, {"temperature": 1, "top_p": 0.9}, {"temperature": None}, []),
        (Family(sampling="one_of"), CHAT, {"temperature": 0.2, "top_p": 1}, {"top_p": None}, []),
        (Family(sampling="ignored"), CHAT, {"temperature": 0.2}, {"temperature": None}, ["option_dropped"]),
        (Family(temperature_max=1.0), CHAT, {"temperature": 1.4}, {"temperature": 1.0}, ["option_changed"]),
        (Family(temperature_max=1.0), CHAT, {"temperature": -0.1}, {"temperature": 0.0}, ["option_changed"]),
        (Family(), OptionRules(sampling=False), {"temperature": 0.2}, {"temperature": None}, ["option_dropped"]),
        # levels: never less thought than was asked for
        (ALWAYS, CHAT, {"reasoning_effort": "medium"}, {"reasoning_effort": "high"}, ["option_changed"]),
        (ALWAYS, CHAT, {"reasoning_effort": "max"}, {"reasoning_effort": "high"}, ["option_changed"]),
        (ALWAYS, CHAT, {"reasoning_effort": "none"}, {"reasoning_effort": "low"}, ["option_changed"]),
        (ALWAYS, NO_LEVELS, {"reasoning_effort": "low"}, {"reasoning_effort": None}, ["option_dropped"]),
        (SWITCH, OptionRules(switch=True), {"reasoning_effort": "low"}, {}, ["option_changed"]),
        (SWITCH, OptionRules(switch=True), {"reasoning_effort": "none"}, {}, []),
        (SWITCH, CHAT, {"reasoning_effort": "high"}, {"reasoning_effort": None}, ["option_dropped"]),
        (Family(thinking="never"), CHAT, {"reasoning_effort": "low"}, {"reasoning_effort": None}, ["option_dropped"]),
        (Family(reasoning="no"), CHAT, {"reasoning_effort": "low"}, {"reasoning_effort": None}, ["option_dropped"]),
        (
            Family(thinking="default", efforts=("low", "max"), efforts_on_chat=("low",)),
            CHAT, {"reasoning_effort": "max"}, {"reasoning_effort": "low"}, ["option_changed"],
        ),
        # the end of the answer
        (Family(max_output_tokens=5), CHAT, {"max_output_tokens": 9}, {"max_output_tokens": 5}, ["option_changed"]),
        (Family(), LEAST, {"max_output_tokens": 9}, {"max_output_tokens": 16}, ["option_changed"]),
        (Family(stop="no"), CHAT, {"stop": "E"}, {"stop": None, "cut_at": ("E",)}, ["option_emulated"]),
        (Family(), OptionRules(stops=1), {"stop": ["a", "b"]}, {"stop": ["a"], "cut_at": ("b",)}, ["option_emulated"]),
        (Family(), SHORT, {"stop": ["a", "é"]}, {"stop": ["a"], "cut_at": ("é",)}, ["option_emulated"]),
        (Family(), SEEN, {"stop": ["\n"]}, {"stop": None, "cut_at": ("\n",)}, ["option_emulated"]),
        (Family(), CHAT, {"stop": [""]}, {"stop": None}, ["option_dropped"]),
        (Family(), OptionRules(seed=False), {"seed": 0}, {"seed": None}, ["option_dropped"]),
    ],
)  # fmt: skip
def test_each_option(family: Family, rules: OptionRules, asked: Any, changed: Any, codes: list[str]) -> None:
    """One rule for all APIs; "strict" makes an error of each change, and nothing else."""
    assert fitted(family, rules, **asked) == (changed, codes)
    if codes:
        with pytest.raises(ConfigError, match='unsupported_options is "strict"'):
            fitted(family, rules, unsupported_options="strict", **asked)
    else:
        assert fitted(family, rules, unsupported_options="strict", **asked) == (changed, [])


def test_calls_one_at_a_time() -> None:
    """True is what such a model does anyway; without tools the option means nothing."""
    gemini = OptionRules(parallel_calls=False)
    gone = {"parallel_tool_calls": None}
    assert fitted(Family(), gemini, tools=True, parallel_tool_calls=True) == (gone, [])
    assert fitted(Family(), gemini, tools=True, parallel_tool_calls=False) == (gone, ["option_dropped"])
    assert fitted(Family(parallel_calls="no"), tools=True, parallel_tool_calls=False) == (gone, ["option_dropped"])
    assert fitted(Family(), tools=True, parallel_tool_calls=False) == ({}, [])
    assert fitted(Family(), parallel_tool_calls=False) == (gone, [])


def test_sampling_while_it_thinks() -> None:
    """Whether it thinks is said by the effort, by the caller's own members of the body, or by the model's default."""
    family = Family(thinking="default", samples_while_thinking=False)
    gone = ({"temperature": None}, ["option_dropped"])
    assert fitted(family, temperature=0.2) == gone
    assert fitted(family, temperature=0.2, reasoning_effort="none") == ({}, [])
    assert fitted(family, temperature=0.2, extra_body={"thinking": {"type": "disabled"}}) == ({}, [])
    asked = Family(thinking="asked", samples_while_thinking=False)
    assert fitted(asked, temperature=0.2) == ({}, [])
    assert fitted(asked, temperature=0.2, reasoning_effort="low") == gone
    assert fitted(asked, temperature=0.2, extra_body={"reasoning_effort": "low"}) == gone
    assert is_reasoning_enabled(Options(), Family()) is None


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ("anthropic:claude-sonnet-4-5", {"reasoning_effort": "low", "max_output_tokens": 500}),
        ("anthropic:claude-sonnet-4-5", {"reasoning_effort": "low", **FORCED}),
        ("deepseek:deepseek-v3.2", {"reasoning_effort": "low", **FORCED}),
        ("kimi:kimi-k2.6", FORCED),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_sampling_where_thinking_was_switched_off(spec: str, asked: dict[str, Any], stream: bool) -> None:
    """A request whose thinking is off, for another option's sake, is sent what the same request without effort is."""
    provider = Provider.from_config(spec, api_key="k")
    found = provider.preview("Hi", stream=stream, temperature=0.3, **asked)
    off = provider.preview("Hi", stream=stream, temperature=0.3, **{**asked, "reasoning_effort": "none"})
    assert found.json() == off.json()
    dropped = [warning.detail for warning in found.warnings if "temperature" in warning.detail]
    assert dropped == [warning.detail for warning in off.warnings if "temperature" in warning.detail]


def test_every_level_becomes_one_that_the_model_has() -> None:
    """The lowest that is not below the one asked for, else the highest."""
    for levels in (("low", "high"), ("none", "medium"), ("max",), EFFORTS):
        for wanted in EFFORTS[1:]:
            got = nearest_effort(wanted, levels)  # type: ignore[arg-type]
            above = [level for level in EFFORTS if level in levels and EFFORTS.index(level) >= EFFORTS.index(wanted)]
            assert got == (above[0] if above else [level for level in EFFORTS if level in levels][-1])


# --- which API -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "model", "more", "api"),
    [
        ("openai", "gpt-4.1", {}, "chat"),
        ("openai", "gpt-5-mini", {}, "chat"),
        ("openai", "gpt-5.4", {}, "responses"),
        ("openai", "gpt-5.3-codex", {}, "responses"),
        ("openai", "gpt-6-astra", {}, "responses"),
        ("openai", "brand-new", {}, "chat"),
        ("openai", "gpt-6-sol", {"base_url": "http://llm.example/v1"}, "chat"),
        ("openai", "gpt-6-sol", {"base_url": "https://eu.api.openai.com/v1"}, "responses"),
        ("openai", "gpt-6-sol", {"api": "chat"}, "chat"),
        ("openai", "gpt-6-sol", {"adapter": "chat"}, "chat"),
        ("openai", "gpt-4.1", {"api": "responses"}, "responses"),
        ("azure", "ours", {"model_family": "gpt-6-sol"}, "responses"),
        ("azure", "gpt-4.1", {}, "chat"),
        ("openai-responses", "gpt-4.1", {}, "responses"),
        ("openrouter", "openai/gpt-6-sol", {}, "chat"),
        ("xai", "grok-4.5", {}, "chat"),
        ({"base_url": "https://api.openai.com/v1", "api": "auto"}, "gpt-5.4-pro", {}, "responses"),
    ],
)
def test_apis(spec: Any, model: str, more: dict[str, Any], api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Responses API where Chat Completions refuses, at the maker's own address alone; `preview` shows it."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://name.openai.azure.com")
    provider = Provider.from_config(spec, model=model, **more)
    assert provider.preview("x").url.endswith({"chat": "/chat/completions", "responses": "/responses"}[api])
    facts = provider.facts()
    assert facts is not None
    assert facts.endpoints[0].adapter == api


def test_tools_on_an_api_that_is_pinned() -> None:
    """Without thinking where that is enough; else an error that says which API takes them."""

    def pinned(model: str, **options: Any) -> Any:
        return Provider.from_config("openai", model=model, api="chat").preview("x", [TOOL], **options)

    assert pinned("gpt-5.6").json()["reasoning_effort"] == "none"
    assert [warning.code for warning in pinned("gpt-5.6").warnings] == ["option_changed"]
    assert "reasoning_effort" not in pinned("gpt-5.4").json()
    for model, options in (("gpt-5.4", {"reasoning_effort": "low"}), ("gpt-6-astra", {}), ("gpt-5.5-pro", {})):
        with pytest.raises(ConfigError, match="openai-responses"):
            pinned(model, **options)


# --- the form of the answer -------------------------------------------------------------------------------------------


@each_row(
    ("spec", "messages", "codes"),
    [
        ("openai:gpt-4.1", "Name a river", ["response_format_changed"]),
        ("openai:gpt-4.1", "Name a river, as Json", []),
        ("openai-responses:gpt-4.1", "Name a river", ["response_format_changed"]),
        ("dashscope:qwen-max", "Name a river", ["response_format_changed"]),
        ("anthropic:claude-sonnet-4-5", "Name a river, as JSON", ["response_format_changed"]),
        ("gemini:gemini-2.5-pro", "Name a river", []),
        ("vllm:some", "Name a river", []),
    ],
)
def test_any_json(spec: str, messages: str, codes: list[str]) -> None:
    """Asked for by JSON mode, with the word where that is demanded, or by an instruction alone."""
    ready = Provider.from_config(spec).preview(messages, response_format="json")
    assert [warning.code for warning in ready.warnings] == codes
    assert ("JSON" in json.dumps(ready.json()) or "json" in json.dumps(ready.json())) or not codes
    if codes:
        with pytest.raises(ConfigError, match="strict"):
            Provider.from_config(spec, unsupported_options="strict").preview(messages, response_format="json")
