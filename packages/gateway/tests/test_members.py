"""Members of clients' requests: which reach a provider, and which the operator decides alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from gateways import CHAT, MESSAGES, RESPONSES, client_of
from mirror import emit
from streamfold import ConfigError, Provider
from streamfold.deltas import Finish, TextDelta
from streamfold.recording import Recording, ReplayTransport
from streamfold_gateway import gateway
from tables import each_row

GEMINI = "/v1beta/models/main:generateContent"
SAID = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "main", "messages": SAID},
    RESPONSES: {"model": "main", "input": "Hi", "store": False},
    MESSAGES: {"model": "main", "messages": SAID, "max_tokens": 9},
    GEMINI: {"contents": [{"parts": [{"text": "Hi"}]}]},
}
ADAPTERS = {CHAT: "chat", RESPONSES: "responses", MESSAGES: "anthropic", GEMINI: "gemini"}
KEYS: dict[str, dict[str, Any]] = {
    "anything": {},
    "one model": {"models": ["main"]},
    "a budget": {"max_cost_per_day": 1000},
}


async def sent_for(
    path: str, key: Mapping[str, Any], members: Mapping[str, Any], *, adapter: str = "", **rest: Any
) -> tuple[dict[str, Any], str]:
    """Returns what the provider was sent for a request with these members, and the warnings in its answer."""
    adapter = adapter or ADAPTERS[path]
    answer = Recording("hello", emit(adapter, [TextDelta("Hi"), Finish("stop", "stop")]), adapter)
    config = {"base_url": "http://u/v1", "model": "m", "adapter": adapter, "max_retries": 0}
    config |= {"prices": {"input": 1, "output": 1}, "extra_body": rest.pop("extra_body", {})}
    transport = ReplayTransport([answer])
    async with httpx.AsyncClient(transport=transport) as upstream:
        provider = Provider.from_config(config, http_client=upstream)
        app = gateway({"main": provider}, keys={"alice": {"key": "a", **key}}, **rest)
        async with app, client_of(app) as client:
            got = await client.post(path, json={**BODIES[path], **members}, headers={"authorization": "Bearer a"})
            assert got.status_code == 200, got.text
    sent: dict[str, Any] = json.loads(transport.requests[0].content)
    return sent, got.headers.get("x-streamfold-warnings", "")


CHOOSING: dict[str, Any] = {
    "models": ["expensive"],
    "fallbacks": ["expensive"],
    "route": "fallback",
    "preset": "expensive",
    "fallback_models": ["expensive"],
    "context_window_fallbacks": [{"m": ["expensive"]}],
    "model_list": [{"model_name": "expensive"}],
    "user_config": {"x": "expensive"},
    "litellm_params": {"x": "expensive"},
    "router_settings_override": {"x": "expensive"},
    "deployment_id": "expensive",
    "lora_path": "expensive",
    "lora": [{"id": 1, "x": "expensive"}],
    "mODELS": ["expensive"],  # Go's reader of JSON ignores case
    "api_base": "http://expensive",
    "apiBase": "http://expensive",
    "base_url": "http://expensive",
    "baseURL": "http://expensive",
    "api_key": "expensive",
    "aws_secret_access_key": "expensive",
    "aws_region_name": "expensive",
    "vertex_credentials": "expensive",
    "azure_ad_token": "expensive",
    "custom_llm_provider": "expensive",
    "extra_headers": {"authorization": "expensive"},
    "organization": "expensive",
    "bootstrap_host": "expensive",
    "kv_transfer_params": {"x": "expensive"},
    "tensorzero::credentials": {"x": "expensive"},
    "providerOptions": {"gateway": {"models": ["expensive"], "byok": {"openai": [{"apiKey": "expensive"}]}}},
    "provider_options": {"gateway": {"fallbackModels": ["expensive"]}},
    "extra_body": {"nested": [{"api_base": "expensive"}]},
    "plugins": [{"id": "auto-router", "allowed_models": ["expensive"]}],
}


@each_row("path", BODIES)
@each_row("key", KEYS)
async def test_no_member_chooses_a_model_an_address_or_a_key(path: str, key: str) -> None:
    """Whatever the key may do: neither at the top of a request nor inside of a member that no API documents."""
    sent, warnings = await sent_for(path, KEYS[key], CHOOSING)
    assert "expensive" not in json.dumps(sent)
    assert "option_dropped: models, fallbacks, route" in warnings


async def test_tools_and_messages_choose_no_other_model() -> None:
    """A key with `models` can't reach another one by a tool of the provider; schemas of functions stay as they are."""
    schema = {"type": "object", "properties": {"models": {"type": "string"}, "api_key": {"type": "string"}}}
    tools = [
        {"type": "function", "name": "f", "parameters": schema},
        {"type": "image_generation", "model": "expensive", "size": "auto"},
        {"type": "openrouter:fusion", "parameters": {"analysis_models": ["expensive"]}},
        {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example", "authorization": "t"},
    ]
    sent, _ = await sent_for(RESPONSES, KEYS["one model"], {"tools": tools})
    assert sent["tools"] == [
        tools[0],
        {"type": "image_generation", "size": "auto"},
        {"type": "openrouter:fusion", "parameters": {}},
        tools[3],
    ]
    sent, _ = await sent_for(RESPONSES, {}, {"tools": tools[:2]})
    assert sent["tools"] == tools[:2]
    messages = [{"role": "user", "content": "Hi", "models": ["expensive"], "cache_control": {"type": "ephemeral"}}]
    sent, _ = await sent_for(CHAT, {}, {"messages": messages})
    assert sent["messages"] == [{"role": "user", "content": "Hi", "cache_control": {"type": "ephemeral"}}]


DOCUMENTED: dict[str, dict[str, Any]] = {
    CHAT: {
        "top_k": 3, "chat_template_kwargs": {"models": True}, "guided_json": {"properties": {"models": {}}},
        "repetition_penalty": 1.1, "grammar": "root ::= [0-9]", "regex": "[0-9]", "logit_bias": {"1": 2},
        "thinking": {"type": "enabled"}, "reasoning": {"max_tokens": 5}, "metadata": {"route": "checkout"},
    },
    RESPONSES: {"top_k": 3, "truncation": "auto", "metadata": {"a": "b"}, "max_tool_calls": 3},
    MESSAGES: {"top_k": 3, "mcp_servers": [{"type": "url", "url": "https://mcp.example", "name": "s"}]},
    GEMINI: {"safetySettings": [{"category": "x", "threshold": "OFF"}], "generationConfig": {"topK": 3}},
}  # fmt: skip
UNDOCUMENTED: dict[str, dict[str, Any]] = {
    CHAT: {
        "x": 1, "provider": {"sort": "price"}, "plugins": [{"id": "web"}], "service_tier": "priority", "n_predict": 9,
        "Max_Tokens": 9,
    },
    RESPONSES: {"x": 1, "service_tier": "priority", "text": {"verbosity": "low", "tone": 1}},
    MESSAGES: {"x": 1, "service_tier": "priority", "speed": "fast", "thinking": {"type": "adaptive", "y": 1}},
    GEMINI: {"x": 1, "serviceTier": "priority", "generationConfig": {"topK": 3, "y": 1}},
}  # fmt: skip


@each_row("path", BODIES)
@each_row("key", KEYS)
async def test_documented_members_are_sent(path: str, key: str) -> None:
    """For every key, also those that only vLLM, SGLang or llama.cpp document, with the caller's data unchanged."""
    sent, warnings = await sent_for(path, KEYS[key], DOCUMENTED[path])
    assert {name: sent.get(name) for name in DOCUMENTED[path]} == DOCUMENTED[path]
    assert "option_dropped" not in warnings


@each_row("path", BODIES)
@each_row("key", ["one model", "a budget"])
async def test_undocumented_members_need_permission(path: str, key: str) -> None:
    """A key with `models` or a budget sends none but those that it lists; other keys send them all."""
    asked = UNDOCUMENTED[path]
    anything, _ = await sent_for(path, {}, asked)
    assert {name: anything.get(name) for name in asked} == asked
    sent, warnings = await sent_for(path, KEYS[key], asked)
    nested = {"text": {"verbosity": "low"}, "generationConfig": {"topK": 3}}
    assert {name: sent[name] for name in asked if name in sent and name != "thinking"} == {
        name: value for name, value in nested.items() if name in asked
    }
    assert "y" not in sent.get("thinking", {})
    assert "option_dropped: x" in warnings
    listed, _ = await sent_for(path, {**KEYS[key], "passthrough_members": ["x"]}, asked)
    assert listed["x"] == 1


async def test_a_choosing_member_is_never_passed_through() -> None:
    """It can't be listed for a key."""
    for name in ("models", "provider.api_key"):
        keys = {"alice": {"key": "a", "passthrough_members": [name]}}
        with pytest.raises(ConfigError, match="chooses a model, an address or an API key"):
            gateway({"main": {"base_url": "http://u/v1", "model": "m"}}, keys=keys)


OPERATOR = {"provider": {"data_collection": "deny", "only": ["a"]}, "top_k": 1, "store": False}


@each_row("key", ["anything", "one model"])
async def test_what_the_operator_sets_wins(key: str) -> None:
    """Members of the provider's `extra_body` keep their values; those beside them are merged."""
    asked = {"provider": {"data_collection": "allow", "sort": "price"}, "top_k": 50, "min_p": 0.1}
    sent, warnings = await sent_for(CHAT, KEYS[key], asked, extra_body=OPERATOR)
    provider = {**OPERATOR["provider"], **({"sort": "price"} if key == "anything" else {})}  # type: ignore[dict-item]
    assert {name: sent[name] for name in ("provider", "top_k", "store", "min_p")} == {
        **OPERATOR, "provider": provider, "min_p": 0.1,
    }  # fmt: skip
    assert "top_k" in warnings
    assert "provider" in warnings


async def test_what_the_operator_sets_wins_over_members_with_another_name() -> None:
    """It is compared with what is sent: Chat's `verbosity` is `text.verbosity` of the Responses API."""
    configured = {"text": {"verbosity": "low"}}
    sent, warnings = await sent_for(CHAT, {}, {"verbosity": "high"}, adapter="responses", extra_body=configured)
    assert sent["text"] == {"verbosity": "low"}
    assert "option_dropped: text.verbosity: not sent" in warnings


async def test_what_the_operator_of_each_endpoint_sets_wins() -> None:
    """Where providers that stand in for each other are configured differently, each keeps its own values."""
    answer = Recording("hello", emit("chat", [TextDelta("Hi"), Finish("stop", "stop")]), "chat")
    failed = Recording("down", b'{"error":{"message":"down"}}', "chat", status=500)
    transport = ReplayTransport([failed, answer])
    config = {"base_url": "http://u/v1", "model": "m", "max_retries": 0}
    async with httpx.AsyncClient(transport=transport) as upstream:
        other = Provider.from_config({**config, "extra_body": {"provider": {"zdr": True}}}, http_client=upstream)
        main = {**config, "extra_body": {"provider": {"data_collection": "deny"}}}
        model = Provider.from_config(main, http_client=upstream)
        model = Provider(model.profile, http_client=upstream, fallbacks=[other])
        app = gateway({"main": model})
        async with app, client_of(app) as client:
            await client.post(CHAT, json={**BODIES[CHAT], "provider": {"sort": "price", "zdr": False}})
    assert [json.loads(request.content)["provider"] for request in transport.requests] == [
        {"data_collection": "deny"},
        {"zdr": True},
    ]
