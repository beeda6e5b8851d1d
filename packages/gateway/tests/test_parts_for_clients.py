"""Clients of the gateway get an answer that takes several requests as one, in their own API."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from parted_answers import WIRES, Failing, PartedServer, Step, Wire
from streamfold import APIError, Provider, Reply, Tool
from streamfold_gateway import gateway

CLIENTS = ("chat", "responses", "anthropic", "gemini")
PAY = Tool("pay", "Pays.", {"type": "object", "properties": {"amount": {"type": "integer"}}})
PARTS = [
    [Step("text", "I will pay, "), Step("call", "pay", "a", {"amount": 1})],
    [Step("text", "unless it ")],
    [Step("text", "is Sunday."), Step("call", "pay", "b", {"amount": 2})],
]


def client_of(server: PartedServer, api: str, **options: Any) -> Provider:
    """A client of this API, which itself continues nothing."""
    app = gateway({"main": server.provider(max_retries=0)}, **options)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app))
    config = {
        "adapter": api,
        "base_url": "http://gateway/v1beta" if api == "gemini" else "http://gateway/v1",
        "model": "main",
        "api_key": "k",
        "max_retries": 0,
        "max_continuations": 0,
    }
    return Provider.from_config(config, http_client=http)


async def asked(server: PartedServer, api: str, stream: bool) -> Reply:
    return await client_of(server, api).chat("Pay?", [PAY], stream=stream)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", CLIENTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_one_answer_in_each_api(wire: Wire, api: str, stream: bool) -> None:
    """It is the answer that one response would have been, with the usage of all requests."""
    server = PartedServer(wire, PARTS)
    reply = await asked(server, api, stream)
    whole = await asked(PartedServer(wire, [[step for part in PARTS for step in part]]), api, stream)
    assert reply.text == whole.text == "I will pay, unless it is Sunday."
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        (call.name, call.arguments) for call in whole.tool_calls
    ]
    assert len(reply.tool_calls) == 2
    assert (reply.finish_reason, reply.paused) == (whole.finish_reason, False)
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (60, 6)
    assert len(server.bodies) == 3


@pytest.mark.parametrize("api", CLIENTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_break_of_a_later_part_is_an_error(wire: Wire, api: str) -> None:
    """The client gets what was shown, and an error, and no calls."""
    server = PartedServer(wire, PARTS, lambda part, _: Failing(status=503) if part == 2 else None)
    with pytest.raises(APIError) as failed:
        await asked(server, api, True)
    assert failed.value.partial is not None
    assert failed.value.partial.text == "I will pay, unless it "
    assert failed.value.partial.tool_calls == []


async def test_a_token_of_a_client_is_passed_on() -> None:
    """A client of Gemini's API may continue an answer of an earlier request; the gateway continues from there."""
    server = PartedServer("gemini", PARTS)
    app = gateway({"main": server.provider()})
    body = {"contents": [{"role": "user", "parts": [{"text": "Pay?"}]}], "continuationToken": "MQ=="}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as http:
        response = await http.post("/v1beta/models/main:generateContent", json=body)
    assert response.json()["candidates"][0]["finishReason"] == "STOP"
    assert [sent["continuationToken"] for sent in server.bodies] == ["MQ==", "VE9LRU40=", "VE9LRU41="]


async def test_a_provider_without_continuations_lets_the_client_continue() -> None:
    """The client of the provider's own API gets the part as it ended, with its token."""
    server = PartedServer("gemini", PARTS)
    app = gateway({"main": server.provider(max_continuations=0)})
    body = {"contents": [{"role": "user", "parts": [{"text": "Pay?"}]}]}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as http:
        response = await http.post("/v1beta/models/main:generateContent", json=body)
    (candidate,) = response.json()["candidates"]
    assert (candidate["finishReason"], candidate["continuationToken"]) == ("CONTINUATION", "VE9LRU40=")
    assert "functionCall" not in json.dumps(candidate)


@pytest.mark.parametrize("wire", WIRES)
async def test_each_request_is_reserved_from_the_budget_of_the_key(wire: Wire) -> None:
    """When the budget of the client is spent, the next part is not requested, and the client is told so."""
    prices = {"input": 0, "output": 1_000_000}  # the parts cost 1, 2 and 3
    for budget, sent in ((100, 3), (3, 2), (1, 1)):
        server = PartedServer(wire, PARTS)
        provider = server.provider(prices=prices, options={"max_output_tokens": 1})
        keys = {"guest": {"key": "guest-key", "max_cost_per_day": budget}}
        app = gateway({"main": provider}, keys=keys)
        body = {"model": "main", "messages": [{"role": "user", "content": "Pay?"}], "stream": True}
        headers = {"authorization": "Bearer guest-key"}
        async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as http:
            first = await http.post("/v1/chat/completions", json=body, headers=headers)
            then = await http.post("/v1/chat/completions", json=body, headers=headers) if sent < 3 else None
        assert len(server.bodies) == sent
        assert ("is spent" in first.text or "reserved" in first.text) == (sent < 3)
        assert ('"finish_reason":"tool_calls"' in first.text.replace(" ", "")) == (sent == 3)
        assert then is None or then.status_code == 429
