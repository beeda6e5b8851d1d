"""What is particular to an endpoint: its documented answer is read, and the next request has what it wants back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import Provider, Reply, WebSearch, tool_result, user
from streamfold.config.file import read_profile
from streamfold.recording import Recording
from tables import each_row

FIXTURES = Path(__file__).parents[2] / "fixtures"
TIDE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_tide", "description": "", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and keys of nobody."""
    monkeypatch.setenv("DATABRICKS_HOST", "https://acme.cloud.databricks.com")
    for row in (*REQUESTS, "nvidia"):
        monkeypatch.setenv(read_profile(row).api_key_env[0], "k-test")


async def answered(row: str, fixture: str, **options: Any) -> tuple[Reply, dict[str, Any]]:
    """The answer of a fixture at an endpoint of the catalogue, and the body of the request that answers its calls."""
    body = Recording.load(FIXTURES / fixture).body
    sent: list[dict[str, Any]] = []

    def answers(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, content=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answers)) as client:
        provider = Provider.from_config(row, model="some-model", http_client=client)
        reply = await provider.chat("How is the tide?", [TIDE], **options)
        results = [tool_result(call, "low") for call in reply.tool_calls] or [user("Thanks.")]
        await provider.chat([user("How is the tide?"), reply.message, *results], [TIDE], **options)
    return reply, sent[1]


async def test_sources_of_perplexity() -> None:
    """Its searches are steps of a hosted tool, sources are citations, the cost is its own; text alone goes back."""
    reply, sent = await answered("perplexity", "perplexity/research")
    assert [(part.kind, part.part, part.input) for part in reply.hosted] == [("web_search", "both", ["harbour opened"])]
    [cited] = reply.citations
    assert (cited.url, cited.title) == ("https://harbour.example/history", "The harbour")
    assert (cited.start, cited.end) == (26, 29)
    assert reply.usage is not None
    assert reply.usage.tools == {"web_search": 1}
    assert reply.cost is not None
    assert (float(reply.cost.amount), reply.cost.source) == (0.00515, "provider")
    assert sent["input"][1] == {"type": "message", "role": "assistant", "content": "The harbour opened in 1887[1]."}


async def test_calls_of_perplexity() -> None:
    """The signature of a call goes back with it, and the members that the API doesn't have are not sent."""
    schema = {"type": "object", "properties": {"low": {"type": "boolean"}}}
    _, sent = await answered("perplexity", "perplexity/signed_call", tool_choice="required", response_format=schema)
    assert sent["input"][1:] == [
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_tide",
            "arguments": '{"port": "Lagos"}',
            "thought_signature": "c2lnbmVk",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "low"},
    ]
    assert sent["response_format"]["json_schema"]["schema"] == schema
    assert not {"tool_choice", "text", "include"} & sent.keys()


def test_tools_of_perplexity() -> None:
    """A search is limited to domains in its own words; with the choice "none" no tool is sent."""
    provider = Provider.from_config("perplexity:perplexity/sonar")
    search = WebSearch(allowed_domains=("a.example",), context_size="low")
    body = json.loads(provider.preview("x", [search]).body)
    assert body["tools"] == [
        {"type": "web_search", "filters": {"search_domain_filter": ["a.example"]}, "search_context_size": "low"}
    ]
    assert "tools" not in json.loads(provider.preview("x", [TIDE], tool_choice="none").body)


async def test_thinking_of_databricks() -> None:
    """The parts go back in front of the text, joined, with Claude's signature."""
    reply, sent = await answered("databricks", "databricks/thinking_in_parts")
    assert reply.reasoning == "Lagos has two tides."
    assert sent["messages"][1]["content"] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Lagos has two tides.", "signature": "sig-1"}],
        },
        {"type": "text", "text": "I ask the station."},
    ]


async def test_reasoning_of_nvidia() -> None:
    """It goes back in its field while the calls are answered."""
    _, sent = await answered("nvidia", "nvidia/reasoning_and_call")
    assert sent["messages"][1]["reasoning_content"] == "The station knows."


async def test_reasoning_of_copilot() -> None:
    """Its text and its signature go back; the limit has its new name, and no editor is named."""
    _, sent = await answered("github-copilot", "github-copilot/signed_reasoning", max_output_tokens=50)
    turn = sent["messages"][1]
    assert (turn["reasoning_text"], turn["reasoning_opaque"]) == ("Two ports.", "c2lnbmVk")
    assert (sent["max_completion_tokens"], "max_tokens" in sent) == (50, False)
    headers = Provider.from_config("github-copilot:m").preview("x").headers
    assert not {name for name in map(str.lower, headers) if "editor" in name or "copilot" in name}


async def test_sources_beside_choices() -> None:
    """Lists of sources beside the choices are citations without a place, each once."""
    reply, sent = await answered("nvidia", "chunks/sources_beside_choices")
    assert [(cited.url, cited.title, cited.start) for cited in reply.citations] == [
        ("https://harbour.example/history", "The harbour", None),
        ("https://town.example/port", "The port", None),
    ]
    assert "citations" not in sent["messages"][1]


