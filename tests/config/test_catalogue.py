"""Every endpoint of the catalogue: its file is complete, a request goes out by it, and its page is up to date."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from amazon import framed_as_bedrock
from scripts import loaded
from streamfold import ConfigError, Provider, tool_result, user
from streamfold.adapters import find_adapter
from streamfold.adapters.chat import ChatQuirks
from streamfold.adapters.kimi import KimiQuirks
from streamfold.adapters.responses import ResponsesQuirks
from streamfold.config import catalogue
from streamfold.config.catalogue import catalogue_folder, provider_files
from streamfold.config.file import read_profile
from streamfold.config.profile import Profile
from streamfold.engine.dialects import DialectContext, find_dialect
from streamfold.requests.model_facts import Capabilities
from streamfold.urls import variable_names
from tables import each_row

ROOT = Path(__file__).parents[2]
NAMES = sorted(provider_files())
# By the adapter; the others read Chat Completions.
ADDRESSES = {
    "AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com/",
    "DATABRICKS_HOST": "https://acme.cloud.databricks.com",
}
CALLS = {
    "responses": "openai/responses_parallel_calls",
    "anthropic": "anthropic/parallel_calls",
    "gemini": "gemini/native_parallel_calls",
    "interactions": "gemini-interactions/thoughts_and_calls",
}


def text(name: str) -> str:
    return provider_files()[name].read_text("utf-8")


def test_who_is_there() -> None:
    """Whoever looks for one of these finds it."""
    assert {
        "azure", "azure-responses", "bigmodel", "cerebras", "dashscope", "dashscope-cn", "deepseek", "fireworks",
        "gemini", "groq", "huggingface", "kimi", "kimi-cn", "kimi-code", "kimi-sglang", "kimi-vllm",
        "baseten", "cloudflare", "cohere", "databricks", "deepinfra", "github-copilot", "meta", "nebius", "nvidia",
        "perplexity", "sambanova", "vercel", "zai-coding",
        "litellm", "llamacpp", "lmstudio", "minimax", "mistral", "ollama", "openai", "openai-responses", "openrouter",
        "openrouter-responses", "sglang", "siliconflow", "together", "vllm", "volcengine", "xai", "xai-responses",
        "zai",
    } <= set(NAMES)  # fmt: skip


@each_row("name", NAMES)
def test_a_file_is_complete(name: str) -> None:
    """It is valid, says where its facts come from and when they were looked up, and holds no key."""
    values = tomllib.loads(text(name))
    profile = read_profile(name)
    profile.make_adapter()
    if profile.dialect:
        find_dialect(profile.dialect, DialectContext())
    assert profile.name == name
    assert str(values["docs"]).startswith("https://")
    assert type(values["checked"]) is date
    assert re.fullmatch(r"(https://|http://127\.0\.0\.1:|\$\{).*[^/]", values["base_url"])
    assert not {"api_key", "headers"} & values.keys()
    assert profile.evidence != "recorded" or any(map(is_recorded, (ROOT / "fixtures" / name).glob("*.toml")))
    assert text(name).startswith("# ")


def is_recorded(description: Path) -> bool:
    return tomllib.loads(description.read_text("utf-8"))["source"] == "recorded"


@each_row("name", NAMES)
def test_every_quirk_has_a_reason(name: str) -> None:
    """A comment beside it or above it; and it is no default, which would say nothing."""
    lines = text(name).partition("[quirks]\n")[2].partition("\n[")[0].splitlines()
    profile = read_profile(name)
    found = []
    for at, line in enumerate(lines):
        if (key := line.partition(" =")[0]) and not line.startswith("#"):
            found.append(key)
            assert re.search(r"# \S.{5,}", line) or (at and re.match(r"# \S.{5,}", lines[at - 1])), line
    assert found == list(tomllib.loads(text(name)).get("quirks", {}))  # those of its base have theirs there
    quirks = getattr(find_adapter(profile.adapter), "Quirks")  # noqa: B009 (not of the protocol)
    default = quirks() if quirks else None
    assert {key: value for key, value in profile.quirks.items() if getattr(default, key) == value} == {}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", NAMES)
async def test_a_request_and_its_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two turns with calls go to the endpoint's address with its key, and a recorded answer is read."""
    for variable, address in ADDRESSES.items():
        monkeypatch.setenv(variable, address)
    profile = read_profile(name)
    for variable in variable_names(profile.base_url):
        monkeypatch.setenv(variable, os.environ.get(variable, "acme"))
    for variable in profile.api_key_env[:1]:
        monkeypatch.setenv(variable, "k-test")
    recording = ROOT / "fixtures" / CALLS.get(profile.adapter, "openai/parallel_calls")
    body = recording.with_suffix(".sse").read_bytes()
    if profile.quirks.get("platform") == "bedrock":
        body = framed_as_bedrock(body)
    requests: list[httpx.Request] = []

    def answers(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, content=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answers)) as client:
        provider = Provider.from_config(name, model="some-model", http_client=client)
        asked: dict[str, Any] = {"tools": TOOLS, "max_output_tokens": 100, "temperature": 1.0}
        reply = await provider.chat("What is the weather, and what is the time?", **asked)
        assert len(reply.tool_calls) > 1
        history = [user("x"), reply.message, *(tool_result(call, "y") for call in reply.tool_calls)]
        await provider.chat(history, **asked)
    assert len(requests) == 2
    for request in requests:
        base, _, query = profile.base_url.partition("?")
        path = provider.preview("x").url.removeprefix(base)
        path = path.partition("?")[0] if query else path
        assert str(request.url) == profile.resolve().urls(path).sent
        keys = {key: value for key, value in request.headers.items() if "k-test" in value}
        assert keys == {key.lower(): value for key, value in profile.resolve().key_headers.items()}
        sent = json.loads(request.content)
        assert sent.get("model") == "some-model" or "/some-model" in request.url.path
        assert sent.get("stream", "stream" in str(request.url))
        tools = sent["tools"][0].get("functionDeclarations", sent["tools"])
        assert len(tools) == len(TOOLS)


TOOLS: list[Any] = [
    {"type": "function", "name": name, "description": "", "parameters": {"type": "object", "properties": {}}}
    for name in ("get_weather", "get_time")
]


def test_the_page_is_up_to_date() -> None:
    """After a change of a file, a quirk or a docstring: `nox -s catalogue`."""
    assert (catalogue_folder() / "README.md").read_text("utf-8") == loaded("tools/catalogue_page.py").page()


@each_row("kind", [Profile, Capabilities, ChatQuirks, KimiQuirks, ResponsesQuirks])
def test_everything_is_described(kind: Any) -> None:
    """Each key and quirk has its line in the docstring, which is what the page says of it."""
    own = kind.model_fields if kind is Profile else [field.name for field in fields(kind)]
    inherited = [field.name for field in fields(ChatQuirks)] if kind is KimiQuirks else []
    texts = loaded("tools/catalogue_page.py").described(kind)
    assert set(own) - set(inherited) <= set(texts) <= set(own)
    assert all(len(text) > 10 and not text.startswith(" ") for text in texts.values())


def test_an_installation_without_the_provider_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the configuration that says what to do, as every other one."""

    def missing() -> Path:
        raise FileNotFoundError("the provider files are missing from /x: install streamfold again")

    monkeypatch.setattr(catalogue, "catalogue_folder", missing)
    with pytest.raises(ConfigError, match="missing from /x: install streamfold again"):
        catalogue.provider_files.__wrapped__()
