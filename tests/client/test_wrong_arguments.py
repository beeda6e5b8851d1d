"""Mistakes of a first program: the error says what to write."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
from pydantic import BaseModel

import streamfold.sync
from streamfold import ConfigError, Fallback, Provider, ProviderConfig, extract, run_tools
from streamfold.middleware import Middleware
from streamfold.testing import ScriptedProvider
from streamfold.tools import RunOptions, resume_tools

SPEC: Any = "openai:gpt-5-mini"


class City(BaseModel):
    name: str


TAKE_A_MODEL: dict[str, Callable[[Any], Any]] = {
    "Provider": Provider,
    "fallbacks=": lambda model: Provider(Provider.from_config("kimi").profile, fallbacks=[model]),
    "sync.Provider": streamfold.sync.Provider,
    "sync.run_tools": lambda model: streamfold.sync.run_tools(model, "Hi", []),
    "sync.resume_tools": lambda model: streamfold.sync.resume_tools(model, "{}", []),
    "Fallback": lambda model: Fallback(ScriptedProvider(), model),
    "Middleware": Middleware,
    "run_tools": lambda model: run_tools(model, "Hi", []),
    "resume_tools": lambda model: resume_tools(model, [{"role": "user", "content": "Hi"}], []),  # type: ignore[list-item]
    "extract": lambda model: extract(model, City, "Hi").send(None),
}


@pytest.mark.parametrize("function", TAKE_A_MODEL.values(), ids=list(TAKE_A_MODEL))
def test_a_name_where_a_model_belongs(function: Callable[[Any], Any]) -> None:
    """Each function that takes a model refuses its name and its settings, and says how a model is made."""
    with pytest.raises(ConfigError, match=r"write Provider\.from_config\('openai:gpt-5-mini'\)$"):
        function(SPEC)
    with pytest.raises(ConfigError, match=r"write Provider\.from_config\(\{\.\.\.\}\)$"):
        function({"profile": "openai", "api_key": "secret-of-mine"})
    for other in (None, 5, Provider):
        with pytest.raises(ConfigError, match=r"not (NoneType|int|Provider|type)"):
            function(other)


def test_a_key_where_a_model_belongs() -> None:
    """What may be a key is not quoted."""
    with pytest.raises(ConfigError) as raised:
        Fallback("sk-proj-0123456789abcdef0123456789")  # type: ignore[arg-type]
    assert "0123456789" not in str(raised.value)


def test_a_synchronous_provider_where_an_asynchronous_model_belongs() -> None:
    """Either kind of provider in the other's function: the error names the module."""
    made: Any = ScriptedProvider("Hi")
    with streamfold.sync.Provider(made) as provider:
        with pytest.raises(
            ConfigError,
            match=(
                r"asynchronous model: for <sync .*, use the function in"
                r" streamfold\.sync"
            ),
        ):
            run_tools(provider, "Hi", [])  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"takes a provider of streamfold\.sync: write Provider\(model\)"):
            streamfold.sync.run_tools(made, "Hi", [])


CALLS: dict[str, Callable[..., Any]] = {
    "chat": lambda **given: ScriptedProvider("Hi").chat("Hi", **given).send(None),
    "chat_stream": lambda **given: ScriptedProvider("Hi").chat_stream("Hi", **given),
    "run_tools": lambda **given: run_tools(ScriptedProvider("Hi"), "Hi", [], **given),
    "extract": lambda **given: extract(ScriptedProvider("{}"), City, "Hi", **given).send(None),
    "sync.chat": lambda **given: streamfold.sync.Provider(ScriptedProvider("Hi")).chat("Hi", **given),
    "sync.run_tools": lambda **given: streamfold.sync.run_tools(
        streamfold.sync.Provider(ScriptedProvider("Hi")), "Hi", [], **given
    ),
}
WORDS = {
    "max_tokens": "pass max_output_tokens=",
    "stop_sequences": "pass stop=",
    "thinking": "pass reasoning_effort=",
    "response_model": "pass response_format=",
    "instructions": "put system(...) at the start of the messages",
    "max_steps": "run_tools() has max_turns=",
    "max_concurrency": "batch() has concurrency=",
    "api_base": "Provider.from_config() has base_url=",
    "api_key": "Provider.from_config() accepts it",
    "user": "pass extra_body={'user': ...}",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_options_by_the_names_of_other_libraries(call: Callable[..., Any]) -> None:
    """Each function that takes options says what to write for the word of another library."""
    for name, hint in WORDS.items():
        with pytest.raises(ConfigError) as raised:
            call(**{name: 1})
        assert str(raised.value) == f"unknown option {name!r}: {hint}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("api_base", "unknown key (did you mean 'base_url'?)"),
        ("timeout", "unknown key (did you mean 'timeouts'?)"),
        ("max_concurrency", "unknown key (did you mean 'max_concurrent'?)"),
        ("temperature", 'a request option: write options = {"temperature": ...}'),
        ("max_tokens", 'a request option: write options = {"max_output_tokens": ...}'),
    ],
)
def test_keys_by_the_names_of_other_libraries(name: str, hint: str) -> None:
    """`from_config` says which key is meant, and where an option of calls is written."""
    with pytest.raises(ConfigError) as raised:
        Provider.from_config("openai", **{name: 1})  # type: ignore[arg-type]
    assert str(raised.value) == f"provider 'openai': {name}: {hint}"


def test_functions_that_other_words_point_to() -> None:
    """The functions have the arguments that the hints name."""
    assert {"max_turns", "external", "on_tool_error", "approve", "journal", "owner"} <= set(RunOptions.__annotations__)
    assert {"base_url", "max_retries", "api_key"} <= set(ProviderConfig.__annotations__)
    assert "attempts" in signature(extract).parameters