# What each row sends of one request: the address, the role of a developer's message, and the members beside messages
# and tools. They are those of its documentation.
CHAT: dict[str, Any] = {
    "model": "some-model",
    "stream": True,
    "stream_options": {"include_usage": True},
    "tool_choice": "required",
    "max_tokens": 100,
    "stop": ["x"],
    "reasoning_effort": "high",
    "response_format": {"type": "json_object"},
}
RENAMED = {**{name: value for name, value in CHAT.items() if name != "max_tokens"}, "max_completion_tokens": 100}
SWITCHED = {**CHAT, "reasoning": {"enabled": True}}
GLM = {name: value for name, value in CHAT.items() if name != "stream_options"} | {
    "tool_choice": "auto",
    "thinking": {"type": "enabled"},
}
RESPONSES: dict[str, Any] = {
    "model": "some-model",
    "stream": True,
    "max_output_tokens": 100,
    "reasoning": {"effort": "high"},
    "store": False,
}
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "perplexity": (
        "https://api.perplexity.ai/v1/responses",
        "developer",
        {**RESPONSES, "response_format": {"type": "json_object"}},
    ),
    "databricks": ("${DATABRICKS_HOST}/serving-endpoints/chat/completions", "system", CHAT),
    "nvidia": ("https://integrate.api.nvidia.com/v1/chat/completions", "developer", CHAT),
    "github-copilot": ("https://api.githubcopilot.com/chat/completions", "developer", RENAMED),
    "github-copilot-responses": (
        "https://api.githubcopilot.com/responses",
        "developer",
        {
            **RESPONSES,
            "tool_choice": "required",
            "text": {"format": {"type": "json_object"}},
            "include": ["reasoning.encrypted_content"],
        },
    ),
    "deepinfra": ("https://api.deepinfra.com/v1/openai/chat/completions", "system", SWITCHED),
    "vercel": ("https://ai-gateway.vercel.sh/v1/chat/completions", "developer", SWITCHED),
    "vercel-anthropic": (
        "https://ai-gateway.vercel.sh/v1/messages",
        "user",
        {
            "model": "some-model",
            "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief.\n\nAnswer with one JSON object, and with nothing else."}],
            "stream": True,
            "tool_choice": {"type": "any"},
            "stop_sequences": ["x"],
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
        },
    ),
    "sambanova": ("https://api.sambanova.ai/v1/chat/completions", "system", CHAT),
    "nebius": ("https://api.tokenfactory.nebius.com/v1/chat/completions", "developer", CHAT),
    "cohere": ("https://api.cohere.ai/compatibility/v1/chat/completions", "developer", CHAT),
    "cloudflare": (
        "https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1/chat/completions",
        "developer",
        CHAT,
    ),
    "baseten": ("https://inference.baseten.co/v1/chat/completions", "developer", CHAT),
    "zai-coding": ("https://api.z.ai/api/coding/paas/v4/chat/completions", "system", GLM),
    "bigmodel-coding": ("https://open.bigmodel.cn/api/coding/paas/v4/chat/completions", "system", GLM),
    "meta": ("https://api.meta.ai/v1/chat/completions", "developer", {**CHAT, "tool_choice": "auto"}),
}


@each_row("row", REQUESTS)
def test_a_request(row: str) -> None:
    """Address, role and members are those that the endpoint documents."""
    url, role, members = REQUESTS[row]
    provider = Provider.from_config(row, model="some-model")
    preview = provider.preview(
        [{"role": "developer", "content": "Be brief."}, user("How is the tide?")],
        [TIDE],
        tool_choice="required",
        reasoning_effort="high",
        max_output_tokens=100,
        response_format="json",
        stop=["x"],
    )
    body = json.loads(preview.body)
    first = (body.pop("messages", None) or body.pop("input"))[0]
    assert len(body.pop("tools")) == 1
    assert (preview.url, first["role"], body) == (url, role, members)


def test_a_provider_without_the_choice_none() -> None:
    """The tools are left out, which means the same."""
    body = json.loads(Provider.from_config("meta:m").preview("x", [TIDE], tool_choice="none").body)
    assert not {"tools", "tool_choice"} & body.keys()


async def test_what_deepinfra_charged() -> None:
    """The cost is the provider's own, and output counts the reasoning that the server has beside it."""
    reply, _ = await answered("deepinfra", "deepinfra/reasoning_beside_usage")
    assert reply.cost is not None
    assert reply.usage is not None
    assert (float(reply.cost.amount), reply.usage.output_tokens) == (0.0000421, 86)


async def test_details_of_vercel() -> None:
    """They go back joined, with their signature, instead of the reasoning's text."""
    _, sent = await answered("vercel", "vercel/signed_details")
    turn = sent["messages"][1]
    assert turn["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "format": "anthropic-claude-v1",
            "index": 0,
            "text": "The station knows.",
            "signature": "sig-1",
        }
    ]
    assert "reasoning" not in turn


@each_row("row", ["deepinfra", "baseten"])
async def test_reasoning_content_goes_back(row: str) -> None:
    """In the field that it came in, while the calls are answered."""
    _, sent = await answered(row, f"{row}/reasoning_and_call")
    assert sent["messages"][1]["reasoning_content"] == "The station knows."
