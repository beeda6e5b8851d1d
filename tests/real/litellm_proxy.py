"""LiteLLM's proxy, offline, before llama.cpp and before a server of ours."""

from __future__ import annotations

import json
from dataclasses import dataclass

KEY = "sk-loopback"
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "DISABLE_ADMIN_UI": "True",
    "NO_DOCS": "True",
    "NO_PROXY": "127.0.0.1",
}


@dataclass(frozen=True)
class LiteLLM:
    """Where it is, and the port on which it looks for the server of a test."""

    base_url: str
    upstream: int


def config(llamacpp: str, upstream: int) -> str:
    """Its configuration, in YAML, of which JSON is a part. The names of the models are those of the tests."""
    scripted = f"http://127.0.0.1:{upstream}/v1"
    models = {
        "scripted": {"model": "openai/gpt-4o", "api_base": scripted},  # either API, as it is
        "scripted-bridge": {"model": "lm_studio/any", "api_base": scripted},  # Responses made of Chat Completions
        "tiny": {"model": "hosted_vllm/tiny", "api_base": llamacpp},
        "tiny-bridge": {"model": "lm_studio/tiny", "api_base": llamacpp},
        "tiny-messages": {"model": "anthropic/tiny", "api_base": llamacpp.removesuffix("/v1")},
        "mock-429": {"model": "openai/gpt-4o", "mock_response": "litellm.RateLimitError"},
        "mock-500": {"model": "openai/gpt-4o", "mock_response": "litellm.InternalServerError"},
    }
    settings = {
        "model_list": [
            {"model_name": name, "litellm_params": {**params, "api_key": "none"}} for name, params in models.items()
        ],
        "litellm_settings": {"telemetry": False, "num_retries": 0, "drop_params": True},
        "general_settings": {"master_key": KEY},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    return json.dumps(settings)
