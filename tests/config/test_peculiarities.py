"""What is particular to an endpoint: its documented answer is read, and the next request has what it wants back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamfold import Provider, Reply, WebSearch, tool_result, user
from streamfold.recording import Recording

FIXTURES = Path(__file__).parents[2] / "fixtures"
TIDE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "get_tide", "description": "", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and keys of nobody."""
    monkeypatch.setenv("DATABRICKS_HOST", "https://acme.cloud.databricks.com")
    for name in ("DATABRICKS_TOKEN", "PERPLEXITY_API_KEY", "NVIDIA_API_KEY", "COPILOT_GITHUB_TOKEN"):
        monkeypatch.setenv(name, "k-test")


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
